"""The sections of `python -m benchmarks.gpu`: what is run and timed in each cell."""

from __future__ import annotations

import math
import signal
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from benchmarks.gpu_data import Cell, cost_of, share_wrong, start, torch
from benchmarks.gpu_peers import Fitted, fit_ours, flash_from_random_rows, library, on_host
from benchmarks.timing import Patience, race

OURS, CPU, FLASH = "kvariates", "cpu", "flash"
COPIES, AT_ONCE = "copied blocks", "rows at once"
TRIES = 10  # of flash-kmeans from random rows
LIMITS = {10: 130.0}  # seconds that the CPU gets for a fit cut at so many iterations
LIMIT = 60.0  # and for any other fit
Result = TypeVar("Result")


@dataclass(frozen=True)
class Ceilings:
    """Bytes and operations a second. `copy` counts bytes read and written."""

    copy: float
    to_card: float  # from memory that is locked (pinned)
    to_card_pageable: float
    from_card: float
    bf16: float
    fp16: float
    float32: float


@dataclass
class Figures:
    """Of one library in one cell."""

    seconds: list[float] = field(default_factory=list)
    n_iter: int | None = None
    cost: float | None = None
    wrong: float | None = None  # share of labels
    stopped: bool = False  # after so many seconds: it takes longer
    parts: dict[str, float] = field(default_factory=dict)  # seconds

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


@dataclass
class Measured:
    name: str
    section: str
    n: int
    d: int
    k: int
    libraries: dict[str, Figures] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    same_bits: bool | None = None  # card and CPU

    def has(self, *names: str) -> bool:
        return all(name in self.libraries for name in (OURS, *names))

    def ratio(self, library: str) -> float:
        """Their time over ours."""
        return self.libraries[library].median / self.libraries[OURS].median


def device() -> str:
    """Where rows are: without a card, quick runs try the command on a processor."""
    return "cuda" if torch().cuda.is_available() else "cpu"


def finished(task: Callable[[], Result]) -> Result:
    """Its result, when the card has computed it."""
    found = task()
    if device() == "cuda":
        torch().cuda.synchronize()
    return found


def seconds_of(task: Callable[[], Result]) -> tuple[float, Result]:
    finished(lambda: None)
    begin = time.perf_counter()
    found = finished(task)
    return time.perf_counter() - begin, found


def measure(quick: bool) -> Ceilings:
    t, place = torch(), device()
    size, side, times = (2**22, 512, 2) if quick else (2**30, 8192, 7)
    a = t.rand(size, device=place)
    b = t.empty_like(a)

    def rate(amount: float, task: Callable[[], object]) -> float:
        return amount / statistics.median([seconds_of(task)[0] for _ in range(times)][1:])

    found = {"copy": rate(8 * size, lambda: b.copy_(a))}
    host, part = t.empty(size // 4), a[: size // 4]
    found["to_card_pageable"] = rate(size, lambda: part.copy_(host))
    locked = host.pin_memory() if place == "cuda" else host
    found["to_card"] = rate(size, lambda: part.copy_(locked, non_blocking=True))
    found["from_card"] = rate(size, lambda: locked.copy_(part, non_blocking=True))
    t.backends.cuda.matmul.allow_tf32 = False
    for name, dtype in (("bf16", t.bfloat16), ("fp16", t.float16), ("float32", t.float32)):
        x, y = (t.randn(side, side, device=place).to(dtype) for _ in range(2))
        out = t.empty_like(x)
        found[name] = rate(2 * side**3, partial(t.matmul, x, y, out=out))
    return Ceilings(**found)


@contextmanager
def _noted(done: Measured, library: str) -> Iterator[None]:
    """A library that fails is left out of the cell, with the reason."""
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        said = str(error).strip().splitlines() or [""]
        done.left_out[library] = f"{type(error).__name__}: {said[0][:200]}"
        done.libraries.pop(library, None)


def run_cell(cell: Cell, X: Any, rounds: int) -> Measured:
    done = Measured(cell.name, cell.section, cell.rows.n, cell.rows.d, cell.k)
    by_section = {"lloyd": _lloyd, "seeding": _seeding, "streamed": _streamed}
    by_section.get(cell.section, _fit)(cell, X, rounds, done)
    return done


def _lloyd(cell: Cell, X: Any, rounds: int, done: Measured) -> None:
    first, tasks, used = start(X, cell.k), {}, {}
    for name in (OURS, *cell.beside):
        with _noted(done, name):
            one = library(name)
            rows, begin = one.rows(X), one.rows(first)
            given = on_host(begin) if name.startswith(OURS) else begin
            task = partial(one.lloyd, rows, given, cell.most)
            finished(task)  # compiles
            tasks[name] = lambda _, task=task: finished(task)
            used[name] = one, rows
    raced = race(tasks, Patience(rounds, rounds, 0.0, math.inf))
    for name, (one, rows) in used.items():
        with _noted(done, name):
            found: Fitted = raced.results[name]
            figures = Figures(list(raced.timings[name].seconds), found.n_iter)
            figures.cost = cost_of(X, found.centers)
            figures.wrong = share_wrong(rows, found.centers, one.labels(rows, found))
            done.libraries[name] = figures


@contextmanager
def _timed_seeding(seconds: list[float]) -> Iterator[None]:
    """Add how long the first centres of each fit take."""
    import kvariates.fitting as fitting

    seed: Any = fitting._first_centers

    def timed(*given: Any) -> Any:
        taken, centers = seconds_of(lambda: seed(*given))
        seconds.append(taken)
        return centers

    fitting._first_centers = timed
    try:
        yield
    finally:
        fitting._first_centers = seed


def _fit(cell: Cell, X: Any, rounds: int, done: Measured) -> None:
    options = {"random_state": 0, "max_iter": cell.most}
    host = on_host(X)
    small = cell.section == "small"
    given, on_card = (host, {"device": device()}) if small else (X, {})
    model = None
    with _noted(done, OURS):
        fit_ours(given, cell.k, max_iter=1, random_state=0, **on_card)  # compiles
        seeding: list[float] = []
        figures = Figures()
        with _timed_seeding(seeding):
            for _ in range(rounds):
                taken, model = seconds_of(lambda: fit_ours(given, cell.k, **options, **on_card))
                figures.seconds.append(taken)
        figures.n_iter, figures.parts["seeding"] = model.n_iter_, statistics.median(seeding)
        figures.cost = cost_of(X, torch().as_tensor(model.cluster_centers_).to(X.device))
        done.libraries[OURS] = figures
    if CPU in cell.beside:
        with _noted(done, CPU):
            limit = LIMITS.get(cell.most, LIMIT)
            done.libraries[CPU], same = _fit_of_cpu(host, cell.k, options, limit, small)
            done.same_bits = None if same is None or model is None else _same_bits(same, model)
    if FLASH in cell.beside and model is not None:
        with _noted(done, FLASH):
            done.libraries[FLASH] = _flash_until(cell, X, done.libraries[OURS].cost or 0.0)


def _fit_of_cpu(
    X: Any, k: int, options: dict[str, Any], limit: float, small: bool
) -> tuple[Figures, Any]:
    figures, seeding = Figures(), []
    try:
        with _within(limit), _timed_seeding(seeding):
            for _ in range(3 if small else 1):
                taken, model = seconds_of(lambda: fit_ours(X, k, "cpu", **options))
                figures.seconds.append(taken)
    except TimeoutError:
        return Figures([limit], stopped=True), None
    figures.n_iter, figures.parts["seeding"] = model.n_iter_, statistics.median(seeding)
    figures.cost = cost_of(torch().as_tensor(X), torch().as_tensor(model.cluster_centers_))
    return figures, model


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """TimeoutError when the time is over."""

    def stop(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _same_bits(one: Any, other: Any) -> bool:
    same = one.inertia_ == other.inertia_ and one.n_iter_ == other.n_iter_
    for name in ("cluster_centers_", "labels_"):
        a, b = (on_host(getattr(model, name)) for model in (one, other))
        same = same and bool((a == b).all())
    return bool(same)


def _flash_until(cell: Cell, X: Any, goal: float) -> Figures:
    """flash-kmeans from random rows, again until its cost is as low; it stops when ours would."""
    spread = float(X.var(0, unbiased=False).mean())
    shift = math.sqrt(1e-4 * spread / cell.k)
    finished(lambda: flash_from_random_rows(X, cell.k, 2, shift, 0))  # compiles
    total, costs, n_iter = 0.0, [], 0
    while len(costs) < TRIES and not (costs and min(costs) <= goal):
        seed = 1 + len(costs)
        taken, found = seconds_of(
            lambda seed=seed: flash_from_random_rows(X, cell.k, cell.most, shift, seed)
        )
        total, n_iter = total + taken, n_iter + found.n_iter
        costs.append(cost_of(X, found.centers))
    tries = {"tries": float(len(costs))}
    return Figures([total], n_iter, min(costs), stopped=min(costs) > goal, parts=tries)


def _seeding(cell: Cell, X: Any, rounds: int, done: Measured) -> None:
    with _noted(done, OURS):
        figures, seeding = Figures(), []
        options = {"init": cell.init, "max_iter": 1, "tol": 0.0, "random_state": 0}
        fit_ours(X, cell.k, **options)  # compiles
        with _timed_seeding(seeding):
            for _ in range(rounds):
                taken, model = seconds_of(lambda: fit_ours(X, cell.k, **options))
                figures.parts["fit"] = min(taken, figures.parts.get("fit", math.inf))
        figures.seconds, figures.n_iter = seeding, model.n_iter_
        done.libraries[OURS] = figures


@contextmanager
def _timed_steps(seconds: list[float]) -> Iterator[None]:
    """Add how long the card takes for each iteration, which ends with a wait for it."""
    from kvariates.cuda.data import CardSteps

    assign: Any = CardSteps.assign

    def timed(*given: Any) -> Any:
        taken, found = seconds_of(lambda: assign(*given))
        seconds.append(taken)
        return found

    CardSteps.assign = timed  # type: ignore[method-assign]
    try:
        yield
    finally:
        CardSteps.assign = assign  # type: ignore[method-assign]


def _streamed(cell: Cell, X: Any, rounds: int, done: Measured) -> None:
    """Seconds are those of one iteration: what a fit does once is left out, but is in "fit".

    Rows of an array pass through the card; or copies of them, as those of a file would; or all are
    on the card, where the array fits.
    """
    from kvariates.sources import blocks

    init, host, place = on_host(start(X, cell.k)), on_host(X), device()
    del X
    some = -(-len(host) // 100)

    def copies() -> Iterator[Any]:
        return (host[first : first + some] for first in range(0, len(host), some))

    rows = {OURS: lambda: blocks(host), COPIES: lambda: blocks(copies), AT_ONCE: lambda: host}
    centers = None
    for name, given in rows.items():
        with _noted(done, name):

            def task(given: Callable[[], Any] = given) -> Any:
                return fit_ours(given(), cell.k, place, init=init, max_iter=cell.most, tol=0.0)

            task()  # compiles
            steps: list[float] = []
            with _timed_steps(steps):
                taken, model = seconds_of(task)
            each = steps[1:] or [taken / model.n_iter_]  # the first also makes the filter
            done.libraries[name] = Figures(each, model.n_iter_, parts={"fit": taken})
            centers = model.cluster_centers_ if centers is None else centers
            if not (centers == model.cluster_centers_).all():
                raise ValueError("other centres than those of the rows before")
