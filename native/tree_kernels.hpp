// What tree.cpp offers, once per instruction set.
#pragma once

#include <functional>

#include "common.hpp"

namespace kv {

struct View;

// A 2-HST. Nodes in preorder: the root first, parents before children; heights in powers of two of the unit.
struct Grown {
    std::vector<index_t> parent, height, centre;
    std::vector<index_t> leaf;  // of every point
    double unit = 1;
};

// Distances that somebody else measures: from one point to some others.
using Among = std::function<void(index_t from, const std::int32_t* others, index_t count, double* out)>;

struct TreeKernels {
    void (*over_rows)(const View&, bool manhattan, std::uint64_t seed, Grown&);  // else Euclidean
    void (*over_matrix)(const void* D, bool wide, index_t n, std::uint64_t seed, Grown&);
    void (*over_called)(const Among&, index_t n, std::uint64_t seed, Grown&);
};

}  // namespace kv
