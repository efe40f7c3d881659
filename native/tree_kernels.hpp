// The table of tree.cpp: building a 2-HST (see tree.hpp) over rows, a matrix or a callable.
#pragma once

#include <functional>

#include "common.hpp"

namespace kv {

// Nodes are in preorder: parents come before children. A height h stands for a distance of 2^h units.
struct Tree {
    std::vector<index_t> parent, height, center;
    std::vector<index_t> leaf;  // of every point
    double unit = 1;
};

// Computes the distances from one point to some others.
using DistancesFrom = std::function<void(index_t from, const std::int32_t* others, index_t count, double* out)>;

struct TreeKernels {
    void (*over_rows)(const RowsView&, bool manhattan, std::uint64_t seed, Tree&);  // or Euclidean
    void (*over_matrix)(const void* D, bool is_double, index_t n, std::uint64_t seed, Tree&);
    void (*over_callable)(const DistancesFrom&, index_t n, std::uint64_t seed, Tree&);
};

}  // namespace kv
