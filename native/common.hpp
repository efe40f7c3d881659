// What every kernel shares: views of the data, fixed tile sizes, a parallel loop one can interrupt.
//
// The rule of the native room: a fast float32 *filter* (scan.cpp) proposes, exact float64
// arithmetic (exact.hpp) decides wherever the filter's proven error bound leaves a doubt. What a
// caller sees (labels, sums, costs, draws) therefore never depends on the number of threads, on
// the instruction set, or on how much work was pruned.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace kv {

using index_t = std::int64_t;
using label_t = std::int32_t;

// Sizes are constants of the library, never of the machine: they fix the order of every sum.
constexpr int TILE = 64;          // rows the filter handles at once
constexpr index_t DRAW = 256;     // rows under one partial sum of the potential
constexpr index_t BLOCK = 1024;   // rows one thread takes at a time; a multiple of DRAW
constexpr index_t CHUNK = 128;    // coordinates added up before a partial sum is closed

// Vectors are loaded whole: a buffer that straddles cache lines would double their cost.
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

template <class T>
struct Dense {
    using value_type = T;
    const T* x;
    index_t n, d;
    const T* row(index_t i) const { return x + i * d; }
};

template <class T>
struct Csr {
    using value_type = T;
    const T* x;
    const std::int32_t* column;
    const index_t* start;
    index_t n, d;
};

struct Interrupted {};

// Set by the binding: true when the user asked to stop. Called from one thread only.
using Poll = bool (*)();
inline Poll user_wants_to_stop = nullptr;

inline int max_threads() {
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    return 1;
#endif
}

// Threads worth waking for so many multiply-adds (4 million take about a tenth of a millisecond; on
// a busy machine a thread can take longer than that to wake). Results never depend on it.
inline int threads_for(double work) {
    return static_cast<int>(std::min<double>(max_threads(), 1 + work / 4e6));
}

// body(task, scratch): scratch belongs to the running thread and is made before any thread starts.
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
            body(task, scratch[static_cast<std::size_t>(me)]);
            if (me == 0 && user_wants_to_stop && user_wants_to_stop()) stop = true;
        }
    }
    if (stop) throw Interrupted{};
}

struct Nothing {};

template <class Body>
void parallel(index_t tasks, int threads, Body&& body) {
    std::vector<Nothing> scratch(static_cast<std::size_t>(threads));
    parallel(tasks, scratch, [&](index_t task, Nothing&) { body(task); });
}

inline index_t blocks_of(index_t n) { return (n + BLOCK - 1) / BLOCK; }

}  // namespace kv
