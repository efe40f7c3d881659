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

import math
from dataclasses import replace

import numpy as np

from kvariates.data.rows import F64, draw_cells
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import euclidean_potential
from kvariates.seeding.kmeans_parallel import draw_round
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
    return sample(euclidean_potential(few.data, k), Dirac(), k, rng).centers


def reduce_by_cells(
    points: WeightedPoints, centers: F64, size: int, rng: np.random.Generator
) -> WeightedPoints:
    """At most `size` points. Pre: there are more points."""
    drawn = draw_cells(points.data.rows, points.weights, centers, size, rng)
    return replace(points.take(drawn.rows), weights=drawn.weights)


# ---- Ailon, Jaiswal and Monteleoni 2009: 3 ln k rows in each of k rounds, drawn by D^2
# D^2
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
