// What metric.cpp offers, once per instruction set. Distances, rows and caches share one type.
#pragma once

#include "common.hpp"

namespace kv {

enum Metric : int { L1 = 0, L2 = 1, COSINE = 2 };  // cosine: half the squared distance of unit rows

struct PointsView {
    bool wide;           // float64
    const void* x;       // n x d
    const void* turned;  // d x n, or null
    index_t n, d;
};

// Every row's nearest and second nearest medoid, by slot, and the distances to them.
template <class T>
struct Near {
    label_t *slot, *second;
    T *cost, *second_cost;
};
struct NearView {
    bool wide;
    label_t *slot, *second;
    void *cost, *second_cost;
};

struct Swept {
    index_t swaps = 0;
    double cost = 0;
    bool settled = false;  // no candidate's swap helps
};

// Candidates in the order they are met, how many at a time; a swap must lower the cost by tol times it.
struct Round {
    const index_t* order;
    index_t count, block;
    double tol;
    index_t most;  // swaps
};

struct Restarts {
    index_t count = 0, strength = 2;  // medoids replaced at once
    std::uint64_t seed = 0;
    const index_t* point = nullptr;  // the candidate that each measured point is; null: the same number
};

enum class Flaw : int { NONE = 0, NEGATIVE, DIAGONAL, ASYMMETRIC, TRIANGLE };

struct Found {
    Flaw flaw = Flaw::NONE;
    index_t i = -1, j = -1, by = -1;
};

struct MetricKernels {
    // close: what two distances that should be equal may differ by, as a share of the largest;
    // triangles: about how many of them to look at.
    Found (*inspect)(bool wide, const void* D, index_t n, double close, double triangles);
    bool (*narrow)(const double* D, index_t cells, float* out);
    void (*rows)(const PointsView&, const void* points, index_t m, int kind, void* out);  // m x n
    void (*square)(const PointsView&, int kind, void* out);                               // n x n
    void (*two_nearest)(const void* rows, index_t k, index_t n, const NearView&);         // rows: k x n
    void (*swap_changes)(const void* rows, index_t count, index_t n, index_t k, const NearView&, const double* weight,
                         double* out);  // count x k
    index_t (*swap_patch)(const void* row, index_t n, label_t slot, const NearView&, index_t* unknown);
    Swept (*sweep)(const void* D, index_t universe, index_t n, index_t k, index_t* chosen, const NearView&,
                   const double* weight, const Round&, const Restarts&);
};

}  // namespace kv
