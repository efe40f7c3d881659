// Bindings: rows in a ball on a grid, and their exact sums.
#include "bind.hpp"

#include <cmath>

namespace kv::bound {
namespace {

using Table = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Lattice lattice(int norm, double bound, double step) {
    int exponent;
    need(norm >= 0 && norm <= 2, "norm must be 0 (max), 1 or 2");
    need(std::isnormal(step) && std::frexp(step, &exponent) == 0.5, "step must be a power of two");
    need(bound >= step && bound / step < 9007199254740992.0, "bound must be 1 to 2^53 steps");
    return {static_cast<Norm>(norm), bound, step};
}

void fixed(Matrix rows, Maybe<double> center, Maybe<double> half, int norm, double bound, double step, OutTable out) {
    const Wares w{wide(rows.dtype()), rows.data(), static_cast<index_t>(rows.shape(0)),
                  static_cast<index_t>(rows.shape(1))};
    const double *c = sized(center, w.d), *h = sized(half, w.d);
    const Lattice grid = lattice(norm, bound, step);
    double* to = sized(out, w.n * w.d);
    run([&] { active->fixed->fixed(w, c, h, grid, to); });
}

Framed seen(const Table& rows, const In<label_t>& labels, const std::optional<Table>& centers,
            const Maybe<double>& radii, index_t k) {
    const auto n = static_cast<index_t>(rows.shape(0)), d = static_cast<index_t>(rows.shape(1));
    const label_t* label = sized(labels, n);
    label_t most = -1;
    for (index_t i = 0; i < n; ++i) most = std::max(most, label[i]);
    need(most < k, "a label out of range");
    need(centers.has_value() == radii.has_value(), "centres and radii: both or neither");
    const double* r = sized(radii, k);
    for (index_t a = 0; r && a < k; ++a) need(r[a] > 0 && std::isfinite(r[a]), "radii must be above 0");
    return {rows.data(), label, n, d, centers ? sized(*centers, k * d) : nullptr, r, k};
}

void framed(Table rows, In<label_t> labels, std::optional<Table> centers, Maybe<double> radii, int norm, double bound,
            double step, OutTable sums, Out<index_t> counts, std::optional<OutTable> squares) {
    const auto k = static_cast<index_t>(counts.size());
    const Framed f = seen(rows, labels, centers, radii, k);
    const Lattice grid = lattice(norm, bound, step);
    need(!squares || (norm == 2 && bound == 1.0 && step >= 0x1p-26), "squares want a unit ball of l2 and 26 bits");
    const Totals out{sized(sums, k * f.d), squares ? sized(*squares, k * f.d) : nullptr, counts.data()};
    run([&] { active->fixed->framed(f, grid, out); });
}

void beyond(Table rows, In<label_t> labels, Table centers, In<double> radii, Out<std::uint8_t> out) {
    const Framed f = seen(rows, labels, centers, radii, static_cast<index_t>(radii.size()));
    std::uint8_t* to = sized(out, f.n);
    run([&] { active->fixed->beyond(f, to); });
}

}  // namespace

void fixed_point(nb::module_& m) {
    m.def("to_lattice", fixed, "rows"_a, "center"_a.none(), "half"_a.none(), "norm"_a, "bound"_a, "step"_a, "out"_a);
    m.def("lattice_sums", framed, "rows"_a, "labels"_a, "centers"_a.none(), "radii"_a.none(), "norm"_a, "bound"_a, "step"_a,
          "sums"_a, "counts"_a, "squares"_a.none());
    m.def("outside_radius", beyond, "rows"_a, "labels"_a, "centers"_a, "radii"_a, "out"_a);
}

}  // namespace kv::bound
