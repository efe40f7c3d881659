// Checks plans of rows to clusters with limits: prices prove that they are optimal, on every instruction set, for dense
// and sparse rows, for few and for all arcs, and with rows that are split.
#include "check.hpp"

namespace {

// n, d, k
constexpr index_t SHAPES[][3] = {{1, 1, 1}, {5, 1, 5}, {63, 2, 5}, {130, 3, 20}, {2051, 4, 12}};

struct Plan {
    std::vector<double> price;
    std::vector<label_t> labels;
    TransportResult result;
};

Plan solve(const Kernels& set, const RowsView& view, const std::vector<double>& c, const TransportProblem& problem,
           double tau) {
    Plan plan{std::vector<double>(problem.k), std::vector<label_t>(problem.n, -1), {}};
    const auto collect = [&](const double* price, double within, bool keep, label_t* labels, PricedArcs& arcs) {
        set.collect_arcs(view, c.data(), problem.k, price, within, keep, labels, &arcs);
    };
    plan.result = transport(problem, collect, tau, plan.price.data(), plan.labels.data());
    return plan;
}

// Units of each row in each cluster.
std::vector<index_t> amounts(const Plan& plan, const TransportProblem& p) {
    std::vector<index_t> out(p.n * p.k);
    for (index_t i = 0; i < p.n; ++i) out[i * p.k + plan.labels[i]] = p.supply ? p.supply[i] : 1;
    for (const RowPart& part : plan.result.parts) std::fill_n(&out[part.row * p.k], p.k, 0);
    for (const RowPart& part : plan.result.parts) out[part.row * p.k + part.cluster] = part.units;
    return out;
}

template <class T>
void check_optimal(const Data<T>& data, const std::vector<double>& c, const Plan& plan, const TransportProblem& p,
                   const std::string& name) {
    const std::vector<index_t> units = amounts(plan, p);
    std::vector<index_t> size(p.k);
    bool supplied = true, nearest = true, within = true, slack = true;
    for (index_t i = 0; i < p.n; ++i) {
        index_t sum = 0;
        double least = std::numeric_limits<double>::infinity();
        for (index_t j = 0; j < p.k; ++j) least = std::min(least, data.distance(i, &c[j * data.d]) + plan.price[j]);
        for (index_t j = 0; j < p.k; ++j) {
            const index_t here = units[i * p.k + j];
            sum += here, size[j] += here;
            if (here) nearest &= data.distance(i, &c[j * data.d]) + plan.price[j] <= least + 1e-10;
        }
        supplied &= sum == (p.supply ? p.supply[i] : 1);
    }
    for (index_t j = 0; j < p.k; ++j) {
        within &= size[j] >= p.low && size[j] <= p.high;
        slack &= (plan.price[j] <= 0 || size[j] == p.high) && (plan.price[j] >= 0 || size[j] == p.low);
    }
    check(supplied, name + "every row is assigned");
    check(within, name + "sizes are within the limits");
    check(slack, name + "prices stand for limits that are reached");
    check(nearest, name + "rows are at the least cost + price");
}

template <class T>
void test_shape(index_t n, index_t d, index_t k) {
    std::mt19937 rng(static_cast<unsigned>(n + d + k));
    const bool ties = n == 63;
    const Data<T> data(n, d, [&](index_t, index_t, const auto&) {
        const double v = static_cast<double>(rng() % 1000) / 100;
        return ties ? std::floor(v / 4) : v < 3 ? 0.0 : v;
    });
    const std::vector<double> c = data.spread(k);
    std::vector<index_t> supply(n);
    index_t total = 0;
    for (index_t& s : supply) total += s = 1 + static_cast<index_t>(rng() % 4);
    for (const Kernels* set : available_kernels())
        for (bool sparse : {false, true})
            for (double tau : {0.01, 1.0, std::numeric_limits<double>::infinity()}) {
                const std::string name = std::string(set->name) + type_name<T>() + std::to_string(n) + ": ";
                const TransportProblem whole{n, k, nullptr, n / k, (n + k - 1) / k};
                check_optimal(data, c, solve(*set, data.view(sparse), c, whole, tau), whole, name);
                const TransportProblem loose{n, k, nullptr, n / (2 * k), n};
                check_optimal(data, c, solve(*set, data.view(sparse), c, loose, tau), loose, name + "low only: ");
                const TransportProblem split{n, k, supply.data(), total / k, (total + k - 1) / k};
                check_optimal(data, c, solve(*set, data.view(sparse), c, split, tau), split, name + "split: ");
            }
}

}  // namespace

int main() {
    return run_on_two_threads([] {
        for (const auto& [n, d, k] : SHAPES) test_shape<float>(n, d, k), test_shape<double>(n, d, k);
    });
}
