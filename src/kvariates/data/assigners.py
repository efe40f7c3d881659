"""Assigners: assign rows to their nearest centres and return statistics of the clusters.

An assigner is all that Lloyd's loop knows of the data: of rows in memory, here, in blocks, of peers
(`peers`), of private data (`private_methods`), of divergences (`objectives`).

In memory, a scan finds the nearest centre of every row. All scans return identical labels.

| scan    | keeps for a row        | pays off                                       |
|---------|------------------------|------------------------------------------------|
| lloyd   | nothing                | in a single step, or where bounds do not hold  |
| hamerly | one lower bound        | almost always                                  |
| elkan   | one bound per centre   | where distances are expensive and n*k is small |
| yinyang | sixteen bounds         | with many centres and features; dense rows     |
| auto    | what pays off just now | always                                         |
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import scipy
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.cluster_sums import (
    ClusterSums,
    ExactStatistics,
    Statistics,
    SumsByLabel,
    SumScale,
    table_pays,
)
from kvariates.data.exact_sums import ExactSums, exact_total
from kvariates.data.rows import F64, Labels, Rows, total_cost

F32 = NDArray[np.float32]
LabelChanges = _native.Changes
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
    labels: Labels | None = None  # None if they stay where the rows are


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


class Scan(Protocol):
    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        """Bring `labels` up to date and return how many changed; `changes` records which.

        `moved` is how far each centre moved since the last call, or None if no bound may be used.
        """


def work_of(rows: Rows, scanned: int, pairs: int, exact: int) -> float:
    """Return about how long a scan took, in multiply-adds of the filter, by what it counted.

    To pack a row for the filter, to keep the smallest of the values and to fetch a row for an
    exact distance take as long as so many multiply-adds (measured).
    """
    d = rows.d if rows.dense else rows.stored / rows.n
    return scanned * (3 * d + 30) + pairs * (d + 6) + exact * (8 * d + 200)


class PlainScan:
    """Compares every row with every centre."""

    def __init__(self, rows: Rows, k: int) -> None:
        self._view = rows.view
        self.stable = 0.0  # share of the rows that bounds would have skipped

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        # The next move of the centres is expected to be about as long as the last one.
        step = 0.0 if moved is None else float(moved.mean())
        changed, *_, self.stable = _native.assign(self._view, centers, labels, changes, step)
        return changed


class HamerlyScan:
    """One lower bound for all centres but the nearest (Hamerly 2010)."""

    BOUNDS = 50  # multiply-adds that the bounds of a row take
    CHOICE, DISTANCE = 9, 100  # to choose among centres, for each; a distance between two of them

    def __init__(self, rows: Rows, k: int) -> None:
        self._rows, self._view = rows, rows.view
        self._upper = np.empty(rows.n, dtype=np.float32)
        self._lower = np.empty(rows.n, dtype=np.float32)
        self._tighten = True
        self._wait, self._next_wait = 0, 1  # scans without distances between centres
        self.work = math.inf  # of the last scan

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        apart = moved is not None and self._wait == 0
        changed, *counts, chosen, spared = _native.assign_hamerly(
            self._view, centers, moved, labels, self._upper, self._lower, self._tighten, apart,
            changes,
        )  # fmt: skip
        if apart:
            self._weigh(len(centers), chosen, spared)
        elif moved is not None:
            self._wait -= 1
        self.work = self.BOUNDS * self._view.n + work_of(self._rows, *counts)
        # Tightening a bound costs one distance per row: worth it only while it saves rows.
        self._tighten = moved is None or counts[0] < 0.7 * len(labels)
        return changed

    def _weigh(self, k: int, chosen: int, spared: int) -> None:
        """Do without distances between centres for some scans if they take more than they spare."""
        d = self._view.d
        if spared * (d + 6) < chosen * k * self.CHOICE + k * k * (d + self.DISTANCE):
            self._wait = self._next_wait
            self._next_wait *= 3


class ByteScan:
    """A first pass over bytes, and one lower bound as Hamerly's. Dense rows only.

    The bytes of the rows are made once. If they leave too many centres open, they do not pay.
    """

    BOUNDS = 50
    FASTER = 3.0  # than the filter, for a pair (measured)

    def __init__(self, rows: Rows, k: int) -> None:
        self._rows, self._view, self._k = rows, rows.view, k
        self._bytes = _native.byte_rows(rows.view)
        self._upper = np.empty(rows.n, dtype=np.float32)
        self._lower = np.empty(rows.n, dtype=np.float32)
        self.work = math.inf

    @classmethod
    def pays(cls, rows: Rows, k: int) -> bool:
        """Whether the machine multiplies bytes fast, and there are enough products."""
        return rows.dense and _native.fast_bytes() and rows.d >= 64 and k >= 64

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        changed, *counts = _native.assign_bytes(
            self._view, self._bytes, centers, moved, labels, self._upper, self._lower, changes
        )
        scanned, pairs, exact = counts
        self.counts = counts
        d = self._rows.d
        self.work = self.BOUNDS * self._view.n + scanned * self._k * (d + 24) / self.FASTER
        self.work += pairs * (d + 6) + exact * (8 * d + 200)
        return changed


class ElkanScan:
    """One lower bound for each centre (Elkan 2003)."""

    BOUNDS = 2  # multiply-adds that a bound takes
    FEATURES = 256  # from which on distances are so expensive that bounds take hardly any time

    def __init__(self, rows: Rows, k: int) -> None:
        self._rows, self._view, self._k = rows, rows.view, k
        self._upper = np.empty(rows.n, dtype=np.float32)
        self._lower = np.empty(rows.n * k, dtype=np.float32)
        self._drift = np.zeros(k, dtype=np.float32)
        self.work = math.inf

    @classmethod
    def pays(cls, rows: Rows, k: int) -> bool:
        """Whether distances are expensive, and the bounds need little memory beside the rows."""
        few = 4 * np.dtype(np.float32).itemsize * k <= rows.dtype.itemsize * rows.d
        return rows.dense and few and rows.d >= cls.FEATURES

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        changed, *counts = _native.assign_elkan(
            self._view, centers, moved, self._drift, labels, self._upper, self._lower, changes
        )
        self.work = self.BOUNDS * self._view.n * self._k + work_of(self._rows, *counts)
        return changed


class YinyangScan:
    """One lower bound for each of sixteen groups of centres (Ding et al. 2015). Dense rows only."""

    GROUPS = 16
    BOUNDS = 200  # multiply-adds that the bounds of a row take
    GROUPING_STEPS = 8  # Lloyd steps over the centres when they are grouped

    def __init__(self, rows: Rows, k: int) -> None:
        self._rows, self._view = rows, rows.view
        self._upper = np.empty(rows.n, dtype=np.float32)
        self._lower = np.empty((rows.n, self.GROUPS), dtype=np.float32)
        self._group = np.zeros(k, dtype=np.int32)
        self.work = math.inf

    @classmethod
    def pays(cls, rows: Rows, k: int) -> bool:
        """Whether there are enough centres and features to pay for the bounds."""
        return rows.dense and k >= 16 * cls.GROUPS and rows.d >= 32

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        if moved is None:
            self._group = self._grouped(centers)
        changed, *counts = _native.assign_yinyang(
            self._view, centers, self._group, moved, labels, self._upper, self._lower, changes
        )
        self.work = self.BOUNDS * self._view.n + work_of(self._rows, *counts)
        return changed

    def _grouped(self, centers: F64) -> Labels:
        """Group centres that are close, since they move alike. Any grouping is correct."""
        points = Rows.of(centers)
        means = centers[np.linspace(0, len(centers) - 1, self.GROUPS).astype(int)]
        for _ in range(self.GROUPING_STEPS):
            labels = points.nearest(means)
            sums = np.zeros_like(means)
            np.add.at(sums, labels, centers)
            counts = np.bincount(labels, minlength=self.GROUPS)
            means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], means)
        return points.nearest(means)


class AutoScan:
    """Plain or bounded scans, whichever does less work just now. Results do not depend on it.

    Work is counted, not timed, so that the choice is the same on a busy machine. A scan that only
    makes the bounds takes as much work as a plain scan, so the first scan makes them. If a scan
    with bounds takes more work than a plain scan, plain scans follow: at first one, later more,
    and until one has found enough rows that bounds would have skipped.
    """

    ENOUGH = 0.25  # share of such rows

    def __init__(self, rows: Rows, k: int) -> None:
        kinds: tuple[Any, ...] = (ElkanScan, YinyangScan)
        bounded = next((kind for kind in kinds if kind.pays(rows, k)), HamerlyScan)
        self._plain, self._bounded = PlainScan(rows, k), bounded(rows, k)
        self._plain_work = work_of(rows, rows.n, rows.n * k, 0)
        self._wait, self._next_wait = 0, 1
        self._valid = False  # whether the bounds are those of the last labels

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        if self._wait > 0:
            changed = self._plain.assign(centers, moved, labels, changes)
            self._wait = max(self._wait - 1, 1 if self._plain.stable < self.ENOUGH else 0)
            return changed
        usable = moved if self._valid else None
        changed = self._bounded.assign(centers, usable, labels, changes)
        self._valid = usable is None or self._bounded.work <= self._plain_work
        if not self._valid:
            self._wait = self._next_wait
            self._next_wait *= 3
        return changed


SCANS: dict[str, Callable[[Rows, int], Scan]] = {
    "lloyd": PlainScan,
    "hamerly": HamerlyScan,
    "elkan": ElkanScan,
    # Sparse rows have no filter for groups; Hamerly's bounds give the same labels.
    "bytes": ByteScan,
    "yinyang": lambda rows, k: (YinyangScan if rows.dense else HamerlyScan)(rows, k),
    "auto": AutoScan,
}


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
        self._has_table = table_pays(rows, k)
        self._sums = self._new_sums(k, scale or SumScale.of(rows, weight))
        self._centers: F64 | None = None  # of the last assignment

    @property
    def scale(self) -> SumScale:
        return self._sums.scale

    def set_scale(self, scale: SumScale) -> None:
        """Pre: nothing was assigned yet."""
        self._sums = self._new_sums(len(self._sums.counts), scale)

    def _new_sums(self, k: int, scale: SumScale) -> ClusterSums:
        """Without a table: only of the weights, as if the rows were zero."""
        rows = self._rows if self._has_table else Rows.of(scipy.sparse.csr_array((self._rows.n, 1)))
        return ClusterSums(rows, self._weight, k, scale)

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        sums, moved = self._sums, self._moved(centers, moves)
        changed = self._scan.assign(centers, moved, self.labels, sums.changes)
        if changed:
            sums.update(self.labels, changed)
        exact: ExactSums | SumsByLabel = sums.sums
        if not self._has_table:
            exact = SumsByLabel(self._rows, self._weight, self.labels, len(sums.counts), sums.scale)
        return ExactStatistics(exact, sums.weights, sums.counts, changed, self._exact_cost)

    def relabel(self, centers: F64) -> None:
        """Only bring the labels up to date."""
        self._scan.assign(centers, self._moved(centers), self.labels, self._sums.changes)

    def _moved(self, centers: F64, moves: F64 | None = None) -> F32 | None:
        """How far each centre moved, at most; these centres are kept for the next assignment."""
        before, self._centers = self._centers, centers
        if before is None:
            return None
        return upper_bounds(squared_moves(before, centers) if moves is None else moves)

    def labelled(self, centers: F64) -> Labelled:
        """The labels of these centres: known if they are those of the last assignment."""
        if self._centers is None or not np.array_equal(self._centers, centers):
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
        assert self._centers is not None  # noqa: S101
        return self._rows.costs(self._centers, self.labels)


def fill_empty_clusters(statistics: ExactStatistics, assigner: ExactAssigner) -> ExactStatistics:
    """Give every empty cluster one of the rows that are farthest from their centres."""
    empty = np.flatnonzero(statistics.counts == 0)
    far = assigner.farthest(len(empty))
    # Rows of no cost are only duplicates of centres. Farthest first: those are last.
    given = int(np.count_nonzero(far.costs))
    own = np.arange(given, dtype=np.int32)
    points = Rows.of(far.points[:given])
    rows = ClusterSums(points, far.weights[:given], given, assigner.scale).recompute(own)
    sums, weights = statistics.exact_sums.limbs.copy(), statistics.exact_weights.limbs.copy()
    counts = statistics.counts.copy()
    taken, filled = far.labels[:given], empty[:given]
    every: Any = slice(None)
    for into, limbs in ((sums, rows.sums.limbs), (weights, rows.weights.limbs)):
        np.subtract.at(into, (every, taken), limbs)
        np.add.at(into, (every, filled), limbs)
    np.subtract.at(counts, taken, rows.counts)
    np.add.at(counts, filled, rows.counts)
    return replace(
        statistics,
        exact_sums=ExactSums(sums, statistics.exact_sums.exponent),
        exact_weights=replace(statistics.exact_weights, limbs=weights),
        counts=counts,
    )


def squared_moves(before: F64, after: F64) -> F64:
    """How far each centre moved, squared."""
    return Rows.of(before).costs(after, np.arange(len(after), dtype=np.int32))


def upper_bounds(squares: F64) -> NDArray[np.float32]:
    """The roots of squared distances, rounded up to float32."""
    with np.errstate(over="ignore"):  # an infinite distance is a bound too
        roots = np.sqrt(squares).astype(np.float32)
    return np.nextafter(roots, np.float32(np.inf))
