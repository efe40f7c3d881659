// Compares distances with their formula on every instruction set, checks that all give the same bits, and compares the
// gains of candidates at given prices with brute force.
#include "check.hpp"

namespace {

// Sizes around the width of a vector, the four rows of a group and the side of a tile; more vectors than a word has
// bits; more than one block of rows.
constexpr index_t SHAPES[][2] = {{1, 1},   {3, 7},    {4, 8},   {5, 16},    {6, 17},
                                 {30, 64}, {129, 40}, {7, 530}, {10, 1100}, {1030, 3}};

// Rows with margins of zeros, a third of them repeated.
template <class T>
Data<T> make_rows(index_t n, index_t d) {
    std::mt19937 rng(static_cast<unsigned>(n * 31 + d));
    std::normal_distribution<double> g;
    return Data<T>(n, d, [&](index_t i, index_t j, const std::vector<T>& x) {
        const bool zero = j < d / 4 || j >= d - d / 5 * (1 + i / 4 % 2);
        return i % 3 == 2 ? static_cast<double>(x[(i / 2) * d + j]) : zero ? 0.0 : g(rng);
    });
}

template <class T>
void test_shape(index_t n, index_t d) {
    const Data<T> data = make_rows<T>(n, d);
    std::vector<T> transposed(n * d);
    for (index_t i = 0; i < n * d; ++i) transposed[i % d * n + i / d] = data.x[i];
    for (const int kind : {L1, L2, COSINE})
        for (const bool few_features : {false, true}) {
            const PointsView view{sizeof(T) == 8, data.x.data(), few_features ? transposed.data() : nullptr, n, d};
            std::vector<T> first;
            for (const Kernels* set : available_kernels()) {
                const std::string name = set->name + type_name<T>() + std::to_string(n) + "x" + std::to_string(d) +
                                         " metric " + std::to_string(kind) + ": ";
                std::vector<T> square(n * n), rows(n * n);
                set->metric->square(view, kind, square.data());
                set->metric->rows(view, data.x.data(), n, kind, rows.data());
                if (first.empty()) first = square;
                check(square == first, name + "all instruction sets give the same bits");
                check(square == rows, name + "rows and all pairs agree");
                bool right = true;
                for (index_t p = 0; p < n * n; ++p) {
                    const double sum = data.distance(p / n, &data.x[p % n * d], kind == L1 ? 1 : 2);
                    const double want = kind == L2 ? std::sqrt(sum) : kind == COSINE ? sum / 2 : sum;
                    right &= std::abs(double(square[p]) - want) <= 4e3 * std::numeric_limits<T>::epsilon() * (1 + want);
                }
                check(right, name + "distances follow the formula");
            }
        }
}

template <class T>
void test_gains(const Kernels& set, index_t candidates, index_t points) {
    std::mt19937 rng(5);
    std::uniform_real_distribution<double> u(0, 1);
    std::vector<T> D(candidates * points);
    std::vector<double> price(points), weight(points), gain(candidates), list_gain(candidates), cover(points),
        list_cover(points);
    for (T& v : D) v = static_cast<T>(u(rng));
    for (index_t i = 0; i < points; ++i) price[i] = u(rng), weight[i] = u(rng);
    std::vector<index_t> start{0};
    std::vector<std::int32_t> point;
    std::vector<double> distance, want(candidates), want_cover(points);
    for (index_t c = 0; c < candidates; ++c) {
        for (index_t i = 0; i < points; ++i) {
            const double d = static_cast<double>(D[c * points + i]);
            if (d >= price[i]) continue;
            point.push_back(static_cast<std::int32_t>(i)), distance.push_back(d);
            want[c] += weight[i] * (price[i] - d), want_cover[i] += 1;
        }
        start.push_back(static_cast<index_t>(point.size()));
    }
    const DistanceTable table{sizeof(T) == 8, D.data(), points, nullptr, candidates};
    const DistanceLists lists{start.data(), point.data(), distance.data(), points, nullptr, candidates};
    set.dual->table_gains(table, price.data(), weight.data(), gain.data());
    set.dual->list_gains(lists, price.data(), weight.data(), list_gain.data());
    set.dual->table_cover(table, price.data(), cover.data());
    set.dual->list_cover(lists, price.data(), list_cover.data());
    double gap = 0;
    for (index_t c = 0; c < candidates; ++c)
        gap = std::max({gap, std::abs(gain[c] - want[c]), std::abs(list_gain[c] - want[c])});
    check(gap < 1e-9 * static_cast<double>(points), set.name + type_name<T>() + "gains follow the formula");
    check(cover == want_cover && list_cover == want_cover, set.name + type_name<T>() + "candidates are counted");
}

}  // namespace

int main() {
    return run_on_two_threads([] {
        for (const auto& [n, d] : SHAPES) test_shape<float>(n, d), test_shape<double>(n, d);
        for (const Kernels* set : available_kernels())
            test_gains<float>(*set, 70, 1100), test_gains<double>(*set, 3, 5);
    });
}
