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

from kvariates.privacy.ledger import Adjacency

F64 = NDArray[np.float64]
Ball = Literal["l1", "l2", "linf"]

BLOCK = 1 << 16  # values
FEWEST_BITS = 8


@dataclass(frozen=True)
class Grid:
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
            raise ValueError("These are no sums of rows that `fixed` put on this grid.")
        return scaled.astype(np.int64)


def fixed(rows: NDArray[np.floating], grid: Grid) -> F64:
    """Rows pulled into the grid's ball and rounded towards zero, each by itself.

    The result is in the rows' own unit, and exact: every coordinate is a multiple of `grid.step`.
    """
    if len(rows) > grid.n_max:
        raise ValueError(f"More rows than n_max = {grid.n_max}: their sums might not be exact.")
    out = np.empty(rows.shape, dtype=np.float64)
    size = max(1, BLOCK // grid.d)
    for start in range(0, len(rows), size):
        block = np.asarray(rows[start : start + size], dtype=np.float64)
        steps = np.trunc(_pulled(block, grid) / grid.step)
        while (outside := _outside(steps, grid)).any():
            # The float division pulled by a hair too little: one step towards zero.
            steps[outside] -= np.sign(steps[outside])
        out[start : start + size] = steps * grid.step + 0.0  # no -0.0
    return out


def _pulled(x: F64, grid: Grid) -> F64:
    """Rows outside the ball scaled to its surface (linf: clipped), up to rounding."""
    if grid.norm == "linf":
        return np.clip(x, -grid.bound, grid.bound)
    # Divided by the largest coordinate first: squares of large numbers overflow.
    largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), grid.bound)
    y = x / largest
    norm = np.abs(y).sum(axis=1) if grid.norm == "l1" else np.sqrt(np.einsum("ij,ij->i", y, y))
    far = norm * largest[:, 0] > grid.bound
    pulled = x.copy()
    pulled[far] = y[far] * (grid.bound / norm[far])[:, None]
    return pulled


def _outside(steps: F64, grid: Grid) -> NDArray[np.bool_]:
    """Exact: integers below 2^53 are added, and what is above that is outside anyway."""
    sizes = np.abs(steps)
    if grid.norm == "l2":
        return np.asarray(np.einsum("ij,ij->i", steps, steps) > grid.square)
    norms = sizes.sum(axis=1) if grid.norm == "l1" else sizes.max(axis=1)
    return np.asarray(norms > grid.radius)
