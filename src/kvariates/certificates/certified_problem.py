"""What a certificate is about, and how much of it can be looked at.

Shared by bounds over all distances (`certificate`) and over a sample of points (`sampled`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from kvariates.certificates.dual import ROUNDING, DistanceLists
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import (
    FEW,
    CallableMetric,
    DistanceMatrix,
    DistanceRows,
    Ints,
    MetricSpace,
    Vectors,
)
from kvariates.data.rows import F64


@dataclass(frozen=True)
class CertifiedProblem:
    space: MetricSpace
    k: int
    demand: Ints  # points with a positive weight
    mass: F64  # their weights
    paid: F64  # and distances to the nearest
    second: F64  # and second nearest medoid
    cost: float
    max_iter: int

    def start(self) -> F64:
        """Prices to climb from: what is paid, and a quarter of what losing the medoid would add."""
        if self.k == 1:  # prices above all distances make the bound exact
            return np.full(len(self.paid), 2 * self.paid.max())
        return np.where(np.isfinite(self.second), 0.75 * self.paid + 0.25 * self.second, self.paid)

    def caps(self, factor: float) -> F64:
        """What a point may cost in a sample."""
        return factor * np.maximum(self.paid, self.cost / math.fsum(self.mass))


def work(space: DistanceRows) -> float:
    """What a distance takes, compared to one in the plane."""
    if isinstance(space, Vectors):
        features = int(space.X.shape[1])
        return 1 + features / 16 if features <= FEW else features / 4
    return 1000.0 if isinstance(space, CallableMetric) else 1.0


def onto(space: MetricSpace, points: Ints) -> Vectors | DistanceMatrix | CallableMetric:
    """The space with costs measured at `points` only."""
    if not isinstance(space, Vectors | DistanceMatrix | CallableMetric):
        raise TypeError(f"cannot certify in a {type(space).__name__}")
    return space if len(points) == space.n else space.onto(points)


def ball_size(graph: Graph, points: Ints, radius: F64, rng: np.random.Generator) -> float:
    """How many nodes there are within a point's radius, about."""
    some = rng.choice(len(points), min(16, len(points)), replace=False)
    return max(1.0, len(graph.ball(points[some], radius[some]).point) / len(some))


def balls(graph: Graph, points: Ints, radius: F64, weight: F64, most: int) -> DistanceLists | None:
    """By candidate, from searches around the points, a part of them at a time; None if too many."""
    found, entries = [], 0
    for first in range(0, len(points), 64):
        part = slice(first, first + 64)
        found.append(graph.ball(points[part], radius[part]))
        entries += len(found[-1].point)
        if entries > most:  # the guess it was begun with was wrong
            return None
    start = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(f.start) for f in found]))])
    point = np.concatenate([f.point for f in found])
    distance = np.concatenate([f.distance for f in found])
    del found
    start = start.astype(np.int32)  # or SciPy would make all indices twice as long
    turned = csr_array((distance, point, start), shape=(len(points), graph.n)).tocsc()
    return DistanceLists(turned.indptr.astype(np.int64), turned.indices, turned.data, weight)


def trust(space: MetricSpace) -> float:
    """On a graph, lengths were added up from the other end: n roundings either way."""
    return 1 - 4 * space.n * ROUNDING if isinstance(space, Graph) else 1.0
