"""Coresets: a few weighted rows whose cost is close to that of all rows, for any k centres.

    near   = the two nearest of a few rough centres, for every point
    score  = share of the point in the cost + its share in the weight of its cluster / clusters
    points of a score >= tau are kept as they are
    all others are sorted by (cluster, second nearest centre, cost) and cut into cells of about
    equal score; one point of a cell is drawn by weight, and gets the weight of the whole cell

The score is an upper bound of the sensitivity, up to a constant (Bachem, Lucic and Krause 2017):
the largest share of the cost that a point has for any centres. Independent draws by score need
weights that are not exact sums. Cells conserve the total weight exactly, and the expected new
weight of every point is its weight. So the cost of any centres is estimated without bias, through
any number of reductions. A cell holds similar points, so its error is smaller than that of an
independent draw.

| reduction | rough centres |
|---|---|
| `coreset` | k / 2 rows, drawn by D^2 |
| `lightweight` | the mean (Bachem, Lucic and Krause 2018): faster, less accurate for clusters |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvariates.data.cluster_sums import SumsByLabel, SumScale
from kvariates.data.rows import F64, Rows, TwoNearest
from kvariates.numerics.draws import I64
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.sampler import sample
from kvariates.summaries.weighted_points import SummaryOptions, WeightedPoints

Mask = NDArray[np.bool_]

SEED_ROWS = 2**14  # of which the rough centres are drawn: all rows would take as long as the rest


def coreset(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> WeightedPoints:
    """Reduce by cells around rough centres."""
    if points.n <= options.size:
        return points
    return reduce_by_cells(points, _drawn_centers(points, options, rng), options.size, rng)


def lightweight(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> WeightedPoints:
    """Reduce by cells around the mean."""
    if points.n <= options.size:
        return points
    rows, label = Rows.of(points.points), np.zeros(points.n, dtype=np.int32)
    scale = SumScale.of(rows, points.weights)
    sums = SumsByLabel(rows, points.weights, label, 1, scale)
    return reduce_by_cells(points, sums.values / points.total, options.size, rng)


def _drawn_centers(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> F64:
    """Draw k / 2 rows of a uniform sample by D^2; fewer if there is no room for as many clusters.

    k rows would take longer and hardly change the scores. A cluster that they miss costs much, so
    it has a large share of the scores.
    """
    few = points
    if points.n > SEED_ROWS:
        few = points.take(np.sort(rng.choice(points.n, SEED_ROWS, replace=False)))
    k = max(1, min(options.k // 2, options.size // 4))
    rows = Rows.of(few.points)
    return sample(EuclideanPotential(rows, few.weights, k), Dirac(), k, rng).centers


def reduce_by_cells(
    points: WeightedPoints, centers: F64, size: int, rng: np.random.Generator
) -> WeightedPoints:
    """At most `size` points. Pre: size >= len(centers) + 3, and there are more points."""
    near = Rows.of(points.points).two_nearest(centers)
    score = scores(points.weights, near, len(centers))
    # A cluster can have one cell more than its share of the score gives.
    heavy = heavy_points(score, size - len(centers) - 1)
    order = _sorted(near, heavy.is_heavy)
    starts = _cell_starts(score[order], near.labels[order], heavy.limit)
    drawn = draw_from_cells(points.weights[order], starts, rng)
    weights = np.where(heavy.is_heavy, points.weights, 0.0)
    weights[order[drawn.indices]] = drawn.weights
    taken = np.flatnonzero(weights)
    return WeightedPoints(points.points[taken], weights[taken])


def scores(weights: F64, near: TwoNearest, k: int) -> F64:
    """The share of every point in the cost, plus its share in its cluster over k."""
    cost = weights * near.cost
    total = cost.sum()
    mass = np.bincount(near.labels, weights, k)
    score = weights / (k * mass)[near.labels]
    if total > 0:
        score += cost / total
    return score


class HeavyPoints(NamedTuple):
    """The points of a score of at least `limit`: each is a cell of its own."""

    is_heavy: Mask
    limit: float


def heavy_points(score: F64, size: int) -> HeavyPoints:
    """The points to keep, if the scores of `size` cells shall be equal. Pre: 1 <= size < n."""
    heavy, count = np.zeros(len(score), dtype=np.bool_), 0
    while True:
        limit = float(score[~heavy].sum()) / (size - count)
        heavy = score >= limit
        more = int(np.count_nonzero(heavy))
        # Rounding could take all of the room for points that have nearly all of the score.
        if more in (count, size):
            return HeavyPoints(heavy, limit)
        count = more


def _sorted(near: TwoNearest, left_out: Mask) -> I64:
    """The other points by cluster, second nearest centre and cost.

    Sorting 16-bit keys takes a tenth of the time; seven bits of the mantissa are enough here.
    """
    others = np.flatnonzero(~left_out)
    with np.errstate(over="ignore"):
        cost = near.cost[others].astype(np.float32)
    coarse = (cost.view(np.uint32) >> 16).astype(np.uint16)
    small = np.min_scalar_type(near.labels.max())
    second, labels = near.second[others].astype(small), near.labels[others].astype(small)
    return others[np.lexsort((coarse, second, labels))]


def _cell_starts(score: F64, labels: NDArray[np.int32], limit: float) -> I64:
    """Where each cell starts. A cell has points of one cluster, and a score of about `limit`."""
    first = np.flatnonzero(np.diff(labels, prepend=-1))
    sums = np.add.reduceat(score, first)
    cells = np.ceil(sums / limit).astype(np.int64)
    middle = np.cumsum(score) - score / 2  # of each point's part of the running sum
    before = middle[first] - score[first] / 2
    number = np.arange(cells.sum()) - np.repeat(np.cumsum(cells) - cells, cells)
    bounds = np.repeat(before, cells) + number * np.repeat(sums / cells, cells)
    is_start = np.zeros(len(score) + 1, dtype=np.bool_)
    is_start[np.searchsorted(middle, bounds)] = True
    return np.flatnonzero(is_start[:-1])


class DrawnPoints(NamedTuple):
    """One point of each cell, and the weight of the cell."""

    indices: I64
    weights: F64


def draw_from_cells(weights: F64, starts: I64, rng: np.random.Generator) -> DrawnPoints:
    """Draw one point of each cell in proportion to its weight."""
    total = np.add.reduceat(weights, starts)
    sums = np.cumsum(weights)
    before = sums[starts] - weights[starts]
    drawn = np.searchsorted(sums, before + rng.random(len(starts)) * total, side="right")
    last = np.append(starts[1:], len(weights)) - 1
    return DrawnPoints(np.clip(drawn, starts, last), total)  # rounding can leave the cell
