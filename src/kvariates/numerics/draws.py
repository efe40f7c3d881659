"""Draws in proportion to given masses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

TOO_LARGE = (
    "Weighted squared distances leave the range of float64; rescale the features, e.g. with "
    "StandardScaler, and divide the weights by their mean."
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
