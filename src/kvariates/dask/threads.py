"""How many threads of OpenMP the work on one partition may start.

Dask's nanny sets OMP_NUM_THREADS to 1, so that a task takes one thread. Workers without a nanny,
such as those of ``LocalCluster(processes=False)``, would start a thread a core for every task.
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import distributed
from threadpoolctl import ThreadpoolController


def limited_threads(worker_threads: int | None = None) -> Any:
    """A context in which OpenMP starts as many threads as one task may have.

    `worker_threads`: of the worker; None: those of the worker that runs this task.
    """
    return _pools().limit(limits=threads_of_task(worker_threads), user_api="openmp")


def threads_of_task(worker_threads: int | None = None) -> int:
    """OMP_NUM_THREADS is for all tasks of a worker; without it, a task takes one thread."""
    words = os.environ.get("OMP_NUM_THREADS", "")
    if not words.isdigit():
        return 1
    return max(1, int(words) // (worker_threads or _threads_of_this_worker()))


def _threads_of_this_worker() -> int:
    try:
        return int(distributed.get_worker().state.nthreads)
    except ValueError:  # Dask's scheduler of threads, one a core
        return os.cpu_count() or 1


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()
