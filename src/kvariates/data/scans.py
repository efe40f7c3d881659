"""Scans: find the nearest centre of every row in memory. All scans return identical labels.

| name    | keeps for a row        | pays off                                       |
|---------|------------------------|------------------------------------------------|
| lloyd   | nothing                | in a single step, or where bounds do not hold  |
| hamerly | one lower bound        | almost always                                  |
| elkan   | one bound per centre   | where distances are expensive and n*k is small |
| yinyang | sixteen bounds         | with many centres and features; dense rows     |
| auto    | what pays off just now | always                                         |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Labels, Rows

F32 = NDArray[np.float32]
LabelChanges = _native.Changes


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
    d = rows.d if rows.dense else rows.X.nnz / rows.n
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

    def __init__(self, rows: Rows, k: int) -> None:
        self._rows, self._view = rows, rows.view
        self._upper = np.empty(rows.n, dtype=np.float32)
        self._lower = np.empty(rows.n, dtype=np.float32)
        self._tighten = True
        self.work = math.inf  # of the last scan

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        changed, *counts = _native.assign_hamerly(
            self._view, centers, moved, labels, self._upper, self._lower, self._tighten, changes
        )
        self.work = self.BOUNDS * self._view.n + work_of(self._rows, *counts)
        # Tightening a bound costs one distance per row: worth it only while it saves rows.
        self._tighten = moved is None or counts[0] < 0.7 * len(labels)
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
    "yinyang": lambda rows, k: (YinyangScan if rows.dense else HamerlyScan)(rows, k),
    "auto": AutoScan,
}
