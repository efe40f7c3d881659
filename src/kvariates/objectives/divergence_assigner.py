"""Lloyd's assigner and update under a distortion: rows go to the centre of least divergence.

Neither the assignment nor the update raises the weighted sum of divergences, so the loop ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Floats, Labels, total_cost
from kvariates.objectives.distortion import Distortion, sum_rows
from kvariates.refining.assigners import FloatStatistics, Statistics


class DivergenceAssigner:
    """Rows in memory, in the distortion's coordinates. Empty clusters are filled before sums."""

    def __init__(self, X: Any, weight: F64 | None, k: int, distortion: Distortion) -> None:
        self._X, self._weight, self._distortion = X, weight, distortion
        self.labels: Labels = np.full(X.shape[0], -1, dtype=np.int32)
        self._members: list[NDArray[np.int64]] = [np.empty(0, dtype=np.int64)] * k
        self._sums, self._weights = np.zeros((k, X.shape[1])), np.zeros(k)
        self._counts = np.zeros(k, dtype=np.int64)

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        labels, cost = self._distortion.nearest(self._X, centers)
        changed = int(np.count_nonzero(labels != self.labels))
        self.labels = labels
        counted = counted_cost(cost, self._weight)
        if changed:
            self._add_up(filled(labels, counted, self._weight, len(centers)))
        return FloatStatistics(
            self._sums, self._weights, self._counts, changed,
            lambda: total_cost(counted, self._weight),
        )  # fmt: skip

    def best_center(self, j: int, start: F64) -> F64:
        """The centre of least divergence to the rows of cluster j, searched from `start`."""
        own = self._members[j]
        weight = None if self._weight is None else self._weight[own]
        return self._distortion.center(self._X[own], weight, start)

    def _add_up(self, labels: Labels) -> None:
        k = len(self._members)
        order = np.argsort(labels, kind="stable")
        ends = np.searchsorted(labels[order], np.arange(k + 1))
        for j in range(k):
            own = self._members[j] = order[ends[j] : ends[j + 1]]
            weight = np.ones(len(own)) if self._weight is None else self._weight[own]
            self._weights[j], self._counts[j] = weight.sum(), np.count_nonzero(weight)
            self._sums[j] = sum_rows(self._X[own], None if self._weight is None else weight)


@dataclass(frozen=True)
class DivergenceUpdate:
    """Move each centre to the minimiser of its rows' divergences; empty clusters stay in place."""

    assigner: DivergenceAssigner
    mean_is_best: bool

    def __call__(self, centers: F64, statistics: Statistics) -> F64:
        if statistics.changed == 0:
            return centers
        out, full = centers.copy(), statistics.counts > 0
        if self.mean_is_best:
            out[full] = statistics.sums[full] / statistics.weights[full, None]
        else:
            for j in np.flatnonzero(full):
                out[j] = self.assigner.best_center(int(j), centers[j])
        return out


def filled(labels: Labels, cost: F64, weight: F64 | None, k: int) -> Labels:
    """Labels in which an empty cluster has one of the rows of largest weighted divergence.

    A row that is the only one of its cluster stays: moving it would leave another one empty.
    """
    share = cost if weight is None else cost * weight
    rows = np.bincount(labels if weight is None else labels[weight > 0], minlength=k)
    empty = np.flatnonzero(rows == 0)
    if not len(empty):
        return labels
    labels, cluster = labels.copy(), 0
    for row in np.argsort(-share, kind="stable"):
        if cluster == len(empty) or share[row] == 0:
            break  # or only duplicates of centres are left
        if rows[labels[row]] > 1:
            rows[labels[row]] -= 1
            labels[row] = empty[cluster]
            cluster += 1
    return labels


def counted_cost(cost: F64, weight: F64 | None) -> F64:
    """0 where the weight is 0: such a row may be infinitely far from all centres."""
    return cost if weight is None else np.where(weight > 0, cost, 0.0)


def in_dtype(centers: F64, dtype: np.dtype[Any]) -> Floats:
    """Rounded, but nothing to zero: a KL centre's zero is infinitely far from rows without one."""
    rounded = centers.astype(dtype)
    lost = (rounded == 0) & (centers != 0)
    rounded[lost] = np.copysign(np.finfo(dtype).smallest_subnormal, centers[lost])
    return rounded
