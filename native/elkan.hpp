// Elkan: a lower bound for every row and centre. Pays where distances are dear (large d) and the
// n x k bounds are small beside the data.
//
// lower[i, j] is kept as (bound + drift[j]), where drift[j] is the path centre j has travelled in
// all: a bound that is not touched needs no writing, its decay is the growth of drift.
#pragma once

#include "assign.hpp"

namespace kv::KV_ISA {

inline void remember(float& slot, double bound, float drift) { slot = round_down(bound + drift); }

// Tile::lower for a whole tile, in float32 and in place; 1e-6 covers the extra roundings.
inline void values_to_bounds(index_t k, const Pack& pack, const float* drift, Tile& tile) {
    const float size = unscale(pack) * (1 - 1e-6f);
    float base[TILE];
    for (int r = 0; r < TILE; ++r) {
        const float n2 = tile.norm2[r];
        base[r] = n2 < 1e30f ? n2 * static_cast<float>(1 - tile.norm_error - 1e-6) - 2 * tile.slack[r] * 1.001f
                             : -std::numeric_limits<float>::infinity();
    }
    for (index_t j = 0; j < k; ++j) {
        float* v = tile.values.data() + j * TILE;
        const float path = drift[j];
        for (int r = 0; r < TILE; ++r) {
            const float sq = base[r] + 2 * v[r] - std::fabs(v[r]) * 1e-6f;
            const float bound = sq > 0 ? std::sqrt(sq) * size : 0.0f;
            v[r] = (bound + path) * (1 - 2.4e-7f);
        }
    }
}

// All k distances of up to TILE rows at once, and their bounds.
template <class Rows>
void elkan_full(const Rows& rows, const index_t* id, int count, const Centres& centres,
                const Pack& pack, const float* drift, label_t* labels, float* upper, float* lower,
                Scratch& s) {
    const Candidates all{nullptr, centres.k};
    scan(rows, id, count, pack, all, true, s.tile);
    for (int r = 0; r < count; ++r) {
        const index_t i = id[r];
        const bool sound = s.tile.finite(r);
        relabel(labels, i, decide(rows, i, r, pack, centres, all, s), s);
        upper[i] = sound ? round_up(s.tile.upper(r, s.tile.best[r], pack)) : std::numeric_limits<float>::infinity();
    }
    values_to_bounds(centres.k, pack, drift, s.tile);
    for (int r = 0; r < count; ++r) {
        float* bound = lower + id[r] * centres.k;
        for (index_t j = 0; j < centres.k; ++j) bound[j] = s.tile.values[j * TILE + r];
    }
    s.total.scanned += count * centres.k;
}

// Centres other than its own that could be as near to a row as u.
inline index_t count_open(const float* bound, const float* drift, float u, label_t own, index_t k) {
    label_t open = 0;
    for (index_t j = 0; j < k; ++j) open += !(bound[j] - drift[j] > u);  // infinite less infinite: open
    return open - !(bound[own] - drift[own] > u);
}
inline void list_open(const float* bound, const float* drift, float u, label_t own, index_t k, label_t* list) {
    index_t m = 0;
    for (index_t j = 0; j < k; ++j) {
        list[m] = static_cast<label_t>(j);
        m += !(bound[j] - drift[j] > u) & (j != own);
    }
}

// One row against the few centres its bounds leave open.
template <class Rows>
void elkan_few(const Rows& rows, index_t i, double own_cost, index_t count, const Centres& centres,
               const Pack& pack, const float* drift, label_t* labels, float* upper, float* lower,
               Scratch& s) {
    const Candidates few{s.list.data(), count};
    scan_row(rows, i, pack, few, s.tile);
    Nearest best;
    best.meet(labels[i], own_cost);
    float* bound = lower + i * centres.k;
    remember(bound[labels[i]], std::sqrt(own_cost), drift[labels[i]]);
    const bool sound = s.tile.finite(0);
    for (index_t p = 0; p < count; ++p) {
        const label_t j = few.at(p);
        double least = sound ? s.tile.lower(0, s.tile.values[p], pack) : 0;
        if (round_down(least) <= round_up(std::sqrt(best.cost))) {
            const double cost = dist2(rows, i, centres, j);
            least = std::sqrt(cost);
            best.meet(j, cost);
        }
        remember(bound[j], least, drift[j]);
    }
    upper[i] = round_up(std::sqrt(best.cost));
    relabel(labels, i, best.arg, s);
    s.total.scanned += count;
}

template <class Rows>
Assigned assign_elkan(const Rows& rows, const double* c, index_t k,
                      const float* moved, float* drift, label_t* labels, float* upper, float* lower,
                      Changes* changes) {
    expect(changes, rows.n);
    const auto centres = exact_centres(rows, c, k);
    const Pack pack = make_pack(rows, c, k);
    const Between apart = between(c, k, rows.d, rows.n);
    if (moved)
        for (index_t j = 0; j < k; ++j) drift[j] = widened(drift[j], moved[j]);
    auto scratch = scratches(rows, k);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        s.begin(changes, block);
        const index_t from = block * BLOCK, stop = std::min(rows.n, from + BLOCK);
        s.id.clear();
        s.list.resize(k + 1);
        const auto flush = [&] {
            if (!s.id.empty())
                elkan_full(rows, s.id.data(), static_cast<int>(s.id.size()), centres, pack, drift, labels, upper, lower, s);
            s.id.clear();
        };
        for (index_t i = from; i < stop; ++i) {
            if (moved) {
                const label_t a = labels[i];
                const float* bound = lower + i * k;
                upper[i] = widened(upper[i], moved[a]);
                if (upper[i] < apart.half[a]) continue;
                if (!count_open(bound, drift, upper[i], a, k)) continue;
                const double own = dist2(rows, i, centres, a);
                upper[i] = round_up(std::sqrt(own));
                if (upper[i] < apart.half[a]) continue;
                const index_t open = count_open(bound, drift, upper[i], a, k);
                if (open == 0) continue;
                if (open <= k / 3) {
                    list_open(bound, drift, upper[i], a, k, s.list.data());
                    elkan_few(rows, i, own, open, centres, pack, drift, labels, upper, lower, s);
                    continue;
                }
            }
            s.id.push_back(i);
            if (s.id.size() == TILE) flush();
        }
        flush();
    });
    conclude(changes);
    return total(scratch);
}

}  // namespace kv::KV_ISA
