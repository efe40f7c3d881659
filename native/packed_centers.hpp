// Converts centres to the form that the filter reads: shifted by a median of theirs and scaled by a power of two.
#pragma once

#include "kernels.hpp"
#include "reference.hpp"

namespace kv::KV_ISA {

// The exponent of the largest norm of a centre, that of the smallest number that rounding may lose, and the longest
// chain of operations, all for filter.hpp's proof.
template <class Real>
struct FilterRange;
template <>
struct FilterRange<float> {
    static constexpr int largest = 30, lost = -140;
    // The last factor covers the error of a norm in float32.
    static double eps(index_t d) {
        return static_cast<double>(std::min(d, CHUNK) + d / CHUNK + 10) * UNIT *
               (1 + static_cast<double>(d / 8) * UNIT);
    }
};
template <>
struct FilterRange<double> {  // its own errors, and as much again for the reference
    static constexpr int largest = 400, lost = -1060;
    static double eps(index_t d) { return static_cast<double>(d + 16) * 0x1p-51; }
};

// Returns the power of two that scales the norm r to about 2^largest. Rows of type T must be able to multiply by it.
template <class T, class Real>
double filter_scale(double r) {
    if (!(r > 0) || std::isinf(r)) return r > 0 ? 0 : 1;
    int e;
    std::frexp(r, &e);
    return std::ldexp(1.0, std::min(FilterRange<Real>::largest - e, std::is_same_v<T, float> ? 126 : 1000));
}

// Returns TINY of filter.hpp.
template <class Real>
double lost_to_underflow(index_t d, double scale) {
    const double reference = scale * 0x1p-537;
    return static_cast<double>(d + 16) * (std::ldexp(1.0, FilterRange<Real>::lost) + reference * reference);
}

// The middle of three numbers.
inline double median(double a, double b, double c) {
    const double low = a < b ? a : b, high = a < b ? b : a, least = high < c ? high : c;
    return low > least ? low : least;
}

// Robust means of the features: medians of medians of three medians over 27 centres. A few far centres do not move
// them, as they would a mean.
template <class T>
std::vector<double> median_of_centers(const double* c, index_t k, index_t d) {
    const double* center[27];
    for (index_t s = 0; s < 27; ++s) center[s] = c + s * k / 27 * d;
    std::vector<double> offset(d);
    for (index_t i = 0; i < d; ++i) {
        double m[9];
        for (int s = 0; s < 9; ++s) m[s] = median(center[s][i], center[s + 9][i], center[s + 18][i]);
        const double middle = median(median(m[0], m[3], m[6]), median(m[1], m[4], m[7]), median(m[2], m[5], m[8]));
        offset[i] = static_cast<double>(static_cast<T>(middle));  // rows subtract it in their own type
    }
    return offset;
}

template <class Real, class T>
Packed<Real> pack_dense(const Dense<T>& rows, const double* c, index_t k, std::vector<double> offset) {
    const index_t d = rows.d;
    Packed<Real> packed;
    packed.k = k, packed.d = d;
    packed.offset = std::move(offset);
    std::vector<double> norm2(k, 0);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i) {
            const double v = c[j * d + i] - packed.offset[i];
            norm2[j] += v * v;
        }
    packed.scale = filter_scale<T, Real>(std::sqrt(*std::max_element(norm2.begin(), norm2.end())));
    packed.eps = FilterRange<Real>::eps(d);
    packed.lost = lost_to_underflow<Real>(d, packed.scale) / packed.eps;
    packed.center.resize(k * d);
    packed.half.resize(k), packed.radius2.resize(k);
    for (index_t j = 0; j < k; ++j) {
        const double square = norm2[j] * packed.scale * packed.scale;
        packed.radius2[j] = static_cast<Real>(square * ENLARGED + packed.lost);
        packed.half[j] = static_cast<Real>(square / 2 - packed.eps * packed.radius2[j]);
        for (index_t i = 0; i < d; ++i)
            packed.center[j * d + i] = static_cast<Real>((c[j * d + i] - packed.offset[i]) * packed.scale);
    }
    return packed;
}

template <class T>
PackedCenters pack_centers(const Dense<T>& rows, const Centers& centers) {
    return pack_dense<float>(rows, centers.c, centers.k, median_of_centers<T>(centers.c, centers.k, rows.d));
}

template <class T>
PackedCenters pack_centers(const Csr<T>& rows, const Centers& centers) {
    const index_t k = centers.k, d = rows.d, w = vector_width();
    PackedCenters packed;
    packed.k = k, packed.d = d;
    packed.width = (k + 3) / 4 * 4;
    double largest = 0;
    for (const SumOfSquares& norm2 : centers.norm2) largest = std::max(largest, norm2.sum);
    packed.scale = filter_scale<double, float>(std::sqrt(largest));
    packed.lost = lost_to_underflow<float>(d, packed.scale) / UNIT;
    packed.half.assign(packed.width, std::numeric_limits<float>::infinity());
    packed.radius2.assign(packed.width, 0);
    for (index_t j = 0; j < k; ++j) {
        const double square = centers.norm2[j].sum * packed.scale * packed.scale;
        packed.half[j] = static_cast<float>(square / 2);
        packed.radius2[j] = static_cast<float>(square * ENLARGED + packed.lost);
    }
    packed.center.resize(d * packed.width);
    constexpr index_t SPAN = 64;  // features that are transposed at a time
    parallel((d + SPAN - 1) / SPAN, threads_for(static_cast<double>(k) * d), [&](index_t span) {
        const index_t from = span * SPAN, to = std::min(d, from + SPAN);
        for_panels(packed.width, w, [&](index_t first, index_t vectors, index_t lanes) {
            const index_t wide = vectors * lanes;
            float* panel = packed.center.data() + d * first;
            for (index_t j = first; j < std::min(k, first + wide); ++j)
                for (index_t i = from; i < to; ++i)
                    panel[i * wide + j - first] = static_cast<float>(centers.row(j)[i] * packed.scale);
        });
    });
    return packed;
}

}  // namespace kv::KV_ISA
