"""Points under any metric, as k-median sees them.

A *space* has n points, numbered. What it is asked for: distances from some points to all, the two
nearest of chosen points, and what a swap of a chosen point would change. Vectors, a matrix and a
callable all give rows of distances and share what follows from rows (`DistanceRows`); a graph
(`geometry.graph`) never makes a whole row if it can help it.

Distances are in the input's own type. Ties go to the lowest slot: the place among the chosen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Floats, TwoNearest

Ints = NDArray[np.int64]

KINDS = {"manhattan": 0, "euclidean": 1, "cosine": 2}
FEW = 16  # features up to which rows are kept coordinate by coordinate as well
ROWS_BYTES = 2**24  # of distances made at once
KEPT_BYTES = 2**29  # of distances a callable has returned


class MetricSpace(Protocol):
    @property
    def n(self) -> int:
        """The points that costs are measured at."""

    def distances(self, points: Ints) -> Floats:
        """From each of `points` to all: (len(points), n)."""

    def among(self, point: int, others: Ints) -> Floats:
        """From one point to some others."""

    def two_nearest(self, chosen: Ints) -> TwoNearest: ...

    def swap_changes(self, candidates: Ints, near: TwoNearest, k: int, weight: F64 | None) -> F64:
        """What the total cost changes by if a slot's point makes way for a candidate.

        One row a candidate, one column a slot.
        """

    def swapped(self, near: TwoNearest, chosen: Ints, slot: int) -> TwoNearest:
        """What is nearest after the point in `slot` was replaced; `near` may be overwritten."""


class DistanceRows(ABC):
    """What follows from rows of distances: `universe` points to choose from, `n` to measure at."""

    universe: int
    n: int
    dtype: np.dtype[Any]

    @abstractmethod
    def between(self, points: Ints, columns: Ints | None) -> Floats:
        """From each of `points` to the measured points at `columns`; None: to all n of them."""

    @abstractmethod
    def onto(self, demand: Ints) -> DistanceRows:
        """The same points to choose from, with costs measured at `demand` only."""

    @abstractmethod
    def matrix(self) -> DistanceMatrix:
        """All distances at once."""

    def distances(self, points: Ints) -> Floats:
        return self.between(points, None)

    def among(self, point: int, others: Ints) -> Floats:
        row: Floats = self.between(np.array([point]), others)[0]
        return row

    @property
    def block(self) -> int:
        """How many rows of distances are made at once."""
        return max(1, ROWS_BYTES // (self.dtype.itemsize * self.n))

    def two_nearest(self, chosen: Ints) -> TwoNearest:
        return self._nearest(self.distances(chosen))

    def swap_changes(self, candidates: Ints, near: TwoNearest, k: int, weight: F64 | None) -> F64:
        out = np.empty((len(candidates), k))
        for first in range(0, len(candidates), self.block):
            part = slice(first, first + self.block)
            rows = self.distances(candidates[part])
            _native.swap_changes(rows, *near.parts, weight, out[part])
        return out

    def swapped(self, near: TwoNearest, chosen: Ints, slot: int) -> TwoNearest:
        row = self.distances(chosen[slot : slot + 1])[0]
        unknown = np.empty(self.n, dtype=np.int64)
        count = _native.swap_patch(row, slot, *near.parts, unknown)
        some = unknown[:count]
        if count:
            fresh = self._nearest(self.between(chosen, some))
            for part, values in zip(near.parts, fresh.parts, strict=True):
                part[some] = values
        return near

    def _nearest(self, rows: Floats) -> TwoNearest:
        near = TwoNearest.empty(rows.shape[1], self.dtype)
        _native.two_nearest_rows(rows, *near.parts)
        return near


class Vectors(DistanceRows):
    """Rows of X under L1, L2 or cosine. Pre: finite, C order; for cosine, of length one."""

    def __init__(self, X: Floats, metric: str, at: Floats | None = None) -> None:
        self.X, self.metric = X, metric
        self.at = X if at is None else at  # where costs are measured
        self.universe, self.n, self.dtype = len(X), len(self.at), X.dtype
        self._turned = _turned(self.at)

    def between(self, points: Ints, columns: Ints | None) -> Floats:
        at, turned = self.at, self._turned
        if columns is not None:
            at = np.ascontiguousarray(at[columns])
            turned = _turned(at)
        out = np.empty((len(points), len(at)), dtype=self.dtype)
        chosen = np.ascontiguousarray(self.X[points])
        _native.metric_rows(at, turned, chosen, KINDS[self.metric], out)
        return out

    def two_nearest(self, chosen: Ints) -> TwoNearest:
        near = TwoNearest.empty(self.n, self.dtype)
        step = max(1, ROWS_BYTES // (self.dtype.itemsize * len(chosen)))
        for first in range(0, self.n, step):
            part = slice(first, first + step)
            some = Vectors(self.X, self.metric, self.at[part])
            _native.two_nearest_rows(
                some.distances(chosen), *(values[part] for values in near.parts)
            )
        return near

    def onto(self, demand: Ints) -> Vectors:
        return Vectors(self.X, self.metric, np.ascontiguousarray(self.at[demand]))

    def matrix(self) -> DistanceMatrix:
        """All distances at once."""
        if self.at is not self.X:
            return DistanceMatrix(self.distances(np.arange(self.universe)))
        out = np.empty((self.n, self.n), dtype=self.dtype)
        _native.metric_square(self.X, self._turned, KINDS[self.metric], out)
        return DistanceMatrix(out)


class DistanceMatrix(DistanceRows):
    """Distances given: D[i, j] from point i to measured point j. Pre: C order, finite."""

    def __init__(self, D: Floats) -> None:
        self.D = D
        self.universe, self.n = D.shape
        self.dtype = D.dtype

    def between(self, points: Ints, columns: Ints | None) -> Floats:
        rows: Floats = self.D[points] if columns is None else self.D[np.ix_(points, columns)]
        return rows

    def onto(self, demand: Ints) -> DistanceMatrix:
        return DistanceMatrix(np.ascontiguousarray(self.D[:, demand]))

    def matrix(self) -> DistanceMatrix:
        return self


class CallableMetric(DistanceRows):
    """Rows of X under a function of two rows. Distances are kept, up to KEPT_BYTES."""

    def __init__(self, X: Any, function: Callable[[Any, Any], float], at: Any = None) -> None:
        self.X, self.function = X, function
        self.at = X if at is None else at
        self.universe, self.n, self.dtype = len(X), len(self.at), np.dtype(np.float64)
        self._kept: dict[int, F64] = {}

    def between(self, points: Ints, columns: Ints | None) -> Floats:
        if columns is None:
            return np.array([self._row(int(point)) for point in points])
        out = np.empty((len(points), len(columns)))
        for place, point in enumerate(points.tolist()):
            row = self._kept.get(point)
            out[place] = self._call(point, columns.tolist()) if row is None else row[columns]
        return out

    def onto(self, demand: Ints) -> CallableMetric:
        return CallableMetric(self.X, self.function, [self.at[i] for i in demand])

    def matrix(self) -> DistanceMatrix:
        """All distances at once; d(x, y) is called for one of (x, y) and (y, x)."""
        if self.at is not self.X:
            return DistanceMatrix(self.distances(np.arange(self.universe)))
        D = np.zeros((self.n, self.n))
        for i in range(1, self.n):
            D[i, :i] = D[:i, i] = self._call(i, range(i))
        return DistanceMatrix(D)

    def _row(self, point: int) -> F64:
        row = self._kept.get(point)
        if row is None:
            row = self._call(point, range(self.n))
            if 8 * self.n * len(self._kept) < KEPT_BYTES:
                self._kept[point] = row
        return row

    def _call(self, point: int, columns: Iterable[int]) -> F64:
        a = self.X[point]
        values = [self.function(a, self.at[j]) for j in columns]
        try:
            plain = np.asarray(values)
            out = plain.astype(np.float64) if plain.dtype.kind in "fiub" else np.empty(0)
        except (TypeError, ValueError):
            out = np.empty(0)
        good = out.shape == (len(values),) and np.isfinite(out).all() and (out >= 0).all()
        if not good and values:
            bad = next((v for v in values if not _is_distance(v)), values)
            raise ValueError(
                f"metric returned {bad!r} for row {point} and another; "
                "it must return a finite number of 0 or more."
            )
        return out


def _is_distance(value: Any) -> bool:
    try:
        return bool(np.ndim(value) == 0 and np.isfinite(value) and 0 <= value < 1e308)
    except (TypeError, OverflowError):
        return False


def _turned(at: Floats) -> Floats | None:
    return np.ascontiguousarray(at.T) if at.shape[1] <= FEW else None
