// Vectors, by the compiler's vector extensions. This file alone knows how wide the registers of the instruction set
// being compiled are.
//
// `vf`, `vi` and `vd` are as wide as a register. `Lanes` always holds 64 bytes: its values, and the order in which they
// are summed, do not depend on the registers.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "common.hpp"

namespace kv::KV_ISA {

#if defined(__AVX512F__)
constexpr int REGISTER_BYTES = 64, REGISTERS = 32;
#elif defined(__AVX__)
constexpr int REGISTER_BYTES = 32, REGISTERS = 16;
#else
constexpr int REGISTER_BYTES = 16, REGISTERS = 16;
#endif

// W: float32 values in a register. R: registers of rows that the filter's inner loop holds.
constexpr int W = REGISTER_BYTES / 4, R = REGISTERS == 32 ? 4 : 2;

template <class T, int N>
struct VectorOf {
    typedef T type __attribute__((vector_size(N * sizeof(T))));
};
template <class T, int N>
using Vector = typename VectorOf<T, N>::type;

using vf = Vector<float, W>;
using vi = Vector<std::int32_t, W>;
using vd = Vector<double, W>;  // two registers

template <class V>
[[gnu::always_inline]] inline V read(const void* p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
template <class V>
[[gnu::always_inline]] inline void write(void* p, V v) {
    std::memcpy(p, &v, sizeof v);
}
// Fetches a row from memory before it is read. Inlined, since compilers leave out the call of a function that only
// prefetches.
template <class T>
[[gnu::always_inline]] inline void prefetch(const Dense<T>& rows, index_t i) {
    const auto* row = reinterpret_cast<const char*>(rows.row(i));
    for (std::size_t at = 0; at < rows.d * sizeof(T); at += 64) __builtin_prefetch(row + at);
}
template <class T>
[[gnu::always_inline]] inline void prefetch(const Csr<T>& rows, index_t i) {
    constexpr index_t LINE = 64 / sizeof(T);
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; p += LINE) {
        __builtin_prefetch(rows.x + p);
        __builtin_prefetch(rows.column + p);
    }
}
// N values of any type as float64.
template <int N, class T>
[[gnu::always_inline]] inline Vector<double, N> widened(const T* p) {
    using V = Vector<double, N>;
    return __builtin_convertvector((read<Vector<T, N>>(p)), V);
}

using AllLanes = std::make_integer_sequence<int, W>;

inline vf load(const float* p) { return read<vf>(p); }
inline void store(float* p, vf v) { write(p, v); }
inline vf splat(float a) { return a - vf{}; }
inline vi splat(std::int32_t a) { return a - vi{}; }

template <int BY, class V, int... I>
inline V rotated(V v, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(v, v, ((I + BY) % int{sizeof...(I)})...);
}
// Joins all lanes of a vector: halves, then quarters.
template <int LANES, int BY = LANES / 2, class V, class Join>
inline auto joined(V v, Join join) {
    v = join(v, rotated<BY>(v, std::make_integer_sequence<int, LANES>{}));
    if constexpr (BY > 1)
        return joined<LANES, BY / 2>(v, join);
    else
        return v[0];
}
inline float sum_of(vf v) {
    return joined<W>(v, [](vf a, vf b) { return a + b; });
}

// Calls f with n as a compile-time constant if n is in 1..N, and not at all if n is 0.
template <int N, class F>
inline void with_count(index_t n, F&& f) {
    if constexpr (N > 0) n == N ? f(std::integral_constant<int, N>{}) : with_count<N - 1>(n, f);
}

// The two smallest values offered so far, and the label of the smallest (BOTH: of both); of equal values the first. V
// is a number or a vector, and L a label or a vector of them.
template <class V, class L, bool BOTH = false>
struct TwoSmallest {
    V best, second;
    L arg, next;

    [[gnu::always_inline]] inline void offer(V v, label_t j) {
        const auto closer = v < best;
        const V less = second < v ? second : v;
        if constexpr (BOTH) next = closer ? arg : v < second ? j : next;
        second = closer ? best : less;
        arg = closer ? j - L{} : arg;  // given a vector of `j`, compilers compare twice
        best = closer ? v : best;
    }
};

// The two nearest centres (or medoids) of a row, which are offered in the order of their labels.
template <class T>
using TwoNearestOf = TwoSmallest<T, label_t, true>;
template <class T>
TwoNearestOf<T> no_two_nearest(index_t k) {
    constexpr T infinity = std::numeric_limits<T>::infinity();
    return {infinity, infinity, 0, k > 1};
}
// Stores them for row i. If no distance but that to the first centre is finite, it still stands as its own second.
template <class T>
void set_two_nearest(const TwoNearestOf<T>& two, index_t k, index_t i, const TwoNearest<T>& out) {
    out.labels[i] = two.arg, out.cost[i] = two.best, out.second_cost[i] = two.second;
    out.second[i] = k > 1 && two.next == two.arg ? two.arg == 0 : two.next;
}

// ---- comparisons with limits, as bits: compilers do not find these instructions by themselves ----

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
#elif defined(__AVX__)
inline std::uint64_t register_mask(const float* a, const float* b) {
    return _mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(a), _mm256_loadu_ps(b), _CMP_LT_OQ));
}
inline std::uint64_t register_mask(const double* a, const double* b) {
    return _mm256_movemask_pd(_mm256_cmp_pd(_mm256_loadu_pd(a), _mm256_loadu_pd(b), _CMP_LT_OQ));
}
#endif

// The lanes in which a <= b, as bits.
inline std::uint32_t mask_at_most(vf a, vf b) {
#if defined(__AVX512F__)
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_LE_OQ);
#elif defined(__AVX__)
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps((__m256)a, (__m256)b, _CMP_LE_OQ)));
#else
    std::uint32_t bits = 0;
    for (int l = 0; l < W; ++l) bits |= static_cast<std::uint32_t>(a[l] <= b[l]) << l;
    return bits;
#endif
}

template <class T>
inline std::uint64_t tile_mask_below(const T* values, const T* limits) {
#if defined(__AVX__)
    constexpr int count = REGISTER_BYTES / sizeof(T);
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

// ---- vectors of sixteen float32 or eight float64 values on any machine ----

// A part of a register.
template <class T, int N>
struct Folded {
    Vector<T, N> v;
    [[gnu::always_inline]] Folded operator+(Folded o) const { return {v + o.v}; }
    // The sum of the lanes, of neighbours first.
    [[gnu::always_inline]] T sum() const {
        T all[N];
        for (int l = 0; l < N; ++l) all[l] = v[l];
        for (int width = 1; width < N; width *= 2)
            for (int l = 0; l < N; l += 2 * width) all[l] += all[l + width];
        return all[0];
    }
};

// A vector of `BYTES` bytes, cut into halves down to the machine's registers. Compilers would keep an array in memory.
template <class T, int BYTES>
struct Wide {
    using Half = Wide<T, BYTES / 2>;
    Half low{}, high{};

    [[gnu::always_inline]] static Wide read(const T* p) {
        return {Half::read(p), Half::read(p + BYTES / 2 / sizeof(T))};
    }
    template <class U>
    [[gnu::always_inline]] static Wide widened(const U* p) {
        return {Half::widened(p), Half::widened(p + BYTES / 2 / sizeof(T))};
    }
    // The lanes of the first half plus those of the second.
    [[gnu::always_inline]] Half folded() const { return low + high; }
    // The sum of the lanes, of neighbours first.
    [[gnu::always_inline]] T sum() const { return low.sum() + high.sum(); }
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
struct Wide<T, REGISTER_BYTES> {
    using Bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    typedef T V __attribute__((vector_size(REGISTER_BYTES)));
    typedef Bits B __attribute__((vector_size(REGISTER_BYTES)));
    static constexpr int N = REGISTER_BYTES / sizeof(T);
    V v{};

    [[gnu::always_inline]] static Wide read(const T* p) {
        Wide out;
        std::memcpy(&out.v, p, REGISTER_BYTES);
        return out;
    }
    // Of another type of numbers.
    template <class U>
    [[gnu::always_inline]] static Wide widened(const U* p) {
        return {__builtin_convertvector((kv::KV_ISA::read<Vector<U, N>>(p)), V)};
    }
    [[gnu::always_inline]] Folded<T, N / 2> folded() const { return {half_sum(v, std::make_index_sequence<N / 2>{})}; }
    [[gnu::always_inline]] T sum() const { return Folded<T, N>{v}.sum(); }
    [[gnu::always_inline]] void write(T* p) const { std::memcpy(p, &v, REGISTER_BYTES); }
    [[gnu::always_inline]] Wide operator+(Wide o) const { return {v + o.v}; }
    [[gnu::always_inline]] Wide operator-(Wide o) const { return {v - o.v}; }
    [[gnu::always_inline]] Wide operator-(T o) const { return {v - o}; }
    [[gnu::always_inline]] Wide squared() const { return {v * v}; }
    [[gnu::always_inline]] Wide absolute() const { return {(V)((B)v & std::numeric_limits<Bits>::max())}; }

    template <std::size_t... I>
    [[gnu::always_inline]] static Vector<T, N / 2> half_sum(V a, std::index_sequence<I...>) {
        return __builtin_shufflevector(a, a, I...) + __builtin_shufflevector(a, a, (I + N / 2)...);
    }

    // Sums four vectors at once: adds halves to halves, then quarters, so that a shuffle serves two or four sums.
    [[gnu::always_inline]] static void fold(Wide a, Wide b, Wide c, Wide d, T* out) {
        constexpr auto all = std::make_index_sequence<N>{};
        const V ab = halves(a.v, b.v, all), cd = halves(c.v, d.v, all);
        if constexpr (N == 2) {
            std::memcpy(out, &ab, REGISTER_BYTES), std::memcpy(out + 2, &cd, REGISTER_BYTES);
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
