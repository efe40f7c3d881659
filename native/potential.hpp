// The potential that a D^2 sampler draws from: for every row its weighted squared distance to the nearest centre, with
// one exact sum (exact_sums.hpp) per DRAW rows. So a draw depends neither on the threads nor on how rows are cut into
// shards.
//
// lower_costs adds new centres, one or many in one pass over the rows; propose finds the row at which the sums pass a
// goal. Centres may be pending, that is, drawn but not yet added. The costs are then upper bounds: a row is proposed in
// proportion to its bound and the caller accepts it with probability (true cost / bound), which gives exactly the
// distribution of the true costs.
//
// limit[a], if given, is a cost below which no new centre can improve a row whose nearest centre is a: a quarter of the
// squared distance from a to the nearest new centre. Such rows are not read.
#pragma once

#include "assign.hpp"
#include "small_rows.hpp"

namespace kv::KV_ISA {

inline void update_sum(const Potential& p, index_t n, index_t tile) {
    const Scale scale = p.scale;
    const index_t from = tile * DRAW, stop = std::min(n, from + DRAW);
    ShortSum sum{scale};
    sum.terms = static_cast<word_t>(stop - from);
    for (index_t i = from; i < stop; ++i) sum.add(weighted_cost(p, i));
    p.sums[tile] = sum.whole();
}

// Updates the sums of the tiles in [from, stop).
inline void update_sums(const Potential& p, index_t n, index_t from, index_t stop) {
    if (!p.sums) return;
    for (index_t tile = from / DRAW; tile * DRAW < stop; ++tile) update_sum(p, n, tile);
}

inline void improvable_rows(const Potential& p, const double* limit, index_t from, index_t stop, Scratch& s) {
    s.id.resize(BLOCK);
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        s.id[m] = i;
        m += !limit || p.cost[i] > limit[p.nearest[i]];
    }
    s.id.resize(m);
}

// Copies the values of listed rows. The last one fills the rest of the tile.
inline void gather(const double* from, const index_t* id, int count, double* out) {
    const bool neighbours = id[count - 1] - id[0] == count - 1;
    if (neighbours && count == TILE) {
        std::memcpy(out, from + id[0], TILE * sizeof(double));
        return;
    }
    for (int r = 0; r < TILE; ++r) out[r] = from[id[std::min(r, count - 1)]];
}

using label8 = Vector<label_t, 8>;

// Eight rows, one vector per feature.
template <int D>
struct EightRows {
    double8 x[D];
    template <class T>
    explicit EightRows(const T* rows) {
        for (int j = 0; j < D; ++j)
            for (int l = 0; l < 8; ++l) x[j][l] = static_cast<double>(rows[l * D + j]);
    }
    double8 dist2(const double* c) const {
        double8 sum{};
        for (int j = 0; j < D; ++j) sum += (x[j] - c[j]) * (x[j] - c[j]);
        return sum;
    }
};

// Rows of up to four features: the distance itself is cheaper than a bound. Calls f with the number of features as a
// compile-time constant; returns false without a call for other rows.
template <class Rows, class F>
bool if_few_features(const Rows& rows, F&& f) {
    if constexpr (Rows::sparse || std::is_same_v<Rows, SmallRows>)
        return false;
    else
        return with_features(rows.d, [&](auto d) {
            if constexpr (d() > 0) f(d);
            return d() > 0;
        });
}

template <int D, class T>
void lower_costs_few_features(const Dense<T>& rows, const Centers& fresh, label_t first, const Potential& p,
                              index_t from, index_t stop) {
    for (index_t j = 0; j < fresh.k; ++j) {
        const label_t name = first + static_cast<label_t>(j);
        index_t i = from;
        for (; i + 8 <= stop; i += 8) {
            const double8 fresh_cost = EightRows<D>(rows.row(i)).dist2(fresh.row(j));
            auto cost = read<double8>(p.cost + i);
            auto label = read<label8>(p.nearest + i);
            const auto less = fresh_cost < cost;
            cost = less ? fresh_cost : cost;
            label = __builtin_convertvector(less, label8) ? name - label8{} : label;
            write(p.cost + i, cost);
            write(p.nearest + i, label);
        }
        for (; i < stop; ++i) {
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = name;
        }
    }
}

// Computes the distances of every new centre to the rows of [from, stop) that it may improve.
template <class Rows>
void lower_costs_exact(const Rows& rows, const Centers& fresh, label_t first, const double* limit, const Potential& p,
                       index_t from, index_t stop, Scratch& s) {
    if (if_few_features(rows, [&](auto d) { lower_costs_few_features<d()>(rows, fresh, first, p, from, stop); }))
        return;
    improvable_rows(p, limit, from, stop, s);
    for (index_t i : s.id)
        for (index_t j = 0; j < fresh.k; ++j) {
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + static_cast<label_t>(j);
        }
}

template <class Rows>
void lower_costs_filtered(const Rows& rows, const Centers& fresh, const PackedCenters& packed, label_t first,
                          const double* limit, const Potential& p, index_t from, index_t stop, Scratch& s) {
    improvable_rows(p, limit, from, stop, s);
    const Candidates all{nullptr, fresh.k};
    double before[TILE];
    int list[TILE];
    for_tiles(s.id, [&](const index_t* id, int count) {
        filter_tile(rows, id, count, packed, all, false, s.tile);
        gather(p.cost, id, count, before);
        cost_limits(s.tile, before, packed.scale, s.limit);
        const int m = rows_within(s.tile.best, s.limit, count, list);
        for (int l = 0; l < m; ++l) {
            const index_t i = id[list[l]];
            const label_t j = nearest_label(rows, i, list[l], packed, fresh, all, s);
            const double cost = dist2(rows, i, fresh, j);
            if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + j;
        }
    });
}

template <class Rows>
void lower_costs(const Rows& rows, const double* c, index_t m, label_t first, const double* limit, const Potential& p) {
    const auto fresh = exact_centers(rows, c, m);
    const bool direct = m <= 2;
    const PackedCenters packed = direct ? PackedCenters{} : pack_centers(rows, fresh);
    auto scratch = make_scratch(rows, m);
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        direct ? lower_costs_exact(rows, fresh, first, limit, p, from, stop, s)
               : lower_costs_filtered(rows, fresh, packed, first, limit, p, from, stop, s);
        update_sums(p, rows.n, from, stop);
    });
}

// Returns the row at which the running sum of weighted costs passes the goal. Pre: 0 <= goal < the sum of all.
inline index_t find_row(const Potential& p, index_t n, exact_t goal) {
    index_t tile = 0;
    while (goal >= p.sums[tile]) goal -= p.sums[tile++];
    return row_in_tile(p, n, tile, goal);
}

// Finds the row of a goal and lowers its cost to that at the nearest of the pending centres.
template <class Rows>
Proposal propose(const Rows& rows, const double* pending, index_t m, label_t first, const Potential& p, exact_t goal) {
    const auto fresh = exact_centers(rows, pending, m);
    const index_t i = find_row(p, rows.n, goal);
    const double bound = p.cost[i];
    for (index_t j = 0; j < m; ++j) {
        const double cost = dist2(rows, i, fresh, j);
        if (cost < p.cost[i]) p.cost[i] = cost, p.nearest[i] = first + static_cast<label_t>(j);
    }
    if (p.cost[i] < bound) update_sum(p, rows.n, i / DRAW);
    return {i, bound, p.cost[i]};
}

}  // namespace kv::KV_ISA
