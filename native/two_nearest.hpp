// Finds the nearest and the second nearest centre of every row and both squared distances, exactly. Only centres whose
// filter value is at most the second smallest upper bound are computed; mostly there are just two.
#pragma once

#include "assign.hpp"

namespace kv::KV_ISA {

// Computes, for every row of a tile whose values were kept, a value that the two nearest do not exceed.
inline void second_upper_bounds(const PackedCenters& packed, const Tile& tile, float* limit) {
    for (int g = 0; g < TILE; g += W) {
        TwoSmallest<vf, vi> most{splat(INFINITE), splat(INFINITE), vi{}, vi{}};
        for (index_t j = 0; j < packed.k; ++j)
            most.offer(most_value(load(tile.values.data() + j * TILE + g), load(tile.eps + g), packed.radius2[j]), 0);
        store(limit + g, most.second);
    }
    for (int r = 0; r < TILE; ++r) limit[r] = tile.finite(r) ? limit[r] + 2 * tile.slack[r] * (1 + ROUNDING) : INFINITE;
}

// Inlined into the parallel loop it would be slower.
template <class Rows>
[[gnu::noinline]] void two_nearest_tile(const Rows& rows, const index_t* id, int count, const Centers& centers,
                                        const PackedCenters& packed, const TwoNearest<double>& out, Scratch& s) {
    const index_t at = id[0], k = centers.k;
    int list[TILE];
    TwoNearestOf<double> two[TILE];
    std::fill(two, two + TILE, no_two_nearest<double>(k));
    filter_tile(rows, id, count, packed, Candidates{nullptr, k}, true, s.tile);
    second_upper_bounds(packed, s.tile, s.limit);
    for (index_t j = 0; j < k; ++j) {
        const int m = rows_within(s.tile.values.data() + j * TILE, s.limit, count, list);
        for (int l = 0; l < m; ++l) two[list[l]].offer(dist2(rows, at + list[l], centers, j), static_cast<label_t>(j));
    }
    for (int r = 0; r < count; ++r) set_two_nearest(two[r], k, at + r, out);
}

template <class Rows>
void two_nearest(const Rows& rows, const double* c, index_t k, const TwoNearest<double>& out) {
    const auto centers = exact_centers(rows, c, k);
    const PackedCenters packed = pack_centers(rows, centers);
    auto scratch = make_scratch(rows, k);
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        for_tiles(from, stop,
                  [&](const index_t* id, int count) { two_nearest_tile(rows, id, count, centers, packed, out, s); });
    });
}

}  // namespace kv::KV_ISA
