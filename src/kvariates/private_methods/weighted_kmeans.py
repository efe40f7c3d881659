"""Ordinary k-means on weighted points that are already released: it costs no privacy."""

from __future__ import annotations

import numpy as np

from kvariates.data.rows import Rows
from kvariates.private_methods.public_start import spread_out
from kvariates.private_methods.task import F64, Domain
from kvariates.refining.lloyd import LloydResult, StopRule, refine
from kvariates.seeding.local_search import local_search, search_steps
from kvariates.seeding.sampler import greedy_trials
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows

RUNS = 5
MAX_ITER = 300


def solve(domain: Domain, points: F64, weight: F64, k: int, rng: np.random.Generator) -> F64:
    """The best of several runs of LS++ and Lloyd. Pre: weights > 0.

    If there are at most k points, they are the centres, and public points are added.
    """
    if len(points) <= k:
        fill = spread_out(domain, k, rng)[len(points) :]
        return np.concatenate([points, fill])
    rows = Rows.of(np.ascontiguousarray(points))
    ends = (run(rows, weight, k, rng) for _ in range(RUNS))
    return np.asarray(min(ends, key=lambda end: end.inertia).centers, dtype=np.float64)


def run(
    rows: Rows, weight: F64 | None, k: int, rng: np.random.Generator, max_iter: int = MAX_ITER
) -> LloydResult:
    """One run of k-means++, LS++ and Lloyd. Pre: at least k rows."""
    problem = SeedingProblem(rows, weight, k, rng=rng)
    seeds = sample_rows(problem, trials=greedy_trials(k)).centers
    start = local_search(problem, seeds, steps=search_steps(k)).centers
    return refine(rows, start, weight, StopRule(max_iter, 0.0))
