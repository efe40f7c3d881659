// A shadow of dense rows: one byte a coordinate, 64 rows side by side, kept while greedy
// seeding passes over the same rows again and again. It is read instead of the rows, needs no
// packing, and rules out nearly all pairs of row and candidate; the few left are measured exactly.
//
// In a frame shifted by `offset` and scaled by a power of two, x = s(x) + e(x) with s(x) = step * q
// and ||e|| <= blur. A candidate c can only improve a row with cost D^2 if ||s - c|| < D + blur, i.e.
//     ||c||^2 / 2 - s.c  <  reach = ((D + blur)^2 - ||s||^2) / 2,
// and the float32 error of the left side, at most eps (||s|| ||c|| + ||c||^2), is taken off it.
#pragma once

#include <cmath>

#include "common.hpp"

namespace kv {

struct Shadow {
    index_t d = 0, tiles = 0;
    Buffer<std::int8_t> q;             // tiles x d x TILE
    std::vector<double> offset, step;  // d
    double scale = 1, radius = 0;      // radius: the largest ||s||, rounded up
    Buffer<float> norm2, blur;         // tiles x TILE: ||s||^2 rounded down, ||e|| rounded up
    Buffer<float> reach;               // tiles x 4 x TILE / 4: of rows 0, 4, 8.. of a tile, of 1, 5, 9..

    // A lower cost makes a smaller reach; a stale one is merely too large.
    void lower(index_t i, double cost) {
        const double far = std::sqrt(cost) * scale + static_cast<double>(blur[i]);
        const double value = (far * far - static_cast<double>(norm2[i])) / 2;
        const index_t r = i % TILE;
        reach[i - r + r % 4 * (TILE / 4) + r / 4] = static_cast<float>(value + std::abs(value) * 1e-6 + 1e-30);
    }
};

// Candidates in a shadow's frame: coordinate-major, `half` already lowered by the error.
struct Beams {
    index_t m = 0;
    Buffer<float> a;     // d x m: step * c
    Buffer<float> half;  // m
};

}  // namespace kv
