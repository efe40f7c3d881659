"""k-median++ in any metric: k-means++ (Arthur and Vassilvitskii 2007) without the squares.

A potential and a density for `sampler.sample`. Centres are indices of points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, TwoNearest
from kvariates.numerics.draws import draw_proportional
from kvariates.seeding.sampler import sample


class MedoidPotential:
    """weight * distance to the nearest centre so far; points out of reach go before all others."""

    def __init__(self, space: MetricSpace, weight: F64 | None, k: int) -> None:
        self.points, self.weight = space, weight
        self._centers = np.empty(k, dtype=np.int64)
        self._known = 0
        self._near: TwoNearest | None = None

    @property
    def centers(self) -> Ints:
        return self._centers[: self._known]

    def add(self, centers: Ints) -> None:
        for center in centers:
            self._centers[self._known] = center
            self._known += 1
            self._near = (
                self.points.two_nearest(self.centers)
                if self._near is None
                else self.points.update_two_nearest(self._near, self.centers, self._known - 1)
            )

    def total(self) -> float:
        """Infinite if a point with weight is out of reach."""
        weight = np.ones(self.points.n) if self.weight is None else self.weight
        if self._near is None:
            return float(weight.sum())
        cost = np.where(weight > 0, self._near.cost.astype(np.float64), 0.0)
        return float((cost * weight).sum())

    def draw(self, rng: np.random.Generator) -> int:
        return int(draw_proportional(self._share(), 1, rng)[0])

    def add_best(self, candidates: Ints) -> int:
        """Take in the candidate that lowers the potential most; which one that is."""
        cost = np.inf if self._near is None else self._near.cost
        weight = np.ones(self.points.n) if self.weight is None else self.weight
        rows = np.where(weight > 0, np.minimum(cost, self.points.distances(candidates)), 0.0)
        lost = ~np.isfinite(rows)
        out = (lost * weight).sum(axis=1)  # of reach: what counts before all costs
        left = (np.where(lost, 0.0, rows) * weight).sum(axis=1)
        left[out > out.min()] = np.inf
        # Two points that leave one another over tie but for rounding: the first drawn wins.
        best = int(np.argmax(left <= left.min() * (1 + 1e-12)))
        self.add(candidates[best : best + 1])
        return best

    def flush(self) -> None:
        """Nothing is ever pending."""

    def _share(self) -> F64:
        """Weight * cost; weight alone without centres, or if every point lies on one already."""
        weight = np.ones(self.points.n) if self.weight is None else self.weight
        if self._near is None:
            return weight
        cost = self._near.cost.astype(np.float64)
        lost = ~np.isfinite(cost) & (weight > 0)
        if lost.any():
            return np.where(lost, weight, 0.0)
        share = np.where(weight > 0, cost, 0.0) * weight
        return share if share.any() else weight


@dataclass(frozen=True)
class PointIndex:
    """The picked point is the centre, by its number."""

    def sample(
        self, points: MetricSpace, picked: Ints, weight: F64 | None, rng: np.random.Generator
    ) -> Ints:
        return picked


def kmedian_plusplus(
    space: MetricSpace, k: int, weight: F64 | None, trials: int, rng: np.random.Generator
) -> Ints:
    """As many different points as asked for, each by weight * distance to those before it."""
    potential = MedoidPotential(space, weight, k)
    drawn = sample(potential, PointIndex(), k, rng, trials=trials).indices
    first = np.sort(np.unique(drawn, return_index=True)[1])
    if len(first) == k:
        return drawn
    # Once every point lies on a centre, one may be drawn again: any other point will do.
    others = np.setdiff1d(np.arange(space.n), drawn)
    return np.concatenate([drawn[first], rng.permutation(others)[: k - len(first)]])
