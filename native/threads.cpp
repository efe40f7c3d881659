// Starting threads where memory or the number of threads is limited, and a check of labels.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdlib>
#include <thread>

#include "common.hpp"

namespace kv {
namespace {

// Throws bad_alloc if so many bytes cannot be allocated.
void try_allocating(std::size_t bytes) {
    void* p = std::malloc(bytes);
    asm volatile("" : : "r"(p) : "memory");  // compilers leave out an allocation that nobody sees
    if (!p) throw std::bad_alloc();
    std::free(p);
}

std::size_t stack_size() {
    pthread_attr_t attributes;
    std::size_t size = 0;
    pthread_attr_init(&attributes);
    pthread_attr_getstacksize(&attributes, &size);
    pthread_attr_destroy(&attributes);
    return size;
}

// How many threads the limit of the address space leaves room for.
int threads_with_stacks(int wanted) {
    rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return wanted;
    for (; wanted > 1; --wanted) {
        const std::size_t bytes = (wanted - 1) * (stack_size() + (std::size_t{1} << 16));
        void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANON, -1, 0);
        if (p != MAP_FAILED) {
            munmap(p, bytes);
            break;
        }
    }
    return wanted;
}

// How many threads run at once, the calling one included, if so many are started.
int threads_that_start(int wanted) {
    std::atomic<bool> end{false};
    std::vector<std::thread> others;
    others.reserve(wanted - 1);
    try {
        while (static_cast<int>(others.size()) < wanted - 1) others.emplace_back([&] { end.wait(false); });
    } catch (...) {  // system_error or bad_alloc: these are all
    }
    end = true;
    end.notify_all();
    for (std::thread& other : others) other.join();
    return static_cast<int>(others.size()) + 1;
}

}  // namespace

// OpenMP keeps the threads of the last loop that this thread ran, as many as it had. Starting the same number again is
// not tried out, since that takes as long as to start them for the loop. Only a limit that was set, or threads that
// other processes started, in the meantime could then make OpenMP end the process.
int startable_threads(int wanted) {
    thread_local int kept = 1, tried = 1;
    try_allocating((std::size_t{1} << 16) + static_cast<std::size_t>(wanted) * 4096);
    if (wanted > kept) wanted = threads_with_stacks(wanted);
    if (wanted > tried) wanted = tried = threads_that_start(wanted);
    return kept = wanted;
}

bool all_inside(const label_t* labels, index_t n, index_t bound) {
    std::atomic<bool> inside{true};
    const auto last = static_cast<std::uint32_t>(std::min<index_t>(bound, std::numeric_limits<label_t>::max()) - 1);
    parallel_rows(n, threads_for(static_cast<double>(n)), [&](index_t from, index_t stop) {
        std::uint32_t signs = 0;  // the highest bit is set by a label below 0 or above the last
        for (index_t i = from; i < stop; ++i) {
            const auto label = static_cast<std::uint32_t>(labels[i]);
            signs |= label | (last - label);
        }
        if (signs >> 31) inside = false;
    });
    return inside;
}

}  // namespace kv
