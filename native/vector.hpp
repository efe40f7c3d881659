// Vectors of the set being compiled, by the compiler's vector extensions: no intrinsics.
#pragma once

#include <cstdint>
#include <cstring>

#include "common.hpp"

namespace kv::KV_ISA {

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

inline vf load(const float* p) {
    vf v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
inline void store(float* p, vf v) { std::memcpy(p, &v, sizeof v); }
inline vf splat(float a) { return a - vf{}; }
inline vi splat(std::int32_t a) { return a - vi{}; }
inline vf least(vf a, vf b) { return a < b ? a : b; }

inline float across(vf v) {
    float sum = 0;
    for (int l = 0; l < W; ++l) sum += v[l];
    return sum;
}

}  // namespace kv::KV_ISA
