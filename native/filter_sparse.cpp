// The filter for sparse rows, and for one row against a few centres (see filter.hpp).
#include <algorithm>

#include "filter_shift.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

// Scales the stored values of a row and returns the sum of their squares.
template <class T>
inline double scaled_row(const T* x, index_t count, double scale, float* out) {
    vd squares{};
    index_t p = 0;
    for (; p + W <= count; p += W) {
        const vd v = widened<W>(x + p) * scale;
        store(out + p, __builtin_convertvector(v, vf));
        squares += v * v;
    }
    double norm2 = 0;
    for (int l = 0; l < W; ++l) norm2 += squares[l];
    for (; p < count; ++p) {
        const double v = static_cast<double>(x[p]) * scale;
        out[p] = static_cast<float>(v);
        norm2 += v * v;
    }
    return norm2;
}

// Computes the values of a panel of N vectors of centres. There are two sums at once, since a sum waits for its last
// addition.
template <int N, int SIDE>
inline void sparse_products(const float* x, const std::int32_t* column, index_t count, const PackedCenters& packed,
                            float eps, index_t at, float* out) {
    using V = Vector<float, SIDE>;
    const float* panel = packed.center.data() + packed.d * at;
    const auto center = [&](index_t p) { return panel + index_t{column[p]} * (N * SIDE); };
    V even[N], odd[N] = {};
    for (int v = 0; v < N; ++v) {
        const index_t first = at + v * SIDE;
        even[v] = read<V>(packed.half.data() + first) - read<V>(packed.radius2.data() + first) * eps;
    }
    index_t p = 0;
    for (; p + 2 <= count; p += 2)
        for (int v = 0; v < N; ++v) {
            even[v] -= read<V>(center(p) + v * SIDE) * x[p];
            odd[v] -= read<V>(center(p + 1) + v * SIDE) * x[p + 1];
        }
    for (int v = 0; v < N; ++v) {
        if (p < count) even[v] -= read<V>(center(p) + v * SIDE) * x[p];
        even[v] += odd[v];
        write(out + at + v * SIDE, even[v]);
    }
}

// The values of one row.
inline void all_products(const float* x, const std::int32_t* column, index_t count, const PackedCenters& packed,
                         float eps, float* out) {
    for_panels(packed.width, W, [&](index_t at, index_t vectors, index_t lanes) {
        if (lanes == W)
            with_count<4>(vectors, [&](auto n) { sparse_products<n(), W>(x, column, count, packed, eps, at, out); });
        else if (lanes == 8)
            sparse_products<1, 8>(x, column, count, packed, eps, at, out);
        else
            sparse_products<1, 4>(x, column, count, packed, eps, at, out);
    });
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
