"""Hartigan's method: rows change clusters one at a time, and both means follow at once.

Lloyd's loop stops where every row is nearest to its own mean. Here a row also counts what its move
does to the means: it leaves a for b when  W_b / (W_b + w) d_b^2 < W_a / (W_a - w) d_a^2. The left
factor is below one and the right one above, so where no move helps, d_b > d_a for every other b
(or both are 0): a stop of Hartigan's is a stop of Lloyd's too, but not the other way round.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from kvariates import _native
from kvariates.data.rows import F64, Floats, Labels, Rows, total_cost
from kvariates.refining.lloyd import LloydResult, Step, handed_out, movement


class Start(Protocol):
    @property
    def centers(self) -> Floats: ...
    @property
    def labels(self) -> Labels: ...


class Partition:
    """Labels, the means of their clusters, and the cost."""

    cost: float

    def __init__(self, space: Rows, weight: F64 | None, start: Start) -> None:
        k = len(start.centers)
        self._space, self._weight = space, weight
        self.centers: F64 = start.centers.astype(np.float64)
        self.labels = start.labels.copy()
        self.shift = 0.0  # sum of the squared movements of the means in the last pass
        self._sums = np.zeros((2, k, space.d))
        self._weights = np.zeros((2, k))
        self._counts = np.zeros(k, dtype=np.int64)
        self._moved = np.zeros(k, dtype=np.float32)
        self._shrink = 1.0
        self._upper = np.full(space.n, np.inf, dtype=np.float32)
        self._lower = np.zeros(space.n, dtype=np.float32)
        self._take_means()

    def improve(self) -> int:
        """One pass of moves; how many. One that lowers nothing but rounding errors is undone."""
        centers, labels, cost = self.centers.copy(), self.labels.copy(), self.cost
        weights = self._weights.sum(axis=0)
        moves = _native.hartigan(
            self._space.view, self._weight, self._moved, self._shrink, self.centers, self.labels,
            self._upper, self._lower, self._sums, self._weights, self._counts,
        )  # fmt: skip
        if moves:
            self._take_means()
        if not self.cost < cost:
            self.centers, self.labels, self.cost, self.shift = centers, labels, cost, 0.0
            return 0
        self._moved, self.shift = movement(centers, self.centers)
        self._shrink = _shrunk(weights, self._weights.sum(axis=0))
        return moves

    def _take_means(self) -> None:
        """Sums afresh: rounding does not add up over the passes. Empty clusters stay put."""
        _native.update(
            self._space.view, self._weight, self.labels, None,
            self._sums, self._weights, self._counts,
        )  # fmt: skip
        full = self._counts > 0
        self.centers[full] = self._sums.sum(axis=0)[full] / self._weights.sum(axis=0)[full, None]
        self.cost = total_cost(self._space.costs(self.centers, self.labels), self._weight)


def _shrunk(before: F64, after: F64) -> float:
    """The root of the largest loss of weight, rounded down; clusters that were empty have none."""
    kept = np.divide(after, before, out=np.ones_like(before), where=before > 0)
    return float(np.sqrt(min(1.0, kept.min()))) * (1 - 1e-6)


def hartigan(
    space: Rows,
    start: Start,
    weight: F64 | None,
    *,
    max_iter: int,
    on_step: Callable[[Step], bool] | None = None,
) -> LloydResult:
    """Move single rows until no move helps, or `max_iter` passes are done, or `on_step` says so.

    The cost falls with every pass and never ends above that of the start. Handed out, as by
    `refine`, are centres in the rows' dtype and the labels that are nearest to them; where no move
    helps these are the partition's own, up to that rounding and to equal centres.

    Pre: weight is None or float64; max_iter >= 1.
    """
    partition = Partition(space, weight, start)
    for iteration in range(max_iter):
        moves = partition.improve()
        step = Step(iteration, partition.centers, partition.labels, moves, partition.shift)
        stop = on_step is not None and on_step(step)
        if moves == 0 or stop:
            break
    # Rounded to the rows' dtype the means can cost more than the start did, if little was gained.
    done = iteration + 1, moves == 0
    ends = [handed_out(space, c, weight, *done) for c in (start.centers, partition.centers)]
    return min(ends, key=lambda end: end.inertia)
