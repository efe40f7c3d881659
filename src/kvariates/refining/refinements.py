"""Refinements: how seeded centres are improved, by the names of ``KMeans(algorithm=...)``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvariates.data.assigners import squared_moves, upper_bounds
from kvariates.data.cluster_sums import (
    ClusterSums,
    FloatStatistics,
    HartiganBounds,
    Statistics,
    SumsByLabel,
    SumScale,
)
from kvariates.data.host_data import HOST_ROWS
from kvariates.data.rows import F64, Rows, directions, total_cost
from kvariates.numerics.draws import CumulativeMass, draw_proportional
from kvariates.refining.lloyd import LloydResult, RefineProblem, Step, StopRule, evaluated
from kvariates.tables import Entry, Table

# ---- Random swaps of centres: Lloyd ends at a local optimum, and a swap can leave it -------------
#
# A swap moves a random centre to a row drawn in proportion to its cost; Lloyd follows, and the
# better of the two results is kept (Franti 2018, "Efficiency of random swap clustering"). A
# trial ends early when `OUTLOOK` more iterations like its last one would not reach the best
# cost.


SWAPS = 7
OUTLOOK = 3


@dataclass
class SwapTrial:
    """The callback of one run of Lloyd. `asked`: the user's callback said stop."""

    rule: StopRule
    best: float
    cost: float = math.inf  # of the iteration before
    asked: bool = False

    def __call__(self, step: Step) -> bool:
        self.asked = self.rule.callback is not None and self.rule.callback(step)
        before, self.cost = self.cost, step.statistics.cost
        hopeless = self.cost - OUTLOOK * (before - self.cost) > self.best
        return self.asked or hopeless


def lloyd_with_swaps(p: RefineProblem) -> LloydResult:
    """Lloyd, then `SWAPS` swaps, each with Lloyd. The cost never ends above Lloyd's.

    `n_iter` is that of the result that is kept.
    """
    best, centers, limit = None, p.centers, math.inf
    for _ in range(1 + SWAPS):
        trial = SwapTrial(p.stop, limit)
        found = p.lloyd(p.data, centers, replace(p.stop, callback=trial), "auto")
        if best is None or found.inertia < best.inertia:
            best, limit = found, found.inertia
        if trial.asked or limit == 0:
            break
        centers = swapped(p, best)
    assert best is not None  # noqa: S101
    return best


def swapped(p: RefineProblem, end: LloydResult) -> F64:
    """The centres of a result, a random one of them replaced by a row."""
    centers = end.centers.astype(np.float64)
    cost = p.data.rows.costs(centers, end.labels)
    mass = cost if p.data.weight is None else cost * p.data.weight
    centers[p.rng.integers(len(centers))] = p.data.rows.take(draw_proportional(mass, 1, p.rng))[0]
    return centers


# ---- Hartigan's method: rows change clusters one at a time, and both means are updated at once ---
#
# Lloyd stops where every row is nearest to its own mean. Hartigan also counts what a move does to
# the means: a row of weight w leaves cluster a for b when
# W_b / (W_b + w) d_b^2 < W_a / (W_a - w) d_a^2. The left factor is below one and the right one
# above. So where no move helps, d_b > d_a for every other b (or both are 0): Hartigan's local
# optima are local optima of Lloyd, but not the other way round.


class HartiganState:
    """Labels, the means of their clusters, and the cost."""

    cost: float

    def __init__(self, rows: Rows, weight: F64 | None, start: LloydResult) -> None:
        k = len(start.centers)
        self._rows, self._weight = rows, weight
        self.centers: F64 = start.centers.astype(np.float64)
        self.labels = start.labels.copy()
        self.shift = 0.0  # sum of the squared movements of the means in the last pass
        self._sums = ClusterSums(rows, weight, k)
        self._bounds = HartiganBounds(rows, weight, k)
        self._sums.recompute(self.labels)
        self._update_means()

    def improve(self) -> int:
        """Make one pass; return the number of moves. It is undone if the cost does not fall."""
        centers, labels, cost = self.centers.copy(), self.labels.copy(), self.cost
        weights = self._weights()
        moves = self._bounds.move_rows(self.centers, self.labels, self._sums)
        if moves:
            self._update_means()
        if not self.cost < cost:
            self.centers, self.labels, self.cost, self.shift = centers, labels, cost, 0.0
            self._sums.recompute(self.labels)
            return 0
        moved = squared_moves(centers, self.centers)
        self._bounds.moved, self.shift = upper_bounds(moved), float(moved.sum())
        self._bounds.shrink = _shrink(weights, self._weights())
        return moves

    def statistics(self, moves: int) -> Statistics:
        sums = self._sums
        return FloatStatistics(
            sums.sums.values, self._weights(), sums.counts, moves, lambda: self.cost
        )

    def _weights(self) -> F64:
        return self._sums.weights.values[:, 0]

    def _update_means(self) -> None:
        """Set the centres to the means. Empty clusters stay in place."""
        full = self._sums.counts > 0
        self.centers[full] = self._sums.sums.values[full] / self._weights()[full, None]
        self.cost = total_cost(self._rows.costs(self.centers, self.labels), self._weight)


def _shrink(before: F64, after: F64) -> float:
    """The root of the largest loss of weight, rounded down; clusters that were empty lose none."""
    kept = np.divide(after, before, out=np.ones_like(before), where=before > 0)
    return float(np.sqrt(min(1.0, kept.min()))) * (1 - 1e-6)


def hartigan(p: RefineProblem) -> LloydResult:
    """Run Lloyd, then move single rows until no move helps, or after `max_iter` more passes.

    The cost falls with every pass and never ends above Lloyd's. As in `refine`, the centres are
    returned in the rows' dtype, with the labels that are nearest to them.
    """
    first = p.lloyd(p.data, p.centers, p.stop, "auto")
    state, costs = HartiganState(p.data.rows, p.data.weight, first), first.costs
    for iteration in range(p.stop.max_iter):
        costs = (*costs, state.cost) if p.stop.keep_costs else ()
        moves = state.improve()
        step = Step(iteration, state.centers, state.statistics(moves), state.shift)
        stop = p.stop.callback is not None and p.stop.callback(step)
        if moves == 0 or stop:
            break
    n_iter, converged = first.n_iter + iteration + 1, moves == 0
    # Rounded to the rows' dtype, the means can cost more than the start if little was gained.
    starts = (first.centers, state.centers)
    ends = [evaluated(p.data, centers, n_iter, converged) for centers in starts]
    return replace(min(ends, key=lambda end: end.inertia), costs=costs)


# ---- Mini-batch k-means (Sculley 2010): each centre is the running mean of the rows given to it --
#
# A batch of rows is drawn, each row is assigned to its nearest centre, and each centre moves
# towards the mean of its rows by their share of all rows it was ever given. So early batches move
# centres far and late ones hardly. As in scikit-learn, a centre with very few rows is moved to a
# row of the batch now and then, and the search ends when the smoothed cost of the batches has not
# fallen for a while. "Very few" is relative to the mean of all centres, not to the largest: a good
# start has small clusters too, and should keep them. A row of weight w is drawn w times as often.


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


# ---- The table of refinements ------------------------------------------------------------------


Refinement = str | Callable[[RefineProblem], LloydResult]
"""The scan (see `data.assigners`) with which Lloyd is all of it, or a function."""

DISTANCES = frozenset({"squared distances"}) | HOST_ROWS
FREE_CENTERS = frozenset({"free centers"}) | HOST_ROWS
SAME = "The same result as lloyd."

REFINEMENTS: Table[Refinement] = Table(
    "algorithm",
    {
        "auto": Entry("auto", f"Lloyd with or without bounds, whichever is faster. {SAME}"),
        "lloyd": Entry("lloyd", "Lloyd: every row is compared with every centre."),
        "elkan": Entry(
            "elkan",
            f"Lloyd with a bound for each row and centre, which takes memory. {SAME}",
            DISTANCES,
        ),
        "hamerly": Entry("hamerly", f"Lloyd with one bound for each row. {SAME}", DISTANCES),
        "yinyang": Entry("yinyang", f"Lloyd with sixteen bounds for each row. {SAME}", DISTANCES),
        "hartigan": Entry(
            hartigan, "Lloyd, then moves of single rows that lower the cost.", FREE_CENTERS
        ),
        "swap": Entry(
            lloyd_with_swaps,
            f"Lloyd, then {SWAPS} times: a random centre moves to another row, Lloyd again, and "
            "the better result is kept.",
            DISTANCES,
        ),
        "minibatch": Entry(
            minibatch, "Samples of 1024 rows, for large X; the cost is somewhat higher.", DISTANCES
        ),
    },
)
