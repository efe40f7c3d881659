// What both forms of the filter share: bringing coordinates into its frame, and judging its doubts.
#pragma once

#include "scan.hpp"
#include "vector.hpp"

namespace kv::KV_ISA {

inline vf shifted(const float* x, const double* offset, float scale, double) {
    vd b;
    std::memcpy(&b, offset, sizeof b);
    return (load(x) - __builtin_convertvector(b, vf)) * scale;
}
inline vf shifted(const double* x, const double* offset, float, double scale) {
    vd a, b;
    std::memcpy(&a, x, sizeof a);
    std::memcpy(&b, offset, sizeof b);
    return __builtin_convertvector((a - b) * scale, vf);
}
inline float shifted1(float x, double offset, double scale) {
    return (x - static_cast<float>(offset)) * static_cast<float>(scale);
}
inline float shifted1(double x, double offset, double scale) {
    return static_cast<float>((x - offset) * scale);
}

inline void judge(Tile& tile) {
    vi doubts{};
    for (int g = 0; g < TILE; g += W) {
        const vi clear = (load(tile.second + g) - load(tile.best + g) > 2 * load(tile.slack + g)) &
                         (load(tile.norm2 + g) < splat(1e30f));
        const vi doubt = ~clear;
        std::memcpy(tile.doubt + g, &doubt, sizeof doubt);
        doubts |= doubt;
    }
    tile.doubts = 0;
    for (int l = 0; l < W; ++l) tile.doubts |= doubts[l];
}

}  // namespace kv::KV_ISA
