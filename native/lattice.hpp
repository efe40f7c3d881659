// The table of lattice.cpp: rows rounded to a lattice inside a ball, and their exact sums. Private methods add noise to
// such sums.
#pragma once

#include "common.hpp"

namespace kv {

enum class Norm : int { max = 0, l1 = 1, l2 = 2 };

// The points of step * Z^d in a ball around the origin. The step must be a power of two, the bound 1 to 2^53 steps.
struct Lattice {
    Norm norm;
    double bound, step;
};

// Rows and the clusters that they belong to. A row enters sums as its scaled residual (x - center) / radius, or as it
// is if there are no centres.
struct LabelledRows {
    const double* x;
    const label_t* label;  // below k; rows with a negative label are skipped
    index_t n, d;
    const double *center, *radius;  // k x d, k; both or neither
    index_t k;
};

// Sums by label. `squares` may be null.
struct LatticeSums {
    double *sums, *squares;  // k x d
    index_t* counts;         // k
};

struct LatticeKernels {
    // Subtracts the centre, clips to the box with these half widths, clips to the ball and rounds to the lattice.
    // `center` and `half` may be null.
    void (*to_lattice)(const RowsView&, const double* center, const double* half, const Lattice&, double* out);
    // Sums rows on the lattice. Sums must be below 2^53 steps; squares need a bound of 1 and a step of at least 2^-26.
    void (*lattice_sums)(const LabelledRows&, const Lattice&, const LatticeSums&);
    // Sets 1 for rows farther from their centre than its radius (l2), which `lattice_sums` would clip.
    void (*outside_radius)(const LabelledRows&, std::uint8_t* out);
};

}  // namespace kv
