// Draws a few of many weighted rows by cells: the reduction of a coreset.
#pragma once

#include "common.hpp"

namespace kv {

// Rows with their nearest of k rough centres and the cost of each. `weight` may be null: all weights are one.
struct ClusteredRows {
    index_t n, k;
    const label_t* labels;
    const double *cost, *weight;
};

struct DrawnRows {
    std::vector<index_t> rows;  // in ascending order
    std::vector<double> weights;
};

// At most `size` rows whose weights add up to those of all rows; the expected new weight of a row is its weight.
//
// The score of a row is its share in the cost, plus its share in the weight of all rows, plus its share in the weight
// of its cluster over 4 k. Rows of a score of at least `limit` are kept. All others are grouped by cluster and by cost,
// up to a factor of two. The rows of a group, in their order, are cut into cells of a score of about `limit`. One row
// of a cell is drawn in proportion to its weight and gets the weight of the whole cell. Where cells end does not depend
// on what is drawn.
//
// Pre: k < size / 2 and size < n; the rows have weight.
DrawnRows draw_cells(const ClusteredRows& rows, index_t size, std::uint64_t seed);

}  // namespace kv
