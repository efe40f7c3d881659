// Trees against brute force, every instruction set and every kind of space; and what is asked of trees.
#include <random>
#include <string>

#include "check.hpp"
#include "kernels.hpp"
#include "tree_lists.hpp"
#include "tree_queries.hpp"

using namespace kv;

namespace {

bool same(const Tree& a, const Tree& b) {
    return a.parent == b.parent && a.height == b.height && a.center == b.center && a.leaf == b.leaf && a.unit == b.unit;
}

TreeView view(const Tree& t) {
    return {t.parent.data(), t.height.data(), static_cast<index_t>(t.parent.size()), std::ilogb(t.unit)};
}

// Rows, a third of them repeated, both ways, and all their distances. Sized exactly, so that a stray read is seen.
struct Data {
    index_t n, d;
    std::vector<double> x, stored, D;
    std::vector<std::int32_t> column;
    std::vector<index_t> start{0};

    Data(index_t n_, index_t d_, bool manhattan) : n(n_), d(d_), x(n_ * d_), D(n_ * n_) {
        std::mt19937 rng(static_cast<unsigned>(n * 31 + d));
        std::normal_distribution<double> g;
        for (index_t i = 0; i < n; ++i)
            for (index_t j = 0; j < d; ++j) x[i * d + j] = i % 3 == 2 ? x[(i / 2) * d + j] : j % 4 == 1 ? 0.0 : g(rng);
        for (index_t i = 0; i < n; ++i) {
            for (index_t j = 0; j < d; ++j)
                if (x[i * d + j] != 0) stored.push_back(x[i * d + j]), column.push_back(static_cast<std::int32_t>(j));
            start.push_back(static_cast<index_t>(stored.size()));
            for (index_t o = 0; o < n; ++o) {
                double sum = 0;
                for (index_t j = 0; j < d; ++j) {
                    const double a = x[i * d + j] - x[o * d + j];
                    sum += manhattan ? std::abs(a) : a * a;
                }
                D[i * n + o] = manhattan ? sum : std::sqrt(sum);
            }
        }
    }
    RowsView rows() const { return {false, true, x.data(), nullptr, nullptr, n, d}; }
    RowsView sparse() const { return {true, true, stored.data(), column.data(), start.data(), n, d}; }
};

void dominates(const Tree& tree, const Data& data, const std::string& name) {
    bool ok = true;
    for (index_t i = 0; i < data.n; ++i)
        for (index_t j = 0; j < i; ++j) {
            const index_t v = common_ancestor(view(tree), tree.leaf[i], tree.leaf[j]);
            const double far = tree.leaf[i] == tree.leaf[j] ? 0 : std::ldexp(tree.unit, static_cast<int>(tree.height[v]) + 1);
            ok = ok && far >= data.D[i * data.n + j];
        }
    check(ok, name + ": dominates");
}

void seeds(const Tree& tree, index_t n, const std::string& name) {
    std::vector<double> count(tree.parent.size()), noisy;
    counts(view(tree), tree.leaf.data(), n, nullptr, count.data());
    check(count[0] == static_cast<double>(n), name + ": counts");
    noisy = count;
    for (std::size_t v = 0; v < noisy.size(); ++v) noisy[v] -= static_cast<double>(mix(v) % 5);
    for (const auto& c : {count, noisy})
        for (const index_t k : {index_t{1}, index_t{3}, n}) {
            auto found = leaves_by_score(view(tree), c.data(), k, 2), best = leaves_exactly(view(tree), c.data(), k, 1);
            check(found.size() == best.size(), name + ": as many leaves");
            std::sort(found.begin(), found.end());
            check(std::adjacent_find(found.begin(), found.end()) == found.end(), name + ": distinct leaves");
        }
}

Tree over_lists(const Data& data) {  // the order is that of the points
    std::vector<index_t> start{0};
    std::vector<std::int32_t> node;
    std::vector<double> distance;
    for (index_t i = 0; i < data.n; ++i) {
        double least = std::numeric_limits<double>::infinity();
        for (index_t p = 0; p < data.n; ++p)
            if (const double d = data.D[p * data.n + i]; d < least) {
                least = d;
                node.push_back(static_cast<std::int32_t>(p));
                distance.push_back(d);
            }
        start.push_back(static_cast<index_t>(node.size()));
    }
    return ListTreeBuilder({start.data(), node.data(), distance.data(), data.n}, 5).grow();
}

void everything(const Kernels& k, index_t n, index_t d, bool manhattan) {
    const std::string name = std::string(k.name) + " " + std::to_string(n) + "x" + std::to_string(d);
    const Data data(n, d, manhattan);
    Tree tree, other;
    k.tree->over_rows(data.rows(), manhattan, 7, tree);
    dominates(tree, data, name);
    seeds(tree, n, name);
    k.tree->over_rows(data.sparse(), manhattan, 7, other);
    check(same(tree, other), name + ": sparse rows");
    k.tree->over_matrix(data.D.data(), true, n, 7, other);
    check(same(tree, other), name + ": a matrix");
    const DistancesFrom among = [&](index_t from, const std::int32_t* others, index_t count, double* out) {
        for (index_t i = 0; i < count; ++i) out[i] = data.D[from * n + others[i]];
    };
    k.tree->over_callable(among, n, 7, other);
    check(same(tree, other), name + ": a function");
    const Tree lists = over_lists(data);
    dominates(lists, data, name + " lists");
    seeds(lists, n, name + " lists");
}

void many(const Kernels& k) {  // enough for tasks of their own
    std::vector<float> x(2 * 40000);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(mix(i) >> 40);
    Tree tree, other;
    k.tree->over_rows({false, false, x.data(), nullptr, nullptr, 40000, 2}, false, 3, tree);
    const DistancesFrom among = [&](index_t from, const std::int32_t* others, index_t count, double* out) {
        for (index_t i = 0; i < count; ++i)
            out[i] = std::hypot(double(x[2 * from]) - x[2 * others[i]], double(x[2 * from + 1]) - x[2 * others[i] + 1]);
    };
    k.tree->over_callable(among, 40000, 3, other);
    check(same(tree, other), std::string(k.name) + ": many points");
}

}  // namespace

int main() {
    for (const Kernels* k : available_kernels()) {
        for (const bool manhattan : {false, true})
            for (const auto& [n, d] : std::vector<std::pair<index_t, index_t>>{
                     {1, 1}, {2, 2}, {3, 3}, {65, 1}, {120, 2}, {120, 3}, {150, 5}, {333, 20}, {300, 130}})
                everything(*k, n, d, manhattan);
        many(*k);
    }
    return verdict();
}
