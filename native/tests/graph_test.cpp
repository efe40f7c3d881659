// The searches on a graph against tables of distances, on torn grids with lengths that tie.
#include <cmath>
#include <random>
#include <string>

#include "check.hpp"
#include "graph.hpp"

using namespace kv;

namespace {

constexpr double INF = std::numeric_limits<double>::infinity();

struct Grid {
    std::vector<index_t> start{0};
    std::vector<std::int32_t> to;
    std::vector<double> length;
    index_t n;

    Grid(index_t side, double kept, std::mt19937& rng) : n(side * side) {
        std::vector<std::vector<std::pair<index_t, double>>> rows(static_cast<std::size_t>(n));
        const auto join = [&](index_t a, index_t b) {
            if (std::uniform_real_distribution<double>(0, 1)(rng) > kept) return;
            const double w = std::uniform_int_distribution<int>(0, 3)(rng);
            rows[static_cast<std::size_t>(a)].emplace_back(b, w), rows[static_cast<std::size_t>(b)].emplace_back(a, w);
        };
        for (index_t x = 0; x < n; ++x) {
            if (x % side) join(x, x - 1);
            if (x >= side) join(x, x - side);
        }
        for (const auto& row : rows) {
            for (const auto& [y, w] : row) to.push_back(static_cast<std::int32_t>(y)), length.push_back(w);
            start.push_back(static_cast<index_t>(to.size()));
        }
    }
    GraphView links() const { return {start.data(), to.data(), length.data(), n}; }
};

struct Near {
    std::vector<label_t> slot, second;
    std::vector<double> cost, second_cost;
    explicit Near(index_t n) : slot(n), second(n), cost(n), second_cost(n) {}
    Nearest_ view() { return {slot.data(), second.data(), cost.data(), second_cost.data()}; }
    bool operator==(const Near&) const = default;
};

double total(const std::vector<double>& table, const std::vector<index_t>& chosen, index_t n) {
    double sum = 0;
    for (index_t x = 0; x < n; ++x) {
        double best = INF;
        for (const index_t c : chosen) best = std::min(best, table[static_cast<std::size_t>(c * n + x)]);
        sum += best;
    }
    return sum;
}

void swaps(ShortestPaths& paths, const std::vector<double>& table, index_t k, std::mt19937& rng, const std::string& name) {
    const index_t n = paths.n();
    std::uniform_int_distribution<index_t> any(0, n - 1), some(0, k - 1);
    std::vector<index_t> chosen(static_cast<std::size_t>(k)), all(static_cast<std::size_t>(n));
    for (auto& c : chosen) c = any(rng);
    for (index_t x = 0; x < n; ++x) all[static_cast<std::size_t>(x)] = x;
    Near near(n), fresh(n);
    paths.two_nearest(chosen.data(), k, near.view());
    for (int round = 0; round < 6; ++round) {
        std::vector<double> change(static_cast<std::size_t>(n * k));
        paths.swap_changes(all.data(), n, near.view(), k, nullptr, change.data());
        const double before = total(table, chosen, n);
        const index_t slot = some(rng), candidate = any(rng);
        const double found = change[static_cast<std::size_t>(candidate * k + slot)];
        chosen[static_cast<std::size_t>(slot)] = candidate;
        const double after = total(table, chosen, n);
        check(!std::isnan(found), name + " a change that is no number");
        if (before < INF) check(found == after - before, name + " change");
        paths.swapped(chosen.data(), k, static_cast<label_t>(slot), near.view());
        paths.two_nearest(chosen.data(), k, fresh.view());
        check(near == fresh, name + " swapped");
    }
}

void lists(ShortestPaths& paths, const std::vector<double>& table, std::mt19937& rng, const std::string& name) {
    const index_t n = paths.n();
    std::vector<index_t> order(static_cast<std::size_t>(n));
    for (index_t x = 0; x < n; ++x) order[static_cast<std::size_t>(x)] = x;
    std::shuffle(order.begin(), order.end(), rng);
    const std::vector<double> radius(order.size(), 2.5);
    const NodeLists least = paths.least_elements(order.data(), n), ball = paths.ball(order.data(), radius.data(), n);
    index_t near = 0, records = 0;
    for (index_t x = 0; x < n; ++x) {
        double best = INF;
        for (const index_t p : order) {
            const double d = table[static_cast<std::size_t>(p * n + x)];
            near += d < 2.5, records += d < best;
            best = std::min(best, d);
        }
    }
    check(static_cast<index_t>(least.node.size()) == records, name + " least elements");
    check(static_cast<index_t>(ball.node.size()) == near, name + " balls");
    std::vector<double> to(order.size());
    paths.among(0, order.data(), n, to.data());
    for (std::size_t i = 0; i < to.size(); ++i)
        check(to[i] == table[static_cast<std::size_t>(order[i])], name + " among");
}

}  // namespace

int main() {
    std::mt19937 rng(1);
    for (const index_t side : {1, 2, 5, 14})
        for (const double kept : {0.0, 0.5, 1.0})
            for (const index_t k : {1, 2, 7}) {
                const Grid grid(side, kept, rng);
                ShortestPaths paths(grid.links());
                std::vector<index_t> all(static_cast<std::size_t>(grid.n));
                for (index_t x = 0; x < grid.n; ++x) all[static_cast<std::size_t>(x)] = x;
                std::vector<double> table(static_cast<std::size_t>(grid.n * grid.n));
                paths.distances(all.data(), grid.n, table.data());
                const std::string name = std::to_string(side) + " " + std::to_string(kept) + " k=" + std::to_string(k);
                swaps(paths, table, k, rng, name);
                lists(paths, table, rng, name);
            }
    return verdict();
}
