// Greedy seeding compares each candidate with all rows, again and again. A filter keeps a small copy of the rows and
// excludes pairs of row and candidate of which it proves that the candidate does not lower the row's cost; the others
// are computed exactly.
#pragma once

#include <memory>

#include "common.hpp"

namespace kv {

// Candidates in the form of a filter.
struct FilterQueries {
    index_t m = 0;
    virtual ~FilterQueries() = default;
};

struct RowFilter {
    index_t n = 0, d = 0;

    virtual ~RowFilter() = default;
    // Adapts the filter to the cost of row i. An old cost is only too large: then the filter excludes less.
    virtual void set_cost(index_t i, double cost) = 0;
    // Null if the filter's proof does not hold for these candidates.
    virtual std::unique_ptr<FilterQueries> prepare(const double* c, index_t m) const = 0;
    // For each candidate the rows of a tile, as bits, that are not excluded.
    virtual void not_excluded(index_t tile, const FilterQueries& queries, std::uint64_t* rows) const = 0;
};

}  // namespace kv
