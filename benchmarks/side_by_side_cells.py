"""What `benchmarks.side_by_side` measures: cells, each one task on one data set.

| suite | cells |
|---|---|
| main | every section of `python -m benchmarks` on every workload |
| kmedian | those of `python -m benchmarks.kmedian` |
| private | those of `python -m benchmarks.private --only scale` |
| embeddings | our tasks of `python -m benchmarks.embeddings`; Lloyd on the uniform rows of main |
| more | the other refinements, seedings and objectives of `KMeans` |

Tasks use public names of kvariates only, so that they run in every version. Seeds are fixed: two
versions with equal results do equal work.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from benchmarks import contestants, embedding_tasks, kmedian_data, private_data, workloads
from benchmarks.sections import SECTIONS, STEPS, Section, applies
from benchmarks.workloads import Data, Workload, clustered, data_folder

Task = Callable[[], object]


@dataclass(frozen=True)
class Cell:
    """`prepare` turns the data that `make` made into the task to measure."""

    section: str
    data: str  # cells of equal data share it
    make: Callable[[], Any]
    prepare: Callable[[Any], Task]
    large: bool = False  # takes minutes

    @property
    def name(self) -> str:
        return f"{self.section}: {self.data}"


def _library() -> Any:
    return importlib.import_module("kvariates")


# --- main and more ---------------------------------------------------------------------------


def _section_task(section: Section, work: Workload, X: Data) -> Task:
    return partial(section.task(contestants.kvariates(), work, X, work.start(X)), 0)


def main(quick: bool = False) -> Iterator[Cell]:
    for work in workloads.dense(quick) + workloads.csr():
        for section in SECTIONS.values():
            if not work.missing and applies(section.name, work):
                yield Cell(
                    section.name, work.name, work.make, partial(_section_task, section, work)
                )


def _fit_task(work: Workload, options: dict[str, Any], X: Data) -> Task:
    """A fit of a few steps from the same start, unless `options` name a seeding."""
    X = X - X.min() + 1 if "distortion" in options else X  # divergences need positive rows
    options = {"init": work.start(X), "n_init": 1, "max_iter": STEPS, "tol": 0.0} | options
    weight = np.linspace(1, 2, len(X)) if options.pop("weighted", False) else None
    model = _library().KMeans(work.k, random_state=0, **options)
    return lambda: model.fit(X, sample_weight=weight)


def _parallel_task(work: Workload, X: Data) -> Task:
    return lambda: _library().kmeans_parallel(X, work.k, random_state=0)


MORE: tuple[dict[str, Any], ...] = (
    *({"algorithm": name} for name in ("lloyd", "elkan", "hamerly", "yinyang", "hartigan")),
    {"algorithm": "minibatch"},
    *({"init": name, "max_iter": 1} for name in ("k-means||", "ls++", "hst")),
    {"metric": "cosine"},
    *({"distortion": n} for n in ("kl", "itakura-saito", "mahalanobis", "total-jensen")),
    {"weighted": True},
)


def more(quick: bool = False) -> Iterator[Cell]:
    shapes = ((1_000, 4, 8), (20_000, 16, 64), (20_000, 64, 32))
    for n, d, k in shapes[: 1 if quick else None]:
        work = Workload("clustered", n, d, k, "float64", clustered)
        for options in MORE:
            title = " ".join(f"{key}={value}" for key, value in options.items())
            yield Cell(title, work.name, work.make, partial(_fit_task, work, options))
        yield Cell("kmeans_parallel", work.name, work.make, partial(_parallel_task, work))


# --- k-median --------------------------------------------------------------------------------


def _pmed_task(numbers: range, seeds: int, options: dict[str, Any], all_of_them: Any) -> Task:
    """Fits of the networks of these numbers, from 1, with this many seeds each."""
    pairs = [
        (_library().KMedian(one.k, metric="precomputed", random_state=seed, **options), one.D)
        for one in (all_of_them[i - 1] for i in numbers)
        for seed in range(seeds)
    ]
    return lambda: [model.fit(D) for model, D in pairs]


def _kmedian_task(k: int, metric: str, X: Any) -> Task:
    model = _library().KMedian(k, metric=metric, random_state=0)
    return lambda: model.fit(X)


def _seeding_task(function: str, k: int, X: Any) -> Task:
    seed = getattr(_library(), function)
    return lambda: seed(X, k, random_state=0)


def kmedian(quick: bool = False) -> Iterator[Cell]:
    def pmed(title: str, numbers: range, seeds: int = 10, **options: Any) -> Cell:
        task = partial(_pmed_task, numbers, seeds, options)
        return Cell(title, "OR-Library", kmedian_data.instances, task)

    def fit(title: str, make: Callable[[], Any], k: int, metric: str, large: bool = False) -> Cell:
        return Cell(f"fit k={k}", title, make, partial(_kmedian_task, k, metric), large)

    if (data_folder() / "pmed").exists() and not quick:
        yield from (pmed(f"pmed {i}", range(i, i + 1)) for i in range(1, 31))
        yield pmed("pmed no restarts", range(1, 31), n_restarts=0)
        yield pmed("pmed one restart", range(1, 31), n_restarts=1)
        yield pmed("pmed certify", range(1, 31, 3), 1, certify=True)
        yield pmed("pmed 2000 restarts", range(1, 31, 6), 1, n_restarts=2000)
    if (data_folder() / "mnist").exists() and not quick:
        yield from (fit("MNIST 10k", kmedian_data.mnist, k, "euclidean") for k in (10, 100))
    for n in (1_000,) if quick else (31_250, 125_000, 1_000_000):
        make = partial(kmedian_data.plane, n)
        yield fit(f"plane {n}", make, 100, "manhattan", n > 500_000)
    if (data_folder() / "graphs").exists() and not quick:
        yield fit("roads", kmedian_data.road, 50, "graph")
    for side in (20,) if quick else (250, 500, 1000):
        yield fit(f"grid {side}²", partial(kmedian_data.grid, side), 50, "graph", side > 250)
    for n in (1_000,) if quick else (20_000, 200_000):
        for k in (4, 8, 16, 32, 64, 128):
            for name in ("hst_seeding", "kmedian_plusplus"):
                task = partial(_seeding_task, name, k)
                yield Cell(f"{name} k={k}", f"cube {n}", partial(kmedian_data.cube, n), task)


# --- private ---------------------------------------------------------------------------------


def _private_task(k: int, delta: float, X: Any) -> Task:
    model = _library().PrivateKMeans(k, epsilon=1.0, delta=delta, radius=1.0)
    return lambda: model.fit(X)


def private(quick: bool = False) -> Iterator[Cell]:
    names = ["1,000,000 x 10, k = 20", "2,000,000 x 2, k = 8", "10,000,000 x 2, k = 8"]
    if (data_folder() / "mnist").exists():
        names.insert(1, "MNIST 70,000 x 784, k = 10")
    for name in ["2,000 x 2, k = 8"] if quick else names:
        k, make = int(name.split("=")[1]), partial(private_data.large_rows, name)
        for delta in (1e-6, 0.0):
            task = partial(_private_task, k, delta)
            yield Cell(f"delta={delta:g}", name, make, task, name.startswith("10,"))


# --- embeddings ------------------------------------------------------------------------------


def embeddings(quick: bool = False) -> Iterator[Cell]:
    for cell in embedding_tasks.cells(quick):
        if (
            contestants.OURS in cell.libraries
            and cell.section != "memory"
            and not cell.rows.missing
        ):
            kind, data = cell.section.split("-")[0], f"{cell.rows.name} k={cell.k}"
            task = partial(embedding_tasks.TASKS[kind], cell, contestants.OURS)
            yield Cell(cell.section, data, cell.rows.make, task)
    # Lloyd on rows without structure, from which bounds gain least.
    yield from (
        cell for cell in main(quick) if cell.section == "lloyd" and cell.data.startswith("uniform")
    )


SUITES = {
    "main": main, "kmedian": kmedian, "private": private, "embeddings": embeddings, "more": more
}  # fmt: skip


def cells(suite: str, *, quick: bool = False, full: bool = False) -> list[Cell]:
    return [cell for cell in SUITES[suite](quick) if full or not cell.large]
