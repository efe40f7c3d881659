"""Distances between candidates and weighted points, as the dual of k-median uses them.

`DistanceTable` keeps all of them in memory, `DistanceLists` only those below a cap on the prices,
and `StreamedDistances` computes them in every pass, block by block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.sparse import csr_array

from kvariates import _native
from kvariates.data.graph import Graph, NeighborLists
from kvariates.data.metric_spaces import DistanceRows, Ints
from kvariates.data.rows import F64, Floats

KEPT_BYTES = 2**28  # of distances that `StreamedDistances.only` keeps


@dataclass(frozen=True)
class DistanceOracle(ABC):
    """`weight`: of the points. `some`: the candidates in use; None means all."""

    weight: F64
    some: Ints | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def n_candidates(self) -> int: ...

    @abstractmethod
    def gains(self, price: F64) -> F64:
        """For each candidate the sum of weight * max(price - distance, 0) over all points."""

    @abstractmethod
    def cover(self, price: F64, chosen: Ints) -> F64:
        """For each point the number of chosen candidates that are closer than its price."""

    def only(self, some: Ints) -> DistanceOracle:
        """The same points with some of the candidates, numbered from 0."""
        return replace(self, some=self._original(some))

    def _original(self, some: Ints) -> Ints:
        """The numbers, among all candidates, of some of those in use."""
        return some if self.some is None else self.some[some]


@dataclass(frozen=True)
class DistanceTable(DistanceOracle):
    distance: Floats  # one row for each candidate

    @property
    def n_candidates(self) -> int:
        return len(self.distance) if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        out = np.empty(self.n_candidates)
        _native.table_gains(self.distance, self.some, price, self.weight, out)
        return out

    def cover(self, price: F64, chosen: Ints) -> F64:
        out = np.empty(len(price))
        _native.table_cover(self.distance, self._original(chosen), price, out)
        return out


@dataclass(frozen=True)
class DistanceLists(DistanceOracle):
    lists: NeighborLists  # list j: the points of candidate j
    whole: bool = False  # all distances are known to be whole numbers, also those left out

    @property
    def n_candidates(self) -> int:
        return len(self.lists.start) - 1 if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        out = np.empty(self.n_candidates)
        _native.list_gains(*self.lists, self.some, price, self.weight, out)
        return out

    def cover(self, price: F64, chosen: Ints) -> F64:
        out = np.empty(len(price))
        _native.list_cover(*self.lists, self._original(chosen), price, out)
        return out


@dataclass(frozen=True)
class StreamedDistances(DistanceOracle):
    space: DistanceRows

    @property
    def n_candidates(self) -> int:
        return self.space.n_candidates if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        every, step = np.arange(self.n_candidates), self.space.block
        blocks = (every[first : first + step] for first in range(0, len(every), step))
        return np.concatenate([self._table(block).gains(price) for block in blocks])

    def cover(self, price: F64, chosen: Ints) -> F64:
        return self._table(chosen).cover(price, np.arange(len(chosen)))

    def only(self, some: Ints) -> DistanceOracle:
        fits = len(some) * len(self.weight) * self.space.dtype.itemsize <= KEPT_BYTES
        return self._table(some) if fits else super().only(some)

    def _table(self, some: Ints) -> DistanceTable:
        return DistanceTable(self.weight, self.space.distances(self._original(some)))


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
    by_candidate = by_node.indptr.astype(np.int64), by_node.indices, by_node.data
    return DistanceLists(weight, NeighborLists(*by_candidate))


def row_lists(space: DistanceRows, cap: F64, weight: F64, limit: int) -> DistanceLists | None:
    """Lists of all distances below the cap; None if there seem to be more than `limit`."""
    counts, points, kept, whole, size = [], [], [], True, 0
    for first in range(0, space.n_candidates, space.block):
        rows = space.distances(np.arange(first, min(first + space.block, space.n_candidates)))
        whole = whole and space.exact_if_whole(float(rows.max())) and all_whole(rows)
        below = rows < cap
        counts.append(np.count_nonzero(below, axis=1))
        size += int(counts[-1].sum())
        if size > limit * min(1.0, 0.1 + (first + len(rows)) / space.n_candidates):
            return None
        points.append(np.nonzero(below)[1].astype(np.int32))
        kept.append(rows[below].astype(np.float64))
    start = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    lists = NeighborLists(start, np.concatenate(points), np.concatenate(kept))
    return DistanceLists(weight, lists, whole)


def all_whole(D: Floats) -> bool:
    """Whether all numbers of a table are whole."""
    step = max(1, 2**20 // max(1, D.shape[1]))
    parts = (D[first : first + step] for first in range(0, len(D), step))
    return all(bool(np.all(part == np.rint(part))) for part in parts)
