// Checks that a matrix holds distances and finds the first entry that is wrong; converts a matrix to float32 if that
// changes no value.
#pragma once

#include <cmath>

#include "kernels.hpp"
#include "simd.hpp"

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

// The points by way of which a row is checked at a time: it is loaded once for all of them.
constexpr int VIAS = 8;

// Returns whether row[j] > leg[v] + row_via[v][j] for some v and some j of [from, n); true without a look for a few j.
template <class T>
bool may_have_shorter_way(const T* row, const T* leg, const T* const* row_via, index_t from, index_t n) {
    using vector = Vector<T, LANES<T>>;
    if (n < LANES<T>) return true;
    decltype(vector{} > vector{}) bad{};
    for (index_t at = from; at < n; at += LANES<T>) {
        const index_t j = std::min(at, n - LANES<T>);  // the last two vectors overlap
        vector least = leg[0] + read<vector>(row_via[0] + j);
        for (int v = 1; v < VIAS; ++v) {
            const vector length = leg[v] + read<vector>(row_via[v] + j);
            least = length < least ? length : least;
        }
        bad |= read<vector>(row + j) > least;
    }
    for (index_t l = 0; l < LANES<T>; ++l)
        if (bad[l]) return true;
    return false;
}

// Checks the pairs (i, j) for every `step`-th i, by way of every `step`-th point. Of a symmetric matrix whose rows are
// all checked, j >= i are enough.
template <class T>
DistanceFlaw find_triangle(const T* D, index_t n, T slack, index_t step) {
    const bool half = step == 1 && find_asymmetry(D, n, T{0}).flaw == Flaw::NONE;
    for (index_t first = 0; first < n; first += VIAS * step) {
        const T* row_via[VIAS];
        index_t via[VIAS];
        for (int v = 0; v < VIAS; ++v) {
            via[v] = first + v * step < n ? first + v * step : first;
            row_via[v] = D + via[v] * n;
        }
        for (index_t i = 0; i < n; i += step) {
            const T* row = D + i * n;
            T leg[VIAS];
            for (int v = 0; v < VIAS; ++v) leg[v] = row[via[v]] + slack;
            if (!may_have_shorter_way(row, leg, row_via, half ? i : 0, n)) continue;
            for (int v = 0; v < VIAS; ++v)
                for (index_t j = 0; j < n; ++j)
                    if (row[j] > leg[v] + row_via[v][j]) return {Flaw::TRIANGLE, i, j, via[v]};
        }
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
    return find_triangle(D, n, slack, step);
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
