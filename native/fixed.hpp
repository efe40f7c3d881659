// What fixed.cpp offers, once per instruction set: rows in a ball on a grid, and their exact sums.
#pragma once

#include "common.hpp"

namespace kv {

enum class Norm : int { max = 0, l1 = 1, l2 = 2 };

// The points of step * Z^d in a ball around the origin. Pre: step is a power of two and the bound is
// 1 to 2^53 steps.
struct Lattice {
    Norm norm;
    double bound, step;
};

struct Wares {
    bool wide;  // float64
    const void* x;
    index_t n, d;
};

// Rows with the frame that each is seen in: (x - centre) / radius. No centres: rows as they are.
struct Framed {
    const double* x;
    const label_t* label;  // below k; negative: the row is passed over
    index_t n, d;
    const double *centre, *radius;  // k x d, k; both or neither
    index_t k;
};

// Sums by label. squares may be null.
struct Totals {
    double *sums, *squares;  // k x d
    index_t* counts;         // k
};

struct FixedKernels {
    // out: rows less the centre, clipped to the box of these half sides, in the ball, on the grid.
    // Centre and half may be null.
    void (*fixed)(const Wares&, const double* centre, const double* half, const Lattice&, double* out);
    // Sums of rows on the grid. Pre: sums are below 2^53 steps; squares: a bound of 1, and 26 bits.
    void (*framed)(const Framed&, const Lattice&, const Totals&);
    // 1 for rows farther from their centre than its radius (l2): those that `framed` would pull in.
    void (*beyond)(const Framed&, std::uint8_t* out);
};

}  // namespace kv
