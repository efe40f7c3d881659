// Distances from a few points to all rows under L1, L2 or cosine, and swaps of medoids.
//
// Distances are sums of differences in the rows' own type over sixteen float32 (eight float64) lanes
// that are folded in one order: the same bits on every instruction set, whichever way a pair is met.
#pragma once

#include <cmath>
#include <cstring>

#include "kernels.hpp"

namespace kv::KV_ISA {

template <class T>
struct Lanes;
template <>
struct Lanes<float> {
    typedef float type __attribute__((vector_size(64)));
    typedef std::int32_t bits __attribute__((vector_size(64)));
    static constexpr int size = 16;
    static constexpr std::int32_t clear = 0x7fffffff;
};
template <>
struct Lanes<double> {
    typedef double type __attribute__((vector_size(64)));
    typedef std::int64_t bits __attribute__((vector_size(64)));
    static constexpr int size = 8;
    static constexpr std::int64_t clear = 0x7fffffffffffffff;
};

template <class T>
inline typename Lanes<T>::type read(const T* p) {
    typename Lanes<T>::type v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

// The rows, and for few features their coordinates side by side too (d x n), else null.
template <class T>
struct Points {
    const T* x;
    const T* turned;
    index_t n, d;
};

template <bool L1, class V>
inline void grow(V& sum, V gap) {
    if constexpr (L1) {
        using T = std::remove_cvref_t<decltype(gap[0])>;
        using L = Lanes<T>;
        sum += (V)((typename L::bits)gap & L::clear);
    } else {
        sum += gap * gap;
    }
}

template <bool L1, class T>
inline void grow_one(T& sum, T gap) {
    sum += L1 ? std::abs(gap) : gap * gap;
}

template <class T>
inline T ended(T sum, int kind) {
    return kind == L2 ? std::sqrt(sum) : kind == COSINE ? sum / 2 : sum;
}

template <class T, class V>
inline T folded(V v) {
    T part[Lanes<T>::size];
    std::memcpy(part, &v, sizeof v);
    for (int half = Lanes<T>::size / 2; half; half /= 2)
        for (int i = 0; i < half; ++i) part[i] += part[i + half];
    return part[0];
}

// out[a][b] = distance of c_a to x_b: A x B pairs at once, so that loads are shared.
template <bool L1, int A, int B, class T>
inline void pairs(const T* const* c, const T* const* x, index_t d, int kind, T (*out)[B]) {
    using V = typename Lanes<T>::type;
    constexpr int S = Lanes<T>::size;
    V sum[A][B] = {};
    index_t j = 0;
    for (; j + S <= d; j += S)
        for (int a = 0; a < A; ++a) {
            const V left = read(c[a] + j);
            for (int b = 0; b < B; ++b) grow<L1>(sum[a][b], read(x[b] + j) - left);
        }
    for (int a = 0; a < A; ++a)
        for (int b = 0; b < B; ++b) {
            T all = folded<T>(sum[a][b]);
            for (index_t i = j; i < d; ++i) grow_one<L1>(all, x[b][i] - c[a][i]);
            out[a][b] = ended(all, kind);
        }
}

// out[m][to - from]: distances of the m points c to rows [from, to), `stride` apart.
template <bool L1, class T>
void rows_wide(const Points<T>& p, const T* c, index_t m, index_t from, index_t to, int kind, T* out, index_t stride) {
    constexpr int A = 2, B = 4;
    for (index_t i = from; i < to; i += B)
        for (index_t a = 0; a < m; a += A) {
            const T *left[A], *right[B];
            for (int u = 0; u < A; ++u) left[u] = c + std::min(a + u, m - 1) * p.d;
            for (int u = 0; u < B; ++u) right[u] = p.x + std::min(i + u, to - 1) * p.d;
            T got[A][B];
            pairs<L1, A, B>(left, right, p.d, kind, got);
            for (int u = 0; u < A && a + u < m; ++u)
                for (int v = 0; v < B && i + v < to; ++v) out[(a + u) * stride + i - from + v] = got[u][v];
        }
}

// Few features: a vector holds one coordinate of many rows.
template <bool L1, class T>
void rows_narrow(const Points<T>& p, const T* c, index_t m, index_t from, index_t to, int kind, T* out,
                 index_t stride) {
    using V = typename Lanes<T>::type;
    constexpr int S = Lanes<T>::size;
    for (index_t a = 0; a < m; ++a) {
        const T* q = c + a * p.d;
        T* to_row = out + a * stride;
        index_t i = from;
        for (; i + S <= to; i += S) {
            V sum{};
            for (index_t j = 0; j < p.d; ++j) grow<L1>(sum, read(p.turned + j * p.n + i) - q[j]);
            T part[S];
            std::memcpy(part, &sum, sizeof sum);
            for (int u = 0; u < S; ++u) to_row[i - from + u] = ended(part[u], kind);
        }
        for (; i < to; ++i) {
            T sum = 0;
            for (index_t j = 0; j < p.d; ++j) grow_one<L1>(sum, p.turned[j * p.n + i] - q[j]);
            to_row[i - from] = ended(sum, kind);
        }
    }
}

template <class T>
void rows_part(const Points<T>& p, const T* c, index_t m, index_t from, index_t to, int kind, T* out, index_t stride) {
    if (p.turned)
        kind == L1 ? rows_narrow<true>(p, c, m, from, to, kind, out, stride)
                   : rows_narrow<false>(p, c, m, from, to, kind, out, stride);
    else
        kind == L1 ? rows_wide<true>(p, c, m, from, to, kind, out, stride)
                   : rows_wide<false>(p, c, m, from, to, kind, out, stride);
}

template <class T>
void metric_rows(const Points<T>& p, const T* c, index_t m, int kind, T* out) {
    const int threads = threads_for(static_cast<double>(p.n) * p.d * m);
    parallel(blocks_of(p.n), threads, [&](index_t block) {
        const index_t from = block * BLOCK, to = std::min(p.n, from + BLOCK);
        rows_part(p, c, m, from, to, kind, out + from, p.n);
    });
}

// All pairs: each tile is measured once and written twice.
template <class T>
void metric_square(const Points<T>& p, int kind, T* out) {
    constexpr index_t SIDE = 128;
    const index_t side = (p.n + SIDE - 1) / SIDE;
    std::vector<Buffer<T>> scratch(static_cast<std::size_t>(threads_for(0.5 * static_cast<double>(p.n) * p.n * p.d)),
                                   Buffer<T>(SIDE * SIDE));
    parallel(side * (side + 1) / 2, scratch, [&](index_t task, Buffer<T>& tile) {
        index_t a = static_cast<index_t>((std::sqrt(8.0 * static_cast<double>(task) + 1) - 1) / 2);
        while (a * (a + 1) / 2 > task) --a;
        while ((a + 1) * (a + 2) / 2 <= task) ++a;
        const index_t b = task - a * (a + 1) / 2;  // b <= a
        const index_t top = a * SIDE, height = std::min(SIDE, p.n - top);
        const index_t left = b * SIDE, width = std::min(SIDE, p.n - left);
        rows_part(p, p.x + top * p.d, height, left, left + width, kind, tile.data(), SIDE);
        for (index_t i = 0; i < height; ++i) std::memcpy(out + (top + i) * p.n + left, tile.data() + i * SIDE, width * sizeof(T));
        for (index_t j = 0; j < width; ++j)
            for (index_t i = 0; i < height; ++i) out[(left + j) * p.n + top + i] = tile[i * SIDE + j];
    });
}

}  // namespace kv::KV_ISA
