// The binding: with bind_*.cpp, the only native files that know Python. Arrays come in already checked by Python
// code; here only what would crash is checked again.
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

#include "bind.hpp"

namespace kv::bound {
const Kernels* active = nullptr;
}

namespace {

using namespace kv::bound;
using Centres = nb::ndarray<const double, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Ctrl-C is looked for a few times a second, from the thread that came from Python.
bool signalled() {
    using clock = std::chrono::steady_clock;
    static clock::time_point last = clock::now();
    const auto now = clock::now();
    if (now - last < std::chrono::milliseconds(50)) return false;
    last = now;
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

struct Rows {
    kv::View view;
    nb::object owner;
};

Rows dense(Matrix x) {
    need(is<float>(x.dtype()) || is<double>(x.dtype()), "rows must be float32 or float64");
    Rows rows;
    rows.view.wide = is<double>(x.dtype());
    rows.view.x = x.data();
    rows.view.n = static_cast<index_t>(x.shape(0));
    rows.view.d = static_cast<index_t>(x.shape(1));
    rows.owner = nb::cast(x);
    return rows;
}

Rows csr(nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu> data, In<std::int32_t> indices,
         In<index_t> indptr, index_t features) {
    need(is<float>(data.dtype()) || is<double>(data.dtype()), "rows must be float32 or float64");
    need(data.shape(0) == indices.shape(0) && indptr.shape(0) > 0, "a CSR matrix of unequal parts");
    Rows rows;
    rows.view.sparse = true;
    rows.view.wide = is<double>(data.dtype());
    rows.view.x = data.data();
    rows.view.column = indices.data();
    rows.view.start = indptr.data();
    rows.view.n = static_cast<index_t>(indptr.shape(0)) - 1;
    rows.view.d = features;
    need(rows.view.start[rows.view.n] <= static_cast<index_t>(data.shape(0)), "indptr past the data");
    rows.owner = nb::make_tuple(data, indices, indptr);
    return rows;
}

index_t matched(const Rows& rows, const Centres& centres) {
    need(static_cast<index_t>(centres.shape(1)) == rows.view.d, "centres must have the rows' features");
    return static_cast<index_t>(centres.shape(0));
}

nb::tuple pair(const kv::Assigned& a) { return nb::make_tuple(a.changed, a.scanned); }

nb::tuple assign(const Rows& rows, Centres centres, Out<label_t> labels, kv::Changes* changes, float step) {
    const index_t k = matched(rows, centres);
    label_t* out = sized(labels, rows.view.n);
    const kv::Assigned a = run([&] { return active->assign(rows.view, centres.data(), k, out, changes, step); });
    return nb::make_tuple(a.changed, a.asked ? static_cast<double>(a.sure) / static_cast<double>(a.asked) : 0.0);
}

nb::tuple assign_hamerly(const Rows& rows, Centres centres, Maybe<float> moved, Out<label_t> labels,
                         Out<float> upper, Out<float> lower, bool tighten, kv::Changes* changes) {
    const index_t k = matched(rows, centres), n = rows.view.n;
    const float* step = sized(moved, k);
    label_t* out = sized(labels, n);
    float *u = sized(upper, n), *l = sized(lower, n);
    return pair(run([&] { 
        return active->assign_hamerly(rows.view, centres.data(), k, step, out, u, l, tighten, changes);
    }));
}

nb::tuple assign_elkan(const Rows& rows, Centres centres, Maybe<float> moved, Out<float> drift,
                       Out<label_t> labels, Out<float> upper, Out<float> lower, kv::Changes* changes) {
    const index_t k = matched(rows, centres), n = rows.view.n;
    const float* step = sized(moved, k);
    label_t* out = sized(labels, n);
    float *path = sized(drift, k), *u = sized(upper, n), *l = sized(lower, n * k);
    return pair(run([&] { 
        return active->assign_elkan(rows.view, centres.data(), k, step, path, out, u, l, changes);
    }));
}

void two_nearest(const Rows& rows, Centres centres, Out<label_t> labels, Out<label_t> second, Out<double> cost,
                 Out<double> second_cost) {
    const index_t k = matched(rows, centres), n = rows.view.n;
    need(k > 0, "no centres");
    const kv::TwoNearest out{sized(labels, n), sized(second, n), sized(cost, n), sized(second_cost, n)};
    run([&] { active->two_nearest(rows.view, centres.data(), k, out); });
}

using OutTables = nb::ndarray<double, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

kv::Sums sums_of(const Rows& rows, OutTables& sum, OutTable& total, Out<index_t>& count) {
    const index_t d = rows.view.d, k = static_cast<index_t>(sum.shape(1));
    need(sum.shape(0) == 2 && static_cast<index_t>(sum.shape(2)) == d, "sums of another shape");
    need(total.shape(0) == 2 && static_cast<index_t>(total.shape(1)) == k, "weights of another shape");
    return {sum.data(), sum.data() + k * d, total.data(), total.data() + k, sized(count, k)};
}

index_t hartigan(const Rows& rows, Maybe<double> weight, In<float> moved, float shrink, OutTable centres,
                 Out<label_t> labels, Out<float> upper, Out<float> lower, OutTables sum, OutTable total,
                 Out<index_t> count) {
    const index_t n = rows.view.n, k = static_cast<index_t>(sum.shape(1));
    need(k > 0, "no centres");
    const float* step = sized(moved, k);
    const kv::Drifts drifts{step, *std::max_element(step, step + k), shrink};
    const double* w = sized(weight, n);
    const kv::Sums sums = sums_of(rows, sum, total, count);
    const kv::Partition p{sized(centres, k * rows.view.d), sized(labels, n), sized(upper, n), sized(lower, n), sums};
    return run([&] { return active->hartigan(rows.view, w, k, drifts, p); });
}

nb::tuple assign_yinyang(const Rows& rows, Centres centres, In<std::int32_t> group, Maybe<float> moved,
                         Out<label_t> labels, Out<float> upper,
                         nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu> lower, kv::Changes* changes) {
    const index_t k = matched(rows, centres), n = rows.view.n, groups = static_cast<index_t>(lower.shape(1));
    need(groups == 16, "bounds for sixteen groups");
    const float* step = sized(moved, k);
    const std::int32_t* of = sized(group, k);
    for (index_t j = 0; j < k; ++j) need(of[j] >= 0 && of[j] < groups, "a group out of range");
    label_t* out = sized(labels, n);
    float *u = sized(upper, n), *l = sized(lower, n * groups);
    return pair(run([&] {
        return active->assign_yinyang(rows.view, centres.data(), k, of, step, out, u, l, changes);
    }));
}

void update(const Rows& rows, Maybe<double> weight, In<label_t> labels, const kv::Changes* changes,
            OutTables sum, OutTable total, Out<index_t> count) {
    const index_t n = rows.view.n, k = static_cast<index_t>(sum.shape(1));
    const kv::Sums sums = sums_of(rows, sum, total, count);
    const double* w = sized(weight, n);
    const label_t* to = sized(labels, n);
    need(!changes || static_cast<index_t>(changes->block.size()) == kv::blocks_of(n), "changes of other rows");
    run([&] { active->update(rows.view, w, to, changes, k, sums); });
}

void own_cost(const Rows& rows, Centres centres, In<label_t> labels, Out<double> cost) {
    const index_t k = matched(rows, centres);
    const label_t* at = sized(labels, rows.view.n);
    double* out = sized(cost, rows.view.n);
    run([&] { active->own_cost(rows.view, centres.data(), k, at, out); });
}

void distances(const Rows& rows, Centres centres, bool squared, OutMatrix out) {
    const index_t k = matched(rows, centres);
    need(is<double>(out.dtype()) == rows.view.wide && (rows.view.wide || is<float>(out.dtype())),
         "distances must have the rows' dtype");
    void* p = sized(out, rows.view.n * k);
    run([&] { active->distances(rows.view, centres.data(), k, squared, p); });
}

double spread(const Rows& rows) {
    return run([&] { return active->spread(rows.view); });
}

kv::Potential potential(const Rows& rows, Out<double>& cost, Out<label_t>& nearest,
                        const Maybe<double>& weight, Out<double>& sums) {
    const index_t n = rows.view.n;
    return {sized(cost, n), sized(nearest, n), sized(weight, n), sized(sums, (n + kv::DRAW - 1) / kv::DRAW)};
}

void absorb(const Rows& rows, Centres fresh, label_t first, Maybe<double> limit, Out<double> cost,
            Out<label_t> nearest, Maybe<double> weight, Out<double> sums) {
    const index_t m = matched(rows, fresh);
    const kv::Potential p = potential(rows, cost, nearest, weight, sums);
    const double* below = limit ? limit->data() : nullptr;
    run([&] { active->absorb(rows.view, fresh.data(), m, first, below, p); });
}

bool fits(const kv::Shadow& s, const Rows& rows) {
    return s.d == rows.view.d && s.tiles == (rows.view.n + kv::TILE - 1) / kv::TILE;
}

nb::object shadow(const Rows& rows, Out<double> cost) {
    auto out = std::make_unique<kv::Shadow>();
    const double* at = sized(cost, rows.view.n);
    if (!run([&] { return active->cast(rows.view, at, *out); })) return nb::none();
    return nb::cast(std::move(out));
}

void gains(const Rows& rows, const kv::Shadow* shadow, Centres candidates, Maybe<double> limit, Out<double> cost,
           Out<label_t> nearest, Maybe<double> weight, Out<double> sums, Out<double> gain, kv::Hits& hits) {
    const index_t m = matched(rows, candidates);
    const kv::Potential p = potential(rows, cost, nearest, weight, sums);
    const double* below = limit ? limit->data() : nullptr;
    double* out = sized(gain, m);
    need(!shadow || fits(*shadow, rows), "a shadow of other rows");
    run([&] { active->gains(rows.view, shadow, candidates.data(), m, below, p, out, hits); });
}

void adopt(const Rows& rows, kv::Shadow* shadow, Centres fresh, label_t candidate, label_t name, Maybe<double> limit,
           Out<double> cost, Out<label_t> nearest, Maybe<double> weight, Out<double> sums, const kv::Hits& hits) {
    need(matched(rows, fresh) == 1, "adopt takes one centre");
    const index_t blocks = kv::blocks_of(rows.view.n);
    need(static_cast<index_t>(hits.block.size()) == blocks, "hits of other rows");
    const kv::Potential p = potential(rows, cost, nearest, weight, sums);
    const double* below = limit ? limit->data() : nullptr;
    need(!shadow || fits(*shadow, rows), "a shadow of other rows");
    run([&] { active->adopt(rows.view, shadow, fresh.data(), candidate, name, below, p, hits); });
}

nb::tuple draw(const Rows& rows, Centres pending, label_t first, Out<double> cost, Out<label_t> nearest,
               Maybe<double> weight, Out<double> sums, In<double> uniforms) {
    const index_t m = matched(rows, pending);
    const kv::Potential p = potential(rows, cost, nearest, weight, sums);
    const kv::Drawn out = run([&] {
        return active->draw(rows.view, pending.data(), m, first, p, uniforms.data(),
                            static_cast<index_t>(uniforms.size()));
    });
    return nb::make_tuple(out.row, out.used);
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> out;
    for (const kv::Kernels* set : kv::available()) out.push_back(set->name);
    return out;
}

}  // namespace

NB_MODULE(_native, m) {
    const char* asked = std::getenv("KVARIATES_ISA");
    active = kv::choose(asked);
    if (!active)
        throw std::invalid_argument("KVARIATES_ISA=" + std::string(asked) + " is not a set of kernels this machine can run");
    kv::user_wants_to_stop = signalled;

    nb::class_<Rows>(m, "RowsView")
        .def_prop_ro("n", [](const Rows& r) { return r.view.n; })
        .def_prop_ro("d", [](const Rows& r) { return r.view.d; });
    nb::class_<kv::Hits>(m, "Hits").def(nb::init<>()).def_ro("wasted", &kv::Hits::vain);
    nb::class_<kv::Shadow>(m, "QuantizedRows");
    nb::class_<kv::Changes>(m, "Changes").def(nb::init<>()).def_ro("overflowed", &kv::Changes::lost);
    m.attr("DRAW_TILE") = kv::DRAW;
    m.def("instruction_sets", instruction_sets);
    m.def("instruction_set", [] { return std::string(active->name); });
    m.def("dense", dense, "x"_a);
    m.def("csr", csr, "data"_a, "indices"_a, "indptr"_a, "n_features"_a);
    m.def("assign", assign, "rows"_a, "centers"_a, "labels"_a, "changes"_a.none() = nb::none(),
          "step"_a = 0.0f);
    m.def("assign_hamerly", assign_hamerly, "rows"_a, "centers"_a, "moved"_a.none(), "labels"_a, "upper"_a,
          "lower"_a, "tighten"_a, "changes"_a.none());
    m.def("assign_elkan", assign_elkan, "rows"_a, "centers"_a, "moved"_a.none(), "drift"_a, "labels"_a,
          "upper"_a, "lower"_a, "changes"_a.none());
    m.def("two_nearest", two_nearest, "rows"_a, "centers"_a, "labels"_a, "second"_a, "cost"_a, "second_cost"_a);
    m.def("hartigan", hartigan, "rows"_a, "weight"_a.none(), "moved"_a, "shrink"_a, "centers"_a, "labels"_a,
          "upper"_a, "lower"_a, "sum"_a, "total"_a, "count"_a);
    m.def("assign_yinyang", assign_yinyang, "rows"_a, "centers"_a, "group"_a, "moved"_a.none(), "labels"_a,
          "upper"_a, "lower"_a, "changes"_a.none());
    m.def("update", update, "rows"_a, "weight"_a.none(), "labels"_a, "changes"_a.none(), "sum"_a,
          "total"_a, "count"_a);
    m.def("costs", own_cost, "rows"_a, "centers"_a, "labels"_a, "cost"_a);
    m.def("distances", distances, "rows"_a, "centers"_a, "squared"_a, "out"_a);
    m.def("mean_variance", spread, "rows"_a);
    m.def("lower_costs", absorb, "rows"_a, "fresh"_a, "first"_a, "limit"_a.none(), "cost"_a, "nearest"_a,
          "weight"_a.none(), "sums"_a);
    m.def("quantize", shadow, "rows"_a, "cost"_a);
    m.def("gains", gains, "rows"_a, "quantized"_a.none(), "candidates"_a, "limit"_a.none(), "cost"_a, "nearest"_a,
          "weight"_a.none(), "sums"_a, "gain"_a, "hits"_a);
    m.def("lower_costs_by_hits", adopt, "rows"_a, "quantized"_a.none(), "fresh"_a, "candidate"_a, "name"_a, "limit"_a.none(), "cost"_a,
          "nearest"_a, "weight"_a.none(), "sums"_a, "hits"_a);
    m.def("draw", draw, "rows"_a, "pending"_a, "first"_a, "cost"_a, "nearest"_a, "weight"_a.none(),
          "sums"_a, "uniforms"_a);
    metric(m);
    dual(m);
    graph(m);
    tree(m);
    fixed_point(m);
}
