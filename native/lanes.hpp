// Vectors of sixteen float32 or eight float64 values on any machine. Their values, and the order in which they are
// summed, do not depend on how wide its registers are.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "common.hpp"

namespace kv::KV_ISA {

#if defined(__AVX512F__)
constexpr int NATIVE = 64;
#elif defined(__AVX__)
constexpr int NATIVE = 32;
#else
constexpr int NATIVE = 16;
#endif

// A vector of `BYTES` bytes, cut into halves down to the machine's registers. Compilers would keep an array in memory.
template <class T, int BYTES>
struct Wide {
    using Half = Wide<T, BYTES / 2>;
    Half low{}, high{};

    [[gnu::always_inline]] static Wide read(const T* p) {
        return {Half::read(p), Half::read(p + BYTES / 2 / sizeof(T))};
    }
    [[gnu::always_inline]] void write(T* p) const { low.write(p), high.write(p + BYTES / 2 / sizeof(T)); }
    [[gnu::always_inline]] Wide operator+(Wide o) const { return {low + o.low, high + o.high}; }
    [[gnu::always_inline]] Wide operator-(Wide o) const { return {low - o.low, high - o.high}; }
    [[gnu::always_inline]] Wide operator-(T o) const { return {low - o, high - o}; }
    [[gnu::always_inline]] Wide squared() const { return {low.squared(), high.squared()}; }
    [[gnu::always_inline]] Wide absolute() const { return {low.absolute(), high.absolute()}; }
    [[gnu::always_inline]] static void fold(Wide a, Wide b, Wide c, Wide d, T* out) {
        Half::fold(a.low + a.high, b.low + b.high, c.low + c.high, d.low + d.high, out);
    }
};

template <class T>
struct Wide<T, NATIVE> {
    using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    typedef T V __attribute__((vector_size(NATIVE)));
    typedef Bits B __attribute__((vector_size(NATIVE)));
    static constexpr int N = NATIVE / sizeof(T);
    V v{};

    [[gnu::always_inline]] static Wide read(const T* p) {
        Wide out;
        std::memcpy(&out.v, p, NATIVE);
        return out;
    }
    [[gnu::always_inline]] void write(T* p) const { std::memcpy(p, &v, NATIVE); }
    [[gnu::always_inline]] Wide operator+(Wide o) const { return {v + o.v}; }
    [[gnu::always_inline]] Wide operator-(Wide o) const { return {v - o.v}; }
    [[gnu::always_inline]] Wide operator-(T o) const { return {v - o}; }
    [[gnu::always_inline]] Wide squared() const { return {v * v}; }
    [[gnu::always_inline]] Wide absolute() const { return {(V)((B)v & std::numeric_limits<Bits>::max())}; }

    // Sums four vectors at once: adds halves to halves, then quarters, so that a shuffle serves two or four sums.
    [[gnu::always_inline]] static void fold(Wide a, Wide b, Wide c, Wide d, T* out) {
        constexpr auto all = std::make_index_sequence<N>{};
        const V ab = halves(a.v, b.v, all), cd = halves(c.v, d.v, all);
        if constexpr (N == 2) {
            std::memcpy(out, &ab, NATIVE), std::memcpy(out + 2, &cd, NATIVE);
        } else {
            const V sums = quarters(ab, cd, all);
            for (int u = 0; u < 4; ++u) out[u] = sums[u * (N / 4)];
        }
    }

private:
    template <std::size_t... I>
    [[gnu::always_inline]] static V halves(V a, V b, std::index_sequence<I...>) {
        constexpr int H = N / 2;
        return __builtin_shufflevector(a, b, (I / H * N + I % H)...) +
               __builtin_shufflevector(a, b, (I / H * N + H + I % H)...);
    }
    // ab holds half a vector for a, then for b; cd likewise.
    template <std::size_t... I>
    [[gnu::always_inline]] static V quarters(V ab, V cd, std::index_sequence<I...> all) {
        constexpr int Q = N / 4;
        V sum = __builtin_shufflevector(ab, cd, (I / Q * 2 * Q + I % Q)...) +
                __builtin_shufflevector(ab, cd, (I / Q * 2 * Q + Q + I % Q)...);
        if constexpr (Q >= 4) sum += permuted<2>(sum, all);
        if constexpr (Q >= 2) sum += permuted<1>(sum, all);
        return sum;
    }
    template <int BY, std::size_t... I>
    [[gnu::always_inline]] static V permuted(V a, std::index_sequence<I...>) {
        return __builtin_shufflevector(a, a, (I ^ BY)...);
    }
};

template <class T>
using Lanes = Wide<T, 64>;
template <class T>
constexpr index_t LANES = 64 / sizeof(T);

}  // namespace kv::KV_ISA
