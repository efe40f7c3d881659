"""Who finds the nearest centres: all of them give the same labels, bit for bit.

| name    | keeps a row          | pays when                                   |
|---------|----------------------|---------------------------------------------|
| lloyd   | nothing              | one step, or bounds never hold              |
| hamerly | one bound            | almost always                               |
| elkan   | a bound a centre     | distances are dear and n*k is small beside X |
| auto    | what pays just now   | always                                      |
"""

from __future__ import annotations

import math
from time import perf_counter
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates._native import Changes
from kvariates.data.rows import F64, Labels, Rows

F32 = NDArray[np.float32]


class Assigner(Protocol):
    def __init__(self, space: Rows, k: int) -> None: ...

    def assign(
        self, centers: F64, moved: F32 | None, labels: Labels, changes: Changes
    ) -> tuple[int, float]:
        """Bring `labels` up to date. How many changed, and the share of the work that was done.

        `changes` will know which.

        `moved`: how far each centre went since the last call; None if no bound is to be trusted.
        """


class PlainScan:
    def __init__(self, space: Rows, k: int) -> None:
        self._rows = space.view
        self.sure = 0.0  # share of the rows that would have kept their label unseen

    def assign(
        self, centers: F64, moved: F32 | None, labels: Labels, changes: Changes
    ) -> tuple[int, float]:
        # Centres go on about as far as they came: what would stay is what bounds would save.
        step = 0.0 if moved is None else float(moved.mean())
        changed, self.sure = _native.assign(self._rows, centers, labels, changes, step)
        return changed, 1.0


class HamerlyScan:
    def __init__(self, space: Rows, k: int) -> None:
        self._rows = space.view
        self._upper = np.empty(space.n, dtype=np.float32)
        self._lower = np.empty(space.n, dtype=np.float32)
        self._tighten = True

    def assign(
        self, centers: F64, moved: F32 | None, labels: Labels, changes: Changes
    ) -> tuple[int, float]:
        changed, scanned = _native.assign_hamerly(
            self._rows, centers, moved, labels, self._upper, self._lower, self._tighten, changes
        )
        work = scanned / len(labels)
        # A tightened bound costs one distance a row: worth it only while it saves rows.
        self._tighten = moved is None or work < 0.7
        return changed, work


class ElkanScan:
    def __init__(self, space: Rows, k: int) -> None:
        self._rows = space.view
        self._upper = np.empty(space.n, dtype=np.float32)
        self._lower = np.empty(space.n * k, dtype=np.float32)
        self._drift = np.zeros(k, dtype=np.float32)

    def assign(
        self, centers: F64, moved: F32 | None, labels: Labels, changes: Changes
    ) -> tuple[int, float]:
        changed, scanned = _native.assign_elkan(
            self._rows, centers, moved, self._drift, labels, self._upper, self._lower, changes
        )
        return changed, scanned / (len(labels) * len(centers))


class YinyangScan:
    """One lower bound for each of sixteen groups of centres. Dense rows only."""

    GROUPS = 16
    STEPS = 8  # of PlainScan's loop over the centres, when they are grouped

    def __init__(self, space: Rows, k: int) -> None:
        self._rows = space.view
        self._upper = np.empty(space.n, dtype=np.float32)
        self._lower = np.empty((space.n, self.GROUPS), dtype=np.float32)
        self._group = np.zeros(k, dtype=np.int32)

    @classmethod
    def pays(cls, space: Rows, k: int) -> bool:
        """Groups of some size, rows long enough to be worth skipping, and to pay for the bounds."""
        row = space.d * space.dtype.itemsize
        return space.dense and k >= 4 * cls.GROUPS and row >= 8 * cls.GROUPS and space.d >= 32

    def assign(
        self, centers: F64, moved: F32 | None, labels: Labels, changes: Changes
    ) -> tuple[int, float]:
        if moved is None:
            self._group = self._grouped(centers)
        changed, scanned = _native.assign_yinyang(
            self._rows, centers, self._group, moved, labels, self._upper, self._lower, changes
        )
        return changed, scanned / (len(labels) * len(centers))

    def _grouped(self, centers: F64) -> Labels:
        """Near centres move alike; any grouping is right."""
        points = Rows.of(centers)
        heads = centers[np.linspace(0, len(centers) - 1, self.GROUPS).astype(int)]
        for _ in range(self.STEPS):
            labels = points.nearest(heads)
            sums = np.zeros_like(heads)
            np.add.at(sums, labels, centers)
            counts = np.bincount(labels, minlength=self.GROUPS)
            heads = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], heads)
        return points.nearest(heads)


class AutoScan:
    """Plain or bounded scans, whichever takes less time just now. Results do not depend on it.

    Bounds are tried once a plain scan has found enough rows that would have stayed where they are
    however the centres moved; every try that loses triples the wait before the next.
    """

    SURE = 0.5  # the share of such rows

    def __init__(self, space: Rows, k: int) -> None:
        self._plain = PlainScan(space, k)
        self._bounded = (
            YinyangScan(space, k) if YinyangScan.pays(space, k) else HamerlyScan(space, k)
        )
        self._plain_time = math.inf
        self._wait, self._patience = 1, 1
        self._trusted = False

    def assign(
        self, centers: F64, moved: F32 | None, labels: Labels, changes: Changes
    ) -> tuple[int, float]:
        if self._wait > 0 or moved is None:
            begin = perf_counter()
            changed, work = self._plain.assign(centers, moved, labels, changes)
            self._plain_time = min(self._plain_time, perf_counter() - begin)
            self._wait = max(self._wait - 1, 1 if self._plain.sure < self.SURE else 0)
            return changed, work
        begin = perf_counter()
        trusted = moved if self._trusted else None
        changed, work = self._bounded.assign(centers, trusted, labels, changes)
        lost = self._trusted and perf_counter() - begin > self._plain_time
        self._trusted = not lost
        if lost:
            self._wait = self._patience = 3 * self._patience
        return changed, work


def assigner(algorithm: str, space: Rows, k: int) -> Assigner:
    """By name. Sparse rows have no groups' filter; HamerlyScan's bounds give the same labels."""
    if algorithm == "yinyang" and not space.dense:
        algorithm = "hamerly"
    return ASSIGNERS[algorithm](space, k)


ASSIGNERS: dict[str, type[Assigner]] = {
    "lloyd": PlainScan,
    "hamerly": HamerlyScan,
    "elkan": ElkanScan,
    "yinyang": YinyangScan,
    "auto": AutoScan,
}
