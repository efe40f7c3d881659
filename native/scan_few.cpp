// The filter where rows cannot lie side by side: sparse rows, and one row against a few centres.
#include <algorithm>

#include "kernels.hpp"
#include "scan.hpp"
#include "shift.hpp"

namespace kv::KV_ISA {

// ---- sparse rows: centres across the lanes -----------------------------------------------------

template <int N, class T>
inline void sparse_products(const Csr<T>& rows, index_t i, const Pack& pack, index_t at, float* out) {
    vf acc[N];
    for (int v = 0; v < N; ++v) acc[v] = load(pack.half.data() + at + v * W);
    for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
        const float x = static_cast<float>(static_cast<double>(rows.x[p]) * pack.scale);
        const float* c = pack.centre.data() + rows.column[p] * pack.width + at;
        for (int v = 0; v < N; ++v) acc[v] -= load(c + v * W) * x;
    }
    for (int v = 0; v < N; ++v) store(out + v * W, acc[v]);
}

template <class T>
void scan(const Csr<T>& rows, const index_t* id, int count, const Pack& pack, const Candidates&,
          bool keep, Tile& tile) {
    tile.rows = count;
    tile.has_values = keep;
    if (tile.values.size() < static_cast<std::size_t>(pack.k * TILE))
        tile.values.resize(static_cast<std::size_t>(pack.k * TILE));
    if (tile.x.size() < static_cast<std::size_t>(pack.width)) tile.x.resize(pack.width);
    for (int r = 0; r < count; ++r) {
        const index_t i = id[r];
        index_t at = 0;
        for (; at + 4 * W <= pack.width; at += 4 * W) sparse_products<4>(rows, i, pack, at, tile.x.data() + at);
        for (; at < pack.width; at += W) sparse_products<1>(rows, i, pack, at, tile.x.data() + at);
        double norm2 = 0;
        for (index_t p = rows.start[i]; p < rows.start[i + 1]; ++p) {
            const double x = static_cast<double>(rows.x[p]) * pack.scale;
            norm2 += x * x;
        }
        float best = std::numeric_limits<float>::infinity(), second = best;
        label_t arg = 0;
        for (index_t j = 0; j < pack.k; ++j) {
            const float v = tile.x[j];
            if (keep) tile.values[j * TILE + r] = v;
            second = std::min(second, std::max(best, v));
            if (v < best) arg = static_cast<label_t>(j), best = v;
        }
        const double stored = static_cast<double>(rows.start[i + 1] - rows.start[i]);
        tile.best[r] = best, tile.second[r] = second, tile.arg[r] = arg;
        tile.norm2[r] = static_cast<float>(norm2);
        tile.norm_error = 4 * UNIT;
        tile.slack[r] = static_cast<float>((stored + 11) * UNIT * pack.radius * (std::sqrt(norm2) + pack.radius));
    }
    judge(tile);
}

// ---- one row: coordinates across the lanes, values[p] for the p-th candidate ---------------------

template <class T>
void scan_row(const Dense<T>& rows, index_t i, const Pack& pack, const Candidates& among, Tile& tile) {
    const index_t d = rows.d;
    if (tile.x.size() < static_cast<std::size_t>(d)) tile.x.resize(d);
    if (tile.values.size() < static_cast<std::size_t>(among.count)) tile.values.resize(among.count);
    float* x = tile.x.data();
    const T* from = rows.row(i);
    const index_t whole = d / W * W;
    vf squares{};
    for (index_t j = 0; j < whole; j += W) {
        const vf v = shifted(from + j, pack.offset.data() + j, static_cast<float>(pack.scale), pack.scale);
        store(x + j, v);
        squares += v * v;
    }
    float norm2 = across(squares);
    for (index_t j = whole; j < d; ++j) {
        x[j] = shifted1(from[j], pack.offset[j], pack.scale);
        norm2 += x[j] * x[j];
    }
    for (index_t p = 0; p < among.count; ++p) {
        const label_t name = among.at(p);
        const float* c = pack.centre.data() + name * d;
        vf acc{}, other{};
        index_t j = 0;
        for (; j + 2 * W <= d; j += 2 * W) {
            acc += load(x + j) * load(c + j);
            other += load(x + j + W) * load(c + j + W);
        }
        float sum = across(acc + other);
        for (; j < d; ++j) sum += x[j] * c[j];
        tile.values[p] = pack.half[name] - sum;
    }
    tile.rows = 1;
    tile.has_values = true;
    tile.norm2[0] = norm2;
    tile.norm_error = (d / W + 2 * W + 8) * UNIT;
    tile.slack[0] = static_cast<float>((d / (2 * W) + 3 * W + 11) * UNIT * pack.radius * (std::sqrt(static_cast<double>(norm2)) + pack.radius));
}

template <class T>
void scan_row(const Csr<T>& rows, index_t i, const Pack& pack, const Candidates& among, Tile& tile) {
    scan(rows, &i, 1, pack, among, true, tile);
    // The sparse scan knows all centres: keep those asked for, side by side.
    for (index_t p = 0; p < among.count; ++p) tile.values[p] = tile.values[among.at(p) * TILE];
}

template void scan(const Csr<float>&, const index_t*, int, const Pack&, const Candidates&, bool, Tile&);
template void scan(const Csr<double>&, const index_t*, int, const Pack&, const Candidates&, bool, Tile&);
template void scan_row(const Dense<float>&, index_t, const Pack&, const Candidates&, Tile&);
template void scan_row(const Dense<double>&, index_t, const Pack&, const Candidates&, Tile&);
template void scan_row(const Csr<float>&, index_t, const Pack&, const Candidates&, Tile&);
template void scan_row(const Csr<double>&, index_t, const Pack&, const Candidates&, Tile&);
}  // namespace kv::KV_ISA
