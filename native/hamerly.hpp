// Hamerly's assignment: one lower bound per row, on the distance to all centres but its own. Rows that it leaves open
// are compared with the centres in a ball around their own (Newling and Fleuret).
#pragma once

#include <optional>

#include "assign.hpp"

namespace kv::KV_ISA {

// Lists the rows of one block whose bounds do not prove their label.
template <class Rows>
void open_rows(const Rows& rows, index_t from, index_t stop, const Centers& centers, const CenterDistances& between,
               const LargestMoves& movement, const label_t* labels, float* __restrict upper, float* __restrict lower,
               bool tighten, Scratch& s) {
    const float* moved = movement.moved;
    s.id.resize(BLOCK);
    std::int32_t open[BLOCK], apart = 0;  // not yet a list, so that this loop vectorizes
    for (index_t i = from; i < stop; ++i) {
        const label_t a = labels[i];
        const float u = increased(upper[i], moved[a]),
                    l = decreased(lower[i], a == movement.largest_index ? movement.next : movement.largest);
        const float half = between.half[a];
        upper[i] = u, lower[i] = l;
        open[i - from] = !(u < l) & !(u < half);
        apart += !(u < l) & (u < half);
    }
    index_t m = 0;
    for (index_t i = from; i < stop; ++i) {
        s.id[m] = i;
        m += open[i - from];
    }
    if (tighten) {
        s.total.exact += m;
        index_t kept = 0;
        for (index_t p = 0; p < m; ++p) {
            const index_t i = s.id[p];
            const label_t a = labels[i];
            upper[i] = round_up(std::sqrt(dist2(rows, i, centers, a)));
            s.id[kept] = i;
            kept += !(upper[i] < std::max(lower[i], between.half[a]));
            apart += !(upper[i] < lower[i]) & (upper[i] < between.half[a]);
        }
        m = kept;
    }
    s.total.spared += apart * centers.k;
    s.id.resize(m);
}

// Sorts the open rows by label: the rows of a tile then have candidates in common.
inline void sort_by_label(const label_t* labels, index_t k, Scratch& s) {
    s.bucket.assign(k + 1, 0);
    for (index_t i : s.id) ++s.bucket[labels[i] + 1];
    for (index_t j = 0; j < k; ++j) s.bucket[j + 1] += s.bucket[j];
    s.sorted.resize(s.id.size());
    for (index_t i : s.id) s.sorted[s.bucket[labels[i]]++] = i;
    s.id.swap(s.sorted);
}

// Returns the centres that can be nearest or second nearest to a row of the tile. They are within 2u + s of its own
// centre, where s is the distance from that centre to the nearest other. limit[r] is a lower bound for all the others.
inline Candidates ball_candidates(const index_t* id, int count, index_t k, const CenterDistances& between,
                                  const label_t* labels, const float* upper, Scratch& s) {
    s.mark.assign(k, 0);
    for (int r = 0; r < count;) {
        const label_t a = labels[id[r]];
        int end = r;
        float reach = 0;
        for (; end < count && labels[id[end]] == a; ++end) reach = std::max(reach, upper[id[end]]);
        reach = round_up(2 * (reach + between.half[a]));
        const float* row = between.distance.data() + a * k;
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

// Below so many multiply-adds per row, choosing candidates costs more than it saves.
constexpr index_t MIN_BALL_WORK = 4096;

// `apart`: whether to use distances between centres.
template <class Rows>
AssignResult assign_hamerly(const Rows& rows, const double* c, index_t k, const float* moved, label_t* labels,
                            float* upper, float* lower, bool tighten, bool apart, Changes* changes) {
    auto scratch = make_scratch(rows, k);
    const index_t task_rows = rows_of_task(rows.n, scratch.size());
    start_changes(changes, rows.n, task_rows);
    const auto centers = exact_centers(rows, c, k);
    const PackedCenters packed = pack_centers(rows, centers);
    CenterDistances between;
    if (moved && apart)
        between = center_distances(rows, c, k, packed, k * rows.d >= MIN_BALL_WORK);
    else
        between.half.assign(k, 0);
    std::optional<LargestMoves> movement;
    if (moved) movement.emplace(moved, k);
    const OpenRows undecided(rows, centers, packed, labels);
    parallel_rows(rows.n, task_rows, scratch, [&](index_t from, index_t stop, Scratch& s) {
        s.start_rows(changes, from, stop);
        if (moved) {
            open_rows(rows, from, stop, centers, between, *movement, labels, upper, lower, tighten, s);
            if (between) sort_by_label(labels, k, s);
        } else {
            s.id.resize(stop - from);
            for (index_t i = from; i < stop; ++i) s.id[i - from] = i;
        }
        for_tiles(s.id, [&](const index_t* id, int count) {
            std::fill(s.limit, s.limit + TILE, INFINITE);
            Candidates among{nullptr, k};
            if (between) {
                among = ball_candidates(id, count, k, between, labels, upper, s);
                s.total.chosen += count, s.total.spared += count * (k - among.count);
            }
            filter_tile(rows, id, count, packed, among, false, s.tile);
            float most[TILE], least[TILE];
            const RowBounds bounds(s.tile, packed);
            for (int r = 0; r < TILE; ++r) {
                most[r] = bounds.upper(r, s.tile.best[r]);
                least[r] = bounds.lower(r, second_value(s.tile, r));
            }
            for (int r = 0; r < count; ++r) {
                const index_t i = id[r];
                s.tile.uncertain[r] ? undecided.add(i, s) : relabel(labels, i, s.tile.arg[r], s);
                upper[i] = most[r];
                lower[i] = std::min(least[r], s.limit[r]);
            }
            s.total.scanned += count, s.total.pairs += count * among.count;
        });
    });
    undecided.finish(scratch);
    finish_changes(changes);
    return total(scratch);
}

}  // namespace kv::KV_ISA
