// Bindings: distances under L1, L2 and cosine, and swaps of medoids.
#include "bind.hpp"

namespace kv::binding {
namespace {

PointsView points_view(const Matrix& x, const std::optional<Matrix>& turned) {
    const index_t n = extent(x, 0), d = extent(x, 1);
    require(d > 0, "rows must have at least one feature");
    require(!turned || (turned->dtype() == x.dtype() && extent(*turned, 0) == d && extent(*turned, 1) == n),
            "the transposed rows do not fit the rows");
    return {is_double(x), x.data(), turned ? turned->data() : nullptr, n, d};
}

// Checks that all arrays of distances have one type, that of `distances`.
template <class A>
MedoidsView medoids_view(const A& distances, index_t n, const Out<label_t>& slot, const Out<label_t>& second,
                         const OutValues& cost, const OutValues& second_cost) {
    require(cost.dtype() == second_cost.dtype() && cost.dtype() == distances.dtype(), "distances have two types");
    return {is_double(cost), {data_of(slot, n), data_of(second, n), data_of(cost, n), data_of(second_cost, n)}};
}

void metric_rows(Matrix x, std::optional<Matrix> turned, Matrix points, int kind, OutMatrix out) {
    const PointsView v = points_view(x, turned);
    const index_t m = extent(points, 0);
    require(points.dtype() == x.dtype() && out.dtype() == x.dtype(), "points and rows have two types");
    require(extent(points, 1) == v.d, "points must have as many features as the rows");
    void* to = data_of(out, m * v.n);
    run([&] { active->metric->rows(v, points.data(), m, kind, to); });
}

void metric_square(Matrix x, std::optional<Matrix> turned, int kind, OutMatrix out) {
    const PointsView v = points_view(x, turned);
    require(out.dtype() == x.dtype(), "distances must have the type of the rows");
    void* to = data_of(out, v.n * v.n);
    run([&] { active->metric->square(v, kind, to); });
}

void two_nearest_rows(Matrix rows, Out<label_t> slot, Out<label_t> second, OutValues cost, OutValues second_cost) {
    const index_t k = extent(rows, 0), n = extent(rows, 1);
    const MedoidsView near = medoids_view(rows, n, slot, second, cost, second_cost);
    require(k > 0, "there are no medoids");
    run([&] { active->metric->two_nearest(rows.data(), k, n, near); });
}

void swap_changes(Matrix rows, Out<label_t> slot, Out<label_t> second, OutValues cost, OutValues second_cost,
                  OptionalIn<double> weight, OutTable out) {
    const index_t count = extent(rows, 0), n = extent(rows, 1), k = extent(out, 1);
    const MedoidsView near = medoids_view(rows, n, slot, second, cost, second_cost);
    indices_of(slot, k, "a slot is out of range");
    const double* w = data_of(weight, n);
    double* to = data_of(out, count * k);
    run([&] { active->metric->swap_changes(rows.data(), count, n, k, near, w, to); });
}

index_t swap_patch(Values row, label_t swapped, Out<label_t> slot, Out<label_t> second, OutValues cost,
                   OutValues second_cost, Out<index_t> unknown) {
    const index_t n = length(row);
    const MedoidsView near = medoids_view(row, n, slot, second, cost, second_cost);
    index_t* to = data_of(unknown, n);
    return run([&] { return active->metric->swap_patch(row.data(), n, swapped, near, to); });
}

nb::tuple eager_swaps(Matrix D, Out<index_t> chosen, Out<label_t> slot, Out<label_t> second, OutValues cost,
                      OutValues second_cost, OptionalIn<double> weight, In<index_t> order, index_t block, double tol,
                      index_t most, index_t restarts, index_t strength, std::uint64_t seed, OptionalIn<index_t> point) {
    const index_t all = extent(D, 0), n = extent(D, 1), k = length(chosen);
    const MedoidsView near = medoids_view(D, n, slot, second, cost, second_cost);
    require(k > 0 && block > 0 && strength > 0, "there must be medoids, a block size and a strength");
    index_t* medoids = indices_of(chosen, all, "a medoid is out of range");
    const double* w = data_of(weight, n);
    const SwapOptions options{indices_of(order, all, "a candidate is out of range"), length(order), block, tol, most};
    if (point) indices_of(*point, all, "a point is out of range");
    const Restarts again{restarts, strength, seed, data_of(point, n)};
    require(point || restarts == 0 || all == n, "restarts need to know which candidates the columns are");
    const SwapResult out =
        run([&] { return active->metric->eager_swaps(D.data(), all, n, k, medoids, near, w, options, again); });
    return nb::make_tuple(out.swaps, out.cost, out.converged);
}

nb::tuple check_distances(Matrix D, double close, double triangles) {
    const index_t n = extent(D, 0);
    require(extent(D, 1) == n, "the matrix is not square");
    const bool is64 = is_double(D);
    const DistanceFlaw found =
        run([&] { return active->metric->check_distances(is64, D.data(), n, close, triangles); });
    return nb::make_tuple(static_cast<int>(found.flaw), found.i, found.j, found.via);
}

bool to_float32(Table D, Array<2, float> out) {
    float* to = data_of(out, length(D));
    return run([&] { return active->metric->to_float32(D.data(), length(D), to); });
}

}  // namespace

void bind_metric(nb::module_& m) {
    m.def("to_float32", to_float32, "D"_a, "out"_a);
    m.def("check_distances", check_distances, "D"_a, "close"_a, "triangles"_a);
    m.def("metric_rows", metric_rows, "x"_a, "turned"_a.none(), "points"_a, "kind"_a, "out"_a);
    m.def("metric_square", metric_square, "x"_a, "turned"_a.none(), "kind"_a, "out"_a);
    m.def("two_nearest_rows", two_nearest_rows, "rows"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a);
    m.def("swap_changes", swap_changes, "rows"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a, "weight"_a.none(),
          "out"_a);
    m.def("swap_patch", swap_patch, "row"_a, "swapped"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a, "unknown"_a);
    m.def("eager_swaps", eager_swaps, "D"_a, "chosen"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a,
          "weight"_a.none(), "order"_a, "block"_a, "tol"_a, "most"_a, "restarts"_a = 0, "strength"_a = 2, "seed"_a = 0,
          "point"_a.none() = nb::none());
}

}  // namespace kv::binding
