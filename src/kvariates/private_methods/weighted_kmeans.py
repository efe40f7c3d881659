"""Ordinary k-means on weighted points that were paid for: post-processing, free of charge."""

from __future__ import annotations

import numpy as np

from kvariates.data.rows import Rows
from kvariates.private_methods.public_start import spread_out
from kvariates.private_methods.task import F64, Domain
from kvariates.refining.lloyd import LloydResult, StopRule, refine
from kvariates.seeding.local_search import local_search, search_steps
from kvariates.seeding.sampler import greedy_trials
from kvariates.seeding.seeding_problem import SeedingProblem, kvariates

RUNS = 5
STEPS = 300


def solve(
    domain: Domain, points: F64, weight: F64, k: int, rng: np.random.Generator, runs: int = RUNS
) -> F64:
    """The best of some runs of LS++ and Lloyd; public places where points are fewer than k.

    Pre: weights > 0.
    """
    if len(points) <= k:
        fill = spread_out(domain, k, rng)[len(points) :]
        return np.concatenate([points, fill])
    space = Rows.of(np.ascontiguousarray(points))
    ends = (settled(space, weight, k, rng) for _ in range(runs))
    return np.asarray(min(ends, key=lambda end: end.inertia).centers, dtype=np.float64)


def settled(
    space: Rows, weight: F64 | None, k: int, rng: np.random.Generator, steps: int = STEPS
) -> LloydResult:
    """One run. Pre: at least k rows."""
    problem = SeedingProblem(space, weight, k, rng=rng)
    seeds = kvariates(problem, trials=greedy_trials(k)).centers
    start = local_search(problem, seeds, steps=search_steps(k)).centers
    return refine(space, start, weight, StopRule(steps, 0.0))
