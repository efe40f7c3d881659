// Is a matrix one of distances? Finds the first entry that says no. Plain loops, compiled once.
#pragma once

#include <cmath>

#include "common.hpp"

namespace kv {

enum class Flaw : int { NONE = 0, NEGATIVE, DIAGONAL, ASYMMETRIC, TRIANGLE };

struct Found {
    Flaw flaw = Flaw::NONE;
    index_t i = -1, j = -1, by = -1;
};

template <class T>
Found mirrored(const T* D, index_t n, T slack) {
    constexpr index_t SIDE = 64;
    for (index_t top = 0; top < n; top += SIDE)
        for (index_t left = 0; left <= top; left += SIDE)
            for (index_t i = top; i < std::min(n, top + SIDE); ++i)
                for (index_t j = left; j < std::min(n, left + SIDE); ++j)
                    if (std::abs(D[i * n + j] - D[j * n + i]) > slack) return {Flaw::ASYMMETRIC, i, j, -1};
    return {};
}

// Pairs (i, j) for every `row_step`-th i, by way of every `by_step`-th point.
template <class T>
Found shortcut(const T* D, index_t n, T slack, index_t row_step, index_t by_step) {
    for (index_t z = 0; z < n; z += by_step)
        for (index_t i = 0; i < n; i += row_step) {
            const T *row = D + i * n, *via = D + z * n;
            const T reach = row[z] + slack;
            int bad = 0;
            for (index_t j = 0; j < n; ++j) bad += row[j] > reach + via[j];
            for (index_t j = 0; bad && j < n; ++j)
                if (row[j] > reach + via[j]) return {Flaw::TRIANGLE, i, j, z};
        }
    return {};
}

// close: what two distances that should be equal may differ by, as a share of the largest.
// triangles: about how many of them to look at.
template <class T>
Found inspect(const T* D, index_t n, double close, double triangles) {
    T largest = 0, least = 0;
    for (index_t c = 0; c < n * n; ++c) {
        largest = std::max(largest, D[c]);
        least = std::min(least, D[c]);
    }
    const T slack = static_cast<T>(close) * largest;
    if (least < 0)
        for (index_t c = 0; c < n * n; ++c)
            if (D[c] < 0) return {Flaw::NEGATIVE, c / n, c % n, -1};
    for (index_t i = 0; i < n; ++i)
        if (D[i * n + i] > slack) return {Flaw::DIAGONAL, i, i, -1};
    const Found other = mirrored(D, n, slack);
    if (other.flaw != Flaw::NONE) return other;
    const double rows = std::max(1.0, triangles / static_cast<double>(n));  // pairs (i, by) to look at
    const index_t each = std::max<index_t>(1, static_cast<index_t>(std::sqrt(rows)));
    const index_t step = std::max<index_t>(1, n / each);
    return shortcut(D, n, slack, step, step);
}

}  // namespace kv
