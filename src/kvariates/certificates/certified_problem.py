"""The problem that a certificate is about: for bounds from all distances and from a sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.certificates.dual import ROUNDING
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceRows, Ints, MetricSpace
from kvariates.data.rows import F64


@dataclass(frozen=True)
class CertifyOptions:
    confidence: float = 0.99  # of a bound from a sample
    sample: int | None = None  # how many points to draw; None: an exact bound if possible
    max_iter: int = 480  # subgradient steps


@dataclass(frozen=True)
class CertifiedProblem:
    """The arrays have one entry for each point of positive weight."""

    space: MetricSpace
    k: int
    demand: Ints  # the points' numbers
    weight: F64
    nearest: F64  # distance to the nearest medoid
    second: F64  # distance to the second nearest medoid
    cost: float
    options: CertifyOptions

    def start(self) -> F64:
        """Prices to start from: between the distances to the nearest and the second medoid."""
        if self.k == 1:  # prices above all distances make the bound exact
            return np.full(len(self.nearest), 2 * self.nearest.max())
        between = 0.75 * self.nearest + 0.25 * self.second
        return np.where(np.isfinite(self.second), between, self.nearest)

    def caps(self, factor: float) -> F64:
        """The largest cost of each point in a sample."""
        return factor * np.maximum(self.nearest, self.cost / math.fsum(self.weight))

    @property
    def rounding(self) -> float:
        """A factor for the bound: `Graph.ball` adds lengths in the opposite order."""
        return 1 - 4 * self.space.n * ROUNDING if isinstance(self.space, Graph) else 1.0


def measured_at(space: MetricSpace, points: Ints) -> DistanceRows:
    """The space with costs measured at `points` only."""
    if not isinstance(space, DistanceRows):
        raise TypeError(f"cannot certify in a {type(space).__name__}")
    return space if len(points) == space.n else space.measured_at(points)


def ball_size(graph: Graph, points: Ints, radius: F64, rng: np.random.Generator) -> float:
    """The mean number of nodes within a point's radius, estimated from 16 points."""
    some = rng.choice(len(points), min(16, len(points)), replace=False)
    return max(1.0, len(graph.ball(points[some], radius[some]).point) / len(some))
