"""A lattice for private sums, and rows and distances on it, so that sums are exact.

| what is rounded | how |
|---|---|
| rows, dense or CSR | towards zero, clipped to a ball |
| points of the unit ball | coarsely: their squared distances are exact in float32 |
| distances of any space | down to a step, and capped |

The step is a power of two, and the sums of n_max points stay below 2^53 steps. So float64 adds such
points without any rounding error, in any order. (Noise that hides an exact sum would not hide the
rounding error of a float sum, which depends on every row.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.metric_spaces import KEPT_BYTES, DistanceMatrix, DistanceRows, Ints, MetricSpace
from kvariates.data.rows import F64, Floats, Labels
from kvariates.numerics.draws import I64

Norm = Literal["l1", "l2", "linf"]
Adjacency = Literal["add-remove", "replace-one"]

FEWEST_BITS = 8


@dataclass(frozen=True)
class Lattice:
    """The points of step * Z^d in the ball of radius `bound` (public) around the origin.

    nonzeros : the largest number of coordinates of a point that are not 0; None: all d may be.
    """

    bound: float
    d: int
    norm: Norm = "l2"
    n_max: int = 2**31
    nonzeros: int | None = None

    def __post_init__(self) -> None:
        if not 1e-200 < self.bound < 1e200:
            raise ValueError(f"bound must be a number > 0 of usual size; got {self.bound!r}.")
        if self.norm not in ("l1", "l2", "linf"):
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf'; got {self.norm!r}.")
        if self.d < 1:
            raise ValueError(f"d must be at least 1; got {self.d!r}.")
        if self.nonzeros is not None and self.nonzeros < 1:
            raise ValueError(f"nonzeros must be at least 1; got {self.nonzeros!r}.")
        if self.n_max < 1 or self.bits < FEWEST_BITS:
            raise ValueError(f"n_max must be in 1..2**{53 - FEWEST_BITS}; got {self.n_max!r}.")

    @property
    def bits(self) -> int:
        """The largest number of bits of a coordinate."""
        return 53 - (self.n_max - 1).bit_length()

    @cached_property
    def step(self) -> float:
        """The distance of neighbouring points, a power of two."""
        return math.ldexp(1.0, math.frexp(self.bound)[1] - self.bits)

    @cached_property
    def radius(self) -> int:
        """The radius of the ball in steps, rounded down."""
        return math.floor(Fraction(self.bound) / Fraction(self.step))

    @cached_property
    def square(self) -> int:
        """The squared radius of the ball in squared steps, rounded down."""
        return math.floor((Fraction(self.bound) / Fraction(self.step)) ** 2)

    def l1(self, adjacency: Adjacency) -> int:
        """The l1 sensitivity of a sum, in steps. It is attained."""
        linf = self._most_nonzeros * self.radius
        most = {"l1": self.radius, "linf": linf, "l2": self._largest_l1}[self.norm]
        return most if adjacency == "add-remove" else 2 * most

    def l2_squared(self, adjacency: Adjacency) -> int:
        """The squared l2 sensitivity of a sum, in squared steps. It is nearly attained."""
        linf = self._most_nonzeros * self.radius**2
        most = {"l1": self.radius**2, "linf": linf, "l2": self.square}[self.norm]
        return most if adjacency == "add-remove" else 4 * most

    @property
    def _most_nonzeros(self) -> int:
        return self.d if self.nonzeros is None else min(self.d, self.nonzeros)

    @cached_property
    def _largest_l1(self) -> int:
        """The largest l1 norm of d integers whose squares add up to `square` at most.

        d is the number of coordinates that may be other than 0.
        Of all vectors with l1 norm s = a d + b, the one with b coordinates a + 1 and d - b
        coordinates a has the least sum of squares. Cauchy and Schwarz's bound sqrt(d square) is
        not exact; this is.
        """
        d = self._most_nonzeros
        low, high = 0, math.isqrt(d * self.square)
        while low < high:
            s = (low + high + 1) // 2
            a, b = divmod(s, d)
            if b * (a + 1) ** 2 + (d - b) * a**2 <= self.square:
                low = s
            else:
                high = s - 1
        return low

    def steps(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """Values on the lattice as integers. Raises ValueError if one is not on it."""
        scaled = np.asarray(values, dtype=np.float64) / self.step
        if not (np.all(np.abs(scaled) <= 2.0**53) and np.all(scaled == np.rint(scaled))):
            raise ValueError("These are no sums of rows that `quantize` put on this grid.")
        return scaled.astype(np.int64)


NORMS: dict[Norm, int] = {"linf": 0, "l1": 1, "l2": 2}  # the codes of the native functions
MOST = 2**18  # values of a row; of more, the largest are kept, so that integers cannot overflow
SHORTER = 1 - 2.0**-40  # a row that is too long is multiplied by this much less than needed


# proof: sums.md
def quantize(
    rows: NDArray[np.floating], lattice: Lattice, center: F64 | None = None, half: F64 | None = None
) -> F64:
    """Rows clipped to the lattice's ball and rounded towards zero, each independently.

    Before that `center` is subtracted and rows are clipped to the box of half sides `half`, if
    given. The result has the units of the rows, and every coordinate is a multiple of
    `lattice.step`. That a row stays in its ball is checked in integers.
    """
    _check_number(rows, lattice)
    if rows.dtype != np.float32:
        rows = rows.astype(np.float64, copy=False)
    out = np.empty(rows.shape)
    rows = np.ascontiguousarray(rows)
    _native.to_lattice(rows, center, half, NORMS[lattice.norm], lattice.bound, lattice.step, out)
    return out


@dataclass(frozen=True, eq=False)
class Balls:
    """A ball for each label. A row x of it has the local coordinates (x - center) / radius.

    Balls are public, or were computed from releases.
    """

    centers: F64
    radii: F64  # > 0


@dataclass(frozen=True, eq=False)
class LatticeSums:
    """Exact sums, hence secret: for every label the sum, the number and the squares of its rows."""

    totals: F64
    counts: NDArray[np.int64]
    squares: F64  # empty unless requested


def lattice_sums(
    rows: F64,
    labels: Labels,
    k: int,
    lattice: Lattice,
    balls: Balls | None = None,
    *,
    squares: bool = False,
) -> LatticeSums:
    """Sums by label of rows (or of their local coordinates) that are first quantized.

    A row with a negative label is in no sum. Squares are those of local coordinates in the l2 unit
    ball, rounded down row by row; a row's squares are on `Lattice(1.0, d, "l1")`.
    """
    _check_number(rows, lattice)
    centers, radii = (balls.centers, balls.radii) if balls else (None, None)
    totals, counts = np.empty((k, lattice.d)), np.empty(k, dtype=np.int64)
    second = np.empty((k if squares else 0, lattice.d))
    _native.lattice_sums(
        rows, labels, centers, radii, NORMS[lattice.norm], lattice.bound, lattice.step,
        totals, counts, second if squares else None,
    )  # fmt: skip
    return LatticeSums(totals, counts, second)


def outside_radius(rows: F64, labels: Labels, balls: Balls) -> NDArray[np.bool_]:
    """Whether each row is outside the ball of its label; False if the label is negative."""
    out = np.empty(len(rows), dtype=np.uint8)
    _native.outside_radius(rows, labels, balls.centers, balls.radii, out)
    return out.view(np.bool_)


def _check_number(rows: Any, lattice: Lattice) -> None:
    if rows.shape[0] > lattice.n_max:
        raise ValueError(f"More rows than n_max = {lattice.n_max}: their sums might not be exact.")


def quantize_sparse(X: Any, lattice: Lattice, half: F64 | None = None) -> Any:
    """CSR rows clipped to the ball of an l2 lattice and rounded towards zero, each by itself.

    Values are first clipped to the radius (and to a box of half sides `half`) and rounded to
    integers. The squares of a row are then
    added as integers, so that whether it is too long depends on its own values alone.
    """
    _check_number(X, lattice)
    X = largest_values(X, MOST)
    largest = lattice.radius * lattice.step
    values = np.clip(X.data.astype(np.float64), -largest, largest)
    if half is not None:
        values = np.clip(values, -half[X.indices], half[X.indices])
    steps = np.trunc(values / lattice.step).astype(np.int64)
    steps = _inside(steps, _row_numbers(X), X.shape[0], lattice.square)
    kept = scipy.sparse.csr_matrix(
        (steps * lattice.step, X.indices.copy(), X.indptr.copy()), shape=X.shape
    )
    kept.eliminate_zeros()
    return kept


def largest_values(X: Any, most: int) -> Any:
    """CSR rows with their `most` largest absolute values only; of equal ones the first columns."""
    per_row = np.diff(X.indptr)
    if not (per_row > most).any():
        return X
    order = np.lexsort((X.indices, -np.abs(X.data), _row_numbers(X)))
    rank = np.arange(len(order)) - np.repeat(X.indptr[:-1], per_row)
    kept = np.sort(order[rank < most])
    starts = np.concatenate([[0], np.cumsum(np.minimum(per_row, most))])
    return scipy.sparse.csr_matrix((X.data[kept], X.indices[kept], starts), shape=X.shape)


def sparse_sums(X: Any, labels: Labels, k: int) -> LatticeSums:
    """The sums by label of CSR rows on a lattice; float64 adds them without rounding."""
    ones = np.ones(len(labels))
    member = scipy.sparse.csr_matrix(
        (ones, (labels, np.arange(len(labels)))), shape=(k, len(labels))
    )
    totals, counts = (member @ X).toarray(), np.bincount(labels, minlength=k)
    return LatticeSums(totals, counts, np.empty((0, X.shape[1])))


def _inside(steps: I64, row: I64, n: int, most: int) -> I64:
    """Rows of integers, shortened until their squares add up to at most `most`."""
    while True:
        squares = np.zeros(n, dtype=np.int64)
        np.add.at(squares, row, steps**2)
        far = squares > most
        if not far.any():
            return steps
        factor = np.ones(n)
        factor[far] = np.sqrt(most / squares[far]) * SHORTER
        steps = np.trunc(steps * factor[row]).astype(np.int64)


def _row_numbers(X: Any) -> I64:
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


# ---- Squared distances of points on a coarse lattice of the unit ball: exact in float32 ----------
#
# Coordinates are multiples of 2^-10, so squared distances are multiples of 2^-20 and at most 4:
# they have 22 bits. Every partial sum of a product of two such points is at most 1 (Cauchy and
# Schwarz), so a matrix product has no rounding error, however it is blocked; nor have float64
# sums over 2^31 points.


FARTHEST = 4.0  # squared distance of two points of the unit ball


def on_unit_lattice(points: F64) -> F64:
    """Points clipped to the unit ball and rounded towards zero to steps of 2^-10, one by one."""
    return quantize(points, Lattice(1.0, points.shape[1], "l2", n_max=2**42))


class SquaredDistances(DistanceRows):
    """From points of the unit lattice that may become centres to others, `at`."""

    def __init__(self, points: F64, at: F64) -> None:
        self.X, self.at = points.astype(np.float32), at.astype(np.float32)
        self.n_candidates, self.n, self.dtype = len(points), len(at), np.dtype(np.float32)
        self._squares = _squares(self.X)
        self._at_squares = _squares(self.at)

    def distances(self, points: Ints, columns: Ints | None = None) -> Floats:
        at, squares = self.at, self._at_squares
        if columns is not None:
            at, squares = at[columns], squares[columns]
        out = self.X[points] @ (np.float32(-2) * at).T
        out += squares
        out += self._squares[points, None]
        return np.asarray(out)

    def measured_at(self, demand: Ints) -> SquaredDistances:
        return SquaredDistances(self.X.astype(np.float64), self.at[demand].astype(np.float64))


def squared_distances(points: F64, at: F64) -> DistanceRows:
    """The same, all computed at once if they are few: a long search asks for them many times."""
    space = SquaredDistances(points, at)
    kept = space.dtype.itemsize * space.n_candidates * space.n <= KEPT_BYTES
    return space.matrix() if kept else space


def _squares(points: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->i", points, points))


# ---- Distances as whole numbers of a step, none above a cap: their sums are exact ----------------
#
# A private search adds distances up, and one point of the demand may change such a sum by at most
# the cap. That must hold for the numbers that are computed, not only for the exact ones. So
# distances are capped and rounded down to a step, a power of two of about cap / 2^20, and counted
# in steps: these are whole numbers below 2^21, which float32 holds. Sums of fewer than 2^31 of them
# are exact.

STEPS = 20  # bits: the cap has between 2^20 and 2^21 steps
PIVOTS = 16  # points from which distances are measured, for a bound on all
BLOCK_BYTES = 2**26
EXACT_WORK = 2**37  # multiplications up to which all distances are computed


@dataclass(frozen=True, eq=False)
class CappedDistances:
    """The distances of a space, capped and in steps. Pre: cap > 0."""

    space: MetricSpace
    cap: float

    @property
    def step(self) -> float:
        return math.ldexp(1.0, math.frexp(self.cap)[1] - 1 - STEPS)

    @cached_property
    def _space(self) -> MetricSpace:
        return self.space.capped(self.cap, self.step)

    def matrix(self, candidates: Ints, points: Ints) -> DistanceMatrix:
        """In steps, from candidates (rows) to points (columns), which are numbers of points."""
        out = np.empty((len(candidates), len(points)), dtype=np.float32)
        space = self._space
        if isinstance(space, DistanceRows):
            at = space.measured_at(points)
            for part in _blocks(len(candidates), len(points)):
                out[part] = self._in_steps(at.distances(candidates[part]))
        elif len(candidates) <= len(points):
            for part in _blocks(len(candidates), space.n):
                out[part] = self._in_steps(space.distances(candidates[part])[:, points])
        else:
            for part in _blocks(len(points), space.n):
                out[:, part] = self._in_steps(space.distances(points[part])[:, candidates]).T
        return DistanceMatrix(out)

    def _in_steps(self, distances: Floats) -> Floats:
        capped = np.minimum(distances.astype(np.float64), self.cap)
        return np.asarray(np.floor(capped / self.step), dtype=np.float32)


def farthest(space: MetricSpace, rng: np.random.Generator) -> float:
    """A number that about no distance exceeds; the largest distance, if that is quickly computed.

    Otherwise twice the least, over a few points, of the distance to the farthest point: in a metric
    this is a bound. Infinite distances do not count.
    """
    n, exact = space.n, space.pass_work <= EXACT_WORK
    points = np.arange(n) if exact else rng.permutation(n)[:PIVOTS].astype(np.int64)
    far, connected = np.zeros(len(points)), True
    for part in _blocks(len(points), n):
        distances = space.distances(points[part])
        finite = np.isfinite(distances)
        connected = connected and bool(finite.all())
        far[part] = np.where(finite, distances, 0.0).max(axis=1)
    if exact:
        return float(far.max(initial=0.0))
    bound = 2.0 * float(far.min() if connected else far.max())
    return min(bound, 2.0) if space.half_squares else bound


def _blocks(rows: int, columns: int) -> list[slice]:
    size = max(1, BLOCK_BYTES // (8 * max(1, columns)))
    return [slice(i, i + size) for i in range(0, rows, size)]
