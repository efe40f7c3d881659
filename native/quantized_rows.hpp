// A filter for greedy seeding (row_filter.hpp): a copy of dense rows with one byte per value. Each feature has a step
// of its own, and candidates stay float32, so columns may differ in scale. Where processors multiply bytes fast, rows
// of many features have another filter (byte_tiles.hpp).
//
// After a shift by `offset` and scaling by a power of two, x = s(x) + e(x), where s(x) = step * q and ||e|| <= error.
// A candidate c can improve a row of cost D^2 only if ||s - c|| < D + error, that is, if
//     ||c||^2 / 2 - s.c  <  threshold = ((D + error)^2 - ||s||^2) / 2.
// The float32 error of the left side, at most eps (||s|| ||c|| + ||c||^2), is subtracted from it.
#pragma once

#include <cmath>

#include "row_filter.hpp"

namespace kv {

struct QuantizedRows : RowFilter {
    Buffer<std::int8_t> q;             // tiles x d x TILE
    std::vector<double> offset, step;  // d
    double scale = 1, radius = 0;      // radius: the largest ||s||, rounded up
    Buffer<float> norm2, error;        // tiles x TILE: ||s||^2 rounded down, ||e|| rounded up
    Buffer<float> threshold;           // tiles x 4 x TILE / 4: rows 0, 4, 8, ... of a tile, then 1, 5, 9, ...

    void set_cost(index_t i, double cost) override {
        const double far = std::sqrt(cost) * scale + static_cast<double>(error[i]);
        const double value = (far * far - static_cast<double>(norm2[i])) / 2;
        const index_t r = i % TILE;
        threshold[i - r + r % 4 * (TILE / 4) + r / 4] = static_cast<float>(value + std::abs(value) * 1e-6 + 1e-30);
    }
};

// Candidates, shifted and scaled like the rows.
struct Queries : FilterQueries {
    Buffer<float> a;     // d x m: step * c
    Buffer<float> half;  // m: ||c||^2 / 2, less the float32 error
};

}  // namespace kv
