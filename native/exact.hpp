// Exact means: float64, one fixed order of operations, no fused multiply-add (the file that
// includes this is compiled with contraction off), so that every machine gets the same bits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common.hpp"

namespace kv::KV_ISA {

typedef double lanes __attribute__((vector_size(32)));

template <class T>
inline lanes load_lanes(const T* p) {
    return lanes{double(p[0]), double(p[1]), double(p[2]), double(p[3])};
}

// The sum of a term of every difference: no cancellation, whatever the offset.
template <class T, class Term>
inline double over_differences(const T* x, const double* c, index_t d, Term&& term) {
    double sum = 0;
    index_t i = 0;
    if (d >= 16) {
        lanes part[4] = {};
        for (; i + 16 <= d; i += 16)
            for (int p = 0; p < 4; ++p) part[p] += term(load_lanes(x + i + 4 * p) - load_lanes(c + i + 4 * p));
        const lanes all = (part[0] + part[1]) + (part[2] + part[3]);
        sum = (all[0] + all[1]) + (all[2] + all[3]);
    }
    for (; i < d; ++i) sum += term(static_cast<double>(x[i]) - c[i]);
    return sum;
}

template <class T>
inline double dist2(const T* x, const double* c, index_t d) {
    return over_differences(x, c, d, [](auto a) { return a * a; });
}

template <class T>
inline double dist1(const T* x, const double* c, index_t d) {
    return over_differences(x, c, d, [](auto a) { return a < 0 ? -a : a; });
}

// Centres are float64, whatever the rows are. `norm2` is filled for sparse rows only, whose
// distances are ||c||^2 + sum over the stored entries of x(x - 2c).
struct Centres {
    const double* c;
    index_t k, d;
    std::vector<double> norm2;
    const double* row(index_t j) const { return c + j * d; }
};

template <class T>
Centres exact_centres(const Dense<T>& rows, const double* c, index_t k) {
    return {c, k, rows.d, {}};
}

template <class T>
Centres exact_centres(const Csr<T>& rows, const double* c, index_t k) {
    Centres out{c, k, rows.d, std::vector<double>(k, 0)};
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < rows.d; ++i) out.norm2[j] += out.row(j)[i] * out.row(j)[i];
    return out;
}

template <class T>
inline double dist2(const Dense<T>& rows, index_t i, const Centres& centres, index_t j) {
    return dist2(rows.row(i), centres.row(j), rows.d);
}

template <class T>
inline double dist2(const Csr<T>& rows, index_t i, const Centres& centres, index_t j) {
    const double* c = centres.row(j);
    double sum = 0;
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
        const double x = static_cast<double>(rows.x[p]);
        sum += x * (x - 2.0 * c[rows.column[p]]);
    }
    const double out = centres.norm2[j] + sum;
    return out > 0 ? out : 0;
}

// Eight doubles side by side: what they hold does not depend on how a machine splits them.
typedef double eight __attribute__((vector_size(64)));

template <class T>
inline eight load_eight(const T* p) {
    typedef T narrow __attribute__((vector_size(8 * sizeof(T))));
    narrow v;
    std::memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, eight);
}

// A sum and what rounding has taken from it so far (Knuth's two-sum): moving a row out again
// leaves nothing of it behind, however large it was. For doubles, or eight of them.
template <class V>
inline void add(V& sum, V& rest, V term) {
    const V total = sum + term, part = total - sum;
    rest += (sum - (total - part)) + (term - part);
    sum = total;
}

// sum += w * row, coordinates [from, to)
template <class T>
inline void add_row(const Dense<T>& rows, index_t i, double w, double* sum, double* rest, index_t from, index_t to) {
    const T* x = rows.row(i);
    index_t j = from;
    for (; j + 8 <= to; j += 8) {
        eight s = load_eight(sum + j), r = load_eight(rest + j);
        add(s, r, w * load_eight(x + j));
        std::memcpy(sum + j, &s, sizeof s);
        std::memcpy(rest + j, &r, sizeof r);
    }
    for (; j < to; ++j) add(sum[j], rest[j], w * static_cast<double>(x[j]));
}

template <class T>
inline void add_row(const Csr<T>& rows, index_t i, double w, double* sum, double* rest, index_t, index_t) {
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p)
        add(sum[rows.column[p]], rest[rows.column[p]], w * static_cast<double>(rows.x[p]));
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
