"""The Dask client of an estimator and of a fit, the fit's tasks in the dashboard, and threads.

Dask's nanny sets OMP_NUM_THREADS to 1, so that a task takes one thread. Workers without a nanny,
such as those of ``LocalCluster(processes=False)``, would start a thread a core for every task.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Self

import distributed
from sklearn.base import clone
from threadpoolctl import ThreadpoolController

from kvariates.refining.lloyd import Step


@contextmanager
def client_for(given: Any) -> Iterator[Any]:
    """The given client, the current one, or one with threads of this process that is closed."""
    if given is not None:
        yield _checked(given)
    elif _in_a_task():
        with distributed.worker_client() as client:  # frees the thread of the task meanwhile
            yield client
    else:
        try:
            current = distributed.get_client()
        except ValueError:
            with _own_client() as client:
                yield client
        else:
            yield _checked(current)


def _checked(client: Any) -> Any:
    if not isinstance(client, distributed.Client):
        raise TypeError(f"client is a {type(client).__name__}; give a distributed.Client.")
    if client.asynchronous:
        raise ValueError("client is asynchronous; give one made with asynchronous=False.")
    if client.status != "running":
        raise ValueError(f"client is {client.status}; give one that is connected to a scheduler.")
    return client


def _in_a_task() -> bool:
    try:
        distributed.get_worker()
    except ValueError:
        return False
    return True


@contextmanager
def _own_client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(  # threads: the kernels do not hold Python's lock
            n_workers=1, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        count = sum(client.nthreads().values())
        print(
            f"kvariates.dask: no Dask client; using {count} threads of this process for this call.",
            file=sys.stderr,
        )
        yield client


class HasClient:
    """An estimator with a parameter `client`, which can be neither copied nor pickled."""

    client: Any

    def __sklearn_clone__(self) -> Self:
        """The clone has the same client."""
        estimator: Any = self
        params = estimator.get_params(deep=False) | {"client": None}
        cloned = {name: clone(value, safe=False) for name, value in params.items()}
        return type(self)(**cloned | {"client": self.client})

    def __getstate__(self) -> dict[str, Any]:
        """In another process, the current client is used."""
        state: Any = super().__getstate__()
        return {**state, "client": None}


class IterationMarks:
    """Shows the iterations of a fit as tasks in Dask's dashboard."""

    def __init__(self, client: Any) -> None:
        self._client, self._name = client, f"kvariates-iteration-{id(self):012x}"
        self._marks: list[Any] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._marks = []

    def show(self, step: Step) -> None:
        key = f"{self._name}-{step.iteration}"
        self._marks.append(self._client.submit(_done, step.iteration, key=key))


def _done(iteration: int) -> int:
    return iteration


# -- threads of a task -----------------------------------------------------------------------------


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
