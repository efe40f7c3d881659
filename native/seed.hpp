// The potential a D^2 sampler draws from: for every row the squared distance to its nearest
// centre, weighted, with one partial sum per DRAW rows.
//
//   absorb  takes new centres into it, one or many in one pass over the rows;
//   gains   tells how much each of several candidates would lower it (the greedy step), and
//   adopt   takes one of them in, from what gains has seen;
//   draw    picks a row. Centres may be pending, i.e. drawn but not yet absorbed: then the kept
//           costs are upper bounds, a row is proposed by its bound and accepted with probability
//           (true cost / bound), which is exactly the law of the true costs.
// limit[a], when given, is a cost below which no new centre can improve a row whose nearest centre
// is a (a quarter of the squared distance from a to the nearest new one): such rows are not read.
#pragma once

#include "assign.hpp"

namespace kv::KV_ISA {

inline double weighted(const Potential& p, index_t i) {
    return p.weight ? p.weight[i] * p.cost[i] : p.cost[i];
}

inline void refresh_sum(const Potential& p, index_t n, index_t tile) {
    double sum = 0;
    const index_t stop = std::min(n, (tile + 1) * DRAW);
    for (index_t i = tile * DRAW; i < stop; ++i) sum += weighted(p, i);
    p.sums[tile] = sum;
}

inline void within_limit(const Potential& p, const double* limit, index_t from, index_t stop, Scratch& s) {
    s.id.resize(BLOCK);
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        s.id[m] = i;
        m += !limit || p.cost[i] > limit[p.nearest[i]];
    }
    s.id.resize(m);
}

// Per tile row, the value above which a centre cannot be nearer than the row's cost. In float32, so
// that it vectorises; 4e-7 covers its own roundings.
inline void thresholds(const Tile& tile, const index_t* id, int count, const Potential& p, const Pack& pack,
                       float* out) {
    const double square = pack.scale * pack.scale;
    const float shrink = static_cast<float>(1 - tile.norm_error - 4e-7);
    float cost[TILE];
    for (int r = 0; r < count; ++r) cost[r] = static_cast<float>(p.cost[id[r]] * square);
    for (int r = 0; r < count; ++r) {
        const float reach = (cost[r] * (1 + 4e-7f) - tile.norm2[r] * shrink) / 2 + tile.slack[r] * 1.00001f;
        out[r] = tile.norm2[r] < 1e30f ? reach : std::numeric_limits<float>::infinity();
    }
}

template <class Rows>
void absorb_direct(const Rows& rows, const Centres& fresh, label_t first, const Potential& p, Scratch& s) {
    for (index_t i : s.id)
        for (index_t j = 0; j < fresh.k; ++j) {
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + static_cast<label_t>(j);
        }
}

template <class Rows>
void absorb_scan(const Rows& rows, const Centres& fresh, const Pack& pack, label_t first,
                 const Potential& p, Scratch& s) {
    const Candidates all{nullptr, fresh.k};
    for (std::size_t at = 0; at < s.id.size(); at += TILE) {
        const index_t* id = s.id.data() + at;
        const int count = static_cast<int>(std::min<std::size_t>(TILE, s.id.size() - at));
        scan(rows, id, count, pack, all, false, s.tile);
        thresholds(s.tile, id, count, p, pack, s.limit);
        for (int r = 0; r < count; ++r) {
            const index_t i = id[r];
            if (s.tile.best[r] > s.limit[r]) continue;
            const label_t j = decide(rows, i, r, s.tile, fresh, all);
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + j;
        }
    }
}

template <class Rows>
void absorb(const Rows& rows, const double* c, index_t m, label_t first,
            const double* limit, const Potential& p) {
    const auto fresh = exact_centres(rows, c, m);
    const bool direct = m <= 2;
    const Pack pack = direct ? Pack{} : make_pack(rows, c, m);
    auto scratch = scratches(rows, m);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        within_limit(p, limit, from, stop, s);
        if (s.id.empty()) return;
        direct ? absorb_direct(rows, fresh, first, p, s) : absorb_scan(rows, fresh, pack, first, p, s);
        for (index_t tile = from / DRAW; tile * DRAW < stop; ++tile) refresh_sum(p, rows.n, tile);
    });
}

constexpr std::size_t KEPT_HITS = BLOCK / 2;

template <class Rows>
void gains(const Rows& rows, const double* c, index_t m, const double* limit,
           const Potential& p, double* gain, Hits& hits) {
    const auto fresh = exact_centres(rows, c, m);
    const Pack pack = make_pack(rows, c, m);
    const Candidates all{nullptr, m};
    std::vector<double> part(blocks_of(rows.n) * m, 0);
    hits.block.resize(blocks_of(rows.n));
    hits.lost.assign(blocks_of(rows.n), 0);
    auto scratch = scratches(rows, m);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        double* mine = part.data() + block * m;
        std::vector<Hit>& seen = hits.block[block];
        seen.clear();
        within_limit(p, limit, block * BLOCK, std::min(rows.n, (block + 1) * BLOCK), s);
        for (std::size_t at = 0; at < s.id.size(); at += TILE) {
            const index_t* id = s.id.data() + at;
            const int count = static_cast<int>(std::min<std::size_t>(TILE, s.id.size() - at));
            scan(rows, id, count, pack, all, true, s.tile);
            thresholds(s.tile, id, count, p, pack, s.limit);
            for (int r = 0; r < count; ++r) {
                const index_t i = id[r];
                if (s.tile.best[r] > s.limit[r]) continue;
                for (index_t j = 0; j < m; ++j) {
                    if (s.tile.values[j * TILE + r] > s.limit[r]) continue;
                    const double cost = dist2(rows, i, fresh, j), less = p.cost[i] - cost;
                    if (!(less > 0)) continue;
                    mine[j] += p.weight ? p.weight[i] * less : less;
                    if (seen.size() < KEPT_HITS)
                        seen.push_back({i, static_cast<label_t>(j), cost});
                    else
                        hits.lost[block] = 1;
                }
            }
        }
    });
    std::fill(gain, gain + m, 0.0);
    for (index_t block = 0; block < blocks_of(rows.n); ++block)
        for (index_t j = 0; j < m; ++j) gain[j] += part[block * m + j];
}

template <class Rows>
void adopt(const Rows& rows, const double* c, label_t candidate, label_t name,
           const double* limit, const Potential& p, const Hits& hits) {
    const auto fresh = exact_centres(rows, c, 1);
    auto scratch = scratches(rows, 1);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        char touched[BLOCK / DRAW] = {};
        if (hits.lost[block]) {
            within_limit(p, limit, from, stop, s);
            absorb_direct(rows, fresh, name, p, s);
            std::fill(std::begin(touched), std::end(touched), 1);
        }
        for (const Hit& hit : hits.block[block])
            if (!hits.lost[block] && hit.candidate == candidate) {
                p.cost[hit.row] = hit.cost, p.nearest[hit.row] = name;
                touched[(hit.row - from) / DRAW] = 1;
            }
        for (index_t tile = from / DRAW; tile * DRAW < stop; ++tile)
            if (touched[tile - from / DRAW]) refresh_sum(p, rows.n, tile);
    });
}

// The row at which the running sum of weighted costs passes u * total; -1 if the total is zero.
inline index_t locate(const Potential& p, index_t n, double u) {
    const index_t tiles = (n + DRAW - 1) / DRAW;
    double total = 0;
    for (index_t t = 0; t < tiles; ++t) total += p.sums[t];
    if (!(total > 0)) return -1;
    const double goal = u * total;
    double sum = 0;
    index_t last = -1;  // rounding can carry the goal past the end: fall back on the last possible row
    for (index_t t = 0; t < tiles; ++t) {
        if (!(p.sums[t] > 0)) continue;
        if (sum + p.sums[t] <= goal) {
            sum += p.sums[t];
            last = t;
            continue;
        }
        last = t;
        break;
    }
    index_t row = -1;
    for (index_t i = last * DRAW; i < std::min(n, (last + 1) * DRAW); ++i) {
        const double w = weighted(p, i);
        if (!(w > 0)) continue;
        row = i;
        sum += w;
        if (sum > goal) break;
    }
    return row;
}

template <class Rows>
Drawn draw(const Rows& rows, const double* pending, index_t m, label_t first,
           const Potential& p, const double* uniforms, index_t count) {
    const auto fresh = exact_centres(rows, pending, m);
    Drawn out;
    while (out.used + 2 <= count) {
        const double u = uniforms[out.used], accept = uniforms[out.used + 1];
        out.used += 2;
        const index_t i = locate(p, rows.n, u);
        if (i < 0) return out;
        const double bound = p.cost[i];
        for (index_t j = 0; j < m; ++j) {
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + static_cast<label_t>(j);
        }
        if (p.cost[i] < bound) refresh_sum(p, rows.n, i / DRAW);
        if (accept * bound < p.cost[i]) {
            out.row = i;
            return out;
        }
    }
    return out;
}

}  // namespace kv::KV_ISA
