"""Runs a call on several numbers of threads, and checks that more than one thread did work.

The native code starts a second thread from 4e6 multiply-adds on: a call below that size tests
nothing about threads, and `on_threads` fails for it.
"""

import time

from threadpoolctl import threadpool_limits

SOME_WORK = 1e-4  # seconds of processor time; the clocks disagree by a few microseconds
TRIES = 5  # on a busy machine the first thread can be done before the second one wakes up


def work_of_other_threads():
    """Processor time so far of all threads but this one."""
    return time.process_time() - time.thread_time()


def on_threads(call, threads=(1, 2, 4)):
    """The results of `call()` on each number of threads."""
    results = []
    for count in threads:
        with threadpool_limits(1), threadpool_limits(count, user_api="openmp"):
            for _ in range(TRIES if count > 1 else 1):
                before = work_of_other_threads()
                result = call()
                if work_of_other_threads() - before > SOME_WORK:
                    break
            else:
                assert count == 1, "no second thread ran: the call is too small"
        results.append(result)
    return results
