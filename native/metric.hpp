// L1, L2 and cosine distances: from a few points to all rows, or between all pairs of rows.
//
// Differences are summed in the rows' own type over sixteen float32 (eight float64) lanes, which are added in one
// order: the same bits on every instruction set, and whichever function computes a pair.
#pragma once

#include <cmath>

#include "kernels.hpp"
#include "simd.hpp"

namespace kv::KV_ISA {

// The rows; if they have few features also their transpose (d x n), otherwise null.
template <class T>
struct Points {
    const T* x;
    const T* transposed;
    index_t n, d;
    const std::uint64_t* nonzero = nullptr;  // see nonzero_vectors
};

// Vectors of features in which four rows are all zero need no work against others that are zero there: they add nothing
// to a distance, not even a rounding error. Images have such margins.
template <class T>
inline index_t nonzero_words(index_t d) {
    return (d / LANES<T> + 63) / 64;
}

// Returns a bit for every vector that is not all zero, for rows 0 to 3, then 4 to 7, and so on.
template <class T>
std::vector<std::uint64_t> nonzero_vectors(const Points<T>& p) {
    const index_t words = nonzero_words<T>(p.d);
    std::vector<std::uint64_t> out((p.n + 3) / 4 * words, 0);
    parallel_rows(p.n, threads_for(static_cast<double>(p.n) * p.d), [&](index_t from, index_t to) {
        for (index_t i = from; i < to; ++i)
            for (index_t v = 0; v < p.d / LANES<T>; ++v) {
                bool zero = true;
                for (index_t u = 0; u < LANES<T>; ++u) zero &= p.x[i * p.d + v * LANES<T> + u] == 0;
                out[i / 4 * words + v / 64] |= static_cast<std::uint64_t>(!zero) << (v % 64);
            }
    });
    return out;
}

// Prefetches [from, to) in so many parts.
struct Prefetch {
    const char *at, *end;
    index_t step;
    template <class T>
    Prefetch(const T* from, const T* to, index_t parts)
        : at(reinterpret_cast<const char*>(from)),
          end(reinterpret_cast<const char*>(to)),
          step(((end - at) / (64 * parts) + 1) * 64) {}
    void fetch() {
        for (const char* stop = std::min(end, at + step); at < stop; at += 64) __builtin_prefetch(at);
    }
};

template <bool L1, class V>
[[gnu::always_inline]] inline V accumulated(V sum, V gap) {
    return sum + (L1 ? gap.absolute() : gap.squared());
}

template <bool L1, class T>
inline void accumulate(T& sum, T gap) {
    sum += L1 ? std::abs(gap) : gap * gap;
}

template <class T>
inline T finished(T sum, int kind) {
    return kind == L2 ? std::sqrt(sum) : kind == COSINE ? sum / 2 : sum;
}

// The sums for one point and four rows, which share loads. They are named, since compilers keep an array in memory.
template <class T>
struct FourSums {
    using V = Lanes<T>;
    V a{}, b{}, c{}, d{};

    template <bool L1>
    [[gnu::always_inline]] inline void add(V point, V x0, V x1, V x2, V x3) {
        a = accumulated<L1>(a, x0 - point);
        b = accumulated<L1>(b, x1 - point);
        c = accumulated<L1>(c, x2 - point);
        d = accumulated<L1>(d, x3 - point);
    }

    // Adds the remaining features [from, to) and completes the formula.
    template <bool L1>
    inline void finish(const T* point, const T* const* x, index_t from, index_t to, int kind, index_t count,
                       T* out) const {
        T sum[4];
        V::fold(a, b, c, d, sum);
        for (index_t j = from; j < to; ++j)
            for (int u = 0; u < 4; ++u) accumulate<L1>(sum[u], x[u][j] - point[j]);
        for (int u = 0; u < 4; ++u) sum[u] = finished(sum[u], kind);
        std::copy_n(sum, count, out);
    }
};

// Calls add(j) for the first feature of every vector that is not zero on both sides.
template <class T, class Add>
[[gnu::always_inline]] inline void for_nonzero(const std::uint64_t* x, const std::uint64_t* c, index_t d, Add&& add) {
    const index_t vectors = d / LANES<T>;
    for (index_t word = 0; word * 64 < vectors; ++word) {
        std::uint64_t nonzero = x                           ? x[word] | c[word]
                                : vectors - word * 64 >= 64 ? ~0ull
                                                            : (1ull << (vectors - word * 64)) - 1;
        for (; nonzero; nonzero &= nonzero - 1) add((word * 64 + __builtin_ctzll(nonzero)) * LANES<T>);
    }
}

// Writes the distances of the m points c to rows [from, to) to out[m][to - from]. `nonzero` is that of c, or null.
template <bool L1, class T>
void rows_many_features(const Points<T>& p, const T* c, const std::uint64_t* nonzero, index_t m, index_t from,
                        index_t to, int kind, T* out, index_t stride) {
    const auto read = [](const T* at) { return Lanes<T>::read(at); };
    const index_t d = p.d, whole = d / LANES<T> * LANES<T>, words = nonzero_words<T>(d);
    for (index_t i = from; i < to; i += 4) {
        const T* x[4];
        for (int u = 0; u < 4; ++u) x[u] = p.x + std::min(i + u, to - 1) * d;
        const index_t count = std::min<index_t>(4, to - i);
        const auto nonzero_x = nonzero ? p.nonzero + i / 4 * words : nullptr;
        const auto nonzero_c = [&](index_t a) { return nonzero ? nonzero + a / 4 * words : nullptr; };
        T* target = out + i - from;
        index_t a = 0;
        if constexpr (REGISTER_BYTES == 64) {  // sixteen sums, as many as registers can hold
            Prefetch next(p.x + std::min(i + 4, p.n) * d, p.x + std::min(i + 8, p.n) * d, m / 4 + 1);
            for (; a + 4 <= m; a += 4) {
                const T *c0 = c + a * d, *c1 = c0 + d, *c2 = c1 + d, *c3 = c2 + d;
                FourSums<T> s0, s1, s2, s3;
                next.fetch();
                for_nonzero<T>(nonzero_x, nonzero_c(a), d, [&](index_t j) __attribute__((always_inline)) {
                    const auto x0 = read(x[0] + j), x1 = read(x[1] + j), x2 = read(x[2] + j), x3 = read(x[3] + j);
                    s0.template add<L1>(read(c0 + j), x0, x1, x2, x3);
                    s1.template add<L1>(read(c1 + j), x0, x1, x2, x3);
                    s2.template add<L1>(read(c2 + j), x0, x1, x2, x3);
                    s3.template add<L1>(read(c3 + j), x0, x1, x2, x3);
                });
                s0.template finish<L1>(c0, x, whole, d, kind, count, target + a * stride);
                s1.template finish<L1>(c1, x, whole, d, kind, count, target + (a + 1) * stride);
                s2.template finish<L1>(c2, x, whole, d, kind, count, target + (a + 2) * stride);
                s3.template finish<L1>(c3, x, whole, d, kind, count, target + (a + 3) * stride);
            }
        }
        for (; a < m; ++a) {
            const T* c0 = c + a * d;
            FourSums<T> s0;
            for_nonzero<T>(nonzero_x, nonzero_c(a), d, [&](index_t j) __attribute__((always_inline)) {
                s0.template add<L1>(read(c0 + j), read(x[0] + j), read(x[1] + j), read(x[2] + j), read(x[3] + j));
            });
            s0.template finish<L1>(c0, x, whole, d, kind, count, target + a * stride);
        }
    }
}

// The same for few features: a vector holds one feature of many rows.
template <bool L1, class T>
void rows_few_features(const Points<T>& p, const T* c, index_t m, index_t from, index_t to, int kind, T* out,
                       index_t stride) {
    constexpr index_t S = LANES<T>;
    for (index_t a = 0; a < m; ++a) {
        const T* q = c + a * p.d;
        T* target = out + a * stride;
        index_t i = from;
        for (; i + S <= to; i += S) {
            Lanes<T> sum;
            for (index_t j = 0; j < p.d; ++j)
                sum = accumulated<L1>(sum, Lanes<T>::read(p.transposed + j * p.n + i) - q[j]);
            T part[S];
            sum.write(part);
            for (int u = 0; u < S; ++u) target[i - from + u] = finished(part[u], kind);
        }
        for (; i < to; ++i) {
            T sum = 0;
            for (index_t j = 0; j < p.d; ++j) accumulate<L1>(sum, p.transposed[j * p.n + i] - q[j]);
            target[i - from] = finished(sum, kind);
        }
    }
}

template <class T>
void block_distances(const Points<T>& p, const T* c, const std::uint64_t* nonzero, index_t m, index_t from, index_t to,
                     int kind, T* out, index_t stride) {
    if (p.transposed)
        kind == L1 ? rows_few_features<true>(p, c, m, from, to, kind, out, stride)
                   : rows_few_features<false>(p, c, m, from, to, kind, out, stride);
    else
        kind == L1 ? rows_many_features<true>(p, c, nonzero, m, from, to, kind, out, stride)
                   : rows_many_features<false>(p, c, nonzero, m, from, to, kind, out, stride);
}

template <class T>
void metric_rows(const Points<T>& p, const T* c, index_t m, int kind, T* out) {
    parallel_rows(p.n, threads_for(static_cast<double>(p.n) * p.d * m), [&](index_t from, index_t to) {
        block_distances(p, c, nullptr, m, from, to, kind, out + from, p.n);
    });
}

// Distances between all pairs of rows: each tile is computed once and written twice.
template <class T>
void metric_square(Points<T> p, int kind, T* out) {
    constexpr index_t SIDE = 128;
    const auto nonzero = nonzero_vectors(p);
    const index_t words = nonzero_words<T>(p.d);
    p.nonzero = nonzero.data();
    const index_t side = (p.n + SIDE - 1) / SIDE;
    std::vector<Buffer<T>> scratch(threads_for(0.5 * static_cast<double>(p.n) * p.n * p.d), Buffer<T>(SIDE * SIDE));
    parallel(side * (side + 1) / 2, scratch, [&](index_t task, Buffer<T>& tile) {
        index_t a = static_cast<index_t>((std::sqrt(8.0 * static_cast<double>(task) + 1) - 1) / 2);
        while (a * (a + 1) / 2 > task) --a;
        while ((a + 1) * (a + 2) / 2 <= task) ++a;
        const index_t b = task - a * (a + 1) / 2;  // b <= a
        const index_t top = a * SIDE, height = std::min(SIDE, p.n - top);
        const index_t left = b * SIDE, width = std::min(SIDE, p.n - left);
        block_distances(p, p.x + top * p.d, p.nonzero + top / 4 * words, height, left, left + width, kind, tile.data(),
                        SIDE);
        for (index_t i = 0; i < height; ++i)
            std::memcpy(out + (top + i) * p.n + left, tile.data() + i * SIDE, width * sizeof(T));
        for (index_t j = 0; j < width; ++j)
            for (index_t i = 0; i < height; ++i) out[(left + j) * p.n + top + i] = tile[i * SIDE + j];
    });
}

}  // namespace kv::KV_ISA
