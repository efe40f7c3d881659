// Views of the data, fixed block sizes and a parallel loop that can be interrupted. Every kernel includes this file.
//
// The rule of native/: a fast float32 filter (filter.hpp) selects candidates, and exact float64 arithmetic
// (exact.hpp) decides wherever the filter's error bound does not. Labels, sums, costs and draws therefore never
// depend on the number of threads, on the instruction set, or on how much work was skipped.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace kv {

using index_t = std::int64_t;
using label_t = std::int32_t;

// Block sizes do not depend on the machine, because they fix the order of every sum.
constexpr int TILE = 64;         // rows that the filter handles at once
constexpr index_t DRAW = 256;    // rows under one partial sum of the potential
constexpr index_t BLOCK = 1024;  // rows that one thread takes at a time; a multiple of DRAW
constexpr index_t CHUNK = 128;   // features in one partial sum of the filter

// Aligned to cache lines: a vector load that straddles two of them costs twice as much.
template <class T>
struct Aligned {
    using value_type = T;
    Aligned() = default;
    template <class U>
    Aligned(const Aligned<U>&) {}
    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(64))); }
    void deallocate(T* p, std::size_t) { ::operator delete(p, std::align_val_t(64)); }
    bool operator==(const Aligned&) const { return true; }
};
template <class T>
using Buffer = std::vector<T, Aligned<T>>;

template <class B>
void ensure_size(B& buffer, index_t size) {
    if (static_cast<index_t>(buffer.size()) < size) buffer.resize(size);
}

template <class T>
struct Dense {
    using value_type = T;
    static constexpr bool sparse = false;
    const T* x;
    index_t n, d;
    const T* row(index_t i) const { return x + i * d; }
};

template <class T>
struct Csr {
    using value_type = T;
    static constexpr bool sparse = true;
    const T* x;
    const std::int32_t* column;
    const index_t* start;
    index_t n, d;
};

// Rows of either type and layout, as the binding passes them.
struct RowsView {
    bool sparse = false, is_double = false;
    const void* x = nullptr;
    const std::int32_t* column = nullptr;
    const index_t* start = nullptr;
    index_t n = 0, d = 0;
};

// For every row its nearest and second nearest centre (or medoid), and what both cost. T may be void: not yet typed.
template <class T>
struct TwoNearest {
    label_t *labels, *second;
    T *cost, *second_cost;
};

// Calls f with a zero of type double or float.
template <class F>
auto with_type(bool is_double, F&& f) {
    return is_double ? f(double{}) : f(float{});
}

// Calls f with the number of features as a compile-time constant if it is at most 4, and with 0 otherwise.
template <class F>
auto with_features(index_t d, F&& f) {
    switch (d) {
        case 1: return f(std::integral_constant<int, 1>{});
        case 2: return f(std::integral_constant<int, 2>{});
        case 3: return f(std::integral_constant<int, 3>{});
        case 4: return f(std::integral_constant<int, 4>{});
        default: return f(std::integral_constant<int, 0>{});
    }
}

struct Interrupted {};

// The binding sets this. It returns true if the user asked to stop; only one thread calls it.
inline bool (*user_wants_to_stop)() = nullptr;

inline int max_threads() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

// Multiply-adds that are worth another thread. They take about a tenth of a millisecond; on a busy machine a thread
// can take longer than that to wake. Tests lower it. Results never depend on it.
inline double work_per_thread = 4e6;

inline int threads_for(double work) {
    return static_cast<int>(std::min<double>(max_threads(), 1 + work / work_per_thread));
}

// Calls body(task, scratch) for every task. Each thread has its own scratch, made before any thread starts.
template <class Scratch, class Body>
void parallel(index_t tasks, std::vector<Scratch>& scratch, Body&& body) {
    std::atomic<bool> stop{false};
    const int threads = static_cast<int>(scratch.size());
    (void)threads;
#pragma omp parallel num_threads(threads) if (threads > 1 && tasks > 1)
    {
#ifdef _OPENMP
        const int me = omp_get_thread_num();
#else
        const int me = 0;
#endif
#pragma omp for schedule(dynamic, 1)
        for (index_t task = 0; task < tasks; ++task) {
            if (stop.load(std::memory_order_relaxed)) continue;
            body(task, scratch[me]);
            if (me == 0 && user_wants_to_stop && user_wants_to_stop()) stop = true;
        }
    }
    if (stop) throw Interrupted{};
}

struct NoScratch {};

template <class Body>
void parallel(index_t tasks, int threads, Body&& body) {
    std::vector<NoScratch> scratch(threads);
    parallel(tasks, scratch, [&](index_t task, NoScratch&) { body(task); });
}

inline index_t blocks_of(index_t n) { return (n + BLOCK - 1) / BLOCK; }

// Calls body(from, stop, scratch) for every block of n rows.
template <class Scratch, class Body>
void parallel_rows(index_t n, std::vector<Scratch>& scratch, Body&& body) {
    parallel(blocks_of(n), scratch,
             [&](index_t block, Scratch& s) { body(block * BLOCK, std::min(n, (block + 1) * BLOCK), s); });
}
template <class Body>
void parallel_rows(index_t n, int threads, Body&& body) {
    parallel(blocks_of(n), threads, [&](index_t block) { body(block * BLOCK, std::min(n, (block + 1) * BLOCK)); });
}

}  // namespace kv
