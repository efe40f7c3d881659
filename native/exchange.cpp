// The search of exchange.hpp, for the objectives of exchange_objectives.hpp.
#include <memory>

#include "exchange_objectives.hpp"
#include "random.hpp"

namespace kv::KV_ISA {
namespace {

constexpr index_t LARGEST_BLOCK = 16384, BLOCKS = 64;  // units evaluated at once: n / BLOCKS, at most LARGEST_BLOCK
constexpr index_t NEAR = 64;                           // places in `order` that are near, at least
constexpr index_t PREFETCHED = 32;                     // partners
constexpr index_t STEP = 64;                           // units that one thread takes at a time
constexpr double LARGE_SWEEP = 5e7;                    // multiply-adds of a sweep that is worth all threads

struct Partner {
    index_t unit = -1;
    double change = 0;
};

template <class Objective>
class Search {
public:
    // alone: no other search runs at the same time, so that this one may use all threads.
    Search(Objective objective, const ExchangeUnits& u, const ExchangeOptions& options, std::uint64_t run,
           label_t* labels, bool alone)
        : objective_(std::move(objective)),
          u_(u),
          options_(options),
          seed_(mix(options.seed, run)),
          labels_(labels),
          place_(u.n),
          kind_(u.n),
          size_(u.groups),
          best_(block()) {
        for (index_t kind = 0; kind < u.kinds; ++kind)
            for (index_t p = u.kind_start[kind]; p < u.kind_start[kind + 1]; ++p)
                place_[u.order[p]] = p, kind_[u.order[p]] = kind;
        for (index_t i = 0; i < u.n; ++i) size_[labels[i]] += u.size[i];
        threads_ = alone ? threads_for(sweep_work(objective_, u, options)) : 1;
    }

    // An estimate of the multiply-adds of a sweep.
    static double sweep_work(const Objective& objective, const ExchangeUnits& u, const ExchangeOptions& options) {
        double pairs = 0;
        for (index_t kind = 0; kind < u.kinds; ++kind) {
            const index_t units = u.kind_start[kind + 1] - u.kind_start[kind];
            pairs += static_cast<double>(units) * static_cast<double>(std::min(units, options.partners));
        }
        return pairs * objective.work();
    }

    ExchangeResult run() {
        ExchangeResult result;
        std::vector<label_t> before(u_.n);
        objective_.recompute(labels_, threads_);
        result.values.push_back(objective_.value());
        while (result.sweeps < options_.max_sweeps && !result.converged) {
            std::copy_n(labels_, u_.n, before.begin());
            result.converged = sweep(static_cast<std::uint64_t>(result.sweeps++)) == 0;
            if (result.converged) break;
            objective_.recompute(labels_, threads_);
            const double value = objective_.value();
            if (value < result.values.back()) {
                result.values.push_back(value);
            } else {  // only rounding errors were left to gain
                std::copy_n(before.begin(), u_.n, labels_);
                result.converged = true;
            }
        }
        return result;
    }

private:
    index_t block() const { return std::clamp<index_t>(u_.n / BLOCKS, 1, LARGEST_BLOCK); }

    // Returns how many exchanges were made.
    index_t sweep(std::uint64_t number) {
        index_t made = 0;
        for (index_t from = 0; from < u_.n; from += block()) {
            const index_t to = std::min(u_.n, from + block());
            const auto evaluate = [&](index_t task) {
                for (index_t i = from + task * STEP; i < std::min(to, from + (task + 1) * STEP); ++i)
                    best_[i - from] = best_partner(i, number);
            };
            const index_t tasks = (to - from + STEP - 1) / STEP;
            if (threads_ > 1)
                parallel(tasks, threads_, evaluate);
            else
                for (index_t task = 0; task < tasks; ++task) evaluate(task);
            for (index_t i = from; i < to; ++i) made += exchange(i, best_[i - from].unit);
        }
        return made;
    }

    Partner best_partner(index_t i, std::uint64_t sweep) const {
        const index_t first = u_.kind_start[kind_[i]], stop = u_.kind_start[kind_[i] + 1], units = stop - first;
        Partner best;
        if (units <= options_.partners) {
            for (index_t p = first; p < stop; ++p) offer(best, i, u_.order[p]);
            return best;
        }
        const std::uint64_t seed = mix(seed_ + sweep, static_cast<std::uint64_t>(i));
        index_t chosen[PREFETCHED];
        for (index_t from = 0; from < options_.partners; from += PREFETCHED) {
            const index_t count = std::min(PREFETCHED, options_.partners - from);
            for (index_t t = 0; t < count; ++t) {
                chosen[t] = sampled_partner(i, first, stop, from + t, seed);
                objective_.prefetch(chosen[t]);
            }
            for (index_t t = 0; t < count; ++t) offer(best, i, chosen[t]);
        }
        return best;
    }
    // One of four is any unit of the kind, and the others are near in `order`.
    index_t sampled_partner(index_t i, index_t first, index_t stop, index_t number, std::uint64_t seed) const {
        const index_t near = std::min(std::max(NEAR, 2 * options_.partners), stop - first);
        const index_t window = number % 4 ? near : stop - first;
        const index_t low = std::clamp(place_[i] - window / 2, first, stop - window);
        const auto random = static_cast<unsigned __int128>(mix(seed + static_cast<std::uint64_t>(number) * STRIDE));
        return u_.order[low + static_cast<index_t>((random * static_cast<std::uint64_t>(window)) >> 64)];
    }
    void offer(Partner& best, index_t i, index_t j) const {
        const index_t a = labels_[i], b = labels_[j];
        if (a == b || !sizes_allow(i, a, j, b)) return;
        const double change = objective_.change(i, a, j, b);
        if (change < best.change && !links_forbid(i, j)) best = {j, change};
    }
    bool exchange(index_t i, index_t j) {
        if (j < 0) return false;
        const label_t a = labels_[i], b = labels_[j];
        if (a == b || !sizes_allow(i, a, j, b) || links_forbid(i, j)) return false;
        if (!objective_.improves(objective_.change(i, a, j, b), i, a, j, b)) return false;
        objective_.exchange(i, a, j, b);
        labels_[i] = b, labels_[j] = a;
        size_[a] += u_.size[j] - u_.size[i], size_[b] -= u_.size[j] - u_.size[i];
        return true;
    }
    bool sizes_allow(index_t i, index_t a, index_t j, index_t b) const {
        const index_t more = u_.size[j] - u_.size[i], to_a = size_[a] + more, to_b = size_[b] - more;
        return more == 0 || (u_.low[a] <= to_a && to_a <= u_.high[a] && u_.low[b] <= to_b && to_b <= u_.high[b]);
    }
    bool links_forbid(index_t i, index_t j) const { return meets(i, labels_[j], j) || meets(j, labels_[i], i); }
    // Whether unit i may not be in the group, even if unit `leaving` leaves it.
    bool meets(index_t i, label_t group, index_t leaving) const {
        for (index_t e = u_.link_start[i]; e < u_.link_start[i + 1]; ++e)
            if (u_.link[e] != leaving && labels_[u_.link[e]] == group) return true;
        return false;
    }

    Objective objective_;
    const ExchangeUnits& u_;
    const ExchangeOptions& options_;
    const std::uint64_t seed_;
    label_t* labels_;
    std::vector<index_t> place_, kind_, size_;  // size_: rows of each group
    std::vector<Partner> best_;
    int threads_ = 1;
};

// Searches from every start. Small searches run side by side; large ones use all threads, one after the other.
template <class Make>
std::vector<ExchangeResult> search_all(const ExchangeUnits& u, const ExchangeOptions& options, index_t runs,
                                       label_t* labels, Make&& make) {
    using Objective = decltype(make());
    std::vector<ExchangeResult> results(runs);
    const auto one = [&](index_t r, bool alone) {
        results[r] =
            Search<Objective>(make(), u, options, static_cast<std::uint64_t>(r), labels + r * u.n, alone).run();
    };
    const double work = Search<Objective>::sweep_work(make(), u, options);
    if (runs == 1 || work > LARGE_SWEEP)
        for (index_t r = 0; r < runs; ++r) one(r, true);
    else
        parallel(runs, threads_for(8 * work * static_cast<double>(runs)), [&](index_t r) { one(r, false); });
    return results;
}

// Rows with zeros at the end, so that their length is a multiple of LANES.
Buffer<double> padded(const double* rows, index_t n, index_t d, index_t width) {
    Buffer<double> out(n * width);
    for (index_t i = 0; i < n; ++i) std::copy_n(rows + i * d, d, out.begin() + i * width);
    return out;
}

struct Range {
    index_t from, to;
};

// The column with the largest variance, from up to 64 units of the range.
index_t widest(const double* rows, index_t d, const index_t* unit, index_t count) {
    const index_t sampled = std::min<index_t>(count, 64);
    index_t best = 0;
    double most = -1;
    for (index_t j = 0; j < d; ++j) {
        double sum = 0, squares = 0;
        const double origin = rows[unit[0] * d + j];
        for (index_t s = 0; s < sampled; ++s) {
            const double x = rows[unit[s * count / sampled] * d + j] - origin;
            sum += x, squares += x * x;
        }
        const double variance = squares - sum * sum / static_cast<double>(sampled);
        if (variance > most) most = variance, best = j;
    }
    return best;
}

void order_units(const double* rows, index_t d, const index_t* kind_start, index_t kinds, index_t block,
                 index_t* order) {
    std::vector<Range> ranges;
    for (index_t kind = 0; kind < kinds; ++kind) ranges.push_back({kind_start[kind], kind_start[kind + 1]});
    while (!ranges.empty()) {
        std::vector<index_t> middle(ranges.size());
        parallel(static_cast<index_t>(ranges.size()), max_threads(), [&](index_t task) {
            const auto [from, to] = ranges[task];
            index_t* unit = order + from;
            const index_t count = to - from, half = (count / block + 1) / 2 * block;
            std::sort(unit, unit + count);  // so that the sample does not depend on nth_element
            middle[task] = to;
            if (count <= block || half >= count) return;
            const index_t column = widest(rows, d, unit, count);
            std::nth_element(unit, unit + half, unit + count, [&](index_t i, index_t j) {
                const double x = rows[i * d + column], y = rows[j * d + column];
                return x != y ? x < y : i < j;
            });
            middle[task] = from + half;
        });
        std::vector<Range> next;
        for (std::size_t r = 0; r < ranges.size(); ++r)
            if (middle[r] < ranges[r].to) {
                next.push_back({ranges[r].from, middle[r]});
                next.push_back({middle[r], ranges[r].to});
            }
        ranges = std::move(next);
    }
}

}  // namespace

const ExchangeKernels exchange_kernels = {
    .order = order_units,
    .rows =
        [](const double* rows, index_t d, const ExchangeUnits& u, const ExchangeOptions& options, index_t runs,
           label_t* labels) {
            const index_t width = (d + LANES - 1) / LANES * LANES;
            const auto copy = padded(rows, u.n, d, width);
            return search_all(u, options, runs, labels, [&] { return GroupMeans(copy.data(), width, u); });
        },
    .distances =
        [](bool is_double, const void* distance, const ExchangeUnits& u, const ExchangeOptions& options, index_t runs,
           label_t* labels) {
            return with_type(is_double, [&]<class T>(T) {
                return search_all(u, options, runs, labels,
                                  [&] { return GroupDistances<T>(static_cast<const T*>(distance), u); });
            });
        },
};

}  // namespace kv::KV_ISA
