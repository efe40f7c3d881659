// Bindings: what candidates would earn at given prices.
#include "bind.hpp"

namespace kv::bound {
namespace {

const index_t* checked(const Maybe<index_t>& some, index_t rows) {
    if (!some) return nullptr;
    for (std::size_t i = 0; i < some->size(); ++i)
        need(some->data()[i] >= 0 && some->data()[i] < rows, "a candidate out of range");
    return some->data();
}

Table table(const Matrix& d, const Maybe<index_t>& some) {
    const index_t rows = static_cast<index_t>(d.shape(0));
    return {wide(d.dtype()), d.data(), static_cast<index_t>(d.shape(1)), checked(some, rows),
            some ? static_cast<index_t>(some->size()) : rows};
}

void table_gains(Matrix distance, Maybe<index_t> some, In<double> price, In<double> weight, Out<double> gain) {
    const Table t = table(distance, some);
    const double *p = sized(price, t.points), *w = sized(weight, t.points);
    double* out = sized(gain, t.count);
    run([&] { active->dual->table_gains(t, p, w, out); });
}

void table_cover(Matrix distance, Maybe<index_t> some, In<double> price, Out<double> cover) {
    const Table t = table(distance, some);
    const double* p = sized(price, t.points);
    double* out = sized(cover, t.points);
    run([&] { active->dual->table_cover(t, p, out); });
}

NearLists lists(const In<index_t>& start, const In<std::int32_t>& point, const In<double>& distance,
                const Maybe<index_t>& some, index_t points) {
    const index_t rows = static_cast<index_t>(start.size()) - 1;
    need(rows >= 0 && point.size() == distance.size() && start.data()[rows] == static_cast<index_t>(point.size()),
         "lists of unequal parts");
    return {start.data(), point.data(), distance.data(), points, checked(some, rows),
            some ? static_cast<index_t>(some->size()) : rows};
}

void list_gains(In<index_t> start, In<std::int32_t> point, In<double> distance, Maybe<index_t> some, In<double> price,
                In<double> weight, Out<double> gain) {
    const NearLists t = lists(start, point, distance, some, static_cast<index_t>(price.size()));
    const double* w = sized(weight, t.points);
    double* out = sized(gain, t.count);
    run([&] { active->dual->list_gains(t, price.data(), w, out); });
}

void list_cover(In<index_t> start, In<std::int32_t> point, In<double> distance, Maybe<index_t> some, In<double> price,
                Out<double> cover) {
    const NearLists t = lists(start, point, distance, some, static_cast<index_t>(price.size()));
    double* out = sized(cover, t.points);
    run([&] { active->dual->list_cover(t, price.data(), out); });
}

}  // namespace

void dual(nb::module_& m) {
    m.def("table_gains", table_gains, "distance"_a, "some"_a.none(), "price"_a, "weight"_a, "gain"_a);
    m.def("table_cover", table_cover, "distance"_a, "some"_a.none(), "price"_a, "cover"_a);
    m.def("list_gains", list_gains, "start"_a, "point"_a, "distance"_a, "some"_a.none(), "price"_a, "weight"_a,
          "gain"_a);
    m.def("list_cover", list_cover, "start"_a, "point"_a, "distance"_a, "some"_a.none(), "price"_a, "cover"_a);
}

}  // namespace kv::bound
