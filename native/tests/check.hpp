// Shared by the native tests, which `make sanitize` builds with address and undefined-behaviour sanitizers.
#pragma once

#include <cmath>
#include <cstdio>
#include <random>
#include <string>

#include "kernels.hpp"

using namespace kv;

inline int passed = 0, failed = 0, threads_seen = 0;

inline void check(bool ok, const std::string& what) {
    ok ? ++passed : ++failed;
    if (!ok) std::printf("FAILED %s\n", what.c_str());
}

inline void set_threads([[maybe_unused]] int threads) {
#ifdef _OPENMP
    omp_set_num_threads(threads);
#endif
}

// Runs a test with every parallel loop on two threads, however small its work, and checks that a second thread ran.
template <class Test>
int run_on_two_threads(Test&& test) {
    work_per_thread = 1;
    set_threads(2);
#ifdef _OPENMP
    test();
    check(tasks_of_other_threads > 0, "a second thread runs");
#else
    test();
#endif
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

template <class T>
std::string type_name() {
    return sizeof(T) == 8 ? " float64 " : " float32 ";
}

// A matrix, dense and as CSR of its nonzeros. Arrays have their exact size, so that a read past the end is found.
template <class T>
struct Data {
    index_t n, d;
    std::vector<T> x, stored;
    std::vector<std::int32_t> column;
    std::vector<index_t> start{0};

    template <class Value>
    Data(index_t n_, index_t d_, Value&& value) : n(n_), d(d_), x(n_ * d_) {
        for (index_t i = 0; i < n; ++i) {
            for (index_t j = 0; j < d; ++j) {
                const T v = x[i * d + j] = static_cast<T>(value(i, j, x));
                if (v != T(0)) stored.push_back(v), column.push_back(static_cast<std::int32_t>(j));
            }
            start.push_back(static_cast<index_t>(stored.size()));
        }
    }
    RowsView view(bool sparse) const {
        const void* values = sparse ? static_cast<const void*>(stored.data()) : x.data();
        return {sparse, sizeof(T) == 8, values, column.data(), start.data(), n, d};
    }
    // The sum of |x - c|^power.
    template <class C>
    double distance(index_t i, const C* c, int power = 2) const {
        double sum = 0;
        for (index_t j = 0; j < d; ++j) {
            const double gap = static_cast<double>(x[i * d + j]) - static_cast<double>(c[j]);
            sum += power == 2 ? gap * gap : std::abs(gap);
        }
        return sum;
    }
    // How much rounding may change a squared distance of row i, relative to its norm.
    double tolerance(index_t i) const { return 1e-12 * distance(i, std::vector<T>(d).data()); }
    std::vector<double> rows(const std::vector<index_t>& id) const {
        std::vector<double> out;
        for (index_t i : id) out.insert(out.end(), x.begin() + i * d, x.begin() + (i + 1) * d);
        return out;
    }
    // k rows, spread evenly.
    std::vector<double> spread(index_t k) const {
        std::vector<index_t> id;
        for (index_t j = 0; j < k; ++j) id.push_back(j * n / k);
        return rows(id);
    }
};
