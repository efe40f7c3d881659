// The filter: finds the nearest and the second nearest of a list of centres for a tile of up to 64 rows, in float32,
// with a proven bound on its own error.
//
// Rows and centres are shifted by a common offset (a median of the centres) and scaled by a power of two. Write x, c
// for shifted and scaled vectors. Then
//     v(x, c) = ||c||^2 / 2 - x.c        and        ||x - c||^2 = 2 v + ||x||^2.
//
// Error. Shifting, scaling and rounding change a coordinate by at most two units; a sum of n products in a chain of
// float32 operations, fused or not, adds n units. With eps = (n + 10) units, for the n of the longest chain, and
// 2 ||x|| ||c|| <= ||x||^2 + ||c||^2:
//     |computed v - v| <= eps (||x|| ||c|| + ||c||^2 / 2) <= eps ||x||^2 / 2 + eps ||c||^2.
// The first term belongs to the row, the second to the centre. So a far centre widens no bound but its own, at no cost:
// the second term is subtracted from ||c||^2 / 2 in advance. What the filter stores for a pair, its value, satisfies
//     value - X  <=  v  <=  value + X + 2 E,        X = eps ||x||^2 / 2,  E = eps ||c||^2.
// If the centre a has the smallest value, it is the nearest unless another value is within 2 (X + E_a) of it; then
// float64 arithmetic decides. That sum X + E_a is the row's `slack`.
//
// Reference. Labels are defined by float64 distances, which have rounding errors too: at most
// (d + 16) 2^-53 (||x||^2 + ||c||^2) in units of v. X and E are enlarged by a thousandth, which is more than that for
// up to 2^20 features.
//
// Range. The farthest centre has a norm of about 2^30, and rows with ||x|| >= 1e15 are left to float64: no product
// overflows. What underflows, here or in the reference (there at s^2 2^-1074, for a scale s), changes v by at most
// TINY = (d + 16) (2^-140 + s^2 2^-1074), which is added to E.
#pragma once

#include <cmath>

#include "common.hpp"

namespace kv {

// Centres as the filter reads them. Real is float; double in filter_double.cpp.
template <class Real>
struct Packed {
    index_t k = 0, d = 0;
    Unset<Real> center;          // dense rows: k x d; sparse rows: panels, see for_panels
    Buffer<Real> half;           // ||c||^2 / 2, for dense rows minus E
    Buffer<Real> radius2;        // E / eps: ||c||^2 and TINY / eps, rounded up
    std::vector<double> offset;  // d; zero for sparse rows
    double largest = 0;          // the largest norm of a shifted centre; dense rows only
    double scale = 1;            // a power of two
    double eps = 0;              // dense rows; sparse rows have their own each
    double lost = 0;             // TINY / eps, for the least eps
    index_t width = 0;           // sparse: k rounded up to a multiple of 4
};
using PackedCenters = Packed<float>;
using PackedDoubles = Packed<double>;

constexpr double UNIT = 5.9604644775390625e-8;  // float32 unit roundoff
constexpr double ENLARGED = 1.001;              // covers the rounding of X and E, and of the reference

// Divides the centres for sparse rows into panels and calls visit(first centre, vectors, lanes of a vector) for each.
// `widest` is a register of the machine; what is left of the centres after whole registers is in narrower vectors,
// which saves memory. A panel holds all features, and for each the centres side by side; a panel begins at d * its
// first centre.
template <class Visit>
inline void for_panels(index_t width, index_t widest, Visit&& visit) {
    for (index_t at = 0; at < width;) {
        const index_t rest = width - at, lanes = std::min<index_t>(widest, rest >= 16 ? 16 : rest >= 8 ? 8 : 4);
        const index_t vectors = lanes == widest ? std::min<index_t>(4, rest / lanes) : 1;
        visit(at, vectors, lanes);
        at += vectors * lanes;
    }
}

struct Tile {
    int rows = 0;
    Buffer<float> x;       // dense rows: d x TILE, one feature of all rows after the other
    Buffer<float> values;  // k x TILE, if they were kept
    Buffer<float> wide;    // TILE x d: rows of a small type as float32
    alignas(64) float best[TILE], second[TILE], norm2[TILE];
    alignas(64) float eps[TILE];
    alignas(64) float slack[TILE];  // at least X + E of the centre with the smallest value
    alignas(64) label_t arg[TILE];
    alignas(64) std::int32_t uncertain[TILE];  // nonzero: the two smallest values are too close
    int any_uncertain = 0;                     // nonzero: some row is uncertain
    double norm_error = 0;                     // bound on the relative error of norm2
    bool has_values = false;                   // values[] holds those of all candidates

    // False if the float32 arithmetic of this row may have overflowed.
    bool finite(int r) const { return norm2[r] < 1e30f; }
};

// A tile in float64, always against all centres. A centre can be the nearest only if its value is at most the limit.
struct DoubleTile {
    Buffer<double> x, values;
    Buffer<float> wide;  // as in Tile
    alignas(64) double limit[TILE];
};

// The centres that a row is compared with: all of them, or those listed.
struct Candidates {
    const label_t* list = nullptr;
    index_t count = 0;
    label_t at(index_t j) const { return list ? list[j] : static_cast<label_t>(j); }
};

}  // namespace kv
