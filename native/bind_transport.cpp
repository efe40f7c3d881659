// Bindings: assignment of rows to clusters whose sizes have limits.
#include "bind.hpp"

namespace kv::binding {
namespace {

// All supplies together; they must be positive.
index_t total_supply(const OptionalIn<index_t>& supply, index_t n) {
    if (!supply) return n;
    index_t sum = 0;
    for (index_t i = 0; i < n; ++i) {
        require(supply->data()[i] > 0, "the supply of a row must be positive");
        require(!__builtin_add_overflow(sum, supply->data()[i], &sum), "the supplies are too large");
    }
    return sum;
}

nb::tuple transport(const Rows& rows, Table centers, OptionalIn<index_t> supply, index_t low, index_t high, double tau,
                    Out<double> price, Out<label_t> labels) {
    const index_t k = count_some_centers(rows, centers), n = rows.view.n;
    require(n < std::numeric_limits<std::int32_t>::max(), "there are more rows than can be numbered");
    const index_t* units = data_of(supply, n);
    const index_t total = total_supply(supply, n);
    require(low >= 0 && low <= total / k && high >= (total + k - 1) / k && high <= total,
            "no sizes within these limits add up to the supply");
    require(tau > 0, "tau must be positive");
    double* p = data_of(price, k);
    label_t* to = data_of(labels, n);
    TransportResult result = run([&] {
        const auto collect = [&](const double* at, double within, bool keep, label_t* found, PricedArcs& arcs) {
            active->collect_arcs(rows.view, centers.data(), k, at, within, keep, found, &arcs);
        };
        return kv::transport({n, k, units, low, high}, collect, tau, p, to);
    });
    std::vector<index_t> row, cluster, part;
    for (const RowPart& x : result.parts) row.push_back(x.row), cluster.push_back(x.cluster), part.push_back(x.units);
    return nb::make_tuple(to_numpy(std::move(row)), to_numpy(std::move(cluster)), to_numpy(std::move(part)),
                          result.range, result.passes, result.paths);
}

}  // namespace

void bind_transport(nb::module_& m) {
    m.def("transport", transport, "rows"_a, "centers"_a, "supply"_a.none(), "low"_a, "high"_a, "tau"_a, "price"_a,
          "labels"_a);
}

}  // namespace kv::binding
