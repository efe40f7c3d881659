// Views of the data, fixed block sizes and a parallel loop that can be interrupted. Every kernel includes this file.
//
// The rule of native/: a fast float32 filter (filter.hpp) selects candidates, and exact float64 arithmetic
// (reference.hpp) decides wherever the filter's error bound does not. Labels, sums, costs and draws therefore never
// depend on the number of threads, on the instruction set, or on how much work was skipped.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#ifdef __linux__
#include <sys/mman.h>
#endif

#define KV_TEXT2(x) #x
#define KV_TEXT(x) KV_TEXT2(x)

namespace kv {

using index_t = std::int64_t;
using label_t = std::int32_t;

// The same on every machine.
constexpr int TILE = 64;                // rows that the filter handles at once
constexpr index_t DRAW = 256;           // rows under one partial sum of the potential
constexpr index_t BLOCK = 1024;         // rows that one thread takes at a time; a multiple of DRAW
constexpr index_t CHUNK = 128;          // features in one partial sum of the filter
constexpr index_t MAX_PARTIAL = 32768;  // every thread has a table of sums of its own if that is at most this large

// Large arrays have pages of their own, which go back to the system when they are freed. Those of malloc may stay: when
// such an array is freed, glibc takes all that are smaller, up to 32 MB, from a heap of which it returns only the end.
#if defined(__linux__) && !defined(__SANITIZE_ADDRESS__)
// Bytes from which on an array is large: copies of rows mostly are, and what each pass makes anew is mostly not, since
// new pages take time.
constexpr std::size_t OWN_PAGES = std::size_t{1} << 22;
inline void* allocate_pages(std::size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) throw std::bad_alloc();
    return p;
}
inline void free_pages(void* p, std::size_t bytes) { munmap(p, bytes); }
#else
constexpr std::size_t OWN_PAGES = std::numeric_limits<std::size_t>::max();
inline void* allocate_pages(std::size_t) { throw std::bad_alloc(); }
inline void free_pages(void*, std::size_t) {}
#endif

// Aligned to cache lines: a vector load that straddles two of them costs twice as much.
template <class T>
struct Aligned {
    using value_type = T;
    Aligned() = default;
    template <class U>
    Aligned(const Aligned<U>&) {}
    T* allocate(std::size_t n) {
        const std::size_t bytes = n * sizeof(T);
        return static_cast<T*>(bytes < OWN_PAGES ? ::operator new(bytes, std::align_val_t(64)) : allocate_pages(bytes));
    }
    void deallocate(T* p, std::size_t n) {
        const std::size_t bytes = n * sizeof(T);
        bytes < OWN_PAGES ? ::operator delete(p, std::align_val_t(64)) : free_pages(p, bytes);
    }
    bool operator==(const Aligned&) const { return true; }
};
template <class T>
using Buffer = std::vector<T, Aligned<T>>;

// Likewise, but new values are not set to zero: that would touch all pages from one thread.
template <class T>
struct NotSet : Aligned<T> {
    template <class U>
    struct rebind {
        using other = NotSet<U>;
    };
    template <class U, class... A>
    void construct(U* p, A&&... value) {
        if constexpr (sizeof...(A) > 0) ::new (static_cast<void*>(p)) U(std::forward<A>(value)...);
    }
};
template <class T>
using Unset = std::vector<T, NotSet<T>>;

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

// Types of dense rows that are kept as they are, and read as float32 (small_rows.hpp).
enum class SmallType : std::uint8_t { none, float16, bfloat16, int8, uint8 };

// Rows of any type and layout, as the binding passes them. If `small` is a type, they are dense rows of it.
struct RowsView {
    bool sparse = false, is_double = false;
    const void* x = nullptr;
    const std::int32_t* column = nullptr;
    const index_t* start = nullptr;
    index_t n = 0, d = 0;
    SmallType small = SmallType::none;
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

// The binding sets this. It returns true if the user asked to stop; only the thread that called a loop calls it.
inline bool (*user_wants_to_stop)() = nullptr;

// True in a process that was made by fork(). OpenMP's threads do not exist there, and a loop would wait for them.
inline bool forked = false;

inline int max_threads() {
#ifdef _OPENMP
    return forked ? 1 : omp_get_max_threads();
#else
    return 1;
#endif
}

// Whether this is a task of a parallel loop. A loop inside one runs on its thread.
inline bool in_parallel() {
#ifdef _OPENMP
    return omp_in_parallel();
#else
    return false;
#endif
}

// Multiply-adds that are worth another thread. They take about a tenth of a millisecond; on a busy machine a thread
// can take longer than that to wake. Tests lower it. Results never depend on it.
inline double work_per_thread = 4e6;

inline int threads_for(double work) {
    return static_cast<int>(std::min<double>(max_threads(), 1 + work / work_per_thread));
}

// Returns how many of the wanted threads can be started now: OpenMP ends the process if it cannot start one. Throws
// bad_alloc if there is no memory for what OpenMP keeps about them.
int startable_threads(int wanted);

// Tests read it to see that other threads than the calling one took part in loops.
inline std::atomic<index_t> tasks_of_other_threads{0};

// What the threads of a parallel loop share.
class Loop {
public:
    explicit Loop(index_t tasks) : tasks_(tasks) {}

    // Takes the next task; false if none is left.
    bool take(index_t& task) { return (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_; }
    // Called in a handler: keeps the first exception and leaves no task to take.
    void fail() {
        if (!failed_.exchange(true)) error_ = std::current_exception();
        next_.fetch_add(tasks_, std::memory_order_relaxed);
    }
    bool failed() const { return failed_.load(std::memory_order_relaxed); }
    // Called by one thread after all others have ended.
    void finish() const {
        if (error_) std::rethrow_exception(error_);
    }

private:
    const index_t tasks_;
    std::atomic<index_t> next_{0};
    std::atomic<bool> failed_{false};
    std::exception_ptr error_;
};

// The thread sanitizer does not know the barriers of OpenMP: atomics tell it of the order that they give.
#ifdef __SANITIZE_THREAD__
inline std::atomic<int> regions_begun{0}, threads_done{0};
inline void before_region() { regions_begun.fetch_add(1, std::memory_order_release); }
inline void enter_region() { (void)regions_begun.load(std::memory_order_acquire); }
inline void leave_region() { threads_done.fetch_add(1, std::memory_order_release); }
inline void after_region() { (void)threads_done.load(std::memory_order_acquire); }
#else
inline void before_region() {}
inline void enter_region() {}
inline void leave_region() {}
inline void after_region() {}
#endif

// Calls body(task, scratch) for every task. Each thread has its own scratch, made before any thread starts. An
// exception must not leave a parallel region by itself: the first one of any thread is thrown again after the loop.
template <class Scratch, class Body>
void parallel(index_t tasks, std::vector<Scratch>& scratch, Body&& body) {
    Loop loop(tasks);
    const bool inside = in_parallel();  // a task of another loop
    const auto work = [&](int me) __attribute__((noinline)) {
        index_t done = 0;
        for (index_t task; loop.take(task); ++done) {
            try {
                body(task, scratch[me]);
                if (me == 0 && !inside && !loop.failed() && user_wants_to_stop && user_wants_to_stop())
                    throw Interrupted{};
            } catch (...) {
                loop.fail();
            }
        }
        if (me > 0) tasks_of_other_threads += done;
    };
    int threads = inside ? 1 : static_cast<int>(std::min<index_t>(static_cast<index_t>(scratch.size()), tasks));
#ifdef _OPENMP
    if (threads > 1) threads = startable_threads(threads);
    if (threads > 1) {
        before_region();
#pragma omp parallel num_threads(threads)
        {
            enter_region();
            work(omp_get_thread_num());
            leave_region();
        }
        after_region();
    } else
#endif
        work(0);
    loop.finish();
}

struct NoScratch {};

template <class Body>
void parallel(index_t tasks, int threads, Body&& body) {
    std::vector<NoScratch> scratch(threads);
    parallel(tasks, scratch, [&](index_t task, NoScratch&) { body(task); });
}

inline index_t blocks_of(index_t n) { return (n + BLOCK - 1) / BLOCK; }

// Returns whether all labels are in [0, bound).
bool all_inside(const label_t* labels, index_t n, index_t bound);

// Calls body(from, stop, scratch) for every block of n rows.
template <class Scratch, class Body>
void parallel_rows(index_t n, std::vector<Scratch>& scratch, Body&& body) {
    parallel(blocks_of(n), scratch,
             [&](index_t block, Scratch& s) { body(block * BLOCK, std::min(n, (block + 1) * BLOCK), s); });
}
// Likewise for every `rows` of them.
template <class Scratch, class Body>
void parallel_rows(index_t n, index_t rows, std::vector<Scratch>& scratch, Body&& body) {
    parallel((n + rows - 1) / rows, scratch,
             [&](index_t task, Scratch& s) { body(task * rows, std::min(n, (task + 1) * rows), s); });
}
template <class Body>
void parallel_rows(index_t n, int threads, Body&& body) {
    parallel(blocks_of(n), threads, [&](index_t block) { body(block * BLOCK, std::min(n, (block + 1) * BLOCK)); });
}

}  // namespace kv
