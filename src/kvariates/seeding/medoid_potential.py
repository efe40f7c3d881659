"""k-median++ in any metric: k-means++ (Arthur and Vassilvitskii 2007) without the squares.

A probe and a density for `sampler.kvariates`; the loop is the same. Centres are points' numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, TwoNearest
from kvariates.seeding.sampler import Recipe, kvariates


class MedoidPotential:
    """weight * distance to the nearest centre so far; points out of reach go before all others."""

    def __init__(self, space: MetricSpace, weight: F64 | None, k: int) -> None:
        self.around: Any = space
        self.weight = weight
        self.centers: Any = np.empty(k, dtype=np.int64)
        self._known = 0
        self._near: TwoNearest | None = None

    def add(self, center: Any) -> None:
        self.centers[self._known] = center
        self._known += 1
        chosen = self.centers[: self._known]
        self._near = (
            self.around.two_nearest(chosen)
            if self._near is None
            else self.around.swapped(self._near, chosen, self._known - 1)
        )

    def draw(self, rng: np.random.Generator) -> int:
        sums = np.cumsum(self._share())
        place = int(np.searchsorted(sums, rng.random() * sums[-1], side="right"))
        # A product that was rounded up to the total belongs to the last point of positive share.
        return min(place, int(np.searchsorted(sums, sums[-1])))

    def add_best(self, candidates: Any) -> int:
        """Take in the candidate that lowers the potential most; which one that is."""
        cost = np.inf if self._near is None else self._near.cost
        weight = np.ones(self.around.n) if self.weight is None else self.weight
        rows = np.where(weight > 0, np.minimum(cost, self.around.distances(candidates)), 0.0)
        lost = ~np.isfinite(rows)
        out = (lost * weight).sum(axis=1)  # of reach: what counts before all costs
        left = (np.where(lost, 0.0, rows) * weight).sum(axis=1)
        left[out > out.min()] = np.inf
        # Two points that leave one another over tie but for rounding: the first drawn wins.
        best = int(np.argmax(left <= left.min() * (1 + 1e-12)))
        self.add(candidates[best])
        return best

    def settle(self) -> None:
        """Nothing is ever pending."""

    def _share(self) -> F64:
        """Weight * cost; weight alone without centres, or if every point lies on one already."""
        weight = np.ones(self.around.n) if self.weight is None else self.weight
        if self._near is None:
            return weight
        cost = self._near.cost.astype(np.float64)
        lost = ~np.isfinite(cost) & (weight > 0)
        if lost.any():
            return np.where(lost, weight, 0.0)
        share = np.where(weight > 0, cost, 0.0) * weight
        return share if share.any() else weight


@dataclass(frozen=True)
class MedoidProbe:
    """The distance is measured at every point."""

    pointwise: ClassVar[bool] = False

    def potential(self, space: Any, weight: F64 | None, k: int) -> MedoidPotential:
        return MedoidPotential(space, weight, k)


@dataclass(frozen=True)
class PointIndex:
    """The picked point is the centre, by its number."""

    def sample(self, space: Any, rows: Ints, weight: F64 | None, rng: np.random.Generator) -> Any:
        return rows

    def mean(self, space: Any, weight: F64 | None) -> Any:
        return np.arange(space.n)

    def trace(self, space: Any, weight: F64 | None) -> F64:
        return np.zeros(space.n)


MEDOIDS = Recipe(MedoidProbe(), PointIndex())


def kmedian_plusplus(
    space: MetricSpace, k: int, weight: F64 | None, trials: int, rng: np.random.Generator
) -> Ints:
    """As many different points as asked for, each by weight * distance to those before it."""
    space_: Any = space
    drawn = kvariates(space_, k, weight, MEDOIDS, trials, rng).indices
    first = np.sort(np.unique(drawn, return_index=True)[1])
    if len(first) == k:
        return drawn
    # Once every point lies on a centre, one may be drawn again: any other point will do.
    others = np.setdiff1d(np.arange(space.n), drawn)
    return np.concatenate([drawn[first], rng.permutation(others)[: k - len(first)]])
