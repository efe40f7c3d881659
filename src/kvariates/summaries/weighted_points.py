"""Weighted points, and reductions of them to few, whose cost is close for any k centres: coresets.

    label  = the nearest of a few rough centres, for every point
    score  = share of the point in the cost, plus its share in the weight of all points,
             plus its share in the weight of its cluster / 4 clusters
    points of a score >= tau are kept as they are
    all others are grouped by cluster and by cost and cut into cells of about equal score;
    one point of a cell is drawn by weight, and gets the weight of the whole cell

The score is an upper bound of the sensitivity, up to a constant (Bachem, Lucic and Krause 2017):
the largest share of the cost that a point has for any centres. Independent draws by score need
weights that are not exact sums. Cells conserve the total weight exactly, and the expected new
weight of every point is its weight. So the cost of any centres is estimated without bias, through
any number of reductions. A cell holds similar points, so its error is smaller than that of an
independent draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.cluster_sums import SumsByLabel, SumScale
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Rows, draw_cells, joint_cost
from kvariates.seeding.sampler import Dirac, euclidean_potential, sample
from kvariates.seeding.seedings import draw_round

SEED_ROWS = 2**12  # of which the rough centres are drawn: all rows would take as long as the rest
State = dict[str, Any]  # plain arrays, numbers, strings, and lists and dicts of them


@dataclass(frozen=True, eq=False)
class WeightedPoints:
    """Points and their weights, for example rows and how many rows each stands for."""

    points: Any  # dense or CSR, float32 or float64
    weights: F64  # positive

    @classmethod
    def of(cls, X: Any, weight: F64 | None) -> WeightedPoints:
        """The rows of positive weight. Weight None: one each."""
        if weight is None:
            return cls(X, np.ones(X.shape[0]))
        return cls(X, weight).positive()

    @classmethod
    def joined(cls, parts: Sequence[WeightedPoints]) -> WeightedPoints:
        """Pre: there is a part, and all have the same features and dtype."""
        parts = [part for part in parts if part.n] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        points = [part.points for part in parts]
        weights = np.concatenate([part.weights for part in parts])
        if sparse.issparse(points[0]):
            return cls(sparse.vstack(points, format="csr"), weights)
        return cls(np.concatenate(points), weights)

    @property
    def n(self) -> int:
        return len(self.weights)

    @property
    def data(self) -> HostData:
        """These points as data of a fit."""
        return HostData(Rows.of(self.points), self.weights)

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def mean(self) -> F64:
        """The weighted mean, of shape (1, d)."""
        rows, label = self.data.rows, np.zeros(self.n, dtype=np.int32)
        scale = SumScale.of(rows, self.weights)
        return SumsByLabel(rows, self.weights, label, 1, scale).values / self.total

    def variance(self) -> float:
        """The mean over the features of their weighted variance."""
        rows, label = self.data.rows, np.zeros(self.n, dtype=np.int32)
        cost = joint_cost([(rows.costs(self.mean(), label), self.weights)])
        return cost / (self.total * rows.d)

    def take(self, indices: Any) -> WeightedPoints:
        """A copy of the points at these indices, or in this slice."""
        if isinstance(indices, slice) or sparse.issparse(self.points):
            return WeightedPoints(self.points[indices].copy(), self.weights[indices].copy())
        # For whole rows this is several times faster than an index.
        return WeightedPoints(self.points.take(indices, axis=0), self.weights.take(indices))

    def positive(self) -> WeightedPoints:
        """Without the points of weight zero."""
        if self.weights.all():
            return self
        return self.take(np.flatnonzero(self.weights))

    def scaled(self, factor: float) -> WeightedPoints:
        """All weights times a factor. Points whose weight vanishes are dropped."""
        return WeightedPoints(self.points, self.weights * factor).positive()

    def to_dict(self) -> State:
        X = self.points
        if not sparse.issparse(X):
            return {"points": X, "weights": self.weights}
        csr = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": list(X.shape)}
        return {"csr": csr, "weights": self.weights}

    @classmethod
    def from_dict(cls, state: State) -> WeightedPoints:
        if "points" in state:
            return cls(state["points"], state["weights"])
        csr = state["csr"]
        parts = csr["data"], csr["indices"], csr["indptr"]
        return cls(sparse.csr_array(parts, shape=tuple(csr["shape"])), state["weights"])


@dataclass(frozen=True)
class SummaryOptions:
    """At most `size` points, made for k clusters. Pre: size >= 4, k >= 1."""

    size: int
    k: int


Reduction = Callable[[WeightedPoints, SummaryOptions, np.random.Generator], WeightedPoints]
"""At most `size` of the points, with the same total weight; all of them if they are no more."""


def coreset(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> WeightedPoints:
    """Reduce by cells around k rows of a sample, drawn by D^2; fewer if there is no room for k.

    A cluster that they miss costs much, so it has a large share of the scores.
    """
    if points.n <= options.size:
        return points
    few = points
    if points.n > SEED_ROWS:
        few = points.take(np.sort(rng.choice(points.n, SEED_ROWS, replace=False)))
    k = max(1, min(options.k, options.size // 4))
    centers = sample(euclidean_potential(few.data, k), Dirac(), k, rng).centers
    return _reduced(points, centers, options.size, rng)


def lightweight(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> WeightedPoints:
    """Reduce by cells around the mean (Bachem, Lucic and Krause 2018): faster, less accurate."""
    if points.n <= options.size:
        return points
    return _reduced(points, points.mean(), options.size, rng)


def _reduced(
    points: WeightedPoints, centers: F64, size: int, rng: np.random.Generator
) -> WeightedPoints:
    drawn = draw_cells(points.data.rows, points.weights, centers, size, rng)
    return replace(points.take(drawn.rows), weights=drawn.weights)


# ---- Ailon, Jaiswal and Monteleoni 2009: 3 ln k rows in each of k rounds, drawn by D^2
#
# candidates = ceil(3 ln k) rows, drawn by weight
#     in each of k - 1 rounds:  add ceil(3 ln k) rows, drawn by weight * D^2
#     weigh every candidate by the rows nearest to it
#
# The paper draws the first rows uniformly; with weights that means by weight.


def kmeans_sharp(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> WeightedPoints:
    """Reduce to k * ceil(3 ln k) points, or to `size` if that is less."""
    per_round = draws_per_round(options.k)
    most = min(options.size, options.k * per_round)
    if points.n <= most:
        return points
    rows = points.data
    potential = euclidean_potential(rows, most)
    first = [potential.draw(rng) for _ in range(min(per_round, most))]
    taken = [np.unique(np.array(first, dtype=np.int64))]
    potential.add(rows.take(taken[0]))
    for drawn in range(per_round, most, per_round):
        taken.append(draw_round(potential, min(per_round, most - drawn), rng))
        potential.add(rows.take(taken[-1]))
    masses = potential.masses()
    used = np.flatnonzero(masses)
    return WeightedPoints(points.points[np.concatenate(taken)[used]], masses[used])


def draws_per_round(k: int) -> int:
    """The number of draws of a round."""
    return max(1, math.ceil(3 * math.log(k)))
