"""Seedings of rows that belong to peers, and their costs after each number of centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.workloads import Array

from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Rows, total_cost
from kvariates.numerics.draws import I64
from kvariates.seeding.sampler import (
    Density,
    EuclideanPotential,
    SeedingProblem,
    sample_rows,
    sample_step,
)
from kvariates.seeding.seedings import draw_candidates

ROUNDS, OVERSAMPLING = 5, 2  # of k-means||, as in Bahmani et al. 2012


class UniformInPeer:
    """`UniformOver(peer)` for rows of weight one, with the rows of each peer found only once."""

    def __init__(self, peer: Array) -> None:
        order = np.argsort(peer, kind="stable")
        ends = np.cumsum(np.bincount(peer))
        self._peer, self._members = peer, np.split(order, ends[:-1])

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: np.random.Generator) -> F64:
        chosen = [rng.choice(self._members[self._peer[row]]) for row in picked]
        return rows.take(np.array(chosen, dtype=np.int64))


@dataclass(frozen=True)
class ParallelRun:
    """The cost of k-means||, and how many candidates it drew."""

    cost: float
    candidates: int


def seeded_costs(
    rows: Rows, density: Density, ks: Sequence[int], rng: np.random.Generator
) -> list[float]:
    """The cost of the first k centres of one run of k-variates++, for each k."""
    potential, costs = EuclideanPotential(rows, None, max(ks)), []
    for k in range(1, max(ks) + 1):
        sample_step(potential, density, rng)
        if k in ks:
            costs.append(potential.total())
    return costs


def kmeans_parallel_run(rows: Rows, k: int, rng: np.random.Generator) -> ParallelRun:
    """One run of k-means||; plain k-means++ on the weighted candidates chooses the centres."""
    sizes = rng.poisson(OVERSAMPLING * k, size=ROUNDS)
    potential = EuclideanPotential(rows, None, 1 + int(sizes.sum()) + k)
    taken = np.concatenate(draw_candidates(potential, sizes, k, rng))
    mass = potential.masses()
    few = SeedingProblem(HostData(rows.subset(taken[mass > 0]), mass[mass > 0]), k, rng=rng)
    return ParallelRun(cost_at(rows, sample_rows(few).centers), len(taken))


def cost_at(rows: Rows, centers: F64) -> float:
    """The cost of all rows at their nearest centres."""
    return total_cost(rows.costs(centers, rows.nearest(centers)), None)
