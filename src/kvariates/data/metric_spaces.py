"""Points under any metric, as k-median uses them.

A space has `n_candidates` points that may become medoids and `n` points at which costs are
measured; they are the same points unless `measured_at` left some out. A distance matrix, a callable
and rows (`data.metrics`) compute rows of distances and share what follows from rows of distances
(`DistanceRows`). A graph (`data.graph`) answers by searches instead.

Medoids are numbers of points. A slot is an index into the array of medoids, as a label is an index
into the array of centres. Distances have the type of the input. Ties go to the lowest slot.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Floats, TwoNearest

Ints = NDArray[np.int64]

ROWS_BYTES = 2**24  # of distances computed at once
KEPT_BYTES = 2**29  # of distances kept for later
CALLS = 2 * 10**6  # of a callable, to fill a matrix
FARTHEST = 1e200  # the largest distance of a callable; sums of larger ones could overflow


class MetricSpace(ABC):
    n: int  # the number of points at which costs are measured
    n_candidates: int  # the number of points that may become medoids
    half_squares: bool = False  # distances are half the squares of those of a tree (`tree_nodes`)
    quick_swaps: bool = True  # there is time for random restarts of a search by swaps

    @property
    def pass_work(self) -> float:
        """About how many multiplications it takes to compute all distances."""
        return self.n * self.n * 2**17

    @abstractmethod
    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        """From each of `points` to the measured points at `columns`; to all n if None."""

    @abstractmethod
    def two_nearest(self, medoids: Ints) -> TwoNearest: ...

    @abstractmethod
    def swap_changes(self, candidates: Ints, near: TwoNearest, k: int, weight: F64 | None) -> F64:
        """The change of the total cost if a candidate replaces a medoid: (len(candidates), k)."""

    @abstractmethod
    def update_two_nearest(self, near: TwoNearest, medoids: Ints, slot: int) -> TwoNearest:
        """The two nearest after `medoids[slot]` was replaced. The arrays of `near` are reused."""

    def distance_bound(self) -> float:
        """A number that no finite distance exceeds."""
        return FARTHEST

    def below(self, bound: float, weight: float) -> float:
        """A bound for the exact distances from one for the computed ones, of this total weight."""
        return bound

    def capped(self, cap: float, step: float) -> MetricSpace:
        """A space for distances that are then capped and rounded down to multiples of `step`.

        What is secret may not show in them, as by an error or by the order of additions.
        """
        return self

    @abstractmethod
    def tree_nodes(self, seed: int, rng: np.random.Generator) -> _native.Nodes:
        """The nodes of a random tree over all points (see `data.hst_tree`)."""


@dataclass(frozen=True)
class MedoidSearchResult:
    medoids: Ints
    near: TwoNearest
    cost: float
    n_swaps: int
    local_optimum: bool  # no swap with any candidate lowers the cost


class DistanceRows(MetricSpace):
    """A metric space that computes rows of distances."""

    dtype: np.dtype[Any]
    work: float = 1.0  # the time to compute a distance, relative to a point in the plane
    most_cells: float = math.inf  # of a matrix that is computed before any distance is needed

    @abstractmethod
    def measured_at(self, demand: Ints) -> DistanceRows:
        """The same candidates with costs measured at `demand` only."""

    def matrix(self) -> DistanceMatrix:
        """All distances at once."""
        return DistanceMatrix(self.distances(np.arange(self.n_candidates)))

    def exact_if_whole(self, farthest: float) -> bool:
        """Distances that are whole numbers up to this one have no rounding error."""
        return True

    def tree_nodes(self, seed: int, rng: np.random.Generator) -> _native.Nodes:
        def distances(point: int, others: Ints) -> F64:
            row = self.distances(np.array([point]), others)[0]
            return np.ascontiguousarray(row, dtype=np.float64)

        return _native.tree_over_callable(distances, self.n, seed)

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

    @property
    def pass_work(self) -> float:
        return 0.0

    def distance_bound(self) -> float:
        return float(self.D.max(initial=0.0))

    def tree_nodes(self, seed: int, rng: np.random.Generator) -> _native.Nodes:
        return _native.tree_over_matrix(self.D, seed)

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
        self, medoids: Ints, points: Ints, weight: F64 | None, order: Ints, *, block: int,
        tol: float, max_swaps: int, restarts: int, replaced: int, seed: int,
    ) -> MedoidSearchResult:  # fmt: skip
        """Swap medoids for candidates, in the given order, until no swap lowers the cost.

        `points[i]` is the candidate that measured point i is. The best swap of `block` candidates
        is made if it saves more than `tol` times the cost. Each restart replaces `replaced` medoids
        at random.
        """
        medoids, near = medoids.copy(), TwoNearest.empty(self.n, self.dtype)
        n_swaps, cost, local_optimum = _native.eager_swaps(
            self.D, medoids, *near, weight, order, block, tol, max_swaps, restarts, replaced, seed,
            points,
        )  # fmt: skip
        return MedoidSearchResult(medoids, near, cost, n_swaps, local_optimum)


class CallableMetric(DistanceRows):
    """Rows of X under a function of two rows. Distances are kept, up to KEPT_BYTES."""

    work = 1000.0
    most_cells = CALLS

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

    def capped(self, cap: float, step: float) -> CallableMetric:
        """A pair without a distance has the cap.

        The function may fail for a few of many pairs, which were not all tried. If it failed here,
        it would tell that such a point is in the demand.
        """
        return CallableMetric(self.X, partial(_distance_or_cap, self.function, cap), self.at)

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


def _distance_or_cap(function: Callable[[Any, Any], float], cap: float, a: Any, b: Any) -> float:
    try:
        far = float(function(a, b))
    except Exception:
        return cap
    return far if 0.0 <= far <= cap else cap
