// All operations of native/, as a table of functions: there is one such table per instruction set.
#pragma once

#include "byte_tiles.hpp"
#include "common.hpp"
#include "dual.hpp"
#include "exact_sums.hpp"
#include "exchange.hpp"
#include "filter.hpp"
#include "lattice.hpp"
#include "metric_kernels.hpp"
#include "quantized_rows.hpp"
#include "transport.hpp"
#include "tree_kernels.hpp"

namespace kv {

// What a D^2 sampler keeps per row. `weight` may be null: all weights are one.
struct Potential {
    double* cost;      // squared distance to the nearest centre; an upper bound if centres are pending
    label_t* nearest;  // that centre
    const double* weight;
    exact_t* sums;  // sums of weight * cost over DRAW rows each; null if the scale is not known yet
    Scale scale;
};

inline double weighted_cost(const Potential& p, index_t i) { return p.weight ? p.weight[i] * p.cost[i] : p.cost[i]; }

// Returns the row of a tile at which the running sum of weighted costs passes the goal.
inline index_t row_in_tile(const Potential& p, index_t n, index_t tile, exact_t goal) {
    for (index_t i = tile * DRAW; i < std::min(n, (tile + 1) * DRAW); ++i) {
        const exact_t mass = p.scale.exact(weighted_cost(p, i));
        if (goal < mass) return i;
        goal -= mass;
    }
    return -1;  // not reached: the goal is below the sum of the tile
}

// How much a candidate would lower the potential: bounds.
struct GainBounds {
    double low = 0, high = 0;
};

// The pairs of row and candidate that may lower the row's cost, from `gain_bounds`. They spare a second pass over the
// rows when one of the m candidates becomes a centre.
struct PassedPairs {
    struct Block {
        std::vector<std::uint16_t> rows;   // those that the filter read, within the block
        std::vector<std::uint64_t> masks;  // for each TILE of them and each candidate: one bit per row
    };
    index_t n = 0, m = 0;
    std::vector<Block> block;  // empty if no filter was used: all pairs passed
    index_t wasted = 0;        // pairs that a filter left open but that lower no cost
};

struct AssignResult {
    index_t changed = 0;             // rows with a new label
    index_t scanned = 0;             // rows that the filter read
    index_t pairs = 0;               // pairs of row and centre that it compared, in units of its time for one
    index_t exact = 0;               // distances that were computed exactly
    index_t undecided = 0;           // rows that the filters left to exact distances
    index_t chosen = 0;              // rows whose candidates were chosen by distances between centres
    index_t spared = 0;              // pairs that these distances spared
    index_t probed = 0, stable = 0;  // sampled rows, and those that keep their label if all centres move by `step`
};

// The rows that got a new label in the last assignment, with the label they had before. Tasks of few rows have lists of
// their own, so that threads do not share one.
struct Change {
    std::int32_t row;  // within its list
    label_t before;
};
struct Changes {
    int bits = 0;  // a list is of 2^bits rows, at most BLOCK
    std::vector<std::vector<Change>> list;
    std::vector<char> overflow;  // nonzero for lists that had too many changes to keep
    bool overflowed = true;      // there is such a list, or a block whose lists have too many together

    index_t rows_of_list() const { return index_t{1} << bits; }
    // Calls visit(row, label before) for the rows of a block.
    template <class Visit>
    void for_block(index_t block, Visit&& visit) const {
        const index_t per_block = BLOCK >> bits, lists = static_cast<index_t>(list.size());
        for (index_t l = block * per_block; l < std::min(lists, (block + 1) * per_block); ++l)
            for (const Change& change : list[l]) visit((l << bits) + change.row, change.before);
    }
};

struct Magnitudes {
    double largest = 0, smallest = std::numeric_limits<double>::infinity();
};

// Weighted sums of each cluster's rows, as limbs (exact_sums.hpp).
struct ClusterSums {
    limb_t* sum;     // k x 3 x d
    limb_t* weight;  // k x 3
    index_t* count;  // k: rows of positive weight
    Scale scale, weight_scale;
    // Parts of a term that coarser sums hold: it is rounded to these constants' units, one after the other, and only
    // the rest is added here. Empty unless values differ by more than 2^62.
    std::vector<double> coarser = {};
    double smallest = 0;     // no value but zero is smaller
    NarrowSums narrow = {};  // dense rows: in place of `sum`, if they are set
};

// A clustering that moves of single rows change. The centres are the means of the sums.
struct Partition {
    double* centers;  // k x d
    label_t* labels;
    float *upper, *lower;             // n: bounds, see hartigan.hpp
    std::vector<ClusterSums> levels;  // from the coarsest to the finest; all share counts and weights
    const ClusterSums& sums() const { return levels[0]; }
};

// How clusters changed since the bounds were computed.
struct ClusterDrift {
    const float* moved;  // k: how far the centres moved
    float largest;       // of these
    float shrink;        // at most the root of (weight now / weight then) of every cluster
};

// A row, and its cost before and after it was compared with the pending centres.
struct Proposal {
    index_t row;
    double bound, cost;
};

struct Kernels {
    const char* name;
    AssignResult (*assign)(const RowsView&, const double* centers, index_t k, label_t* labels, Changes*, float step);
    AssignResult (*assign_hamerly)(const RowsView&, const double* centers, index_t k, const float* moved,
                                   label_t* labels, float* upper, float* lower, bool tighten, bool apart, Changes*);
    AssignResult (*assign_elkan)(const RowsView&, const double* centers, index_t k, const float* moved, float* drift,
                                 label_t* labels, float* upper, float* lower, Changes*);
    AssignResult (*assign_yinyang)(const RowsView&, const double* centers, index_t k, const std::int32_t* group,
                                   const float* moved, label_t* labels, float* upper, float* lower, Changes*);
    // Returns false if the rows have no bytes.
    bool (*make_byte_rows)(const RowsView&, ByteRows&);
    // `order`: the centres group by group, `size` of them in each but the last.
    AssignResult (*assign_bytes)(const RowsView&, const ByteRows&, const ByteKernels&, const double* centers, index_t k,
                                 const label_t* order, index_t size, const float* moved, label_t* labels, float* upper,
                                 std::uint16_t* lower, Changes*);
    void (*two_nearest)(const RowsView&, const double* centers, index_t k, const TwoNearest<double>&);
    // Returns how many rows moved.
    index_t (*hartigan)(const RowsView&, const double* weight, index_t k, const ClusterDrift&, const Partition&);
    // Without changes the sums are computed anew.
    void (*update)(const RowsView&, const double* weight, const label_t* labels, const Changes*, index_t k,
                   const ClusterSums&);
    // Sparse rows only. `smallest`: no value but zero is smaller.
    void (*sums_by_label)(const RowsView&, const double* weight, const label_t* labels, index_t k, const Scale&,
                          double smallest, double* sums);
    void (*costs)(const RowsView&, const double* centers, index_t k, const label_t* labels, double* cost);
    // Centres are float32 or float64.
    void (*distances)(const RowsView&, const RowsView& centers, bool squared, void* out);
    void (*nearest)(const RowsView&, const RowsView& centers, label_t* labels, const ByteKernels*);
    Magnitudes (*magnitudes)(const RowsView&);
    void (*lower_costs)(const RowsView&, const double* fresh, index_t m, label_t first, const double* limit,
                        const Potential&);
    // Filters for greedy seeding; null if they cannot hold the rows.
    std::unique_ptr<RowFilter> (*make_quantized_rows)(const RowsView&, const double* cost);
    std::unique_ptr<RowFilter> (*make_byte_tiles)(const RowsView&, const double* cost, const ByteKernels&);
    void (*gain_bounds)(const RowsView&, const RowFilter*, const double* candidates, index_t m, const double* limit,
                        const Potential&, GainBounds*, PassedPairs&);
    void (*gains)(const RowsView&, const double* candidates, index_t m, const double* limit, const Potential&,
                  exact_t* gain);
    void (*lower_costs_of_passed)(const RowsView&, RowFilter*, const double* fresh, label_t candidate, label_t name,
                                  const Potential&, const PassedPairs&);
    void (*sum_costs)(index_t n, const Potential&);
    Proposal (*propose)(const RowsView&, const double* pending, index_t m, label_t first, const Potential&,
                        exact_t goal);
    // See transport.hpp.
    void (*collect_arcs)(const RowsView&, const double* centers, index_t k, const double* price, double tau, bool keep,
                         label_t* labels, PricedArcs*);
    const MetricKernels* metric;
    const DualKernels* dual;
    const TreeKernels* tree;
    const LatticeKernels* lattice;
    const ExchangeKernels* exchange;
};

std::vector<const Kernels*> available_kernels();
// Those that go with these kernels and that this machine can run, the fastest last.
std::vector<const ByteKernels*> available_byte_kernels(const Kernels& set);
struct ChosenKernels {
    const Kernels* kernels = nullptr;
    const ByteKernels* bytes = nullptr;
};
// Returns the kernels of this name; those of the best instruction set of this machine if no name is given; none if this
// machine cannot run them. A name is that of an instruction set, or of byte kernels, which some set goes with.
ChosenKernels choose_kernels(const char* name);

#ifdef KV_ISA
namespace KV_ISA {
template <class T>
void filter_tile(const Dense<T>& rows, const index_t* id, int count, const PackedCenters& packed,
                 const Candidates& among, bool keep, Tile& tile);
template <class T>
void filter_tile(const Csr<T>& rows, const index_t* id, int count, const PackedCenters& packed, const Candidates& among,
                 bool keep, Tile& tile);
// The values of all centres only.
template <class T>
void filter_values(const Dense<T>& rows, const index_t* id, int count, const PackedCenters& packed, Tile& tile);
template <class T>
void filter_values(const Csr<T>& rows, const index_t* id, int count, const PackedCenters& packed, Tile& tile) {
    filter_tile(rows, id, count, packed, Candidates{nullptr, packed.k}, true, tile);
}
template <class T>
void filter_row(const Dense<T>& rows, index_t i, const PackedCenters& packed, const Candidates& among, Tile& tile);
template <class T>
void filter_row(const Csr<T>& rows, index_t i, const PackedCenters& packed, const Candidates& among, Tile& tile);
template <class T>
void filter_double(const Dense<T>& rows, const index_t* id, int count, const PackedDoubles& packed, DoubleTile& tile);
index_t vector_width();
template <class T>
bool make_byte_rows(const Dense<T>& rows, ByteRows& out);
template <class T>
bool make_byte_rows(const Csr<T>&, ByteRows&) {
    return false;
}
// Returns false if the centres are too far from the rows.
bool make_byte_centers(const ByteRows& rows, const double* c, index_t k, const label_t* order, index_t panel,
                       ByteCenters& out);
template <class T>
std::unique_ptr<RowFilter> make_quantized_rows(const Dense<T>& rows, const double* cost);
template <class T>
std::unique_ptr<RowFilter> make_quantized_rows(const Csr<T>&, const double*) {
    return nullptr;
}
template <class T>
std::unique_ptr<RowFilter> make_byte_tiles(const Dense<T>& rows, const double* cost, const ByteKernels& kernels);
template <class T>
std::unique_ptr<RowFilter> make_byte_tiles(const Csr<T>&, const double*, const ByteKernels&) {
    return nullptr;
}
extern const MetricKernels metric_kernels;
extern const DualKernels dual_kernels;
extern const TreeKernels tree_kernels;
extern const LatticeKernels lattice_kernels;
extern const ExchangeKernels exchange_kernels;
extern const Kernels kernels;
}  // namespace KV_ISA
#endif

}  // namespace kv
