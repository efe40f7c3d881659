// Vectors as wide as the registers of the instruction set being compiled, by the compiler's vector extensions.
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "common.hpp"

namespace kv::KV_ISA {

// W: float32 values in a register. R: registers of rows that the filter's inner loop holds.
#if defined(__AVX512F__)
constexpr int W = 16, R = 4;
#elif defined(__AVX__)
constexpr int W = 8, R = 2;
#else
constexpr int W = 4, R = 2;
#endif

typedef float vf __attribute__((vector_size(4 * W)));
typedef std::int32_t vi __attribute__((vector_size(4 * W)));
typedef double vd __attribute__((vector_size(8 * W)));
using AllLanes = std::make_integer_sequence<int, W>;

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }
inline vf splat(float a) { return a - vf{}; }
inline vi splat(std::int32_t a) { return a - vi{}; }
inline vf smaller(vf a, vf b) { return a < b ? a : b; }

template <int BY, int... I>
inline vf rotated(vf v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, ((I + BY) % W)...);
}
template <int BY = W / 2>
inline float sum_of(vf v) {
    v += rotated<BY>(v, AllLanes{});
    if constexpr (BY > 1) return sum_of<BY / 2>(v);
    return v[0];
}

// Calls f with n as a compile-time constant if n is in 1..N, and not at all if n is 0.
template <int N, class F>
inline void with_count(index_t n, F&& f) {
    if constexpr (N > 0) n == N ? f(std::integral_constant<int, N>{}) : with_count<N - 1>(n, f);
}

}  // namespace kv::KV_ISA
