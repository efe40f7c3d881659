"""The metrics of k-median by name: the space that each one makes of X, and what X must be.

Rows of X are dense (`Vectors`), or CSR under cosine distance (`SparseCosine`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from kvariates import _native
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import (
    ROWS_BYTES,
    CallableMetric,
    DistanceMatrix,
    DistanceRows,
    Ints,
    MetricSpace,
)
from kvariates.data.rows import F64, Floats, TwoNearest, tree_over, unit_rows
from kvariates.guarantees import LOST
from kvariates.numerics.elementary import arc_lengths, sine_cosine
from kvariates.tables import Entry, Table

# Great-circle distances are computed from straight ones.
NATIVE_METRICS = {"manhattan": 0, "euclidean": 1, "cosine": 2, "haversine": 1}
FEW = 16  # features up to which a transposed copy of the rows is kept
ARC = 1.5707963267948968  # just above pi / 2: an arc is at most so many times its chord
FARTHEST_ANGLES = {"cosine": 2.0, "haversine": math.pi}  # the largest distance there is
ROUNDED = 1e-6  # by which angles may exceed their range
CLOSE = 1e-6  # cosine distances below this are computed from differences
PAIRS = 2**14  # of close rows whose differences are computed at once

Metric = str | Callable[[Any, Any], float]
MakeSpace = Callable[[Any, Any], MetricSpace]
"""Takes X and the points at which costs are measured; None means X itself."""

# What X must be. Each entry needs one of these.
ROWS, PLACES, DISTANCES, EDGES, OBJECTS = map(
    frozenset, (["rows"], ["places"], ["distances"], ["edge lengths"], ["objects"])
)
WITH_CENTERS = (ROWS, PLACES, OBJECTS)  # a medoid is a row
SPARSE_ROWS = {"cosine"}  # metrics that take CSR matrices of rows
SWAPS = "A local optimum of swaps costs at most 5 times the optimum (Arya et al. 2004)."


@dataclass(frozen=True)
class Rounding:
    """Computed distances are at most (1 + relative) d + absolute, for d of rows off by `chord`."""

    relative: float
    absolute: float
    chord: float


class RowSpace(DistanceRows):
    """Rows of X under a metric. `at` holds the rows at which costs are measured; None means X."""

    def __init__(self, X: Any, metric: str, at: Any = None) -> None:
        self.X, self.metric, self.half_squares = X, metric, metric == "cosine"
        self.at = X if at is None else at
        self.n_candidates, self.n, self.dtype = X.shape[0], self.at.shape[0], X.dtype

    @property
    @abstractmethod
    def rounding(self) -> Rounding: ...

    @property
    def pass_work(self) -> float:
        return self.n * self.n * float(self.X.shape[1])

    def distance_bound(self) -> float:
        if self.metric in FARTHEST_ANGLES:
            return FARTHEST_ANGLES[self.metric]
        with np.errstate(over="ignore"):
            spans = self.X.max(axis=0).astype(np.float64) - self.X.min(axis=0)
            return float(spans.sum())

    def below(self, bound: float, weight: float) -> float:
        """A distance is at most 1 + e times the true one, plus t where squares underflow.

        On the sphere, rows are rounded too, so that chords are off by up to `chord`. There
        d >= D - chord sqrt(2 D) for the computed D, and the sum of w sqrt(2 D) over all points is
        at most sqrt(2 (sum of w) (sum of w D)), by Cauchy and Schwarz.
        """
        error = self.rounding
        bound = bound * (1 - error.relative) - weight * error.absolute
        return max(0.0, bound - error.chord * math.sqrt(2 * weight * max(0.0, bound)))

    def tree_nodes(self, seed: int, rng: np.random.Generator) -> _native.Nodes:
        """Of cosine distances over the chords, of great-circle distances over pi / 2 chords."""
        X = self.X * ARC if self.metric == "haversine" else self.X
        return tree_over(X, self.metric == "manhattan", seed)


class Vectors(RowSpace):
    """Dense rows under L1, L2, cosine or great-circle distance ("haversine").

    Pre: finite, C order; of length one for the last two, and for "haversine" float64 points in
    three dimensions.
    """

    def __init__(self, X: Floats, metric: str, at: Floats | None = None) -> None:
        super().__init__(X, metric, at)
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


def _transposed(at: Floats) -> Floats | None:
    return np.ascontiguousarray(at.T) if at.shape[1] <= FEW else None


class SparseCosine(RowSpace):
    """CSR rows of length one under cosine distance: half the squared Euclidean distance.

    It is computed as (|x|^2 + |y|^2) / 2 - <x, y> in float64, which loses the digits of small
    distances: these are computed again from differences. Pre: sorted, no duplicates.
    """

    def __init__(self, X: Any, at: Any = None) -> None:
        super().__init__(X, "cosine", at)
        self._transposed = self.at.T.astype(np.float64).tocsr()
        self._halves = _half_squares(self.at)
        self.work = 1 + len(self.at.data) / max(1, self.n)

    @property
    def rounding(self) -> Rounding:
        """As of `Vectors`; the error of products is relative to the smallest of their distances."""
        eps, longest = float(np.finfo(self.dtype).eps), int(np.diff(self.X.indptr).max(initial=0))
        products = 4 * (longest + 8) * 2.0**-53 / CLOSE
        return Rounding((2 * longest + 32) * eps + products, 0.0, eps + (longest + 8) * 2.0**-52)

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        if columns is not None:
            return SparseCosine(self.X, self.at[columns]).distances(points)
        out = np.empty((len(points), self.n), dtype=self.dtype)
        step = max(1, ROWS_BYTES // (8 * max(1, self.n)))
        for first in range(0, len(points), step):
            part = slice(first, first + step)
            out[part] = self._block(self.X[points[part]].astype(np.float64))
        return out

    def _block(self, rows: Any) -> F64:
        far = np.add.outer(_half_squares(rows), self._halves)
        far -= (rows @ self._transposed).toarray()
        i, j = np.nonzero(far < CLOSE)
        for first in range(0, len(i), PAIRS):
            part = slice(first, first + PAIRS)
            apart = rows[i[part]] - self.at[j[part]].astype(np.float64)
            far[i[part], j[part]] = _half_squares(apart)
        return far

    def measured_at(self, demand: Ints) -> SparseCosine:
        return SparseCosine(self.X, self.at[demand])

    def exact_if_whole(self, farthest: float) -> bool:
        return False


def _half_squares(rows: Any) -> F64:
    """Half the squared length of each CSR row, in float64."""
    of_row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    squares = 0.5 * np.square(rows.data.astype(np.float64))
    return np.bincount(of_row, squares, minlength=rows.shape[0]).astype(np.float64, copy=False)


def unit_points(X: Any) -> F64:
    """Points on the unit sphere: an array of shape (n, 3).

    X has two columns, latitude and longitude. ValueError if they are not in radians.
    """
    if X.ndim != 2 or X.shape[1] != 2:
        raise ValueError(
            "metric='haversine' takes two columns in radians, latitude first, then longitude; X "
            f"has shape {X.shape}."
        )
    latitude, longitude = np.asarray(X, dtype=np.float64).T
    for name, angle, limit, words in (
        ("latitude", latitude, np.pi / 2, "from -pi/2 to pi/2"),
        ("longitude", longitude, 2 * np.pi, "from -2 pi to 2 pi"),
    ):
        outside = np.abs(angle) > limit + ROUNDED
        if outside.any():
            row = int(np.argmax(outside))
            raise ValueError(
                "metric='haversine' takes radians, latitude first, then longitude; row "
                f"{row} has {name} {angle[row]:.6g}, which is not {words}. If X is in degrees, "
                "give np.radians(X)."
            )
    up, along = sine_cosine(latitude), sine_cosine(longitude)
    points = np.stack([up.cosine * along.cosine, up.cosine * along.sine, up.sine], axis=1)
    return np.ascontiguousarray(points)


def _vectors(metric: str) -> MakeSpace:
    return lambda X, at: Vectors(X, metric, at)


def _cosine(X: Any, at: Any) -> MetricSpace:
    if scipy.sparse.issparse(X) or scipy.sparse.issparse(at):
        rows = [None if rows is None else unit_rows(_csr(rows)) for rows in (X, at)]
        return SparseCosine(*rows)
    return Vectors(unit_rows(X), "cosine", None if at is None else unit_rows(at))


def _csr(rows: Any) -> Any:
    out = scipy.sparse.csr_array(rows)
    if not out.has_canonical_format:
        out = out.copy()  # its arrays are those of `rows`
        out.sum_duplicates()
    return out


def _haversine(X: Any, at: Any) -> MetricSpace:
    return Vectors(unit_points(X), "haversine", None if at is None else unit_points(at))


METRICS: Table[MakeSpace] = Table(
    "metric",
    {
        "euclidean": Entry(_vectors("euclidean"), "Rows under L2.", ROWS, SWAPS),
        "manhattan": Entry(_vectors("manhattan"), "Rows under L1.", ROWS, SWAPS),
        "cosine": Entry(
            _cosine, "Rows under 1 - cos(x, y); dense or CSR.", ROWS, lost=LOST["not a metric"]
        ),
        "haversine": Entry(
            _haversine,
            "Latitude and longitude in radians under great-circle distance, also in radians: times "
            "6371 for kilometres.",
            PLACES,
            SWAPS,
        ),
        "precomputed": Entry(
            lambda D, _: DistanceMatrix(D), "X is a square matrix of distances.", DISTANCES, SWAPS
        ),
        "graph": Entry(
            lambda lengths, _: Graph(lengths),
            "X is a sparse symmetric matrix of edge lengths, and distances are those of shortest "
            "paths, never all of them at once.",
            EDGES,
            SWAPS,
        ),
    },
)

OTHER_NAMES = {"l1": "manhattan", "cityblock": "manhattan", "l2": "euclidean"}  # scikit-learn's


def check_name(metric: Metric) -> None:
    """ValueError if it is a name that a metric has elsewhere."""
    if isinstance(metric, str) and metric in OTHER_NAMES:
        raise ValueError(f"metric={metric!r} is {OTHER_NAMES[metric]!r} here.")


def metric_entry(metric: Metric) -> Entry[MakeSpace]:
    """The entry of a name, or one made for a callable."""
    if not callable(metric):
        return METRICS[metric]
    return Entry(lambda X, at: CallableMetric(X, metric, at), "A callable.", OBJECTS, SWAPS)
