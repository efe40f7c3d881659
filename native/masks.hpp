// Comparisons of 64 values with their limits, as bits. Compilers do not find these instructions by themselves.
#pragma once

#include <cstdint>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "common.hpp"

namespace kv::KV_ISA {

template <class T>
inline std::uint64_t mask_below(const T* values, const T* limits, int count) {
    std::uint64_t bits = 0;
    for (int r = 0; r < count; ++r) bits |= static_cast<std::uint64_t>(values[r] < limits[r]) << r;
    return bits;
}

#if defined(__AVX512F__)
inline std::uint64_t register_mask(const float* a, const float* b) {
    return _mm512_cmp_ps_mask(_mm512_loadu_ps(a), _mm512_loadu_ps(b), _CMP_LT_OQ);
}
inline std::uint64_t register_mask(const double* a, const double* b) {
    return _mm512_cmp_pd_mask(_mm512_loadu_pd(a), _mm512_loadu_pd(b), _CMP_LT_OQ);
}
constexpr int MASK_BYTES = 64;
#elif defined(__AVX__)
inline std::uint64_t register_mask(const float* a, const float* b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b), _CMP_LT_OQ));
}
inline std::uint64_t register_mask(const double* a, const double* b) {
    return _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(a), _mm256_loadu_pd(b), _CMP_LT_OQ));
}
constexpr int MASK_BYTES = 32;
#endif

template <class T>
inline std::uint64_t tile_mask_below(const T* values, const T* limits) {
#if defined(__AVX__)
    constexpr int count = MASK_BYTES / sizeof(T);
    std::uint64_t bits = 0;
    for (int r = 0; r < TILE; r += count) bits |= register_mask(values + r, limits + r) << r;
    return bits;
#else
    return mask_below(values, limits, TILE);
#endif
}

// Calls visit(i) for every i in [0, n) with values[i] < limits[i], in order.
template <class T, class Visit>
inline void for_below(const T* values, const T* limits, index_t n, Visit&& visit) {
    for (index_t at = 0; at < n; at += TILE) {
        std::uint64_t bits = at + TILE <= n ? tile_mask_below(values + at, limits + at)
                                            : mask_below(values + at, limits + at, static_cast<int>(n - at));
        for (; bits; bits &= bits - 1) visit(at + __builtin_ctzll(bits));
    }
}

}  // namespace kv::KV_ISA
