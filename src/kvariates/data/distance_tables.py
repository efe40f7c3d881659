"""Distances between candidates and weighted points, as the dual of k-median uses them.

| class | distances |
|---|---|
| `DistanceTable` | all of them, in memory |
| `DistanceLists` | in memory, only those below a cap on the prices |
| `StreamedDistances` | computed in every pass, block by block |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kvariates import _native
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceRows, Ints
from kvariates.data.rows import F64, Floats

KEPT_BYTES = 2**28  # of distances that `StreamedDistances.only` keeps


class DistanceOracle(Protocol):
    @property
    def weight(self) -> F64:
        """The weights of the points."""

    @property
    def n_candidates(self) -> int: ...

    def gains(self, price: F64) -> F64:
        """For each candidate the sum of weight * max(price - distance, 0) over all points."""

    def cover(self, price: F64, chosen: Ints) -> F64:
        """For each point the number of chosen candidates that are closer than its price."""

    def only(self, some: Ints) -> DistanceOracle:
        """The same points with some of the candidates, numbered from 0."""


def _original(kept: Ints | None, some: Ints) -> Ints:
    """Numbers among the kept candidates as numbers among all; None keeps all."""
    return some if kept is None else kept[some]


@dataclass(frozen=True)
class DistanceTable:
    distance: Floats  # one row for each candidate
    weight: F64
    some: Ints | None = None  # the candidates kept

    @property
    def n_candidates(self) -> int:
        return len(self.distance) if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        out = np.empty(self.n_candidates)
        _native.table_gains(self.distance, self.some, price, self.weight, out)
        return out

    def cover(self, price: F64, chosen: Ints) -> F64:
        out = np.empty(len(price))
        _native.table_cover(self.distance, _original(self.some, chosen), price, out)
        return out

    def only(self, some: Ints) -> DistanceTable:
        return replace(self, some=_original(self.some, some))


@dataclass(frozen=True)
class DistanceLists:
    """List j, `start[j]:start[j + 1]` of `point` and `distance`, is that of candidate j."""

    start: Ints
    point: NDArray[np.int32]
    distance: F64
    weight: F64
    some: Ints | None = None

    @property
    def n_candidates(self) -> int:
        return len(self.start) - 1 if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        out = np.empty(self.n_candidates)
        lists = self.start, self.point, self.distance
        _native.list_gains(*lists, self.some, price, self.weight, out)
        return out

    def cover(self, price: F64, chosen: Ints) -> F64:
        out = np.empty(len(price))
        lists = self.start, self.point, self.distance
        _native.list_cover(*lists, _original(self.some, chosen), price, out)
        return out

    def only(self, some: Ints) -> DistanceLists:
        return replace(self, some=_original(self.some, some))


@dataclass(frozen=True)
class StreamedDistances:
    space: DistanceRows
    weight: F64
    some: Ints | None = None

    @property
    def n_candidates(self) -> int:
        return self.space.n_candidates if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        parts = [
            self._table(np.arange(first, min(first + self.space.block, self.n_candidates)))
            .gains(price)
            for first in range(0, self.n_candidates, self.space.block)
        ]  # fmt: skip
        return np.concatenate(parts)

    def cover(self, price: F64, chosen: Ints) -> F64:
        return self._table(chosen).cover(price, np.arange(len(chosen)))

    def only(self, some: Ints) -> DistanceOracle:
        if len(some) * len(self.weight) * self.space.dtype.itemsize > KEPT_BYTES:
            return replace(self, some=_original(self.some, some))
        return self._table(some)

    def _table(self, some: Ints) -> DistanceTable:
        return DistanceTable(self.space.distances(_original(self.some, some)), self.weight)


def graph_lists(
    graph: Graph, points: Ints, radius: F64, weight: F64, limit: int
) -> DistanceLists | None:
    """Lists of all distances below each point's radius; None if there are more than `limit`."""
    found, entries = [], 0
    for first in range(0, len(points), 64):
        part = slice(first, first + 64)
        found.append(graph.ball(points[part], radius[part]))
        entries += len(found[-1].point)
        if entries > limit:
            return None
    start = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(f.start) for f in found]))])
    point = np.concatenate([f.point for f in found])
    distance = np.concatenate([f.distance for f in found])
    del found
    start = start.astype(np.int32)  # with int64, SciPy would make all indices int64
    by_node = csr_array((distance, point, start), shape=(len(points), graph.n)).tocsc()
    return DistanceLists(by_node.indptr.astype(np.int64), by_node.indices, by_node.data, weight)
