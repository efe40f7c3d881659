// Finds the nearest and the second nearest centre of every row and both squared distances, exactly. Only centres whose
// filter value is at most the second smallest upper bound are computed; mostly there are just two.
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

// Computes, for every row of a tile whose values were kept, a value that the two nearest do not exceed.
inline void second_upper_bounds(const PackedCenters& packed, const Tile& tile, float* limit) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    float first[TILE];
    std::fill(first, first + TILE, infinity);
    std::fill(limit, limit + TILE, infinity);
    for (index_t j = 0; j < packed.k; ++j) {
        const float* v = tile.values.data() + j * TILE;
        const float twice = 2.001f * packed.radius2[j];
        for (int r = 0; r < TILE; ++r) {
            const float bound = v[r] + tile.eps[r] * twice, larger = bound > first[r] ? bound : first[r];
            limit[r] = larger < limit[r] ? larger : limit[r];
            first[r] = bound < first[r] ? bound : first[r];
        }
    }
    for (int r = 0; r < TILE; ++r) limit[r] = tile.finite(r) ? limit[r] + 2 * tile.slack[r] : infinity;
}

// Inlined into the parallel loop it would be slower.
template <class Rows>
[[gnu::noinline]] void two_nearest_tile(const Rows& rows, const index_t* id, int count, const Centers& centers,
                                        const PackedCenters& packed, const TwoNearest<double>& out, Scratch& s) {
    const index_t at = id[0], k = centers.k;
    int list[TILE];
    BestTwo two[TILE];
    filter_tile(rows, id, count, packed, Candidates{nullptr, k}, true, s.tile);
    second_upper_bounds(packed, s.tile, s.limit);
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
    const PackedCenters packed = pack_centers(rows, centers);
    auto scratch = make_scratch(rows, k);
    parallel_rows(rows.n, scratch, [&](index_t from, index_t stop, Scratch& s) {
        for_tiles(from, stop,
                  [&](const index_t* id, int count) { two_nearest_tile(rows, id, count, centers, packed, out, s); });
    });
}

}  // namespace kv::KV_ISA
