"""The nodes of an undirected graph under shortest-path distance, in memory like the graph's own.

No row of distances is made unless asked for: every question is a Dijkstra search that stops where
its answer can no longer change. A candidate for a swap is searched from only as far as somebody
might leave the second nearest chosen point for it, which is a region of about n / k nodes.

Distances are float64 sums of lengths along the path, from the first point named to the second, and
the smallest such sum bit for bit. Two nodes of different components are infinitely far apart. A
stored zero is an edge of length zero; an edge has to be stored from both its ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph

from kvariates import _native
from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64, TwoNearest


@dataclass(frozen=True)
class NeighborLists:
    """Rows of points with distances: row i is `start[i]:start[i + 1]` of `point` and `distance`."""

    start: Ints
    point: NDArray[np.int32]
    distance: F64


@dataclass(frozen=True)
class Graph:
    """A metric space of nodes. Pre: symmetric, lengths non-negative and finite, no duplicates."""

    csr: Any
    roads: _native.GraphView

    @classmethod
    def of(cls, csr: Any) -> Graph:
        """Arrays of the right types are shared with `csr`, not copied."""
        tidy = csr if csr.has_sorted_indices else csr.sorted_indices()
        indptr = np.ascontiguousarray(tidy.indptr, dtype=np.int64)
        indices = np.ascontiguousarray(tidy.indices, dtype=np.int32)
        data = np.ascontiguousarray(tidy.data, dtype=np.float64)
        return cls(csr, _native.graph_view(indptr, indices, data))

    @property
    def n(self) -> int:
        return self.roads.n

    def distances(self, points: Ints) -> F64:
        """From each of `points` to all nodes: (len(points), n)."""
        out = np.empty((len(points), self.n))
        _native.graph_distances(self.roads, points, out)
        return out

    def among(self, point: int, others: Ints) -> F64:
        """From one node to some others; the search ends at the farthest of them."""
        out = np.empty(len(others))
        _native.graph_among(self.roads, point, others, out)
        return out

    def ball(self, points: Ints, radii: F64) -> NeighborLists:
        """For each of `points` the nodes at a distance below its radius, nearest first."""
        return NeighborLists(*_native.graph_ball(self.roads, points, radii))

    def two_nearest(self, chosen: Ints) -> TwoNearest:
        """One search from all chosen points at once, in which a node is settled at most twice.

        Costs are those of a full table, bit for bit, and the slots have them. Ties go to the lowest
        slot; but where only rounding makes two slots equal, the one that was nearer on the way may
        stay. A slot from which nothing reaches a node is infinitely far from it, and ties likewise.
        """
        near = TwoNearest.empty(self.n, np.float64)
        _native.graph_two_nearest(self.roads, chosen, *near.parts)
        return near

    def swap_changes(self, candidates: Ints, near: TwoNearest, k: int, weight: F64 | None) -> F64:
        """What the total cost changes by: one row a candidate, one column a slot.

        Cost is a pair, compared in order: how many points of positive weight no chosen point
        reaches, and the weighted sum over the others. Where a swap changes the first, the change is
        +inf or -inf; else it is the change of the sum. With every component served, this says that
        the only medoid of a component may only be replaced by a node of that component.
        """
        out = np.empty((len(candidates), k))
        _native.graph_swap_changes(self.roads, candidates, *near.parts, weight, out)
        return out

    def swapped(self, near: TwoNearest, chosen: Ints, slot: int) -> TwoNearest:
        """`near` itself, mended after `chosen[slot]` was replaced (`chosen` is the new list).

        Only nodes that knew the old point or get to know the new one are looked at. Costs equal
        `two_nearest(chosen)` bit for bit; slots do too but for ties of rounding's making.
        """
        _native.graph_swapped(self.roads, chosen, slot, *near.parts)
        return near

    def components(self) -> NDArray[np.int32]:
        """The number of every node's component, counted from 0."""
        labels: NDArray[np.int32] = csgraph.connected_components(self.csr, directed=False)[1]
        return labels

    def least_elements(self, order: Ints) -> NeighborLists:
        """For every node the points of `order` that are nearer to it than all before them.

        One row a node, in the order of `order`, so distances fall; on a random order a row has
        about log(len(order)) entries. The first entry within a radius is the first such point of
        the whole order (Cohen 1997).
        """
        return NeighborLists(*_native.graph_least_elements(self.roads, order))
