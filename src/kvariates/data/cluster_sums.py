"""Weighted sums of the rows of each cluster, and single-row moves (Hartigan) that keep them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.exact_sums import LIMBS, ExactSums, Limbs, exponent_of
from kvariates.data.rows import F64, Labels, Rows


@dataclass(frozen=True)
class SumScale:
    """The largest absolute value and the largest weight: they choose the units of exact sums."""

    largest: float
    heaviest: float

    @classmethod
    def of(cls, rows: Rows, weight: F64 | None) -> SumScale:
        return cls(rows.largest, 1.0 if weight is None else float(weight.max(initial=0.0)))

    def joined(self, other: SumScale) -> SumScale:
        return SumScale(max(self.largest, other.largest), max(self.heaviest, other.heaviest))

    @property
    def exponents(self) -> tuple[int, int]:
        """Of the sums of weighted values, and of the weights (see `ExactSums`)."""
        return exponent_of(self.largest * self.heaviest), exponent_of(self.heaviest)


class ClusterSums:
    """Exact sums, weights and counts, kept up to date by moving the rows whose labels changed.

    `scale`: that of all shards, if the rows are a part of more rows.
    """

    def __init__(
        self, rows: Rows, weight: F64 | None, k: int, scale: SumScale | None = None
    ) -> None:
        self._rows, self._weight = rows, weight
        self.scale = SumScale.of(rows, weight) if scale is None else scale
        of_values, of_weights = self.scale.exponents
        self.sums = ExactSums(np.zeros((k, LIMBS, rows.d), dtype=np.int64), of_values)
        self.weights = ExactSums(np.zeros((k, LIMBS, 1), dtype=np.int64), of_weights)
        self.counts = np.zeros(k, dtype=np.int64)  # rows of positive weight
        self.changes = _native.Changes()  # the last changes of labels, filled by a scan
        self._empty = True

    @classmethod
    def of(
        cls, rows: Rows, weight: F64 | None, labels: Labels, k: int, scale: SumScale | None = None
    ) -> ClusterSums:
        sums = cls(rows, weight, k, scale)
        sums.recompute(labels)
        return sums

    def update(self, labels: Labels, changed: int) -> None:
        """Move the rows whose labels changed, or add up all rows again if that is less work."""
        if self._empty or self.changes.overflowed or 2 * changed > self._rows.n:
            self.recompute(labels)
        else:
            self._apply(labels, self.changes)

    def recompute(self, labels: Labels) -> None:
        """Add up all rows."""
        self._apply(labels, None)
        self._empty = False

    @property
    def parts(self) -> tuple[Limbs, Limbs, NDArray[np.int64], int, int]:
        """What the kernels take."""
        limbs = self.sums.limbs, self.weights.limbs[:, :, 0]
        return (*limbs, self.counts, *self.scale.exponents)

    def _apply(self, labels: Labels, changes: _native.Changes | None) -> None:
        _native.update(self._rows.view, self._weight, labels, changes, *self.parts)


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
            self._upper, self._lower, *sums.parts,
        )  # fmt: skip
