// Local search by swaps over a matrix of distances (rows: candidates, columns: points with demand). Candidates are
// tried in the given order, `block` at a time. The best swap of a block is made if it lowers the cost by more than
// `tol` times the cost; the search ends after a whole round without a swap. The result does not depend on threads.
#pragma once

#include <numeric>

#include "random.hpp"
#include "swaps.hpp"

namespace kv::KV_ISA {

template <class T>
class EagerSwaps {
public:
    EagerSwaps(const T* D, index_t candidates, index_t n, index_t k, index_t* chosen, const TwoNearest<T>& near,
               const double* weight)
        : D_(D),
          n_(n),
          k_(k),
          chosen_(chosen),
          near_(near),
          weight_(weight),
          medoid_distances_(n * k),
          is_medoid_(candidates, 0),
          loss_(k, 0.0),
          cheapest_(k),
          touched_(k, 0) {
        std::iota(cheapest_.begin(), cheapest_.end(), 0);
        for (index_t m = 0; m < k; ++m) is_medoid_[chosen[m]] = 1;
        for (index_t at = 0; at < n; at += TILE) {
            const index_t stop = std::min<index_t>(n, at + TILE);
            for (index_t m = 0; m < k; ++m)
                for (index_t i = at; i < stop; ++i) medoid_distances_[i * k + m] = D[chosen[m] * n + i];
            for (index_t i = at; i < stop; ++i) two_smallest(medoid_distances_.data() + i * k, k, i, near_);
        }
        refresh();
    }

    // Searches for a local optimum. Every restart then replaces some medoids by random points, drawn in proportion to
    // their cost, and searches among the candidates nearby. If that lowers the cost the search continues with all
    // candidates; otherwise the old medoids are restored.
    SwapResult run(const SwapOptions& options, const Restarts& restarts) {
        SwapResult out = descend(options);
        std::uint64_t state = restarts.seed;
        for (index_t r = 0; r < restarts.count && cost_ > 0 && out.swaps < options.max_swaps; ++r) {
            const Snapshot saved = save();
            const bool converged = out.converged;
            touched_.assign(k_, 0);
            for (index_t q = 0; q < std::min(restarts.strength, k_); ++q) replace_at_random(restarts, state);
            const auto nearby = touched(options, restarts);
            const auto continue_with = [&](const SwapOptions& part) {
                const SwapResult got = descend(part);
                out.swaps += got.swaps, out.converged = got.converged;
            };
            continue_with({nearby.data(), static_cast<index_t>(nearby.size()), options.block, options.tol,
                           options.max_swaps - out.swaps});
            if (cost_ < saved.cost)
                continue_with(
                    {options.order, options.count, options.block, options.tol, options.max_swaps - out.swaps});
            else
                restore(saved), out.converged = converged;
        }
        out.cost = cost_;
        return out;
    }

private:
    static constexpr index_t AHEAD = 32;         // blocks of candidates evaluated at once, at most
    static constexpr double DISTANCE_WORK = 20;  // the cost of reading a distance, in multiply-adds

    struct Snapshot {
        double cost;
        std::vector<index_t> chosen;
        std::vector<label_t> labels, second;
        std::vector<T> costs, second_costs;
    };

    Snapshot save() const {
        return {cost_,
                {chosen_, chosen_ + k_},
                {near_.labels, near_.labels + n_},
                {near_.second, near_.second + n_},
                {near_.cost, near_.cost + n_},
                {near_.second_cost, near_.second_cost + n_}};
    }

    void restore(const Snapshot& saved) {
        for (index_t m = 0; m < k_; ++m) is_medoid_[chosen_[m]] = 0;
        for (index_t m = 0; m < k_; ++m) {
            const bool other = chosen_[m] != saved.chosen[m];
            chosen_[m] = saved.chosen[m];
            if (other) load_medoid(m);
            is_medoid_[chosen_[m]] = 1;
        }
        std::copy(saved.labels.begin(), saved.labels.end(), near_.labels);
        std::copy(saved.second.begin(), saved.second.end(), near_.second);
        std::copy(saved.costs.begin(), saved.costs.end(), near_.cost);
        std::copy(saved.second_costs.begin(), saved.second_costs.end(), near_.second_cost);
        refresh();
    }

    // Returns the candidates that are points of a slot whose points have changed.
    std::vector<index_t> touched(const SwapOptions& options, const Restarts& restarts) const {
        std::vector<char> is_touched(is_medoid_.size(), 0);
        for (index_t i = 0; i < n_; ++i) is_touched[restarts.point ? restarts.point[i] : i] = touched_[near_.labels[i]];
        std::vector<index_t> out;
        for (index_t at = 0; at < options.count; ++at)
            if (is_touched[options.order[at]]) out.push_back(options.order[at]);
        return out;
    }

    void replace_at_random(const Restarts& restarts, std::uint64_t& state) {
        const double goal = uniform(state) * cost_;
        double sum = 0;
        index_t i = 0, last = 0;
        for (; i < n_ && sum <= goal; ++i) {
            const double share = (weight_ ? weight_[i] : 1.0) * double(near_.cost[i]);
            if (share > 0) last = i;
            sum += share;
        }
        const index_t c = restarts.point ? restarts.point[last] : last;
        const index_t m = static_cast<index_t>(uniform(state) * static_cast<double>(k_));
        if (!is_medoid_[c]) swap(c, std::min(m, k_ - 1));
    }

    // Evaluates candidates ahead of the swaps, the more of them the longer no swap was made: this gives threads enough
    // work, and little of it is lost when a swap is made. The swaps do not depend on how far ahead it goes.
    SwapResult descend(const SwapOptions& options) {
        const auto [order, count, block, tol, max_swaps] = options;
        std::vector<SlotChanges> tables(threads_for(DISTANCE_WORK * AHEAD * block * n_), SlotChanges(k_));
        std::vector<Best> found(AHEAD * block);
        index_t unchanged = 0, at = 0, first = 0, last = 0;  // found is for [first, last)
        SwapResult out;
        while (unchanged < count && out.swaps < max_swaps) {
            if (at == last) {
                const index_t ahead = std::clamp<index_t>(unchanged / block / 4, 1, AHEAD) * block;
                first = at, last = std::min(count, at + (worth_threads(ahead) ? ahead : block));
                best_swaps(order + first, last - first, tables, found);
            }
            const index_t size = std::min(block, last - at);
            const auto least = std::min_element(found.begin() + (at - first), found.begin() + (at - first + size),
                                                [](const Best& a, const Best& b) { return a.change < b.change; });
            const Best best = *least;
            at += size, unchanged += size;
            if (best.slot >= 0 && best.change < -tol * cost_ && lowers(best)) ++out.swaps, unchanged = 0, last = at;
            if (at == count) at = last = 0;
        }
        out.cost = cost_, out.converged = unchanged >= count;
        return out;
    }

    struct Best {
        double change = 0;
        index_t candidate = -1, slot = -1;
    };
    struct SlotChanges {
        std::vector<double> extra;  // by slot; zero except for touched slots
        std::vector<char> touched;
        std::vector<label_t> slots;
        explicit SlotChanges(index_t k) : extra(k, 0.0), touched(k, 0) { slots.reserve(k); }
    };

    // True if so many candidates are worth a second thread.
    bool worth_threads(index_t count) const { return threads_for(DISTANCE_WORK * count * n_) > 1; }

    void best_swaps(const index_t* candidates, index_t count, std::vector<SlotChanges>& tables,
                    std::vector<Best>& found) const {
        if (worth_threads(count)) {
            parallel(count, tables, [&](index_t b, SlotChanges& table) { found[b] = best_swap(candidates[b], table); });
            return;
        }
        for (index_t b = 0; b < count; ++b) found[b] = best_swap(candidates[b], tables[0]);
        if (user_wants_to_stop && user_wants_to_stop()) throw Interrupted{};
    }

    // Finds the best slot for a candidate: one that it touches, or the one of the others with the smallest loss.
    Best best_swap(index_t c, SlotChanges& t) const {
        if (is_medoid_[c]) return {};
        if (k_ == 1) return {single_medoid_change(D_ + c * n_, near_, weight_, n_), c, 0};
        t.slots.clear();
        const double gain = add_changes(D_ + c * n_, near_, weight_, n_, t.extra.data(), [&](label_t m) {
            if (!t.touched[m]) t.touched[m] = 1, t.slots.push_back(m);
        });
        Best best{std::numeric_limits<double>::infinity(), c, -1};
        const auto offer = [&](double change, index_t m) {
            if (change < best.change || (change == best.change && m < best.slot)) best.change = change, best.slot = m;
        };
        for (const label_t m : cheapest_)
            if (!t.touched[m]) {
                offer(loss_[m], m);
                break;
            }
        for (const label_t m : t.slots) {
            offer(loss_[m] + t.extra[m], m);
            t.extra[m] = 0, t.touched[m] = 0;
        }
        best.change += gain;
        return best;
    }

    // Makes a swap. If the cost did not fall, because of rounding, takes it back.
    bool lowers(const Best& best) {
        const double before = cost_;
        const index_t old = chosen_[best.slot];
        swap(best.candidate, best.slot);
        if (cost_ < before) return true;
        swap(old, best.slot);
        return false;
    }

    void swap(index_t c, index_t m) {
        is_medoid_[chosen_[m]] = 0;
        chosen_[m] = c;
        load_medoid(m);
        const T* d = D_ + c * n_;
        const label_t me = static_cast<label_t>(m);
        for (index_t at = 0; at < n_; at += TILE) {
            const index_t size = std::min<index_t>(TILE, n_ - at);
            std::uint8_t flag[TILE] = {};
            if (size == TILE)
                for (int r = 0; r < TILE; ++r) flag[r] = affected(d, me, at + r);
            else
                for (int r = 0; r < size; ++r) flag[r] = affected(d, me, at + r);
            for (int r = 0; r < TILE; r += 8) {
                std::uint64_t bytes;
                std::memcpy(&bytes, flag + r, 8);
                for (; bytes; bytes &= bytes - 1) repair(at + r + __builtin_ctzll(bytes) / 8, d, me);
            }
        }
        refresh();
    }

    bool affected(const T* d, label_t m, index_t i) const {
        return (d[i] < near_.second_cost[i]) | (d[i] == near_.second_cost[i]) | (near_.labels[i] == m) |
               (near_.second[i] == m);
    }

    void repair(index_t i, const T* d, label_t m) {
        if (!patch(d[i], m, i, near_)) two_smallest(medoid_distances_.data() + i * k_, k_, i, near_);
        touched_[near_.labels[i]] = 1;
    }

    void load_medoid(index_t m) {
        const T* d = D_ + chosen_[m] * n_;
        for (index_t i = 0; i < n_; ++i) medoid_distances_[i * k_ + m] = d[i];
        is_medoid_[chosen_[m]] = 1;
    }

    void refresh() {
        std::fill(loss_.begin(), loss_.end(), 0.0);
        cost_ = 0;
        for (index_t i = 0; i < n_; ++i) {
            const double w = weight_ ? weight_[i] : 1.0, own = near_.cost[i];
            cost_ += w * own;
            loss_[near_.labels[i]] += w * (double(near_.second_cost[i]) - own);
        }
        sort_slots();
    }

    // Insertion sort, since a swap changes few losses.
    void sort_slots() {
        const auto before = [&](label_t a, label_t b) {
            return loss_[a] < loss_[b] || (loss_[a] == loss_[b] && a < b);
        };
        for (index_t j = 1; j < k_; ++j) {
            const label_t m = cheapest_[j];
            index_t at = j;
            for (; at > 0 && before(m, cheapest_[at - 1]); --at) cheapest_[at] = cheapest_[at - 1];
            cheapest_[at] = m;
        }
    }

    const T* D_;
    index_t n_, k_;
    index_t* chosen_;
    TwoNearest<T> near_;
    const double* weight_;
    Buffer<T> medoid_distances_;   // n x k
    std::vector<char> is_medoid_;  // by candidate
    std::vector<double> loss_;
    std::vector<label_t> cheapest_;  // slots by loss
    std::vector<char> touched_;      // slots whose points have changed
    double cost_ = 0;
};

}  // namespace kv::KV_ISA
