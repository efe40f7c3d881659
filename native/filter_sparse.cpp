// The filter for sparse rows, and for one row against a few centres (see filter.hpp).
#include <algorithm>

#include "filter_shift.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

// A vector holds one feature of many centres.
template <int N, class T>
inline void sparse_products(const Csr<T>& rows, index_t i, const PackedCenters& packed, float eps, index_t at,
                            float* out) {
    vf acc[N];
    for (int v = 0; v < N; ++v)
        acc[v] = load(packed.half.data() + at + v * W) - load(packed.radius2.data() + at + v * W) * eps;
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
        const float x = static_cast<float>(static_cast<double>(rows.x[p]) * packed.scale);
        const float* c = packed.center.data() + rows.column[p] * packed.width + at;
        for (int v = 0; v < N; ++v) acc[v] -= load(c + v * W) * x;
    }
    for (int v = 0; v < N; ++v) store(out + v * W, acc[v]);
}

template <class T>
void filter_tile(const Csr<T>& rows, const index_t* id, int count, const PackedCenters& packed, const Candidates&,
                 bool keep, Tile& tile) {
    tile.rows = count;
    tile.has_values = keep;
    ensure_size(tile.values, packed.k * TILE);
    ensure_size(tile.x, packed.width);
    for (int r = 0; r < count; ++r) {
        const index_t i = id[r];
        const double eps = static_cast<double>(rows.start[i + 1] - rows.start[i] + 12) * UNIT;
        const float e = tile.eps[r] = static_cast<float>(eps);
        index_t at = 0;
        for (; at + 4 * W <= packed.width; at += 4 * W) sparse_products<4>(rows, i, packed, e, at, tile.x.data() + at);
        for (; at < packed.width; at += W) sparse_products<1>(rows, i, packed, e, at, tile.x.data() + at);
        double norm2 = 0;
        for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
            const double x = static_cast<double>(rows.x[p]) * packed.scale;
            norm2 += x * x;
        }
        float best = std::numeric_limits<float>::infinity(), second = best;
        label_t arg = 0;
        for (index_t j = 0; j < packed.k; ++j) {
            const float v = tile.x[j];
            if (keep) tile.values[j * TILE + r] = v;
            second = std::min(second, std::max(best, v));
            if (v < best) arg = static_cast<label_t>(j), best = v;
        }
        tile.best[r] = best, tile.second[r] = second, tile.arg[r] = arg;
        tile.norm2[r] = static_cast<float>(norm2);
        tile.norm_error = 4 * UNIT;
        tile.slack[r] = static_cast<float>(eps / 2 * ENLARGED * norm2);
    }
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
    const double eps = std::max(packed.eps, (d / (2 * W) + 3 * W + 11) * UNIT);
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
