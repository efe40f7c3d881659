// Builds a 2-HST (see tree.hpp), compiled once per instruction set without fused multiply-add.
//
// A cluster is a range of items. To split it, its items are shuffled. The first one is a centre and takes all items
// within the radius, then the first one that is left, and so on. Items keep their order: a tree is a function of the
// seed and the distances, not of threads or of how many centres are tried at once.
#include "kernels.hpp"
#include "tree_sources.hpp"

namespace kv::KV_ISA {
namespace {

constexpr index_t TASK_SIZE = 1 << 14;  // a cluster of at most so many points, or n / 64, is a task for one thread

struct Cluster {
    index_t begin, end;
    index_t parent;  // a node, or an entry of the plan
    int top;         // a height at which it is a cluster
    std::int32_t center;
    double reach;  // the largest distance to the centre
    std::uint64_t seed;
};

struct Nodes {
    std::vector<std::int32_t> parent, center;
    std::vector<std::int16_t> height;

    index_t add(index_t up, int h, std::int32_t c) {
        parent.push_back(static_cast<std::int32_t>(up));
        height.push_back(static_cast<std::int16_t>(h));
        center.push_back(c);
        return static_cast<index_t>(parent.size()) - 1;
    }
};

struct Ball {
    index_t inside;
    double reach;  // a value, not a length
};

template <class Source>
class TreeBuilder {
    using Item = typename Source::Item;
    using Center = typename Source::Center;

public:
    TreeBuilder(const Source& source, std::uint64_t seed, Tree& out)
        : source_(source), radii_(seed, true), out_(out), n_(source.n()), leaf_(n_) {
        items_.resize(n_);
        rest_.resize(items_.size());
        for (index_t i = 0; i < n_; ++i) items_[i] = source.item(i);
        root_ = {0,
                 n_,
                 -1,
                 INFINITE_HEIGHT,
                 static_cast<std::int32_t>(mix(seed, 1) % static_cast<std::uint64_t>(n_)),
                 0,
                 mix(seed, 2)};
    }

    void run() {
        Worker worker;
        worker.threads = Source::multithreaded ? threads_for(static_cast<double>(n_) * source_.work()) : 1;
        root_.reach = source_.length(farthest(items_[root_.center], worker));
        radii_.cache(std::min(INFINITE_HEIGHT, root_.reach > 0 ? radii_.below(2 * root_.reach) + 1 : 0));
        worker.may_poll = true;
        plan(worker);
        grow_tasks(threads_for(static_cast<double>(n_) * (source_.work() + 4) * 32));
        collect();
    }

private:
    struct Worker {  // scratch of one thread
        Center center;
        std::vector<double> values;
        std::vector<Cluster> children;
        Center centers[TOGETHER];  // this and what follows is for take_balls
        std::vector<std::int8_t> lane;
        typename Source::CenterFilter filter;
        int threads = 1;
        bool may_poll = false;  // no other thread is running, so it may check for an interrupt
    };
    struct Task {
        Cluster cluster;
        Nodes nodes;
    };

    double farthest(const Item center, Worker& worker) {
        source_.prepare(center, worker.center);
        double most = 0;
        const index_t step = std::min(Source::batch, n_);
        worker.values.resize(step);
        for (index_t i = 0; i < n_; i += step) {
            const index_t count = std::min(step, n_ - i);
            source_.measure(worker.center, items_.data() + i, count, worker.values.data());
            for (index_t j = 0; j < count; ++j)
                most = std::max(most, items_[i + j].id == center.id ? 0 : worker.values[j]);
        }
        return most;
    }

    // Moves the items within `limit` of from[0] to `in` and the others to `out`. Either may be `from` itself.
    Ball take_ball(const Item* from, index_t count, Item* in, Item* out, double limit, Worker& worker) const {
        source_.prepare(*from, worker.center);
        const index_t step = std::min(Source::batch, count);
        ensure_size(worker.values, step);
        double* value = worker.values.data();
        Item *a = in, *b = out;
        double reach = 0;
        for (index_t i = 0; i < count; i += step) {
            const index_t some = std::min(step, count - i);
            source_.measure(worker.center, from + i, some, value);
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

    // Makes a cluster a leaf, or a node whose children are pushed on the stack, the first on top.
    void split(Cluster c, Nodes& nodes, std::vector<Cluster>& stack, Worker& worker) {
        Item *items = items_.data() + c.begin, *rest = rest_.data() + c.begin;
        const index_t count = c.end - c.begin;
        for (;;) {
            if (count == 1 || c.reach == 0) return add_leaf(c, nodes);
            // Two points are at most 2 * reach apart: if the radius is that large, any centre takes all points.
            const int h = std::min(c.top - 1, radii_.below(2 * c.reach));
            const double limit = source_.value(radii_(h));
            shuffle(items, count, mix(c.seed, static_cast<std::uint64_t>(h + 4096)));
            const std::int32_t first = items->id;
            const Ball all = take_ball(items, count, items, rest, limit, worker);
            if (all.inside == count) {
                c.top = h;
                c.center = first;
                c.reach = source_.length(all.reach);
                continue;
            }
            const index_t node = nodes.add(c.parent, h + 1, c.center);
            worker.children.clear();
            const auto child = [&](index_t begin, const Ball& part, std::int32_t center) {
                const auto nth = static_cast<std::uint64_t>(worker.children.size());
                worker.children.push_back({c.begin + begin, c.begin + begin + part.inside, node, h, center,
                                           source_.length(part.reach), mix(c.seed, nth)});
            };
            child(0, all, first);
            index_t done = all.inside, last = all.inside;
            while (done < count) {
                if (worker.may_poll && user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
                if constexpr (Source::has_filter) {
                    if (count - done >= 4 * TOGETHER && last * TOGETHER < count - done) {
                        done = take_balls(rest, count - done, items + done, done, limit, worker, child);
                        continue;
                    }
                }
                const std::int32_t center = rest->id;
                const Ball part = take_ball(rest, count - done, items + done, rest, limit, worker);
                child(done, part, center);
                done += part.inside;
                last = part.inside;
            }
            stack.insert(stack.end(), worker.children.rbegin(), worker.children.rend());
            return;
        }
    }

    void add_leaf(const Cluster& c, Nodes& nodes) {
        const index_t node = nodes.add(c.parent, c.parent < 0 && c.top == INFINITE_HEIGHT ? 0 : c.top, c.center);
        for (index_t i = c.begin; i < c.end; ++i) leaf_[items_[i].id] = static_cast<std::int32_t>(node);
    }

    // Tries the first sixteen items that are left at once. The source's filter excludes most pairs; the values of the
    // others are computed.
    template <class Child>
    index_t take_balls(Item* rest, index_t count, Item* to, index_t done, double limit, Worker& worker,
                       const Child& child) {
        ensure_size(worker.lane, count);
        ensure_size(worker.values, count);
        Item center[TOGETHER];
        int centers = 0;
        const auto decide = [&](index_t i, unsigned maybe) {
            worker.lane[i] = -1;
            for (; maybe; maybe &= maybe - 1) {
                const int j = __builtin_ctz(maybe);
                const double v = source_.exact_value(worker.centers[j], rest[i]);
                if (v <= limit) {
                    worker.lane[i] = static_cast<std::int8_t>(j);
                    worker.values[i] = v;
                    return;
                }
            }
        };
        for (index_t i = 0; i < TOGETHER; ++i) {
            decide(i, (1u << centers) - 1);
            if (worker.lane[i] >= 0) continue;
            source_.prepare(rest[i], worker.centers[centers]);
            worker.lane[i] = static_cast<std::int8_t>(centers);
            worker.values[i] = 0;
            center[centers++] = rest[i];
        }
        source_.prepare_filter(center, centers, limit, worker.filter);
        const unsigned used = (1u << centers) - 1;
        const auto block = [&](index_t b) {
            const index_t end = std::min(count, TOGETHER + (b + 1) * BATCH);
            for (index_t i = TOGETHER + b * BATCH; i < end; i += 4) {
                Item four[4];
                unsigned maybe[4];
                for (index_t p = 0; p < 4; ++p) four[p] = rest[std::min(i + p, end - 1)];
                source_.apply_filter(worker.filter, four, maybe);
                for (index_t p = 0; p < 4 && i + p < end; ++p) decide(i + p, maybe[p] & used);
            }
        };
        const index_t blocks = (count - TOGETHER + BATCH - 1) / BATCH;
        if (worker.threads > 1) {
            parallel(blocks, worker.threads, block);
        } else {
            for (index_t b = 0; b < blocks; ++b) block(b);
        }
        index_t size[TOGETHER] = {}, at[TOGETHER];
        double reach[TOGETHER] = {};
        for (index_t i = 0; i < count; ++i)
            if (worker.lane[i] >= 0) {
                ++size[worker.lane[i]];
                reach[worker.lane[i]] = std::max(reach[worker.lane[i]], worker.values[i]);
            }
        index_t taken = 0;
        for (int p = 0; p < centers; ++p) {
            at[p] = taken;
            child(done + taken, Ball{size[p], reach[p]}, center[p].id);
            taken += size[p];
        }
        index_t left = 0;
        for (index_t i = 0; i < count; ++i) {
            if (worker.lane[i] >= 0)
                to[at[worker.lane[i]]++] = rest[i];
            else
                rest[left++] = rest[i];
        }
        return done + taken;
    }

    // Splits large clusters, in preorder, and makes small ones tasks for threads.
    void plan(Worker& worker) {
        const index_t task_size = std::max(TASK_SIZE, n_ / 64);
        std::vector<Cluster> stack{root_};
        while (!stack.empty()) {
            const Cluster c = stack.back();
            stack.pop_back();
            if (Source::multithreaded && c.end - c.begin <= task_size && n_ > task_size) {
                tasks_.push_back({c, {}});
                plan_.add(c.parent, 0, -1);  // a placeholder
            } else {
                split(c, plan_, stack, worker);
                if (user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
            }
        }
    }

    void grow_tasks(int threads) {
        std::vector<Worker> workers(threads);
        parallel(static_cast<index_t>(tasks_.size()), workers, [&](index_t i, Worker& worker) {
            Task& task = tasks_[i];
            Cluster root = task.cluster;
            root.parent = -1;
            std::vector<Cluster> stack{root};
            while (!stack.empty()) {
                const Cluster c = stack.back();
                stack.pop_back();
                split(c, task.nodes, stack, worker);
            }
        });
    }

    // Merges the plan and the tasks into one preorder.
    void collect() {
        std::vector<index_t> number(plan_.parent.size());
        index_t total = 0, task = 0;
        for (std::size_t i = 0; i < number.size(); ++i) {
            number[i] = total;
            total += plan_.center[i] < 0 ? static_cast<index_t>(tasks_[task++].nodes.parent.size()) : 1;
        }
        for (auto* part : {&out_.parent, &out_.height, &out_.center}) part->resize(total);
        out_.leaf.assign(leaf_.begin(), leaf_.end());
        std::vector<char> moved;
        if (!tasks_.empty()) moved.assign(n_, 0);
        task = 0;
        for (std::size_t i = 0; i < number.size(); ++i) {
            const index_t up = plan_.parent[i] < 0 ? -1 : number[plan_.parent[i]];
            if (plan_.center[i] >= 0) {
                set(number[i], up, plan_.height[i], plan_.center[i]);
                continue;
            }
            Task& t = tasks_[task++];
            for (std::size_t v = 0; v < t.nodes.parent.size(); ++v) {
                const index_t in = t.nodes.parent[v];
                set(number[i] + static_cast<index_t>(v), in < 0 ? up : number[i] + in, t.nodes.height[v],
                    t.nodes.center[v]);
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
        normalize(out_);
    }

    void set(index_t v, index_t parent, int height, index_t center) {
        out_.parent[v] = parent;
        out_.height[v] = height;
        out_.center[v] = center;
    }

    const Source& source_;
    Radii radii_;
    Tree& out_;
    index_t n_;
    Cluster root_;
    std::vector<Item> items_, rest_;
    std::vector<std::int32_t> leaf_;
    Nodes plan_;
    std::vector<Task> tasks_;
};

template <class Source>
void build(const Source& source, std::uint64_t seed, Tree& out) {
    TreeBuilder<Source>(source, seed, out).run();
}

template <class T, int P>
void build(const RowsView& v, std::uint64_t seed, Tree& out) {
    const T* x = static_cast<const T*>(v.x);
    if (v.sparse) return build(SparseRows<T, P>(Csr<T>{x, v.column, v.start, v.n, v.d}), seed, out);
    const Dense<T> rows{x, v.n, v.d};
    if (v.d == 2) return build(RowsOfFewFeatures<T, 2, P>{{}, rows}, seed, out);
    if (v.d == 3) return build(RowsOfFewFeatures<T, 3, P>{{}, rows}, seed, out);
    build(RowsOfManyFeatures<T, P>{{}, rows}, seed, out);
}

}  // namespace

const TreeKernels tree_kernels = {
    .over_rows =
        [](const RowsView& v, bool manhattan, std::uint64_t seed, Tree& out) {
            with_type(v.is_double,
                      [&]<class T>(T) { manhattan ? build<T, 1>(v, seed, out) : build<T, 2>(v, seed, out); });
        },
    .over_matrix =
        [](const void* D, bool is_double, index_t n, std::uint64_t seed, Tree& out) {
            with_type(is_double,
                      [&]<class T>(T) { build(DistanceMatrix<T>{{}, static_cast<const T*>(D), n}, seed, out); });
        },
    .over_callable = [](const DistancesFrom& distances_from, index_t n, std::uint64_t seed,
                        Tree& out) { build(CallableDistances{{}, distances_from, n}, seed, out); },
};

}  // namespace kv::KV_ISA
