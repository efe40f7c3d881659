// The reference arithmetic of docs/reference_arithmetic.md: float64 in one fixed order of operations. Whatever else is
// computed in native/ may only be faster. Files that include this are compiled without fused multiply-add. Sums are in
// exact_sums.hpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "small_types.hpp"

namespace kv::KV_ISA {

using double4 = Vector<double, 4>;

template <class T>
inline double4 load_double4(const T* p) {
    return double4{double(p[0]), double(p[1]), double(p[2]), double(p[3])};
}

// Sums a term of every difference. Differences do not cancel digits, however far the rows are from the origin.
template <class T, class Term>
inline double sum_over_differences(const T* x, const double* c, index_t d, Term&& term) {
    double sum = 0;
    index_t i = 0;
    if (d >= 16) {
        double4 part[4] = {};
        for (; i + 16 <= d; i += 16)
            for (int p = 0; p < 4; ++p) part[p] += term(load_double4(x + i + 4 * p) - load_double4(c + i + 4 * p));
        const double4 all = (part[0] + part[1]) + (part[2] + part[3]);
        sum = (all[0] + all[1]) + (all[2] + all[3]);
    }
    for (; i < d; ++i) sum += term(static_cast<double>(x[i]) - c[i]);
    return sum;
}

template <class T>
inline double dist2(const T* x, const double* c, index_t d) {
    return sum_over_differences(x, c, d, [](auto a) { return a * a; });
}

template <class T>
inline double dist1(const T* x, const double* c, index_t d) {
    return sum_over_differences(x, c, d, [](auto a) { return a < 0 ? -a : a; });
}

using double8 = Vector<double, 8>;

// A sum of squares to about twice the digits of float64: `rest` is what rounding took from `sum`.
struct SumOfSquares {
    double sum = 0, rest = 0;
};

// Adds the square of c (Dekker's product, Knuth's sum). V is a double, or eight of them.
template <class V>
inline void add_square(V& sum, V& rest, V c) {
    const V far = c * 134217729.0, high = far - (far - c), low = c - high, square = c * c;
    const V lost = ((high * high - square) + 2 * high * low) + low * low;
    const V total = sum + square, part = total - sum;
    rest += ((sum - (total - part)) + (square - part)) + lost;
    sum = total;
}

inline SumOfSquares sum_of_squares(const double* c, index_t d) {
    double8 sums{}, rests{};
    index_t i = 0;
    for (; i + 8 <= d; i += 8) add_square(sums, rests, widened<8>(c + i));
    SumOfSquares out;
    for (; i < d; ++i) add_square(out.sum, out.rest, c[i]);
    for (int l = 0; l < 8; ++l) {
        const double total = out.sum + sums[l], part = total - out.sum;
        out.rest += ((out.sum - (total - part)) + (sums[l] - part)) + rests[l];
        out.sum = total;
    }
    return out;
}

// Centres are float64, even if the rows are not. Only sparse rows need `norm2`.
struct Centers {
    const double* c;
    index_t k, d;
    std::vector<SumOfSquares> norm2;
    const double* row(index_t j) const { return c + j * d; }
};

template <class T>
Centers exact_centers(const Dense<T>& rows, const double* c, index_t k) {
    return {c, k, rows.d, {}};
}

template <class T>
Centers exact_centers(const Csr<T>& rows, const double* c, index_t k) {
    Centers out{c, k, rows.d, std::vector<SumOfSquares>(k)};
    parallel(k, threads_for(static_cast<double>(k) * rows.d),
             [&](index_t j) { out.norm2[j] = sum_of_squares(out.row(j), rows.d); });
    return out;
}

template <class T>
inline double dist2(const Dense<T>& rows, index_t i, const Centers& centers, index_t j) {
    return dist2(rows.row(i), centers.row(j), rows.d);
}

// The squared distance of a sparse row to a centre that is near, compared with the centre's norm. `stored` is the sum
// over the stored entries.
template <class T>
[[gnu::noinline]] double near_dist2(const Csr<T>& rows, index_t i, const Centers& centers, index_t j, double stored) {
    const double* c = centers.row(j);
    const SumOfSquares norm2 = centers.norm2[j];
    SumOfSquares seen;
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) add_square(seen.sum, seen.rest, c[rows.column[p]]);
    const double others = (norm2.sum - seen.sum) + (norm2.rest - seen.rest);
    const double distance = stored + (others > 0 ? others : 0);
    if (distance > norm2.sum * 0x1p-46) return distance;
    double sum = 0;
    for (index_t f = 0, p = rows.start[i]; f < rows.d; ++f) {
        const bool here = p < rows.start[i + 1] && rows.column[p] == f;
        const double gap = (here ? static_cast<double>(rows.x[p++]) : 0.0) - c[f];
        sum += gap * gap;
    }
    return sum;
}

// The sum over the stored entries of (x - c)^2, plus ||c||^2 minus the sum over them of c^2. The difference loses
// digits if the row is near, so it is then computed with twice the digits, or over all features. The relative error
// is below (m + 16 + d / 64) 2^-50 for m stored entries and d features.
template <class T>
inline double dist2(const Csr<T>& rows, index_t i, const Centers& centers, index_t j) {
    const double* c = centers.row(j);
    double stored = 0, seen = 0;
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
        const double a = c[rows.column[p]], gap = static_cast<double>(rows.x[p]) - a;
        stored += gap * gap;
        seen += a * a;
    }
    const double norm2 = centers.norm2[j].sum, distance = stored + (norm2 - seen);
    return distance * 8 >= norm2 ? distance : near_dist2(rows, i, centers, j, stored);
}

// A label is the centre at the least distance; of equal ones that of the lowest index.
struct Nearest {
    label_t arg = -1;
    double cost = std::numeric_limits<double>::infinity();
    void offer(label_t j, double c) {
        if (c < cost || (c == cost && j < arg) || arg < 0) arg = j, cost = c;
    }
};

}  // namespace kv::KV_ISA
