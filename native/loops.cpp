// The operations on rows, compiled once per instruction set without fused multiply-add.
#include <stdexcept>

#include "byte_assign.hpp"
#include "candidate_gains.hpp"
#include "elkan.hpp"
#include "exact_distances.hpp"
#include "hamerly.hpp"
#include "hartigan.hpp"
#include "priced_arcs.hpp"
#include "sums_by_label.hpp"
#include "two_nearest.hpp"
#include "yinyang.hpp"

// A function of a RowsView that calls the template `name` with the rows in their own type and layout.
#define KV_ROWS(name)                                                                \
    [](const RowsView& view, auto... arguments) {                                    \
        return with_rows(view, [&](auto rows) { return name(rows, arguments...); }); \
    }
// The same for rows of small types, too.
#define KV_ALL_ROWS(name)                                                                \
    [](const RowsView& view, auto... arguments) {                                        \
        return with_all_rows(view, [&](auto rows) { return name(rows, arguments...); }); \
    }

namespace kv::KV_ISA {
namespace {

template <class F>
auto with_rows(const RowsView& v, F f) {
    if (v.small != SmallType::none) throw std::invalid_argument("rows of this type must be made float32 first");
    if (v.sparse)
        return v.is_double ? f(Csr<double>{static_cast<const double*>(v.x), v.column, v.start, v.n, v.d})
                           : f(Csr<float>{static_cast<const float*>(v.x), v.column, v.start, v.n, v.d});
    return v.is_double ? f(Dense<double>{static_cast<const double*>(v.x), v.n, v.d})
                       : f(Dense<float>{static_cast<const float*>(v.x), v.n, v.d});
}
template <class F>
auto with_all_rows(const RowsView& v, F f) {
    return v.small == SmallType::none ? with_rows(v, f) : f(SmallRows{v.x, v.small, v.n, v.d});
}

}  // namespace

const Kernels kernels = {
    .name = KV_TEXT(KV_ISA),
    .assign = KV_ALL_ROWS(assign),
    .assign_hamerly = KV_ALL_ROWS(assign_hamerly),
    .assign_elkan = KV_ALL_ROWS(assign_elkan),
    .assign_yinyang = KV_ALL_ROWS(assign_yinyang),
    .make_byte_rows =
        [](const RowsView& view, ByteRows& out) {
            return with_all_rows(view, [&](auto rows) { return make_byte_rows(rows, out); });
        },
    .assign_bytes =
        [](const RowsView& view, const ByteRows& bytes, const ByteKernels& with, auto... arguments) {
            return with_all_rows(view, [&](auto rows) { return assign_bytes(rows, bytes, with, arguments...); });
        },
    .two_nearest = KV_ROWS(two_nearest),
    .hartigan = KV_ROWS(hartigan),
    .update = KV_ALL_ROWS(update),
    .sums_by_label = KV_ROWS(sums_by_label),
    .costs = KV_ALL_ROWS(costs),
    .distances = KV_ROWS(distances),
    .nearest = KV_ALL_ROWS(nearest),
    .magnitudes = KV_ALL_ROWS(magnitudes),
    .lower_costs = KV_ALL_ROWS(lower_costs),
    .make_quantized_rows = KV_ALL_ROWS(make_quantized_rows),
    .make_byte_tiles =
        [](const RowsView& view, const double* cost, const ByteKernels& with) {
            return with_all_rows(view, [&](auto rows) { return make_byte_tiles(rows, cost, with); });
        },
    .gain_bounds = KV_ALL_ROWS(gain_bounds),
    .gains = KV_ALL_ROWS(gains),
    .lower_costs_of_passed = KV_ALL_ROWS(lower_costs_of_passed),
    .sum_costs =
        [](index_t n, const Potential& p) {
            parallel_rows(n, threads_for(8.0 * static_cast<double>(n)),
                          [&](index_t from, index_t stop) { update_sums(p, n, from, stop); });
        },
    .propose = KV_ALL_ROWS(propose),
    .collect_arcs = KV_ROWS(collect_arcs),
    .metric = &metric_kernels,
    .dual = &dual_kernels,
    .tree = &tree_kernels,
    .lattice = &lattice_kernels,
    .exchange = &exchange_kernels,
};

}  // namespace kv::KV_ISA
