// The filter: for a tile of up to 64 rows, the nearest and second nearest of a list of centres,
// in float32, with a proven bound on its own error.
//
// Rows and centres are shifted by a common offset (the centres' mean) and scaled by a power of two
// so that the farthest centre has a norm in [1/2, 1]. Then
//     v(x, c) = ||c||^2 / 2 - x.c        and        ||x - c||^2 = 2 v + ||x||^2,
// and |computed v - v| <= slack(x) = eps * (||x|| R + R^2), with R the largest centre norm.
// A row whose two best values are closer than 2 slack is settled by exact arithmetic.
#pragma once

#include <cmath>

#include "common.hpp"

namespace kv {

struct Pack {
    index_t k = 0, d = 0;
    Buffer<float> centre;        // dense rows: k x d; sparse rows: d x width, transposed
    Buffer<float> half;          // ||c||^2 / 2
    std::vector<double> offset;  // d (zero for sparse rows)
    double scale = 1;            // a power of two
    double radius = 0;           // R, rounded up
    index_t width = 0;           // sparse: k rounded up to whole vectors
};

constexpr double UNIT = 5.9604644775390625e-8;  // float32 unit roundoff

struct Tile {
    int rows = 0;
    Buffer<float> x;             // dense: d x TILE, coordinate-major
    Buffer<float> values;        // k x TILE, when kept
    alignas(64) float best[TILE], second[TILE], norm2[TILE];
    alignas(64) float slack[TILE];  // absolute error of a value
    alignas(64) label_t arg[TILE];
    alignas(64) std::int32_t doubt[TILE];  // nonzero: the two best are too close to tell
    int doubts = 0;                        // nonzero: some row is
    double norm_error = 0;                 // relative error of norm2
    bool has_values = false;     // values[] holds every candidate's

    // Bounds on the true distance, from a value; `pack` undoes the scale.
    double upper(int r, double v, const Pack& pack) const {
        const double n2 = norm2[r];
        const double sq = 2 * (v + static_cast<double>(slack[r])) + n2 + norm_error * n2;
        return std::sqrt(sq > 0 ? sq : 0) / pack.scale;
    }
    double lower(int r, double v, const Pack& pack) const {
        const double n2 = norm2[r];
        const double sq = 2 * (v - static_cast<double>(slack[r])) + n2 - norm_error * n2;
        return std::sqrt(sq > 0 ? sq : 0) / pack.scale;
    }
    // True when the float32 arithmetic of this row stayed in range.
    bool finite(int r) const { return norm2[r] < 1e30f; }
};

// Which centres a scan looks at: all, or those listed.
struct Candidates {
    const label_t* list = nullptr;
    index_t count = 0;
    label_t at(index_t j) const { return list ? list[j] : static_cast<label_t>(j); }
};

}  // namespace kv
