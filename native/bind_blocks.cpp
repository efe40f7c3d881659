// Bindings: blocks of columns to rows, and the reduction of a coreset.
#include "bind.hpp"
#include "cells.hpp"

namespace kv::binding {
namespace {

constexpr index_t AT_ONCE = 64;  // rows that are written together and stay in the cache

// Writes columns of equal length as the columns of a matrix in C order.
template <class T>
void interleave(const std::vector<In<T>>& columns, Array<2, T> out) {
    const index_t n = extent(out, 0), d = extent(out, 1);
    require(static_cast<index_t>(columns.size()) == d, "there must be a column of the matrix for every column");
    std::vector<const T*> from;
    for (const In<T>& column : columns) from.push_back(data_of(column, n));
    T* const to = out.data();
    run([&] {
        for (index_t first = 0; first < n; first += AT_ONCE) {
            const index_t count = std::min(AT_ONCE, n - first);
            for (index_t j = 0; j < d; ++j)
                for (index_t i = 0; i < count; ++i) to[(first + i) * d + j] = from[j][first + i];
        }
    });
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
    m.def("interleave", interleave<float>, "columns"_a.noconvert(), "out"_a.noconvert());
    m.def("interleave", interleave<double>, "columns"_a.noconvert(), "out"_a.noconvert());
    m.def("draw_cells", drawn_cells, "labels"_a, "cost"_a, "weight"_a.none(), "k"_a, "size"_a, "seed"_a);
}

}  // namespace kv::binding
