// Swaps of medoids over rows of distances.
//
// If the medoid in slot m makes way for c, row i costs min(d, second) where slot m was its nearest and
// min(d, cost) elsewhere. So with what losing m would cost, L(m) = sum over its rows of (second - cost),
//
//     change(c, m) = L(m) + sum_i min(d - cost, 0)
//                         + sum_{i in m} [(min(d, second) - min(d, cost)) - (second - cost)]
//
// and only rows with d < second enter: one pass over a candidate's row gives its k changes.
#pragma once

#include "flags.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

template <class T>
std::vector<double> losses(const Near<T>& near, const double* weight, index_t n, index_t k) {
    std::vector<double> out(static_cast<std::size_t>(k), 0.0);
    for (index_t i = 0; i < n; ++i)
        out[near.slot[i]] += (weight ? weight[i] : 1.0) * (double(near.second_cost[i]) - double(near.cost[i]));
    return out;
}

// Adds to table[m] what change(c, m) has beyond L(m) and the gain; returns the gain. touch(m): m is met.
template <class T, class Touch>
inline double weigh(const T* d, const Near<T>& near, const double* weight, index_t n, double* table, Touch&& touch) {
    double gain = 0;
    for_below(d, near.second_cost, n, [&](index_t i) {
        const double w = weight ? weight[i] : 1.0, own = near.cost[i], next = near.second_cost[i], now = d[i];
        const double closer = std::min(now - own, 0.0);
        const label_t m = near.slot[i];
        gain += w * closer;
        touch(m);
        table[m] += w * ((now - next) - closer);
    });
    return gain;
}

// With one medoid there is no second: everybody moves to the candidate.
template <class T>
inline double moved(const T* d, const Near<T>& near, const double* weight, index_t n) {
    double sum = 0;
    for (index_t i = 0; i < n; ++i) sum += (weight ? weight[i] : 1.0) * (double(d[i]) - double(near.cost[i]));
    return sum;
}

// table[m] = change(c, m) for a candidate whose distances are d.
template <class T>
void changes(const T* d, const Near<T>& near, const double* weight, index_t n, const std::vector<double>& loss,
             double* table) {
    if (loss.size() == 1) {
        table[0] = moved(d, near, weight, n);
        return;
    }
    std::copy(loss.begin(), loss.end(), table);
    const double gain = weigh(d, near, weight, n, table, [](label_t) {});
    for (std::size_t m = 0; m < loss.size(); ++m) table[m] += gain;
}

template <class T>
void swap_changes(const T* rows, index_t count, index_t n, index_t k, const Near<T>& near, const double* weight,
                  double* out) {
    const auto loss = losses(near, weight, n, k);
    parallel(count, threads_for(2.0 * static_cast<double>(count) * n),
             [&](index_t c) { changes(rows + c * n, near, weight, n, loss, out + c * k); });
}

// Two nearest of k, for rows of k distances side by side. Ties go to the lowest slot.
template <class T>
inline void two_of(const T* d, index_t k, index_t i, const Near<T>& near) {
    T best = std::numeric_limits<T>::infinity(), next = best;
    label_t who = -1, then = -1;
    for (index_t m = 0; m < k; ++m)
        if (who < 0 || d[m] < best)
            next = best, then = who, best = d[m], who = static_cast<label_t>(m);
        else if (then < 0 || d[m] < next)
            next = d[m], then = static_cast<label_t>(m);
    near.slot[i] = who, near.cost[i] = best;
    near.second[i] = then < 0 ? who : then, near.second_cost[i] = next;
}

// The k x n distances of the medoids. A block of columns meets one medoid after the other.
template <class T>
void two_nearest_of(const T* rows, index_t k, index_t n, const Near<T>& near) {
    constexpr T INF = std::numeric_limits<T>::infinity();
    parallel(blocks_of(n), threads_for(2.0 * static_cast<double>(n) * k), [&](index_t block) {
        const index_t from = block * BLOCK, size = std::min(n - from, BLOCK);
        label_t *who = near.slot + from, *then = near.second + from;
        T *best = near.cost + from, *next = near.second_cost + from;
        std::fill_n(who, size, 0), std::fill_n(then, size, k > 1 ? 1 : 0);
        std::fill_n(best, size, INF), std::fill_n(next, size, INF);
        for (index_t m = 0; m < k; ++m) {
            const T* d = rows + m * n + from;
            const label_t me = static_cast<label_t>(m);
            for (index_t i = 0; i < size; ++i) {
                const bool first = d[i] < best[i], second = d[i] < next[i];
                then[i] = first ? who[i] : second ? me : then[i];
                next[i] = first ? best[i] : second ? d[i] : next[i];
                who[i] = first ? me : who[i];
                best[i] = first ? d[i] : best[i];
            }
        }
        // The first medoid may have come second before the second came.
        for (index_t i = 0; i < size; ++i)
            if (k > 1 && then[i] == who[i]) then[i] = who[i] == 0 ? 1 : 0;
    });
}

// Slot m has a new medoid, at distances d. False: two medoids are not enough to know the new second.
template <class T>
inline bool patched(T d, label_t m, index_t i, const Near<T>& near) {
    const auto before = [&](T a, label_t s, T b, label_t t) { return a < b || (a == b && s < t); };
    const label_t first = near.slot[i], then = near.second[i];
    if (first != m && then != m) {
        if (before(d, m, near.cost[i], first))
            near.second[i] = first, near.second_cost[i] = near.cost[i], near.slot[i] = m, near.cost[i] = d;
        else if (before(d, m, near.second_cost[i], then))
            near.second[i] = m, near.second_cost[i] = d;
        return true;
    }
    const label_t other = first == m ? then : first;
    const T its = first == m ? near.second_cost[i] : near.cost[i];
    const T bar = near.second_cost[i];  // every third medoid is at least this far
    if (other == m) {                   // the only medoid
        near.cost[i] = d;
        return true;
    }
    // A third one at exactly `bar` may have a lower slot: only a strictly closer m is sure.
    if (!(d < bar)) return false;
    const bool leads = before(d, m, its, other);
    near.slot[i] = leads ? m : other, near.cost[i] = leads ? d : its;
    near.second[i] = leads ? other : m, near.second_cost[i] = leads ? its : d;
    return true;
}

template <class T>
index_t swap_patch(const T* d, index_t n, label_t m, const Near<T>& near, index_t* unknown) {
    index_t count = 0;
    for (index_t i = 0; i < n; ++i)
        if (!patched(d[i], m, i, near)) unknown[count++] = i;
    return count;
}

}  // namespace kv::KV_ISA
