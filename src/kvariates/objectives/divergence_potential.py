"""The potential and the density of the sampler under any distortion.

D_t is the divergence to the nearest centre so far.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.data.rows import F64, Rows, total_cost
from kvariates.numerics.draws import I64, CumulativeMass
from kvariates.objectives.distortion import Distortion
from kvariates.seeding.sampler import AddedCenters


class DivergencePotential(AddedCenters):
    """Room for k centres. Each of them costs a pass: bounds of Euclidean distances do not hold.

    Centres are in the user's coordinates; divergences are measured on prepared rows.
    Pre: weight is None (all ones) or float64, non-negative, not all zero.
    """

    def __init__(self, rows: Rows, weight: F64 | None, k: int, distortion: Distortion) -> None:
        super().__init__(k, rows.d)
        self.points, self.weight = rows, weight
        self._flushed = 0  # how many of the added centres the costs know
        self._distortion, self._prepared = distortion, distortion.prepare(rows.X)
        self._cost = np.full(rows.n, np.inf)
        self._mass: CumulativeMass | None = None

    def draw(self, rng: np.random.Generator) -> int:
        self.flush()
        if self._mass is None:
            share = self._share()
            self._mass = CumulativeMass(share if share.any() else self._weights())
        return int(self._mass.draw(1, rng)[0])

    def flush(self) -> None:
        for center in self._centers[self._flushed : self._known]:
            self._lower(self._measure(center))

    def total(self) -> float:
        self.flush()
        return float(np.sum(self._share()))

    def add_best(self, candidates: F64) -> int:
        self.flush()
        costs = [self._measure(center) for center in candidates]
        left = [total_cost(np.minimum(self._cost, cost), self.weight) for cost in costs]
        best = int(np.argmin(left))
        self.add(candidates[best : best + 1])
        self._lower(costs[best])
        return best

    def _measure(self, center: F64) -> F64:
        prepared = self._distortion.prepare(center[None])[0]
        cost = self._distortion.divergence(self._prepared, prepared)
        if self.weight is not None:
            cost[self.weight == 0] = 0.0  # such a row may be infinitely far, but counts for nothing
        return cost

    def _lower(self, cost: F64) -> None:
        np.minimum(self._cost, cost, out=self._cost)
        self._flushed += 1
        self._mass = None

    def _share(self) -> F64:
        """Weight * cost; the weights if there is no centre."""
        if not self._flushed:
            return self._weights()
        return self._cost if self.weight is None else self._cost * self.weight

    def _weights(self) -> F64:
        return np.ones(self.points.n) if self.weight is None else self.weight


@dataclass(frozen=True)
class DivergenceDirac:
    """The picked row is the centre, or (KL, a row with zeros) what the distortion makes of it."""

    distortion: Distortion

    def sample(self, rows: Rows, picked: I64, weight: F64 | None, rng: np.random.Generator) -> F64:
        return self.distortion.seed(rows.X, picked)
