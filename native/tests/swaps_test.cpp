// Compares swaps of medoids with brute force on every instruction set.
#include <numeric>

#include "check.hpp"

namespace {

// Candidates, points, k. The last is large enough for several threads to evaluate candidates ahead.
constexpr index_t SHAPES[][3] = {{1, 1, 1},   {5, 5, 5},      {40, 40, 1},     {64, 64, 3},
                                 {90, 65, 7}, {200, 130, 60}, {1500, 450, 100}};

template <class T>
struct Near {
    std::vector<label_t> labels, second;
    std::vector<T> cost, second_cost;
    explicit Near(index_t n) : labels(n), second(n), cost(n), second_cost(n) {}
    MedoidsView view() { return {sizeof(T) == 8, {labels.data(), second.data(), cost.data(), second_cost.data()}}; }
    bool operator==(const Near&) const = default;
};

struct End {
    std::vector<index_t> chosen;
    index_t swaps;
    bool operator==(const End&) const = default;
};

// Distances from every candidate to the points with demand; on a small grid they tie.
template <class T>
struct Test {
    index_t candidates, n, k;
    std::vector<T> D;
    std::vector<index_t> point, order;
    std::vector<double> weight;
    const Kernels* set = nullptr;
    std::string name;

    Test(index_t candidates_, index_t n_, index_t k_)
        : candidates(candidates_), n(n_), k(k_), D(candidates * n), point(n), order(candidates), weight(n) {
        std::mt19937 rng(static_cast<unsigned>(candidates * 31 + n + k));
        const unsigned side = candidates < 1000 ? 23 : 99991;
        std::vector<std::pair<int, int>> place(candidates);
        for (auto& [a, b] : place) a = static_cast<int>(rng() % side), b = static_cast<int>(rng() % side);
        std::iota(order.begin(), order.end(), 0);
        std::shuffle(order.begin(), order.end(), rng);
        std::copy_n(order.begin(), n, point.begin());
        for (double& w : weight) w = static_cast<double>(1 + rng() % 3);
        for (index_t p = 0; p < candidates * n; ++p) {
            const auto& [a, b] = place[p / n];
            const auto& [c, d] = place[point[p % n]];
            D[p] = static_cast<T>(std::abs(a - c) + std::abs(b - d));
        }
    }
    void expect(bool ok, const char* what) const { check(ok, name + what); }
    std::vector<index_t> start() const { return {order.end() - k, order.end()}; }

    double cost(const std::vector<index_t>& chosen) const {
        double sum = 0;
        for (index_t i = 0; i < n; ++i) {
            T least = std::numeric_limits<T>::infinity();
            for (const index_t c : chosen) least = std::min(least, D[c * n + i]);
            sum += weight[i] * static_cast<double>(least);
        }
        return sum;
    }
    // Calls f(candidate, slot, cost after the swap) for some swaps.
    template <class F>
    void for_swaps(const std::vector<index_t>& chosen, F&& f) const {
        for (index_t c = 0; c < candidates; c += 1 + candidates / 20)
            for (index_t m = 0; m < k; m += 1 + k / 4) {
                auto after = chosen;
                after[m] = c;
                f(c, m, cost(after));
            }
    }
    Near<T> two_nearest(const std::vector<index_t>& chosen) const {
        std::vector<T> rows;
        for (const index_t c : chosen) rows.insert(rows.end(), D.begin() + c * n, D.begin() + (c + 1) * n);
        Near<T> near(n);
        set->metric->two_nearest(rows.data(), k, n, near.view());
        return near;
    }

    void changes_are_differences_of_cost() const {
        const auto chosen = start();
        Near<T> near = two_nearest(chosen);
        std::vector<double> change(candidates * k);
        set->metric->swap_changes(D.data(), candidates, n, k, near.view(), weight.data(), change.data());
        const double before = cost(chosen);
        for_swaps(chosen, [&](index_t c, index_t m, double after) {
            expect(std::abs(change[c * k + m] - (after - before)) < 1e-6 * (1 + before),
                   "changes are differences of cost");
        });
    }

    void patched_points_have_the_right_medoids() const {
        auto chosen = start();
        Near<T> near = two_nearest(chosen);
        const auto m = static_cast<label_t>(k / 2);
        chosen[m] = order[0];
        const Near<T> fresh = two_nearest(chosen);
        std::vector<index_t> unknown(n);
        const T* row = D.data() + chosen[m] * n;
        unknown.resize(set->metric->swap_patch(row, n, m, near.view(), unknown.data()));
        for (const index_t i : unknown) {
            near.labels[i] = fresh.labels[i], near.second[i] = fresh.second[i];
            near.cost[i] = fresh.cost[i], near.second_cost[i] = fresh.second_cost[i];
        }
        expect(near == fresh, "patched points have the right medoids");
    }

    // Searches, and checks that the end is a local optimum.
    End search(index_t restarts) const {
        auto chosen = start();
        Near<T> near(n);
        const SwapResult out =
            set->metric->eager_swaps(D.data(), candidates, n, k, chosen.data(), near.view(), weight.data(),
                                     {order.data(), candidates, 16, 1e-12, 1'000'000}, {restarts, 2, 7, point.data()});
        const double end = cost(chosen);
        expect(out.converged && std::abs(out.cost - end) <= 1e-6 * (1 + end),
               "the search converges and knows its cost");
        for_swaps(chosen,
                  [&](index_t, index_t, double after) { expect(after >= end - 1e-6 * (1 + end), "no swap helps"); });
        expect(near == two_nearest(chosen), "the search knows the two nearest medoids");
        return {chosen, out.swaps};
    }
};

template <class T>
void test_shape(index_t candidates, index_t n, index_t k) {
    Test<T> test(candidates, n, k);
    std::vector<End> ends;
    for (const Kernels* set : available_kernels()) {
        test.set = set;
        test.name = set->name + type_name<T>() + std::to_string(candidates) + "x" + std::to_string(n) +
                    " k=" + std::to_string(k) + ": ";
        test.changes_are_differences_of_cost();
        test.patched_points_have_the_right_medoids();
        const End plain = test.search(0), more = test.search(4);
        ends.push_back(plain);
        test.expect(test.cost(more.chosen) <= test.cost(plain.chosen), "restarts do not raise the cost");
        test.expect(plain == ends[0], "all instruction sets make the same swaps");
        for (const int threads : {1, 3}) {
            set_threads(threads);
            test.expect(test.search(4) == more, "any number of threads makes the same swaps");
        }
        set_threads(2);
    }
}

}  // namespace

int main() {
    return run_on_two_threads([] {
        for (const auto& [candidates, n, k] : SHAPES) {
            test_shape<float>(candidates, n, k);
            if (candidates < 1000) test_shape<double>(candidates, n, k);
        }
    });
}
