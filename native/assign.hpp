// Nearest centres: exhaustively (Lloyd, here), with one lower bound a row (hamerly.hpp), a group of centres
// (yinyang.hpp) or a centre (elkan.hpp). All of them give the labels
//     argmin_j dist2(x, c_j) in exact arithmetic, ties to the lowest j,
// because a bound is always rounded outwards and a doubt is always settled exactly.
#pragma once

#include <algorithm>

#include "pack.hpp"

namespace kv::KV_ISA {

// ---- settling a doubt ----------------------------------------------------------------------------

struct Nearest {
    label_t arg = -1;
    double cost = std::numeric_limits<double>::infinity();
    void meet(label_t j, double c) {
        if (c < cost || (c == cost && j < arg) || arg < 0) arg = j, cost = c;
    }
};

struct Scratch {
    Tile tile, alone;  // many rows, or one
    std::vector<index_t> id, sorted;
    std::vector<label_t> list;
    std::vector<char> mark;
    std::vector<index_t> bucket;
    std::vector<std::int8_t> maybe;
    float limit[TILE] = {};
    Assigned total;
    Changes* changes = nullptr;

    void begin(Changes* c, index_t b) {
        changes = c;
        if (!c) return;
        c->block[b].clear();
        c->many[b] = 0;
    }
};

// The nearest of `among` for row r of the tile just scanned, exactly. Values were kept, or a second
// look at this row alone gives them: they leave few centres to measure.
template <class Rows>
label_t settle(const Rows& rows, index_t i, int r, const Pack& pack, const Centres& centres,
               const Candidates& among, Scratch& s) {
    const bool kept = s.tile.has_values;
    if (!kept) scan_row(rows, i, pack, among, s.alone);
    const Tile& tile = kept ? s.tile : s.alone;
    const int at = kept ? r : 0, stride = kept ? TILE : 1;
    float least = std::numeric_limits<float>::infinity();
    for (index_t p = 0; p < among.count; ++p) least = std::min(least, tile.values[p * stride + at]);
    const float reach = least + 2 * tile.slack[at];
    const bool trusted = tile.finite(at);
    Nearest best;
    for (index_t p = 0; p < among.count; ++p)
        if (!trusted || !(tile.values[p * stride + at] > reach))
            best.meet(among.at(p), dist2(rows, i, centres, among.at(p)));
    return best.arg;
}

template <class Rows>
label_t decide(const Rows& rows, index_t i, int r, const Pack& pack, const Centres& centres,
               const Candidates& among, Scratch& s) {
    return s.tile.doubt[r] ? settle(rows, i, r, pack, centres, among, s) : s.tile.arg[r];
}

// Which rows of a tile have a value within their reach: how many, and their places. Flags first, in
// vectors; then only the set ones are visited.
inline int within(const float* values, const float* reach, int count, int* list) {
    std::uint8_t flag[TILE];
    for (int r = 0; r < TILE; ++r) flag[r] = !(values[r] > reach[r]);
    int m = 0;
    for (int r = 0; r < count; r += 8) {
        std::uint64_t bytes;
        std::memcpy(&bytes, flag + r, 8);
        for (; bytes; bytes &= bytes - 1) {
            list[m] = r + __builtin_ctzll(bytes) / 8;
            m += list[m] < count;
        }
    }
    return m;
}

// ---- Lloyd ------------------------------------------------------------------------------------------

// One for each thread that n rows against k centres are worth.
template <class Rows>
std::vector<Scratch> scratches(const Rows& rows, index_t k) {
    return std::vector<Scratch>(threads_for(static_cast<double>(rows.n) * rows.d * k));
}

template <class S>
Assigned total(const std::vector<S>& all) {
    Assigned sum;
    for (const S& s : all) {
        sum.changed += s.total.changed, sum.scanned += s.total.scanned;
        sum.asked += s.total.asked, sum.sure += s.total.sure;
    }
    return sum;
}

constexpr std::size_t KEPT_CHANGES = BLOCK / 4;

inline void expect(Changes* changes, index_t n) {
    if (changes) changes->block.resize(blocks_of(n)), changes->many.resize(blocks_of(n));
}
// Lists go by row, whatever the order an algorithm took its rows in.
inline void conclude(Changes* changes) {
    if (!changes) return;
    changes->lost = std::find(changes->many.begin(), changes->many.end(), 1) != changes->many.end();
    for (auto& block : changes->block)
        std::sort(block.begin(), block.end(), [](const Change& a, const Change& b) { return a.row < b.row; });
}

inline void relabel(label_t* labels, index_t i, label_t j, Scratch& s) {
    if (labels[i] == j) return;
    ++s.total.changed;
    if (s.changes) {
        auto& list = s.changes->block[i / BLOCK];
        if (list.size() < KEPT_CHANGES)
            list.push_back({static_cast<std::int32_t>(i % BLOCK), labels[i]});
        else
            s.changes->many[i / BLOCK] = 1;
    }
    labels[i] = j;
}

// Undoing the scale in float32; zero where that would leave its range, and bounds are worth nothing.
inline float unscale(const Pack& pack) {
    return pack.scale > 1e-30 && pack.scale < 1e30 ? static_cast<float>(1 / pack.scale) : 0.0f;
}

// Tile::upper of the nearest and Tile::lower of the next, for a whole tile, in float32; 1e-6 covers
// the extra roundings.
inline void tile_bounds(const Tile& tile, const Pack& pack, float* upper, float* lower) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float size = unscale(pack), wide = static_cast<float>(1 + tile.norm_error + 1e-6),
                narrow = static_cast<float>(1 - tile.norm_error - 1e-6);
    for (int r = 0; r < TILE; ++r) {
        const float n2 = tile.norm2[r], slack = tile.slack[r] * 2.001f, best = tile.best[r];
        const float next = tile.doubt[r] ? best : std::min(tile.second[r], 1e30f);  // there may be none
        const float most = 2 * best + std::fabs(best) * 1e-6f + slack + n2 * wide;
        const float least = 2 * next - std::fabs(next) * 1e-6f - slack + n2 * narrow;
        const bool sound = size > 0 && n2 < 1e30f;
        upper[r] = sound ? std::sqrt(most > 0 ? most : 0) * size * (1 + 1e-6f) : infinity;
        lower[r] = sound ? std::sqrt(least > 0 ? least : 0) * size * (1 - 1e-6f) : 0;
    }
}

// Adds to the total how many of a tile's rows would keep their label if every centre moved by `step`.
inline void ask(int count, float step, const Pack& pack, Scratch& s) {
    float most[TILE], least[TILE];
    tile_bounds(s.tile, pack, most, least);
    for (int r = 0; r < count; ++r) s.total.sure += least[r] - most[r] > 2 * step;
    s.total.asked += count;
}

constexpr index_t EVERY = 16;  // tiles of which one is asked

template <class Rows>
Assigned assign(const Rows& rows, const double* c, index_t k, label_t* labels, Changes* changes,
                float step) {
    expect(changes, rows.n);
    const auto centres = exact_centres(rows, c, k);
    const Pack pack = make_pack(rows, c, k);
    const Candidates all{nullptr, k};
    auto scratch = scratches(rows, k);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        s.begin(changes, block);
        const index_t stop = std::min(rows.n, (block + 1) * BLOCK);
        for (index_t at = block * BLOCK; at < stop; at += TILE) {
            index_t id[TILE];
            const int count = static_cast<int>(std::min<index_t>(TILE, stop - at));
            for (int r = 0; r < count; ++r) id[r] = at + r;
            scan(rows, id, count, pack, all, false, s.tile);
            if (step > 0 && at / TILE % EVERY == 0) ask(count, step, pack, s);
            if (s.tile.doubts)
                for (int r = 0; r < count; ++r)
                    s.tile.arg[r] = decide(rows, id[r], r, pack, centres, all, s);
            label_t changed = 0;
            for (int r = 0; r < count; ++r) changed |= labels[at + r] ^ s.tile.arg[r];
            if (changed)
                for (int r = 0; r < count; ++r) relabel(labels, at + r, s.tile.arg[r], s);
            s.total.scanned += count;
        }
    });
    conclude(changes);
    return total(scratch);
}

// ---- how far the centres are from one another, and how far they moved -----------------------------

// Lower bounds on the distances between centres; half[a] is half the distance to the nearest other.
struct Between {
    std::vector<float> distance;  // k x k, empty when k is too large to be worth it
    std::vector<float> half;
    explicit operator bool() const { return !distance.empty(); }
};

inline Between between(const double* c, index_t k, index_t d, index_t n) {
    Between out;
    out.half.assign(k, 0);
    if (k < 2 || k * k > 4 * n) return out;
    const Dense<double> rows{c, k, d};
    const Pack pack = make_pack(rows, c, k);
    out.distance.assign(k * k, 0);
    auto scratch = scratches(rows, k);
    parallel((k + TILE - 1) / TILE, scratch, [&](index_t block, Scratch& s) {
        index_t id[TILE] = {};
        const int count = static_cast<int>(std::min<index_t>(TILE, k - block * TILE));
        for (int r = 0; r < count; ++r) id[r] = block * TILE + r;
        scan(rows, id, count, pack, Candidates{nullptr, k}, true, s.tile);
        for (int r = 0; r < count; ++r) {
            float nearest = std::numeric_limits<float>::infinity();
            for (index_t j = 0; j < k; ++j) {
                if (j == id[r]) continue;
                const float v = s.tile.finite(r) ? round_down(s.tile.lower(r, s.tile.values[j * TILE + r], pack)) : 0;
                out.distance[id[r] * k + j] = v;
                nearest = std::min(nearest, v);
            }
            out.half[id[r]] = nearest / 2;
        }
    });
    return out;
}

// The largest movement among the centres other than a row's own.
struct Movement {
    const float* moved;
    label_t who = 0;
    float largest = 0, next = 0;
    Movement(const float* m, index_t k) : moved(m) {
        for (index_t j = 0; j < k; ++j)
            if (m[j] > largest)
                next = largest, largest = m[j], who = static_cast<label_t>(j);
            else
                next = std::max(next, m[j]);
    }
    float others(label_t a) const { return a == who ? next : largest; }
};

inline float widened(float upper, float by) {
    const float v = upper + by;
    return v + v * 2.4e-7f + std::numeric_limits<float>::min();
}
inline float narrowed(float lower, float by) {
    const float v = lower - by, w = v - std::fabs(v) * 2.4e-7f;
    return w > 0 ? w : 0;
}

}  // namespace kv::KV_ISA
