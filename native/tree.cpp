// Growing a 2-HST, once per instruction set, with multiply-add contraction off.
//
// A cluster is a range of items. To split it, its items are shuffled; the first is a centre and takes all within the
// radius, then the first that is left, and so on. Who is taken keeps its order, so a tree is a function of the seed
// and of the distances: not of threads, nor of how many centres are tried at once.
#include "kernels.hpp"
#include "tree_spaces.hpp"

namespace kv::KV_ISA {
namespace {

constexpr index_t ALONE = 1 << 14;  // a cluster of at most so many points, or n / 64, is one thread's

struct Cluster {
    index_t begin, end;
    index_t parent;  // a node, or an entry of the plan
    int top;         // it is a cluster at this height
    std::int32_t centre;
    double reach;  // the largest distance to the centre
    std::uint64_t seed;
};

struct Nodes {
    std::vector<std::int32_t> parent, centre;
    std::vector<std::int16_t> height;

    index_t add(index_t up, int h, std::int32_t c) {
        parent.push_back(static_cast<std::int32_t>(up));
        height.push_back(static_cast<std::int16_t>(h));
        centre.push_back(c);
        return static_cast<index_t>(parent.size()) - 1;
    }
};

struct Cut {
    index_t inside;
    double reach;  // a value, not yet a length
};

template <class Source, bool = Source::lanes>
struct SieveOf {
    using type = Nothing;
};
template <class Source>
struct SieveOf<Source, true> {
    using type = typename Source::Sieve;
};

template <class Source>
class Grower {
    using Item = typename Source::Item;
    using Aim = typename Source::Aim;

public:
    Grower(const Source& source, std::uint64_t seed, Grown& out)
        : source_(source), radii_(seed, true), out_(out), n_(source.n()), leaf_(static_cast<std::size_t>(n_)) {
        items_.resize(static_cast<std::size_t>(n_));
        rest_.resize(items_.size());
        for (index_t i = 0; i < n_; ++i) items_[i] = source.item(i);
        root_ = {0, n_, -1, FAR, static_cast<std::int32_t>(mixed(seed, 1) % static_cast<std::uint64_t>(n_)), 0, mixed(seed, 2)};
    }

    void run() {
        Hand hand;
        hand.threads = Source::threads ? threads_for(static_cast<double>(n_) * source_.work()) : 1;
        root_.reach = source_.length(farthest(items_[root_.centre], hand));
        radii_.keep(std::min(FAR, root_.reach > 0 ? radii_.below(2 * root_.reach) + 1 : 0));
        hand.alone = true;
        plan(hand);
        grow_tasks(threads_for(static_cast<double>(n_) * (source_.work() + 4) * 32));
        collect();
    }

private:
    struct Hand {  // what one thread works with
        Aim aim;
        std::vector<double> values;
        std::vector<Cluster> children;
        // for many centres at once
        Aim aims[LANES];
        std::vector<std::int8_t> lane;
        typename SieveOf<Source>::type sieve;
        int threads = 1;
        bool alone = false;  // no other thread is at work: it may ask whether to stop
    };
    struct Task {
        Cluster cluster;
        Nodes nodes;
    };

    double farthest(const Item centre, Hand& hand) {
        source_.aim(centre, hand.aim);
        double most = 0;
        const index_t step = std::min(Source::pass, n_);
        hand.values.resize(static_cast<std::size_t>(step));
        for (index_t i = 0; i < n_; i += step) {
            const index_t count = std::min(step, n_ - i);
            source_.measure(hand.aim, items_.data() + i, count, hand.values.data());
            for (index_t j = 0; j < count; ++j) most = std::max(most, items_[i + j].id == centre.id ? 0 : hand.values[j]);
        }
        return most;
    }

    // Those within `limit` of from[0] go to `in`, the others to `out`; either may be where they come from.
    Cut cut(const Item* from, index_t count, Item* in, Item* out, double limit, Hand& hand) const {
        source_.aim(*from, hand.aim);
        const index_t step = std::min(Source::pass, count);
        if (static_cast<index_t>(hand.values.size()) < step) hand.values.resize(static_cast<std::size_t>(step));
        double* value = hand.values.data();
        Item *a = in, *b = out;
        double reach = 0;
        for (index_t i = 0; i < count; i += step) {
            const index_t some = std::min(step, count - i);
            source_.measure(hand.aim, from + i, some, value);
            if (i == 0) value[0] = 0;
            for (index_t j = 0; j < some; ++j) {
                const Item item = from[i + j];
                const bool inside = value[j] <= limit;
                *a = item;
                *b = item;
                a += inside;
                b += !inside;
                reach = std::max(reach, inside ? value[j] : 0.0);
            }
        }
        return {a - in, reach};
    }

    // The cluster's fate: a leaf, or a node whose children are put on the stack, the first on top.
    void settle(Cluster c, Nodes& nodes, std::vector<Cluster>& stack, Hand& hand) {
        Item *items = items_.data() + c.begin, *rest = rest_.data() + c.begin;
        const index_t count = c.end - c.begin;
        for (;;) {
            if (count == 1 || c.reach == 0) return leave(c, nodes);
            // Any two points are at most 2 * reach apart: where the radius is as large, any centre takes them all.
            const int h = std::min(c.top - 1, radii_.below(2 * c.reach));
            const double limit = source_.value(radii_(h));
            shuffle(items, count, mixed(c.seed, static_cast<std::uint64_t>(h + 4096)));
            const std::int32_t first = items->id;
            const Cut all = cut(items, count, items, rest, limit, hand);
            if (all.inside == count) {
                c.top = h;
                c.centre = first;
                c.reach = source_.length(all.reach);
                continue;
            }
            const index_t node = nodes.add(c.parent, h + 1, c.centre);
            hand.children.clear();
            const auto child = [&](index_t begin, const Cut& part, std::int32_t centre) {
                const auto nth = static_cast<std::uint64_t>(hand.children.size());
                hand.children.push_back({c.begin + begin, c.begin + begin + part.inside, node, h, centre,
                                         source_.length(part.reach), mixed(c.seed, nth)});
            };
            child(0, all, first);
            index_t done = all.inside, last = all.inside;
            while (done < count) {
                if (hand.alone && user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
                if constexpr (Source::lanes) {
                    if (count - done >= 4 * LANES && last * LANES < count - done) {
                        done = cut_many(rest, count - done, items + done, done, limit, hand, child);
                        continue;
                    }
                }
                const std::int32_t centre = rest->id;
                const Cut part = cut(rest, count - done, items + done, rest, limit, hand);
                child(done, part, centre);
                done += part.inside;
                last = part.inside;
            }
            stack.insert(stack.end(), hand.children.rbegin(), hand.children.rend());
            return;
        }
    }

    void leave(const Cluster& c, Nodes& nodes) {
        const index_t node = nodes.add(c.parent, c.parent < 0 && c.top == FAR ? 0 : c.top, c.centre);
        for (index_t i = c.begin; i < c.end; ++i) leaf_[items_[i].id] = static_cast<std::int32_t>(node);
    }

    // The first sixteen that are left are tried at once: the source's sieve rules out most pairs, the rest is measured.
    template <class Child>
    index_t cut_many(Item* rest, index_t count, Item* to, index_t done, double limit, Hand& hand, const Child& child) {
        if (static_cast<index_t>(hand.lane.size()) < count) hand.lane.resize(static_cast<std::size_t>(count));
        if (static_cast<index_t>(hand.values.size()) < count) hand.values.resize(static_cast<std::size_t>(count));
        Item centre[LANES];
        int centres = 0;
        const auto decide = [&](index_t i, unsigned maybe) {
            hand.lane[i] = -1;
            for (; maybe; maybe &= maybe - 1) {
                const int j = __builtin_ctz(maybe);
                const double v = source_.exactly(hand.aims[j], rest[i]);
                if (v <= limit) {
                    hand.lane[i] = static_cast<std::int8_t>(j);
                    hand.values[i] = v;
                    return;
                }
            }
        };
        for (index_t i = 0; i < LANES; ++i) {
            decide(i, (1u << centres) - 1);
            if (hand.lane[i] >= 0) continue;
            source_.aim(rest[i], hand.aims[centres]);
            hand.lane[i] = static_cast<std::int8_t>(centres);
            hand.values[i] = 0;
            centre[centres++] = rest[i];
        }
        source_.ready(centre, centres, limit, hand.sieve);
        const unsigned real = (1u << centres) - 1;
        const auto block = [&](index_t b) {
            const index_t end = std::min(count, LANES + (b + 1) * PASS);
            for (index_t i = LANES + b * PASS; i < end; i += 4) {
                Item four[4];
                unsigned maybe[4];
                for (index_t p = 0; p < 4; ++p) four[p] = rest[std::min(i + p, end - 1)];
                source_.sift(hand.sieve, four, maybe);
                for (index_t p = 0; p < 4 && i + p < end; ++p) decide(i + p, maybe[p] & real);
            }
        };
        const index_t blocks = (count - LANES + PASS - 1) / PASS;
        if (hand.threads > 1) {
            parallel(blocks, hand.threads, block);
        } else {
            for (index_t b = 0; b < blocks; ++b) block(b);
        }
        index_t size[LANES] = {}, at[LANES];
        double reach[LANES] = {};
        for (index_t i = 0; i < count; ++i)
            if (hand.lane[i] >= 0) {
                ++size[hand.lane[i]];
                reach[hand.lane[i]] = std::max(reach[hand.lane[i]], hand.values[i]);
            }
        index_t taken = 0;
        for (int p = 0; p < centres; ++p) {
            at[p] = taken;
            child(done + taken, Cut{size[p], reach[p]}, centre[p].id);
            taken += size[p];
        }
        index_t left = 0;
        for (index_t i = 0; i < count; ++i) {
            if (hand.lane[i] >= 0)
                to[at[hand.lane[i]]++] = rest[i];
            else
                rest[left++] = rest[i];
        }
        return done + taken;
    }

    // Large clusters are split here, in preorder; small ones become tasks, which threads take.
    void plan(Hand& hand) {
        const index_t alone = std::max(ALONE, n_ / 64);
        std::vector<Cluster> stack{root_};
        while (!stack.empty()) {
            const Cluster c = stack.back();
            stack.pop_back();
            if (Source::threads && c.end - c.begin <= alone && n_ > alone) {
                tasks_.push_back({c, {}});
                plan_.add(c.parent, 0, -1);  // its place
            } else {
                settle(c, plan_, stack, hand);
                if (user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
            }
        }
    }

    void grow_tasks(int threads) {
        std::vector<Hand> hands(static_cast<std::size_t>(threads));
        parallel(static_cast<index_t>(tasks_.size()), hands, [&](index_t i, Hand& hand) {
            Task& task = tasks_[i];
            Cluster root = task.cluster;
            root.parent = -1;
            std::vector<Cluster> stack{root};
            while (!stack.empty()) {
                const Cluster c = stack.back();
                stack.pop_back();
                settle(c, task.nodes, stack, hand);
            }
        });
    }

    // Plan and tasks in one preorder.
    void collect() {
        std::vector<index_t> number(plan_.parent.size());
        index_t total = 0, task = 0;
        for (std::size_t i = 0; i < number.size(); ++i) {
            number[i] = total;
            total += plan_.centre[i] < 0 ? static_cast<index_t>(tasks_[task++].nodes.parent.size()) : 1;
        }
        for (auto* part : {&out_.parent, &out_.height, &out_.centre}) part->resize(static_cast<std::size_t>(total));
        out_.leaf.assign(leaf_.begin(), leaf_.end());
        std::vector<char> moved;
        if (!tasks_.empty()) moved.assign(static_cast<std::size_t>(n_), 0);
        task = 0;
        for (std::size_t i = 0; i < number.size(); ++i) {
            const index_t up = plan_.parent[i] < 0 ? -1 : number[plan_.parent[i]];
            if (plan_.centre[i] >= 0) {
                set(number[i], up, plan_.height[i], plan_.centre[i]);
                continue;
            }
            Task& t = tasks_[task++];
            for (std::size_t v = 0; v < t.nodes.parent.size(); ++v) {
                const index_t in = t.nodes.parent[v];
                set(number[i] + static_cast<index_t>(v), in < 0 ? up : number[i] + in, t.nodes.height[v], t.nodes.centre[v]);
            }
            for (index_t p = t.cluster.begin; p < t.cluster.end; ++p) {
                out_.leaf[items_[p].id] += number[i];
                moved[items_[p].id] = 1;
            }
            t.nodes = {};
        }
        if (!tasks_.empty())
            for (index_t i = 0; i < n_; ++i)
                if (!moved[i]) out_.leaf[i] = number[leaf_[i]];
        normalise(out_);
    }

    void set(index_t v, index_t parent, int height, index_t centre) {
        out_.parent[v] = parent;
        out_.height[v] = height;
        out_.centre[v] = centre;
    }

    const Source& source_;
    Radii radii_;
    Grown& out_;
    index_t n_;
    Cluster root_;
    std::vector<Item> items_, rest_;
    std::vector<std::int32_t> leaf_;
    Nodes plan_;
    std::vector<Task> tasks_;
};

template <class Source>
void grow(const Source& source, std::uint64_t seed, Grown& out) {
    Grower<Source>(source, seed, out).run();
}

template <class T, int P>
void over(const View& v, std::uint64_t seed, Grown& out) {
    const T* x = static_cast<const T*>(v.x);
    if (v.sparse) return grow(Sparse<T, P>(Csr<T>{x, v.column, v.start, v.n, v.d}), seed, out);
    const Dense<T> rows{x, v.n, v.d};
    if (v.d == 2) return grow(Few<T, 2, P>{{}, rows}, seed, out);
    if (v.d == 3) return grow(Few<T, 3, P>{{}, rows}, seed, out);
    grow(Many<T, P>{{}, rows}, seed, out);
}

}  // namespace

const TreeKernels tree_kernels = {
    [](const View& v, bool manhattan, std::uint64_t seed, Grown& out) {
        if (manhattan)
            v.wide ? over<double, 1>(v, seed, out) : over<float, 1>(v, seed, out);
        else
            v.wide ? over<double, 2>(v, seed, out) : over<float, 2>(v, seed, out);
    },
    [](const void* D, bool wide, index_t n, std::uint64_t seed, Grown& out) {
        if (wide)
            grow(Given<double>{{}, static_cast<const double*>(D), n}, seed, out);
        else
            grow(Given<float>{{}, static_cast<const float*>(D), n}, seed, out);
    },
    [](const Among& among, index_t n, std::uint64_t seed, Grown& out) { grow(Called{{}, among, n}, seed, out); },
};

}  // namespace kv::KV_ISA
