"""Weighted sums of the rows of each cluster: the statistics of an assignment.

They are kept up to date while rows change clusters, also one at a time (Hartigan).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.exact_sums import (
    LEVEL_BITS,
    LIMBS,
    MOST_DIGITS,
    Clusters,
    ExactSums,
    Limbs,
    NarrowSums,
    SumTable,
    exponent_of,
    to_float,
)
from kvariates.data.rows import F64, Labels, Rows, squared_norms

SUBNORMAL = float(np.finfo(np.float64).smallest_subnormal)  # a product of positive values may be 0
TABLE = 8  # sparse rows store at least so many values for each of a table of running sums


@dataclass(frozen=True)
class SumScale:
    """The magnitudes of values and weights: they choose the units of exact sums.

    A level keeps the digits of values down to 2^-92 of the largest. If smaller values would lose
    digits, sums have more levels, each 92 bits finer than the one before. So a far row leaves the
    means of other clusters as they are.
    """

    largest: float
    smallest: float  # that is not zero; infinite if there is none
    heaviest: float
    lightest: float
    digits: int  # of a term, in bits

    @classmethod
    def of(cls, rows: Any, weight: F64 | None) -> SumScale:
        """Of `Rows`, or others with `magnitudes` and `dtype`."""
        largest, smallest = rows.magnitudes
        if weight is None:
            return cls(largest, smallest, 1.0, 1.0, 1 + np.finfo(rows.dtype).nmant)
        positive = weight[weight > 0]
        heaviest, lightest = positive.max(initial=0.0), positive.min(initial=np.inf)
        return cls(largest, smallest, heaviest, lightest, 53)

    def joined(self, other: SumScale) -> SumScale:
        return SumScale(
            max(self.largest, other.largest), min(self.smallest, other.smallest),
            max(self.heaviest, other.heaviest), min(self.lightest, other.lightest),
            max(self.digits, other.digits),
        )  # fmt: skip

    @property
    def exponents(self) -> tuple[int, int]:
        """Of the sums of weighted values, and of the weights (see `ExactSums`)."""
        return exponent_of(self.largest * self.heaviest), exponent_of(self.heaviest)

    @property
    def bits(self) -> int:
        """From the highest bit of the largest term to the lowest one of the smallest."""
        smallest = self.smallest * self.lightest
        if not np.isfinite(smallest):
            return self.digits
        top, lowest = self.exponents[0], exponent_of(max(smallest, SUBNORMAL))
        return top - lowest + self.digits

    @property
    def levels(self) -> int:
        return max(1, -(-self.bits // LEVEL_BITS))


class ClusterSums:
    """Exact sums, weights and counts, kept up to date by moving the rows whose labels changed.

    `scale`: that of all shards, if the rows are a part of more rows. `narrow`: sums that need few
    bits are kept in `NarrowSums`, if there are many.
    """

    sums: ExactSums | NarrowSums  # the latter only if `narrow`

    def __init__(
        self, rows: Rows, weight: F64 | None, k: int, scale: SumScale | None = None, *,
        narrow: bool = False,
    ) -> None:  # fmt: skip
        self._rows, self._weight = rows, weight
        self.scale = SumScale.of(rows, weight) if scale is None else scale
        of_values, of_weights = self.scale.exponents
        levels, bits = self.scale.levels, self.scale.bits
        if narrow and self._few_bits() and k * rows.d > _native.MAX_PARTIAL:
            self.sums = NarrowSums.zeros(k, rows.d, of_values, bits)
        else:
            limbs = np.zeros((levels, k, LIMBS, rows.d), dtype=np.int64)
            self.sums = ExactSums(limbs, of_values)
        self.weights = ExactSums(np.zeros((1, k, LIMBS, 1), dtype=np.int64), of_weights)
        self.counts = np.zeros(k, dtype=np.int64)  # rows of positive weight
        self.changes = _native.Changes()  # the last changes of labels, filled by a scan
        self.empty = True  # no row was added yet, or not all of them

    def _few_bits(self) -> bool:
        plain = self._rows.dense and self._rows.dtype == np.float32 and self._weight is None
        return plain and self.scale.bits <= MOST_DIGITS

    def update(self, labels: Labels, changed: int) -> None:
        """Move the rows whose labels changed, or add up all rows again if that is less work."""
        again = self.empty or self.changes.overflowed or 2 * changed > self._rows.n
        self.recompute(labels, None if again else self.changes)

    def recompute(self, labels: Labels, changes: _native.Changes | None = None) -> ClusterSums:
        """Add up all rows, or only move those of the changes; return these sums."""
        self.empty = True  # if the kernel is interrupted
        of_values, of_weights = self.scale.exponents
        weights = self.weights.limbs[0, :, :, 0]
        if isinstance(self.sums, NarrowSums):
            of_sums = self.sums.low, self.sums.high, self.sums.digits, weights, self.counts
            _native.update_narrow(self._rows.view, labels, changes, *of_sums, of_values, of_weights)
        else:
            for level, limbs in enumerate(self.sums.limbs):
                exponents = of_values - LEVEL_BITS * level, of_weights
                of_level = limbs, weights, self.counts, *exponents, level, self.scale.smallest
                _native.update(self._rows.view, self._weight, labels, changes, *of_level)
        self.empty = False
        return self


def table_pays(rows: Rows, k: int) -> bool:
    """Whether running sums are small beside the rows, so that moving rows is less work."""
    return rows.dense or TABLE * k * rows.d <= rows.stored


@dataclass(frozen=True, eq=False)
class SumsByLabel:
    """The `ExactSums` of rows by label, added up when read. Valid until the labels change.

    For sparse rows, `values` needs no table of limbs, which would be larger than the centres.
    """

    rows: Rows
    weight: F64 | None
    labels: Labels
    k: int
    scale: SumScale

    @property
    def exponent(self) -> int:
        return self.scale.exponents[0]

    @property
    def limbs(self) -> Limbs:
        return self._table.limbs

    def part(self, clusters: Clusters) -> SumTable:
        return self._table.part(clusters)

    @property
    def values(self) -> F64:
        if self.rows.dense or self.scale.levels > 1:
            return self._table.values
        out = np.empty((self.k, self.rows.d))
        _native.sums_by_label(
            self.rows.view, self.weight, self.labels, self.exponent, self.scale.smallest, out
        )
        return out

    @property
    def _table(self) -> SumTable:
        return ClusterSums(self.rows, self.weight, self.k, self.scale).recompute(self.labels).sums

    def __add__(self, other: SumTable) -> ExactSums:
        return self._table + other


@dataclass(frozen=True, eq=False)
class FloatStatistics:
    """What one assignment tells about each cluster, in float64. Valid until the next assignment."""

    sums: F64  # weighted sums of the rows: (k, d)
    weights: F64
    counts: NDArray[np.int64]  # rows of positive weight
    changed: int | None  # the number of labels that changed; None if unknown
    cost_of: Callable[[], float] = lambda: np.nan

    @cached_property
    def cost(self) -> float:
        """Weighted cost of all rows at the centres they were assigned to, computed when read."""
        return self.cost_of()


@dataclass(frozen=True, eq=False)
class ExactStatistics:
    """The same as integers: those of several shards can be added in any order.

    `cost_of` returns an `exact_total`, and is called when the cost is read.
    """

    exact_sums: SumTable
    exact_weights: ExactSums
    counts: NDArray[np.int64]
    changed: int | None
    cost_of: Callable[[], int]

    @property
    def sums(self) -> F64:
        """A new array."""
        return self.exact_sums.values

    @cached_property
    def weights(self) -> F64:
        return self.exact_weights.values[:, 0]

    @cached_property
    def exact_cost(self) -> int:
        return self.cost_of()

    @property
    def cost(self) -> float:
        return to_float(self.exact_cost)

    def part(self, clusters: slice) -> ExactStatistics:
        """Of some clusters."""
        return replace(
            self,
            exact_sums=self.exact_sums.part(clusters),
            exact_weights=self.exact_weights.part(clusters),
            counts=self.counts[clusters],
        )

    def __add__(self, other: ExactStatistics) -> ExactStatistics:
        """The statistics of the rows of both."""
        return ExactStatistics(
            self.exact_sums + other.exact_sums,
            self.exact_weights + other.exact_weights,
            self.counts + other.counts,
            None if self.changed is None or other.changed is None else self.changed + other.changed,
            lambda: self.exact_cost + other.exact_cost,
        )


Statistics = FloatStatistics | ExactStatistics


def mean_centers(
    centers: F64, statistics: Statistics, unit: bool = False, *, own: bool = False
) -> F64:
    """The means of the clusters; a centre without rows goes to the heaviest cluster.

    With `own` nobody else reads the sums, and the means may be written over them.
    """
    sums, weights = statistics.sums, statistics.weights
    scale = np.sqrt(squared_norms(sums)) if unit else weights
    full = (statistics.counts > 0) & (scale > 0)
    if full.all():
        return np.divide(sums, scale[:, None], out=sums if own else None)
    out = centers.copy()
    out[full] = sums[full] / scale[full, None]
    out[statistics.counts == 0] = out[np.argmax(np.where(full, weights, 0))]
    return out


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
            self._rows.single.view, self._weight, self.moved, self.shrink, centers, labels,
            self._upper, self._lower, sums.sums.limbs, sums.weights.limbs[0, :, :, 0],
            sums.counts, *sums.scale.exponents,
        )  # fmt: skip
