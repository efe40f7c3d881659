"""Hartigan's method: rows change clusters one at a time, and both means are updated at once.

Lloyd stops where every row is nearest to its own mean. Hartigan also counts what a move does to
the means: a row of weight w leaves cluster a for b when
W_b / (W_b + w) d_b^2 < W_a / (W_a - w) d_a^2. The left factor is below one and the right one above.
So where no move helps, d_b > d_a for every other b (or both are 0): Hartigan's local optima are
local optima of Lloyd, but not the other way round.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvariates.data.assigners import squared_moves, upper_bounds
from kvariates.data.cluster_sums import ClusterSums, FloatStatistics, HartiganBounds, Statistics
from kvariates.data.rows import F64, Rows, total_cost
from kvariates.refining.lloyd import LloydResult, RefineProblem, Step, evaluated


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
