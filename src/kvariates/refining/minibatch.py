"""Mini-batch k-means (Sculley 2010): every centre is the running mean of the rows assigned to it.

A batch of rows is drawn, each row is assigned to its nearest centre, and each centre moves towards
the mean of its rows by their share of all rows it was ever given. So early batches move centres far
and late ones hardly. As in scikit-learn, a centre with very few rows is moved to a row of the batch
now and then, and the search ends when the smoothed cost of the batches has not fallen for a while.
"Very few" is relative to the mean of all centres, not to the largest: a good start has small
clusters too, and should keep them. A row of weight w is drawn w times as often.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvariates.data.cluster_sums import FloatStatistics, SumsByLabel, SumScale
from kvariates.data.rows import F64, Rows, directions
from kvariates.numerics.draws import CumulativeMass
from kvariates.refining.lloyd import LloydResult, RefineProblem, Step, evaluated

BATCH_SIZE = 1024
PATIENCE = 10  # batches without a new lowest cost
FEW_ROWS = 0.01  # of the mean number of rows of a centre
REASSIGN_EVERY = 100  # rows per centre; more often, chance alone would leave some centres with few


class RunningMeans:
    """The centres, and how many rows each is the mean of; with `unit`, the mean's direction."""

    def __init__(self, centers: F64, unit: bool = False) -> None:
        self.centers = self._means = centers
        self._unit = unit
        self.counts = np.zeros(len(centers), dtype=np.int64)

    def update(self, batch: Rows) -> F64:
        """Move towards the rows of a batch; return what each row cost before."""
        labels = batch.nearest(self.centers)
        costs = batch.costs(self.centers, labels)
        sums = SumsByLabel(batch, None, labels, len(self.centers), SumScale.of(batch, None))
        count = np.bincount(labels, minlength=len(self.centers))
        self.counts += count
        full = count > 0
        step = sums.values[full] - count[full, None] * self._means[full]
        self._means = self._means.copy()
        self._means[full] += step / self.counts[full, None]
        self.centers = directions(self._means, self.centers) if self._unit else self._means
        return costs

    def reassign(self, batch: Rows, costs: F64, rng: np.random.Generator) -> None:
        """Move centres with few rows to rows of the batch, drawn by cost."""
        few = np.flatnonzero(self.counts < FEW_ROWS * self.counts.mean())
        few = few[np.argsort(self.counts[few], kind="stable")][: batch.n // 2]
        few = few[: np.count_nonzero(costs)]
        if not len(few):
            return
        rows = rng.choice(batch.n, size=len(few), replace=False, p=costs / costs.sum())
        self.centers[few] = self._means[few] = batch.take(rows)
        # Enough not to be moved again at once, and few enough that the centres can still move.
        self.counts[few] = np.delete(self.counts, few).min()


class CostPlateau:
    """Whether the smoothed cost has stopped falling: scikit-learn's rule."""

    def __init__(self, share: float) -> None:
        self._share = min(1.0, 2 * share)  # of a new batch in the smoothed cost
        self._smooth: float | None = None
        self._lowest = np.inf
        self._waited = 0

    def reached(self, cost: float) -> bool:
        before = cost if self._smooth is None else self._smooth
        self._smooth = before * (1 - self._share) + cost * self._share
        self._waited += 1
        if self._smooth < self._lowest:
            self._lowest, self._waited = self._smooth, 0
        return self._waited >= PATIENCE


class PassReport:
    """Keeps the cost, and calls the callback, at the first batch of every n rows.

    So there are as many costs as `n_iter` counts.

    The cost is estimated by the batches since the last one. How many labels changed is not known,
    and the centres' shift, which does not end the search, is not measured.
    """

    def __init__(self, p: RefineProblem) -> None:
        self._callback, self._n = p.stop.callback, p.data.rows.n
        self._weight = float(p.data.rows.n) if p.data.weight is None else float(p.data.weight.sum())
        self._drawn = self._rows = 0  # rows: since the last cost that was kept, as is the cost
        self._cost = 0.0
        self.costs: tuple[float, ...] = ()

    def add(self, costs: F64, means: RunningMeans) -> bool:
        """Add what a batch cost; return whether the callback wants to stop."""
        self._drawn += len(costs)
        self._rows += len(costs)
        self._cost += float(costs.sum())
        passes = len(self.costs)
        if self._drawn <= passes * self._n:
            return False
        cost = self._cost / self._rows * self._weight
        self.costs, self._rows, self._cost = (*self.costs, cost), 0, 0.0
        if self._callback is None:
            return False
        empty = np.zeros_like(means.centers), np.zeros(len(means.counts)), means.counts
        statistics = FloatStatistics(*empty, None, lambda: cost)
        return self._callback(Step(passes, means.centers, statistics, np.nan))


def batches(
    n: int, weight: F64 | None, size: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Batch after batch of rows, drawn by weight, with replacement."""
    if weight is None:
        while True:
            yield rng.integers(n, size=size)
    mass = CumulativeMass(weight)
    while True:
        yield mass.draw(size, rng)


def minibatch(p: RefineProblem) -> LloydResult:
    """Improve the centres batch by batch. Labels and inertia are exact.

    The result never costs more than the start, which is returned if the batches made it worse.

    Ends after `max_iter` times n rows, or when the batches' cost no longer falls: steps shrink by
    themselves, so their length does not say when to stop. `n_iter` counts n rows.
    """
    rows, size = p.data.rows, min(BATCH_SIZE, p.data.rows.n)
    means, plateau = RunningMeans(p.centers, p.unit), CostPlateau(size / (rows.n + 1))
    passes = PassReport(p)
    since_reassigned = 0
    for step, drawn in enumerate(batches(rows.n, p.data.weight, size, p.rng)):
        batch = rows.subset(drawn)
        costs = means.update(batch)
        since_reassigned += size
        if since_reassigned >= REASSIGN_EVERY * len(p.centers):
            since_reassigned = 0
            means.reassign(batch, costs, p.rng)
        # The first batch was measured from the start, which says nothing about progress.
        stalled = step > 0 and plateau.reached(float(np.mean(costs)))
        asked = passes.add(costs, means)
        if stalled or asked or (step + 2) * size > p.stop.max_iter * rows.n:
            break
    n_iter, starts = -(-(step + 1) * size // rows.n), (p.centers, means.centers)
    # Rows that few batches hold can lose their centre: a good start must not suffer.
    ends = [evaluated(p.data, centers, n_iter, converged=False) for centers in starts]
    return replace(min(ends, key=lambda end: end.inertia), costs=passes.costs)
