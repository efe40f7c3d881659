"""Coresets: a few weighted rows whose cost is close to that of all rows, for any k centres.

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

| reduction | rough centres |
|---|---|
| `coreset` | k rows, drawn by D^2 |
| `lightweight` | the mean (Bachem, Lucic and Krause 2018): faster, less accurate for clusters |
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kvariates.data.cells import draw_cells
from kvariates.data.rows import F64, Rows
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.sampler import sample
from kvariates.summaries.weighted_points import SummaryOptions, WeightedPoints

SEED_ROWS = 2**12  # of which the rough centres are drawn: all rows would take as long as the rest


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
    return reduce_by_cells(points, points.mean(), options.size, rng)


def _drawn_centers(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> F64:
    """Draw k rows of a uniform sample by D^2; fewer if there is no room for as many clusters.

    A cluster that they miss costs much, so it has a large share of the scores.
    """
    few = points
    if points.n > SEED_ROWS:
        few = points.take(np.sort(rng.choice(points.n, SEED_ROWS, replace=False)))
    k = max(1, min(options.k, options.size // 4))
    rows = Rows.of(few.points)
    return sample(EuclideanPotential(rows, few.weights, k), Dirac(), k, rng).centers


def reduce_by_cells(
    points: WeightedPoints, centers: F64, size: int, rng: np.random.Generator
) -> WeightedPoints:
    """At most `size` points. Pre: there are more points."""
    drawn = draw_cells(Rows.of(points.points), points.weights, centers, size, rng)
    return replace(points.take(drawn.rows), weights=drawn.weights)
