// The nearest and the second nearest centre of every row, and both squared distances, exactly.
//
// The filter's values say which centres can be among the two: those within twice its error of the
// second smallest. Mostly that leaves two to measure, and both distances are asked for anyway.
#pragma once

#include "assign.hpp"

namespace kv::KV_ISA {

struct Two {
    Nearest first, second;
    void meet(label_t j, double c) {
        if (first.arg < 0 || c < first.cost || (c == first.cost && j < first.arg))
            second = first, first = {j, c};
        else
            second.meet(j, c);
    }
};

template <class Rows>
void two_nearest(const Rows& rows, const double* c, index_t k, const TwoNearest& out) {
    const auto centres = exact_centres(rows, c, k);
    const Pack pack = make_pack(rows, c, k);
    const Candidates all{nullptr, k};
    auto scratch = scratches(rows, k);
    parallel(blocks_of(rows.n), scratch, [&](index_t block, Scratch& s) {
        const index_t stop = std::min(rows.n, (block + 1) * BLOCK);
        for (index_t at = block * BLOCK; at < stop; at += TILE) {
            index_t id[TILE];
            int list[TILE];
            Two two[TILE];
            const int count = static_cast<int>(std::min<index_t>(TILE, stop - at));
            for (int r = 0; r < count; ++r) id[r] = at + r;
            scan(rows, id, count, pack, all, true, s.tile);
            for (int r = 0; r < count; ++r)
                s.limit[r] = s.tile.finite(r) ? s.tile.second[r] + 2 * s.tile.slack[r]
                                              : std::numeric_limits<float>::infinity();
            for (index_t j = 0; j < k; ++j) {
                const int m = within(s.tile.values.data() + j * TILE, s.limit, count, list);
                for (int l = 0; l < m; ++l)
                    two[list[l]].meet(static_cast<label_t>(j), dist2(rows, at + list[l], centres, j));
            }
            for (int r = 0; r < count; ++r) {
                const Two& t = two[r];
                out.labels[at + r] = t.first.arg, out.cost[at + r] = t.first.cost;
                out.second[at + r] = k > 1 ? t.second.arg : t.first.arg, out.second_cost[at + r] = t.second.cost;
            }
        }
    });
}

}  // namespace kv::KV_ISA
