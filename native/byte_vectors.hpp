// Vectors as bytes with a step each, and measured errors (see byte_rows.hpp).
#pragma once

#include <algorithm>
#include <cmath>

#include "byte_rows.hpp"
#include "kernels.hpp"
#include "small_types.hpp"

namespace kv::KV_ISA {

constexpr float MAX_BYTE = 127;
constexpr index_t SAMPLED = 1024;  // rows that offset and scale are taken from; any values are valid

// A vector as bytes: v = step * q + e.
struct Quantized {
    float step = 0;
    double norm2 = 0;              // ||v||^2, to 2^-22 of itself
    double error = 0, bytes2 = 0;  // ||e||, rounded up, and ||q||^2
    std::int32_t sum = 0;          // of q
};

// Rounds to integers: adding and subtracting 1.5 * 2^23 does that.
template <class V>
inline V rounded(V v) {
    constexpr float magic = 12582912.0f;
    return (v + magic) - magic;
}

inline float largest_of(vf v) {
    return joined<W>(v, [](vf a, vf b) { return a < b ? b : a; });
}

using Bytes = Vector<std::int8_t, W>;

template <int... I>
inline vf neighbours_swapped(vf v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, (I ^ 1)...);
}

// PAIRS: see ByteRows. `v` is the vector in float32, which rounds each coordinate once. Calls write_bytes(first, q) for
// W bytes at a time, and for each of the rest.
template <bool PAIRS, class Write>
Quantized quantize(const float* v, index_t d, Write&& write_bytes) {
    Quantized out;
    const index_t whole = d / W * W;
    vd squares{};
    vf most{};
    for (index_t j = 0; j < whole; j += W) {
        const vf a = load(v + j), b = a < 0 ? -a : a;
        const vd wide = __builtin_convertvector(a, vd);
        squares += wide * wide;
        const vf size = PAIRS ? b + neighbours_swapped(b, AllLanes{}) : b;
        most = most < size ? size : most;
    }
    float largest = largest_of(most);
    for (int l = 0; l < W; ++l) out.norm2 += squares[l];
    for (index_t j = whole; j < d; ++j) {
        out.norm2 += static_cast<double>(v[j]) * static_cast<double>(v[j]);
        largest = std::max(largest, std::fabs(v[j]) + (PAIRS && j % 2 ? std::fabs(v[j - 1]) : 0));
    }
    // Rounded up, so that no byte is beyond 127. Of two, the sum is below 127 before each is rounded by at most 1/2: so
    // it is below 128 after.
    out.step = largest * ((1 + 0x1p-20f) / MAX_BYTE);
    const float inverse = out.step > std::numeric_limits<float>::min() ? 1 / out.step : 0;
    vf residual{}, bytes{};
    vi total{};
    for (index_t j = 0; j < whole; j += W) {
        const vf a = load(v + j), number = rounded(a * inverse), gap = a - number * out.step;
        residual += gap * gap, bytes += number * number;
        const vi q = __builtin_convertvector(number, vi);
        total += q;
        write_bytes(j, __builtin_convertvector(q, Bytes));
    }
    double rest = static_cast<double>(sum_of(residual));
    out.bytes2 = static_cast<double>(sum_of(bytes));
    for (int l = 0; l < W; ++l) out.sum += total[l];
    for (index_t j = whole; j < d; ++j) {
        const float number = rounded(v[j] * inverse), gap = v[j] - number * out.step;
        rest += static_cast<double>(gap * gap), out.bytes2 += static_cast<double>(number * number);
        out.sum += static_cast<std::int32_t>(number);
        write_bytes(j, static_cast<std::int8_t>(number));
    }
    // The rounding of these sums, of gaps, and of v itself.
    const double wider = 1 + static_cast<double>(d / W + 16) * 0x1p-23;
    out.bytes2 *= wider;
    out.error = std::sqrt(rest) * wider + 0x1p-21 * std::sqrt(out.norm2);
    return out;
}

// Whether the proof of byte_rows.hpp holds for a vector.
inline bool fits_bytes(const Quantized& of) { return of.norm2 < 0x1p100; }

inline double norm_of_product(const Quantized& of) { return static_cast<double>(of.step) * std::sqrt(of.bytes2); }
inline float norm_of_bytes(const Quantized& of) { return static_cast<float>(norm_of_product(of) * (1 + 1e-6)); }
inline float error_of_row(const Quantized& of) { return static_cast<float>(of.error * (1 + 1e-6) + 0x1p-100); }

// What a centre enters bounds with; it also covers their rounding.
struct CenterBounds {
    float half, norm, error;

    explicit CenterBounds(const Quantized& of) {
        const double size = std::sqrt(of.norm2);
        half = static_cast<float>(of.norm2 / 2 * (1 - BYTE_ROUNDING));
        norm = static_cast<float>(size * (1 + BYTE_ROUNDING));
        error = static_cast<float>(of.error * (1 + BYTE_ROUNDING) + BYTE_ROUNDING * (size + norm_of_product(of)));
    }
};

// Shifted and scaled, in float32, which rounds each coordinate once.
template <class T>
void shift(const T* x, const std::vector<double>& offset, double scale, float* v) {
    const index_t d = static_cast<index_t>(offset.size()), whole = d / W * W;
    for (index_t j = 0; j < whole; j += W)
        store(v + j, __builtin_convertvector((widened<W>(x + j) - read<vd>(offset.data() + j)) * scale, vf));
    for (index_t j = whole; j < d; ++j) v[j] = static_cast<float>((static_cast<double>(x[j]) - offset[j]) * scale);
}

template <class T>
std::vector<double> mean_of_some(const Dense<T>& rows) {
    const index_t some = std::min(rows.n, SAMPLED);
    std::vector<double> mean(rows.d, 0);
    for (index_t s = 0; s < some; ++s) {
        const T* x = rows.row(s * rows.n / some);
        for (index_t j = 0; j < rows.d; ++j) mean[j] += static_cast<double>(x[j]) / static_cast<double>(some);
    }
    return mean;
}

// The scale that gives such rows a norm of about 2^20; zero if there is none.
template <class T>
double scale_of_some(const Dense<T>& rows, const std::vector<double>& offset) {
    const index_t some = std::min(rows.n, SAMPLED);
    double largest = 0;
    for (index_t s = 0; s < some; ++s) {
        const T* x = rows.row(s * rows.n / some);
        for (index_t j = 0; j < rows.d; ++j)
            largest = std::max(largest, std::fabs(static_cast<double>(x[j]) - offset[j]));
    }
    const double norm = largest * std::sqrt(static_cast<double>(rows.d));
    if (!(norm > 0x1p-380 && norm < 0x1p400)) return 0;
    int e;
    std::frexp(norm, &e);
    return std::ldexp(1.0, 20 - e);
}

}  // namespace kv::KV_ISA
