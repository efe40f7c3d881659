"""Noisy demand of public cells, and ordinary k-median on the demand they estimate.

| round | cells | costs |
|---|---|---|
| 1 | of the medoids of all points, which are public | one release of counts |
| 2 | of the medoids of the demand that round 1 estimates, which is released | another |

The estimate spreads the noisy count of a cell over its points, evenly at first, then in proportion
to the estimate before. So where the counts say nothing, the density of the public points is used.
The cells of the second round are small where there is demand. Medoids, and the counts of their
clusters, are computed from the estimate by the search of `KMedian`, which costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods.demand_task import (
    Counted,
    DemandResult,
    DemandTask,
    check_count,
    check_number,
)
from kvariates.private_methods.demand_tree import CLEAR, small_budget
from kvariates.private_methods.noisy_counts import NoisyCounts
from kvariates.refining.medoid_search import find_medoids, search_task
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS

FEWEST, MOST = 8, 1024  # cells of the second round
RESTARTS = 1  # of the last search, except on a graph
MAX_SWAPS = 10**9
SWAPPED = 2**15  # nodes of a graph up to which the medoids of cells are swapped
PER_CELL = 4.0  # standard deviations of noise that a cell of the second round should count


@dataclass(frozen=True)
class DemandCells:
    """Noisy demand of cells in two rounds; k-median on the demand that they estimate.

    Parameters
    ----------
    first : int, default=24
        Cells of the first round.
    second : int or None, default=None
        Cells of the second. None: by the noisy total of the first, about one for each four
        standard deviations of noise.
    second_share : float, default=0.5
        The share of the budget of the second round.
    """

    releases_counts: ClassVar[bool] = True

    first: int = 24
    second: int | None = None
    second_share: float = 0.5

    def __post_init__(self) -> None:
        check_count("first", self.first, least=1)
        check_count("second", self.second, least=1)
        check_number("second_share", self.second_share, 0.0, 1.0)

    def __call__(self, task: DemandTask) -> DemandResult:
        accountant, public = Accountant(), np.ones(task.space.n)
        first, *others = task.cost.split([1 - self.second_share, self.second_share])
        if task.space.n <= self.first:  # every point is a cell, and one round is enough
            first, others = task.cost, []
        counted = _count(task, public, self.first, "round 1", first, accountant)
        total, warning = float(counted.noisy.counts.sum()), None
        noise = counted.noisy.deviation * math.sqrt(len(counted.noisy.counts))
        if total < CLEAR * noise:
            warning = small_budget(total, noise, "first cells")
        estimate = counted.estimate(public)
        for cost in others:
            number = self.second or self._most(total, cost.deviation(task.adjacency))
            counted = _count(task, estimate, number, "round 2", cost, accountant)
            estimate = counted.estimate(estimate)
        restarts = 0 if isinstance(task.space, Graph) else RESTARTS
        medoids = weighted_medoids(task, estimate, task.k, restarts)
        nearest = task.space.two_nearest(medoids).labels
        counts = counted.counts(np.maximum(nearest, 0), estimate, task.k)
        return DemandResult(medoids, tuple(accountant.charges), counts=counts, warning=warning)

    @staticmethod
    def _most(total: float, deviation: float) -> int:
        """As many cells as a noisy total is enough for."""
        return int(np.clip(total / (PER_CELL * deviation), FEWEST, MOST))


@dataclass(frozen=True, eq=False)
class CountedCells:
    """The cell of every point, and the noisy counts of the cells."""

    cells: Ints
    noisy: Counted

    def estimate(self, before: F64) -> F64:
        """The demand of every point: the counts, spread in proportion to the estimate before.

        Counts become non-negative by the nearest such counts with the same sum.
        """
        number = len(self.noisy.counts)
        counts = nearest_counts(self.noisy.counts)
        held = np.bincount(self.cells, before, minlength=number)
        evenly = np.bincount(self.cells, minlength=number)
        some = held > 0
        factor = counts / np.where(some, held, np.maximum(evenly, 1))
        return np.asarray(np.where(some[self.cells], before, 1.0) * factor[self.cells])

    def counts(self, nearest: Ints, estimate: F64, k: int) -> NoisyCounts:
        """The demand of each medoid, by the estimate, with the noise of its parts of the cells."""
        number = len(self.noisy.counts)
        held = np.bincount(self.cells, estimate, minlength=number)
        # A cell whose count became 0 had noise, too: it is shared by its points.
        mass = np.where(held[self.cells] > 0, estimate, 1.0)
        parts = np.bincount(nearest * number + self.cells, mass, minlength=k * number)
        masses = np.bincount(self.cells, mass, minlength=number)
        # A cell without points has no part of any medoid.
        shares = parts.reshape(k, number) / np.where(masses > 0, masses, 1.0)
        cells = np.maximum((shares**2).sum(axis=1), 1.0)  # no part is less noisy than a cell
        counts: F64 = np.bincount(nearest, estimate, minlength=k).astype(np.float64)
        return NoisyCounts.of(counts, self.noisy.deviation * np.sqrt(cells))


def _count(
    task: DemandTask, weight: F64, number: int, label: str, cost: Cost, accountant: Accountant
) -> CountedCells:
    """Release the demand of the cells of medoids of the weights."""
    number = min(number, task.space.n)
    # Swaps of many medoids of a large graph take long, and cells need not be the best ones.
    large = isinstance(task.space, Graph) and task.space.n > SWAPPED
    medoids = weighted_medoids(task, weight, number, 0, max_swaps=0 if large else MAX_SWAPS)
    labels = task.space.two_nearest(medoids).labels
    cells = np.maximum(labels, 0).astype(np.int64)  # what no medoid reaches is in the first cell
    noisy = task.count(cells, number, f"{label}: demand of each cell", cost, accountant)
    return CountedCells(cells, noisy)


def weighted_medoids(
    task: DemandTask, weight: F64, k: int, restarts: int, max_swaps: int = MAX_SWAPS
) -> Ints:
    """The medoids of public or released weights."""
    search = search_task(
        task.space, weight, k, restarts=restarts, max_swaps=max_swaps, rng=task.rng
    )
    seed = MEDOID_SEEDINGS["k-median++"].run
    return find_medoids(search, lambda space, mass: seed(space, k, mass, task.rng)).medoids


def nearest_counts(noisy: F64) -> F64:
    """The nearest non-negative counts with the same sum, at least 1."""
    total, falling = max(float(noisy.sum()), 1.0), np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    last = int(np.flatnonzero(falling > over)[-1])
    return np.asarray(np.maximum(noisy - over[last], 0.0))
