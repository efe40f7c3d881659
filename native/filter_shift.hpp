// Shared by both filters: shifting and scaling of values, and marking of rows that the filter cannot decide.
#pragma once

#include "filter.hpp"
#include "simd.hpp"

namespace kv::KV_ISA {

inline vf shifted(const float* x, const double* offset, float scale, double) {
    return (load(x) - __builtin_convertvector(read<vd>(offset), vf)) * scale;
}
inline vf shifted(const double* x, const double* offset, float, double scale) {
    return __builtin_convertvector((read<vd>(x) - read<vd>(offset)) * scale, vf);
}
inline float shifted_one(float x, double offset, double scale) {
    return (x - static_cast<float>(offset)) * static_cast<float>(scale);
}
inline float shifted_one(double x, double offset, double scale) { return static_cast<float>((x - offset) * scale); }

inline void compare_two_smallest(Tile& tile) {
    vi any_uncertain{};
    for (int g = 0; g < TILE; g += W) {
        const vi clear = (load(tile.second + g) - load(tile.best + g) > 2 * load(tile.slack + g)) &
                         (load(tile.norm2 + g) < splat(1e30f));
        const vi uncertain = ~clear;
        write(tile.uncertain + g, uncertain);
        any_uncertain |= uncertain;
    }
    tile.any_uncertain = 0;
    for (int l = 0; l < W; ++l) tile.any_uncertain |= any_uncertain[l];
}

// Completes the slack, which held X so far, and marks the rows that the filter cannot decide. To look up E of every
// row's nearest centre takes time, and a bound mostly suffices: ||c|| <= ||x|| + ||x - c|| gives
// ||c||^2 <= 4 ||x||^2 + 4 v.
inline void mark_uncertain(const PackedCenters& packed, Tile& tile) {
    alignas(64) float row_part[TILE];
    const vf lost = splat(static_cast<float>(packed.lost));
    for (int g = 0; g < TILE; g += W) {
        const vf part = load(tile.slack + g), value = load(tile.best + g);
        const vf most = load(tile.norm2 + g) + (value > 0 ? value : vf{});
        store(row_part + g, part);
        store(tile.slack + g, part + (most * 4.05f + lost) * load(tile.eps + g));
    }
    compare_two_smallest(tile);
    if (!tile.any_uncertain) return;
    for (int r = 0; r < tile.rows; ++r) tile.slack[r] = row_part[r] + tile.eps[r] * packed.radius2[tile.arg[r]];
    compare_two_smallest(tile);
}

}  // namespace kv::KV_ISA
