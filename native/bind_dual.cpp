// Bindings: the gains of candidates at given prices (k-median duals).
#include "bind.hpp"

namespace kv::binding {
namespace {

const index_t* selection(const OptionalIn<index_t>& some, index_t rows) {
    return some ? indices_of(*some, rows, "a candidate is out of range") : nullptr;
}

DistanceTable table(const Matrix& d, const OptionalIn<index_t>& some) {
    const index_t rows = extent(d, 0);
    return {is_double(d), d.data(), extent(d, 1), selection(some, rows), some ? length(*some) : rows};
}

DistanceLists lists(const In<index_t>& start, const In<std::int32_t>& point, const In<double>& distance,
                    const OptionalIn<index_t>& some, index_t points) {
    const index_t rows = length(start) - 1, count = some ? length(*some) : rows;
    require(rows >= 0 && length(point) == length(distance), "the parts of the lists do not fit");
    check_starts(start, rows, length(point), "the starts of the lists do not fit their entries");
    const std::int32_t* at = point.data();
    require(run([&] { return all_inside(at, length(point), points); }), "a point is out of range");
    return {start.data(), at, distance.data(), points, selection(some, rows), count};
}

void table_gains(Matrix distance, OptionalIn<index_t> some, In<double> price, In<double> weight, Out<double> gain) {
    const DistanceTable t = table(distance, some);
    const double *p = data_of(price, t.points), *w = data_of(weight, t.points);
    double* out = data_of(gain, t.count);
    run([&] { active->dual->table_gains(t, p, w, out); });
}

void table_cover(Matrix distance, OptionalIn<index_t> some, In<double> price, Out<double> cover) {
    const DistanceTable t = table(distance, some);
    const double* p = data_of(price, t.points);
    double* out = data_of(cover, t.points);
    run([&] { active->dual->table_cover(t, p, out); });
}

void list_gains(In<index_t> start, In<std::int32_t> point, In<double> distance, OptionalIn<index_t> some,
                In<double> price, In<double> weight, Out<double> gain) {
    const DistanceLists t = lists(start, point, distance, some, length(price));
    const double* w = data_of(weight, t.points);
    double* out = data_of(gain, t.count);
    run([&] { active->dual->list_gains(t, price.data(), w, out); });
}

void list_cover(In<index_t> start, In<std::int32_t> point, In<double> distance, OptionalIn<index_t> some,
                In<double> price, Out<double> cover) {
    const DistanceLists t = lists(start, point, distance, some, length(price));
    double* out = data_of(cover, t.points);
    run([&] { active->dual->list_cover(t, price.data(), out); });
}

}  // namespace

void bind_dual(nb::module_& m) {
    m.def("table_gains", table_gains, "distance"_a, "some"_a.none(), "price"_a, "weight"_a, "gain"_a);
    m.def("table_cover", table_cover, "distance"_a, "some"_a.none(), "price"_a, "cover"_a);
    m.def("list_gains", list_gains, "start"_a, "point"_a, "distance"_a, "some"_a.none(), "price"_a, "weight"_a,
          "gain"_a);
    m.def("list_cover", list_cover, "start"_a, "point"_a, "distance"_a, "some"_a.none(), "price"_a, "cover"_a);
}

}  // namespace kv::binding
