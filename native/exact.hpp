// Exact arithmetic: float64 in one fixed order of operations, so that every machine gets the same bits. Files that
// include this are compiled without fused multiply-add.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common.hpp"

namespace kv::KV_ISA {

typedef double double4 __attribute__((vector_size(32)));

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

// Centres are float64, even if the rows are not. Only sparse rows need `norm2`: their squared distance is
// ||c||^2 + sum over the stored entries of x(x - 2c).
struct Centers {
    const double* c;
    index_t k, d;
    std::vector<double> norm2;
    const double* row(index_t j) const { return c + j * d; }
};

template <class T>
Centers exact_centers(const Dense<T>& rows, const double* c, index_t k) {
    return {c, k, rows.d, {}};
}

template <class T>
Centers exact_centers(const Csr<T>& rows, const double* c, index_t k) {
    Centers out{c, k, rows.d, std::vector<double>(k, 0)};
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < rows.d; ++i) out.norm2[j] += out.row(j)[i] * out.row(j)[i];
    return out;
}

template <class T>
inline double dist2(const Dense<T>& rows, index_t i, const Centers& centers, index_t j) {
    return dist2(rows.row(i), centers.row(j), rows.d);
}

template <class T>
inline double dist2(const Csr<T>& rows, index_t i, const Centers& centers, index_t j) {
    const double* c = centers.row(j);
    double sum = 0;
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
        const double x = static_cast<double>(rows.x[p]);
        sum += x * (x - 2.0 * c[rows.column[p]]);
    }
    const double out = centers.norm2[j] + sum;
    return out > 0 ? out : 0;
}

typedef double double8 __attribute__((vector_size(64)));

template <class T>
inline double8 load_double8(const T* p) {
    typedef T narrow __attribute__((vector_size(8 * sizeof(T))));
    narrow v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, double8);
}

// A bound that is stored as float32 is rounded outwards.
inline float round_up(double v) {
    const float f = static_cast<float>(v);
    return f + f * 2.4e-7f + std::numeric_limits<float>::min();
}
inline float round_down(double v) {
    const float f = static_cast<float>(std::min<double>(v, std::numeric_limits<float>::max()));
    const float g = f - f * 2.4e-7f;
    return g > 0 ? g : 0;
}

}  // namespace kv::KV_ISA
