// Bindings: rows rounded to a lattice inside a ball, and their exact sums.
#include <cmath>

#include "bind.hpp"

namespace kv::binding {
namespace {

Lattice make_lattice(int norm, double bound, double step) {
    int exponent;
    require(norm >= 0 && norm <= 2, "norm must be 0 (max), 1 or 2");
    require(std::isnormal(step) && std::frexp(step, &exponent) == 0.5, "step must be a power of two");
    require(bound >= step && bound / step < 9007199254740992.0, "bound must be 1 to 2^53 steps");
    return {static_cast<Norm>(norm), bound, step};
}

void to_lattice(Matrix rows, OptionalIn<double> center, OptionalIn<double> half, int norm, double bound, double step,
                OutTable out) {
    const RowsView v = dense_view(rows);
    const double *c = data_of(center, v.d), *h = data_of(half, v.d);
    const Lattice lattice = make_lattice(norm, bound, step);
    double* to = data_of(out, v.n * v.d);
    run([&] { active->lattice->to_lattice(v, c, h, lattice, to); });
}

LabelledRows labelled_rows(const Table& rows, const In<label_t>& labels, const std::optional<Table>& centers,
                           const OptionalIn<double>& radii, index_t k) {
    const index_t n = extent(rows, 0), d = extent(rows, 1);
    const label_t* label = data_of(labels, n);
    label_t most = -1;
    for (index_t i = 0; i < n; ++i) most = std::max(most, label[i]);
    require(most < k, "a label is out of range");
    require(centers.has_value() == radii.has_value(), "there must be both centres and radii, or neither");
    require(d > 0, "rows must have at least one feature");
    const double* r = data_of(radii, k);
    for (index_t a = 0; r && a < k; ++a) require(r[a] > 0 && std::isfinite(r[a]), "radii must be finite and above 0");
    return {rows.data(), label, n, d, data_of(centers, k * d), r, k};
}

void lattice_sums(Table rows, In<label_t> labels, std::optional<Table> centers, OptionalIn<double> radii, int norm,
                  double bound, double step, OutTable sums, Out<index_t> counts, std::optional<OutTable> squares) {
    const index_t k = length(counts);
    const LabelledRows f = labelled_rows(rows, labels, centers, radii, k);
    const Lattice lattice = make_lattice(norm, bound, step);
    require(!squares || (norm == 2 && bound == 1.0 && step >= 0x1p-26), "squares need the l2 unit ball and 26 bits");
    const LatticeSums out{data_of(sums, k * f.d), data_of(squares, k * f.d), counts.data()};
    run([&] { active->lattice->lattice_sums(f, lattice, out); });
}

void outside_radius(Table rows, In<label_t> labels, Table centers, In<double> radii, Out<std::uint8_t> out) {
    const LabelledRows f = labelled_rows(rows, labels, centers, radii, length(radii));
    std::uint8_t* to = data_of(out, f.n);
    run([&] { active->lattice->outside_radius(f, to); });
}

}  // namespace

void bind_lattice(nb::module_& m) {
    m.def("to_lattice", to_lattice, "rows"_a, "center"_a.none(), "half"_a.none(), "norm"_a, "bound"_a, "step"_a,
          "out"_a);
    m.def("lattice_sums", lattice_sums, "rows"_a, "labels"_a, "centers"_a.none(), "radii"_a.none(), "norm"_a, "bound"_a,
          "step"_a, "sums"_a, "counts"_a, "squares"_a.none());
    m.def("outside_radius", outside_radius, "rows"_a, "labels"_a, "centers"_a, "radii"_a, "out"_a);
}

}  // namespace kv::binding
