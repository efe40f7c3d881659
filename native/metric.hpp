// Distances under L1, L2 or cosine: from a few points to all rows, or all pairs.
//
// Distances are sums of differences in the rows' own type over sixteen float32 (eight float64) lanes
// that are folded in one order: the same bits on every instruction set, whichever way a pair is met.
#pragma once

#include <cmath>

#include "kernels.hpp"
#include "lanes.hpp"

namespace kv::KV_ISA {

// The rows, and for few features their coordinates side by side too (d x n), else null.
template <class T>
struct Points {
    const T* x;
    const T* turned;
    index_t n, d;
    const std::uint64_t* lit = nullptr;  // see lit_vectors
};

// Where four rows are zero throughout a vector of coordinates, they are *blank* there. Blank against blank
// adds nothing to a distance, not even a rounding, and images have margins.
template <class T>
inline index_t lit_words(index_t d) {
    return (d / LANES<T> + 63) / 64;
}

// A bit for every vector that is not blank, for rows 0 to 3, then 4 to 7, and so on.
template <class T>
std::vector<std::uint64_t> lit_vectors(const Points<T>& p) {
    const index_t words = lit_words<T>(p.d);
    std::vector<std::uint64_t> out(static_cast<std::size_t>((p.n + 3) / 4 * words), 0);
    parallel(blocks_of(p.n), threads_for(static_cast<double>(p.n) * p.d), [&](index_t block) {
        for (index_t i = block * BLOCK; i < std::min(p.n, (block + 1) * BLOCK); ++i)
            for (index_t v = 0; v < p.d / LANES<T>; ++v) {
                bool blank = true;
                for (index_t u = 0; u < LANES<T>; ++u) blank &= p.x[i * p.d + v * LANES<T> + u] == 0;
                out[i / 4 * words + v / 64] |= static_cast<std::uint64_t>(!blank) << (v % 64);
            }
    });
    return out;
}

// What is needed next, asked for in so many parts.
struct Ahead {
    const char *at, *end;
    index_t step;
    template <class T>
    Ahead(const T* from, const T* to, index_t parts)
        : at(reinterpret_cast<const char*>(from)), end(reinterpret_cast<const char*>(to)), step(((end - at) / (64 * parts) + 1) * 64) {}
    void fetch() {
        for (const char* stop = std::min(end, at + step); at < stop; at += 64) __builtin_prefetch(at);
    }
};

template <bool L1, class V>
[[gnu::always_inline]] inline V grown(V sum, V gap) {
    return sum + (L1 ? gap.absolute() : gap.squared());
}

template <bool L1, class T>
inline void grow_one(T& sum, T gap) {
    sum += L1 ? std::abs(gap) : gap * gap;
}

template <class T>
inline T ended(T sum, int kind) {
    return kind == L2 ? std::sqrt(sum) : kind == COSINE ? sum / 2 : sum;
}

// A point beside four rows, so that loads are shared. Named parts: compilers leave an array in memory.
template <class T>
struct Four {
    using V = Lanes<T>;
    V a{}, b{}, c{}, d{};

    template <bool L1>
    [[gnu::always_inline]] inline void meet(V point, V x0, V x1, V x2, V x3) {
        a = grown<L1>(a, x0 - point);
        b = grown<L1>(b, x1 - point);
        c = grown<L1>(c, x2 - point);
        d = grown<L1>(d, x3 - point);
    }

    // What is left of the features, [from, to), and the end of the formula.
    template <bool L1>
    inline void end(const T* point, const T* const* x, index_t from, index_t to, int kind, index_t count, T* out) const {
        T sum[4];
        V::fold(a, b, c, d, sum);
        for (index_t j = from; j < to; ++j)
            for (int u = 0; u < 4; ++u) grow_one<L1>(sum[u], x[u][j] - point[j]);
        for (int u = 0; u < 4; ++u) sum[u] = ended(sum[u], kind);
        std::copy_n(sum, count, out);
    }
};

// meet(j) for the first coordinate of every vector of them that is not blank on both sides.
template <class T, class Meet>
[[gnu::always_inline]] inline void for_lit(const std::uint64_t* x, const std::uint64_t* c, index_t d, Meet&& meet) {
    const index_t vectors = d / LANES<T>;
    for (index_t word = 0; word * 64 < vectors; ++word) {
        std::uint64_t lit = x ? x[word] | c[word] : vectors - word * 64 >= 64 ? ~0ull : (1ull << (vectors - word * 64)) - 1;
        for (; lit; lit &= lit - 1) meet((word * 64 + __builtin_ctzll(lit)) * LANES<T>);
    }
}

// out[m][to - from]: distances of the m points c to rows [from, to), `stride` apart. `lit`: of c, or null.
template <bool L1, class T>
void rows_wide(const Points<T>& p, const T* c, const std::uint64_t* lit, index_t m, index_t from, index_t to, int kind,
               T* out, index_t stride) {
    const auto read = [](const T* at) { return Lanes<T>::read(at); };
    const index_t d = p.d, whole = d / LANES<T> * LANES<T>, words = lit_words<T>(d);
    for (index_t i = from; i < to; i += 4) {
        const T* x[4];
        for (int u = 0; u < 4; ++u) x[u] = p.x + std::min(i + u, to - 1) * d;
        const index_t count = std::min<index_t>(4, to - i);
        const auto lit_x = lit ? p.lit + i / 4 * words : nullptr;
        const auto lit_c = [&](index_t a) { return lit ? lit + a / 4 * words : nullptr; };
        T* to_here = out + i - from;
        index_t a = 0;
#if defined(__AVX512F__)
        Ahead next(p.x + std::min(i + 4, p.n) * d, p.x + std::min(i + 8, p.n) * d, m / 4 + 1);
        for (; a + 4 <= m; a += 4) {  // sixteen sums: as many as registers hold
            const T *c0 = c + a * d, *c1 = c0 + d, *c2 = c1 + d, *c3 = c2 + d;
            Four<T> s0, s1, s2, s3;
            next.fetch();
            for_lit<T>(lit_x, lit_c(a), d, [&](index_t j) __attribute__((always_inline)) {
                const auto x0 = read(x[0] + j), x1 = read(x[1] + j), x2 = read(x[2] + j), x3 = read(x[3] + j);
                s0.template meet<L1>(read(c0 + j), x0, x1, x2, x3);
                s1.template meet<L1>(read(c1 + j), x0, x1, x2, x3);
                s2.template meet<L1>(read(c2 + j), x0, x1, x2, x3);
                s3.template meet<L1>(read(c3 + j), x0, x1, x2, x3);
            });
            s0.template end<L1>(c0, x, whole, d, kind, count, to_here + a * stride);
            s1.template end<L1>(c1, x, whole, d, kind, count, to_here + (a + 1) * stride);
            s2.template end<L1>(c2, x, whole, d, kind, count, to_here + (a + 2) * stride);
            s3.template end<L1>(c3, x, whole, d, kind, count, to_here + (a + 3) * stride);
        }
#endif
        for (; a < m; ++a) {
            const T* c0 = c + a * d;
            Four<T> s0;
            for_lit<T>(lit_x, lit_c(a), d, [&](index_t j) __attribute__((always_inline)) {
                s0.template meet<L1>(read(c0 + j), read(x[0] + j), read(x[1] + j), read(x[2] + j), read(x[3] + j));
            });
            s0.template end<L1>(c0, x, whole, d, kind, count, to_here + a * stride);
        }
    }
}

// Few features: a vector holds one coordinate of many rows.
template <bool L1, class T>
void rows_narrow(const Points<T>& p, const T* c, index_t m, index_t from, index_t to, int kind, T* out,
                 index_t stride) {
    constexpr index_t S = LANES<T>;
    for (index_t a = 0; a < m; ++a) {
        const T* q = c + a * p.d;
        T* to_row = out + a * stride;
        index_t i = from;
        for (; i + S <= to; i += S) {
            Lanes<T> sum;
            for (index_t j = 0; j < p.d; ++j) sum = grown<L1>(sum, Lanes<T>::read(p.turned + j * p.n + i) - q[j]);
            T part[S];
            sum.write(part);
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
void rows_part(const Points<T>& p, const T* c, const std::uint64_t* lit, index_t m, index_t from, index_t to, int kind,
               T* out, index_t stride) {
    if (p.turned)
        kind == L1 ? rows_narrow<true>(p, c, m, from, to, kind, out, stride)
                   : rows_narrow<false>(p, c, m, from, to, kind, out, stride);
    else
        kind == L1 ? rows_wide<true>(p, c, lit, m, from, to, kind, out, stride)
                   : rows_wide<false>(p, c, lit, m, from, to, kind, out, stride);
}

template <class T>
void metric_rows(const Points<T>& p, const T* c, index_t m, int kind, T* out) {
    const int threads = threads_for(static_cast<double>(p.n) * p.d * m);
    parallel(blocks_of(p.n), threads, [&](index_t block) {
        const index_t from = block * BLOCK, to = std::min(p.n, from + BLOCK);
        rows_part(p, c, nullptr, m, from, to, kind, out + from, p.n);
    });
}

// All pairs: each tile is measured once and written twice.
template <class T>
void metric_square(Points<T> p, int kind, T* out) {
    constexpr index_t SIDE = 128;
    const auto lit = lit_vectors(p);
    const index_t words = lit_words<T>(p.d);
    p.lit = lit.data();
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
        rows_part(p, p.x + top * p.d, p.lit + top / 4 * words, height, left, left + width, kind, tile.data(), SIDE);
        for (index_t i = 0; i < height; ++i) std::memcpy(out + (top + i) * p.n + left, tile.data() + i * SIDE, width * sizeof(T));
        for (index_t j = 0; j < width; ++j)
            for (index_t i = 0; i < height; ++i) out[(left + j) * p.n + top + i] = tile[i * SIDE + j];
    });
}

}  // namespace kv::KV_ISA
