// Bindings: the 2-HST.
#include "bind.hpp"

#include "tree_lists.hpp"
#include "tree_seed.hpp"

namespace kv::bound {
namespace {

nb::tuple parts(Grown&& tree) {
    return nb::make_tuple(handed(std::move(tree.parent)), handed(std::move(tree.height)),
                          handed(std::move(tree.centre)), handed(std::move(tree.leaf)), tree.unit);
}

index_t points(std::size_t n) {
    need(n > 0 && n < static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()), "no points, or too many");
    return static_cast<index_t>(n);
}

nb::tuple over_rows(Matrix x, bool manhattan, std::uint64_t seed) {
    const View v{false, wide(x.dtype()), x.data(), nullptr, nullptr, points(x.shape(0)), static_cast<index_t>(x.shape(1))};
    Grown tree;
    run([&] { active->tree->over_rows(v, manhattan, seed, tree); });
    return parts(std::move(tree));
}

nb::tuple over_csr(nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu> data, In<std::int32_t> indices,
                   In<index_t> indptr, index_t features, bool manhattan, std::uint64_t seed) {
    need(data.shape(0) == indices.shape(0) && indptr.shape(0) > 0, "a CSR matrix of unequal parts");
    const index_t n = points(indptr.shape(0) - 1);
    need(indptr.data()[n] <= static_cast<index_t>(data.shape(0)), "indptr past the data");
    for (std::size_t a = 0; a < indices.size(); ++a)
        need(indices.data()[a] >= 0 && indices.data()[a] < features, "a column that is not there");
    const View v{true, wide(data.dtype()), data.data(), indices.data(), indptr.data(), n, features};
    Grown tree;
    run([&] { active->tree->over_rows(v, manhattan, seed, tree); });
    return parts(std::move(tree));
}

nb::tuple over_matrix(Matrix D, std::uint64_t seed) {
    need(D.shape(0) == D.shape(1), "a matrix of distances is square");
    const index_t n = points(D.shape(0));
    Grown tree;
    run([&] { active->tree->over_matrix(D.data(), wide(D.dtype()), n, seed, tree); });
    return parts(std::move(tree));
}

// among(point, others): distances as an array of float64. Python's lock is kept.
nb::tuple over_called(nb::callable among, std::size_t n, std::uint64_t seed) {
    const Among measure = [&](index_t from, const std::int32_t* others, index_t count, double* out) {
        std::vector<index_t> who(others, others + count);
        const nb::object row = among(from, handed(std::move(who)));
        const In<double> values = nb::cast<In<double>>(row);
        std::copy_n(sized(values, count), count, out);
    };
    Grown tree;
    try {
        active->tree->over_called(measure, points(n), seed, tree);
    } catch (const Interrupted&) {
        throw nb::python_error();
    }
    return parts(std::move(tree));
}

nb::tuple over_lists(In<index_t> start, In<std::int32_t> node, In<double> distance, std::uint64_t seed) {
    const index_t n = points(start.size() - 1), entries = static_cast<index_t>(node.size());
    const double* d = sized(distance, entries);
    need(start.data()[0] == 0 && start.data()[n] == entries, "lists past their entries");
    for (index_t i = 0; i < n; ++i)
        need(start.data()[i] < start.data()[i + 1] && d[start.data()[i + 1] - 1] == 0, "a list must end at distance 0");
    for (index_t i = 0; i < entries; ++i) need(node.data()[i] >= 0 && node.data()[i] < n, "a point out of range");
    const ListsView lists{start.data(), node.data(), d, n};
    return parts(run([&] { return TreeOfLists(lists, seed).grow(); }));
}

TreeView view(const In<index_t>& parent, const In<index_t>& height, index_t low) {
    const index_t nodes = points(parent.size());
    const TreeView t{parent.data(), sized(height, nodes), nodes, low};
    need(t.parent[0] == -1, "the root comes first");
    for (index_t v = 1; v < nodes; ++v) need(t.parent[v] >= 0 && t.parent[v] < v, "parents come before children");
    return t;
}

void lowest_common(In<index_t> parent, In<index_t> height, In<index_t> a, In<index_t> b, Out<index_t> out) {
    const TreeView t = view(parent, height, 0);
    const auto pairs = static_cast<index_t>(a.size());
    const index_t* other = sized(b, pairs);
    index_t* to = sized(out, pairs);
    for (index_t i = 0; i < pairs; ++i) {
        const index_t u = a.data()[i], v = other[i];
        need(u >= 0 && v >= 0 && u < t.nodes && v < t.nodes, "a node that is not there");
        to[i] = common(t, u, v);
    }
}

void tree_counts(In<index_t> parent, In<index_t> leaf, Maybe<double> weight, Out<double> out) {
    const TreeView t = view(parent, parent, 0);
    const auto n = static_cast<index_t>(leaf.size());
    for (index_t i = 0; i < n; ++i) need(leaf.data()[i] >= 0 && leaf.data()[i] < t.nodes, "a leaf that is not there");
    counts(t, leaf.data(), n, sized(weight, n), sized(out, t.nodes));
}

nb::object leaves(In<index_t> parent, In<index_t> height, index_t low, In<double> count, index_t k, int power, bool exact) {
    const TreeView t = view(parent, height, low);
    const double* c = sized(count, t.nodes);
    return handed(exact ? leaves_exactly(t, c, k, power) : leaves_by_score(t, c, k, power));
}

}  // namespace

void tree(nb::module_& m) {
    m.def("tree_over_rows", over_rows, "x"_a, "manhattan"_a, "seed"_a);
    m.def("tree_over_csr", over_csr, "data"_a, "indices"_a, "indptr"_a, "n_features"_a, "manhattan"_a, "seed"_a);
    m.def("tree_over_matrix", over_matrix, "D"_a, "seed"_a);
    m.def("tree_over_callable", over_called, "among"_a, "n"_a, "seed"_a);
    m.def("tree_over_lists", over_lists, "start"_a, "node"_a, "distance"_a, "seed"_a);
    m.def("tree_common", lowest_common, "parent"_a, "height"_a, "a"_a, "b"_a, "out"_a);
    m.def("tree_counts", tree_counts, "parent"_a, "leaf"_a, "weight"_a.none(), "out"_a);
    m.def("tree_leaves", leaves, "parent"_a, "height"_a, "low"_a, "counts"_a, "k"_a, "power"_a, "exact"_a);
}

}  // namespace kv::bound
