"""The seedings of k-median, by the names they have in ``KMedian(init=...)``.

k-median++ is k-means++ (Arthur and Vassilvitskii 2007) without the squares, in any metric: a
potential and a density for `sampler.sample`. Centres are numbers of points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kvariates.data.hst_tree import hst_seed
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, TwoNearest
from kvariates.numerics.draws import draw_proportional
from kvariates.seeding.sampler import Potential, sample
from kvariates.tables import Entry, Table


class MedoidPotential(Potential):
    """Weight * distance to the nearest centre so far.

    While some points of positive weight are infinitely far from all centres, only these are drawn,
    by weight.
    """

    def __init__(self, space: MetricSpace, weight: F64 | None, k: int) -> None:
        super().__init__(np.empty(k, dtype=np.int64))
        self.points, self.weight = space, weight
        self._mass = np.ones(space.n) if weight is None else weight
        self._near: TwoNearest | None = None

    def add(self, centers: Ints) -> None:
        for center in centers:
            super().add(center[None])
            self._near = (
                self.points.two_nearest(self.centers)
                if self._near is None
                else self.points.update_two_nearest(self._near, self.centers, self._known - 1)
            )

    def total(self) -> float:
        """Infinite if a point of positive weight is infinitely far from all centres."""
        mass = self._mass if self._near is None else self._cost() * self._mass
        return float(mass.sum())

    def draw(self, rng: np.random.Generator) -> int:
        cost = self._cost()
        infinite = np.isinf(cost)
        share = (infinite if infinite.any() else cost) * self._mass
        return int(draw_proportional(share if share.any() else self._mass, 1, rng)[0])

    def add_best(self, candidates: Ints) -> int:
        after = np.minimum(self._cost(), self.points.distances(candidates))
        infinite = ~np.isfinite(after)
        unreached = (infinite * self._mass).sum(axis=1)
        left = (np.where(infinite, 0.0, after) * self._mass).sum(axis=1)
        left[unreached > unreached.min()] = np.inf
        # Candidates whose totals differ only by rounding tie: the first drawn wins.
        best = int(np.argmax(left <= left.min() * (1 + 1e-12)))
        self.add(candidates[best : best + 1])
        return best

    def _cost(self) -> F64:
        """The distance of every point to its nearest centre; 0 for points without weight."""
        if self._near is None:
            return np.where(self._mass > 0, np.inf, 0.0)
        return np.where(self._mass > 0, self._near.cost.astype(np.float64), 0.0)


@dataclass(frozen=True)
class PointIndex:
    """The density that returns the number of the picked point as the centre."""

    def sample(
        self, points: object, picked: Ints, weight: F64 | None, rng: np.random.Generator
    ) -> Ints:
        return picked


def kmedian_plusplus(
    space: MetricSpace, k: int, weight: F64 | None, trials: int, rng: np.random.Generator
) -> Ints:
    """K different points, each drawn by weight * distance to those before it."""
    potential = MedoidPotential(space, weight, k)
    drawn = sample(potential, PointIndex(), k, rng, trials=trials).indices
    first = np.sort(np.unique(drawn, return_index=True)[1])
    if len(first) == k:
        return drawn
    # If all points coincide with centres, a point can be drawn twice: any other point will do.
    others = np.setdiff1d(np.arange(space.n), drawn)
    return np.concatenate([drawn[first], rng.permutation(others)[: k - len(first)]])


MedoidSeeding = Callable[[MetricSpace, int, F64 | None, np.random.Generator], Ints]
"""Takes a space, k, the weights of its points and randomness; returns k different points."""

MEDOID_SEEDINGS: Table[MedoidSeeding] = Table(
    "init",
    {
        "hst": Entry(
            lambda space, k, weight, rng: hst_seed(space, k, weight, 1, rng),
            "Points chosen on a random tree over all points.",
            theorem="The expected cost is O(log n) times the optimum (Fan et al. 2023).",
        ),
        "k-median++": Entry(
            lambda space, k, weight, rng: kmedian_plusplus(space, k, weight, 1, rng),
            "Points drawn in proportion to their distance to those drawn before.",
            theorem="The expected cost is O(log k) times the optimum (Arthur, Vassilvitskii 2007).",
        ),
        "random": Entry(
            lambda space, k, _, rng: rng.permutation(space.n)[:k].astype(np.int64),
            "Points drawn uniformly.",
            lost="Points drawn uniformly can miss a far cluster.",
        ),
    },
)
