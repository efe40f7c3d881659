// Elkan's assignment: a lower bound for every pair of row and centre. It is the best choice if distances are expensive
// (large d) and the n x k bounds take little memory beside the data.
//
// lower[i, j] stores (bound + drift[j]), where drift[j] is the total distance that centre j has moved. A bound that
// only decreases because its centre moved needs no write.
#pragma once

#include "assign.hpp"

namespace kv::KV_ISA {

inline void store_bound(float& slot, double bound, float drift) { slot = round_down(bound + drift); }

// Compares up to TILE rows with all centres and renews their bounds.
template <class Rows>
void elkan_full(const Rows& rows, const index_t* id, int count, const Centers& centers, const PackedCenters& packed,
                const OpenRows<Rows>& undecided, const float* drift, label_t* labels, float* upper, float* lower,
                Scratch& s) {
    const Candidates all{nullptr, centers.k};
    filter_tile(rows, id, count, packed, all, true, s.tile);
    const RowBounds bounds(s.tile, packed);
    for (int r = 0; r < count; ++r) {
        const index_t i = id[r];
        s.tile.uncertain[r] ? undecided.add(i, s) : relabel(labels, i, s.tile.arg[r], s);
        upper[i] = bounds.upper(r, s.tile.best[r]);
    }
    for (index_t j = 0; j < centers.k; ++j) {
        float* v = s.tile.values.data() + j * TILE;
        const float path = drift[j];
        for (int r = 0; r < TILE; ++r) v[r] = below(bounds.lower(r, v[r]) + path);
    }
    for (int r = 0; r < count; ++r) {
        float* bound = lower + id[r] * centers.k;
        for (index_t j = 0; j < centers.k; ++j) bound[j] = s.tile.values[j * TILE + r];
    }
    s.total.scanned += count, s.total.pairs += count * centers.k;
}

// Counts, or lists, the centres other than its own that may be as near to a row as u.
inline index_t count_open(const float* bound, const float* drift, float u, label_t own, index_t k) {
    label_t open = 0;
    for (index_t j = 0; j < k; ++j) open += !(bound[j] - drift[j] > u);  // inf - inf counts as open
    return open - !(bound[own] - drift[own] > u);
}
inline void list_open(const float* bound, const float* drift, float u, label_t own, index_t k, label_t* list) {
    index_t m = 0;
    for (index_t j = 0; j < k; ++j) {
        list[m] = static_cast<label_t>(j);
        m += !(bound[j] - drift[j] > u) & (j != own);
    }
}

// Compares one row with the few centres that its bounds leave open.
template <class Rows>
void elkan_few(const Rows& rows, index_t i, double own_cost, index_t count, const Centers& centers,
               const PackedCenters& packed, const float* drift, label_t* labels, float* upper, float* lower,
               Scratch& s) {
    const Candidates few{s.list.data(), count};
    filter_row(rows, i, packed, few, s.tile);
    Nearest best;
    best.offer(labels[i], own_cost);
    float* bound = lower + i * centers.k;
    store_bound(bound[labels[i]], std::sqrt(own_cost), drift[labels[i]]);
    const RowBounds bounds(s.tile, packed, 1);
    for (index_t p = 0; p < count; ++p) {
        const label_t j = few.at(p);
        double least = bounds.lower(0, s.tile.values[p]);
        if (least <= round_up(std::sqrt(best.cost))) {
            const double cost = dist2(rows, i, centers, j);
            least = std::sqrt(cost);
            ++s.total.exact;
            best.offer(j, cost);
        }
        store_bound(bound[j], least, drift[j]);
    }
    upper[i] = round_up(std::sqrt(best.cost));
    relabel(labels, i, best.arg, s);
    ++s.total.scanned, s.total.pairs += count * SINGLE;
}

template <class Rows>
AssignResult assign_elkan(const Rows& rows, const double* c, index_t k, const float* moved, float* drift,
                          label_t* labels, float* upper, float* lower, Changes* changes) {
    auto scratch = make_scratch(rows, k);
    const index_t task_rows = rows_of_task(rows.n, scratch.size());
    start_changes(changes, rows.n, task_rows);
    const auto centers = exact_centers(rows, c, k);
    const PackedCenters packed = pack_centers(rows, centers);
    const CenterDistances between = center_distances(rows, c, k, packed);
    if (moved)
        for (index_t j = 0; j < k; ++j) drift[j] = increased(drift[j], moved[j]);
    const OpenRows undecided(rows, centers, packed, labels);
    parallel_rows(rows.n, task_rows, scratch, [&](index_t from, index_t stop, Scratch& s) {
        s.start_rows(changes, from, stop);
        s.id.clear();
        s.list.resize(k + 1);
        const auto flush = [&] {
            if (!s.id.empty())
                elkan_full(rows, s.id.data(), static_cast<int>(s.id.size()), centers, packed, undecided, drift, labels,
                           upper, lower, s);
            s.id.clear();
        };
        for (index_t i = from; i < stop; ++i) {
            if (moved) {
                const label_t a = labels[i];
                const float* bound = lower + i * k;
                upper[i] = increased(upper[i], moved[a]);
                if (upper[i] < between.half[a]) continue;
                if (!count_open(bound, drift, upper[i], a, k)) continue;
                const double own = dist2(rows, i, centers, a);
                ++s.total.exact;
                upper[i] = round_up(std::sqrt(own));
                if (upper[i] < between.half[a]) continue;
                const index_t open = count_open(bound, drift, upper[i], a, k);
                if (open == 0) continue;
                if (open <= k / 3) {
                    list_open(bound, drift, upper[i], a, k, s.list.data());
                    elkan_few(rows, i, own, open, centers, packed, drift, labels, upper, lower, s);
                    continue;
                }
            }
            s.id.push_back(i);
            if (s.id.size() == TILE) flush();
        }
        flush();
    });
    undecided.finish(scratch);
    finish_changes(changes);
    return total(scratch);
}

}  // namespace kv::KV_ISA
