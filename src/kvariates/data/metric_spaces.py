"""Points under any metric, as k-median uses them.

A space has `n_candidates` points that may become medoids and `n` points at which costs are
measured; they are the same points unless `measured_at` left some out. Vectors, a distance matrix
and a callable compute rows of distances and share what follows from rows (`DistanceRows`). A graph
(`data.graph`) answers by searches instead.

Medoids are numbers of points. A slot is an index into the array of medoids, as a label is an index
into the array of centres. Distances have the type of the input. Ties go to the lowest slot.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Floats, TwoNearest
from kvariates.data.sphere import arc_lengths

Ints = NDArray[np.int64]

# Great-circle distances are computed from straight ones.
NATIVE_METRICS = {"manhattan": 0, "euclidean": 1, "cosine": 2, "haversine": 1}
FEW = 16  # features up to which a transposed copy of the rows is kept
ROWS_BYTES = 2**24  # of distances computed at once
KEPT_BYTES = 2**29  # of distances kept for later
FARTHEST = 1e200  # the largest distance of a callable; sums of larger ones could overflow


class MetricSpace(Protocol):
    n: int  # the number of points at which costs are measured
    n_candidates: int  # the number of points that may become medoids

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        """From each of `points` to the measured points at `columns`; to all n if None."""

    def two_nearest(self, medoids: Ints) -> TwoNearest: ...

    def swap_changes(self, candidates: Ints, near: TwoNearest, k: int, weight: F64 | None) -> F64:
        """The change of the total cost if a candidate replaces a medoid: (len(candidates), k)."""

    def update_two_nearest(self, near: TwoNearest, medoids: Ints, slot: int) -> TwoNearest:
        """The two nearest after `medoids[slot]` was replaced. The arrays of `near` are reused."""


@dataclass(frozen=True)
class MedoidSearchResult:
    medoids: Ints
    near: TwoNearest
    cost: float
    n_swaps: int
    local_optimum: bool  # no swap with any candidate lowers the cost


@dataclass(frozen=True)
class EagerOptions:
    """The best swap of `block` candidates is made if it saves more than `tol` times the cost.

    Each of `restarts` restarts replaces `replaced` medoids at random, by `seed`.
    """

    block: int
    tol: float
    max_swaps: int
    restarts: int
    replaced: int
    seed: int


class DistanceRows(ABC):
    """A `MetricSpace` that computes rows of distances."""

    n: int
    n_candidates: int
    dtype: np.dtype[Any]
    work: float = 1.0  # the time to compute a distance, relative to a point in the plane

    @abstractmethod
    def distances(self, points: Ints, columns: Ints | None = None) -> Floats: ...

    @abstractmethod
    def measured_at(self, demand: Ints) -> DistanceRows:
        """The same candidates with costs measured at `demand` only."""

    def matrix(self) -> DistanceMatrix:
        """All distances at once."""
        return DistanceMatrix(self.distances(np.arange(self.n_candidates)))

    def exact_if_whole(self, farthest: float) -> bool:
        """Distances that are whole numbers up to this one have no rounding error."""
        return True

    @property
    def block(self) -> int:
        """How many rows of distances are computed at once."""
        return max(1, ROWS_BYTES // (self.dtype.itemsize * max(1, self.n)))

    def two_nearest(self, medoids: Ints) -> TwoNearest:
        return self._nearest(self.distances(medoids))

    def swap_changes(self, candidates: Ints, near: TwoNearest, k: int, weight: F64 | None) -> F64:
        out = np.empty((len(candidates), k))
        for first in range(0, len(candidates), self.block):
            part = slice(first, first + self.block)
            rows = self.distances(candidates[part])
            _native.swap_changes(rows, *near, weight, out[part])
        return out

    def update_two_nearest(self, near: TwoNearest, medoids: Ints, slot: int) -> TwoNearest:
        row = self.distances(medoids[slot : slot + 1])[0]
        unknown = np.empty(self.n, dtype=np.int64)
        count = _native.swap_patch(row, slot, *near, unknown)
        if count:
            some = unknown[:count]
            fresh = self._nearest(self.distances(medoids, some))
            for part, values in zip(near, fresh, strict=True):
                part[some] = values
        return near

    def _nearest(self, rows: Floats) -> TwoNearest:
        near = TwoNearest.empty(rows.shape[1], self.dtype)
        _native.two_nearest_rows(rows, *near)
        return near


@dataclass(frozen=True)
class Rounding:
    """Computed distances are at most (1 + relative) d + absolute, for d of rows off by `chord`."""

    relative: float
    absolute: float
    chord: float


class Vectors(DistanceRows):
    """Rows of X under L1, L2, cosine or great-circle distance ("haversine").

    `at` holds the rows at which costs are measured; None means X. Pre: finite, C order; of length
    one for the last two, and for "haversine" float64 points in three dimensions.
    """

    def __init__(self, X: Floats, metric: str, at: Floats | None = None) -> None:
        self.X, self.metric = X, metric
        self.at = X if at is None else at
        self.n_candidates, self.n, self.dtype = len(X), len(self.at), X.dtype
        self._transposed = _transposed(self.at)
        d = int(X.shape[1])
        self.work = 1 + d / 16 if d <= FEW else d / 4

    @property
    def rounding(self) -> Rounding:
        """Differences, squares and sums of at least eight lanes, and the root, are rounded."""
        d, limits = self.X.shape[1], np.finfo(self.dtype)
        if self.metric == "haversine":
            # The arcsine of half a chord near 1 has a relative error of up to sqrt(2 eps).
            return Rounding(2.0**-24, 32 * float(limits.eps), 0.0)
        eps, cosine = float(limits.eps), self.metric == "cosine"
        terms = min(d, d / 8 + 20) + 8
        absolute = (
            0.0 if self.metric == "manhattan" else math.sqrt(d * float(limits.smallest_subnormal))
        )
        # Unit rows are computed in float64.
        chord = eps + (d + 8) * 2.0**-52 if cosine else 0.0
        return Rounding(terms * eps, absolute, chord)

    def exact_if_whole(self, farthest: float) -> bool:
        """If the rows are whole numbers too, and squares have few digits."""
        digits = np.finfo(self.dtype).nmant / 2 - 1
        if self.metric == "haversine":
            return False
        return farthest < 2.0**digits and bool(np.all(np.rint(self.X) == self.X))

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        at, transposed = self.at, self._transposed
        if columns is not None:
            at = np.ascontiguousarray(at[columns])
            transposed = _transposed(at)
        out = np.empty((len(points), len(at)), dtype=self.dtype)
        rows = np.ascontiguousarray(self.X[points])
        _native.metric_rows(at, transposed, rows, NATIVE_METRICS[self.metric], out)
        return arc_lengths(out) if self.metric == "haversine" else out

    def two_nearest(self, medoids: Ints) -> TwoNearest:
        near = TwoNearest.empty(self.n, self.dtype)
        step = max(1, ROWS_BYTES // (self.dtype.itemsize * len(medoids)))
        for first in range(0, self.n, step):
            part = slice(first, first + step)
            rows = Vectors(self.X, self.metric, self.at[part]).distances(medoids)
            _native.two_nearest_rows(rows, *(values[part] for values in near))
        return near

    def measured_at(self, demand: Ints) -> Vectors:
        return Vectors(self.X, self.metric, np.ascontiguousarray(self.at[demand]))

    def matrix(self) -> DistanceMatrix:
        if self.at is not self.X:
            return super().matrix()
        out = np.empty((self.n, self.n), dtype=self.dtype)
        _native.metric_square(self.X, self._transposed, NATIVE_METRICS[self.metric], out)
        return DistanceMatrix(arc_lengths(out) if self.metric == "haversine" else out)


@dataclass(frozen=True)
class MetricFlaw:
    """The first entry of a distance matrix that breaks a law of metrics. `via` is a third point."""

    law: str  # "negative", "diagonal", "symmetry" or "triangle"
    i: int
    j: int
    via: int


class DistanceMatrix(DistanceRows):
    """Given distances: D[i, j] from candidate i to measured point j. Pre: C order, finite."""

    LAWS = ("", "negative", "diagonal", "symmetry", "triangle")  # as the kernel numbers them

    def __init__(self, D: Floats) -> None:
        self.D = D
        self.n_candidates, self.n = D.shape
        self.dtype = D.dtype

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        rows: Floats = self.D[points] if columns is None else self.D[np.ix_(points, columns)]
        return rows

    def measured_at(self, demand: Ints) -> DistanceMatrix:
        return DistanceMatrix(np.ascontiguousarray(self.D[:, demand]))

    def matrix(self) -> DistanceMatrix:
        return self

    def as_float32(self) -> DistanceMatrix:
        """The same distances as float32 if that changes none of them, else the matrix itself."""
        if self.dtype == np.float32:
            return self
        narrow = np.empty(self.D.shape, dtype=np.float32)
        return DistanceMatrix(narrow) if _native.to_float32(self.D, narrow) else self

    def flaw(self, tolerance: float, triangles: float) -> MetricFlaw | None:
        """The first flaw found, looking at `n_checked(triangles)` triangles. Pre: square.

        Distances may differ by `tolerance` times the largest distance.
        """
        law, *points = _native.check_distances(self.D, tolerance, triangles)
        return MetricFlaw(self.LAWS[law], *points) if law else None

    def n_checked(self, triangles: float) -> int:
        """How many triangles `flaw` looks at: i and via are taken in equal steps, j is any."""
        each = max(1, int(math.sqrt(max(1.0, triangles / self.n))))
        rows = len(range(0, self.n, max(1, self.n // each)))
        return int(rows * rows * self.n)

    def eager_swaps(
        self, medoids: Ints, points: Ints, weight: F64 | None, order: Ints, options: EagerOptions
    ) -> MedoidSearchResult:
        """Swap medoids for candidates, in the given order, until no swap lowers the cost.

        `points[i]` is the candidate that measured point i is.
        """
        medoids, near, o = medoids.copy(), TwoNearest.empty(self.n, self.dtype), options
        n_swaps, cost, local_optimum = _native.eager_swaps(
            self.D, medoids, *near, weight, order, o.block, o.tol, o.max_swaps,
            o.restarts, o.replaced, o.seed, points,
        )  # fmt: skip
        return MedoidSearchResult(medoids, near, cost, n_swaps, local_optimum)


class CallableMetric(DistanceRows):
    """Rows of X under a function of two rows. Distances are kept, up to KEPT_BYTES."""

    work = 1000.0

    def __init__(self, X: Any, function: Callable[[Any, Any], float], at: Any = None) -> None:
        self.X, self.function = X, function
        self.at = X if at is None else at
        self.n_candidates, self.n, self.dtype = len(X), len(self.at), np.dtype(np.float64)
        self._kept: dict[int, F64] = {}

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        if columns is None:
            return np.array([self._row(int(point)) for point in points])
        out = np.empty((len(points), len(columns)))
        for i, point in enumerate(points.tolist()):
            row = self._kept.get(point)
            out[i] = self._call(point, columns.tolist()) if row is None else row[columns]
        return out

    def measured_at(self, demand: Ints) -> CallableMetric:
        return CallableMetric(self.X, self.function, [self.at[i] for i in demand])

    def matrix(self) -> DistanceMatrix:
        """All distances at once. Of (x, y) and (y, x) only one is computed."""
        if self.at is not self.X:
            return super().matrix()
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
            out = np.asarray(values)
            good = out.ndim == 1 and out.dtype.kind in "fiub"
            good = good and bool(((out >= 0) & (out <= FARTHEST)).all())
        except ValueError:  # arrays of different shapes
            good = False
        if not good:
            bad = next((v for v in values if not _is_distance(v)), values)
            raise ValueError(
                f"metric returned {bad!r} for row {point} and another; "
                f"it must return a number from 0 to {FARTHEST:g}."
            )
        return out.astype(np.float64)


def _is_distance(value: Any) -> bool:
    try:
        return bool(np.ndim(value) == 0 and 0 <= value <= FARTHEST)
    except (TypeError, OverflowError):
        return False


def _transposed(at: Floats) -> Floats | None:
    return np.ascontiguousarray(at.T) if at.shape[1] <= FEW else None
