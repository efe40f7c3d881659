"""Sums as exact integers: the result does not depend on who adds, or in which order.

A term below ``2**exponent`` is cut into three limbs, integers of about 30 bits each; what is left
out is at most ``2**(exponent - 93)``. The sums of the limbs are int64 (see native/exact_sums.hpp).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native

F64 = NDArray[np.float64]
Limbs = NDArray[np.int64]
Clusters = slice | NDArray[np.int64]
Integers = NDArray[np.object_]  # Python integers, which have no limit

LIMBS = 3
LEVEL_BITS = 92
MIDDLE = 2**31 - 1  # a middle or low limb without carry
MOST_DIGITS = 62  # of a term of `NarrowSums`
FEWEST_DIGITS = 31  # in which `NarrowSums` counts: `limbs` needs a bit below the high limb
SMALLEST = -900  # exponent; smaller terms would leave the range of float64
LARGEST = 2.0**990  # of terms: above it, sums and the constants that cut terms could overflow


def exponent_of(largest: float) -> int:
    """The exponent for terms of at most this absolute value."""
    return max(math.frexp(largest)[1], SMALLEST)


class SumTable(Protocol):
    """Exact sums of shape (k, d), in whatever form they are kept."""

    @property
    def exponent(self) -> int: ...

    @property
    def limbs(self) -> Limbs:
        """As those of `ExactSums`."""

    @property
    def values(self) -> F64:
        """The sums rounded to float64: a new array."""

    def part(self, clusters: Clusters) -> SumTable: ...

    def __add__(self, other: SumTable) -> ExactSums:
        """Pre: both have the same exponent."""


@dataclass(frozen=True, eq=False)
class ExactSums:
    """A table of sums. `limbs` has the shape (levels, k, 3, d), the coarsest level first."""

    limbs: Limbs
    exponent: int

    @property
    def values(self) -> F64:
        """The sums rounded to float64, of shape (k, d)."""
        levels, k, _, d = self.limbs.shape
        parts = np.empty((levels, k, d))
        for level in range(levels):
            exponent = self.exponent - LEVEL_BITS * level
            _native.round_limbs(self.limbs[level], exponent, parts[level])
        total: F64 = parts[0] if levels == 1 else parts[::-1].sum(axis=0)
        return total

    @property
    def integers(self) -> Integers:
        """The sums in units of 2**-1074, of shape (k, d). Unlike limbs, they can grow forever."""
        total: Integers = np.zeros(self.limbs.shape[1::2], object)
        for level, limbs in enumerate(self.limbs.astype(object)):
            unit = self.exponent - LEVEL_BITS * (level + 1)  # not below -1074: see `exponent_of`
            high, middle, low = limbs.swapaxes(0, 1)
            total = total + (((high << 62) + (middle << 31) + low) << (unit + 1074))
        return total

    def part(self, clusters: Clusters) -> ExactSums:
        return ExactSums(self.limbs[:, clusters], self.exponent)

    def __add__(self, other: SumTable) -> ExactSums:
        return ExactSums(self.limbs + other.limbs, self.exponent)

    def at_exponent(self, exponent: int) -> ExactSums:
        """The same sums in a coarser unit; digits below it are lost. Pre: one level, one row."""
        by = exponent - self.exponent
        if by == 0:
            return self
        totals = [total >> by for total in whole(self.limbs[0, 0].T)]
        limbs = [(total >> 62, total >> 31 & MIDDLE, total & MIDDLE) for total in totals]
        return ExactSums(np.array(limbs, dtype=np.int64).T[None, None].copy(), exponent)


@dataclass(frozen=True, eq=False)
class NarrowSums:
    """A table of sums of terms with few digits, in half the memory: 96 bits each.

    A sum is ``(high << 64) + low``, in units of ``2**(exponent - digits)``.
    """

    low: NDArray[np.uint64]  # (k, d)
    high: NDArray[np.int32]
    exponent: int
    digits: int

    @classmethod
    def zeros(cls, k: int, d: int, exponent: int, digits: int) -> NarrowSums:
        """Pre: terms have at most `digits` digits, and these are at most `MOST_DIGITS`."""
        low, high = np.zeros((k, d), dtype=np.uint64), np.zeros((k, d), dtype=np.int32)
        return cls(low, high, exponent, max(digits, FEWEST_DIGITS))

    @property
    def values(self) -> F64:
        """The sums rounded to float64, of shape (k, d)."""
        out = np.empty(self.low.shape)
        _native.round_narrow(self.low, self.high, self.digits, self.exponent, out)
        return out

    def part(self, clusters: Clusters) -> NarrowSums:
        return replace(self, low=self.low[clusters], high=self.high[clusters])

    @property
    def limbs(self) -> Limbs:
        """Of the same sums as `ExactSums`: a new array."""
        below = self.digits - 30  # bits below the high limb
        high = self.high.astype(np.int64) << 64 - below
        high += (self.low >> np.uint64(below)).astype(np.int64)
        rest = (self.low & np.uint64(2**below - 1)).astype(np.int64) << 62 - below
        return np.stack([high, rest >> 31, rest & MIDDLE], axis=1)[None]

    def __add__(self, other: SumTable) -> ExactSums:
        return ExactSums(self.limbs, self.exponent) + other


def cut(terms: F64, exponent: int) -> Limbs:
    """The limbs of terms, of shape (n, 3), as the kernels cut them."""
    out = np.empty((len(terms), LIMBS), dtype=np.int64)
    rest = terms
    for limb, bits in enumerate((30, 61, 92)):
        magic = np.array(math.ldexp(1.5, 52 + exponent - bits))
        rounded = rest + magic
        out[:, limb] = rounded.view(np.int64) - magic.view(np.int64)
        rest = rest - (rounded - magic)
    return out


def carry_digits(limbs: Limbs) -> Limbs:
    """The same sums, of shape (..., 3, d), with middle and low limbs from 0 to 2^31 - 1."""
    high, middle, low = (limbs[..., limb, :] for limb in range(LIMBS))
    middle = middle + (low >> 31)
    high = high + (middle >> 31)
    return np.stack([high, middle & MIDDLE, low & MIDDLE], axis=-2)


def share_of(total: int, u: float) -> int:
    """The integer at the fraction u of [0, total), for u in [0, 1)."""
    return int(u * 2**53) * total >> 53


def unscaled(total: int, exponent: int) -> float:
    """A sum in units of ``2**(exponent - 92)``, rounded to float64."""
    return math.ldexp(float(total), exponent - 92)


def whole(limbs: Limbs) -> list[int]:
    """The sums of limbs of shape (k, 3), in units of ``2**(exponent - 92)``."""
    return [(high << 62) + (middle << 31) + low for high, middle, low in limbs.tolist()]


def exact_total(terms: F64, weight: F64 | None = None) -> int:
    """Sum of (weighted) float64 terms, as an exact number of units of 2**-1074."""
    bins = _native.exact_bins(terms, weight)
    return sum(int(b) << (32 * i) for i, b in enumerate(bins.tolist()))


def exact_total_of_pieces(pieces: NDArray[np.int64]) -> int | None:
    """The `exact_total` of terms whose mantissas were added up by exponent, in pieces of 16 bits.

    `pieces` has the shape (2048, 4), of biased exponents. None if a term was not finite.
    """
    if pieces[2047].any():
        return None
    used = np.flatnonzero(pieces.any(axis=1)).tolist()
    total = 0
    for e in used:
        total += sum(p << 16 * i for i, p in enumerate(pieces[e].tolist())) << max(e - 1, 0)
    return total


def to_float(total: int) -> float:
    """The float64 nearest to an `exact_total`."""
    return total / (1 << 1074)


def from_float(value: float) -> int:
    """The inverse of `to_float`. Pre: the value is finite."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator << 1074) // denominator  # a power of two, at most 2**1074
