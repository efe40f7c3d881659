"""Mini-batch k-means (Sculley 2010): every centre is the running mean of the rows it has won.

A batch of rows is drawn, each row goes to its nearest centre, and each centre moves towards the
mean of its rows by their share of all the rows that it has ever been given. So early batches move
centres far and late ones hardly. As in scikit-learn, a centre that wins next to nothing is put
on a row of the batch now and then, and the search ends when the smoothed cost of the batches has
not fallen for a while. Next to nothing is measured against the mean of all centres, not against
the largest: a good start has small clusters too, and should keep them. Weights are odds: a row of
weight w is drawn w times as often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Rows
from kvariates.refining.lloyd import LloydResult, handed_out, movement

PATIENCE = 10  # batches without a new lowest cost
POOR = 0.01  # a centre is poor below this share of the mean centre's rows
REVIEW = 100  # rows a centre between two looks for poor ones: sooner, chance alone makes some


@dataclass(frozen=True)
class Batch:
    """What is known after one batch."""

    iteration: int
    centers: F64  # where the rows were measured from
    cost: float  # mean cost of a row of the batch
    shift: float  # sum of the squared movements of the centres


class RunningMeans:
    """The centres, and how many rows each is the mean of."""

    def __init__(self, centers: F64) -> None:
        self.centers = centers
        self.counts = np.zeros(len(centers), dtype=np.int64)

    def absorb(self, batch: Rows) -> F64:
        """Move towards the rows of a batch. What each of them cost before."""
        k, d = self.centers.shape
        labels = batch.nearest(self.centers)
        costs = batch.costs(self.centers, labels)
        sums, weights, count = np.zeros((2, k, d)), np.zeros((2, k)), np.zeros(k, dtype=np.int64)
        _native.update(batch.view, None, labels, None, sums, weights, count)
        self.counts += count
        won = count > 0
        step = sums[0, won] + sums[1, won] - count[won, None] * self.centers[won]
        self.centers = self.centers.copy()
        self.centers[won] += step / self.counts[won, None]
        return costs

    def reassign(self, batch: Rows, costs: F64, rng: np.random.Generator) -> None:
        """Put poor centres on rows of the batch, drawn by what they cost."""
        poor = np.flatnonzero(self.counts < POOR * self.counts.mean())
        poor = poor[np.argsort(self.counts[poor], kind="stable")][: batch.n // 2]
        poor = poor[: np.count_nonzero(costs)]
        if not len(poor):
            return
        rows = rng.choice(batch.n, size=len(poor), replace=False, p=costs / costs.sum())
        self.centers[poor] = batch.take(rows)
        # Not so few that they are poor again at once, nor so many that they cannot move.
        self.counts[poor] = np.delete(self.counts, poor).min()


class CostPlateau:
    """Whether the smoothed cost has stopped falling: scikit-learn's rule."""

    def __init__(self, share: float) -> None:
        self._share = min(1.0, 2 * share)  # of a new batch in the smoothed cost
        self._smooth: float | None = None
        self._lowest = np.inf
        self._waited = 0

    def is_out(self, cost: float) -> bool:
        before = cost if self._smooth is None else self._smooth
        self._smooth = before * (1 - self._share) + cost * self._share
        self._waited += 1
        if self._smooth < self._lowest:
            self._lowest, self._waited = self._smooth, 0
        return self._waited >= PATIENCE


def batches(
    n: int, weight: F64 | None, size: int, rng: np.random.Generator
) -> Iterator[NDArray[np.int64]]:
    """Batch after batch of rows, drawn by weight, with replacement."""
    if weight is None:
        while True:
            yield rng.integers(n, size=size)
    ends = np.cumsum(weight)
    last = np.flatnonzero(weight)[-1]
    while True:
        rows = np.searchsorted(ends, rng.random(size) * ends[-1], side="right")
        yield np.minimum(rows, last)  # rounding may carry past the end


def minibatch(
    space: Rows,
    centers: F64,
    weight: F64 | None,
    *,
    batch_size: int,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    on_step: Callable[[Batch], bool] | None = None,
) -> LloydResult:
    """Improve `centers` batch by batch; they are not changed. Labels and inertia are exact.

    Never costs more than the start: what is worse is not handed out.

    Ends after `max_iter` times n rows, or when the batches' cost no longer falls, the centres'
    squared shift is positive but at most `tol`, or `on_step` returns True. `n_iter` counts n rows.

    Pre: 1 <= batch_size, 1 <= max_iter; weight is None or float64, not all zero.
    """
    size = min(batch_size, space.n)
    means, patience = RunningMeans(centers), CostPlateau(size / (space.n + 1))
    unseen = 0
    for step, rows in enumerate(batches(space.n, weight, size, rng)):
        batch, here = Rows.of(space.X[rows]), means.centers
        costs = means.absorb(batch)
        unseen += size
        if unseen >= REVIEW * len(centers):
            unseen = 0
            means.reassign(batch, costs, rng)
        shift, cost = movement(here, means.centers)[1], float(np.mean(costs))
        stop = on_step is not None and on_step(Batch(step, here, cost, shift))
        # The first batch was measured from the start, which says nothing about progress.
        stalled = step > 0 and patience.is_out(cost)
        if stop or stalled or 0 < shift <= tol or (step + 2) * size > max_iter * space.n:
            break
    passes = -(-(step + 1) * size // space.n)
    # Rows that few batches hold can lose their centre for good: a good start must not suffer.
    ends = [handed_out(space, c, weight, passes, converged=False) for c in (centers, means.centers)]
    return min(ends, key=lambda end: end.inertia)
