"""The Dask client of an estimator, threads of its tasks, and how questions reach the partitions.

Questions are calls by ``client.run``, not tasks: the scheduler passes one message on to each worker
that holds partitions. A task takes five times as long to come back. The rows are futures of Dask.
If a worker is lost, Dask computes its partitions again from their graph on other workers; they are
found there, say that their state is lost, and get their logs.

Dask's nanny sets OMP_NUM_THREADS to 1, so that a task takes one thread. Workers without a nanny,
such as those of ``LocalCluster(processes=False)``, would start a thread a core for every task.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, NamedTuple, Self

import distributed
from sklearn.base import clone
from threadpoolctl import ThreadpoolController

from kvariates.dask.partitions import wait_for
from kvariates.estimators.partitions import Partition
from kvariates.peers.questions import Envelope
from kvariates.peers.transport import Failure, Reply, reply_of


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


# -- the transport ---------------------------------------------------------------------------------


TRIES = 30  # to find a partition
PAUSE, LONGEST_PAUSE = 0.05, 2.0  # seconds between two of them
DOUBTED = 10.0  # seconds for which a worker that could not be reached is not asked again


class PartitionQuestion(NamedTuple):
    """A question for the partition of this key. `seed`: of the peer's own draws."""

    key: Any
    seed: int
    envelope: Envelope


class DaskTransport:
    """One peer for each partition. `partitions`: futures of them, by the names of the peers."""

    def __init__(self, client: Any, partitions: Mapping[str, Any]) -> None:
        self._client, self._futures = client, dict(partitions)
        self._seeds = {name: number for number, name in enumerate(partitions)}
        self._workers: dict[str, str] = {}  # the address of the worker that holds each partition
        self._doubted: dict[str, float] = {}  # until when, by address

    def peers(self) -> list[str]:
        return list(self._futures)

    def send(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        replies: dict[str, Reply] = {}
        waiting = dict(envelopes)
        for attempt in range(TRIES):
            replies |= self._find([name for name in waiting if not self._is_found(name)])
            replies |= self._ask(waiting)
            waiting = {name: e for name, e in waiting.items() if name not in replies}
            if not waiting:
                return {name: replies[name] for name in envelopes}
            for name in waiting:
                self._workers.pop(name, None)  # it may have been moved
            time.sleep(min(LONGEST_PAUSE, PAUSE * 2**attempt))
        lost = Failure(f"its worker was lost {TRIES} times")
        return {name: replies.get(name, lost) for name in envelopes}

    def end(self) -> None:
        """Let the workers forget the rows and the states of the peers."""
        self._futures = {}
        self._workers = {}

    def _is_found(self, name: str) -> bool:
        """Whether the place of a partition is known. If a worker is lost, Dask tells the client."""
        if self._futures[name].status != "finished":
            self._workers.pop(name, None)
        return name in self._workers

    def _find(self, names: list[str]) -> dict[str, Reply]:
        """Wait until these partitions are in memory and find out where; those that failed."""
        futures = {name: self._futures[name] for name in names}
        if not futures:
            return {}
        wait_for(self._client, list(futures.values()))
        failed: dict[str, Reply] = {
            name: Failure(f"its rows are lost ({_reason(future)})")
            for name, future in futures.items()
            if future.status in ("error", "cancelled")
        }
        found = {name: future for name, future in futures.items() if name not in failed}
        where, now = self._client.who_has(list(found.values())), time.monotonic()
        for name, future in found.items():
            for address in where.get(future.key, ()):
                # The scheduler may not know yet that the worker is lost.
                if self._doubted.get(address, now) <= now:
                    self._workers[name] = address
        return failed

    def _ask(self, envelopes: Mapping[str, Envelope]) -> dict[str, Reply]:
        """The replies of the partitions that are where they were last."""
        by_worker: dict[str, dict[str, PartitionQuestion]] = {}
        for name, envelope in envelopes.items():
            if name in self._workers:
                asked = PartitionQuestion(self._futures[name].key, self._seeds[name], envelope)
                by_worker.setdefault(self._workers[name], {})[name] = asked
        if not by_worker:
            return {}
        # Pickled here, so that an array that all questions share is sent once to each worker.
        message = pickle.dumps({worker: list(a.values()) for worker, a in by_worker.items()})
        answers = self._client.run(
            answer_questions, message, workers=list(by_worker), on_error="return"
        )
        replies: dict[str, Reply] = {}
        for worker, asked_here in by_worker.items():
            if isinstance(found := answers.get(worker), bytes):
                pairs = zip(asked_here, pickle.loads(found), strict=True)  # noqa: S301
                replies |= {name: reply for name, reply in pairs if reply is not None}
            else:
                self._doubted[worker] = time.monotonic() + DOUBTED
                self._workers = {n: w for n, w in self._workers.items() if w != worker}
        return replies


def _reason(future: Any) -> str:
    error = future.exception() if future.status == "error" else None
    return future.status if error is None else f"{type(error).__name__}: {error}".splitlines()[0]


# -- on a worker -----------------------------------------------------------------------------------


async def answer_questions(message: bytes, dask_worker: Any = None) -> bytes:
    """Answer in the threads in which the worker runs its tasks; the event loop stays free.

    The reply of a partition that is not here is None.
    """
    asked: list[PartitionQuestion] = pickle.loads(message)[dask_worker.address]  # noqa: S301
    loop, threads = asyncio.get_running_loop(), dask_worker.state.nthreads

    async def reply(one: PartitionQuestion) -> Reply | None:
        partition = dask_worker.data.get(one.key)
        if not isinstance(partition, Partition):
            return None
        answering = partial(_answer, partition.peer(one.seed), one.envelope, threads)
        return await loop.run_in_executor(dask_worker.executors["default"], answering)

    return pickle.dumps(await asyncio.gather(*map(reply, asked)))


def _answer(peer: Any, envelope: Envelope, worker_threads: int) -> Reply:
    with limited_threads(worker_threads):
        return reply_of(peer.answer, envelope)
