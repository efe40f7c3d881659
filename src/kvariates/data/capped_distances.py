"""Distances as whole numbers of a step, none above a cap: their sums are exact.

A private search adds distances up, and one point of the demand may change such a sum by at most the
cap. That must hold for the numbers that are computed, not only for the exact ones. So distances are
capped and rounded down to a step, a power of two of about cap / 2^20, and counted in steps: these
are whole numbers below 2^21, which float32 holds. Sums of fewer than 2^31 of them are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy

from kvariates.data.graph import Graph
from kvariates.data.hst_tree import is_squared
from kvariates.data.metric_spaces import CallableMetric, DistanceMatrix, Ints, MetricSpace, Vectors
from kvariates.data.rows import Floats
from kvariates.data.sparse_cosine import SparseCosine

STEPS = 20  # bits: the cap has between 2^20 and 2^21 steps
FINER = 20  # bits: a step has 2^20 of the parts that edge lengths are rounded to
PIVOTS = 16  # points from which distances are measured, for a bound on all
BLOCK_BYTES = 2**26
EXACT_WORK = 2**37  # multiplications (vectors) up to which all distances are computed
EXACT_EDGES = 2**28  # edges looked at (graphs), likewise


@dataclass(frozen=True, eq=False)
class CappedDistances:
    """The distances of a space, capped and in steps. Pre: cap > 0."""

    space: MetricSpace
    cap: float

    @property
    def step(self) -> float:
        return math.ldexp(1.0, math.frexp(self.cap)[1] - 1 - STEPS)

    @cached_property
    def _space(self) -> MetricSpace:
        """A graph's paths are sums of edges: of rounded ones, these are exact both ways.

        A callable may fail for a few of many pairs, which were not all tried. If it failed here, it
        would tell that such a point is in the demand; so a pair without a distance has the cap.
        """
        if isinstance(self.space, CallableMetric):
            function = partial(_distance_or_cap, self.space.function, self.cap)
            return CallableMetric(self.space.X, function, self.space.at)
        if not isinstance(self.space, Graph):
            return self.space
        csr, part = self.space.csr, math.ldexp(self.step, -FINER)
        lengths = np.floor(np.minimum(csr.data, 2 * self.cap) / part) * part
        return Graph(scipy.sparse.csr_array((lengths, csr.indices, csr.indptr), shape=csr.shape))

    def matrix(self, candidates: Ints, points: Ints) -> DistanceMatrix:
        """In steps, from candidates (rows) to points (columns), which are numbers of points."""
        out = np.empty((len(candidates), len(points)), dtype=np.float32)
        space = self._space
        if not isinstance(space, Graph):
            at = space.measured_at(points)  # type: ignore[attr-defined]
            for part in _blocks(len(candidates), len(points)):
                out[part] = self._in_steps(at.distances(candidates[part]))
        elif len(candidates) <= len(points):
            for part in _blocks(len(candidates), space.n):
                out[part] = self._in_steps(space.distances(candidates[part])[:, points])
        else:
            for part in _blocks(len(points), space.n):
                out[:, part] = self._in_steps(space.distances(points[part])[:, candidates]).T
        return DistanceMatrix(out)

    def _in_steps(self, distances: Floats) -> Floats:
        capped = np.minimum(distances.astype(np.float64), self.cap)
        return np.asarray(np.floor(capped / self.step), dtype=np.float32)


def _distance_or_cap(function: Callable[[Any, Any], float], cap: float, a: Any, b: Any) -> float:
    try:
        far = float(function(a, b))
    except Exception:
        return cap
    return far if 0.0 <= far <= cap else cap


def farthest(space: MetricSpace, rng: np.random.Generator) -> float:
    """A number that about no distance exceeds; the largest distance, if that is quickly computed.

    Otherwise twice the least, over a few points, of the distance to the farthest point: in a metric
    this is a bound. Infinite distances do not count.
    """
    if isinstance(space, DistanceMatrix):
        return float(space.D.max(initial=0.0))
    n = space.n
    if isinstance(space, Graph):
        exact = n * len(space.csr.data) <= EXACT_EDGES
    else:
        rows = isinstance(space, Vectors | SparseCosine)
        width = space.X.shape[1] if rows else 2**17  # type: ignore[attr-defined]
        exact = n * n * width <= EXACT_WORK
    points = np.arange(n) if exact else rng.permutation(n)[:PIVOTS].astype(np.int64)
    far, connected = np.zeros(len(points)), True
    for part in _blocks(len(points), n):
        distances = space.distances(points[part])
        finite = np.isfinite(distances)
        connected = connected and bool(finite.all())
        far[part] = np.where(finite, distances, 0.0).max(axis=1)
    if exact:
        return float(far.max(initial=0.0))
    bound = 2.0 * float(far.min() if connected else far.max())
    return min(bound, 2.0) if is_squared(space) else bound


def _blocks(rows: int, columns: int) -> list[slice]:
    size = max(1, BLOCK_BYTES // (8 * max(1, columns)))
    return [slice(i, i + size) for i in range(0, rows, size)]
