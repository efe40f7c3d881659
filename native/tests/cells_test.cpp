// Checks the reduction by cells: weights add up, the size is bounded, and heavy rows are kept.
#include "cells.hpp"

#include <numeric>

#include "check.hpp"

namespace {

struct Case {
    index_t n, k, size;
    bool weighted;
    double far;  // the cost of row 0

    void run(unsigned seed) const {
        std::mt19937 rng(seed);
        std::vector<label_t> labels(n);
        std::vector<double> cost(n), weight(n);
        for (index_t i = 0; i < n; ++i) {
            labels[i] = static_cast<label_t>(rng() % k);
            cost[i] = rng() % 5 ? std::ldexp(1.0 + rng() % 100, static_cast<int>(rng() % 40) - 20) : 0;
            weight[i] = static_cast<double>(rng() % 4);
        }
        cost[0] = far, weight[0] = 1, weight[n - 1] = 3;
        const ClusteredRows rows{n, k, labels.data(), cost.data(), weighted ? weight.data() : nullptr};
        const DrawnRows drawn = draw_cells(rows, size, seed);
        const std::string name = std::to_string(n) + " rows, k = " + std::to_string(k) + ": ";
        const double all = weighted ? std::accumulate(weight.begin(), weight.end(), 0.0) : static_cast<double>(n);
        const double kept = std::accumulate(drawn.weights.begin(), drawn.weights.end(), 0.0);
        check(kept == all, name + "weights add up");
        check(static_cast<index_t>(drawn.rows.size()) <= size, name + "the size is bounded");
        check(std::is_sorted(drawn.rows.begin(), drawn.rows.end()), name + "rows are in order");
        check(std::adjacent_find(drawn.rows.begin(), drawn.rows.end()) == drawn.rows.end(), name + "no row twice");
        if (far > 1e10)
            check(drawn.rows[0] == 0 && drawn.weights[0] == 1, name + "a row with nearly all of the cost is kept");
    }
};

}  // namespace

int main() {
    unsigned seed = 0;
    for (const bool weighted : {false, true})
        for (const double far : {0.0, 1.0, 1e30})
            for (const Case& c :
                 {Case{10, 1, 4, weighted, far}, Case{500, 2, 8, weighted, far}, Case{5000, 10, 200, weighted, far},
                  Case{30000, 49, 100, weighted, far}, Case{30000, 7, 20000, weighted, far}})
                c.run(++seed);
    std::printf("%d checks passed, %d failed\n", passed, failed);
    return failed > 0;
}
