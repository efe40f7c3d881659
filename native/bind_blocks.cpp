// Bindings: blocks of columns to rows, and the reduction of a coreset.
#include "bind.hpp"
#include "cells.hpp"

namespace kv::binding {
namespace {

constexpr index_t AT_ONCE = 64;  // rows that are written together and stay in the cache

template <class T>
void write_columns(const std::vector<Values>& columns, T* out, index_t n) {
    const auto d = static_cast<index_t>(columns.size());
    std::vector<const T*> from;
    for (const Values& column : columns) from.push_back(static_cast<const T*>(column.data()));
    run([&] {
        for (index_t first = 0; first < n; first += AT_ONCE) {
            const index_t count = std::min(AT_ONCE, n - first);
            for (index_t j = 0; j < d; ++j)
                for (index_t i = 0; i < count; ++i) out[(first + i) * d + j] = from[j][first + i];
        }
    });
}

// Writes columns of equal length as the columns of a matrix in C order.
void interleave(const std::vector<Values>& columns, OutMatrix out) {
    const index_t n = extent(out, 0);
    const bool is64 = is_double(out);
    require(static_cast<index_t>(columns.size()) == extent(out, 1), "the matrix has another number of columns");
    for (const Values& column : columns)
        require(length(column) == n && is_double(column) == is64, "a column has another length or dtype");
    is64 ? write_columns(columns, static_cast<double*>(out.data()), n)
         : write_columns(columns, static_cast<float*>(out.data()), n);
}

nb::tuple drawn_cells(In<label_t> labels, In<double> cost, OptionalIn<double> weight, index_t k, index_t size,
                      std::uint64_t seed) {
    const index_t n = length(labels);
    require(k > 0 && 2 * k < size && size < n, "there must be more rows than cells, and more cells than clusters");
    const ClusteredRows rows{n, k, labels_of(labels, n, k), data_of(cost, n), data_of(weight, n)};
    DrawnRows drawn = run([&] { return draw_cells(rows, size, seed); });
    return nb::make_tuple(to_numpy(std::move(drawn.rows)), to_numpy(std::move(drawn.weights)));
}

}  // namespace

void bind_blocks(nb::module_& m) {
    m.def("interleave", interleave, "columns"_a, "out"_a);
    m.def("draw_cells", drawn_cells, "labels"_a, "cost"_a, "weight"_a.none(), "k"_a, "size"_a, "seed"_a);
}

}  // namespace kv::binding
