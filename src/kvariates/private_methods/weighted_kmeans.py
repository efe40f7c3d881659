"""k-means on points that are already released, and a public start: neither costs privacy."""

from __future__ import annotations

import numpy as np

from kvariates.data.rows import Rows
from kvariates.private_methods.task import F64, Domain
from kvariates.refining.lloyd import LloydResult, StopRule, refine
from kvariates.seeding.local_search import local_search, search_steps
from kvariates.seeding.sampler import greedy_trials
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows

RUNS = 5
MAX_ITER = 300
TRIES = 50  # points drawn for each ball of a start


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


def spread_out(domain: Domain, k: int, rng: np.random.Generator) -> F64:
    """Points of the domain far from each other and from its border.

    Su et al.'s packing of k balls with the same radius, the largest for which a few draws succeed.
    """
    low, high = 0.0, float(domain.half.min())
    best = _draw_inside(domain, 0.0, k, rng)
    for _ in range(12):
        radius = (low + high) / 2
        packed = _pack(domain, radius, k, rng)
        if packed is None:
            high = radius
        else:
            low, best = radius, packed
    return best


def _pack(domain: Domain, radius: float, k: int, rng: np.random.Generator) -> F64 | None:
    """The centres of k disjoint balls inside the domain, or None if they were not found."""
    centers = np.empty((0, domain.d))
    for _ in range(k):
        drawn = _draw_inside(domain, radius, TRIES, rng)
        distance = np.linalg.norm(drawn[:, None] - centers, axis=2).min(axis=1, initial=np.inf)
        if distance.max() < 2 * radius:
            return None
        centers = np.vstack([centers, drawn[distance.argmax()]])
    return centers


def _draw_inside(domain: Domain, margin: float, count: int, rng: np.random.Generator) -> F64:
    """Uniform points at least `margin` away from the border."""
    if not domain.ball:
        return rng.uniform(-1.0, 1.0, (count, domain.d)) * (domain.half - margin)
    unit = rng.normal(size=(count, domain.d))
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    return unit * (domain.radius - margin) * rng.random((count, 1)) ** (1 / domain.d)
