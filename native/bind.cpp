// The Python module. Only the bind*.cpp files know Python; Python code has checked the arrays, and only what would
// crash is checked again here.
#include "bind.hpp"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>

namespace kv::binding {

const Kernels* active = nullptr;

namespace {

using OutTables = Array<3, double>;

// Checks for an interrupt (Ctrl-C) a few times a second, from the thread that Python called.
bool interrupted() {
    using clock = std::chrono::steady_clock;
    static clock::time_point last = clock::now();
    const auto now = clock::now();
    if (now - last < std::chrono::milliseconds(50)) return false;
    last = now;
    nb::gil_scoped_acquire gil;
    return PyErr_CheckSignals() != 0;
}

// A view of rows and the arrays that own their memory.
struct Rows {
    RowsView view;
    nb::object owner;
};

Rows dense(Matrix x) { return {dense_view(x), nb::cast(x)}; }

Rows csr(Values data, In<std::int32_t> indices, In<index_t> indptr, index_t features) {
    return {csr_view(data, indices, indptr, features), nb::make_tuple(data, indices, indptr)};
}

index_t count_centers(const Rows& rows, const Table& centers) {
    require(extent(centers, 1) == rows.view.d, "centres must have as many features as the rows");
    return extent(centers, 0);
}

nb::tuple changed_and_work(const AssignResult& a) { return nb::make_tuple(a.changed, a.scanned, a.pairs, a.exact); }

nb::tuple assign(const Rows& rows, Table centers, Out<label_t> labels, Changes* changes, float step) {
    const index_t k = count_centers(rows, centers);
    label_t* out = data_of(labels, rows.view.n);
    const AssignResult a = run([&] { return active->assign(rows.view, centers.data(), k, out, changes, step); });
    const double stable = a.probed ? static_cast<double>(a.stable) / static_cast<double>(a.probed) : 0.0;
    return nb::make_tuple(a.changed, a.pairs, stable);
}

nb::tuple assign_hamerly(const Rows& rows, Table centers, OptionalIn<float> moved, Out<label_t> labels,
                         Out<float> upper, Out<float> lower, bool tighten, Changes* changes) {
    const index_t k = count_centers(rows, centers), n = rows.view.n;
    const float* step = data_of(moved, k);
    label_t* out = data_of(labels, n);
    float *u = data_of(upper, n), *l = data_of(lower, n);
    return changed_and_work(
        run([&] { return active->assign_hamerly(rows.view, centers.data(), k, step, out, u, l, tighten, changes); }));
}

nb::tuple assign_elkan(const Rows& rows, Table centers, OptionalIn<float> moved, Out<float> drift, Out<label_t> labels,
                       Out<float> upper, Out<float> lower, Changes* changes) {
    const index_t k = count_centers(rows, centers), n = rows.view.n;
    const float* step = data_of(moved, k);
    label_t* out = data_of(labels, n);
    float *path = data_of(drift, k), *u = data_of(upper, n), *l = data_of(lower, n * k);
    return changed_and_work(
        run([&] { return active->assign_elkan(rows.view, centers.data(), k, step, path, out, u, l, changes); }));
}

nb::tuple assign_yinyang(const Rows& rows, Table centers, In<std::int32_t> group, OptionalIn<float> moved,
                         Out<label_t> labels, Out<float> upper, Array<2, float> lower, Changes* changes) {
    const index_t k = count_centers(rows, centers), n = rows.view.n, groups = extent(lower, 1);
    require(groups == 16 && length(group) == k, "there must be bounds for 16 groups and a group for every centre");
    const float* step = data_of(moved, k);
    const std::int32_t* of = indices_of(group, groups, "a group is out of range");
    label_t* out = data_of(labels, n);
    float *u = data_of(upper, n), *l = data_of(lower, n * groups);
    return changed_and_work(
        run([&] { return active->assign_yinyang(rows.view, centers.data(), k, of, step, out, u, l, changes); }));
}

void two_nearest(const Rows& rows, Table centers, Out<label_t> labels, Out<label_t> second, Out<double> cost,
                 Out<double> second_cost) {
    const index_t k = count_centers(rows, centers), n = rows.view.n;
    require(k > 0, "there are no centres");
    const TwoNearest<double> out{data_of(labels, n), data_of(second, n), data_of(cost, n), data_of(second_cost, n)};
    run([&] { active->two_nearest(rows.view, centers.data(), k, out); });
}

ClusterSums cluster_sums(const Rows& rows, OutTables& sum, OutTable& total, Out<index_t>& count) {
    const index_t d = rows.view.d, k = extent(sum, 1);
    require(extent(sum, 0) == 2 && extent(sum, 2) == d, "sums have the wrong shape");
    require(extent(total, 0) == 2 && extent(total, 1) == k, "weights have the wrong shape");
    return {sum.data(), sum.data() + k * d, total.data(), total.data() + k, data_of(count, k)};
}

index_t hartigan(const Rows& rows, OptionalIn<double> weight, In<float> moved, float shrink, OutTable centers,
                 Out<label_t> labels, Out<float> upper, Out<float> lower, OutTables sum, OutTable total,
                 Out<index_t> count) {
    const index_t n = rows.view.n, k = extent(sum, 1);
    require(k > 0, "there are no centres");
    const float* step = data_of(moved, k);
    const ClusterDrift drift{step, *std::max_element(step, step + k), shrink};
    const double* w = data_of(weight, n);
    const Partition p{data_of(centers, k * rows.view.d), data_of(labels, n), data_of(upper, n), data_of(lower, n),
                      cluster_sums(rows, sum, total, count)};
    return run([&] { return active->hartigan(rows.view, w, k, drift, p); });
}

void update(const Rows& rows, OptionalIn<double> weight, In<label_t> labels, const Changes* changes, OutTables sum,
            OutTable total, Out<index_t> count) {
    const index_t n = rows.view.n, k = extent(sum, 1);
    const ClusterSums sums = cluster_sums(rows, sum, total, count);
    const double* w = data_of(weight, n);
    const label_t* to = data_of(labels, n);
    require(!changes || length(changes->block) == blocks_of(n), "the changes are those of other rows");
    run([&] { active->update(rows.view, w, to, changes, k, sums); });
}

void costs(const Rows& rows, Table centers, In<label_t> labels, Out<double> cost) {
    const index_t k = count_centers(rows, centers);
    const label_t* of = data_of(labels, rows.view.n);
    double* out = data_of(cost, rows.view.n);
    run([&] { active->costs(rows.view, centers.data(), k, of, out); });
}

void distances(const Rows& rows, Table centers, bool squared, OutMatrix out) {
    const index_t k = count_centers(rows, centers);
    require(is_double(out) == rows.view.is_double, "distances must have the type of the rows");
    void* p = data_of(out, rows.view.n * k);
    run([&] { active->distances(rows.view, centers.data(), k, squared, p); });
}

double mean_variance(const Rows& rows) {
    return run([&] { return active->mean_variance(rows.view); });
}

Potential potential(const Rows& rows, Out<double>& cost, Out<label_t>& nearest, const OptionalIn<double>& weight,
                    Out<double>& sums) {
    const index_t n = rows.view.n;
    return {data_of(cost, n), data_of(nearest, n), data_of(weight, n), data_of(sums, (n + DRAW - 1) / DRAW)};
}

void lower_costs(const Rows& rows, Table fresh, label_t first, OptionalIn<double> limit, Out<double> cost,
                 Out<label_t> nearest, OptionalIn<double> weight, Out<double> sums) {
    const index_t m = count_centers(rows, fresh);
    const Potential p = potential(rows, cost, nearest, weight, sums);
    const double* limits = limit ? limit->data() : nullptr;
    run([&] { active->lower_costs(rows.view, fresh.data(), m, first, limits, p); });
}

nb::object quantize(const Rows& rows, Out<double> cost) {
    auto out = std::make_unique<QuantizedRows>();
    const double* of = data_of(cost, rows.view.n);
    if (!run([&] { return active->quantize(rows.view, of, *out); })) return nb::none();
    return nb::cast(std::move(out));
}

void check_quantized(const QuantizedRows* quantized, const Rows& rows) {
    require(!quantized || (quantized->d == rows.view.d && quantized->tiles == (rows.view.n + TILE - 1) / TILE),
            "the quantized rows are those of other rows");
}

void gains(const Rows& rows, const QuantizedRows* quantized, Table candidates, OptionalIn<double> limit,
           Out<double> cost, Out<label_t> nearest, OptionalIn<double> weight, Out<double> sums, Out<double> gain,
           Hits& hits) {
    const index_t m = count_centers(rows, candidates);
    const Potential p = potential(rows, cost, nearest, weight, sums);
    const double* limits = limit ? limit->data() : nullptr;
    double* out = data_of(gain, m);
    check_quantized(quantized, rows);
    run([&] { active->gains(rows.view, quantized, candidates.data(), m, limits, p, out, hits); });
}

void lower_costs_by_hits(const Rows& rows, QuantizedRows* quantized, Table fresh, label_t candidate, label_t name,
                         OptionalIn<double> limit, Out<double> cost, Out<label_t> nearest, OptionalIn<double> weight,
                         Out<double> sums, const Hits& hits) {
    require(count_centers(rows, fresh) == 1, "there must be one new centre");
    require(length(hits.block) == blocks_of(rows.view.n), "the hits are those of other rows");
    const Potential p = potential(rows, cost, nearest, weight, sums);
    const double* limits = limit ? limit->data() : nullptr;
    check_quantized(quantized, rows);
    run([&] { active->lower_costs_by_hits(rows.view, quantized, fresh.data(), candidate, name, limits, p, hits); });
}

nb::tuple draw(const Rows& rows, Table pending, label_t first, Out<double> cost, Out<label_t> nearest,
               OptionalIn<double> weight, Out<double> sums, In<double> uniforms) {
    const index_t m = count_centers(rows, pending), count = length(uniforms);
    const Potential p = potential(rows, cost, nearest, weight, sums);
    const DrawResult out =
        run([&] { return active->draw(rows.view, pending.data(), m, first, p, uniforms.data(), count); });
    return nb::make_tuple(out.row, out.used);
}

std::vector<std::string> instruction_sets() {
    std::vector<std::string> out;
    for (const Kernels* set : available_kernels()) out.push_back(set->name);
    return out;
}

}  // namespace
}  // namespace kv::binding

NB_MODULE(_native, m) {
    using namespace kv::binding;
    const char* asked = std::getenv("KVARIATES_ISA");
    active = kv::choose_kernels(asked);
    if (!active)
        throw std::invalid_argument("KVARIATES_ISA=" + std::string(asked) +
                                    " is not a set of kernels this machine can run");
    kv::user_wants_to_stop = interrupted;

    nb::class_<Rows>(m, "RowsView")
        .def_prop_ro("n", [](const Rows& r) { return r.view.n; })
        .def_prop_ro("d", [](const Rows& r) { return r.view.d; });
    nb::class_<kv::Hits>(m, "Hits").def(nb::init<>()).def_ro("wasted", &kv::Hits::wasted);
    nb::class_<kv::QuantizedRows>(m, "QuantizedRows");
    nb::class_<kv::Changes>(m, "Changes").def(nb::init<>()).def_ro("overflowed", &kv::Changes::overflowed);
    m.attr("DRAW_TILE") = kv::DRAW;
    m.def("instruction_sets", instruction_sets);
    m.def("instruction_set", [] { return std::string(active->name); });
    m.def("dense", dense, "x"_a);
    m.def("csr", csr, "data"_a, "indices"_a, "indptr"_a, "n_features"_a);
    m.def("assign", assign, "rows"_a, "centers"_a, "labels"_a, "changes"_a.none() = nb::none(), "step"_a = 0.0f);
    m.def("assign_hamerly", assign_hamerly, "rows"_a, "centers"_a, "moved"_a.none(), "labels"_a, "upper"_a, "lower"_a,
          "tighten"_a, "changes"_a.none());
    m.def("assign_elkan", assign_elkan, "rows"_a, "centers"_a, "moved"_a.none(), "drift"_a, "labels"_a, "upper"_a,
          "lower"_a, "changes"_a.none());
    m.def("assign_yinyang", assign_yinyang, "rows"_a, "centers"_a, "group"_a, "moved"_a.none(), "labels"_a, "upper"_a,
          "lower"_a, "changes"_a.none());
    m.def("two_nearest", two_nearest, "rows"_a, "centers"_a, "labels"_a, "second"_a, "cost"_a, "second_cost"_a);
    m.def("hartigan", hartigan, "rows"_a, "weight"_a.none(), "moved"_a, "shrink"_a, "centers"_a, "labels"_a, "upper"_a,
          "lower"_a, "sum"_a, "total"_a, "count"_a);
    m.def("update", update, "rows"_a, "weight"_a.none(), "labels"_a, "changes"_a.none(), "sum"_a, "total"_a, "count"_a);
    m.def("costs", costs, "rows"_a, "centers"_a, "labels"_a, "cost"_a);
    m.def("distances", distances, "rows"_a, "centers"_a, "squared"_a, "out"_a);
    m.def("mean_variance", mean_variance, "rows"_a);
    m.def("lower_costs", lower_costs, "rows"_a, "fresh"_a, "first"_a, "limit"_a.none(), "cost"_a, "nearest"_a,
          "weight"_a.none(), "sums"_a);
    m.def("quantize", quantize, "rows"_a, "cost"_a);
    m.def("gains", gains, "rows"_a, "quantized"_a.none(), "candidates"_a, "limit"_a.none(), "cost"_a, "nearest"_a,
          "weight"_a.none(), "sums"_a, "gain"_a, "hits"_a);
    m.def("lower_costs_by_hits", lower_costs_by_hits, "rows"_a, "quantized"_a.none(), "fresh"_a, "candidate"_a,
          "name"_a, "limit"_a.none(), "cost"_a, "nearest"_a, "weight"_a.none(), "sums"_a, "hits"_a);
    m.def("draw", draw, "rows"_a, "pending"_a, "first"_a, "cost"_a, "nearest"_a, "weight"_a.none(), "sums"_a,
          "uniforms"_a);
    bind_metric(m);
    bind_dual(m);
    bind_graph(m);
    bind_tree(m);
    bind_lattice(m);
}
