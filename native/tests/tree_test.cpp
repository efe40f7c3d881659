// Checks the 2-HST on every instruction set and for every source of distances, and the queries of it.
#include "check.hpp"
#include "tree_lists.hpp"
#include "tree_queries.hpp"

namespace {

constexpr index_t SHAPES[][2] = {{1, 1}, {2, 2}, {3, 3}, {65, 1}, {120, 2}, {120, 3}, {150, 5}, {333, 20}, {300, 130}};

bool same(const Tree& a, const Tree& b) {
    return a.parent == b.parent && a.height == b.height && a.center == b.center && a.leaf == b.leaf && a.unit == b.unit;
}

TreeView view(const Tree& t) {
    return {t.parent.data(), t.height.data(), static_cast<index_t>(t.parent.size()), std::ilogb(t.unit)};
}

struct Test {
    const Kernels& kernels;
    index_t n, d;
    bool manhattan;
    std::string name = kernels.name + (" " + std::to_string(n)) + "x" + std::to_string(d) + ": ";
    std::mt19937 rng{static_cast<unsigned>(n * 31 + d)};
    // A third of the rows are repeated.
    Data<double> data{
        n, d, [&](index_t i, index_t j, const std::vector<double>& x) {
            return i % 3 == 2 ? x[(i / 2) * d + j] : j % 4 == 1 ? 0.0 : std::normal_distribution<double>()(rng);
        }};
    std::vector<double> D = std::vector<double>(n * n);

    void expect(bool ok, const char* what) const { check(ok, name + what); }

    void tree_distances_dominate(const Tree& tree) const {
        bool ok = true;
        for (index_t i = 0; i < n; ++i)
            for (index_t j = 0; j < i; ++j) {
                const index_t v = common_ancestor(view(tree), tree.leaf[i], tree.leaf[j]);
                const double far = std::ldexp(tree.unit, static_cast<int>(tree.height[v]) + 1);
                ok &= (tree.leaf[i] == tree.leaf[j] ? 0 : far) >= D[i * n + j];
            }
        expect(ok, "tree distances are at least the distances");
    }

    void leaves_are_distinct(const Tree& tree) const {
        std::vector<double> count(tree.parent.size());
        counts(view(tree), tree.leaf.data(), n, nullptr, count.data());
        expect(count[0] == static_cast<double>(n), "the root counts all points");
        std::vector<double> noisy = count;
        for (std::size_t v = 0; v < noisy.size(); ++v) noisy[v] -= static_cast<double>(mix(v) % 5);
        for (const auto& c : {count, noisy})
            for (const index_t k : {index_t{1}, index_t{3}, n}) {
                auto found = leaves_by_score(view(tree), c.data(), k, 2),
                     best = leaves_exactly(view(tree), c.data(), k, 1);
                std::sort(found.begin(), found.end());
                expect(std::adjacent_find(found.begin(), found.end()) == found.end(), "leaves are distinct");
                expect(found.size() == best.size(), "both methods find as many leaves");
            }
    }

    // Least-element lists in the order of the points.
    Tree tree_of_lists() const {
        std::vector<index_t> start{0};
        std::vector<std::int32_t> node;
        std::vector<double> distance;
        for (index_t i = 0; i < n; ++i) {
            double least = std::numeric_limits<double>::infinity();
            for (index_t p = 0; p < n; ++p)
                if (D[p * n + i] < least) {
                    least = D[p * n + i];
                    node.push_back(static_cast<std::int32_t>(p)), distance.push_back(least);
                }
            start.push_back(static_cast<index_t>(node.size()));
        }
        return ListTreeBuilder({start.data(), node.data(), distance.data(), n}, 5).build();
    }

    void run() {
        for (index_t p = 0; p < n * n; ++p) {
            const double sum = data.distance(p / n, &data.x[p % n * d], manhattan ? 1 : 2);
            D[p] = manhattan ? sum : std::sqrt(sum);
        }
        Tree tree, sparse, matrix, called;
        kernels.tree->over_rows(data.view(false), manhattan, 7, tree);
        kernels.tree->over_rows(data.view(true), manhattan, 7, sparse);
        kernels.tree->over_matrix(D.data(), true, n, 7, matrix);
        kernels.tree->over_callable(
            [&](index_t from, const std::int32_t* others, index_t count, double* out) {
                for (index_t i = 0; i < count; ++i) out[i] = D[from * n + others[i]];
            },
            n, 7, called);
        expect(same(tree, sparse) && same(tree, matrix) && same(tree, called), "all sources give one tree");
        for (const Tree& t : {tree, tree_of_lists()}) tree_distances_dominate(t), leaves_are_distinct(t);
    }
};

// Enough points for tasks of several threads.
void test_tasks(const Kernels& kernels) {
    const index_t n = 40000;
    const Data<float> data(n, 2, [](index_t i, index_t j, auto&) { return mix(2 * i + j) >> 40; });
    Tree tree, called;
    kernels.tree->over_rows(data.view(false), false, 3, tree);
    kernels.tree->over_callable(
        [&](index_t from, const std::int32_t* others, index_t count, double* out) {
            for (index_t i = 0; i < count; ++i) out[i] = std::sqrt(data.distance(from, &data.x[2 * others[i]]));
        },
        n, 3, called);
    check(same(tree, called), std::string(kernels.name) + ": tasks give the tree of one thread");
}

}  // namespace

void test_power_of_two() {
    bool near = true;
    for (double x = 0; x < 1; x += 0x1p-10) near &= std::abs(power_of_two(x) / std::exp2(x) - 1) < 0x1p-51;
    check(near, "powers of two differ by rounding only");
    check(power_of_two(0) == 1, "2^0 is 1");
}

int main() {
    return run_on_two_threads([] {
        test_power_of_two();
        for (const Kernels* kernels : available_kernels()) {
            for (const bool manhattan : {false, true})
                for (const auto& [n, d] : SHAPES) Test{*kernels, n, d, manhattan}.run();
            test_tasks(*kernels);
        }
    });
}
