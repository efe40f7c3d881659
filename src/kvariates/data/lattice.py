"""Fixed point: rows on a grid inside their ball, so that sums are exact, and so is their bound.

The step is a power of two and n_max rows' sums stay below 2^53 steps: whatever loop adds such rows
in float64, in whatever order, makes no rounding error. (Noise that hides a real number's sum does
not hide its float's: rounding depends on the order and on every row.) A row is rounded towards zero
and never leaves its ball, checked in integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from kvariates import _native

F64 = NDArray[np.float64]
Labels = NDArray[np.int32]
Ball = Literal["l1", "l2", "linf"]
Adjacency = Literal["add-remove", "replace-one"]

NORMS: dict[Ball, int] = {"linf": 0, "l1": 1, "l2": 2}  # as native/quantize.hpp has them
FEWEST_BITS = 8


@dataclass(frozen=True)
class Lattice:
    """The points of step * Z^d in the ball of radius `bound` (public) around the origin."""

    bound: float
    d: int
    norm: Ball = "l2"
    n_max: int = 2**31

    def __post_init__(self) -> None:
        if not 1e-200 < self.bound < 1e200:
            raise ValueError(f"bound must be a number > 0 of usual size; got {self.bound!r}.")
        if self.norm not in ("l1", "l2", "linf"):
            raise ValueError(f"norm must be 'l1', 'l2' or 'linf'; got {self.norm!r}.")
        if self.d < 1:
            raise ValueError(f"d must be at least 1; got {self.d!r}.")
        if self.n_max < 1 or self.bits < FEWEST_BITS:
            raise ValueError(f"n_max must be in 1..2**{53 - FEWEST_BITS}; got {self.n_max!r}.")

    @property
    def bits(self) -> int:
        """A coordinate takes this many bits, at most."""
        return 53 - (self.n_max - 1).bit_length()

    @cached_property
    def step(self) -> float:
        """A power of two."""
        return math.ldexp(1.0, math.frexp(self.bound)[1] - self.bits)

    @cached_property
    def radius(self) -> int:
        """The ball's radius in steps, rounded down."""
        return math.floor(Fraction(self.bound) / Fraction(self.step))

    @cached_property
    def square(self) -> int:
        """The ball's squared radius in squared steps, rounded down."""
        return math.floor((Fraction(self.bound) / Fraction(self.step)) ** 2)

    def l1(self, adjacency: Adjacency) -> int:
        """How far one row moves the sums, in steps: largest l1 norm. Attained."""
        most = {"l1": self.radius, "linf": self.d * self.radius, "l2": self._widest}[self.norm]
        return most if adjacency == "add-remove" else 2 * most

    def l2_squared(self, adjacency: Adjacency) -> int:
        """The same in l2, squared: within a step of what is attained."""
        most = {"l1": self.radius**2, "linf": self.d * self.radius**2, "l2": self.square}[self.norm]
        return most if adjacency == "add-remove" else 4 * most

    @cached_property
    def _widest(self) -> int:
        """The largest l1 norm of d integers whose squares add up to `square` at most.

        The flattest vector of l1 norm s has the least squares: s = a d + b has b coordinates a + 1
        and d - b coordinates a. Cauchy and Schwarz say s <= sqrt(d square); this is exact.
        """
        low, high = 0, math.isqrt(self.d * self.square)
        while low < high:
            s = (low + high + 1) // 2
            a, b = divmod(s, self.d)
            if b * (a + 1) ** 2 + (self.d - b) * a**2 <= self.square:
                low = s
            else:
                high = s - 1
        return low

    def steps(self, values: F64) -> NDArray[np.int64]:
        """Values on the grid as integers; raises where one is not on it."""
        scaled = np.asarray(values, dtype=np.float64) / self.step
        if not (np.all(np.abs(scaled) <= 2.0**53) and np.all(scaled == np.rint(scaled))):
            raise ValueError("These are no sums of rows that `quantize` put on this grid.")
        return scaled.astype(np.int64)


def quantize(
    rows: NDArray[np.floating], grid: Lattice, center: F64 | None = None, half: F64 | None = None
) -> F64:
    """Rows pulled into the grid's ball and rounded towards zero, each by itself.

    Before that they are moved by -center and clipped to the box of these half sides, if any. The
    result is in the rows' own unit, and exact: every coordinate is a multiple of `grid.step`.
    """
    _few_enough(rows, grid)
    if rows.dtype != np.float32:
        rows = rows.astype(np.float64, copy=False)
    out = np.empty(rows.shape)
    rows = np.ascontiguousarray(rows)
    _native.to_lattice(rows, center, half, NORMS[grid.norm], grid.bound, grid.step, out)
    return out


@dataclass(frozen=True, eq=False)
class Balls:
    """How rows are seen from their centres: (x - center) / radius. Public, or paid for."""

    centers: F64
    radii: F64  # > 0


@dataclass(frozen=True, eq=False)
class LatticeSums:
    """Exact, hence secret. For every label its rows' sums, their number, their squares' sums."""

    totals: F64
    counts: NDArray[np.int64]
    squares: F64  # no rows unless asked for


def lattice_sums(
    rows: F64,
    labels: Labels,
    k: int,
    grid: Lattice,
    frames: Balls | None = None,
    *,
    squares: bool = False,
) -> LatticeSums:
    """Sums by label of rows, seen in their frames, put on the grid as `quantize` does.

    A row with a negative label is in none. Squares (of a unit ball in l2) are rounded down, each
    row's by itself, and are on `Lattice(1.0, d, "l1")`: they add up to 1 at most.
    """
    _few_enough(rows, grid)
    centers, radii = (frames.centers, frames.radii) if frames else (None, None)
    totals, counts = np.empty((k, grid.d)), np.empty(k, dtype=np.int64)
    second = np.empty((k if squares else 0, grid.d))
    _native.lattice_sums(
        rows, labels, centers, radii, NORMS[grid.norm], grid.bound, grid.step,
        totals, counts, second if squares else None,
    )  # fmt: skip
    return LatticeSums(totals, counts, second)


def outside_radius(rows: F64, labels: Labels, frames: Balls) -> NDArray[np.bool_]:
    """Rows farther from their centre than its radius; False where the label is negative."""
    out = np.empty(len(rows), dtype=np.uint8)
    _native.outside_radius(rows, labels, frames.centers, frames.radii, out)
    return out.view(np.bool_)


def _few_enough(rows: NDArray[np.floating], grid: Lattice) -> None:
    if len(rows) > grid.n_max:
        raise ValueError(f"More rows than n_max = {grid.n_max}: their sums might not be exact.")
