// Dual prices of k-median: the gains of candidates at given prices of the points. One table per instruction set.
#pragma once

#include "common.hpp"

namespace kv {

// Distances from candidates (rows) to points (columns). `selected` lists candidates; null: all of them.
struct DistanceTable {
    bool is_double;
    const void* distance;
    index_t points;
    const index_t* selected;
    index_t count;  // of selected candidates
    index_t row(index_t r) const { return selected ? selected[r] : r; }
};

// The same, but a row holds only the points near the candidate: its entries are start[row] to start[row + 1].
struct DistanceLists {
    const index_t* start;
    const std::int32_t* point;
    const double* distance;
    index_t points;
    const index_t* selected;
    index_t count;
    index_t row(index_t r) const { return selected ? selected[r] : r; }
};

struct DualKernels {
    // gain[r] = sum over points of weight * max(price - distance, 0)
    void (*table_gains)(const DistanceTable&, const double* price, const double* weight, double* gain);
    // cover[i] = number of candidates with distance < price at point i
    void (*table_cover)(const DistanceTable&, const double* price, double* cover);
    void (*list_gains)(const DistanceLists&, const double* price, const double* weight, double* gain);
    void (*list_cover)(const DistanceLists&, const double* price, double* cover);
};

}  // namespace kv
