// Checks that a matrix holds distances and finds the first entry that is wrong; converts a matrix to float32 if that
// changes no value.
#pragma once

#include <cmath>

#include "kernels.hpp"

namespace kv::KV_ISA {

template <class T>
DistanceFlaw find_asymmetry(const T* D, index_t n, T slack) {
    constexpr index_t SIDE = 32;
    T transposed[SIDE][SIDE];
    for (index_t top = 0; top < n; top += SIDE)
        for (index_t left = 0; left <= top; left += SIDE) {
            const index_t height = std::min(SIDE, n - top), width = std::min(SIDE, n - left);
            for (index_t j = 0; j < width; ++j)
                for (index_t i = 0; i < height; ++i) transposed[i][j] = D[(left + j) * n + top + i];
            for (index_t i = 0; i < height; ++i) {
                const T* row = D + (top + i) * n + left;
                int bad = 0;
                for (index_t j = 0; j < width; ++j) bad += std::abs(row[j] - transposed[i][j]) > slack;
                for (index_t j = 0; bad && j < width; ++j)
                    if (std::abs(row[j] - transposed[i][j]) > slack) return {Flaw::ASYMMETRIC, top + i, left + j, -1};
            }
        }
    return {};
}

// Checks the pairs (i, j) for every `row_step`-th i, by way of every `via_step`-th point.
template <class T>
DistanceFlaw find_triangle(const T* D, index_t n, T slack, index_t row_step, index_t via_step) {
    for (index_t via = 0; via < n; via += via_step)
        for (index_t i = 0; i < n; i += row_step) {
            const T *row = D + i * n, *row_via = D + via * n;
            const T first_leg = row[via] + slack;
            int bad = 0;
            for (index_t j = 0; j < n; ++j) bad += row[j] > first_leg + row_via[j];
            for (index_t j = 0; bad && j < n; ++j)
                if (row[j] > first_leg + row_via[j]) return {Flaw::TRIANGLE, i, j, via};
        }
    return {};
}

// Returns the largest value (at least 0) or the smallest (at most 0). Eight running values let the loop vectorize.
template <class T>
T extreme(const T* D, index_t cells, bool largest) {
    T part[8] = {};
    index_t c = 0;
    if (largest)
        for (; c + 8 <= cells; c += 8)
            for (int l = 0; l < 8; ++l) part[l] = D[c + l] > part[l] ? D[c + l] : part[l];
    else
        for (; c + 8 <= cells; c += 8)
            for (int l = 0; l < 8; ++l) part[l] = D[c + l] < part[l] ? D[c + l] : part[l];
    for (; c < cells; ++c) part[0] = largest ? std::max(part[0], D[c]) : std::min(part[0], D[c]);
    return largest ? *std::max_element(part, part + 8) : *std::min_element(part, part + 8);
}

template <class T>
DistanceFlaw check_distances(const T* D, index_t n, double close, double triangles) {
    const T slack = static_cast<T>(close) * extreme(D, n * n, true);
    if (extreme(D, n * n, false) < 0)
        for (index_t c = 0; c < n * n; ++c)
            if (D[c] < 0) return {Flaw::NEGATIVE, c / n, c % n, -1};
    for (index_t i = 0; i < n; ++i)
        if (D[i * n + i] > slack) return {Flaw::DIAGONAL, i, i, -1};
    const DistanceFlaw other = find_asymmetry(D, n, slack);
    if (other.flaw != Flaw::NONE) return other;
    const double rows = std::max(1.0, triangles / static_cast<double>(n));  // pairs (i, via) to check
    const index_t each = std::max<index_t>(1, static_cast<index_t>(std::sqrt(rows)));
    const index_t step = std::max<index_t>(1, n / each);
    return find_triangle(D, n, slack, step, step);
}

// Copies to float32. Stops and returns false when that changes a value.
inline bool to_float32(const double* D, index_t cells, float* out) {
    for (index_t at = 0; at < cells; at += BLOCK) {
        const index_t stop = std::min(cells, at + BLOCK);
        int changed = 0;
        for (index_t c = at; c < stop; ++c) {
            out[c] = static_cast<float>(D[c]);
            changed += static_cast<double>(out[c]) != D[c];
        }
        if (changed) return false;
    }
    return true;
}

}  // namespace kv::KV_ISA
