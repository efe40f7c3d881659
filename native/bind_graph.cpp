// Bindings: shortest paths on a weighted graph.
#include "bind.hpp"
#include "graph.hpp"

namespace kv::binding {
namespace {

// The searches and the arrays that they read.
struct Graph {
    std::unique_ptr<ShortestPaths> paths;
    nb::object owner;
    index_t n() const { return paths->n(); }
    const index_t* nodes(const In<index_t>& a) const { return indices_of(a, n(), "a node is out of range"); }
};

Graph graph_view(In<index_t> indptr, In<std::int32_t> indices, In<double> data) {
    require(length(indptr) > 0 && length(indices) == length(data), "the parts of the graph do not fit");
    const index_t n = length(indptr) - 1;
    require(n < std::numeric_limits<std::int32_t>::max(), "there are more nodes than 32 bits can number");
    check_starts(indptr, n, length(data), "indptr of a graph must rise from 0 to the number of its edges");
    bool usable = true;  // a search does not end if lengths are negative
    for (index_t e = 0; e < length(data); ++e)
        usable &= data.data()[e] >= 0 && data.data()[e] <= std::numeric_limits<double>::max();
    require(usable, "the lengths of edges must be finite and not negative");
    const GraphView graph{indptr.data(), indices_of(indices, n, "an edge leads to no node"), data.data(), n};
    return {std::make_unique<ShortestPaths>(graph), nb::make_tuple(indptr, indices, data)};
}

TwoNearest<double> nearest(const Graph& g, const Out<label_t>& slot, const Out<label_t>& second,
                           const Out<double>& cost, const Out<double>& second_cost) {
    return {data_of(slot, g.n()), data_of(second, g.n()), data_of(cost, g.n()), data_of(second_cost, g.n())};
}

nb::tuple parts(NodeLists&& lists) {
    return nb::make_tuple(to_numpy(std::move(lists.start)), to_numpy(std::move(lists.node)),
                          to_numpy(std::move(lists.distance)));
}

void distances(const Graph& g, In<index_t> points, OutTable out) {
    const index_t* from = g.nodes(points);
    double* to = data_of(out, length(points) * g.n());
    run([&] { g.paths->distances(from, length(points), to); });
}

void among(const Graph& g, index_t point, In<index_t> others, Out<double> out) {
    require(point >= 0 && point < g.n(), "a node is out of range");
    const index_t* to = g.nodes(others);
    double* d = data_of(out, length(others));
    run([&] { g.paths->among(point, to, length(others), d); });
}

nb::tuple ball(const Graph& g, In<index_t> points, In<double> radii) {
    const index_t* from = g.nodes(points);
    const double* radius = data_of(radii, length(points));
    return parts(run([&] { return g.paths->ball(from, radius, length(points)); }));
}

void two_nearest(const Graph& g, In<index_t> chosen, Out<label_t> slot, Out<label_t> second, Out<double> cost,
                 Out<double> second_cost) {
    const index_t* at = g.nodes(chosen);
    require(length(chosen) > 0, "there are no chosen points");
    const auto out = nearest(g, slot, second, cost, second_cost);
    run([&] { g.paths->two_nearest(at, length(chosen), out); });
}

void swapped(const Graph& g, In<index_t> chosen, label_t replaced, Out<label_t> slot, Out<label_t> second,
             Out<double> cost, Out<double> second_cost) {
    const index_t* at = g.nodes(chosen);
    require(replaced >= 0 && replaced < length(chosen), "a slot is out of range");
    const auto near = nearest(g, slot, second, cost, second_cost);
    run([&] { g.paths->swapped(at, length(chosen), replaced, near); });
}

void swap_changes(const Graph& g, In<index_t> candidates, Out<label_t> slot, Out<label_t> second, Out<double> cost,
                  Out<double> second_cost, OptionalIn<double> weight, OutTable out) {
    const index_t *from = g.nodes(candidates), k = extent(out, 1);
    const auto near = nearest(g, slot, second, cost, second_cost);
    const double* w = data_of(weight, g.n());
    require(k > 0, "there are no slots");
    for (const auto& slots : {slot, second}) indices_of(slots, k, "a slot is out of range");
    double* to = data_of(out, length(candidates) * k);
    run([&] { g.paths->swap_changes(from, length(candidates), near, k, w, to); });
}

nb::tuple least_elements(const Graph& g, In<index_t> order) {
    const index_t* at = g.nodes(order);
    return parts(run([&] { return g.paths->least_elements(at, length(order)); }));
}

}  // namespace

void bind_graph(nb::module_& m) {
    nb::class_<Graph>(m, "GraphView").def_prop_ro("n", &Graph::n);
    m.def("graph_view", graph_view, "indptr"_a, "indices"_a, "data"_a);
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

}  // namespace kv::binding
