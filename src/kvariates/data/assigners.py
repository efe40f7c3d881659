"""Assigners: assign rows to their nearest centres and return statistics of the clusters.

An assigner is all that Lloyd's loop knows of the data: of rows in memory, here, in blocks, of peers
(`peers`), of private data (`private_methods`), of divergences (`objectives`).

In memory, a scan finds the nearest centre of every row (`scans`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from kvariates.data.cluster_sums import (
    ClusterSums,
    ExactStatistics,
    FloatStatistics,
    Statistics,
    SumsByLabel,
    SumScale,
    table_pays,
)
from kvariates.data.exact_sums import ExactSums, SumTable, exact_total
from kvariates.data.rows import F64, Floats, Labels, Rows, total_cost
from kvariates.data.scans import F32, SCANS, Scan

# An array, or whatever stands for it.
Centers_contra = TypeVar("Centers_contra", contravariant=True)


class FarRows(NamedTuple):
    """Rows far from their centres."""

    points: F64
    weights: F64
    labels: Labels
    costs: F64

    @classmethod
    def joined(cls, parts: Iterable[FarRows]) -> FarRows:
        return cls(*map(np.concatenate, zip(*parts, strict=True)))

    def first(self, count: int) -> FarRows:
        """The farthest of them, in order. Ties go by the rows' values, not by their places."""
        near = -self.costs
        last = np.partition(near, count - 1)[count - 1] if 0 < count < len(near) else np.inf
        among = np.flatnonzero(near <= last)
        points = np.ascontiguousarray(self.points[among])
        as_bytes = points.view(f"S{points.itemsize * points.shape[1]}")[:, 0]
        order = among[np.lexsort((self.weights[among], as_bytes, near[among]))[:count]]
        fields: Any = self
        return FarRows(*(values[order] for values in fields))


class Assigner(Protocol[Centers_contra]):
    def assign(self, centers: Centers_contra, moves: F64 | None = None) -> Statistics:
        """Assign every row to its nearest centre, ties to the lowest index.

        `moves`: the `squared_moves` since the last call, if the caller knows them.
        """


@dataclass(frozen=True, eq=False)
class Labelled:
    """What centres cost, exact and then rounded."""

    inertia: float
    counts: NDArray[np.int64] | None = None  # the rows of each cluster; None if not asked for
    labels: Any = None  # Labels, or an array on a card; None if they stay where the rows are


class ExactAssigner(Protocol):
    """An assigner whose statistics are exact. It may show rows, as moving empty clusters needs."""

    @property
    def scale(self) -> SumScale:
        """Of the sums; all shards of the same rows need the same."""

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics: ...

    def farthest(self, count: int) -> FarRows:
        """The `count` rows (or all) that cost most at the last assignment."""

    def labelled(self, centers: F64) -> Labelled:
        """What the final centres of a fit cost."""


class MakesCenters(ABC):
    """An assigner that makes the next centres itself, where its rows are, as on a GPU."""

    @abstractmethod
    def steps(self, unit: bool) -> CenterSteps:
        """For one run of Lloyd. `unit`: whether centres stay on the unit sphere."""


class CenterSteps(Protocol):
    """What Lloyd's loop is given instead of `MeanUpdate`; centres are what `start` returns."""

    def start(self, centers: Floats) -> Any: ...
    def assign(self, centers: Any, moves: Any = None) -> Any: ...
    def next_centers(self, centers: Any, statistics: Any) -> Any: ...
    def moves(self, before: Any, after: Any) -> F64: ...
    def end(self, centers: Any) -> F64: ...


class InMemoryAssigner:
    """Rows in memory. Labels, bounds and running sums are kept between calls.

    `scale`: that of all rows, if these are a part of them.
    """

    def __init__(
        self, rows: Rows, weight: F64 | None, k: int, scan: str | Scan = "auto",
        scale: SumScale | None = None,
    ) -> None:  # fmt: skip
        self._rows, self._weight = rows, weight
        self.labels: Labels = np.full(rows.n, -1, dtype=np.int32)
        self._scan = SCANS[scan](rows, k) if isinstance(scan, str) else scan
        self.has_table = table_pays(rows, k)  # of running sums
        self._sums = self._new_sums(k, scale or SumScale.of(rows, weight))
        self._centers: F64 | None = None  # of the last assignment
        self._overwritten: F32 | None = None  # how far they moved since, if they were overwritten

    @property
    def scale(self) -> SumScale:
        return self._sums.scale

    def set_scale(self, scale: SumScale) -> None:
        """Use this scale from now on; the next assignment adds up all rows again."""
        self._sums = self._new_sums(len(self._sums.counts), scale)

    def forget_sums(self) -> None:
        """Free their memory; the next assignment adds up all rows again."""
        self.set_scale(self.scale)

    def _new_sums(self, k: int, scale: SumScale) -> ClusterSums:
        """Without a table: only of the weights, as if the rows were zero."""
        rows = self._rows if self.has_table else Rows.of(scipy.sparse.csr_array((self._rows.n, 1)))
        return ClusterSums(rows, self._weight, k, scale, narrow=True)

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        sums, moved = self._sums, self._moved(centers, moves)
        changed = self._scan.assign(centers, moved, self.labels, sums.changes)
        if changed or sums.empty:
            sums.update(self.labels, changed)
        exact: SumTable = sums.sums
        if not self.has_table:
            exact = SumsByLabel(self._rows, self._weight, self.labels, len(sums.counts), sums.scale)
        return ExactStatistics(exact, sums.weights, sums.counts, changed, self._exact_cost)

    def relabel(self, centers: F64) -> None:
        """Only bring the labels up to date."""
        self._scan.assign(centers, self._moved(centers), self.labels, self._sums.changes)

    def _moved(self, centers: F64, moves: F64 | None = None) -> F32 | None:
        """How far each centre moved, at most; these centres are kept for the next assignment."""
        before, self._centers = self._centers, centers
        overwritten, self._overwritten = self._overwritten, None
        if before is None:
            return None
        if moves is not None:
            return upper_bounds(moves)
        bounds = upper_bounds(squared_moves(before, centers))
        if overwritten is not None:
            bounds = sum_of_bounds(bounds, overwritten)
        return bounds

    def overwritten(self, moves: F64) -> None:
        """Tell that the centres of the last assignment were overwritten: squares of the moves.

        They may be overwritten again. Their cost is not known from then on.
        """
        bounds, before = upper_bounds(moves), self._overwritten
        self._overwritten = bounds if before is None else sum_of_bounds(before, bounds)

    def labelled(self, centers: F64) -> Labelled:
        """The labels of these centres: known if they are those of the last assignment."""
        before = self._centers if self._overwritten is None else None
        if before is None or not np.array_equal(before, centers):
            self.relabel(centers)
        counts = np.bincount(self.labels, minlength=len(centers))
        inertia = total_cost(self._rows.costs(centers, self.labels), self._weight)
        return Labelled(inertia, counts, self.labels)

    def farthest(self, count: int) -> FarRows:
        cost = self._costs()
        if self._weight is not None:
            cost[self._weight == 0] = 0
        count = min(count, len(cost))
        least = np.partition(cost, -count)[-count] if count else np.inf
        far = np.flatnonzero(cost >= least)
        weights = np.ones(len(far)) if self._weight is None else self._weight[far]
        return FarRows(self._rows.take(far), weights, self.labels[far], cost[far]).first(count)

    def _exact_cost(self) -> int:
        return exact_total(self._costs(), self._weight)

    def _costs(self) -> F64:
        assert self._centers is not None and self._overwritten is None  # noqa: PT018, S101
        return self._rows.costs(self._centers, self.labels)


def fill_empty_clusters(statistics: ExactStatistics, assigner: ExactAssigner) -> FloatStatistics:
    """Give every empty cluster one of the rows that are farthest from their centres."""
    empty = np.flatnonzero(statistics.counts == 0)
    far = assigner.farthest(len(empty))
    # Rows of no cost are only duplicates of centres. Farthest first: those are last.
    given = int(np.count_nonzero(far.costs))
    own = np.arange(given, dtype=np.int32)
    points = Rows.of(far.points[:given])
    rows = ClusterSums(points, far.weights[:given], given, assigner.scale).recompute(own)
    taken, filled = far.labels[:given], empty[:given]
    # Only these are copied: a copy of all running sums would take more memory than the centres.
    changed, place = np.unique(np.concatenate([taken, filled]), return_inverse=True)
    sums = statistics.exact_sums.part(changed).limbs
    weights, counts = statistics.exact_weights.limbs.copy(), statistics.counts.copy()
    every: Any = slice(None)
    for into, limbs, of, to in (
        (sums, rows.sums.limbs, place[:given], place[given:]),
        (weights, rows.weights.limbs, taken, filled),
    ):
        np.subtract.at(into, (every, of), limbs)
        np.add.at(into, (every, to), limbs)
    np.subtract.at(counts, taken, rows.counts)
    np.add.at(counts, filled, rows.counts)
    values = statistics.sums
    values[changed] = ExactSums(sums, statistics.exact_sums.exponent).values
    exact_weights = replace(statistics.exact_weights, limbs=weights)
    return FloatStatistics(values, exact_weights.values[:, 0], counts, statistics.changed)


def squared_moves(before: F64, after: F64) -> F64:
    """How far each centre moved, squared."""
    return Rows.of(before).costs(after, np.arange(len(after), dtype=np.int32))


def upper_bounds(squares: F64) -> F32:
    """The roots of squared distances, rounded up to float32."""
    with np.errstate(over="ignore"):  # an infinite distance is a bound too
        roots = np.sqrt(squares).astype(np.float32)
    return np.nextafter(roots, np.float32(np.inf))


def sum_of_bounds(bounds: F32, others: F32) -> F32:
    """Rounded up."""
    total: F32 = np.nextafter(bounds + others, np.float32(np.inf))
    return total
