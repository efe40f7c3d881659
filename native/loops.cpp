// All loops over rows, compiled once per instruction set, with multiply-add contraction off.
#include "assign.hpp"
#include "elkan.hpp"
#include "hamerly.hpp"
#include "hartigan.hpp"
#include "kernels.hpp"
#include "seed.hpp"
#include "two_nearest.hpp"
#include "update.hpp"
#include "yinyang.hpp"

#define KV_TEXT2(x) #x
#define KV_TEXT(x) KV_TEXT2(x)

namespace kv::KV_ISA {
namespace {

template <class F>
auto with_rows(const View& v, F f) {
    if (v.sparse)
        return v.wide ? f(Csr<double>{static_cast<const double*>(v.x), v.column, v.start, v.n, v.d})
                      : f(Csr<float>{static_cast<const float*>(v.x), v.column, v.start, v.n, v.d});
    return v.wide ? f(Dense<double>{static_cast<const double*>(v.x), v.n, v.d})
                  : f(Dense<float>{static_cast<const float*>(v.x), v.n, v.d});
}

}  // namespace

const Kernels kernels = {
    KV_TEXT(KV_ISA),
    [](const View& v, const double* c, index_t k, label_t* labels, Changes* changes, float step) {
        return with_rows(v, [&](auto rows) { return assign(rows, c, k, labels, changes, step); });
    },
    [](const View& v, const double* c, index_t k, const float* moved, label_t* labels, float* upper,
       float* lower, bool tighten, Changes* changes) {
        return with_rows(v, [&](auto rows) {
            return assign_hamerly(rows, c, k, moved, labels, upper, lower, tighten, changes);
        });
    },
    [](const View& v, const double* c, index_t k, const float* moved, float* drift, label_t* labels,
       float* upper, float* lower, Changes* changes) {
        return with_rows(v, [&](auto rows) {
            return assign_elkan(rows, c, k, moved, drift, labels, upper, lower, changes);
        });
    },
    [](const View& v, const double* c, index_t k, const TwoNearest& out) {
        with_rows(v, [&](auto rows) { two_nearest(rows, c, k, out); });
    },
    [](const View& v, const double* weight, index_t k, const Drifts& drifts, const Partition& p) {
        return with_rows(v, [&](auto rows) { return hartigan(rows, weight, k, drifts, p); });
    },
    [](const View& v, const double* c, index_t k, const std::int32_t* group, const float* moved,
       label_t* labels, float* upper, float* lower, Changes* changes) {
        return with_rows(v, [&](auto rows) {
            return assign_yinyang(rows, c, k, group, moved, labels, upper, lower, changes);
        });
    },
    [](const View& v, const double* weight, const label_t* labels, const Changes* changes, index_t k,
       const Sums& sums) {
        with_rows(v, [&](auto rows) { update(rows, weight, labels, changes, k, sums, v.sparse); });
    },
    [](const View& v, const double* c, index_t k, const label_t* labels, double* cost) {
        with_rows(v, [&](auto rows) { own_cost(rows, c, k, labels, cost); });
    },
    [](const View& v, const double* c, index_t k, bool squared, void* out) {
        with_rows(v, [&](auto rows) {
            using T = typename decltype(rows)::value_type;
            distances(rows, c, k, squared, static_cast<T*>(out));
        });
    },
    [](const View& v) { return with_rows(v, [&](auto rows) { return spread(rows); }); },
    [](const View& v, const double* c, index_t m, label_t first, const double* limit, const Potential& p) {
        with_rows(v, [&](auto rows) { absorb(rows, c, m, first, limit, p); });
    },
    [](const View& v, const double* cost, Shadow& shadow) {
        return with_rows(v, [&](auto rows) { return cast(rows, cost, shadow); });
    },
    [](const View& v, const Shadow* shadow, const double* c, index_t m, const double* limit,
       const Potential& p, double* gain, Hits& hits) {
        with_rows(v, [&](auto rows) { gains(rows, shadow, c, m, limit, p, gain, hits); });
    },
    [](const View& v, Shadow* shadow, const double* c, label_t candidate, label_t name, const double* limit,
       const Potential& p, const Hits& hits) {
        with_rows(v, [&](auto rows) { adopt(rows, shadow, c, candidate, name, limit, p, hits); });
    },
    [](const View& v, const double* c, index_t m, label_t first, const Potential& p, const double* u, index_t count) {
        return with_rows(v, [&](auto rows) { return draw(rows, c, m, first, p, u, count); });
    },
    &metric_kernels,
    &dual_kernels,
    &tree_kernels,
    &fixed_kernels,
};

}  // namespace kv::KV_ISA
