"""Draws in proportion to given masses."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

TOO_LARGE = (
    "Some values or weights are too large (weighted squared distances overflow float64). "
    "Scale X, e.g. divide it by abs(X).max(), and divide the weights by their mean."
)


class CumulativeMass:
    """Running sums of non-negative masses, to draw from more than once.

    The edge rule: a draw that rounding carries to the end of the sums is the last index that adds
    to them. If all masses are zero, every draw is index 0.
    """

    def __init__(self, mass: F64) -> None:
        self._sums = np.cumsum(mass)
        if len(mass) and not np.isfinite(self._sums[-1]):
            raise ValueError(TOO_LARGE)

    def draw(self, size: int, rng: np.random.Generator) -> I64:
        """Draw `size` indices with replacement."""
        if size == 0:  # the only draw from no masses
            return np.empty(0, dtype=np.int64)
        sums = self._sums
        drawn: I64 = np.searchsorted(sums, rng.random(size) * sums[-1], side="right")
        drawn[drawn == len(sums)] = np.searchsorted(sums, sums[-1])
        return drawn


def draw_proportional(mass: F64, size: int, rng: np.random.Generator) -> I64:
    """Draw `size` indices with replacement, in proportion to `mass`."""
    return CumulativeMass(mass).draw(size, rng)


class WeightedSample(NamedTuple):
    indices: I64
    weight: F64


def priority_sample(mass: F64, size: int, rng: np.random.Generator) -> WeightedSample:
    """`size` different indices, with weights whose sums estimate sums of `mass` without bias.

    Priority sampling (Duffield, Lund and Thorup 2007): the priority of i is mass[i] / uniform, and
    the highest priorities are taken. A taken index has the weight max(mass[i], t), where t is the
    highest priority that was not taken. So an index far heavier than the others is taken almost
    surely, with its own mass, and equal masses give a uniform sample.
    Pre: 0 < size < len(mass), not all masses are zero.
    """
    unit = mass.max()
    priority = (mass / unit) / (1.0 - rng.random(len(mass)))  # the divisor is in (0, 1]
    order = np.argpartition(priority, len(mass) - size - 1)
    taken = np.sort(order[len(mass) - size :])
    threshold = priority[order[len(mass) - size - 1]]
    return WeightedSample(taken, unit * np.maximum(mass[taken] / unit, threshold))
