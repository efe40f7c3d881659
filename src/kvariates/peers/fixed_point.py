"""Numbers of several parties as integers, so that masks mod 2^64 cancel exactly in their sum.

Party i has values from 0 to 2**e_i. The parties agree on the least E with

    2**e_1 + ... + 2**e_r <= 2**E,    and on the unit 2**(E - 62).

A value is rounded to the nearest multiple of the unit, so the sum of r values is below 2^63 units,
and its error is at most r 2**(E - 63). (A float64 near 2**E has an error of 2**(E - 54) already.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.exact_sums import SMALLEST, exponent_of

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]

BITS = 62
HALF = 32  # bits
LOW = np.int64(2**HALF - 1)
SLACK = 1 + 2.0**-20  # rounding of computed distances, relative


@dataclass(frozen=True)
class FixedPoint:
    """The common unit of `parties` parties: their values add up to at most 2**exponent."""

    exponent: int
    parties: int

    @classmethod
    def agreed(cls, exponents: Sequence[int]) -> FixedPoint:
        """From the `bound_exponent` of each party."""
        least = min(exponents)
        total = sum(1 << (e - least) for e in exponents)
        return cls(least + (total - 1).bit_length(), len(exponents))

    @property
    def error(self) -> float:
        """The largest error of a sum, one value a party."""
        return math.ldexp(self.parties, self.exponent - BITS - 1)

    @property
    def largest(self) -> int:
        """The largest sum, in units."""
        return (1 << BITS) + self.parties

    def encode(self, values: F64) -> U64:
        """Values in units. Pre: from 0 to the bound of this party."""
        scaled = values * math.ldexp(1.0, BITS - self.exponent)  # a power of two: exact
        return np.rint(scaled, out=scaled).astype(np.int64).view(np.uint64)

    def decode(self, sums: I64) -> F64:
        """Sums in units as float64."""
        return sums.astype(np.float64) * math.ldexp(1.0, self.exponent - BITS)

    def decode_total(self, total: int) -> float:
        """An integer of any size, in units, as float64."""
        return math.ldexp(float(total), self.exponent - BITS)


def bound_exponent(low: F64, high: F64) -> int:
    """An exponent e, so that squared distances between points of a box are below 2**e.

    A mean of rows may be outside the box by some units in the last place. ValueError if float64
    cannot hold the squares.
    """
    last_place = np.spacing(np.maximum(np.abs(low), np.abs(high)))
    with np.errstate(over="ignore"):
        sides = high - low + 4 * last_place
        bound = float(np.einsum("i,i->", sides, sides)) * SLACK
    if not math.isfinite(bound):
        raise ValueError("squared distances overflow float64")
    return exponent_of(bound) if bound > 0 else SMALLEST


def exact_sum(values: I64) -> int:
    """The sum of integers that int64 may be too small for. Pre: below 2^31 of them, none < 0."""
    return (int((values >> HALF).sum()) << HALF) + int((values & LOW).sum())


def row_at(masses: I64, goal: int) -> int:
    """The row at which the running sum passes the goal. Pre: 0 <= goal < exact_sum(masses)."""
    high, low = np.cumsum(masses >> HALF), np.cumsum(masses & LOW)
    high += low >> HALF
    low &= LOW
    first, last = (
        np.searchsorted(high, goal >> HALF, "left"),
        np.searchsorted(high, goal >> HALF, "right"),
    )
    return int(first + np.searchsorted(low[first:last], goal & int(LOW), side="right"))
