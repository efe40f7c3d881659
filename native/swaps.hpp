// How a swap of a medoid changes the cost, from rows of distances.
//
// Let d be the distance of point i to candidate c. If c replaces the medoid in slot m, point i costs min(d, second) if
// slot m was its nearest, and min(d, cost) otherwise. Removing m alone costs L(m) = sum over its points of
// (second - cost). So
//
//     change(c, m) = L(m) + sum_i min(d - cost, 0)
//                         + sum_{i in m} [(min(d, second) - min(d, cost)) - (second - cost)],
//
// and only points with d < second contribute: one pass over a candidate's distances gives its k changes.
#pragma once

#include "kernels.hpp"
#include "simd.hpp"

namespace kv::KV_ISA {

template <class T>
std::vector<double> losses(const TwoNearest<T>& near, const double* weight, index_t n, index_t k) {
    std::vector<double> out(k, 0.0);
    for (index_t i = 0; i < n; ++i)
        out[near.labels[i]] += (weight ? weight[i] : 1.0) * (double(near.second_cost[i]) - double(near.cost[i]));
    return out;
}

// Adds the last sum of change(c, m) to table[m] and returns the middle one. Calls touch(m) for every m that is changed.
template <class T, class Touch>
inline double add_changes(const T* d, const TwoNearest<T>& near, const double* weight, index_t n, double* table,
                          Touch&& touch) {
    double gain = 0;
    for_below(d, near.second_cost, n, [&](index_t i) {
        const double w = weight ? weight[i] : 1.0, own = near.cost[i], next = near.second_cost[i], now = d[i];
        const double closer = std::min(now - own, 0.0);
        const label_t m = near.labels[i];
        gain += w * closer;
        touch(m);
        table[m] += w * ((now - next) - closer);
    });
    return gain;
}

// With a single medoid there is no second: all points move to the candidate.
template <class T>
inline double single_medoid_change(const T* d, const TwoNearest<T>& near, const double* weight, index_t n) {
    double sum = 0;
    for (index_t i = 0; i < n; ++i) sum += (weight ? weight[i] : 1.0) * (double(d[i]) - double(near.cost[i]));
    return sum;
}

// Sets table[m] = change(c, m) for a candidate with distances d.
template <class T>
void changes(const T* d, const TwoNearest<T>& near, const double* weight, index_t n, const std::vector<double>& loss,
             double* table) {
    if (loss.size() == 1) {
        table[0] = single_medoid_change(d, near, weight, n);
        return;
    }
    std::copy(loss.begin(), loss.end(), table);
    const double gain = add_changes(d, near, weight, n, table, [](label_t) {});
    for (std::size_t m = 0; m < loss.size(); ++m) table[m] += gain;
}

template <class T>
void swap_changes(const T* rows, index_t count, index_t n, index_t k, const TwoNearest<T>& near, const double* weight,
                  double* out) {
    const auto loss = losses(near, weight, n, k);
    parallel(count, threads_for(2.0 * static_cast<double>(count) * n),
             [&](index_t c) { changes(rows + c * n, near, weight, n, loss, out + c * k); });
}

// Sets the two nearest medoids of point i from its k distances. Ties go to the lowest slot.
template <class T>
inline void two_smallest(const T* d, index_t k, index_t i, const TwoNearest<T>& near) {
    auto two = no_two_nearest<T>(k);
    for (index_t m = 0; m < k; ++m) two.offer(d[m], static_cast<label_t>(m));
    set_two_nearest(two, k, i, near);
}

// Sets the two nearest medoids of all points from the k x n distances of the medoids.
template <class T>
void two_nearest_rows(const T* rows, index_t k, index_t n, const TwoNearest<T>& near) {
    constexpr T INF = std::numeric_limits<T>::infinity();
    parallel(blocks_of(n), threads_for(2.0 * static_cast<double>(n) * k), [&](index_t block) {
        const index_t from = block * BLOCK, size = std::min(n - from, BLOCK);
        label_t *first = near.labels + from, *second = near.second + from;
        T *best = near.cost + from, *next = near.second_cost + from;
        std::fill_n(first, size, 0), std::fill_n(second, size, k > 1 ? 1 : 0);
        std::fill_n(best, size, INF), std::fill_n(next, size, INF);
        for (index_t m = 0; m < k; ++m) {
            const T* d = rows + m * n + from;
            const label_t slot = static_cast<label_t>(m);
            for (index_t i = 0; i < size; ++i) {
                TwoNearestOf<T> two{best[i], next[i], first[i], second[i]};
                two.offer(d[i], slot);
                best[i] = two.best, next[i] = two.second, first[i] = two.arg, second[i] = two.next;
            }
        }
        // Slot 0 may still stand as the second of itself.
        for (index_t i = 0; i < size; ++i)
            if (k > 1 && second[i] == first[i]) second[i] = first[i] == 0 ? 1 : 0;
    });
}

// Updates point i after slot m got a medoid at distance d. Returns false if the new second nearest is not known.
template <class T>
inline bool patch(T d, label_t m, index_t i, const TwoNearest<T>& near) {
    const auto before = [&](T a, label_t s, T b, label_t t) { return a < b || (a == b && s < t); };
    const label_t first = near.labels[i], second = near.second[i];
    if (first != m && second != m) {
        if (before(d, m, near.cost[i], first))
            near.second[i] = first, near.second_cost[i] = near.cost[i], near.labels[i] = m, near.cost[i] = d;
        else if (before(d, m, near.second_cost[i], second))
            near.second[i] = m, near.second_cost[i] = d;
        return true;
    }
    const label_t other = first == m ? second : first;
    const T other_cost = first == m ? near.second_cost[i] : near.cost[i];
    const T third = near.second_cost[i];  // all other medoids are at least this far
    if (other == m) {                     // the only medoid
        near.cost[i] = d;
        return true;
    }
    // Another medoid at exactly this distance may have a lower slot: m must be strictly closer.
    if (!(d < third)) return false;
    const bool closer = before(d, m, other_cost, other);
    near.labels[i] = closer ? m : other, near.cost[i] = closer ? d : other_cost;
    near.second[i] = closer ? other : m, near.second_cost[i] = closer ? other_cost : d;
    return true;
}

template <class T>
index_t swap_patch(const T* d, index_t n, label_t m, const TwoNearest<T>& near, index_t* unknown) {
    index_t count = 0;
    for (index_t i = 0; i < n; ++i)
        if (!patch(d[i], m, i, near)) unknown[count++] = i;
    return count;
}

}  // namespace kv::KV_ISA
