// The filter for dense rows (see filter.hpp), compiled once per instruction set.
//
// A vector holds one feature of many rows, so that k needs no padding and no vector has to be summed. The products of
// six centres with R vectors of rows stay in registers while the loop runs over the features. The compiler may fuse
// multiply and add in the filter's files only: the error bound covers both roundings.
#include <algorithm>

#include "filter.hpp"
#include "filter_shift.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {
namespace {

constexpr int C = 6;                 // centres whose products are in registers
constexpr int SMALL_C = 2;           // the same for at most four features: the rows stay in registers too
constexpr index_t MIN_AHEAD = 4096;  // multiply-adds of a row from which on the next rows are fetched ahead
constexpr index_t PANEL = 384;       // centres whose values are kept at once; a multiple of C

template <int HALF, int... I>
inline vf interleave(vf a, vf b, std::integer_sequence<int, I...>) {
    return __builtin_shufflevector(a, b, ((I & 1) ? W + I / 2 + HALF : I / 2 + HALF)...);
}

// Transposes W x W values in log2(W) rounds, which interleave row i with row i + W/2.
inline void transpose(vf (&m)[W]) {
    vf t[W];
    for (int width = 1; width < W; width *= 2) {
        for (int i = 0; i < W / 2; ++i) {
            t[2 * i] = interleave<0>(m[i], m[i + W / 2], AllLanes{});
            t[2 * i + 1] = interleave<W / 2>(m[i], m[i + W / 2], AllLanes{});
        }
        for (int i = 0; i < W; ++i) m[i] = t[i];
    }
}

template <class T>
void pack_columns(const T* const* row, const PackedCenters& packed, Tile& tile, index_t from, index_t to) {
    for (index_t j = from; j < to; ++j) {
        float* out = tile.x.data() + j * TILE;
        for (int r = 0; r < TILE; ++r) {
            out[r] = shifted_one(row[r][j], packed.offset[j], packed.scale);
            tile.norm2[r] += out[r] * out[r];
        }
    }
}

// If d is a small constant the compiler keeps a whole row in registers, and consecutive rows in one.
template <int D, class T>
void pack_small(const T* const* row, const PackedCenters& packed, Tile& tile) {
    float* out = tile.x.data();
    double offset[D];
    std::copy(packed.offset.begin(), packed.offset.begin() + D, offset);
    const double scale = packed.scale;
    const T* x = row[0];
    bool neighbours = true;
    for (int r = 0; r < TILE; ++r) neighbours &= row[r] == x + r * D;
    if (neighbours)
        for (int r = 0; r < TILE; ++r)
            for (int j = 0; j < D; ++j) out[j * TILE + r] = shifted_one(x[r * D + j], offset[j], scale);
    else
        for (int r = 0; r < TILE; ++r)
            for (int j = 0; j < D; ++j) out[j * TILE + r] = shifted_one(row[r][j], offset[j], scale);
    for (int j = 0; j < D; ++j)
        for (int r = 0; r < TILE; ++r) tile.norm2[r] += out[j * TILE + r] * out[j * TILE + r];
}

void finish_norms(const PackedCenters& packed, Tile& tile) {
    const index_t d = packed.d;
    tile.norm_error = (std::min<double>(d, 16) + d / 16 + d % W + 4) * UNIT;
    const float eps = static_cast<float>(packed.eps), half = static_cast<float>(packed.eps / 2 * ENLARGED);
    for (int r = 0; r < TILE; ++r) tile.eps[r] = eps, tile.slack[r] = half * tile.norm2[r];
}

template <class T>
void pack_many(const T* const* row, const PackedCenters& packed, Tile& tile, index_t from, index_t to) {
    const float scale = static_cast<float>(packed.scale);
    const index_t whole = to / W * W;
    for (int g = 0; g < TILE; g += W) {  // few rows at a time, so that the prefetcher can follow them
        vf total = load(tile.norm2 + g);
        for (index_t first = from; first < whole; first += 16) {
            vf part{};  // short partial sums keep the error small
            for (index_t j = first; j < std::min(whole, first + 16); j += W) {
                vf m[W];
                for (int i = 0; i < W; ++i)
                    m[i] = shifted(row[g + i] + j, packed.offset.data() + j, scale, packed.scale);
                transpose(m);
                for (int i = 0; i < W; ++i) {
                    store(tile.x.data() + (j + i) * TILE + g, m[i]);
                    part += m[i] * m[i];
                }
            }
            total += part;
        }
        store(tile.norm2 + g, total);
    }
    pack_columns(row, packed, tile, whole, to);
}

// Packs the features [from, to) of a tile and adds their squares to the norms; `from` is a multiple of 16.
template <class T>
void pack_chunk(const T* const* row, const PackedCenters& packed, Tile& tile, index_t from, index_t to) {
    with_features(packed.d, [&](auto d) {
        if constexpr (d() > 0)
            pack_small<d()>(row, packed, tile);
        else
            pack_many(row, packed, tile, from, to);
    });
}

// The features [from, to) of the rows that are read next. They are fetched a few rows at a time, during computation.
template <class T>
struct Ahead {
    static constexpr index_t LINE = 64 / sizeof(T);  // values in a line of the cache
    const T* const* row;
    index_t from, to;
    int per_call, next = 0;

    Ahead(const T* const* rows, index_t first, index_t stop, index_t calls)
        : row(rows),
          from(first),
          to(stop),
          per_call(first < stop ? static_cast<int>(TILE / std::max<index_t>(1, calls) + 1) : 0) {}
    void fetch() {
        for (const int stop = std::min(TILE, next + per_call); next < stop; ++next)
            for (index_t j = from; j < to + LINE - 1; j += LINE)
                __builtin_prefetch(row[next] + std::min(j, to - 1), 0, 2);
    }
};

// Subtracts the products of N centres with R vectors of rows.
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

// Of R vectors of rows.
struct Running {
    TwoSmallest<vf, vi> row[R];
};

template <int D, int N>
inline void fused(const float* x, const PackedCenters& packed, const Candidates& among, index_t first, Running& run) {
    const float* c[N];
    label_t name[N];
    vf acc[N][R];
    for (int j = 0; j < N; ++j) {
        name[j] = among.at(first + j);
        c[j] = packed.center.data() + name[j] * packed.d;
        for (int r = 0; r < R; ++r) acc[j][r] = splat(packed.half[name[j]]);
    }
    products<D, N>(x, 0, packed.d, c, acc);
    for (int r = 0; r < R; ++r)
        for (int j = 0; j < N; ++j) run.row[r].offer(acc[j][r], name[j]);
}

inline void clear(Running& run) {
    const vf none = splat(std::numeric_limits<float>::infinity());
    for (int r = 0; r < R; ++r) run.row[r] = {none, none, vi{}, vi{}};
}
inline void store_best(const Running& run, Tile& tile, int g) {
    for (int r = 0; r < R; ++r) {
        store(tile.best + g + r * W, run.row[r].best);
        store(tile.second + g + r * W, run.row[r].second);
        write(tile.arg + g + r * W, run.row[r].arg);
    }
}

template <int D, class T>
void filter_fused(const PackedCenters& packed, const Candidates& among, Ahead<T> ahead, Tile& tile) {
    constexpr int N = D ? SMALL_C : C;
    for (int g = 0; g < TILE && g < tile.rows; g += R * W) {
        Running run;
        clear(run);
        const float* x = tile.x.data() + g;
        index_t j = 0;
        for (; j + N <= among.count; j += N) {
            fused<D, N>(x, packed, among, j, run);
            ahead.fetch();
        }
        with_count<N - 1>(among.count - j, [&](auto n) { fused<D, n()>(x, packed, among, j, run); });
        store_best(run, tile, g);
    }
}

// For many features, or if values are asked for: partial sums over CHUNK features, kept in `values`.
template <int N>
inline void add_chunk(const PackedCenters& packed, const Candidates& among, index_t at, index_t from, index_t to,
                      Tile& tile, int g, float* values) {
    const float* c[N];
    vf acc[N][R];
    for (int j = 0; j < N; ++j) {
        const label_t name = among.at(at + j);
        c[j] = packed.center.data() + name * packed.d;
        for (int r = 0; r < R; ++r) acc[j][r] = from ? vf{} : splat(packed.half[name]);
    }
    products<0, N>(tile.x.data() + g, from, to, c, acc);
    for (int j = 0; j < N; ++j)
        for (int r = 0; r < R; ++r) {
            float* out = values + j * TILE + g + r * W;
            store(out, from ? load(out) + acc[j][r] : acc[j][r]);
        }
}

void reduce(const Candidates& among, index_t first, index_t count, const float* values, Tile& tile, bool resume) {
    for (int g = 0; g < TILE && g < tile.rows; g += R * W) {
        Running run;
        clear(run);
        if (resume)
            for (int r = 0, at = g; r < R; ++r, at += W)
                run.row[r] = {load(tile.best + at), load(tile.second + at), read<vi>(tile.arg + at), vi{}};
        for (index_t j = 0; j < count; ++j)
            for (int r = 0; r < R; ++r) run.row[r].offer(load(values + j * TILE + g + r * W), among.at(first + j));
        store_best(run, tile, g);
    }
}

template <class T>
void start_tile(const Dense<T>& rows, const index_t* id, int count, Tile& tile, const T** row) {
    ensure_size(tile.x, rows.d * TILE);
    tile.rows = count;
    std::fill(tile.norm2, tile.norm2 + TILE, 0.0f);
    for (int r = 0; r < TILE; ++r) row[r] = rows.row(id[std::min(r, count - 1)]);
}

// The values of `count` candidates from `first` on. A chunk of features is packed just before it is used, so that it is
// still in the cache.
template <class T>
void panel_values(const T* const* row, const PackedCenters& packed, const Candidates& among, index_t first,
                  index_t count, Tile& tile) {
    const index_t d = packed.d;
    for (index_t from = 0; from < d; from += CHUNK) {
        const index_t to = std::min(d, from + CHUNK);
        if (first == 0) pack_chunk(row, packed, tile, from, to);
        Ahead<T> ahead(row, to, first == 0 ? std::min(d, to + CHUNK) : to, count / C);
        for (int g = 0; g < TILE && g < tile.rows; g += R * W) {
            index_t j = 0;
            float* v = tile.values.data();
            for (; j + C <= count; j += C) {
                add_chunk<C>(packed, among, first + j, from, to, tile, g, v + j * TILE);
                ahead.fetch();
            }
            with_count<C - 1>(
                count - j, [&](auto n) { add_chunk<n()>(packed, among, first + j, from, to, tile, g, v + j * TILE); });
        }
    }
}

template <class T>
void filter_kept(const T* const* row, const PackedCenters& packed, const Candidates& among, Tile& tile, bool keep) {
    const index_t panel = keep ? among.count : std::min(PANEL, among.count);
    tile.has_values = panel == among.count;
    ensure_size(tile.values, panel * TILE);
    for (index_t first = 0; first < among.count; first += panel) {
        const index_t count = std::min(panel, among.count - first);
        panel_values(row, packed, among, first, count, tile);
        reduce(among, first, count, tile.values.data(), tile, first > 0);
    }
}

}  // namespace

template <class T>
void filter_tile(const Dense<T>& rows, const index_t* id, int count, const PackedCenters& packed,
                 const Candidates& among, bool keep, Tile& tile) {
    const index_t d = rows.d;
    const T* row[TILE];
    start_tile(rows, id, count, tile, row);
    tile.has_values = false;
    if (keep || d > CHUNK) {
        filter_kept(row, packed, among, tile, keep);
    } else {
        pack_chunk(row, packed, tile, 0, d);
        // Tiles mostly follow each other in memory.
        const bool next = d * among.count >= MIN_AHEAD && count == TILE && id[TILE - 1] - id[0] == TILE - 1 &&
                          id[TILE - 1] + TILE < rows.n;
        for (int r = 0; next && r < TILE; ++r) row[r] += TILE * d;
        const Ahead<T> ahead(row, 0, next ? d : 0, among.count / C);
        with_features(d, [&](auto constant) { filter_fused<constant()>(packed, among, ahead, tile); });
    }
    finish_norms(packed, tile);
    mark_uncertain(packed, tile);
}

template <class T>
void filter_values(const Dense<T>& rows, const index_t* id, int count, const PackedCenters& packed, Tile& tile) {
    const T* row[TILE];
    start_tile(rows, id, count, tile, row);
    ensure_size(tile.values, packed.k * TILE);
    panel_values(row, packed, Candidates{nullptr, packed.k}, 0, packed.k, tile);
    finish_norms(packed, tile);
}

index_t vector_width() { return W; }

template void filter_tile(const Dense<float>&, const index_t*, int, const PackedCenters&, const Candidates&, bool,
                          Tile&);
template void filter_tile(const Dense<double>&, const index_t*, int, const PackedCenters&, const Candidates&, bool,
                          Tile&);
template void filter_values(const Dense<float>&, const index_t*, int, const PackedCenters&, Tile&);
template void filter_values(const Dense<double>&, const index_t*, int, const PackedCenters&, Tile&);
}  // namespace kv::KV_ISA
