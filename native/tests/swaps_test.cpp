// Swaps of medoids against brute force, every instruction set: nearest two, changes, and where a search ends.
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <string>

#include "check.hpp"
#include "kernels.hpp"

using namespace kv;

namespace {

template <class T>
struct Cache {
    std::vector<label_t> slot, second;
    std::vector<T> cost, second_cost;
    explicit Cache(index_t n) : slot(n), second(n), cost(n), second_cost(n) {}
    NearView view() { return {sizeof(T) == 8, slot.data(), second.data(), cost.data(), second_cost.data()}; }
    bool operator==(const Cache&) const = default;
};

// Distances from every candidate to the points with demand; on the small grid they tie.
template <class T>
struct Data {
    index_t universe, n, k;
    std::vector<T> D;
    std::vector<index_t> point, order;
    std::vector<double> weight;

    Data(index_t universe_, index_t n_, index_t k_)
        : universe(universe_), n(n_), k(k_), D(universe_ * n_), point(n_), order(universe_), weight(n_) {
        std::mt19937 rng(static_cast<unsigned>(universe * 31 + n + k));
        const unsigned side = universe < 1000 ? 23 : 99991;
        std::vector<std::pair<int, int>> place(universe);
        for (auto& [a, b] : place) a = static_cast<int>(rng() % side), b = static_cast<int>(rng() % side);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), rng);
        std::copy_n(order.begin(), n, point.begin());
        for (double& w : weight) w = static_cast<double>(1 + rng() % 3);
        for (index_t c = 0; c < universe; ++c)
            for (index_t i = 0; i < n; ++i) {
                const auto [a, b] = place[c];
                const auto [p, q] = place[point[i]];
                D[c * n + i] = static_cast<T>(std::abs(a - p) + std::abs(b - q));
            }
    }
    std::vector<index_t> start() const { return {order.end() - k, order.end()}; }

    double cost(const std::vector<index_t>& chosen) const {
        double sum = 0;
        for (index_t i = 0; i < n; ++i) {
            T least = std::numeric_limits<T>::infinity();
            for (const index_t c : chosen) least = std::min(least, D[c * n + i]);
            sum += weight[i] * double(least);
        }
        return sum;
    }
    double with(std::vector<index_t> chosen, index_t m, index_t c) const {
        chosen[m] = c;
        return cost(chosen);
    }
    std::vector<T> rows(const std::vector<index_t>& chosen) const {
        std::vector<T> out;
        for (const index_t c : chosen) out.insert(out.end(), D.begin() + c * n, D.begin() + (c + 1) * n);
        return out;
    }
};

template <class T>
void changes(const Kernels& set, const Data<T>& data, const std::string& name) {
    const auto chosen = data.start();
    const auto rows = data.rows(chosen);
    Cache<T> near(data.n);
    set.metric->two_nearest(rows.data(), data.k, data.n, near.view());
    std::vector<double> got(data.universe * data.k);
    set.metric->swap_changes(data.D.data(), data.universe, data.n, data.k, near.view(), data.weight.data(), got.data());
    bool right = true;
    const double before = data.cost(chosen);
    for (index_t c = 0; c < data.universe; c += 1 + data.universe / 20)
        for (index_t m = 0; m < data.k; m += 1 + data.k / 4)
            right = right && std::abs(got[c * data.k + m] - (data.with(chosen, m, c) - before)) < 1e-6 * (1 + before);
    check(right, name + ": changes are differences of cost");
}

// After a swap: what patching leaves unknown is made anew, and both together are the two nearest.
template <class T>
void patches(const Kernels& set, const Data<T>& data, const std::string& name) {
    auto chosen = data.start();
    Cache<T> near(data.n);
    set.metric->two_nearest(data.rows(chosen).data(), data.k, data.n, near.view());
    const label_t m = static_cast<label_t>(data.k / 2);
    chosen[m] = data.order[0];
    std::vector<index_t> unknown(data.n);
    const index_t count = set.metric->swap_patch(data.D.data() + chosen[m] * data.n, data.n, m, near.view(), unknown.data());
    Cache<T> fresh(data.n);
    set.metric->two_nearest(data.rows(chosen).data(), data.k, data.n, fresh.view());
    for (index_t u = 0; u < count; ++u) {
        const index_t i = unknown[u];
        near.slot[i] = fresh.slot[i], near.second[i] = fresh.second[i];
        near.cost[i] = fresh.cost[i], near.second_cost[i] = fresh.second_cost[i];
    }
    check(near == fresh, name + ": patched");
}

struct End {
    std::vector<index_t> chosen;
    index_t swaps;
    bool operator==(const End&) const = default;
};

template <class T>
End searched(const Kernels& set, const Data<T>& data, index_t restarts, const std::string& name) {
    auto chosen = data.start();
    Cache<T> near(data.n), fresh(data.n);
    const SwapOptions round{data.order.data(), data.universe, 16, 1e-12, 1'000'000};
    const Restarts again{restarts, 2, 7, data.point.data()};
    const SwapResult out = set.metric->eager_swaps(data.D.data(), data.universe, data.n, data.k, chosen.data(), near.view(),
                                        data.weight.data(), round, again);
    const double cost = data.cost(chosen);
    check(out.converged && std::abs(out.cost - cost) <= 1e-6 * (1 + cost), name + ": ends settled, at its cost");
    bool optimal = true;
    for (index_t c = 0; c < data.universe; c += 1 + data.universe / 20)
        for (index_t m = 0; m < data.k; m += 1 + data.k / 4)
            optimal = optimal && data.with(chosen, m, c) >= cost - 1e-6 * (1 + cost);
    check(optimal, name + ": no swap is left that helps");
    set.metric->two_nearest(data.rows(chosen).data(), data.k, data.n, fresh.view());
    check(near == fresh, name + ": its caches are true");
    return {chosen, out.swaps};
}

// However many threads look ahead, the same swaps are made.
template <class T>
void threads([[maybe_unused]] const Kernels& set, [[maybe_unused]] const Data<T>& data, [[maybe_unused]] const std::string& name) {
#ifdef _OPENMP
    const int most = omp_get_max_threads();
    std::vector<End> ends;
    for (const int count : {1, 2, 3}) {
        omp_set_num_threads(count);
        ends.push_back(searched(set, data, 9, name + " threads"));
    }
    omp_set_num_threads(most);
    check(ends[0] == ends[1] && ends[0] == ends[2], name + ": the same on any number of threads");
#endif
}

template <class T>
void size(index_t universe, index_t n, index_t k) {
    const Data<T> data(universe, n, k);
    std::vector<End> ends;
    for (const Kernels* set : available_kernels()) {
        const std::string name = std::string(set->name) + " " + std::to_string(universe) + "x" + std::to_string(n) + " k=" +
                                 std::to_string(k) + (sizeof(T) == 8 ? " float64" : " float32");
        changes(*set, data, name);
        patches(*set, data, name);
        const auto plain = searched(*set, data, 0, name), more = searched(*set, data, 4, name + " restarts");
        check(data.cost(more.chosen) <= data.cost(plain.chosen), name + ": restarts cost no more");
        ends.push_back(plain), ends.push_back(more);
        check(plain == ends[0] && more == ends[1], name + ": the same on every set");
        if (universe > 1000) threads(*set, data, name);
    }
}

}  // namespace

int main() {
    for (const auto& [universe, n, k] :
         std::vector<std::array<index_t, 3>>{{1, 1, 1}, {5, 5, 5}, {40, 40, 1}, {64, 64, 3}, {90, 65, 7}, {200, 130, 60}}) {
        size<float>(universe, n, k);
        size<double>(universe, n, k);
    }
    size<float>(3000, 900, 200);  // enough for several threads to look ahead, and to forget
    return verdict();
}
