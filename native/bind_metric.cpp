// Bindings: distances under L1, L2 and cosine, and swaps of medoids.
#include "bind.hpp"

namespace kv::bound {
namespace {

using Floats = nb::ndarray<nb::ndim<1>, nb::c_contig, nb::device::cpu>;

PointsView view(const Matrix& x, const std::optional<Matrix>& turned) {
    const index_t n = static_cast<index_t>(x.shape(0)), d = static_cast<index_t>(x.shape(1));
    need(!turned || (turned->dtype() == x.dtype() && static_cast<index_t>(turned->shape(0)) == d &&
                     static_cast<index_t>(turned->shape(1)) == n),
         "turned rows of another shape");
    return {wide(x.dtype()), x.data(), turned ? turned->data() : nullptr, n, d};
}

NearView near_view(index_t n, const Out<label_t>& slot, const Out<label_t>& second, const Floats& cost,
                   const Floats& second_cost) {
    need(cost.dtype() == second_cost.dtype(), "costs of two types");
    return {wide(cost.dtype()), sized(slot, n), sized(second, n), sized(cost, n), sized(second_cost, n)};
}

void metric_rows(Matrix x, std::optional<Matrix> turned, Matrix points, int kind, OutMatrix out) {
    const PointsView v = view(x, turned);
    const index_t m = static_cast<index_t>(points.shape(0));
    need(points.dtype() == x.dtype() && out.dtype() == x.dtype(), "points of another type");
    need(static_cast<index_t>(points.shape(1)) == v.d, "points with other features");
    void* to = sized(out, m * v.n);
    run([&] { active->metric->rows(v, points.data(), m, kind, to); });
}

void metric_square(Matrix x, std::optional<Matrix> turned, int kind, OutMatrix out) {
    const PointsView v = view(x, turned);
    need(out.dtype() == x.dtype(), "distances of another type");
    void* to = sized(out, v.n * v.n);
    run([&] { active->metric->square(v, kind, to); });
}

void near_rows(Matrix rows, Out<label_t> slot, Out<label_t> second, Floats cost, Floats second_cost) {
    const index_t k = static_cast<index_t>(rows.shape(0)), n = static_cast<index_t>(rows.shape(1));
    const NearView near = near_view(n, slot, second, cost, second_cost);
    need(rows.dtype() == cost.dtype() && k > 0, "rows of another type, or none");
    run([&] { active->metric->two_nearest(rows.data(), k, n, near); });
}

void swap_changes(Matrix rows, Out<label_t> slot, Out<label_t> second, Floats cost, Floats second_cost,
                  Maybe<double> weight, OutTable out) {
    const index_t count = static_cast<index_t>(rows.shape(0)), n = static_cast<index_t>(rows.shape(1));
    const index_t k = static_cast<index_t>(out.shape(1));
    const NearView near = near_view(n, slot, second, cost, second_cost);
    need(rows.dtype() == cost.dtype(), "rows of another type");
    for (index_t i = 0; i < n; ++i) need(near.slot[i] >= 0 && near.slot[i] < k, "a slot out of range");
    const double* w = sized(weight, n);
    double* to = sized(out, count * k);
    run([&] { active->metric->swap_changes(rows.data(), count, n, k, near, w, to); });
}

index_t swap_patch(nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu> row, label_t slot_of, Out<label_t> slot,
                   Out<label_t> second, Floats cost, Floats second_cost, Out<index_t> unknown) {
    const index_t n = static_cast<index_t>(row.shape(0));
    const NearView near = near_view(n, slot, second, cost, second_cost);
    need(row.dtype() == cost.dtype(), "a row of another type");
    index_t* to = sized(unknown, n);
    return run([&] { return active->metric->swap_patch(row.data(), n, slot_of, near, to); });
}

nb::tuple sweep(Matrix D, Out<index_t> chosen, Out<label_t> slot, Out<label_t> second, Floats cost, Floats second_cost,
                Maybe<double> weight, In<index_t> order, index_t block, double tol, index_t most,
                index_t restarts, index_t strength, std::uint64_t seed, Maybe<index_t> point) {
    const index_t all = static_cast<index_t>(D.shape(0)), n = static_cast<index_t>(D.shape(1));
    const index_t k = static_cast<index_t>(chosen.size()), count = static_cast<index_t>(order.size());
    const NearView near = near_view(n, slot, second, cost, second_cost);
    need(D.dtype() == cost.dtype() && k > 0 && block > 0, "a matrix of another type, no medoids or no block");
    for (index_t i = 0; i < k; ++i) need(chosen.data()[i] >= 0 && chosen.data()[i] < all, "a medoid out of range");
    for (index_t i = 0; i < count; ++i) need(order.data()[i] >= 0 && order.data()[i] < all, "a candidate out of range");
    const double* w = sized(weight, n);
    const Round round{order.data(), count, block, tol, most};
    const Restarts again{restarts, strength, seed, sized(point, n)};
    for (index_t i = 0; again.point && i < n; ++i) need(again.point[i] >= 0 && again.point[i] < all, "a point out of range");
    need(again.point || restarts == 0 || all == n, "restarts need to know which candidates the columns are");
    const Swept out =
        run([&] { return active->metric->sweep(D.data(), all, n, k, chosen.data(), near, w, round, again); });
    return nb::make_tuple(out.swaps, out.cost, out.settled);
}

nb::tuple inspect(Matrix D, double close, double triangles) {
    const index_t n = static_cast<index_t>(D.shape(0));
    need(static_cast<index_t>(D.shape(1)) == n, "a matrix that is not square");
    const bool w = wide(D.dtype());
    const Found found = run([&] { return active->metric->inspect(w, D.data(), n, close, triangles); });
    return nb::make_tuple(static_cast<int>(found.flaw), found.i, found.j, found.by);
}

bool narrow(nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu> D,
            nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> out) {
    float* to = sized(out, static_cast<index_t>(D.size()));
    return run([&] { return active->metric->narrow(D.data(), static_cast<index_t>(D.size()), to); });
}

}  // namespace

void metric(nb::module_& m) {
    m.def("to_float32", narrow, "D"_a, "out"_a);
    m.def("check_distances", inspect, "D"_a, "close"_a, "triangles"_a);
    m.def("metric_rows", metric_rows, "x"_a, "turned"_a.none(), "points"_a, "kind"_a, "out"_a);
    m.def("metric_square", metric_square, "x"_a, "turned"_a.none(), "kind"_a, "out"_a);
    m.def("two_nearest_rows", near_rows, "rows"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a);
    m.def("swap_changes", swap_changes, "rows"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a, "weight"_a.none(),
          "out"_a);
    m.def("swap_patch", swap_patch, "row"_a, "swapped"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a, "unknown"_a);
    m.def("eager_swaps", sweep, "D"_a, "chosen"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a, "weight"_a.none(),
          "order"_a, "block"_a, "tol"_a, "most"_a, "restarts"_a = 0, "strength"_a = 2, "seed"_a = 0, "point"_a.none() = nb::none());
}

}  // namespace kv::bound
