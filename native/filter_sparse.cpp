// The filter for sparse rows, and for one row against a few centres (see filter.hpp).
#include <algorithm>

#include "filter_shift.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

// Scales the stored values of a row and returns the sum of their squares.
template <class T>
inline double scaled_row(const T* x, index_t count, double scale, float* out) {
    constexpr int H = W / 2;  // compilers keep a vector of two registers in memory
    Vector<double, H> even{}, odd{};
    const auto scaled = [&](index_t p) {
        const Vector<double, H> v = widened<H>(x + p) * scale;
        write(out + p, __builtin_convertvector(v, Vector<float, H>));
        return v * v;
    };
    index_t p = 0;
    for (; p + W <= count; p += W) even += scaled(p), odd += scaled(p + H);
    if (p + H <= count) even += scaled(p), p += H;
    double norm2 = joined<H>(even + odd, [](auto a, auto b) { return a + b; });
    for (; p < count; ++p) {
        const double v = static_cast<double>(x[p]) * scale;
        out[p] = static_cast<float>(v);
        norm2 += v * v;
    }
    return norm2;
}

// N vectors of centres of a panel, and the sums of a row's products with them: several at once, since a sum waits for
// its last addition.
template <int N, int SIDE, int CHAINS>
struct PanelSums {
    using V = Vector<float, SIDE>;
    const float* center;
    V sum[CHAINS][N] = {};

    PanelSums(const PackedCenters& packed, float eps, index_t at) : center(packed.center.data() + packed.d * at) {
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) {
            const index_t first = at + v * SIDE;
            sum[0][v] = read<V>(packed.half.data() + first) - read<V>(packed.radius2.data() + first) * eps;
        }
    }
    // For the next COUNT values of the row, each in a sum of its own.
    template <int COUNT>
    [[gnu::always_inline]] void subtract(const float* x, const std::int32_t* column) {
#pragma GCC unroll 4
        for (int c = 0; c < COUNT; ++c) {
            const float* from = center + index_t{column[c]} * (N * SIDE);
#pragma GCC unroll 4
            for (int v = 0; v < N; ++v) sum[c][v] -= read<V>(from + v * SIDE) * x[c];
        }
    }
    [[gnu::always_inline]] void write_to(float* out) {
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) {
#pragma GCC unroll 4
            for (int c = 1; c < CHAINS; ++c) sum[0][v] += sum[c][v];
            write(out + v * SIDE, sum[0][v]);
        }
    }
};

// Computes the values of a panel of N whole vectors and of the narrow panels that follow it, all in one loop over the
// row.
template <int N, int EIGHT, int FOUR>
void sparse_products(const float* x, const std::int32_t* column, index_t count, const PackedCenters& packed, float eps,
                     index_t at, float* out) {
    constexpr int CHAINS = N + EIGHT + FOUR <= 2 ? 4 : 2;
    const index_t eight_at = at + N * W, four_at = eight_at + 8 * EIGHT;
    PanelSums<N, W, CHAINS> whole(packed, eps, at);
    PanelSums<EIGHT, 8, CHAINS> eight(packed, eps, eight_at);
    PanelSums<FOUR, 4, CHAINS> four(packed, eps, four_at);
    const auto subtract = [&](index_t p, auto n) __attribute__((always_inline)) {
        whole.template subtract<n()>(x + p, column + p);
        eight.template subtract<n()>(x + p, column + p);
        four.template subtract<n()>(x + p, column + p);
    };
    index_t p = 0;
    for (; p + CHAINS <= count; p += CHAINS) subtract(p, std::integral_constant<int, CHAINS>{});
    for (; p < count; ++p) subtract(p, std::integral_constant<int, 1>{});
    whole.write_to(out + at);
    eight.write_to(out + eight_at);
    four.write_to(out + four_at);
}

// The values of one row.
inline void all_products(const float* x, const std::int32_t* column, index_t count, const PackedCenters& packed,
                         float eps, float* out) {
    index_t at = 0;
    for (; at + 4 * W <= packed.width; at += 4 * W) sparse_products<4, 0, 0>(x, column, count, packed, eps, at, out);
    const index_t rest = packed.width - at;
    constexpr int EIGHT = W > 8, FOUR = W > 4;  // panels that are narrower than a register
    const auto products = [&](auto n) {
        const bool eight = rest % W & 8, four = rest % W & 4;
        if (eight && four)
            sparse_products<n(), EIGHT, FOUR>(x, column, count, packed, eps, at, out);
        else if (eight)
            sparse_products<n(), EIGHT, 0>(x, column, count, packed, eps, at, out);
        else if (four)
            sparse_products<n(), 0, FOUR>(x, column, count, packed, eps, at, out);
        else if (n() > 0)
            sparse_products<n(), 0, 0>(x, column, count, packed, eps, at, out);
    };
    rest < W ? products(std::integral_constant<int, 0>{}) : with_count<3>(rest / W, products);
}

// Finds the two smallest values of every row.
inline void two_smallest(index_t k, Tile& tile) {
    for (int g = 0; g < TILE && g < tile.rows; g += W) {
        const vf none = splat(std::numeric_limits<float>::infinity());
        TwoSmallest<vf, vi> two{none, none, vi{}, vi{}};
        for (index_t j = 0; j < k; ++j) two.offer(load(tile.values.data() + j * TILE + g), static_cast<label_t>(j));
        store(tile.best + g, two.best);
        store(tile.second + g, two.second);
        write(tile.arg + g, two.arg);
    }
}

template <class T>
void filter_tile(const Csr<T>& rows, const index_t* id, int count, const PackedCenters& packed, const Candidates& among,
                 bool, Tile& tile) {
    tile.rows = count;
    tile.has_values = !among.list;
    tile.norm_error = 4 * UNIT;
    ensure_size(tile.values, packed.k * TILE);
    for (int r = 0; r < count; ++r) {
        const index_t start = rows.start[id[r]], stored = rows.start[id[r] + 1] - start;
        ensure_size(tile.x, packed.width + stored);
        float *values = tile.x.data(), *x = values + packed.width;
        const double eps = static_cast<double>(stored + 12) * UNIT;
        const double norm2 = scaled_row(rows.x + start, stored, packed.scale, x);
        tile.eps[r] = static_cast<float>(eps);
        tile.norm2[r] = static_cast<float>(norm2);
        tile.slack[r] = static_cast<float>(eps / 2 * ENLARGED * norm2);
        all_products(x, rows.column + start, stored, packed, tile.eps[r], values);
        for (index_t j = 0; j < packed.k; ++j) tile.values[j * TILE + r] = values[j];
    }
    two_smallest(packed.k, tile);
    mark_uncertain(packed, tile);
}

// A vector holds many features of one row; values[p] belongs to the p-th candidate.
template <class T>
void filter_row(const Dense<T>& rows, index_t i, const PackedCenters& packed, const Candidates& among, Tile& tile) {
    const index_t d = rows.d;
    ensure_size(tile.x, d);
    ensure_size(tile.values, among.count);
    float* x = tile.x.data();
    const T* from = rows.row(i);
    const index_t whole = d / W * W;
    vf squares{};
    for (index_t j = 0; j < whole; j += W) {
        const vf v = shifted(from + j, packed.offset.data() + j, static_cast<float>(packed.scale), packed.scale);
        store(x + j, v);
        squares += v * v;
    }
    float norm2 = sum_of(squares);
    for (index_t j = whole; j < d; ++j) {
        x[j] = shifted_one(from[j], packed.offset[j], packed.scale);
        norm2 += x[j] * x[j];
    }
    // Several sums at once have another longest chain than a tile has: E may be larger.
    const double eps =
        std::max(packed.eps, (d / (2 * W) + 3 * W + 11) * UNIT * (1 + static_cast<double>(d / W) * UNIT));
    const float more = static_cast<float>((eps - packed.eps) * ENLARGED);
    float best = std::numeric_limits<float>::infinity(), nearest = 0;
    for (index_t p = 0; p < among.count; ++p) {
        const label_t name = among.at(p);
        const float* c = packed.center.data() + name * d;
        vf acc{}, other{};
        index_t j = 0;
        for (; j + 2 * W <= d; j += 2 * W) {
            acc += load(x + j) * load(c + j);
            other += load(x + j + W) * load(c + j + W);
        }
        float sum = sum_of(acc + other);
        for (; j < d; ++j) sum += x[j] * c[j];
        const float v = tile.values[p] = packed.half[name] - more * packed.radius2[name] - sum;
        if (v < best) best = v, nearest = packed.radius2[name];
    }
    tile.rows = 1;
    tile.has_values = true;
    tile.norm2[0] = norm2;
    tile.norm_error = (d / W + 2 * W + 8) * UNIT;
    tile.slack[0] = static_cast<float>(eps * ENLARGED * (norm2 / 2.0 + nearest));
}

template <class T>
void filter_row(const Csr<T>& rows, index_t i, const PackedCenters& packed, const Candidates& among, Tile& tile) {
    filter_tile(rows, &i, 1, packed, among, true, tile);
    // The sparse filter computes the values of all centres: keep those of the candidates, side by side.
    for (index_t p = 0; p < among.count; ++p) tile.values[p] = tile.values[among.at(p) * TILE];
}

template void filter_tile(const Csr<float>&, const index_t*, int, const PackedCenters&, const Candidates&, bool, Tile&);
template void filter_tile(const Csr<double>&, const index_t*, int, const PackedCenters&, const Candidates&, bool,
                          Tile&);
template void filter_row(const Dense<float>&, index_t, const PackedCenters&, const Candidates&, Tile&);
template void filter_row(const Dense<double>&, index_t, const PackedCenters&, const Candidates&, Tile&);
template void filter_row(const Csr<float>&, index_t, const PackedCenters&, const Candidates&, Tile&);
template void filter_row(const Csr<double>&, index_t, const PackedCenters&, const Candidates&, Tile&);
}  // namespace kv::KV_ISA
