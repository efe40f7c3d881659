// The table of contents of the native core: every operation, once per instruction set.
#pragma once

#include "common.hpp"
#include "dual.hpp"
#include "fixed.hpp"
#include "metric_kernels.hpp"
#include "scan.hpp"
#include "shadow.hpp"
#include "tree_kernels.hpp"

namespace kv {

// Rows as the binding hands them over.
struct View {
    bool sparse = false, wide = false;  // wide: float64
    const void* x = nullptr;
    const std::int32_t* column = nullptr;
    const index_t* start = nullptr;
    index_t n = 0, d = 0;
};

// Everything a D^2 sampler keeps per row. weight may be null: all ones.
struct Potential {
    double* cost;         // squared distance to the nearest centre so far, an upper bound if lazy
    label_t* nearest;     // which centre that is
    const double* weight;
    double* sums;         // sum of weight * cost over DRAW rows each
};

// What a greedy step learnt about its candidates, so that taking one in needs no second pass.
struct Hit {
    index_t row;
    label_t candidate;
    double cost;
};
struct Hits {
    std::vector<std::vector<Hit>> block;
    std::vector<char> lost;  // blocks with too many hits to keep: they are measured again
    index_t vain = 0;        // pairs the shadow let through that were no hits
};

struct Assigned {
    index_t changed = 0;  // rows with a new label
    index_t scanned = 0;  // rows (Elkan, Yinyang: pairs) for which distances were computed
    index_t asked = 0, sure = 0;  // rows asked whether they would stay if centres moved `step`; who would
};

// Which rows got a new label in the last assignment, block by block, and the one they had.
struct Change {
    std::int32_t row;  // within its block
    label_t before;
};
struct Changes {
    std::vector<std::vector<Change>> block;
    std::vector<char> many;  // blocks with too many changes to keep
    bool lost = true;        // there is such a block
};

// The value of a sum is sum + rest.
struct Sums {
    double *sum, *rest;  // k x d
    double *weight, *weight_rest;  // k
    index_t* count;  // k: rows of positive weight
};

struct TwoNearest {
    label_t *labels, *second;
    double *cost, *second_cost;  // squared distances
};

// What single moves change. The centres are the means of the sums.
struct Partition {
    double* centres;  // k x d
    label_t* labels;
    float *upper, *lower;  // n: bounds, see hartigan.hpp
    Sums sums;
};

// What happened to the clusters since bounds were made.
struct Drifts {
    const float* moved;  // k
    float most;          // the largest of them
    float shrink;        // at most the root of (weight now / weight then), of any cluster
};

struct Drawn {
    index_t row = -1;  // -1: the uniforms ran out, or nothing is left to draw
    index_t used = 0;  // uniforms consumed
};

struct Kernels {
    const char* name;
    Assigned (*assign)(const View&, const double* centres, index_t k, label_t* labels, Changes*, float step);
    Assigned (*assign_hamerly)(const View&, const double* centres, index_t k, const float* moved,
                               label_t* labels, float* upper, float* lower, bool tighten, Changes*);
    Assigned (*assign_elkan)(const View&, const double* centres, index_t k, const float* moved,
                             float* drift, label_t* labels, float* upper, float* lower, Changes*);
    void (*two_nearest)(const View&, const double* centres, index_t k, const TwoNearest&);
    index_t (*hartigan)(const View&, const double* weight, index_t k, const Drifts&, const Partition&);  // rows moved
    Assigned (*assign_yinyang)(const View&, const double* centres, index_t k, const std::int32_t* group,
                               const float* moved, label_t* labels, float* upper, float* lower, Changes*);
    void (*update)(const View&, const double* weight, const label_t* labels, const Changes* changes,
                   index_t k, const Sums&);  // no changes: afresh
    void (*own_cost)(const View&, const double* centres, index_t k, const label_t* labels, double* cost);
    void (*distances)(const View&, const double* centres, index_t k, bool squared, void* out);
    double (*spread)(const View&);
    void (*absorb)(const View&, const double* fresh, index_t m, label_t first, const double* limit,
                   const Potential&);
    bool (*cast)(const View&, const double* cost, Shadow&);  // false: these rows cast none
    void (*gains)(const View&, const Shadow*, const double* candidates, index_t m, const double* limit,
                  const Potential&, double* gain, Hits&);
    void (*adopt)(const View&, Shadow*, const double* fresh, label_t candidate, label_t name,
                  const double* limit, const Potential&, const Hits&);
    Drawn (*draw)(const View&, const double* pending, index_t m, label_t first, const Potential&,
                  const double* uniforms, index_t count);
    const MetricKernels* metric;
    const DualKernels* dual;
    const TreeKernels* tree;
    const FixedKernels* fixed;
};

// The best set this machine can run, or the one asked for by name; null if it can't run here.
const Kernels* choose(const char* name);
std::vector<const Kernels*> available();

#ifdef KV_ISA
namespace KV_ISA {
template <class T>
void scan(const Dense<T>& rows, const index_t* id, int count, const Pack& pack,
          const Candidates& among, bool keep, Tile& tile);
template <class T>
void scan(const Csr<T>& rows, const index_t* id, int count, const Pack& pack,
          const Candidates& among, bool keep, Tile& tile);
template <class T>
void scan_row(const Dense<T>& rows, index_t i, const Pack& pack, const Candidates& among, Tile& tile);
template <class T>
void scan_row(const Csr<T>& rows, index_t i, const Pack& pack, const Candidates& among, Tile& tile);
index_t vector_width();
template <class T>
bool cast(const Dense<T>& rows, const double* cost, Shadow& shadow);
template <class T>
bool cast(const Csr<T>&, const double*, Shadow&) {
    return false;
}
bool aim(const Shadow& shadow, const double* candidates, index_t m, Beams& beams);
void meet(const Shadow& shadow, index_t tile, const Beams& beams, std::int8_t* maybe);
extern const MetricKernels metric_kernels;
extern const DualKernels dual_kernels;
extern const TreeKernels tree_kernels;
extern const FixedKernels fixed_kernels;
extern const Kernels kernels;
}  // namespace KV_ISA
#endif

}  // namespace kv
