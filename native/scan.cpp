// The filter's arithmetic, compiled once per instruction set. See scan.hpp for the idea.
//
// Rows lie across the vector lanes, so there is no horizontal work and no padding of k: six
// centres by R vectors of rows are held in registers while the coordinates stream by. Here, and
// only here, the compiler may fuse multiply and add: the error bound covers both roundings.
#include "scan.hpp"

#include <algorithm>

#include "kernels.hpp"
#include "shift.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int C = 6;
constexpr index_t PANEL = 384;  // centres whose values are kept at once: a multiple of C

// ---- packing ----------------------------------------------------------------------------------

template <int HALF, int... I>
inline vf weave(vf a, vf b, Order<I...>) {
    return __builtin_shufflevector(a, b, ((I & 1) ? W + I / 2 + HALF : I / 2 + HALF)...);
}

// W x W transpose: log2(W) rounds of interleaving row i with row i + W/2.
inline void transpose(vf (&m)[W]) {
    using all = typename Upto<W>::type;
    vf t[W];
    for (int width = 1; width < W; width *= 2) {
        for (int i = 0; i < W / 2; ++i) {
            t[2 * i] = weave<0>(m[i], m[i + W / 2], all{});
            t[2 * i + 1] = weave<W / 2>(m[i], m[i + W / 2], all{});
        }
        for (int i = 0; i < W; ++i) m[i] = t[i];
    }
}

template <class T>
void pack_columns(const T* const* row, const Pack& pack, Tile& tile, index_t from, index_t to) {
    for (index_t j = from; j < to; ++j) {
        float* out = tile.x.data() + j * TILE;
        for (int r = 0; r < TILE; ++r) out[r] = shifted1(row[r][j], pack.offset[j], pack.scale);
    }
}

// A small constant d lets the compiler keep a whole row in registers, and neighbouring rows in one.
template <int D, class T>
void pack_small(const T* const* row, const Pack& pack, Tile& tile) {
    float* out = tile.x.data();
    double offset[D];
    std::copy(pack.offset.begin(), pack.offset.begin() + D, offset);
    const double scale = pack.scale;
    const T* x = row[0];
    bool neighbours = true;
    for (int r = 0; r < TILE; ++r) neighbours &= row[r] == x + r * D;
    if (neighbours) {
        for (int r = 0; r < TILE; ++r)
            for (int j = 0; j < D; ++j) out[j * TILE + r] = shifted1(x[r * D + j], offset[j], scale);
        return;
    }
    for (int r = 0; r < TILE; ++r)
        for (int j = 0; j < D; ++j) out[j * TILE + r] = shifted1(row[r][j], offset[j], scale);
}

void norms(const Pack& pack, Tile& tile) {
    const index_t d = pack.d;
    for (int g = 0; g < TILE; g += W) {
        vf total{};
        for (index_t j = 0; j < d; j += 16) {  // short partial sums keep the error near sqrt(d)
            vf part{};
            for (index_t i = j; i < std::min(d, j + 16); ++i) {
                const vf v = load(tile.x.data() + i * TILE + g);
                part += v * v;
            }
            total += part;
        }
        store(tile.norm2 + g, total);
    }
    const double relative = (std::min<double>(d, 16) + d / 16 + 4) * UNIT;
    const double eps = (std::min(d, CHUNK) + d / CHUNK + 10) * UNIT;
    tile.norm_error = relative;
    const float radius = static_cast<float>(pack.radius * 1.0001), factor = static_cast<float>(eps) * radius;
    for (int r = 0; r < TILE; ++r) tile.slack[r] = factor * (std::sqrt(tile.norm2[r]) + radius);
}

template <class T>
void pack_rows(const Dense<T>& rows, const index_t* id, int count, const Pack& pack, Tile& tile) {
    const index_t d = rows.d;
    tile.rows = count;
    const T* row[TILE];
    for (int r = 0; r < TILE; ++r) row[r] = rows.row(id[std::min(r, count - 1)]);
    switch (d) {
        case 1: pack_small<1>(row, pack, tile); break;
        case 2: pack_small<2>(row, pack, tile); break;
        case 3: pack_small<3>(row, pack, tile); break;
        case 4: pack_small<4>(row, pack, tile); break;
        default: {
            const float scale = static_cast<float>(pack.scale);
            const index_t whole = d / W * W;
            for (int g = 0; g < TILE; g += W)  // few rows at a time: the prefetcher follows them
                for (index_t j = 0; j < whole; j += W) {
                    vf m[W];
                    for (int i = 0; i < W; ++i)
                        m[i] = shifted(row[g + i] + j, pack.offset.data() + j, scale, pack.scale);
                    transpose(m);
                    for (int i = 0; i < W; ++i) store(tile.x.data() + (j + i) * TILE + g, m[i]);
                }
            pack_columns(row, pack, tile, whole, d);
        }
    }
    norms(pack, tile);
}

// ---- the inner product, C centres by R vectors of rows ------------------------------------------

template <int D, int N>
inline void products(const float* x, index_t from, index_t to, const float* const* c, vf (&acc)[N][R]) {
    const index_t stop = D ? D : to;
    for (index_t i = D ? 0 : from; i < stop; ++i) {
        vf v[R];
        for (int r = 0; r < R; ++r) v[r] = load(x + i * TILE + r * W);
        for (int j = 0; j < N; ++j) {
            const float a = c[j][i];
            for (int r = 0; r < R; ++r) acc[j][r] -= v[r] * a;
        }
    }
}

struct Running {
    vf best[R], second[R];
    vi arg[R];
};

inline void meet(Running& run, int r, vf v, label_t j) {
    const vi closer = v < run.best[r];
    run.second[r] = closer ? run.best[r] : least(run.second[r], v);
    run.arg[r] = closer ? splat(j) : run.arg[r];
    run.best[r] = closer ? v : run.best[r];
}

template <int D, int N>
inline void fused(const float* x, const Pack& pack, const Candidates& among, index_t first, Running& run) {
    const float* c[N];
    label_t name[N];
    vf acc[N][R];
    for (int j = 0; j < N; ++j) {
        name[j] = among.at(first + j);
        c[j] = pack.centre.data() + name[j] * pack.d;
        for (int r = 0; r < R; ++r) acc[j][r] = splat(pack.half[name[j]]);
    }
    products<D, N>(x, 0, pack.d, c, acc);
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < N; ++j) meet(run, r, acc[j][r], name[j]);
}

inline void start(Running& run) {
    for (int r = 0; r < R; ++r) {
        run.best[r] = run.second[r] = splat(std::numeric_limits<float>::infinity());
        run.arg[r] = vi{};
    }
}
inline void finish(const Running& run, Tile& tile, int g) {
    for (int r = 0; r < R; ++r) {
        store(tile.best + g + r * W, run.best[r]);
        store(tile.second + g + r * W, run.second[r]);
        std::memcpy(tile.arg + g + r * W, &run.arg[r], sizeof(vi));
    }
}

template <int D>
void scan_fused(const Pack& pack, const Candidates& among, Tile& tile) {
    for (int g = 0; g < TILE && g < tile.rows; g += R * W) {
        Running run;
        start(run);
        const float* x = tile.x.data() + g;
        index_t j = 0;
        for (; j + C <= among.count; j += C) fused<D, C>(x, pack, among, j, run);
        switch (among.count - j) {
            case 5: fused<D, 5>(x, pack, among, j, run); break;
            case 4: fused<D, 4>(x, pack, among, j, run); break;
            case 3: fused<D, 3>(x, pack, among, j, run); break;
            case 2: fused<D, 2>(x, pack, among, j, run); break;
            case 1: fused<D, 1>(x, pack, among, j, run); break;
        }
        finish(run, tile, g);
    }
}

// Long rows, or values wanted: partial sums over CHUNK coordinates, kept in `values`.
template <int N>
inline void kept(const Pack& pack, const Candidates& among, index_t at, index_t from, index_t to,
                 Tile& tile, int g, float* values) {
    const float* c[N];
    vf acc[N][R];
    for (int j = 0; j < N; ++j) {
        const label_t name = among.at(at + j);
        c[j] = pack.centre.data() + name * pack.d;
        for (int r = 0; r < R; ++r) acc[j][r] = from ? vf{} : splat(pack.half[name]);
    }
    products<0, N>(tile.x.data() + g, from, to, c, acc);
    for (int j = 0; j < N; ++j)
        for (int r = 0; r < R; ++r) {
            float* out = values + j * TILE + g + r * W;
            store(out, from ? load(out) + acc[j][r] : acc[j][r]);
        }
}

void reduce(const Candidates& among, index_t first, index_t count, const float* values, Tile& tile,
            bool again) {
    for (int g = 0; g < TILE && g < tile.rows; g += R * W) {
        Running run;
        start(run);
        if (again)
            for (int r = 0; r < R; ++r) {
                run.best[r] = load(tile.best + g + r * W);
                run.second[r] = load(tile.second + g + r * W);
                std::memcpy(&run.arg[r], tile.arg + g + r * W, sizeof(vi));
            }
        for (index_t j = 0; j < count; ++j)
            for (int r = 0; r < R; ++r)
                meet(run, r, load(values + j * TILE + g + r * W), among.at(first + j));
        finish(run, tile, g);
    }
}

void scan_kept(const Pack& pack, const Candidates& among, Tile& tile, bool keep) {
    const index_t panel = keep ? among.count : std::min(PANEL, among.count);
    tile.has_values = panel == among.count;
    if (tile.values.size() < static_cast<std::size_t>(panel * TILE))
        tile.values.resize(static_cast<std::size_t>(panel * TILE));
    for (index_t first = 0; first < among.count; first += panel) {
        const index_t count = std::min(panel, among.count - first);
        for (index_t from = 0; from < pack.d; from += CHUNK) {
            const index_t to = std::min(pack.d, from + CHUNK);
            for (int g = 0; g < TILE && g < tile.rows; g += R * W) {
                index_t j = 0;
                float* v = tile.values.data();
                for (; j + C <= count; j += C) kept<C>(pack, among, first + j, from, to, tile, g, v + j * TILE);
                switch (count - j) {
                    case 5: kept<5>(pack, among, first + j, from, to, tile, g, v + j * TILE); break;
                    case 4: kept<4>(pack, among, first + j, from, to, tile, g, v + j * TILE); break;
                    case 3: kept<3>(pack, among, first + j, from, to, tile, g, v + j * TILE); break;
                    case 2: kept<2>(pack, among, first + j, from, to, tile, g, v + j * TILE); break;
                    case 1: kept<1>(pack, among, first + j, from, to, tile, g, v + j * TILE); break;
                }
            }
        }
        reduce(among, first, count, tile.values.data(), tile, first > 0);
    }
}

}  // namespace

template <class T>
void scan(const Dense<T>& rows, const index_t* id, int count, const Pack& pack,
          const Candidates& among, bool keep, Tile& tile) {
    if (tile.x.size() < static_cast<std::size_t>(rows.d * TILE))
        tile.x.resize(static_cast<std::size_t>(rows.d * TILE));
    pack_rows(rows, id, count, pack, tile);
    tile.has_values = false;
    if (keep || rows.d > CHUNK)
        scan_kept(pack, among, tile, keep);
    else
        switch (rows.d) {
            case 1: scan_fused<1>(pack, among, tile); break;
            case 2: scan_fused<2>(pack, among, tile); break;
            case 3: scan_fused<3>(pack, among, tile); break;
            case 4: scan_fused<4>(pack, among, tile); break;
            default: scan_fused<0>(pack, among, tile);
        }
    judge(tile);
}

index_t vector_width() { return W; }

template void scan(const Dense<float>&, const index_t*, int, const Pack&, const Candidates&, bool, Tile&);
template void scan(const Dense<double>&, const index_t*, int, const Pack&, const Candidates&, bool, Tile&);
}  // namespace kv::KV_ISA
