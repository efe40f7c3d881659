// Yinyang (Ding et al. 2015): a lower bound a row for each of SIXTEEN groups of centres, so that a
// centre that moves far costs its own group's bound only. Rows that keep a group open are gathered
// and meet that group's centres in the same filter as everywhere else; what the filter cannot tell
// is measured exactly, so labels are those of every other algorithm.
//
// lower[i][g] bounds the distance from row i to every centre of group g other than its own.
#pragma once

#include <utility>

#include "assign.hpp"

namespace kv::KV_ISA {

constexpr int SIXTEEN = 16;
constexpr index_t SPAN = 2;  // blocks gathered together, so that tiles are full

using Members = std::vector<std::vector<label_t>>;  // of each group, ascending

inline Members members(const std::int32_t* group, index_t k) {
    Members out(SIXTEEN);
    for (index_t j = 0; j < k; ++j) out[group[j]].push_back(static_cast<label_t>(j));
    return out;
}

// A row on its way to its nearest centre: exact so far.
struct Climb {
    index_t row;
    Nearest best;
    float upper;  // sqrt(best.cost), rounded up
};

struct Climbers : Scratch {
    std::vector<Climb> climb;
    std::vector<std::int32_t> open[SIXTEEN];  // which climbers keep a group open, the first count[g]
    index_t count[SIXTEEN];
    std::vector<label_t> grouped;             // all centres, group by group
};

// The least distance a value can stand for; 1e-6 covers the roundings of this.
inline void lower_bounds(const Tile& tile, const Pack& pack, const float* values, float* out) {
    const float size = unscale(pack), narrow = static_cast<float>(1 - tile.norm_error - 1e-6);
    for (int r = 0; r < TILE; ++r) {
        const float n2 = tile.norm2[r], v = std::min(values[r], 1e30f);
        const float square = 2 * v - std::fabs(v) * 1e-6f - tile.slack[r] * 2.001f + n2 * narrow;
        const bool sound = size > 0 && n2 < 1e30f;
        out[r] = sound && square > 0 ? std::sqrt(square) * size * (1 - 1e-6f) : 0;
    }
}

// All bounds of up to TILE rows.
template <class Rows>
void yinyang_full(const Rows& rows, const index_t* id, int count, const Centres& centres, const Pack& pack,
                  const Members& groups, label_t* labels, float* upper, float* lower, Climbers& s) {
    const Candidates all{s.grouped.data(), centres.k};
    scan(rows, id, count, pack, all, true, s.tile);
    label_t own[TILE] = {};
    float most[TILE], unused[TILE];
    tile_bounds(s.tile, pack, most, unused);
    for (int r = 0; r < count; ++r) {
        own[r] = decide(rows, id[r], r, pack, centres, all, s);
        relabel(labels, id[r], own[r], s);
        upper[id[r]] = most[r];
    }
    const float* v = s.tile.values.data();
    for (int g = 0; g < SIXTEEN; ++g) {
        float least[TILE];
        std::fill(least, least + TILE, 1e30f);
        for (label_t j : groups[g]) {
            for (int r = 0; r < TILE; ++r) {
                const float value = own[r] == j ? 1e30f : v[r];
                least[r] = value < least[r] ? value : least[r];
            }
            v += TILE;
        }
        lower_bounds(s.tile, pack, least, least);
        for (int r = 0; r < count; ++r) lower[id[r] * SIXTEEN + g] = least[r];
    }
    s.total.scanned += count * centres.k;
}

typedef float sixteen __attribute__((vector_size(4 * SIXTEEN)));

template <int... I>
inline sixteen half_turn(sixteen v, int by, std::integer_sequence<int, I...>) {
    switch (by) {
        case 8: return __builtin_shufflevector(v, v, ((I + 8) % SIXTEEN)...);
        case 4: return __builtin_shufflevector(v, v, ((I + 4) % SIXTEEN)...);
        case 2: return __builtin_shufflevector(v, v, ((I + 2) % SIXTEEN)...);
        default: return __builtin_shufflevector(v, v, ((I + 1) % SIXTEEN)...);
    }
}
inline float least_of(sixteen v) {
    for (int by : {8, 4, 2, 1}) {
        const sixteen w = half_turn(v, by, std::make_integer_sequence<int, SIXTEEN>{});
        v = w < v ? w : v;
    }
    return v[0];
}

// Moves the bounds along with the centres; s.id: the rows they no longer settle.
inline void yinyang_move(index_t from, index_t stop, const Between& apart, const float* moved, const sixteen& drift,
                         const label_t* labels, float* upper, float* lower, Climbers& s) {
    s.id.resize(SPAN * BLOCK);
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        const label_t a = labels[i];
        sixteen v;
        std::memcpy(&v, lower + i * SIXTEEN, sizeof v);
        v -= drift;
        v -= (v < 0 ? -v : v) * 2.4e-7f;
        v = v > 0 ? v : sixteen{};
        std::memcpy(lower + i * SIXTEEN, &v, sizeof v);
        const float u = upper[i] = widened(upper[i], moved[a]);
        s.id[m] = i;
        m += !(u < std::max(least_of(v), apart.half[a]));
    }
    s.id.resize(m);
}

// Tightens those rows' upper bounds; lists who is still open, group by group.
template <class Rows>
void yinyang_open(const Rows& rows, const Centres& centres, const Between& apart, const label_t* labels,
                  float* upper, const float* lower, Climbers& s) {
    s.climb.clear();
    std::fill(s.count, s.count + SIXTEEN, 0);
    for (auto& list : s.open) list.resize(SPAN * BLOCK + 1);
    for (index_t i : s.id) {
        const label_t a = labels[i];
        const double cost = dist2(rows, i, centres, a);
        const float u = upper[i] = round_up(std::sqrt(cost));
        if (u < apart.half[a]) continue;
        const auto place = static_cast<std::int32_t>(s.climb.size());
        std::int32_t any = 0;
        for (int g = 0; g < SIXTEEN; ++g) {  // no branches: which groups are open is hard to guess
            const std::int32_t open = !(u < lower[i * SIXTEEN + g]);
            s.open[g][s.count[g]] = place;
            s.count[g] += open;
            any |= open;
        }
        if (any) s.climb.push_back({i, {a, cost}, u});
    }
}

// One challenger after the other, exactly. Whoever loses stays in its group's bound.
template <class Rows>
void challenge(const Rows& rows, Climb& climb, label_t j, const Centres& centres, const std::int32_t* group, float* bound) {
    if (j == climb.best.arg) return;
    Nearest loser{j, dist2(rows, climb.row, centres, j)};
    const Nearest before = climb.best;
    climb.best.meet(j, loser.cost);
    if (climb.best.arg == j) {
        loser = before;
        climb.upper = round_up(std::sqrt(climb.best.cost));
    }
    float& kept = bound[group[loser.arg]];
    kept = std::min(kept, round_down(std::sqrt(loser.cost)));
}

// Up to TILE climbers meet the centres of group g.
template <class Rows>
void yinyang_meet(const Rows& rows, const std::int32_t* place, int count, int g, const Centres& centres,
                  const Pack& pack, const std::int32_t* group, const Members& groups, float* lower, Climbers& s) {
    index_t id[TILE];
    for (int r = 0; r < count; ++r) id[r] = s.climb[place[r]].row;
    const Candidates among{groups[g].data(), static_cast<index_t>(groups[g].size())};
    scan(rows, id, count, pack, among, false, s.tile);
    float first[TILE], next[TILE];
    lower_bounds(s.tile, pack, s.tile.best, first);
    lower_bounds(s.tile, pack, s.tile.second, next);
    for (int r = 0; r < count; ++r) {
        Climb& climb = s.climb[place[r]];
        float* bound = lower + id[r] * SIXTEEN;
        const bool own = s.tile.arg[r] == climb.best.arg;
        const float rest = own ? next[r] : first[r];  // of all but its own
        bound[g] = rest;
        if (rest > climb.upper) continue;
        bound[g] = own || !(next[r] > climb.upper) ? std::numeric_limits<float>::max() : next[r];
        if (!own && next[r] > climb.upper)
            challenge(rows, climb, s.tile.arg[r], centres, group, bound);
        else
            for (label_t j : groups[g]) challenge(rows, climb, j, centres, group, bound);
    }
    s.total.scanned += count * among.count;
}

template <class Rows>
Assigned assign_yinyang(const Rows& rows, const double* c, index_t k, const std::int32_t* group,
                        const float* moved, label_t* labels, float* upper, float* lower, Changes* changes) {
    expect(changes, rows.n);
    const auto centres = exact_centres(rows, c, k);
    const Pack pack = make_pack(rows, c, k);
    const Between apart = between(c, k, rows.d, rows.n);
    const Members groups = members(group, k);
    sixteen drift{};
    for (index_t j = 0; moved && j < k; ++j) drift[group[j]] = std::max(drift[group[j]], moved[j]);
    std::vector<Climbers> scratch(threads_for(static_cast<double>(rows.n) * rows.d * k));
    const index_t span = SPAN * BLOCK;
    parallel((rows.n + span - 1) / span, scratch, [&](index_t task, Climbers& s) {
        const index_t from = task * span, stop = std::min(rows.n, from + span);
        for (index_t block = from / BLOCK; block * BLOCK < stop; ++block) s.begin(changes, block);
        if (!moved) {
            s.grouped.clear();
            for (const auto& list : groups) s.grouped.insert(s.grouped.end(), list.begin(), list.end());
            for (index_t at = from; at < stop; at += TILE) {
                index_t id[TILE];
                const int count = static_cast<int>(std::min<index_t>(TILE, stop - at));
                for (int r = 0; r < count; ++r) id[r] = at + r;
                yinyang_full(rows, id, count, centres, pack, groups, labels, upper, lower, s);
            }
            return;
        }
        yinyang_move(from, stop, apart, moved, drift, labels, upper, lower, s);
        yinyang_open(rows, centres, apart, labels, upper, lower, s);
        for (int g = 0; g < SIXTEEN; ++g)
            for (index_t at = 0; at < s.count[g] && !groups[g].empty(); at += TILE)
                yinyang_meet(rows, s.open[g].data() + at, static_cast<int>(std::min<index_t>(TILE, s.count[g] - at)),
                             g, centres, pack, group, groups, lower, s);
        for (const Climb& climb : s.climb) {
            upper[climb.row] = climb.upper;
            relabel(labels, climb.row, climb.best.arg, s);
        }
    });
    conclude(changes);
    return total(scratch);
}

}  // namespace kv::KV_ISA
