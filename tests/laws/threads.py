"""Runs a call on several numbers of threads, and checks that threads other than the first did work.

The native code starts a second thread from 4e6 multiply-adds on. Here every loop of more than one
task uses all threads, and the native code counts the tasks that other threads have run.
"""

from contextlib import contextmanager

from threadpoolctl import threadpool_limits

from kvariates import _native

TRIES = 5  # on a busy machine the first thread can be done before the second one wakes up


@contextmanager
def threads_for_any_work():
    before = _native.set_work_per_thread(1)
    try:
        yield
    finally:
        _native.set_work_per_thread(before)


def on_threads(call, threads=(1, 2, 7)):
    """The results of `call()` on each number of threads."""
    results = []
    with threads_for_any_work():
        for count in threads:
            with threadpool_limits(1), threadpool_limits(count, user_api="openmp"):
                for _ in range(TRIES if count > 1 else 1):
                    before = _native.tasks_of_other_threads()
                    result = call()
                    others = _native.tasks_of_other_threads() - before
                    if others:
                        break
            assert (others > 0) == (count > 1), f"{count} threads, {others} tasks of others"
            results.append(result)
    return results
