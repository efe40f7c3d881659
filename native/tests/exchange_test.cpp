// Compares the values of exchanges with sums over the groups, on every instruction set, and checks that constraints
// hold and that threads and instruction sets do not change the groups.
#include <numeric>

#include "check.hpp"

namespace {

// Units, groups, features, and partners tried for each unit.
constexpr index_t SHAPES[][4] = {{1, 1, 1, 10}, {7, 3, 2, 100}, {60, 4, 5, 100}, {3000, 7, 9, 40}};

struct Test {
    index_t n, groups, d, partners;
    std::vector<double> rows, distance;
    std::vector<index_t> order, kind_start, size, low, high, link_start, link;
    std::vector<label_t> start;
    const Kernels* set = nullptr;
    std::string name;

    Test(index_t n_, index_t groups_, index_t d_, index_t partners_)
        : n(n_),
          groups(groups_),
          d(d_),
          partners(partners_),
          rows(n * d),
          order(n),
          size(n, 1),
          low(groups),
          high(groups),
          link_start{0},
          start(n) {
        std::mt19937 rng(static_cast<unsigned>(n * 31 + groups));
        for (double& x : rows) x = static_cast<double>(rng() % 1000) / 100 - 5;
        std::iota(order.begin(), order.end(), 0);
        kind_start = {0, n / 3, n};  // two kinds
        for (index_t i = 0; i < n; ++i) start[i] = static_cast<label_t>(i % groups);
        for (const label_t g : start) ++low[g];
        high = low;
        for (index_t i = 0; i < n; ++i) {  // units i and i + 1 of even i are in different groups
            const index_t other = i % 2 ? i - 1 : i + 1;
            if (groups > 1 && other < n) link.push_back(other);
            link_start.push_back(static_cast<index_t>(link.size()));
        }
        if (n <= 100) {
            distance.resize(n * n);
            for (index_t i = 0; i < n; ++i)
                for (index_t j = 0; j < n; ++j) distance[i * n + j] = std::abs(rows[i * d] - rows[j * d]);
        }
    }
    void expect(bool ok, const char* what) const { check(ok, name + what); }
    ExchangeUnits units() const {
        return {n,           groups,     order.data(), kind_start.data(), 2,
                size.data(), low.data(), high.data(),  link_start.data(), link.data()};
    }

    double squares(const label_t* labels) const {
        double total = 0;
        for (index_t g = 0; g < groups; ++g)
            for (index_t j = 0; j < d; ++j) {
                double sum = 0;
                for (index_t i = 0; i < n; ++i) sum += labels[i] == g ? rows[i * d + j] : 0;
                total += sum * sum / static_cast<double>(low[g]);
            }
        return total;
    }
    double distances(const label_t* labels) const {
        double total = 0;
        for (index_t i = 0; i < n; ++i)
            for (index_t j = 0; j < i; ++j) total -= labels[i] == labels[j] ? distance[i * n + j] : 0;
        return total;
    }

    // Searches from two starts and checks the ends.
    std::vector<label_t> search(bool by_rows) const {
        std::vector<label_t> labels(start);
        labels.insert(labels.end(), start.begin(), start.end());
        const ExchangeOptions options{partners, 30, 5};
        const auto ends = by_rows ? set->exchange->rows(rows.data(), d, units(), options, 2, labels.data())
                                  : set->exchange->distances(true, distance.data(), units(), options, 2, labels.data());
        for (int run = 0; run < 2; ++run) {
            const label_t* end = labels.data() + run * n;
            const auto& values = ends[run].values;
            const double value = by_rows ? squares(end) : distances(end);
            expect(std::abs(values.back() - value) <= 1e-6 * (std::abs(value) + 1e-3),
                   "the value is that of the groups");
            expect(std::is_sorted(values.rbegin(), values.rend()), "every sweep improves the value");
            std::vector<index_t> count(groups), before(groups);
            for (index_t i = 0; i < n / 3; ++i) ++count[end[i]], ++before[start[i]];
            expect(count == before, "groups keep their units of a kind");
            for (index_t i = 0; i < n; ++i)
                for (index_t e = link_start[i]; e < link_start[i + 1]; ++e)
                    expect(end[i] != end[link[e]], "linked units are in different groups");
        }
        return labels;
    }

    void blocks_are_alike() const {
        std::vector<index_t> sorted(order);
        set->exchange->order(rows.data(), d, kind_start.data(), 2, groups, sorted.data());
        std::vector<index_t> all(sorted);
        std::sort(all.begin(), all.end());
        expect(all == order, "the order has every unit once");
        expect(std::all_of(sorted.begin(), sorted.begin() + n / 3, [&](index_t i) { return i < n / 3; }),
               "units stay in their kind");
    }
};

void test_shape(index_t n, index_t groups, index_t d, index_t partners) {
    Test test(n, groups, d, partners);
    std::vector<label_t> first;
    for (const bool by_rows : {true, false}) {
        if (!by_rows && test.distance.empty()) continue;
        first.clear();
        for (const Kernels* set : available_kernels()) {
            test.set = set;
            test.name = set->name + std::string(" ") + std::to_string(n) + " units: ";
            test.blocks_are_alike();
            for (const int threads : {1, 2, 3}) {
                set_threads(threads);
                const auto labels = test.search(by_rows);
                if (first.empty()) first = labels;
                test.expect(labels == first, "threads and instruction sets do not change the groups");
            }
        }
    }
    set_threads(2);
}

}  // namespace

int main() {
    return run_on_two_threads([] {
        for (const auto& [n, groups, d, partners] : SHAPES) test_shape(n, groups, d, partners);
    });
}
