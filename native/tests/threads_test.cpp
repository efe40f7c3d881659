// Tests parallel loops by themselves: every task runs once, exceptions of any thread leave the loop, and limits hold.
#include <set>
#include <stdexcept>

#include "check.hpp"

namespace {

void test_tasks() {
    std::vector<int> runs(5000, 0);
    const index_t before = tasks_of_other_threads;
    for (int attempt = 0; attempt < 1000 && tasks_of_other_threads == before; ++attempt) {
        std::fill(runs.begin(), runs.end(), 0);
        parallel(static_cast<index_t>(runs.size()), 2, [&](index_t task) { ++runs[task]; });
        check(std::set<int>(runs.begin(), runs.end()) == std::set<int>{1}, "every task runs once");
    }
    check(tasks_of_other_threads > before, "another thread takes tasks");
    parallel(0, 2, [&](index_t) { check(false, "there is no task"); });
}

template <class Error>
bool leaves(int threads, index_t bad) {
    std::atomic<index_t> started{0};
    try {
        parallel(100'000, threads, [&](index_t task) {
            ++started;
            if (task >= bad) throw Error();
        });
    } catch (const Error&) {
        return started < 100'000;
    }
    return false;
}

void test_exceptions() {
    struct Mine {};
    for (int threads : {1, 2})
        for (index_t bad : {0, 1, 500}) {
            check(leaves<std::bad_alloc>(threads, bad), "bad_alloc leaves a loop and ends it");
            check(leaves<Mine>(threads, bad), "any exception leaves a loop and ends it");
        }
}

void test_limits() {
    check(startable_threads(2) == 2, "two threads can be started");
    forked = true;
    check(threads_for(1e12) == 1, "a forked process uses one thread");
    forked = false;
    std::vector<label_t> labels(3000, 2);
    check(all_inside(labels.data(), 3000, 3) && !all_inside(labels.data(), 3000, 2), "labels are below the bound");
    labels[2999] = -1;
    check(!all_inside(labels.data(), 3000, 3) && all_inside(labels.data(), 2999, 3), "labels are not negative");
}

}  // namespace

int main() {
    return run_on_two_threads([] {
        test_tasks();
        test_exceptions();
        test_limits();
    });
}
