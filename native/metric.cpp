// Metric kernels, once per instruction set, with multiply-add contraction off.
#include "inspect.hpp"
#include "metric.hpp"
#include "sweep.hpp"

namespace kv::KV_ISA {
namespace {

template <class T>
Points<T> points(const PointsView& v) {
    return {static_cast<const T*>(v.x), static_cast<const T*>(v.turned), v.n, v.d};
}

template <class T>
Near<T> typed(const NearView& v) {
    return {v.slot, v.second, static_cast<T*>(v.cost), static_cast<T*>(v.second_cost)};
}

template <class F>
auto as(bool wide, F f) {
    return wide ? f(double{}) : f(float{});
}

}  // namespace

const MetricKernels metric_kernels = {
    [](bool wide, const void* D, index_t n, double close, double triangles) {
        return as(wide, [&](auto t) { return inspect(static_cast<const decltype(t)*>(D), n, close, triangles); });
    },
    narrow,
    [](const PointsView& v, const void* c, index_t m, int kind, void* out) {
        as(v.wide, [&](auto t) {
            using T = decltype(t);
            metric_rows(points<T>(v), static_cast<const T*>(c), m, kind, static_cast<T*>(out));
        });
    },
    [](const PointsView& v, int kind, void* out) {
        as(v.wide, [&](auto t) {
            using T = decltype(t);
            metric_square(points<T>(v), kind, static_cast<T*>(out));
        });
    },
    [](const void* rows, index_t k, index_t n, const NearView& near) {
        as(near.wide, [&](auto t) {
            using T = decltype(t);
            two_nearest_of(static_cast<const T*>(rows), k, n, typed<T>(near));
        });
    },
    [](const void* rows, index_t count, index_t n, index_t k, const NearView& near, const double* weight, double* out) {
        as(near.wide, [&](auto t) {
            using T = decltype(t);
            swap_changes(static_cast<const T*>(rows), count, n, k, typed<T>(near), weight, out);
        });
    },
    [](const void* row, index_t n, label_t slot, const NearView& near, index_t* unknown) {
        return as(near.wide, [&](auto t) {
            using T = decltype(t);
            return swap_patch(static_cast<const T*>(row), n, slot, typed<T>(near), unknown);
        });
    },
    [](const void* D, index_t universe, index_t n, index_t k, index_t* chosen, const NearView& near, const double* weight,
       const Round& round, const Restarts& again) {
        return as(near.wide, [&](auto t) {
            using T = decltype(t);
            return Sweep<T>(static_cast<const T*>(D), universe, n, k, chosen, typed<T>(near), weight)
                .run(round, again);
        });
    },
};

}  // namespace kv::KV_ISA
