"""Algorithm 0 under any distortion: D_t is the divergence to the nearest centre so far.

A probe and a density for `sampler.kvariates`; the loop is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Rows, total_cost
from kvariates.objectives.distortion import Distortion


class DivergencePotential:
    """One pass a centre: the bounds that spare a Euclidean potential its passes do not hold here.

    Centres go in and out in the user's coordinates; D is measured on prepared rows.
    Pre: weight is None (all ones) or float64, non-negative, not all zero.
    """

    def __init__(self, space: Rows, weight: F64 | None, k: int, distortion: Distortion) -> None:
        self.around, self.weight = space, weight
        self.centers = np.empty((k, space.d))
        self._known = self._absorbed = 0
        self._distortion = distortion
        self._rows = distortion.prepare(space.X)
        self._cost = np.full(space.n, np.inf)
        self._running: F64 | None = None  # sums of weight * cost up to each row

    def add(self, center: F64) -> None:
        """Take a centre into account, once that is needed."""
        self.centers[self._known] = center
        self._known += 1

    def draw(self, rng: np.random.Generator) -> int:
        """A row, with probability proportional to weight * cost (to weight alone at first)."""
        self.settle()
        if self._running is None:
            self._running = np.cumsum(self._share())
        row = int(np.searchsorted(self._running, rng.random() * self._running[-1], side="right"))
        # A product that was rounded up to the total belongs to the last row of positive share.
        return min(row, int(np.searchsorted(self._running, self._running[-1])))

    def settle(self) -> None:
        """Absorb what is pending: costs are exact afterwards."""
        for center in self.centers[self._absorbed : self._known]:
            self._absorb(self._measure(center))

    def add_best(self, candidates: F64) -> int:
        """Take in the candidate that lowers the potential most; which one that is."""
        self.settle()
        costs = [self._measure(center) for center in candidates]
        left = [total_cost(np.minimum(self._cost, cost), self.weight) for cost in costs]
        best = int(np.argmin(left))
        self.add(candidates[best])
        self._absorb(costs[best])
        return best

    def _measure(self, center: F64) -> F64:
        prepared = self._distortion.prepare(center[None])[0]
        cost = self._distortion.divergence(self._rows, prepared)
        if self.weight is not None:
            cost[self.weight == 0] = 0.0  # such a row may be infinitely far; it counts for nothing
        return cost

    def _absorb(self, cost: F64) -> None:
        np.minimum(self._cost, cost, out=self._cost)
        self._absorbed += 1
        self._running = None

    def _share(self) -> F64:
        """Weight * cost; weight alone without centres, or if every row lies on one already."""
        if self._absorbed:
            share = self._cost if self.weight is None else self._cost * self.weight
            if share.any():
                return share
        return np.ones(self.around.n) if self.weight is None else self.weight


@dataclass(frozen=True)
class DivergenceProbe:
    """The distortion is measured at every row. Pre: it is fitted."""

    distortion: Distortion
    pointwise: ClassVar[bool] = True

    def potential(self, space: Rows, weight: F64 | None, k: int) -> DivergencePotential:
        return DivergencePotential(space, weight, k, self.distortion)


@dataclass(frozen=True)
class DivergenceDirac:
    """The picked row is the centre, or (KL, a row with zeros) what the distortion makes of it."""

    distortion: Distortion
    pointwise: ClassVar[bool] = True

    def sample(
        self, space: Rows, rows: NDArray[np.int64], weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        return self.distortion.seed(space.X, rows)

    def mean(self, space: Rows, weight: F64 | None) -> F64:
        return self.distortion.seed(space.X, np.arange(space.n))

    def trace(self, space: Rows, weight: F64 | None) -> F64:
        return np.zeros(space.n)
