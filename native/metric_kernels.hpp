// The table of metric.cpp: distances and swaps of medoids. Distances, rows and costs have one type, float32 or float64.
#pragma once

#include "common.hpp"

namespace kv {

enum Metric : int { L1 = 0, L2 = 1, COSINE = 2 };  // cosine: half the squared distance of unit rows

struct PointsView {
    bool is_double;
    const void* x;           // n x d
    const void* transposed;  // d x n, or null
    index_t n, d;
};

// The nearest and second nearest medoid of every point. Labels are slots: places in the list of chosen medoids.
struct MedoidsView {
    bool is_double;
    TwoNearest<void> nearest;
};

struct SwapResult {
    index_t swaps = 0;
    double cost = 0;
    bool converged = false;  // no swap with any candidate lowers the cost
};

// The candidates in the order in which they are tried, `block` at a time. A swap must lower the cost by tol times it.
struct SwapOptions {
    const index_t* order;
    index_t count, block;
    double tol;
    index_t max_swaps;
};

struct Restarts {
    index_t count = 0, strength = 2;  // strength: medoids replaced at once
    std::uint64_t seed = 0;
    const index_t* point = nullptr;  // the candidate that is the point of a column; null: the one of the same number
};

enum class Flaw : int { NONE = 0, NEGATIVE, DIAGONAL, ASYMMETRIC, TRIANGLE };

// Where a matrix is not one of distances: at (i, j), for a triangle by way of `via`.
struct DistanceFlaw {
    Flaw flaw = Flaw::NONE;
    index_t i = -1, j = -1, via = -1;
};

struct MetricKernels {
    // close: the largest difference of two distances that should be equal, relative to the largest distance;
    // triangles: about how many triangles to check.
    DistanceFlaw (*check_distances)(bool is_double, const void* D, index_t n, double close, double triangles);
    bool (*to_float32)(const double* D, index_t cells, float* out);
    void (*rows)(const PointsView&, const void* points, index_t m, int kind, void* out);  // m x n
    void (*square)(const PointsView&, int kind, void* out);                               // n x n
    void (*two_nearest)(const void* rows, index_t k, index_t n, const MedoidsView&);      // rows: k x n
    void (*swap_changes)(const void* rows, index_t count, index_t n, index_t k, const MedoidsView&,
                         const double* weight, double* out);  // out: count x k
    index_t (*swap_patch)(const void* row, index_t n, label_t slot, const MedoidsView&, index_t* unknown);
    SwapResult (*eager_swaps)(const void* D, index_t universe, index_t n, index_t k, index_t* chosen,
                              const MedoidsView&, const double* weight, const SwapOptions&, const Restarts&);
};

}  // namespace kv
