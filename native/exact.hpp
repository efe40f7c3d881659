// Exact means: float64, one fixed order of operations, no fused multiply-add (the file that
// includes this is compiled with contraction off), so that every machine gets the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common.hpp"

namespace kv::KV_ISA {

typedef double lanes __attribute__((vector_size(64)));

template <class T>
inline lanes load_lanes(const T* p) {
    typedef T narrow __attribute__((vector_size(8 * sizeof(T))));
    narrow v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, lanes);
}

inline double add_lanes(const lanes& v) {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
}

// Squared Euclidean distance from its differences: no cancellation, whatever the offset.
template <class T>
inline double dist2(const T* x, const T* c, index_t d) {
    double tail = 0;
    index_t i = 0;
    if (d >= 8) {
        lanes even{}, odd{};
        for (; i + 16 <= d; i += 16) {
            const lanes a = load_lanes(x + i) - load_lanes(c + i);
            const lanes b = load_lanes(x + i + 8) - load_lanes(c + i + 8);
            even += a * a;
            odd += b * b;
        }
        if (i + 8 <= d) {
            const lanes a = load_lanes(x + i) - load_lanes(c + i);
            even += a * a;
            i += 8;
        }
        tail = add_lanes(even + odd);
    }
    for (; i < d; ++i) {
        const double a = static_cast<double>(x[i]) - static_cast<double>(c[i]);
        tail += a * a;
    }
    return tail;
}

// The centres as the exact side sees them. `norm2` is filled for sparse rows only, whose
// distances are ||c||^2 + sum over the stored entries of x(x - 2c).
template <class T>
struct Centres {
    const T* c;
    index_t k, d;
    std::vector<double> norm2;
    const T* row(index_t j) const { return c + j * d; }
};

template <class T>
Centres<T> exact_centres(const Dense<T>& rows, const T* c, index_t k) {
    return {c, k, rows.d, {}};
}

template <class T>
Centres<T> exact_centres(const Csr<T>& rows, const T* c, index_t k) {
    Centres<T> out{c, k, rows.d, std::vector<double>(static_cast<std::size_t>(k))};
    for (index_t j = 0; j < k; ++j) {
        double sum = 0;
        for (index_t i = 0; i < rows.d; ++i) {
            const double v = static_cast<double>(c[j * rows.d + i]);
            sum += v * v;
        }
        out.norm2[static_cast<std::size_t>(j)] = sum;
    }
    return out;
}

template <class T>
inline double dist2(const Dense<T>& rows, index_t i, const Centres<T>& centres, index_t j) {
    return dist2(rows.row(i), centres.row(j), rows.d);
}

template <class T>
inline double dist2(const Csr<T>& rows, index_t i, const Centres<T>& centres, index_t j) {
    const T* c = centres.row(j);
    double sum = 0;
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
        const double x = static_cast<double>(rows.x[p]);
        sum += x * (x - 2.0 * static_cast<double>(c[rows.column[p]]));
    }
    const double out = centres.norm2[static_cast<std::size_t>(j)] + sum;
    return out > 0 ? out : 0;
}

// sum += w * row, coordinates [from, to)
template <class T>
inline void add_row(const Dense<T>& rows, index_t i, double w, double* sum, index_t from, index_t to) {
    const T* x = rows.row(i);
    for (index_t j = from; j < to; ++j) sum[j] += w * static_cast<double>(x[j]);
}

template <class T>
inline void add_row(const Csr<T>& rows, index_t i, double w, double* sum, index_t, index_t) {
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p)
        sum[rows.column[p]] += w * static_cast<double>(rows.x[p]);
}

// Rounding a bound outwards when it is kept as float32.
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
