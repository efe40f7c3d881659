// A copy of dense rows with one byte per value, for greedy seeding, which passes over the same rows many times. A pass
// reads it instead of the rows and excludes nearly all pairs of row and candidate; the others are computed exactly.
//
// After a shift by `offset` and scaling by a power of two, x = s(x) + e(x), where s(x) = step * q and ||e|| <= error.
// A candidate c can improve a row of cost D^2 only if ||s - c|| < D + error, that is, if
//     ||c||^2 / 2 - s.c  <  threshold = ((D + error)^2 - ||s||^2) / 2.
// The float32 error of the left side, at most eps (||s|| ||c|| + ||c||^2), is subtracted from it.
#pragma once

#include <cmath>

#include "common.hpp"

namespace kv {

struct QuantizedRows {
    index_t d = 0, tiles = 0;
    Buffer<std::int8_t> q;             // tiles x d x TILE
    std::vector<double> offset, step;  // d
    double scale = 1, radius = 0;      // radius: the largest ||s||, rounded up
    Buffer<float> norm2, error;        // tiles x TILE: ||s||^2 rounded down, ||e|| rounded up
    Buffer<float> threshold;           // tiles x 4 x TILE / 4: rows 0, 4, 8, ... of a tile, then 1, 5, 9, ...

    // Adapts the threshold of row i to its cost. An old threshold is only too large, never wrong.
    void set_cost(index_t i, double cost) {
        const double far = std::sqrt(cost) * scale + static_cast<double>(error[i]);
        const double value = (far * far - static_cast<double>(norm2[i])) / 2;
        const index_t r = i % TILE;
        threshold[i - r + r % 4 * (TILE / 4) + r / 4] = static_cast<float>(value + std::abs(value) * 1e-6 + 1e-30);
    }
};

// Candidates, shifted and scaled like the rows.
struct Queries {
    index_t m = 0;
    Buffer<float> a;     // d x m: step * c
    Buffer<float> half;  // m: ||c||^2 / 2, less the float32 error
};

}  // namespace kv
