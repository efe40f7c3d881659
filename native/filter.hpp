// The filter: finds the nearest and the second nearest of a list of centres for a tile of up to 64 rows, in float32,
// with a proven bound on its own error.
//
// Rows and centres are shifted by a common offset (the mean of the centres) and scaled by a power of two so that the
// farthest centre has a norm in [1/2, 1]. Then
//     v(x, c) = ||c||^2 / 2 - x.c        and        ||x - c||^2 = 2 v + ||x||^2,
// and |computed v - v| <= slack(x) = eps * (||x|| R + R^2), where R is the largest norm of a centre.
// If the two smallest values of a row differ by less than 2 slack, exact arithmetic decides.
#pragma once

#include <cmath>

#include "common.hpp"

namespace kv {

struct PackedCenters {
    index_t k = 0, d = 0;
    Buffer<float> center;        // dense rows: k x d; sparse rows: d x width, transposed
    Buffer<float> half;          // ||c||^2 / 2
    std::vector<double> offset;  // d; zero for sparse rows
    double scale = 1;            // a power of two
    double radius = 0;           // R, rounded up
    index_t width = 0;           // sparse: k rounded up to whole vectors
};

constexpr double UNIT = 5.9604644775390625e-8;  // float32 unit roundoff

struct Tile {
    int rows = 0;
    Buffer<float> x;       // dense rows: d x TILE, one feature of all rows after the other
    Buffer<float> values;  // k x TILE, if they were kept
    alignas(64) float best[TILE], second[TILE], norm2[TILE];
    alignas(64) float slack[TILE];  // bound on the absolute error of a value
    alignas(64) label_t arg[TILE];
    alignas(64) std::int32_t uncertain[TILE];  // nonzero: the two smallest values are too close
    int any_uncertain = 0;                     // nonzero: some row is uncertain
    double norm_error = 0;                     // bound on the relative error of norm2
    bool has_values = false;                   // values[] holds those of all candidates

    // Bounds on the true distance of row r to the centre with value v.
    double upper(int r, double v, const PackedCenters& packed) const {
        const double n2 = norm2[r];
        const double sq = 2 * (v + static_cast<double>(slack[r])) + n2 + norm_error * n2;
        return std::sqrt(sq > 0 ? sq : 0) / packed.scale;
    }
    double lower(int r, double v, const PackedCenters& packed) const {
        const double n2 = norm2[r];
        const double sq = 2 * (v - static_cast<double>(slack[r])) + n2 - norm_error * n2;
        return std::sqrt(sq > 0 ? sq : 0) / packed.scale;
    }
    // False if the float32 arithmetic of this row may have overflowed.
    bool finite(int r) const { return norm2[r] < 1e30f; }
};

// The centres that a row is compared with: all of them, or those listed.
struct Candidates {
    const label_t* list = nullptr;
    index_t count = 0;
    label_t at(index_t j) const { return list ? list[j] : static_cast<label_t>(j); }
};

}  // namespace kv
