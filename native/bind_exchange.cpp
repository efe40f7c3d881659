// Bindings: exchanges of units between groups (anti-clustering).
#include <cmath>

#include "bind.hpp"

namespace kv::binding {
namespace {

using Starts = Array<2, label_t>;  // runs x units

// Units, with the arrays checked that the kernels use as indices.
ExchangeUnits units_of(const Starts& labels, const In<index_t>& order, const In<index_t>& kind_start,
                       const In<index_t>& size, const In<index_t>& low, const In<index_t>& high,
                       const In<index_t>& link_start, const In<index_t>& link) {
    const index_t n = extent(labels, 1), groups = length(low), kinds = length(kind_start) - 1;
    require(n > 0 && groups > 0 && kinds > 0 && length(order) == n, "there must be units, groups and kinds");
    check_starts(kind_start, kinds, n, "the kinds do not fit the units");
    check_starts(link_start, n, length(link), "the links do not fit the units");
    std::vector<char> seen(n);
    for (index_t p = 0; p < n; ++p) {
        const index_t unit = order.data()[p];
        require(unit >= 0 && unit < n && !seen[unit], "the order must list every unit once");
        seen[unit] = 1;
    }
    indices_of(link, n, "a link is out of range");
    const label_t* all = data_of(labels, extent(labels, 0) * n);
    require(run([&] { return all_inside(all, length(labels), groups); }), "a group is out of range");
    return {n,
            groups,
            order.data(),
            kind_start.data(),
            kinds,
            data_of(size, n),
            data_of(low, groups),
            data_of(high, groups),
            link_start.data(),
            link.data()};
}

nb::list listed(const std::vector<ExchangeResult>& results) {
    nb::list out;
    for (const ExchangeResult& r : results) out.append(nb::make_tuple(r.sweeps, r.converged, r.values));
    return out;
}

void exchange_order(Table rows, In<index_t> kind_start, index_t block, Out<index_t> order) {
    const index_t n = extent(rows, 0), kinds = length(kind_start) - 1;
    require(kinds > 0 && block > 0 && extent(rows, 1) > 0, "there must be features, kinds and a block");
    check_starts(kind_start, kinds, n, "the kinds do not fit the rows");
    index_t* out = data_of(order, n);
    indices_of(order, n, "a unit is out of range");
    const double* x = rows.data();  // a NaN has no place in an order, and sorting would leave the array
    require(std::all_of(x, x + length(rows), [](double value) { return std::isfinite(value); }), "rows must be finite");
    run([&] { active->exchange->order(rows.data(), extent(rows, 1), kind_start.data(), kinds, block, out); });
}

nb::list exchange_rows(Table rows, In<index_t> order, In<index_t> kind_start, In<index_t> size, In<index_t> low,
                       In<index_t> high, In<index_t> link_start, In<index_t> link, Starts labels, index_t partners,
                       index_t max_sweeps, std::uint64_t seed) {
    const ExchangeUnits u = units_of(labels, order, kind_start, size, low, high, link_start, link);
    require(extent(rows, 0) == u.n && extent(rows, 1) > 0, "there must be a row for every unit");
    return listed(run([&] {
        return active->exchange->rows(rows.data(), extent(rows, 1), u, {partners, max_sweeps, seed}, extent(labels, 0),
                                      labels.data());
    }));
}

nb::list exchange_distances(Matrix distance, In<index_t> order, In<index_t> kind_start, In<index_t> size,
                            In<index_t> low, In<index_t> high, In<index_t> link_start, In<index_t> link, Starts labels,
                            index_t partners, index_t max_sweeps, std::uint64_t seed) {
    const ExchangeUnits u = units_of(labels, order, kind_start, size, low, high, link_start, link);
    require(extent(distance, 0) == u.n && extent(distance, 1) == u.n, "distances must be between all pairs of units");
    const bool wide = is_double(distance);
    return listed(run([&] {
        return active->exchange->distances(wide, distance.data(), u, {partners, max_sweeps, seed}, extent(labels, 0),
                                           labels.data());
    }));
}

}  // namespace

void bind_exchange(nb::module_& m) {
    m.def("exchange_order", exchange_order, "rows"_a, "kind_start"_a, "block"_a, "order"_a);
    m.def("exchange_rows", exchange_rows, "rows"_a, "order"_a, "kind_start"_a, "size"_a, "low"_a, "high"_a,
          "link_start"_a, "link"_a, "labels"_a, "partners"_a, "max_sweeps"_a, "seed"_a);
    m.def("exchange_distances", exchange_distances, "distance"_a, "order"_a, "kind_start"_a, "size"_a, "low"_a,
          "high"_a, "link_start"_a, "link"_a, "labels"_a, "partners"_a, "max_sweeps"_a, "seed"_a);
}

}  // namespace kv::binding
