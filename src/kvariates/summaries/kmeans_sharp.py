"""k-means# (Ailon, Jaiswal and Monteleoni 2009): 3 ln k rows in each of k rounds, drawn by D^2.

    candidates = ceil(3 ln k) rows, drawn by weight
    in each of k - 1 rounds:  add ceil(3 ln k) rows, drawn by weight * D^2
    weigh every candidate by the rows nearest to it

The paper draws the first rows uniformly; with weights that means by weight.
"""

from __future__ import annotations

import math

import numpy as np

from kvariates.data.rows import Rows
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.kmeans_parallel import draw_round
from kvariates.summaries.weighted_points import SummaryOptions, WeightedPoints


def kmeans_sharp(
    points: WeightedPoints, options: SummaryOptions, rng: np.random.Generator
) -> WeightedPoints:
    """Reduce to k * ceil(3 ln k) points, or to `size` if that is less."""
    per_round = draws_per_round(options.k)
    most = min(options.size, options.k * per_round)
    if points.n <= most:
        return points
    rows = Rows.of(points.points)
    potential = EuclideanPotential(rows, points.weights, most)
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
