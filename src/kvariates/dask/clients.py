"""The Dask client of an estimator and of a fit; how far the fit is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import distributed
from rich import progress as bars
from rich.console import Console
from sklearn.base import clone

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


class FitProgress:
    """Shows a bar if `verbose`, and the iterations as tasks in Dask's dashboard."""

    def __init__(self, client: Any, max_iter: int, verbose: bool) -> None:
        self._client, self._name = client, f"kvariates-iteration-{id(self):012x}"
        self._marks: list[Any] = []
        console = Console(stderr=True)
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"), bars.BarColumn(bar_width=24),
            bars.TextColumn("{task.fields[detail]}"), bars.TimeElapsedColumn(),
            console=console, disable=not verbose,
        )  # fmt: skip
        self._max_iter = max_iter
        self._task: Any = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._marks = []
        self._bar.stop()

    def phase(self, what: str) -> None:
        """Begin another part of the work."""
        if self._task is not None:
            self._bar.update(self._task, total=1, completed=1)
        self._task = self._bar.add_task(what, total=None, detail="")

    def iteration(self, step: Step) -> None:
        """Show an iteration of Lloyd."""
        if step.iteration == 0:
            self.phase("Lloyd")
        key = f"{self._name}-{step.iteration}"
        self._marks.append(self._client.submit(_done, step.iteration, key=key))
        detail = f"iteration {step.iteration + 1}, shift {step.shift:.3g}"
        self._bar.update(
            self._task, total=self._max_iter, completed=step.iteration + 1, detail=detail
        )


def _done(iteration: int) -> int:
    return iteration
