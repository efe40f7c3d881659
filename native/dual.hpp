// What dual.cpp offers, once per instruction set: what candidates would earn at given prices.
#pragma once

#include "common.hpp"

namespace kv {

// Distances of candidates (rows) to points (columns). `some` names rows; null: all of them.
struct Table {
    bool wide;  // float64
    const void* distance;
    index_t points;
    const index_t* some;
    index_t count;  // of rows asked for
};

// The same where a row only has the points that are near: start[row] to start[row + 1].
struct NearLists {
    const index_t* start;
    const std::int32_t* point;
    const double* distance;
    index_t points;
    const index_t* some;
    index_t count;
};

struct DualKernels {
    // gain[r] = sum over points of weight * max(price - distance, 0)
    void (*table_gains)(const Table&, const double* price, const double* weight, double* gain);
    // cover[i] = how many of the rows have distance < price at i
    void (*table_cover)(const Table&, const double* price, double* cover);
    void (*list_gains)(const NearLists&, const double* price, const double* weight, double* gain);
    void (*list_cover)(const NearLists&, const double* price, double* cover);
};

}  // namespace kv
