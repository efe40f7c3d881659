// Yinyang assignment (Ding et al. 2015): a lower bound per row for each of 16 groups of centres, so that a centre that
// moves far spoils only the bound of its own group. Rows whose bound leaves a group open are collected and compared
// with the centres of that group.
//
// lower[i][g] is a lower bound on the distance from row i to every centre of group g other than its own.
#pragma once

#include <utility>

#include "assign.hpp"

namespace kv::KV_ISA {

constexpr int GROUPS = 16;
constexpr index_t BLOCKS_PER_TASK = 2;  // so that the tiles of a group are full

using Members = std::vector<std::vector<label_t>>;  // centres of each group, ascending

inline Members members(const std::int32_t* group, index_t k) {
    Members out(GROUPS);
    for (index_t j = 0; j < k; ++j) out[group[j]].push_back(static_cast<label_t>(j));
    return out;
}

// A row whose nearest centre is not known yet, with the nearest so far and its exact cost.
struct OpenRow {
    index_t row;
    Nearest best;
    float upper;  // sqrt(best.cost), rounded up
};

struct YinyangScratch : Scratch {
    std::vector<OpenRow> rows;
    std::vector<std::int32_t> open[GROUPS];  // for each group, the first count[g] are places in `rows`
    index_t count[GROUPS];
    std::vector<label_t> grouped;  // all centres, group by group
};

// Compares up to TILE rows with all centres and renews their bounds.
template <class Rows>
void assign_all_groups(const Rows& rows, const index_t* id, int count, const Centers& centers,
                       const PackedCenters& packed, const Members& groups, label_t* labels, float* upper, float* lower,
                       YinyangScratch& s) {
    const Candidates all{s.grouped.data(), centers.k};
    filter_tile(rows, id, count, packed, all, true, s.tile);
    const RowBounds bounds(s.tile, packed);
    label_t own[TILE] = {};
    for (int r = 0; r < count; ++r) {
        own[r] = nearest_label(rows, id[r], r, packed, centers, all, s);
        relabel(labels, id[r], own[r], s);
        upper[id[r]] = bounds.upper(r, s.tile.best[r]);
    }
    const float* v = s.tile.values.data();
    for (int g = 0; g < GROUPS; ++g) {
        float least[TILE];
        std::fill(least, least + TILE, NO_VALUE);
        for (label_t j : groups[g]) {
            for (int r = 0; r < TILE; ++r) {
                const float value = own[r] == j ? NO_VALUE : v[r];
                least[r] = value < least[r] ? value : least[r];
            }
            v += TILE;
        }
        for (int r = 0; r < TILE; ++r) least[r] = bounds.lower(r, least[r]);
        for (int r = 0; r < count; ++r) lower[id[r] * GROUPS + g] = least[r];
    }
    s.total.scanned += count, s.total.pairs += count * centers.k;
}

using float16 = Vector<float, GROUPS>;

inline float smallest(float16 v) {
    return joined<GROUPS>(v, [](float16 a, float16 b) { return b < a ? b : a; });
}

// Weakens the bounds by the movement of the centres, and lists the rows whose label they no longer prove. Inlined into
// the parallel loop it would be slower.
[[gnu::noinline]] inline void decay_bounds(index_t from, index_t stop, const CenterDistances& between,
                                           const float* moved, const float16& drift, const label_t* labels,
                                           float* upper, float* lower, YinyangScratch& s) {
    s.id.resize(BLOCKS_PER_TASK * BLOCK);
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        const label_t a = labels[i];
        float16 v = read<float16>(lower + i * GROUPS) - drift;
        v -= (v < 0 ? -v : v) * ONE_ROUNDING;
        v = v > 0 ? v : float16{};
        write(lower + i * GROUPS, v);
        const float u = upper[i] = increased(upper[i], moved[a]);
        s.id[m] = i;
        m += !(u < std::max(smallest(v), between.half[a]));
    }
    s.id.resize(m);
}

// Tightens the upper bounds of those rows and lists, for each group, the rows that leave it open.
template <class Rows>
void list_open_rows(const Rows& rows, const Centers& centers, const CenterDistances& between, const label_t* labels,
                    float* upper, const float* lower, YinyangScratch& s) {
    s.total.exact += static_cast<index_t>(s.id.size());
    s.rows.clear();
    std::fill(s.count, s.count + GROUPS, 0);
    for (auto& list : s.open) list.resize(BLOCKS_PER_TASK * BLOCK + 1);
    for (index_t i : s.id) {
        const label_t a = labels[i];
        const double cost = dist2(rows, i, centers, a);
        const float u = upper[i] = round_up(std::sqrt(cost));
        if (u < between.half[a]) continue;
        const auto place = static_cast<std::int32_t>(s.rows.size());
        std::int32_t any = 0;
        for (int g = 0; g < GROUPS; ++g) {  // no branches, since they would be mispredicted
            const std::int32_t open = !(u < lower[i * GROUPS + g]);
            s.open[g][s.count[g]] = place;
            s.count[g] += open;
            any |= open;
        }
        if (any) s.rows.push_back({i, {a, cost}, u});
    }
}

// Compares the row's best centre with centre j, exactly. Calls lower_bound_to(farther, distance) for the farther of the
// two, whose group may have no larger bound.
template <class Rows, class LowerTo>
void try_center(const Rows& rows, OpenRow& row, label_t j, const Centers& centers, LowerTo&& lower_bound_to) {
    if (j == row.best.arg) return;
    Nearest farther{j, dist2(rows, row.row, centers, j)};
    const Nearest before = row.best;
    row.best.offer(j, farther.cost);
    if (row.best.arg == j) {
        farther = before;
        row.upper = round_up(std::sqrt(row.best.cost));
    }
    lower_bound_to(farther.arg, round_down(std::sqrt(farther.cost)));
}

// Compares up to TILE open rows with the centres of group g.
template <class Rows>
void search_group(const Rows& rows, const std::int32_t* place, int count, int g, const Centers& centers,
                  const PackedCenters& packed, const std::int32_t* group, const Members& groups, float* lower,
                  YinyangScratch& s) {
    index_t id[TILE];
    for (int r = 0; r < count; ++r) id[r] = s.rows[place[r]].row;
    const Candidates among{groups[g].data(), static_cast<index_t>(groups[g].size())};
    filter_tile(rows, id, count, packed, among, false, s.tile);
    float first[TILE], next[TILE];
    const RowBounds bounds(s.tile, packed);
    for (int r = 0; r < TILE; ++r)
        first[r] = bounds.lower(r, s.tile.best[r]), next[r] = bounds.lower(r, s.tile.second[r]);
    for (int r = 0; r < count; ++r) {
        OpenRow& row = s.rows[place[r]];
        float* bound = lower + id[r] * GROUPS;
        const bool own = s.tile.arg[r] == row.best.arg;
        const float others = own ? next[r] : first[r];  // a bound for all centres but its own
        bound[g] = others;
        if (others > row.upper) continue;
        const bool one = !own && next[r] > row.upper;
        bound[g] = one ? next[r] : std::numeric_limits<float>::max();
        s.total.exact += one ? 1 : among.count;
        const auto lower_to = [&](label_t j, float least) { bound[group[j]] = std::min(bound[group[j]], least); };
        if (one)
            try_center(rows, row, s.tile.arg[r], centers, lower_to);
        else
            for (label_t j : groups[g]) try_center(rows, row, j, centers, lower_to);
    }
    s.total.scanned += count, s.total.pairs += count * among.count;
}

template <class Rows>
AssignResult assign_yinyang(const Rows& rows, const double* c, index_t k, const std::int32_t* group, const float* moved,
                            label_t* labels, float* upper, float* lower, Changes* changes) {
    std::vector<YinyangScratch> scratch(threads_for(static_cast<double>(rows.n) * rows.d * k));
    const index_t task_rows = rows_of_task(rows.n, scratch.size(), BLOCKS_PER_TASK * BLOCK);
    start_changes(changes, rows.n, task_rows);
    const auto centers = exact_centers(rows, c, k);
    const PackedCenters packed = pack_centers(rows, centers);
    const CenterDistances between = center_distances(rows, c, k, packed);
    const Members groups = members(group, k);
    float16 drift{};
    for (index_t j = 0; moved && j < k; ++j) drift[group[j]] = std::max(drift[group[j]], moved[j]);
    parallel_rows(rows.n, task_rows, scratch, [&](index_t from, index_t stop, YinyangScratch& s) {
        s.start_rows(changes, from, stop);
        if (!moved) {
            s.grouped.clear();
            for (const auto& list : groups) s.grouped.insert(s.grouped.end(), list.begin(), list.end());
            return for_tiles(from, stop, [&](const index_t* id, int count) {
                assign_all_groups(rows, id, count, centers, packed, groups, labels, upper, lower, s);
            });
        }
        decay_bounds(from, stop, between, moved, drift, labels, upper, lower, s);
        list_open_rows(rows, centers, between, labels, upper, lower, s);
        for (int g = 0; g < GROUPS; ++g)
            for (index_t at = 0; at < s.count[g] && !groups[g].empty(); at += TILE)
                search_group(rows, s.open[g].data() + at, static_cast<int>(std::min<index_t>(TILE, s.count[g] - at)), g,
                             centers, packed, group, groups, lower, s);
        for (const OpenRow& row : s.rows) {
            upper[row.row] = row.upper;
            relabel(labels, row.row, row.best.arg, s);
        }
    });
    finish_changes(changes);
    return total(scratch);
}

}  // namespace kv::KV_ISA
