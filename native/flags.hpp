// Which of 64 values lie below their limits, as bits. The one place where a vector's comparison has to
// become an integer, which compilers do not find by themselves.
#pragma once

#include <cstdint>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "common.hpp"

namespace kv::KV_ISA {

template <class T>
inline std::uint64_t some_below(const T* values, const T* limits, int count) {
    std::uint64_t bits = 0;
    for (int r = 0; r < count; ++r) bits |= static_cast<std::uint64_t>(values[r] < limits[r]) << r;
    return bits;
}

template <class T>
inline std::uint64_t all_below(const T* values, const T* limits) {
    return some_below(values, limits, TILE);
}

#if defined(__AVX512F__)
template <>
inline std::uint64_t all_below(const float* a, const float* b) {
    std::uint64_t bits = 0;
    for (int r = 0; r < TILE; r += 16)
        bits |= static_cast<std::uint64_t>(_mm512_cmp_ps_mask(_mm512_loadu_ps(a + r), _mm512_loadu_ps(b + r), _CMP_LT_OQ)) << r;
    return bits;
}
template <>
inline std::uint64_t all_below(const double* a, const double* b) {
    std::uint64_t bits = 0;
    for (int r = 0; r < TILE; r += 8)
        bits |= static_cast<std::uint64_t>(_mm512_cmp_pd_mask(_mm512_loadu_pd(a + r), _mm512_loadu_pd(b + r), _CMP_LT_OQ)) << r;
    return bits;
}
#elif defined(__AVX__)
template <>
inline std::uint64_t all_below(const float* a, const float* b) {
    std::uint64_t bits = 0;
    for (int r = 0; r < TILE; r += 8) {
        const __m256 less = _mm256_cmp_ps(_mm256_loadu_ps(a + r), _mm256_loadu_ps(b + r), _CMP_LT_OQ);
        bits |= static_cast<std::uint64_t>(_mm256_movemask_ps(less)) << r;
    }
    return bits;
}
template <>
inline std::uint64_t all_below(const double* a, const double* b) {
    std::uint64_t bits = 0;
    for (int r = 0; r < TILE; r += 4) {
        const __m256d less = _mm256_cmp_pd(_mm256_loadu_pd(a + r), _mm256_loadu_pd(b + r), _CMP_LT_OQ);
        bits |= static_cast<std::uint64_t>(_mm256_movemask_pd(less)) << r;
    }
    return bits;
}
#endif

// visit(i) for every i in [0, n) with values[i] < limits[i], in order.
template <class T, class Visit>
inline void for_below(const T* values, const T* limits, index_t n, Visit&& visit) {
    for (index_t at = 0; at < n; at += TILE) {
        std::uint64_t bits = at + TILE <= n ? all_below(values + at, limits + at)
                                            : some_below(values + at, limits + at, static_cast<int>(n - at));
        for (; bits; bits &= bits - 1) visit(at + __builtin_ctzll(bits));
    }
}

}  // namespace kv::KV_ISA
