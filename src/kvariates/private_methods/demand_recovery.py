"""Private 1-medians of disjoint cells of public points (Balcan et al. 2017, section 6.2).

In each cell the exponential mechanism draws one of the cell's points, by the sum of its distances
to the demand of the cell. The paper draws a point of a ball, from a log-concave density, by a
Markov chain that comes near to it. Here medoids are points of a finite public set, so the law
itself is drawn from: no error of a sampler is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial

import numpy as np

from kvariates.data.metric_spaces import Ints, Vectors
from kvariates.data.rows import F64
from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import Query, Scores, score_query
from kvariates.private_methods.demand_task import DemandTask

STEPS = 20  # bits: the largest loss has between 2^20 and 2^21 steps


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell of public points. All of it is public.

    points : of the cell.
    candidates : those of them that may become its medoid.
    losses : (points, candidates) in steps, whole numbers from 0 to `largest` / `step`: how much
        farther a candidate is than the candidate nearest to the point.
    """

    points: Ints
    candidates: Ints
    losses: F64
    largest: float
    step: float

    @classmethod
    def of(cls, space: Vectors, points: Ints, candidates: Ints) -> Cell:
        far = space.distances(candidates, points).T.astype(np.float64)
        far -= far.min(axis=1, keepdims=True)
        largest = float(far.max()) or 1.0
        step = math.ldexp(1.0, math.frexp(largest)[1] - 1 - STEPS)
        np.floor(far / step, out=far)
        return cls(points, candidates, far, largest, step)

    def query(self, adjacency: Adjacency, group: str, label: str, demand: F64) -> Query[int]:
        """A candidate of low cost. `demand`: of every point of the space."""
        costs = self.step * (demand[self.points] @ self.losses)
        return score_query(
            -costs, Scores(self.largest, monotone=True), adjacency, label, parallel=group
        )


def recover_medoids(
    task: DemandTask, space: Vectors, labels: Ints, centers: Ints, most: int, cost: Cost,
    accountant: Accountant, name: str,
) -> Ints:  # fmt: skip
    """A private medoid of each cell, among the `most` points nearest to the cell's centre.

    `labels`: the cell of every point; `centers`: a point of every cell. Both public or released.
    """
    medoids, group = centers.copy(), f"{name}: cells"
    counts = task.demand.map(partial(_counts, task.space.n))
    for j, center in enumerate(centers):
        points = np.flatnonzero(labels == j)
        if len(points) > 1:
            cell = Cell.of(space, points, _nearest(space, center, points, most))
            label = f"{name}: medoid of cell {j + 1}"
            query = counts.map(partial(cell.query, task.adjacency, group, label))
            medoids[j] = cell.candidates[accountant.release(query, cost).value]
    return medoids


def _nearest(space: Vectors, center: int, points: Ints, most: int) -> Ints:
    """The points nearest to a centre, ascending."""
    if len(points) <= most:
        return points
    far = space.distances(np.array([center]), points)[0]
    return np.sort(points[np.argsort(far, kind="stable")[:most]])


def _counts(n: int, demand: Ints) -> F64:
    return np.bincount(demand, minlength=n).astype(np.float64)
