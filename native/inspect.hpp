// Is a matrix one of distances? Finds the first entry that says no. And: would float32 do?
#pragma once

#include <cmath>

#include "kernels.hpp"

namespace kv::KV_ISA {

template <class T>
Found mirrored(const T* D, index_t n, T slack) {
    constexpr index_t SIDE = 32;
    T turned[SIDE][SIDE];
    for (index_t top = 0; top < n; top += SIDE)
        for (index_t left = 0; left <= top; left += SIDE) {
            const index_t height = std::min(SIDE, n - top), width = std::min(SIDE, n - left);
            for (index_t j = 0; j < width; ++j)
                for (index_t i = 0; i < height; ++i) turned[i][j] = D[(left + j) * n + top + i];
            for (index_t i = 0; i < height; ++i) {
                const T* row = D + (top + i) * n + left;
                int bad = 0;
                for (index_t j = 0; j < width; ++j) bad += std::abs(row[j] - turned[i][j]) > slack;
                for (index_t j = 0; bad && j < width; ++j)
                    if (std::abs(row[j] - turned[i][j]) > slack) return {Flaw::ASYMMETRIC, top + i, left + j, -1};
            }
        }
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

// Eight running values, so that the loop becomes vectors.
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
Found inspect(const T* D, index_t n, double close, double triangles) {
    const T slack = static_cast<T>(close) * extreme(D, n * n, true);
    if (extreme(D, n * n, false) < 0)
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

// Copies as float32; false as soon as that changes a value.
inline bool narrow(const double* D, index_t cells, float* out) {
    for (index_t at = 0; at < cells; at += BLOCK) {
        const index_t stop = std::min(cells, at + BLOCK);
        int off = 0;
        for (index_t c = at; c < stop; ++c) {
            out[c] = static_cast<float>(D[c]);
            off += static_cast<double>(out[c]) != D[c];
        }
        if (off) return false;
    }
    return true;
}

}  // namespace kv::KV_ISA
