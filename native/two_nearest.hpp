// Finds the nearest and the second nearest centre of every row and both squared distances, exactly. Only centres whose
// filter value is within twice the filter's error of the second smallest are computed; mostly there are just two.
#pragma once

#include "assign.hpp"

namespace kv::KV_ISA {

struct BestTwo {
    Nearest first, second;
    void offer(label_t j, double c) {
        if (first.arg < 0 || c < first.cost || (c == first.cost && j < first.arg))
            second = first, first = {j, c};
        else
            second.offer(j, c);
    }
};

// Inlined into the parallel loop it would be slower.
template <class Rows>
[[gnu::noinline]] void two_nearest_tile(const Rows& rows, const index_t* id, int count, const Centers& centers,
                                        const PackedCenters& packed, const TwoNearest<double>& out, Scratch& s) {
    const index_t at = id[0], k = centers.k;
    int list[TILE];
    BestTwo two[TILE];
    filter_tile(rows, id, count, packed, Candidates{nullptr, k}, true, s.tile);
    for (int r = 0; r < count; ++r)
        s.limit[r] = s.tile.finite(r) ? s.tile.second[r] + 2 * s.tile.slack[r] : std::numeric_limits<float>::infinity();
    for (index_t j = 0; j < k; ++j) {
        const int m = rows_within(s.tile.values.data() + j * TILE, s.limit, count, list);
        for (int l = 0; l < m; ++l) two[list[l]].offer(static_cast<label_t>(j), dist2(rows, at + list[l], centers, j));
    }
    for (int r = 0; r < count; ++r) {
        const BestTwo& t = two[r];
        out.labels[at + r] = t.first.arg, out.cost[at + r] = t.first.cost;
        out.second[at + r] = k > 1 ? t.second.arg : t.first.arg, out.second_cost[at + r] = t.second.cost;
    }
}

template <class Rows>
void two_nearest(const Rows& rows, const double* c, index_t k, const TwoNearest<double>& out) {
    const auto centers = exact_centers(rows, c, k);
    const PackedCenters packed = pack_centers(rows, c, k);
    auto scratch = make_scratch(rows, k);
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        for_tiles(from, stop,
                  [&](const index_t* id, int count) { two_nearest_tile(rows, id, count, centers, packed, out, s); });
    });
}

}  // namespace kv::KV_ISA
