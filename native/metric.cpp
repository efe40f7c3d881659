// The kernels for distances and swaps of medoids, compiled once per instruction set without fused multiply-add.
#include "metric.hpp"

#include "check_distances.hpp"
#include "eager_swaps.hpp"

namespace kv::KV_ISA {
namespace {

template <class T>
Points<T> typed(const PointsView& v) {
    return {static_cast<const T*>(v.x), static_cast<const T*>(v.transposed), v.n, v.d};
}

template <class T>
TwoNearest<T> typed(const TwoNearest<void>& v) {
    return {v.labels, v.second, static_cast<T*>(v.cost), static_cast<T*>(v.second_cost)};
}

}  // namespace

const MetricKernels metric_kernels = {
    .check_distances =
        [](bool is_double, const void* D, index_t n, double close, double triangles) {
            return with_type(
                is_double, [&]<class T>(T) { return check_distances(static_cast<const T*>(D), n, close, triangles); });
        },
    .to_float32 = to_float32,
    .rows =
        [](const PointsView& v, const void* c, index_t m, int kind, void* out) {
            with_type(v.is_double, [&]<class T>(T) {
                metric_rows(typed<T>(v), static_cast<const T*>(c), m, kind, static_cast<T*>(out));
            });
        },
    .square =
        [](const PointsView& v, int kind, void* out) {
            with_type(v.is_double, [&]<class T>(T) { metric_square(typed<T>(v), kind, static_cast<T*>(out)); });
        },
    .two_nearest =
        [](const void* rows, index_t k, index_t n, const MedoidsView& v) {
            with_type(v.is_double,
                      [&]<class T>(T) { two_nearest_rows(static_cast<const T*>(rows), k, n, typed<T>(v.nearest)); });
        },
    .swap_changes =
        [](const void* rows, index_t count, index_t n, index_t k, const MedoidsView& v, const double* weight,
           double* out) {
            with_type(v.is_double, [&]<class T>(T) {
                swap_changes(static_cast<const T*>(rows), count, n, k, typed<T>(v.nearest), weight, out);
            });
        },
    .swap_patch =
        [](const void* row, index_t n, label_t slot, const MedoidsView& v, index_t* unknown) {
            return with_type(v.is_double, [&]<class T>(T) {
                return swap_patch(static_cast<const T*>(row), n, slot, typed<T>(v.nearest), unknown);
            });
        },
    .eager_swaps =
        [](const void* D, index_t universe, index_t n, index_t k, index_t* chosen, const MedoidsView& v,
           const double* weight, const SwapOptions& options, const Restarts& restarts) {
            return with_type(v.is_double, [&]<class T>(T) {
                const T* distances = static_cast<const T*>(D);
                return EagerSwaps<T>(distances, universe, n, k, chosen, typed<T>(v.nearest), weight)
                    .run(options, restarts);
            });
        },
};

}  // namespace kv::KV_ISA
