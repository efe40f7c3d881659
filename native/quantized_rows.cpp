// Makes quantized rows and prefilters candidates with them (see quantized_rows.hpp).
#include "quantized_rows.hpp"

#include <algorithm>
#include <cmath>

#include "kernels.hpp"
#include "small_types.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int MAX_QUERIES = REGISTERS == 32 ? 7 : 3;  // candidates whose values fit into registers

// Compares N candidates, from `at` on, with one tile: bit r of rows[j] is set if candidate j may improve row r.
// A 32-bit lane holds the bytes of four rows; shifting them out is faster than widening bytes.
template <int N>
void prefilter(const std::int8_t* q, index_t d, const float* threshold, const Queries& queries, index_t at,
               std::uint64_t* rows) {
    alignas(64) std::uint8_t maybe[N][TILE];
    for (int g = 0; g < TILE / 4; g += W) {
        vf acc[N][4];
        for (int j = 0; j < N; ++j)
            for (int b = 0; b < 4; ++b) acc[j][b] = splat(queries.half[at + j]);
        const float* a = queries.a.data() + at;
        for (index_t i = 0; i < d; ++i, a += queries.m) {
            const vi word = read<vi>(q + i * TILE + 4 * g);
            vf v[4];
            for (int b = 0; b < 4; ++b) v[b] = __builtin_convertvector((word << (24 - 8 * b)) >> 24, vf);
            for (int j = 0; j < N; ++j)
                for (int b = 0; b < 4; ++b) acc[j][b] -= v[b] * a[j];
        }
        for (int j = 0; j < N; ++j) {
            vi bytes{};
            for (int b = 0; b < 4; ++b)
                bytes |= (acc[j][b] < load(threshold + b * (TILE / 4) + g)) &
                         splat(static_cast<std::int32_t>(255u << 8 * b));
            write(maybe[j] + 4 * g, bytes);
        }
    }
    for (int j = 0; j < N; ++j) {
        std::uint64_t bits = 0;
        for (int r = 0; r < TILE; ++r) bits |= static_cast<std::uint64_t>(maybe[j][r] & 1) << r;
        rows[at + j] = bits;
    }
}

// The range of every feature: middle and half width. It ends at sixteen standard deviations from the mean; rows
// outside get a large error, so that they are always computed exactly.
struct ColumnRange {
    std::vector<double> middle, half;
};

template <class T>
ColumnRange column_range(const Dense<T>& rows) {
    constexpr index_t SLICES = 32;
    const index_t d = rows.d;
    std::vector<double> part(SLICES * 4 * d, 0);
    parallel(SLICES, threads_for(4.0 * static_cast<double>(rows.n * d)), [&](index_t slice) {
        double *sum = part.data() + slice * 4 * d, *square = sum + d, *low = square + d, *high = low + d;
        for (index_t i = rows.n * slice / SLICES; i < rows.n * (slice + 1) / SLICES; ++i) {
            const T *x = rows.row(i), *first = rows.row(0);
            for (index_t j = 0; j < d; ++j) {
                const double v = static_cast<double>(x[j]) - static_cast<double>(first[j]);
                sum[j] += v, square[j] += v * v;
                low[j] = v < low[j] ? v : low[j], high[j] = v > high[j] ? v : high[j];
            }
        }
    });
    ColumnRange out{std::vector<double>(d), std::vector<double>(d)};
    const double n = static_cast<double>(rows.n);
    for (index_t j = 0; j < d; ++j) {
        double sum = 0, square = 0, low = 0, high = 0;
        for (index_t slice = 0; slice < SLICES; ++slice) {
            const double* p = part.data() + slice * 4 * d + j;
            sum += p[0], square += p[d], low = std::min(low, p[2 * d]), high = std::max(high, p[3 * d]);
        }
        const double mean = sum / n, deviation = std::sqrt(std::max(0.0, square / n - mean * mean));
        const double from = std::max(low, mean - 16 * deviation), to = std::min(high, mean + 16 * deviation);
        out.middle[j] = static_cast<double>(rows.row(0)[j]) + (from + to) / 2;
        out.half[j] = std::max(0.0, (to - from) / 2);
    }
    return out;
}

constexpr double MAX_BYTE = 127;

// Clips to [-limit, limit] and rounds to integers: adding and subtracting 1.5 * 2^52 does that.
inline vd rounded(vd v, double limit) {
    constexpr double magic = 6755399441055744.0;
    const vd high = limit - vd{}, low = -limit - vd{};
    v = v < low ? low : v;
    v = v > high ? high : v;
    return (v + magic) - magic;
}

template <class T>
void quantize_row(const T* x, const QuantizedRows& quantized, const double* inverse, std::int8_t* out, double& norm2,
                  double& residual) {
    const index_t whole = quantized.d / W * W;
    vd norms{}, residuals{};
    std::int32_t word[W];
    for (index_t j = 0; j < whole; j += W) {
        const vd v = (widened<W>(x + j) - widened<W>(quantized.offset.data() + j)) * quantized.scale;
        const vd number = rounded(v * widened<W>(inverse + j), MAX_BYTE);
        const vd near = number * widened<W>(quantized.step.data() + j), gap = v - near;
        norms += near * near, residuals += gap * gap;
        write(word, __builtin_convertvector(number, vi));
        for (int l = 0; l < W; ++l) out[j + l] = static_cast<std::int8_t>(word[l]);
    }
    norm2 = residual = 0;
    for (int l = 0; l < W; ++l) norm2 += norms[l], residual += residuals[l];
    for (index_t j = whole; j < quantized.d; ++j) {
        const double v = (static_cast<double>(x[j]) - quantized.offset[j]) * quantized.scale;
        const double number = std::nearbyint(std::clamp(v * inverse[j], -MAX_BYTE, MAX_BYTE));
        const double near = number * quantized.step[j], gap = v - near;
        norm2 += near * near, residual += gap * gap;
        out[j] = static_cast<std::int8_t>(number);
    }
}

// Aligned, since the speed of this loop depends on its place.
[[gnu::noinline, gnu::aligned(64)]] void transpose_tile(const std::int8_t* row_major, index_t d, std::int8_t* q) {
    for (index_t j = 0; j < d; ++j)
        for (index_t r = 0; r < TILE; ++r) q[j * TILE + r] = row_major[r * d + j];
}

template <class T>
void quantize_block(const Dense<T>& rows, index_t from, index_t stop, const double* inverse, QuantizedRows& quantized) {
    const index_t d = quantized.d;
    std::vector<std::int8_t> row_major(TILE * d, 0);
    for (index_t at = from; at < stop; at += TILE) {
        const index_t count = std::min<index_t>(TILE, stop - at);
        for (index_t r = 0; r < count; ++r) {
            double norm2, residual;
            quantize_row(rows.row(at + r), quantized, inverse, row_major.data() + r * d, norm2, residual);
            quantized.norm2[at + r] = static_cast<float>(norm2 * (1 - 1e-6));
            quantized.error[at + r] = static_cast<float>(std::sqrt(residual) * (1 + 1e-6) + 1e-12);
        }
        transpose_tile(row_major.data(), d, quantized.q.data() + at * d);
    }
}

struct QuantizedFilter final : QuantizedRows {
    std::unique_ptr<FilterQueries> prepare(const double* c, index_t m) const override;
    void not_excluded(index_t tile, const FilterQueries& queries, std::uint64_t* rows) const override;
};

std::unique_ptr<FilterQueries> QuantizedFilter::prepare(const double* c, index_t m) const {
    auto queries = std::make_unique<Queries>();
    queries->m = m;
    queries->a.resize(d * m), queries->half.resize(m);
    for (index_t j = 0; j < m; ++j) {
        double norm2 = 0;
        for (index_t i = 0; i < d; ++i) {
            const double v = (c[j * d + i] - offset[i]) * scale;
            norm2 += v * v;
            queries->a[i * m + j] = static_cast<float>(v * step[i]);
        }
        if (!(norm2 < 1e30)) return nullptr;
        const double slack =
            1.01 * (static_cast<double>(d) + 16) * UNIT * std::sqrt(norm2) * (radius + std::sqrt(norm2)) + 1e-30;
        queries->half[j] = static_cast<float>(norm2 / 2 - slack);
    }
    return queries;
}

void QuantizedFilter::not_excluded(index_t tile, const FilterQueries& of, std::uint64_t* rows) const {
    const auto& queries = static_cast<const Queries&>(of);
    const index_t groups = (queries.m + MAX_QUERIES - 1) / MAX_QUERIES, size = (queries.m + groups - 1) / groups;
    for (index_t at = 0; at < queries.m; at += size)
        with_count<MAX_QUERIES>(std::min(size, queries.m - at), [&](auto n) {
            prefilter<n()>(q.data() + tile * d * TILE, d, threshold.data() + tile * TILE, queries, at, rows);
        });
}

}  // namespace

template <class T>
std::unique_ptr<RowFilter> make_quantized_rows(const Dense<T>& rows, const double* cost) {
    const index_t d = rows.d, tiles = (rows.n + TILE - 1) / TILE;
    const ColumnRange range = column_range(rows);
    double diagonal = 0;
    for (double h : range.half) diagonal += h * h;
    diagonal = std::sqrt(diagonal);
    if (!(diagonal > 1e-100 && diagonal < 1e100) || d > 100000) return nullptr;  // beyond the proof of the bound
    auto out = std::make_unique<QuantizedFilter>();
    QuantizedRows& quantized = *out;
    quantized.n = rows.n, quantized.d = d;
    quantized.offset = range.middle, quantized.step.resize(d), quantized.radius = 1.001;
    int exponent;
    std::frexp(diagonal, &exponent);
    quantized.scale = std::ldexp(1.0, -exponent);
    std::vector<double> inverse(d);
    for (index_t j = 0; j < d; ++j) {
        quantized.step[j] = range.half[j] * quantized.scale / MAX_BYTE;
        inverse[j] = quantized.step[j] > 0 ? 1 / quantized.step[j] : 0;
    }
    quantized.q.assign(tiles * TILE * d, 0);
    for (Buffer<float>* b : {&quantized.norm2, &quantized.error}) b->assign(tiles * TILE, 0);
    quantized.threshold.assign(tiles * TILE, -std::numeric_limits<float>::infinity());  // rows past the end
    parallel(blocks_of(rows.n), threads_for(8.0 * static_cast<double>(rows.n * d)), [&](index_t block) {
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        quantize_block(rows, from, stop, inverse.data(), quantized);
        for (index_t i = from; i < stop; ++i) quantized.set_cost(i, cost[i]);
    });
    return out;
}

template std::unique_ptr<RowFilter> make_quantized_rows(const Dense<float>&, const double*);
template std::unique_ptr<RowFilter> make_quantized_rows(const Dense<double>&, const double*);
template std::unique_ptr<RowFilter> make_quantized_rows(const Dense<Float16>&, const double*);
template std::unique_ptr<RowFilter> make_quantized_rows(const Dense<Bfloat16>&, const double*);
template std::unique_ptr<RowFilter> make_quantized_rows(const Dense<std::int8_t>&, const double*);
template std::unique_ptr<RowFilter> make_quantized_rows(const Dense<std::uint8_t>&, const double*);
}  // namespace kv::KV_ISA
