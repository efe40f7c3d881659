"""The lattice of private sums: its points in a ball, and how far one of them moves a sum.

The step is a power of two, and the sums of n_max points stay below 2^53 steps. So float64 adds such
points without any rounding error, in any order. (Noise that hides an exact sum would not hide the
rounding error of a float sum, which depends on every row.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
