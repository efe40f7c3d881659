// Nearest centres: exhaustively (Lloyd), with one lower bound a row (Hamerly, with Newling and
// Fleuret's ball of candidate centres), or with one a centre (Elkan). All three give the labels
//     argmin_j dist2(x, c_j) in exact arithmetic, ties to the lowest j,
// because a bound is always rounded outwards and a doubt is always settled exactly.
#pragma once

#include <algorithm>
#include <optional>

#include "exact.hpp"
#include "kernels.hpp"

namespace kv::KV_ISA {

// ---- preparing the centres ----------------------------------------------------------------------

// The power of two that brings r into [1/2, 1].
inline double unit_scale(double r) {
    if (!(r > 0) || std::isinf(r)) return r > 0 ? 0 : 1;
    int e;
    std::frexp(r, &e);
    return std::ldexp(1.0, std::min(-e, 1000));
}

template <class T>
Pack make_pack(const Dense<T>& rows, const double* c, index_t k) {
    const index_t d = rows.d;
    Pack pack;
    pack.k = k, pack.d = d;
    pack.offset.assign(d, 0);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i) pack.offset[i] += c[j * d + i] / k;
    for (double& o : pack.offset) o = static_cast<double>(static_cast<T>(o));  // as rows subtract it
    std::vector<double> norm2(k, 0);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i) {
            const double v = c[j * d + i] - pack.offset[i];
            norm2[j] += v * v;
        }
    const double r = std::sqrt(*std::max_element(norm2.begin(), norm2.end()));
    pack.scale = unit_scale(r);
    pack.radius = r * pack.scale * (1 + 1e-6);
    pack.centre.resize(k * d);
    pack.half.resize(k);
    for (index_t j = 0; j < k; ++j) {
        pack.half[j] = static_cast<float>(norm2[j] * pack.scale * pack.scale / 2);
        for (index_t i = 0; i < d; ++i)
            pack.centre[j * d + i] = static_cast<float>((c[j * d + i] - pack.offset[i]) * pack.scale);
    }
    return pack;
}

template <class T>
Pack make_pack(const Csr<T>& rows, const double* c, index_t k) {
    const index_t d = rows.d, w = vector_width();
    Pack pack;
    pack.k = k, pack.d = d;
    pack.width = (k + w - 1) / w * w;
    const Centres exact = exact_centres(rows, c, k);
    const double r = std::sqrt(*std::max_element(exact.norm2.begin(), exact.norm2.end()));
    pack.scale = unit_scale(r);
    pack.radius = r * pack.scale * (1 + 1e-6);
    pack.centre.assign(d * pack.width, 0);
    pack.half.assign(pack.width, std::numeric_limits<float>::infinity());
    for (index_t j = 0; j < k; ++j) {
        pack.half[j] = static_cast<float>(exact.norm2[j] * pack.scale * pack.scale / 2);
        for (index_t i = 0; i < d; ++i)
            pack.centre[i * pack.width + j] = static_cast<float>(c[j * d + i] * pack.scale);
    }
    return pack;
}

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

// ---- Hamerly ----------------------------------------------------------------------------------------

// Rows of one block whose bounds do not prove their label.
template <class Rows>
void survivors(const Rows& rows, index_t from, index_t stop, const Centres& centres,
               const Between& apart, const Movement& movement, const label_t* labels,
               float* __restrict upper, float* __restrict lower, bool tighten, Scratch& s) {
    const float* moved = movement.moved;
    s.id.resize(BLOCK);
    std::int32_t open[BLOCK];  // apart from the list: this loop is vectors, that one is not
    for (index_t i = from; i < stop; ++i) {
        const label_t a = labels[i];
        const float u = widened(upper[i], moved[a]), l = narrowed(lower[i], a == movement.who ? movement.next : movement.largest);
        const float half = apart.half[a];
        upper[i] = u, lower[i] = l;
        open[i - from] = !(u < l) & !(u < half);
    }
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        s.id[m] = i;
        m += open[i - from];
    }
    if (tighten) {
        index_t kept = 0;
        for (index_t p = 0; p < m; ++p) {
            const index_t i = s.id[p];
            const label_t a = labels[i];
            upper[i] = round_up(std::sqrt(dist2(rows, i, centres, a)));
            s.id[kept] = i;
            kept += !(upper[i] < std::max(lower[i], apart.half[a]));
        }
        m = kept;
    }
    s.id.resize(m);
}

// Neighbours in the list share candidates once the list is sorted by label.
inline void sort_by_label(const label_t* labels, index_t k, Scratch& s) {
    s.bucket.assign(k + 1, 0);
    for (index_t i : s.id) ++s.bucket[labels[i] + 1];
    for (index_t j = 0; j < k; ++j) s.bucket[j + 1] += s.bucket[j];
    s.sorted.resize(s.id.size());
    for (index_t i : s.id) s.sorted[s.bucket[labels[i]]++] = i;
    s.id.swap(s.sorted);
}

// Centres that can be first or second for a row of the tile: those within 2u + s of its own
// centre, with s the distance from that centre to its nearest other. limit[r] bounds the rest.
inline Candidates ball(const index_t* id, int count, index_t k, const Between& apart,
                       const label_t* labels, const float* upper, Scratch& s) {
    s.mark.assign(k, 0);
    for (int r = 0; r < count;) {
        const label_t a = labels[id[r]];
        int end = r;
        float reach = 0;
        for (; end < count && labels[id[end]] == a; ++end) reach = std::max(reach, upper[id[end]]);
        reach = round_up(2 * (reach + apart.half[a]));
        const float* row = apart.distance.data() + a * k;
        for (index_t j = 0; j < k; ++j) s.mark[j] |= row[j] < reach;
        s.mark[a] = 1;
        for (; r < end; ++r) s.limit[r] = round_down(reach - upper[id[r]]);
    }
    s.list.resize(k);
    index_t m = 0;
    for (index_t j = 0; j < k; ++j) {
        s.list[m] = static_cast<label_t>(j);
        m += s.mark[j];
    }
    if (m == k) return {nullptr, k};
    return {s.list.data(), m};
}

// Below so many multiply-adds a row, choosing candidates costs more than it saves.
constexpr index_t BALL = 4096;

template <class Rows>
Assigned assign_hamerly(const Rows& rows, const double* c, index_t k,
                        const float* moved, label_t* labels, float* upper, float* lower, bool tighten,
                        Changes* changes) {
    expect(changes, rows.n);
    const auto centres = exact_centres(rows, c, k);
    const Pack pack = make_pack(rows, c, k);
    const Between apart = between(c, k, rows.d, rows.n);
    const bool few = k * rows.d < BALL || !apart;
    std::optional<Movement> movement;
    if (moved) movement.emplace(moved, k);
    constexpr float infinity = std::numeric_limits<float>::infinity();
    auto scratch = scratches(rows, k);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        s.begin(changes, block);
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        if (moved) {
            survivors(rows, from, stop, centres, apart, *movement, labels, upper, lower, tighten, s);
            if (!few) sort_by_label(labels, k, s);
        } else {
            s.id.resize(stop - from);
            for (index_t i = from; i < stop; ++i) s.id[i - from] = i;
        }
        for (std::size_t at = 0; at < s.id.size(); at += TILE) {
            const index_t* id = s.id.data() + at;
            const int count = static_cast<int>(std::min<std::size_t>(TILE, s.id.size() - at));
            std::fill(s.limit, s.limit + TILE, infinity);
            Candidates among{nullptr, k};
            if (moved && !few) among = ball(id, count, k, apart, labels, upper, s);
            scan(rows, id, count, pack, among, false, s.tile);
            float most[TILE], least[TILE];
            tile_bounds(s.tile, pack, most, least);
            for (int r = 0; r < count; ++r) {
                const index_t i = id[r];
                relabel(labels, i, decide(rows, i, r, pack, centres, among, s), s);
                upper[i] = most[r];
                lower[i] = std::min(least[r], s.limit[r]);
            }
            s.total.scanned += count;
        }
    });
    conclude(changes);
    return total(scratch);
}

}  // namespace kv::KV_ISA
