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

template <int... I>
struct Order {};
template <int N, int... I>
struct Upto : Upto<N - 1, N - 1, I...> {};
template <int... I>
struct Upto<0, I...> {
    using type = Order<I...>;
};

template <int BY, int... I>
inline vf turned(vf v, Order<I...>) {
    return __builtin_shufflevector(v, v, ((I + BY) % W)...);
}
template <int BY = W / 2>
inline float across(vf v) {
    v += turned<BY>(v, typename Upto<W>::type{});
    if constexpr (BY > 1) return across<BY / 2>(v);
    return v[0];
}

}  // namespace kv::KV_ISA
