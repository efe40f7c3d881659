// Compares searches on a graph with tables of all distances, on grids with missing edges and lengths that tie.
#include "graph.hpp"

#include "check.hpp"

namespace {

constexpr double INF = std::numeric_limits<double>::infinity();

struct Grid {
    std::vector<index_t> start{0};
    std::vector<std::int32_t> to;
    std::vector<double> length;
    index_t n;

    Grid(index_t side, double kept, std::mt19937& rng) : n(side * side) {
        std::vector<std::vector<std::pair<index_t, double>>> edges(n);
        const auto join = [&](index_t a, index_t b) {
            if (std::uniform_real_distribution<double>(0, 1)(rng) > kept) return;
            const double w = std::uniform_int_distribution<int>(0, 3)(rng);
            edges[a].emplace_back(b, w), edges[b].emplace_back(a, w);
        };
        for (index_t x = 0; x < n; ++x) {
            if (x % side) join(x, x - 1);
            if (x >= side) join(x, x - side);
        }
        for (const auto& list : edges) {
            for (const auto& [y, w] : list) to.push_back(static_cast<std::int32_t>(y)), length.push_back(w);
            start.push_back(static_cast<index_t>(to.size()));
        }
    }
};

struct Near {
    std::vector<label_t> labels, second;
    std::vector<double> cost, second_cost;
    explicit Near(index_t n) : labels(n), second(n), cost(n), second_cost(n) {}
    TwoNearest<double> view() { return {labels.data(), second.data(), cost.data(), second_cost.data()}; }
    bool operator==(const Near&) const = default;
};

struct Test {
    std::mt19937& rng;
    Grid grid;
    ShortestPaths paths{{grid.start.data(), grid.to.data(), grid.length.data(), grid.n}};
    index_t n = grid.n;
    std::string name;
    std::vector<index_t> order = std::vector<index_t>(n);
    std::vector<double> table = std::vector<double>(n * n);

    Test(index_t side, double kept, std::mt19937& r)
        : rng(r), grid(side, kept, r), name("grid " + std::to_string(n) + " " + std::to_string(kept) + ": ") {
        for (index_t x = 0; x < n; ++x) order[x] = x;
        paths.distances(order.data(), n, table.data());
    }

    double cost(const std::vector<index_t>& chosen) const {
        double sum = 0;
        for (index_t x = 0; x < n; ++x) {
            double best = INF;
            for (const index_t c : chosen) best = std::min(best, table[c * n + x]);
            sum += best;
        }
        return sum;
    }

    void swaps_change_the_cost_as_computed(index_t k) {
        std::uniform_int_distribution<index_t> node(0, n - 1), any_slot(0, k - 1);
        std::vector<index_t> chosen(k);
        for (auto& c : chosen) c = node(rng);
        Near near(n), fresh(n);
        paths.two_nearest(chosen.data(), k, near.view());
        for (int round = 0; round < 6; ++round) {
            std::vector<double> change(n * k);
            paths.swap_changes(order.data(), n, near.view(), k, nullptr, change.data());
            const double before = cost(chosen);
            const index_t slot = any_slot(rng), candidate = node(rng);
            chosen[slot] = candidate;
            const double found = change[candidate * k + slot];
            check(before < INF ? found == cost(chosen) - before : !std::isnan(found), name + "change of a swap");
            paths.swapped(chosen.data(), k, static_cast<label_t>(slot), near.view());
            paths.two_nearest(chosen.data(), k, fresh.view());
            check(near == fresh, name + "the two nearest after a swap");
        }
    }

    void lists_hold_the_right_nodes() {
        std::shuffle(order.begin(), order.end(), rng);
        const std::vector<double> radius(order.size(), 2.5);
        const auto least = paths.least_elements(order.data(), n), ball = paths.ball(order.data(), radius.data(), n);
        std::size_t near = 0, records = 0;
        for (index_t x = 0; x < n; ++x) {
            double best = INF;
            for (const index_t p : order) {
                const double d = table[p * n + x];
                near += d < 2.5, records += d < best;
                best = std::min(best, d);
            }
        }
        check(least.node.size() == records && ball.node.size() == near, name + "least elements and balls");
        std::vector<double> to(n);
        paths.among(0, order.data(), n, to.data());
        bool ok = true;
        for (index_t i = 0; i < n; ++i) ok &= to[i] == table[order[i]];
        check(ok, name + "distances to some nodes");
    }
};

}  // namespace

int main() {
    return run_on_two_threads([] {
        std::mt19937 rng(1);
        for (const index_t side : {1, 2, 5, 14})
            for (const double kept : {0.0, 0.5, 1.0}) {
                Test test(side, kept, rng);
                for (const index_t k : {1, 2, 7}) test.swaps_change_the_cost_as_computed(k);
                test.lists_hold_the_right_nodes();
            }
    });
}
