"""Weighted sums of the rows of each cluster, and single-row moves (Hartigan) that keep them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Labels, Rows


class ClusterSums:
    """Sums, weights and counts, kept up to date by moving the rows whose labels changed.

    Sums are compensated: the value is ``sums[0] + sums[1]``, the second holding the rounding error
    of the first. All rows are added up again before more than n moves have been made.
    """

    def __init__(self, rows: Rows, weight: F64 | None, k: int) -> None:
        self._rows, self._weight = rows, weight
        self.sums = np.zeros((2, k, rows.d))
        self.weights = np.zeros((2, k))
        self.counts = np.zeros(k, dtype=np.int64)  # rows of positive weight
        self.changes = _native.Changes()  # the last changes of labels, filled by a scan
        self._moves = rows.n

    def update(self, labels: Labels, changed: int) -> None:
        """Move the rows whose labels changed, or add up all rows again."""
        self._moves += 2 * changed
        if self.changes.overflowed or self._moves > self._rows.n:
            self.recompute(labels)
        else:
            self._apply(labels, self.changes)

    def recompute(self, labels: Labels) -> None:
        """Add up all rows."""
        self._apply(labels, None)
        self._moves = 0

    def recompute_next(self) -> None:
        """Add up all rows at the next update."""
        self._moves = self._rows.n + 1

    def totals(self) -> F64:
        return np.asarray(self.sums[0] + self.sums[1])

    def total_weights(self) -> F64:
        return np.asarray(self.weights[0] + self.weights[1])

    def _apply(self, labels: Labels, changes: _native.Changes | None) -> None:
        _native.update(
            self._rows.view, self._weight, labels, changes, self.sums, self.weights, self.counts
        )


class HartiganBounds:
    """Bounds that let a pass of single-row moves skip rows that cannot move."""

    def __init__(self, rows: Rows, weight: F64 | None, k: int) -> None:
        self._rows, self._weight = rows, weight
        self.moved: NDArray[np.float32] = np.zeros(k, dtype=np.float32)  # by each centre
        self.shrink = 1.0  # at most the root of the largest loss of weight of a cluster
        self._upper = np.full(rows.n, np.inf, dtype=np.float32)
        self._lower = np.zeros(rows.n, dtype=np.float32)

    def move_rows(self, centers: F64, labels: Labels, sums: ClusterSums) -> int:
        """Move each row that lowers the cost; return how many. All arguments are changed."""
        return _native.hartigan(
            self._rows.view, self._weight, self.moved, self.shrink, centers, labels,
            self._upper, self._lower, sums.sums, sums.weights, sums.counts,
        )  # fmt: skip
