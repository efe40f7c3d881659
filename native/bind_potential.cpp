// Bindings: the potential that seedings draw from, and the gains of candidates.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "bind.hpp"

namespace kv::binding {
namespace {

nb::tuple words_of(exact_t value) {
    return nb::make_tuple(static_cast<std::uint64_t>(value >> 64), static_cast<std::uint64_t>(value));
}

// Sums are pairs of 64-bit words, the low one first.
using Words = Array<2, std::uint64_t>;

Potential potential(const Rows& rows, Out<double>& cost, Out<label_t>& nearest, const OptionalIn<double>& weight,
                    std::optional<Words>& sums, int exponent) {
    const index_t n = rows.view.n;
    require(!sums || (extent(*sums, 0) == (n + DRAW - 1) / DRAW && extent(*sums, 1) == 2), "sums have the wrong shape");
    auto* words = sums ? reinterpret_cast<exact_t*>(sums->data()) : nullptr;
    require(reinterpret_cast<std::uintptr_t>(words) % alignof(exact_t) == 0, "sums are not aligned");
    return {data_of(cost, n), data_of(nearest, n), data_of(weight, n), words, Scale(exponent)};
}

// Limits by nearest centre, if there are any.
const double* limits_of(const OptionalIn<double>& limit, const Potential& p, index_t n) {
    if (!limit) return nullptr;
    require(run([&] { return all_inside(p.nearest, n, length(*limit)); }), "there must be a limit for every centre");
    return limit->data();
}

void lower_costs(const Rows& rows, Table fresh, label_t first, OptionalIn<double> limit, Out<double> cost,
                 Out<label_t> nearest, OptionalIn<double> weight, std::optional<Words> sums, int exponent) {
    const index_t m = count_centers(rows, fresh);
    const Potential p = potential(rows, cost, nearest, weight, sums, exponent);
    const double* limits = limits_of(limit, p, rows.view.n);
    run([&] { active->lower_costs(rows.view, fresh.data(), m, first, limits, p); });
}

void sum_costs(const Rows& rows, Out<double> cost, Out<label_t> nearest, OptionalIn<double> weight,
               std::optional<Words> sums, int exponent) {
    const Potential p = potential(rows, cost, nearest, weight, sums, exponent);
    run([&] { active->sum_costs(rows.view.n, p); });
}

nb::object row_filter(std::unique_ptr<RowFilter> made) { return made ? nb::cast(std::move(made)) : nb::none(); }

nb::object quantized_rows(const Rows& rows, Out<double> cost) {
    const double* of = data_of(cost, rows.view.n);
    return row_filter(run([&] { return active->make_quantized_rows(rows.view, of); }));
}

nb::object byte_tiles(const Rows& rows, Out<double> cost) {
    const double* of = data_of(cost, rows.view.n);
    return row_filter(run([&] { return active->make_byte_tiles(rows.view, of, *active_bytes); }));
}

void check_filter(const RowFilter* filter, const Rows& rows) {
    require(!filter || (filter->d == rows.view.d && filter->n == rows.view.n), "the filter is that of other rows");
}

void gain_bounds(const Rows& rows, const RowFilter* filter, Table candidates, OptionalIn<double> limit,
                 Out<double> cost, Out<label_t> nearest, OptionalIn<double> weight, std::optional<Words> sums,
                 int exponent, Out<double> bounds, PassedPairs& passed) {
    const index_t m = count_some_centers(rows, candidates);
    const Potential p = potential(rows, cost, nearest, weight, sums, exponent);
    const double* limits = limits_of(limit, p, rows.view.n);
    auto* out = reinterpret_cast<GainBounds*>(data_of(bounds, m * 2));
    check_filter(filter, rows);
    run([&] { active->gain_bounds(rows.view, filter, candidates.data(), m, limits, p, out, passed); });
}

void gains(const Rows& rows, Table candidates, OptionalIn<double> limit, Out<double> cost, Out<label_t> nearest,
           OptionalIn<double> weight, std::optional<Words> sums, int exponent, Words gain) {
    const index_t m = count_some_centers(rows, candidates);
    const Potential p = potential(rows, cost, nearest, weight, sums, exponent);
    const double* limits = limits_of(limit, p, rows.view.n);
    auto* out = reinterpret_cast<exact_t*>(data_of(gain, m * 2));
    require(reinterpret_cast<std::uintptr_t>(out) % alignof(exact_t) == 0, "gains are not aligned");
    run([&] { active->gains(rows.view, candidates.data(), m, limits, p, out); });
}

void lower_costs_of_passed(const Rows& rows, RowFilter* filter, Table fresh, label_t candidate, label_t name,
                           Out<double> cost, Out<label_t> nearest, OptionalIn<double> weight, std::optional<Words> sums,
                           int exponent, const PassedPairs& passed) {
    require(count_centers(rows, fresh) == 1, "there must be one new centre");
    require(passed.n == rows.view.n && candidate >= 0 && candidate < passed.m,
            "the passed pairs are those of other rows");
    const Potential p = potential(rows, cost, nearest, weight, sums, exponent);
    require(p.sums, "the sums are missing");
    check_filter(filter, rows);
    run([&] { active->lower_costs_of_passed(rows.view, filter, fresh.data(), candidate, name, p, passed); });
}

// Returns the sum of all as its high and low word.
nb::tuple total_words(Words sums) {
    exact_t total = 0;
    for (index_t t = 0; t < extent(sums, 0); ++t) {
        exact_t sum;
        std::memcpy(&sum, sums.data() + 2 * t, sizeof sum);
        total += sum;
    }
    return words_of(total);
}

nb::tuple propose(const Rows& rows, Table pending, label_t first, Out<double> cost, Out<label_t> nearest,
                  OptionalIn<double> weight, std::optional<Words> sums, int exponent, std::uint64_t high,
                  std::uint64_t low) {
    const index_t m = count_centers(rows, pending);
    const Potential p = potential(rows, cost, nearest, weight, sums, exponent);
    const exact_t goal = static_cast<exact_t>(high) << 64 | low;
    require(p.sums, "the sums are missing");
    exact_t total = 0;
    for (index_t t = 0; t < extent(*sums, 0); ++t) total += p.sums[t];
    require(goal >= 0 && goal < total, "the goal is not below the total");
    const Proposal out = run([&] { return active->propose(rows.view, pending.data(), m, first, p, goal); });
    return nb::make_tuple(out.row, out.bound, out.cost);
}

void rows_at(const Rows& rows, Out<double> cost, Out<label_t> nearest, OptionalIn<double> weight,
             std::optional<Words> sums, int exponent, Words goals, Out<index_t> out) {
    const Potential p = potential(rows, cost, nearest, weight, sums, exponent);
    require(p.sums && extent(goals, 1) == 2, "the sums are missing");
    index_t* to = data_of(out, extent(goals, 0));
    std::vector<exact_t> ends(p.sums, p.sums + extent(*sums, 0));
    std::partial_sum(ends.begin(), ends.end(), ends.begin());
    for (index_t i = 0; i < extent(goals, 0); ++i) {
        exact_t goal;
        std::memcpy(&goal, goals.data() + 2 * i, sizeof goal);
        const auto end = std::upper_bound(ends.begin(), ends.end(), goal);
        require(goal >= 0 && end != ends.end(), "the goal is not below the total");
        const index_t tile = end - ends.begin();
        to[i] = row_in_tile(p, rows.view.n, tile, goal - (*end - p.sums[tile]));
    }
}

}  // namespace

void bind_potential(nb::module_& m) {
    nb::class_<PassedPairs>(m, "PassedPairs").def(nb::init<>()).def_ro("wasted", &PassedPairs::wasted);
    nb::class_<RowFilter>(m, "RowFilter");
    m.attr("DRAW_TILE") = DRAW;
    m.def("lower_costs", lower_costs, "rows"_a, "fresh"_a, "first"_a, "limit"_a.none(), "cost"_a, "nearest"_a,
          "weight"_a.none(), "sums"_a.none(), "exponent"_a);
    m.def("sum_costs", sum_costs, "rows"_a, "cost"_a, "nearest"_a, "weight"_a.none(), "sums"_a, "exponent"_a);
    m.def("total_words", total_words, "sums"_a);
    m.def("quantized_rows", quantized_rows, "rows"_a, "cost"_a);
    m.def("byte_tiles", byte_tiles, "rows"_a, "cost"_a);
    m.def("gain_bounds", gain_bounds, "rows"_a, "filter"_a.none(), "candidates"_a, "limit"_a.none(), "cost"_a,
          "nearest"_a, "weight"_a.none(), "sums"_a.none(), "exponent"_a, "bounds"_a, "passed"_a);
    m.def("gains", gains, "rows"_a, "candidates"_a, "limit"_a.none(), "cost"_a, "nearest"_a, "weight"_a.none(),
          "sums"_a.none(), "exponent"_a, "gain"_a);
    m.def("lower_costs_of_passed", lower_costs_of_passed, "rows"_a, "filter"_a.none(), "fresh"_a, "candidate"_a,
          "name"_a, "cost"_a, "nearest"_a, "weight"_a.none(), "sums"_a, "exponent"_a, "passed"_a);
    m.def("propose", propose, "rows"_a, "pending"_a, "first"_a, "cost"_a, "nearest"_a, "weight"_a.none(), "sums"_a,
          "exponent"_a, "high"_a, "low"_a);
    m.def("rows_at", rows_at, "rows"_a, "cost"_a, "nearest"_a, "weight"_a.none(), "sums"_a, "exponent"_a, "goals"_a,
          "out"_a);
}

}  // namespace kv::binding
