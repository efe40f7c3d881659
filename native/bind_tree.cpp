// Bindings: the 2-HST and queries of it.
#include "bind.hpp"
#include "tree_lists.hpp"
#include "tree_queries.hpp"

namespace kv::binding {
namespace {

nb::tuple parts(Tree&& tree) {
    return nb::make_tuple(to_numpy(std::move(tree.parent)), to_numpy(std::move(tree.height)),
                          to_numpy(std::move(tree.center)), to_numpy(std::move(tree.leaf)), tree.unit);
}

index_t count_points(index_t n) {
    require(n > 0 && n < std::numeric_limits<std::int32_t>::max(), "there are no points, or too many");
    return n;
}

nb::tuple over_view(const RowsView& v, bool manhattan, std::uint64_t seed) {
    count_points(v.n);
    Tree tree;
    run([&] { active->tree->over_rows(v, manhattan, seed, tree); });
    return parts(std::move(tree));
}

nb::tuple over_rows(Matrix x, bool manhattan, std::uint64_t seed) { return over_view(dense_view(x), manhattan, seed); }

nb::tuple over_csr(Values data, In<std::int32_t> indices, In<index_t> indptr, index_t features, bool manhattan,
                   std::uint64_t seed) {
    return over_view(csr_view(data, indices, indptr, features), manhattan, seed);
}

nb::tuple over_matrix(Matrix D, std::uint64_t seed) {
    require(extent(D, 0) == extent(D, 1), "the matrix is not square");
    const index_t n = count_points(extent(D, 0));
    const bool is64 = is_double(D);
    Tree tree;
    run([&] { active->tree->over_matrix(D.data(), is64, n, seed, tree); });
    return parts(std::move(tree));
}

// among(point, others) returns distances as an array of float64. The interpreter's lock stays held.
nb::tuple over_callable(nb::callable among, index_t n, std::uint64_t seed) {
    const DistancesFrom distances_from = [&](index_t from, const std::int32_t* others, index_t count, double* out) {
        const nb::object row =
            asking_python([&] { return among(from, to_numpy(std::vector<index_t>(others, others + count))); });
        std::copy_n(data_of(nb::cast<In<double>>(row), count), count, out);
    };
    Tree tree;
    try {
        active->tree->over_callable(distances_from, count_points(n), seed, tree);
    } catch (const Interrupted&) {
        throw nb::python_error();
    }
    return parts(std::move(tree));
}

nb::tuple over_lists(In<index_t> start, In<std::int32_t> node, In<double> distance, std::uint64_t seed) {
    const index_t n = count_points(length(start) - 1), entries = length(node), *s = start.data();
    const double* d = data_of(distance, entries);
    check_starts(start, n, entries, "the starts of the lists do not fit their entries");
    for (index_t i = 0; i < n; ++i)
        require(s[i] < s[i + 1] && d[s[i + 1] - 1] == 0, "a list must end with a distance of 0");
    const LeastElements lists{s, indices_of(node, n, "a point is out of range"), d, n};
    return parts(run([&] { return ListTreeBuilder(lists, seed).build(); }));
}

TreeView tree_view(const In<index_t>& parent, const In<index_t>& height, index_t low) {
    const index_t nodes = count_points(length(parent));
    const TreeView t{parent.data(), data_of(height, nodes), nodes, low};
    require(t.parent[0] == -1, "the root must come first");
    for (index_t v = 1; v < nodes; ++v)
        require(t.parent[v] >= 0 && t.parent[v] < v, "parents must come before children");
    return t;
}

void common(In<index_t> parent, In<index_t> height, In<index_t> a, In<index_t> b, Out<index_t> out) {
    const TreeView t = tree_view(parent, height, 0);
    const index_t pairs = length(a), *u = indices_of(a, t.nodes, "a node is out of range");
    require(length(b) == pairs, "an array has the wrong length");
    const index_t* v = indices_of(b, t.nodes, "a node is out of range");
    index_t* to = data_of(out, pairs);
    for (index_t i = 0; i < pairs; ++i) to[i] = common_ancestor(t, u[i], v[i]);
}

void tree_counts(In<index_t> parent, In<index_t> leaf, OptionalIn<double> weight, Out<double> out) {
    const TreeView t = tree_view(parent, parent, 0);
    const index_t n = length(leaf), *leaves = indices_of(leaf, t.nodes, "a leaf is out of range");
    counts(t, leaves, n, data_of(weight, n), data_of(out, t.nodes));
}

nb::object leaves(In<index_t> parent, In<index_t> height, index_t low, In<double> counts, index_t k, int power,
                  bool exact) {
    const TreeView t = tree_view(parent, height, low);
    const double* c = data_of(counts, t.nodes);
    require(k > 0, "there must be at least one leaf");
    return to_numpy(exact ? leaves_exactly(t, c, k, power) : leaves_by_score(t, c, k, power));
}

}  // namespace

void bind_tree(nb::module_& m) {
    m.def("tree_over_rows", over_rows, "x"_a, "manhattan"_a, "seed"_a);
    m.def("tree_over_csr", over_csr, "data"_a, "indices"_a, "indptr"_a, "n_features"_a, "manhattan"_a, "seed"_a);
    m.def("tree_over_matrix", over_matrix, "D"_a, "seed"_a);
    m.def("tree_over_callable", over_callable, "among"_a, "n"_a, "seed"_a);
    m.def("tree_over_lists", over_lists, "start"_a, "node"_a, "distance"_a, "seed"_a);
    m.def("tree_common", common, "parent"_a, "height"_a, "a"_a, "b"_a, "out"_a);
    m.def("tree_counts", tree_counts, "parent"_a, "leaf"_a, "weight"_a.none(), "out"_a);
    m.def("tree_leaves", leaves, "parent"_a, "height"_a, "low"_a, "counts"_a, "k"_a, "power"_a, "exact"_a);
}

}  // namespace kv::binding
