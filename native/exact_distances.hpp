// Distances in the reference arithmetic: of all pairs of rows and centres, and for the labels of a few rows. Those need
// no copy of the centres in another form (packed_centers.hpp), which takes longer than to compare them.
//
// Several pairs are computed at once, so that a value that was loaded serves all of them. Every pair is summed in the
// order of reference.hpp.
#pragma once

#include "byte_assign.hpp"
#include "small_rows.hpp"

namespace kv::KV_ISA {

// Pairs whose sums stay in registers: ROWS_HELD rows with CENTERS_HELD centres.
constexpr int ROWS_HELD = REGISTERS == 32 ? 4 : REGISTER_BYTES == 32 ? 2 : 1, CENTERS_HELD = REGISTERS == 32 ? 2 : 1;
constexpr index_t SPAN_BYTES = 1 << 17;      // of the centres that a tile of rows is compared with at a time
constexpr index_t MIN_SPAN = 16;             // but at least so many
constexpr index_t FEW_ROWS = 4 * ROWS_HELD;  // up to which exact distances take less time than to pack the centres

// The centres as the caller has them, in either type.
template <class C>
struct CenterRows {
    const C* c;
    index_t k, d;
    const C* row(index_t j) const { return c + j * d; }
};

// Calls f with the centres in their own type.
template <class F>
auto with_centers(const RowsView& v, F&& f) {
    return v.is_double ? f(CenterRows<double>{static_cast<const double*>(v.x), v.n, v.d})
                       : f(CenterRows<float>{static_cast<const float*>(v.x), v.n, v.d});
}

// Squared distances of M rows, one after the other in x, to N centres: out[m * stride + n]. Pre: d >= 16.
template <int M, int N, class C>
void pair_distances(const double* x, const C* c, index_t d, double* out, index_t stride) {
    using V = Lanes<double>;
    V part[M * N][2];
#pragma GCC unroll 16
    for (int p = 0; p < 2 * M * N; ++p) part[p / 2][p % 2] = V{};
    const index_t whole = d / 16 * 16;
    for (index_t i = 0; i < whole; i += 16) {
        if constexpr (M == 1)  // memory is slower than the work on one row
            for (int n = 0; n < N; ++n)
                for (index_t line = 0; line < 16; line += 64 / sizeof(C))
                    __builtin_prefetch(c + (n + 2 * N) * d + i + line);
#pragma GCC unroll 2
        for (int half = 0; half < 2; ++half) {
            V row[M];
#pragma GCC unroll 4
            for (int m = 0; m < M; ++m) row[m] = V::read(x + m * d + i + 8 * half);
#pragma GCC unroll 4
            for (int n = 0; n < N; ++n) {
                const V center = V::widened(c + n * d + i + 8 * half);
#pragma GCC unroll 4
                for (int m = 0; m < M; ++m) {
                    V& sum = part[m * N + n][half];
                    sum = sum + (row[m] - center).squared();
                }
            }
        }
    }
#pragma GCC unroll 8
    for (int p = 0; p < M * N; ++p) out[p / N * stride + p % N] = (part[p][0].folded() + part[p][1].folded()).sum();
    if (whole == d) return;
    for (int p = 0; p < M * N; ++p) {
        double sum = out[p / N * stride + p % N];
        for (index_t i = whole; i < d; ++i) {
            const double gap = x[p / N * d + i] - static_cast<double>(c[p % N * d + i]);
            sum += gap * gap;
        }
        out[p / N * stride + p % N] = sum;
    }
}

// Rows and a span of centres in float64, and their squared distances.
struct SpanScratch {
    Buffer<double> x, c, squares;
};

template <class C>
double short_distance(const double* x, const C* c, index_t d) {
    double sum = 0;
    for (index_t i = 0; i < d; ++i) {
        const double gap = x[i] - static_cast<double>(c[i]);
        sum += gap * gap;
    }
    return sum;
}

// Calls f with the centres in float64.
template <class C, class F>
void with_doubles(const CenterRows<C>& centers, F&& f) {
    if constexpr (std::is_same_v<C, double>) {
        f(centers.c);
    } else {
        Unset<double> wide(centers.k * centers.d);
        parallel_rows(centers.k, threads_for(static_cast<double>(centers.k) * centers.d),
                      [&](index_t from, index_t stop) {
                          std::copy(centers.row(from), centers.row(stop), wide.data() + from * centers.d);
                      });
        f(wide.data());
    }
}

template <class T>
void widen(const T* from, index_t count, Buffer<double>& to) {
    ensure_size(to, count);
    std::copy_n(from, count, to.data());
}

// Squared distances of the `count` rows in s.x to `width` centres from c on: s.squares[r * width + j].
template <class C>
void span_distances(const C* c, index_t width, index_t count, index_t d, SpanScratch& s) {
    ensure_size(s.squares, count * width);
    if (d < 16) {
        for (index_t r = 0; r < count; ++r)
            for (index_t j = 0; j < width; ++j)
                s.squares[r * width + j] = short_distance(s.x.data() + r * d, c + j * d, d);
        return;
    }
    const auto compare = [&](index_t r, auto m) {
        const double* x = s.x.data() + r * d;
        double* out = s.squares.data() + r * width;
        index_t j = 0;
        for (; j + CENTERS_HELD <= width; j += CENTERS_HELD)
            pair_distances<m(), CENTERS_HELD>(x, c + j * d, d, out + j, width);
        for (; j < width; ++j) pair_distances<m(), 1>(x, c + j * d, d, out + j, width);
    };
    index_t r = 0;
    for (; r + ROWS_HELD <= count; r += ROWS_HELD) compare(r, std::integral_constant<int, ROWS_HELD>{});
    with_count<ROWS_HELD - 1>(count - r, [&](auto m) { compare(r, m); });
}
template <class C>
void span_distances(const CenterRows<C>& centers, index_t first, index_t width, index_t count, SpanScratch& s) {
    const index_t d = centers.d;
    if (count <= ROWS_HELD)  // each centre is read once
        return span_distances(centers.row(first), width, count, d, s);
    widen(centers.row(first), width * d, s.c);
    span_distances(s.c.data(), width, count, d, s);
}

inline index_t span_of(index_t d) { return std::max(MIN_SPAN, SPAN_BYTES / (8 * d) / MIN_SPAN * MIN_SPAN); }

template <class T, class C>
void dense_distances(const Dense<T>& rows, const CenterRows<C>& centers, bool squared, T* out) {
    const index_t k = centers.k, span = span_of(rows.d), spans = (k + span - 1) / span;
    // A task is a tile of rows, or of few rows a span of centres.
    const index_t tiles = (rows.n + TILE - 1) / TILE, per_tile = tiles < 64 ? spans : 1;
    std::vector<SpanScratch> scratch(threads_for(static_cast<double>(rows.n) * rows.d * k));
    parallel(tiles * per_tile, scratch, [&](index_t task, SpanScratch& s) {
        const index_t from = task / per_tile * TILE, count = std::min<index_t>(TILE, rows.n - from);
        const index_t part = task % per_tile, last = per_tile > 1 ? part + 1 : spans;
        widen(rows.row(from), count * rows.d, s.x);
        for (index_t first = part * span; first < std::min(k, last * span); first += span) {
            const index_t width = std::min(span, k - first);
            span_distances(centers, first, width, count, s);
            for (index_t r = 0; r < count; ++r) {
                const double* square = s.squares.data() + r * width;
                T* to = out + (from + r) * k + first;
                if (squared)
                    for (index_t j = 0; j < width; ++j) to[j] = static_cast<T>(square[j]);
                else
                    for (index_t j = 0; j < width; ++j) to[j] = static_cast<T>(std::sqrt(square[j]));
            }
        }
    });
}

template <class T>
void sparse_distances(const Csr<T>& rows, const double* c, index_t k, bool squared, T* out) {
    const auto centers = exact_centers(rows, c, k);
    parallel_rows(rows.n, threads_for(static_cast<double>(rows.n) * rows.d * k), [&](index_t from, index_t stop) {
        for (index_t i = from; i < stop; ++i)
            for (index_t j = 0; j < k; ++j) {
                const double v = dist2(rows, i, centers, j);
                out[i * k + j] = static_cast<T>(squared ? v : std::sqrt(v));
            }
    });
}

template <class Rows>
void distances(const Rows& rows, const RowsView& given, bool squared, void* out) {
    auto* to = static_cast<typename Rows::value_type*>(out);
    with_centers(given, [&](const auto& centers) {
        if constexpr (Rows::sparse)
            with_doubles(centers, [&](const double* c) { sparse_distances(rows, c, centers.k, squared, to); });
        else
            dense_distances(rows, centers, squared, to);
    });
}

// Calls compare(first, width, found, scratch) for spans of centres, where found[r] is the nearest of the span to row r,
// and joins the spans in order.
template <class C, class Compare>
void nearest_by_spans(const CenterRows<C>& centers, index_t n, std::vector<SpanScratch>& scratch, label_t* labels,
                      Compare&& compare) {
    const index_t k = centers.k, span = span_of(centers.d), spans = (k + span - 1) / span;
    std::vector<Nearest> found(spans * n);
    parallel(spans, scratch, [&](index_t part, SpanScratch& s) {
        compare(part * span, std::min(span, k - part * span), found.data() + part * n, s);
    });
    for (index_t r = 0; r < n; ++r) {
        Nearest best;
        for (index_t part = 0; part < spans; ++part) best.offer(found[part * n + r].arg, found[part * n + r].cost);
        labels[r] = best.arg;
    }
}

template <class T, class C>
void nearest_of_few(const Dense<T>& rows, const CenterRows<C>& centers, label_t* labels) {
    const index_t n = rows.n;
    std::vector<SpanScratch> scratch(threads_for(static_cast<double>(n) * rows.d * centers.k));
    for (SpanScratch& s : scratch) widen(rows.x, n * rows.d, s.x);
    nearest_by_spans(centers, n, scratch, labels, [&](index_t first, index_t width, Nearest* found, SpanScratch& s) {
        span_distances(centers, first, width, n, s);
        for (index_t r = 0; r < n; ++r)
            for (index_t j = 0; j < width; ++j)
                found[r].offer(static_cast<label_t>(first + j), s.squares[r * width + j]);
    });
}

template <class C>
void nearest_of_few(const SmallRows& rows, const CenterRows<C>& centers, label_t* labels) {
    Buffer<float> wide;
    const auto count = static_cast<int>(rows.n);
    nearest_of_few(widened_rows(rows, TileIds().id, count, wide), centers, labels);
}

// One centre at a time in float64: all of them may take much memory.
template <class T, class C>
void nearest_of_few(const Csr<T>& rows, const CenterRows<C>& centers, label_t* labels) {
    const index_t d = rows.d;
    std::vector<SpanScratch> scratch(threads_for(static_cast<double>(d) * centers.k));
    nearest_by_spans(centers, rows.n, scratch, labels,
                     [&](index_t first, index_t width, Nearest* found, SpanScratch& s) {
                         for (index_t j = first; j < first + width; ++j) {
                             widen(centers.row(j), d, s.c);
                             const Centers one{s.c.data(), 1, d, {sum_of_squares(s.c.data(), d)}};
                             for (index_t r = 0; r < rows.n; ++r)
                                 found[r].offer(static_cast<label_t>(j), dist2(rows, r, one, 0));
                         }
                     });
}

template <class Rows>
void nearest(const Rows& rows, const RowsView& given, label_t* labels, const ByteKernels* bytes) {
    with_centers(given, [&](const auto& centers) {
        if (rows.n <= FEW_ROWS) return nearest_of_few(rows, centers, labels);
        with_doubles(centers, [&](const double* c) { nearest_of_many(rows, c, centers.k, labels, *bytes); });
    });
}

}  // namespace kv::KV_ISA
