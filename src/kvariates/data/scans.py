"""Scans find the nearest centre of every row in memory. All of them return identical labels.

| scan    | keeps for a row        | pays off                                              |
|---------|------------------------|-------------------------------------------------------|
| lloyd   | nothing                | in a single step, or where bounds do not hold         |
| hamerly | one lower bound        | almost always                                         |
| elkan   | one bound per centre   | where distances are expensive and n*k is small        |
| yinyang | sixteen bounds         | with many centres and features; dense rows            |
| bytes   | a bound per group      | likewise, on processors that multiply bytes fast      |
| auto    | what pays off just now | always                                                |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Labels, Rows
from kvariates.numerics.draws import I64

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
    """A first pass over bytes, and a lower bound for each group of centres. Dense rows only."""

    STEP = 64  # the size of a group is a multiple of it
    SHARE = 0.05  # of the memory of a row, for its bounds, of 16 bits
    BOUNDS = 20  # multiply-adds that a bound takes

    def __init__(self, rows: Rows, k: int, of_bytes: _native.ByteRows) -> None:
        self._rows, self._view, self._bytes = rows, rows.view, of_bytes
        most = max(8, int(self.SHARE * rows.dtype.itemsize * rows.d / 2))
        self._size = self.STEP * -(-k // (self.STEP * most))
        self._order = np.arange(k, dtype=np.int32)
        self._upper = np.empty(rows.n, dtype=np.float32)
        self._lower = np.empty((rows.n, _native.byte_bounds(k, self._size)), dtype=np.uint16)
        self.work = math.inf

    @classmethod
    def pays(cls, rows: Rows, k: int) -> bool:
        """Whether the machine multiplies bytes fast, and there are enough products."""
        return _native.bytes_pay(rows.view, k)

    @classmethod
    def of(cls, rows: Rows, k: int) -> ByteScan | None:
        """None if bytes cannot hold the rows."""
        found = _native.byte_rows(rows.view) if rows.dense else None
        return None if found is None else cls(rows, k, found)

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        if moved is None:
            self._order = grouped(centers, self._size)
        changed, *counts = _native.assign_bytes(
            self._view, self._bytes, centers, self._order, self._size, moved, labels, self._upper,
            self._lower, changes,
        )  # fmt: skip
        self.work = self.BOUNDS * self._lower.size + work_of(self._rows, *counts)
        return changed


def grouped(centers: F64, size: int) -> Labels:
    """The centres in an order in which `size` neighbours are close to each other, and move alike.

    They are halved again and again, by their distances to two far ones.
    """
    order = np.arange(len(centers), dtype=np.int32)
    whole = [(0, len(centers))]
    while whole:
        first, stop = whole.pop()
        if stop - first <= size:
            continue
        own = order[first:stop].astype(np.int64)
        far = _squares(centers, own, own[:1])[:, 0].argmax()
        other = _squares(centers, own, own[far : far + 1])[:, 0].argmax()
        near = _squares(centers, own, own[[far, other]])
        middle = first + (-(-(stop - first) // size) + 1) // 2 * size
        order[first:stop] = own[np.argsort(near[:, 0] - near[:, 1], kind="stable")]
        whole += [(first, middle), (middle, stop)]
    return order


def _squares(centers: F64, some: I64, others: I64) -> F64:
    """The squared distances between some centres and others.

    Some are copied a few at a time: all at once would take as much memory as the centres.
    """
    parts = (some[at : at + 128] for at in range(0, len(some), 128))
    to = centers[others]
    return np.concatenate([Rows.of(centers[own]).distances(to, squared=True) for own in parts])


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
    MUCH = 0.8  # of a plain scan's work, for a scan over bytes

    def __init__(self, rows: Rows, k: int) -> None:
        self._rows, self._k = rows, k
        self._plain = PlainScan(rows, k)
        over_bytes = ByteScan.of(rows, k) if ByteScan.pays(rows, k) else None
        self._bounded: Any = over_bytes or self._of_floats()
        self._plain_work = work_of(rows, rows.n, rows.n * k, 0)
        self._wait, self._next_wait = 0, 1
        self._valid = False  # whether the bounds are those of the last labels

    def _of_floats(self) -> Scan:
        kinds: tuple[Any, ...] = (ElkanScan, YinyangScan)
        kind = next((kind for kind in kinds if kind.pays(self._rows, self._k)), HamerlyScan)
        return kind(self._rows, self._k)

    def assign(self, centers: F64, moved: F32 | None, labels: Labels, changes: LabelChanges) -> int:
        if self._wait > 0:
            found = self._plain.assign(centers, moved, labels, changes)
            self._wait = max(self._wait - 1, 1 if self._plain.stable < self.ENOUGH else 0)
            return found
        usable = moved if self._valid else None
        changed: int = self._bounded.assign(centers, usable, labels, changes)
        self._valid = usable is None or self._bounded.work <= self._plain_work
        if isinstance(self._bounded, ByteScan):
            self._valid = self._bounded.work <= self.MUCH * self._plain_work
            self._bounded = self._bounded if self._valid else self._of_floats()
        elif not self._valid:
            self._wait = self._next_wait
            self._next_wait *= 3
        return changed


SCANS: dict[str, Callable[[Rows, int], Scan]] = {
    "lloyd": PlainScan,
    "hamerly": HamerlyScan,
    "elkan": ElkanScan,
    # Sparse rows have no filter for groups; Hamerly's bounds give the same labels.
    "bytes": lambda rows, k: ByteScan.of(rows, k) or HamerlyScan(rows, k),
    "yinyang": lambda rows, k: (YinyangScan if rows.dense else HamerlyScan)(rows, k),
    "auto": AutoScan,
}
