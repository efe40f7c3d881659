// Anti-clustering by exchanges: two units of different groups change places if that improves the objective. A unit is a
// row, or several rows that must stay together. One table per instruction set.
//
// A sweep visits every unit and looks for its best partner of the same kind. If a kind has no more units than partners
// that may be tried, all of them are tried; otherwise some random ones and some that are near in `order`. A block of
// units is evaluated in parallel under the present groups. Then its exchanges are checked again, one after the other,
// and made. Blocks and random numbers depend on the problem only, so that threads do not change the result.
#pragma once

#include "common.hpp"

namespace kv {

struct ExchangeUnits {
    index_t n, groups;
    const index_t* order;              // units by kind; those that are near each other are alike
    const index_t* kind_start;         // kinds + 1 places in `order`
    index_t kinds;                     // only units of one kind change places
    const index_t* size;               // rows of a unit
    const index_t *low, *high;         // the least and the largest size of each group
    const index_t *link_start, *link;  // for each unit, the units that must be in other groups
};

struct ExchangeOptions {
    index_t partners;  // tried for each unit
    index_t max_sweeps;
    std::uint64_t seed;
};

struct ExchangeResult {
    index_t sweeps = 0;
    bool converged = false;      // the last sweep found no exchange
    std::vector<double> values;  // of the objective (smaller is better): at the start and after each sweep
};

struct ExchangeKernels {
    // Reorders the units of every kind so that each `block` of them is alike: halves them, at a multiple of the block,
    // along the column that varies most, until a block is left. rows: n x d.
    void (*order)(const double* rows, index_t d, const index_t* kind_start, index_t kinds, index_t block,
                  index_t* order);
    // Minimises the sum over groups of |sum of rows|^2 / size. `labels` holds `runs` starts and gets the ends.
    std::vector<ExchangeResult> (*rows)(const double* rows, index_t d, const ExchangeUnits&, const ExchangeOptions&,
                                        index_t runs, label_t* labels);
    // Minimises minus the sum of distances within groups. Distances: a symmetric matrix.
    std::vector<ExchangeResult> (*distances)(bool is_double, const void* distance, const ExchangeUnits&,
                                             const ExchangeOptions&, index_t runs, label_t* labels);
};

}  // namespace kv
