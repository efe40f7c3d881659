// Bindings: assignments, sums and costs of clusters.
#include <algorithm>
#include <memory>
#include <vector>

#include "bind.hpp"

namespace kv::binding {
namespace {

using LimbTables = Array<3, limb_t>;
using LimbTable = Array<2, limb_t>;

// Labels that an assignment with bounds starts from. If it starts anew, it does not read them.
label_t* labels_before(const Out<label_t>& labels, const OptionalIn<float>& moved, index_t n, index_t k) {
    return moved ? labels_of(labels, n, k) : data_of(labels, n);
}

nb::tuple changed_and_work(const AssignResult& a) { return nb::make_tuple(a.changed, a.scanned, a.pairs, a.exact); }

nb::tuple assign(const Rows& rows, Table centers, Out<label_t> labels, Changes* changes, float step) {
    const index_t k = count_some_centers(rows, centers);
    label_t* out = data_of(labels, rows.view.n);
    const AssignResult a = run([&] { return active->assign(rows.view, centers.data(), k, out, changes, step); });
    const double stable = a.probed ? static_cast<double>(a.stable) / static_cast<double>(a.probed) : 0.0;
    return nb::make_tuple(a.changed, a.pairs, a.undecided, stable);
}

nb::tuple assign_hamerly(const Rows& rows, Table centers, OptionalIn<float> moved, Out<label_t> labels,
                         Out<float> upper, Out<float> lower, bool tighten, bool apart, Changes* changes) {
    const index_t k = count_some_centers(rows, centers), n = rows.view.n;
    const float* step = data_of(moved, k);
    label_t* out = labels_before(labels, moved, n, k);
    float *u = data_of(upper, n), *l = data_of(lower, n);
    const AssignResult a = run(
        [&] { return active->assign_hamerly(rows.view, centers.data(), k, step, out, u, l, tighten, apart, changes); });
    return nb::make_tuple(a.changed, a.scanned, a.pairs, a.exact, a.chosen, a.spared);
}

nb::tuple assign_elkan(const Rows& rows, Table centers, OptionalIn<float> moved, Out<float> drift, Out<label_t> labels,
                       Out<float> upper, Out<float> lower, Changes* changes) {
    const index_t k = count_some_centers(rows, centers), n = rows.view.n;
    const float* step = data_of(moved, k);
    label_t* out = labels_before(labels, moved, n, k);
    float *path = data_of(drift, k), *u = data_of(upper, n), *l = data_of(lower, n * k);
    return changed_and_work(
        run([&] { return active->assign_elkan(rows.view, centers.data(), k, step, path, out, u, l, changes); }));
}

nb::tuple assign_yinyang(const Rows& rows, Table centers, In<std::int32_t> group, OptionalIn<float> moved,
                         Out<label_t> labels, Out<float> upper, Array<2, float> lower, Changes* changes) {
    const index_t k = count_some_centers(rows, centers), n = rows.view.n, groups = extent(lower, 1);
    require(!rows.view.sparse, "Yinyang's bounds are for dense rows only");
    require(groups == 16 && length(group) == k, "there must be bounds for 16 groups and a group for every centre");
    const float* step = data_of(moved, k);
    const std::int32_t* of = indices_of(group, groups, "a group is out of range");
    label_t* out = labels_before(labels, moved, n, k);
    float *u = data_of(upper, n), *l = data_of(lower, n * groups);
    return changed_and_work(
        run([&] { return active->assign_yinyang(rows.view, centers.data(), k, of, step, out, u, l, changes); }));
}

// In a fit, which keeps bytes.
bool fit_over_bytes_pays(const Rows& rows, index_t k) {
    const RowsView& v = rows.view;
    return !v.sparse && bytes_pay(*active_bytes, v.n, v.d, k, v.is_double, true);
}

nb::object byte_rows(const Rows& rows) {
    auto out = std::make_unique<ByteRows>();
    out->pairs = active_bytes->pairs;
    if (!run([&] { return active->make_byte_rows(rows.view, *out); })) return nb::none();
    return nb::cast(std::move(out));
}

nb::tuple assign_bytes(const Rows& rows, const ByteRows& bytes, Table centers, In<label_t> order, index_t size,
                       OptionalIn<float> moved, Out<label_t> labels, Out<float> upper, Array<2, std::uint16_t> lower,
                       Changes* changes) {
    const index_t k = count_some_centers(rows, centers), n = rows.view.n;
    require(bytes.n == n && bytes.d == rows.view.d, "the bytes are those of other rows");
    const float* step = data_of(moved, k);
    label_t* out = labels_before(labels, moved, n, k);
    require(length(order) == k && size > 0 && size % GROUP_STEP == 0, "the groups do not fit");
    indices_of(order, k, "a centre is out of range");
    require(extent(lower, 1) == byte_bounds(k, size), "there must be bounds for all groups");
    float* u = data_of(upper, n);
    std::uint16_t* l = data_of(lower, n * extent(lower, 1));
    return changed_and_work(run([&] {
        return active->assign_bytes(rows.view, bytes, *active_bytes, centers.data(), k, order.data(), size, step, out,
                                    u, l, changes);
    }));
}

void two_nearest(const Rows& rows, Table centers, Out<label_t> labels, Out<label_t> second, Out<double> cost,
                 Out<double> second_cost) {
    const index_t k = count_some_centers(rows, centers), n = rows.view.n;
    const TwoNearest<double> out{data_of(labels, n), data_of(second, n), data_of(cost, n), data_of(second_cost, n)};
    run([&] { active->two_nearest(rows.view, centers.data(), k, out); });
}

ClusterSums cluster_sums(const Rows& rows, LimbTables& sum, LimbTable& total, Out<index_t>& count, int exponent,
                         int weight_exponent) {
    const index_t d = rows.view.d, k = extent(sum, 0);
    require(extent(sum, 1) == LIMBS && extent(sum, 2) == d, "sums have the wrong shape");
    require(extent(total, 0) == k && extent(total, 1) == LIMBS, "weights have the wrong shape");
    return {sum.data(), total.data(), data_of(count, k), Scale(exponent), Scale(weight_exponent)};
}

// The constants of the limbs of `levels` coarser sums.
std::vector<double> coarser_than(int exponent, int levels) {
    require(levels <= 64, "there are too many coarser sums");
    std::vector<double> constants;
    for (int s = levels; s > 0; --s)
        for (const double magic : Scale(exponent + s * UNIT_BITS[LIMBS - 1]).magic) constants.push_back(magic);
    return constants;
}

// `sum` holds the tables of all levels.
index_t hartigan(const Rows& rows, OptionalIn<double> weight, In<float> moved, float shrink, OutTable centers,
                 Out<label_t> labels, Out<float> upper, Out<float> lower, Array<4, limb_t> sum, LimbTable total,
                 Out<index_t> count, int exponent, int weight_exponent) {
    const index_t n = rows.view.n, d = rows.view.d, levels = extent(sum, 0), k = extent(sum, 1);
    require(k > 0, "there are no centres");
    require(levels > 0 && extent(sum, 2) == LIMBS && extent(sum, 3) == d, "sums have the wrong shape");
    require(extent(total, 0) == k && extent(total, 1) == LIMBS, "weights have the wrong shape");
    const float* step = data_of(moved, k);
    const ClusterDrift drift{step, *std::max_element(step, step + k), shrink};
    const double* w = data_of(weight, n);
    std::vector<ClusterSums> sums;
    for (int level = 0; level < levels; ++level) {
        const int of_level = exponent - level * UNIT_BITS[LIMBS - 1];
        sums.push_back({sum.data() + level * k * LIMBS * d, total.data(), data_of(count, k), Scale(of_level),
                        Scale(weight_exponent), coarser_than(of_level, level)});
    }
    const Partition p{data_of(centers, k * d), labels_of(labels, n, k), data_of(upper, n), data_of(lower, n),
                      std::move(sums)};
    return run([&] { return active->hartigan(rows.view, w, k, drift, p); });
}

// Checks what an update by changes reads: the changed rows, and their labels before and now.
void check_changes(const Changes& changes, const label_t* labels, index_t n, index_t k) {
    const index_t lists = static_cast<index_t>(changes.list.size());
    bool fit = lists == (n + changes.rows_of_list() - 1) >> changes.bits && !changes.overflowed;
    for (index_t block = 0; fit && block < blocks_of(n); ++block)
        changes.for_block(block, [&](index_t row, label_t before) {
            fit = fit && row < n && before >= 0 && before < k && labels[row] >= 0 && labels[row] < k;
        });
    require(fit, "the changes are those of other rows or clusters");
}

void update(const Rows& rows, OptionalIn<double> weight, In<label_t> labels, const Changes* changes, LimbTables sum,
            LimbTable total, Out<index_t> count, int exponent, int weight_exponent, int coarser, double smallest) {
    const index_t n = rows.view.n, k = extent(sum, 0);
    ClusterSums sums = cluster_sums(rows, sum, total, count, exponent, weight_exponent);
    sums.coarser = coarser_than(exponent, coarser);
    sums.smallest = smallest;
    const double* w = data_of(weight, n);
    const label_t* to = changes ? data_of(labels, n) : labels_of(labels, n, k);
    if (changes) check_changes(*changes, to, n, k);
    run([&] { active->update(rows.view, w, to, changes, k, sums); });
}

// `low` and `high` have the shape k x d.
NarrowSums narrow_sums(const Array<2, word_t>& low, const Array<2, std::int32_t>& high, int digits) {
    require(extent(high, 0) == extent(low, 0) && extent(high, 1) == extent(low, 1), "narrow sums have other shapes");
    require(digits > 0 && digits <= NarrowSums::MOST_DIGITS, "terms of narrow sums have too many digits");
    return {low.data(), high.data(), digits};
}

void update_narrow(const Rows& rows, In<label_t> labels, const Changes* changes, Array<2, word_t> low,
                   Array<2, std::int32_t> high, int digits, LimbTable total, Out<index_t> count, int exponent,
                   int weight_exponent) {
    const index_t n = rows.view.n, k = extent(low, 0);
    require(!rows.view.sparse && extent(low, 1) == rows.view.d, "narrow sums are those of other rows");
    require(extent(total, 0) == k && extent(total, 1) == LIMBS, "weights have the wrong shape");
    ClusterSums sums{nullptr, total.data(), data_of(count, k), Scale(exponent), Scale(weight_exponent)};
    sums.narrow = narrow_sums(low, high, digits);
    const label_t* to = changes ? data_of(labels, n) : labels_of(labels, n, k);
    if (changes) check_changes(*changes, to, n, k);
    run([&] { active->update(rows.view, nullptr, to, changes, k, sums); });
}

void sums_by_label(const Rows& rows, OptionalIn<double> weight, In<label_t> labels, int exponent, double smallest,
                   OutTable out) {
    const index_t n = rows.view.n, k = extent(out, 0);
    require(rows.view.sparse, "sums by label are for sparse rows only");
    const double* w = data_of(weight, n);
    const label_t* of = labels_of(labels, n, k);
    double* sums = data_of(out, k * rows.view.d);
    run([&] { active->sums_by_label(rows.view, w, of, k, Scale(exponent), smallest, sums); });
}

void costs(const Rows& rows, Table centers, In<label_t> labels, Out<double> cost) {
    const index_t k = count_centers(rows, centers);
    const label_t* of = labels_of(labels, rows.view.n, k);
    double* out = data_of(cost, rows.view.n);
    run([&] { active->costs(rows.view, centers.data(), k, of, out); });
}

void distances(const Rows& rows, Matrix centers, bool squared, OutMatrix out) {
    const index_t k = count_centers(rows, centers);
    require(is_double(out) == rows.view.is_double, "distances must have the type of the rows");
    void* p = data_of(out, rows.view.n * k);
    run([&] { active->distances(rows.view, dense_view(centers), squared, p); });
}

void nearest(const Rows& rows, Matrix centers, Out<label_t> labels) {
    count_some_centers(rows, centers);
    label_t* out = data_of(labels, rows.view.n);
    run([&] { active->nearest(rows.view, dense_view(centers), out, active_bytes); });
}

// Rounds limbs of shape k x 3 x d to float64.
void round_limbs(LimbTables limbs, int exponent, OutTable out) {
    const index_t k = extent(limbs, 0), d = extent(limbs, 2);
    require(extent(limbs, 1) == LIMBS && extent(out, 0) == k && extent(out, 1) == d, "limbs have the wrong shape");
    const Scale scale(exponent);
    for (index_t j = 0; j < k; ++j)
        for (index_t i = 0; i < d; ++i)
            out.data()[j * d + i] = scale.rounded(Scale::whole(limbs.data() + j * LIMBS * d + i, d));
}

void round_narrow(Array<2, word_t> low, Array<2, std::int32_t> high, int digits, int exponent, OutTable out) {
    const NarrowSums sums = narrow_sums(low, high, digits);
    require(extent(out, 0) == extent(low, 0) && extent(out, 1) == extent(low, 1), "sums have the wrong shape");
    const Scale scale(exponent);
    for (index_t i = 0; i < length(low); ++i) out.data()[i] = scale.rounded(sums.whole(i));
}

auto sum_bins(In<double> terms, OptionalIn<double> weight) {
    const index_t n = length(terms);
    const double* w = data_of(weight, n);
    const Bins bins = run([&] { return exact_bins(terms.data(), w, n); });
    return to_numpy(std::vector<limb_t>(bins.bin, bins.bin + BINS));
}

nb::tuple magnitudes(const Rows& rows) {
    const Magnitudes m = run([&] { return active->magnitudes(rows.view); });
    return nb::make_tuple(m.largest, m.smallest);
}

}  // namespace

void bind_kmeans(nb::module_& m) {
    nb::class_<Changes>(m, "Changes").def(nb::init<>()).def_ro("overflowed", &Changes::overflowed);
    m.def("assign", assign, "rows"_a, "centers"_a, "labels"_a, "changes"_a.none() = nb::none(), "step"_a = 0.0f);
    m.def("assign_hamerly", assign_hamerly, "rows"_a, "centers"_a, "moved"_a.none(), "labels"_a, "upper"_a, "lower"_a,
          "tighten"_a, "apart"_a, "changes"_a.none());
    m.def("assign_elkan", assign_elkan, "rows"_a, "centers"_a, "moved"_a.none(), "drift"_a, "labels"_a, "upper"_a,
          "lower"_a, "changes"_a.none());
    nb::class_<ByteRows>(m, "ByteRows");
    m.def("byte_bounds", byte_bounds, "k"_a, "size"_a);
    m.def("fast_bytes", [] { return active_bytes->fast; });
    m.def("bytes_pay", fit_over_bytes_pays, "rows"_a, "k"_a);
    m.def("byte_rows", byte_rows, "rows"_a);
    m.def("assign_bytes", assign_bytes, "rows"_a, "bytes"_a, "centers"_a, "order"_a, "size"_a, "moved"_a.none(),
          "labels"_a, "upper"_a, "lower"_a, "changes"_a.none());
    m.def("assign_yinyang", assign_yinyang, "rows"_a, "centers"_a, "group"_a, "moved"_a.none(), "labels"_a, "upper"_a,
          "lower"_a, "changes"_a.none());
    m.def("two_nearest", two_nearest, "rows"_a, "centers"_a, "labels"_a, "second"_a, "cost"_a, "second_cost"_a);
    m.def("hartigan", hartigan, "rows"_a, "weight"_a.none(), "moved"_a, "shrink"_a, "centers"_a, "labels"_a, "upper"_a,
          "lower"_a, "sum"_a, "total"_a, "count"_a, "exponent"_a, "weight_exponent"_a);
    m.attr("MAX_PARTIAL") = MAX_PARTIAL;
    m.def("update", update, "rows"_a, "weight"_a.none(), "labels"_a, "changes"_a.none(), "sum"_a, "total"_a, "count"_a,
          "exponent"_a, "weight_exponent"_a, "coarser"_a, "smallest"_a);
    m.def("update_narrow", update_narrow, "rows"_a, "labels"_a, "changes"_a.none(), "low"_a, "high"_a, "digits"_a,
          "total"_a, "count"_a, "exponent"_a, "weight_exponent"_a);
    m.def("round_narrow", round_narrow, "low"_a, "high"_a, "digits"_a, "exponent"_a, "out"_a);
    m.def("sums_by_label", sums_by_label, "rows"_a, "weight"_a.none(), "labels"_a, "exponent"_a, "smallest"_a, "out"_a);
    m.def("round_limbs", round_limbs, "limbs"_a, "exponent"_a, "out"_a);
    m.def("exact_bins", sum_bins, "terms"_a, "weight"_a.none());
    m.def("magnitudes", magnitudes, "rows"_a);
    m.def("costs", costs, "rows"_a, "centers"_a, "labels"_a, "cost"_a);
    m.def("distances", distances, "rows"_a, "centers"_a, "squared"_a, "out"_a);
    m.def("nearest", nearest, "rows"_a, "centers"_a, "labels"_a);
}

}  // namespace kv::binding
