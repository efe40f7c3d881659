"""The nodes of an undirected graph under shortest-path distance.

Memory stays in proportion to the graph: no method but `distances` makes rows of n distances. Each
one is a Dijkstra search that stops when its result can no longer change. The search from a swap
candidate stops beyond the nodes that are nearer to it than to their second nearest medoid, which
are about n / k nodes.

Distances are float64 sums of edge lengths along the path, from the first point named to the second;
the result is the smallest such sum, bit for bit. Nodes of different components are infinitely far
apart. A stored zero is an edge of length zero, and an edge has to be stored from both its ends.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, TwoNearest

FINER = 20  # bits: a step of capped distances has 2^20 of the parts that edges are rounded to


class NeighborLists(NamedTuple):
    """Lists of points with distances: list i is `start[i]:start[i + 1]` of the other two arrays."""

    start: Ints
    point: NDArray[np.int32]
    distance: F64


class Graph(MetricSpace):
    """A metric space of nodes. Pre: symmetric, lengths non-negative and finite, no duplicates.

    Arrays of the right types are shared with `csr`, not copied.
    """

    quick_swaps = False

    def __init__(self, csr: Any) -> None:
        tidy = csr if csr.has_sorted_indices else csr.sorted_indices()
        indptr = np.ascontiguousarray(tidy.indptr, dtype=np.int64)
        indices = np.ascontiguousarray(tidy.indices, dtype=np.int32)
        data = np.ascontiguousarray(tidy.data, dtype=np.float64)
        self.csr, self.view = csr, _native.graph_view(indptr, indices, data)
        self.n = self.n_candidates = self.view.n

    @property
    def pass_work(self) -> float:
        """It takes long to look at an edge."""
        return self.n * len(self.csr.data) * 2**9

    def distance_bound(self) -> float:
        with np.errstate(over="ignore"):
            return float(self.csr.data.sum())

    def below(self, bound: float, weight: float) -> float:
        """`ball` adds lengths in the opposite order."""
        return bound * (1 - 4 * self.n * 2.0**-53)

    def capped(self, cap: float, step: float) -> Graph:
        """Paths are sums of edges: of rounded ones, these are exact both ways."""
        part = math.ldexp(step, -FINER)
        lengths = np.floor(np.minimum(self.csr.data, 2 * cap) / part) * part
        edges = lengths, self.csr.indices, self.csr.indptr
        return Graph(scipy.sparse.csr_array(edges, shape=self.csr.shape))

    def tree_nodes(self, seed: int, rng: np.random.Generator) -> _native.Nodes:
        return _native.tree_over_lists(*self.least_elements(rng.permutation(self.n)), seed)

    def distances(self, points: Ints, columns: Ints | None = None) -> F64:
        """With `columns`, each search ends at the farthest of them."""
        out = np.empty((len(points), self.n if columns is None else len(columns)))
        if columns is None:
            _native.graph_distances(self.view, points, out)
        else:
            for point, row in zip(points.tolist(), out, strict=True):
                _native.graph_among(self.view, point, columns, row)
        return out

    def ball(self, points: Ints, radii: F64) -> NeighborLists:
        """For each of `points` the nodes at a distance below its radius, nearest first."""
        return NeighborLists(*_native.graph_ball(self.view, points, radii))

    def two_nearest(self, medoids: Ints) -> TwoNearest:
        """One search from all medoids at once.

        Costs equal those of a full table of distances, bit for bit. Ties go to the lowest slot,
        except for ties that only rounding makes. A medoid in another component counts as
        infinitely far.
        """
        near = TwoNearest.empty(self.n)
        _native.graph_two_nearest(self.view, medoids, *near)
        return near

    def swap_changes(self, candidates: Ints, near: TwoNearest, k: int, weight: F64 | None) -> F64:
        """Costs are compared first by the number of points with weight that no medoid reaches.

        If that number changes, the change is +inf or -inf, so the only medoid of a component is
        never moved out of it. Otherwise it is that of the weighted sum over the other points.
        """
        out = np.empty((len(candidates), k))
        _native.graph_swap_changes(self.view, candidates, *near, weight, out)
        return out

    def update_two_nearest(self, near: TwoNearest, medoids: Ints, slot: int) -> TwoNearest:
        """Costs equal `two_nearest(medoids)` bit for bit.

        Visits only nodes that had the old medoid, or now have the new one, among their two nearest.
        """
        _native.graph_swapped(self.view, medoids, slot, *near)
        return near

    def components(self) -> NDArray[np.int32]:
        """The number of every node's component, counted from 0."""
        from scipy.sparse import csgraph  # it takes long to import, and few fits need it

        labels: NDArray[np.int32] = csgraph.connected_components(self.csr, directed=False)[1]
        return labels

    def least_elements(self, order: Ints) -> NeighborLists:
        """For every node the points of `order` that are nearer to it than all points before them.

        A list keeps the order of `order`, so its distances fall. On a random order it has about
        log(len(order)) entries. Its first entry within a radius is the first point of the whole
        order within that radius (Cohen 1997).
        """
        return NeighborLists(*_native.graph_least_elements(self.view, order))
