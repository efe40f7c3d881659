// Bindings: shortest paths on a weighted graph.
#include "bind.hpp"

#include <memory>

#include "graph.hpp"

namespace kv::bound {
namespace {

// The searches, and the arrays they read.
struct Roads {
    std::unique_ptr<Paths> paths;
    nb::object owner;
};

Roads roads(In<index_t> indptr, In<std::int32_t> indices, In<double> data) {
    need(indptr.size() > 0 && indices.size() == data.size(), "a graph of unequal parts");
    const auto n = static_cast<index_t>(indptr.size()) - 1;
    const index_t* start = indptr.data();
    need(n < std::numeric_limits<std::int32_t>::max(), "more nodes than 32 bits can number");
    need(start[0] == 0 && start[n] == static_cast<index_t>(data.size()), "indptr past the edges");
    for (index_t x = 0; x < n; ++x) need(start[x] <= start[x + 1], "indptr goes down");
    for (std::size_t e = 0; e < indices.size(); ++e)
        need(indices.data()[e] >= 0 && indices.data()[e] < n, "an edge to a node that is not there");
    const Links links{start, indices.data(), data.data(), n};
    return {std::make_unique<Paths>(links), nb::make_tuple(indptr, indices, data)};
}

const index_t* nodes(const Roads& r, const In<index_t>& at) {
    for (std::size_t i = 0; i < at.size(); ++i)
        need(at.data()[i] >= 0 && at.data()[i] < r.paths->n(), "a point that is not there");
    return at.data();
}

index_t length(const In<index_t>& a) { return static_cast<index_t>(a.size()); }

TwoLabels labels(const Roads& r, const Out<label_t>& slot, const Out<label_t>& second, const Out<double>& cost,
                 const Out<double>& second_cost) {
    const index_t n = r.paths->n();
    return {sized(slot, n), sized(second, n), sized(cost, n), sized(second_cost, n)};
}

void check_slots(const Roads& r, const TwoLabels& near, index_t k) {
    for (index_t x = 0; x < r.paths->n(); ++x)
        need(near.slot[x] >= 0 && near.slot[x] < k && near.second[x] >= 0 && near.second[x] < k, "a slot out of range");
}

nb::tuple parts(NodeLists&& lists) {
    return nb::make_tuple(handed(std::move(lists.start)), handed(std::move(lists.node)),
                          handed(std::move(lists.distance)));
}

void distances(const Roads& r, In<index_t> points, OutTable out) {
    const index_t* from = nodes(r, points);
    double* to = sized(out, length(points) * r.paths->n());
    run([&] { r.paths->distances(from, length(points), to); });
}

void among(const Roads& r, index_t point, In<index_t> others, Out<double> out) {
    need(point >= 0 && point < r.paths->n(), "a point that is not there");
    const index_t* to = nodes(r, others);
    double* d = sized(out, length(others));
    run([&] { r.paths->among(point, to, length(others), d); });
}

nb::tuple ball(const Roads& r, In<index_t> points, In<double> radii) {
    const index_t* from = nodes(r, points);
    const double* radius = sized(radii, length(points));
    return parts(run([&] { return r.paths->ball(from, radius, length(points)); }));
}

void two_nearest(const Roads& r, In<index_t> chosen, Out<label_t> slot, Out<label_t> second, Out<double> cost,
                 Out<double> second_cost) {
    const index_t* at = nodes(r, chosen);
    need(length(chosen) > 0, "no points chosen");
    const TwoLabels out = labels(r, slot, second, cost, second_cost);
    run([&] { r.paths->two_nearest(at, length(chosen), out); });
}

void swapped(const Roads& r, In<index_t> chosen, label_t replaced, Out<label_t> slot, Out<label_t> second,
             Out<double> cost, Out<double> second_cost) {
    const index_t* at = nodes(r, chosen);
    const index_t k = length(chosen);
    need(replaced >= 0 && replaced < k, "a slot out of range");
    const TwoLabels near = labels(r, slot, second, cost, second_cost);
    run([&] { r.paths->swapped(at, k, replaced, near); });
}

void swap_changes(const Roads& r, In<index_t> candidates, Out<label_t> slot, Out<label_t> second, Out<double> cost,
                  Out<double> second_cost, Maybe<double> weight, OutTable out) {
    const index_t* from = nodes(r, candidates);
    const TwoLabels near = labels(r, slot, second, cost, second_cost);
    const double* w = sized(weight, r.paths->n());
    const auto k = static_cast<index_t>(out.shape(1));
    need(k > 0, "no slots");
    check_slots(r, near, k);
    double* to = sized(out, length(candidates) * k);
    run([&] { r.paths->swap_changes(from, length(candidates), near, k, w, to); });
}

nb::tuple least_elements(const Roads& r, In<index_t> order) {
    const index_t* at = nodes(r, order);
    return parts(run([&] { return r.paths->least_elements(at, length(order)); }));
}

}  // namespace

void graph(nb::module_& m) {
    nb::class_<Roads>(m, "GraphView").def_prop_ro("n", [](const Roads& r) { return r.paths->n(); });
    m.def("graph_view", roads, "indptr"_a, "indices"_a, "data"_a);
    m.def("graph_distances", distances, "graph"_a, "points"_a, "out"_a);
    m.def("graph_among", among, "graph"_a, "point"_a, "others"_a, "out"_a);
    m.def("graph_ball", ball, "graph"_a, "points"_a, "radii"_a);
    m.def("graph_two_nearest", two_nearest, "graph"_a, "chosen"_a, "slot"_a, "second"_a, "cost"_a, "second_cost"_a);
    m.def("graph_swapped", swapped, "graph"_a, "chosen"_a, "replaced"_a, "slot"_a, "second"_a, "cost"_a,
          "second_cost"_a);
    m.def("graph_swap_changes", swap_changes, "graph"_a, "candidates"_a, "slot"_a, "second"_a, "cost"_a,
          "second_cost"_a, "weight"_a.none(), "out"_a);
    m.def("graph_least_elements", least_elements, "graph"_a, "order"_a);
}

}  // namespace kv::bound
