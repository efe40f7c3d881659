"""Where a fit starts: the seedings, by the names they have in ``KMeans(init=...)``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from kvariates.data.rows import F64, Rows
from kvariates.refining.lloyd import refine
from kvariates.seeding.forgy import forgy
from kvariates.seeding.global_kmeans import Settle, Solution, global_kmeans, sample_size
from kvariates.seeding.hst import hst_seed
from kvariates.seeding.kmeans_parallel import kmeans_parallel
from kvariates.seeding.local_search import local_search, search_steps
from kvariates.seeding.sampler import PLAIN, greedy_trials, kvariates

LOOSE = 10.0  # times the tolerance, for all but the last Lloyd of a chain: the next one goes on
EXHAUSTIVE = 10**9  # multiply-adds a step up to which global k-means tries every row


@dataclass(frozen=True)
class SeedingProblem:
    """What is to be seeded, and how Lloyd runs where a seeding needs it."""

    space: Rows
    k: int
    weight: F64 | None
    max_iter: int
    tol: float
    unit: bool
    rng: np.random.Generator


def settle(problem: SeedingProblem) -> Settle:
    """Lloyd from given centres, as `global_kmeans` wants it."""

    def run(centers: F64) -> Solution:
        end = refine(
            problem.space, centers, problem.weight,
            algorithm="auto", max_iter=problem.max_iter, tol=problem.tol, unit=problem.unit,
        )  # fmt: skip
        return Solution(end.centers.astype(np.float64), end.labels, end.inertia)

    return run


def candidates(space: Rows) -> Literal["all"] | int:
    """The rows global k-means tries a step: all where that is quick."""
    return "all" if space.n**2 * space.d <= EXHAUSTIVE else sample_size(space.n)


def _greedy(p: SeedingProblem) -> F64:
    return kvariates(p.space, p.k, p.weight, PLAIN, greedy_trials(p.k), p.rng).centers


def _plain(p: SeedingProblem) -> F64:
    return kvariates(p.space, p.k, p.weight, PLAIN, 1, p.rng).centers


def _random(p: SeedingProblem) -> F64:
    return forgy(p.space, p.k, p.weight, p.rng).centers


def _parallel(p: SeedingProblem) -> F64:
    return kmeans_parallel(p.space, p.k, p.weight, rng=p.rng).centers


def _local_search(p: SeedingProblem) -> F64:
    return local_search(p.space, _greedy(p), p.weight, steps=search_steps(p.k), rng=p.rng).centers


def _global(p: SeedingProblem) -> F64:
    loosely = settle(replace(p, tol=LOOSE * p.tol))
    tried = candidates(p.space)
    return global_kmeans(p.space, p.k, p.weight, loosely, candidates=tried, rng=p.rng)[-1].centers


def _tree(p: SeedingProblem) -> F64:
    return p.space.take(hst_seed(p.space, p.k, p.weight, 2, p.rng))


SEEDINGS: dict[str, Callable[[SeedingProblem], F64]] = {
    "k-means++": _greedy,
    "d2": _plain,
    "random": _random,
    "k-means||": _parallel,
    "ls++": _local_search,
    "global": _global,
    "hst": _tree,
}
