"""A random tree over the points of any space: a 2-HST, in which k-median is easy.

The root holds all points; a node's points lie within a radius of its centre, and radii halve from
height to height. Two points are as far apart in the tree as their lowest common node is wide:

    d_T(i, j) = unit * 2 ** (height + 1)    >= d(i, j), always
                                            <= O(log n) d(i, j), in expectation

| space | a cluster is split by | after |
|---|---|---|
| any with rows of distances | its own points, in a fresh random order | Fan et al. 2023 |
| a graph | the first of one random order in reach | Fakcharoenphol et al. 2004 |

The radius at height h is scale * 2 ** (h - 1) * unit, its scale random in [1, 2): one scale for the
whole tree where the order is one, too; elsewhere a fresh one for every height, so that it is
independent of the clusters it splits. It is log-uniform, so no unit of length is special, and no
diameter is needed: the tree begins where one ball holds everything. Chains of single children are
left out, and hardly ever made: points within half the radius of one another's centre stay together
whoever is the next one.

Cosine distances break the triangle inequality; there the tree is over the chord ||x - y||, of which
they are half the square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates import _native
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceMatrix, Ints, MetricSpace, Vectors
from kvariates.data.rows import F64, Rows


@dataclass(frozen=True)
class HstTree:
    """A 2-HST. Nodes are numbered so that parents come before children; the root is node 0.

    A node's points are within ``2 ** height * unit`` of its centre, and it is split at the next
    height. A leaf (height: its parent's less one) holds one point, or several at distance 0. Points
    that no finite distance joins meet in a root whose ``2 ** height`` is infinite.
    """

    parent: Ints  # -1 for the root
    height: Ints
    center: Ints  # the point the node was cut around
    leaf: Ints  # of every point
    unit: float  # a power of two: the lowest height is 0

    @property
    def nodes(self) -> int:
        return len(self.parent)

    @property
    def leaves(self) -> Ints:
        return np.setdiff1d(np.arange(self.nodes), self.parent)

    def distance(self, i: int, j: int) -> float:
        return float(self.distances(np.array([[i, j]]))[0])

    def distances(self, pairs: NDArray[np.int64]) -> F64:
        """In the tree, between the two points of every row of `pairs`."""
        a, b = np.ascontiguousarray(self.leaf[np.asarray(pairs)].T)
        meet = np.empty(len(a), dtype=np.int64)
        _native.tree_common(self.parent, self.height, a, b, meet)
        with np.errstate(over="ignore"):
            far = np.ldexp(self.unit, self.height[meet] + 1)
        return np.where(a == b, 0.0, far)

    def counts(self, weight: F64 | None = None) -> F64:
        """The weight of the points under every node; without weights, how many there are."""
        out = np.empty(self.nodes)
        _native.tree_counts(self.parent, self.leaf, weight, out)
        return out

    def distortion(self, space: MetricSpace, pairs: NDArray[np.int64]) -> F64:
        """Of every pair: how many times farther apart it is in the tree. NaN at distance 0."""
        true = np.empty(len(pairs))
        first, which = np.unique(pairs[:, 0], return_inverse=True)
        for place, point in enumerate(first.tolist()):
            mine = which.ravel() == place
            true[mine] = space.among(point, np.ascontiguousarray(pairs[mine, 1]))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(true > 0, self.distances(pairs) / lengths(space, true), np.nan)

    @property
    def low(self) -> int:
        """The logarithm of the unit."""
        return math.frexp(self.unit)[1] - 1


def grow(space: MetricSpace | Rows, rng: np.random.Generator) -> HstTree:
    """A random 2-HST over all points of the space; a `Rows` is taken as it is, Euclidean."""
    seed = int(rng.integers(2**64, dtype=np.uint64))
    if isinstance(space, Rows):
        return HstTree(*_over_rows(space.X, False, seed))
    if isinstance(space, Vectors):
        return HstTree(*_over_rows(space.X, space.metric == "manhattan", seed))
    if isinstance(space, DistanceMatrix):
        return HstTree(*_native.tree_over_matrix(space.D, seed))
    if isinstance(space, Graph):
        lists = space.least_elements(rng.permutation(space.n))
        return HstTree(*_native.tree_over_lists(lists.start, lists.point, lists.distance, seed))

    def among(point: int, others: Ints) -> F64:
        return np.ascontiguousarray(space.among(point, others), dtype=np.float64)

    return HstTree(*_native.tree_over_callable(among, space.n, seed))


def lengths(space: MetricSpace | Rows, distances: F64) -> F64:
    """What a tree over `space` measures, from the space's own distances."""
    return np.sqrt(2 * distances) if squared(space) else distances


def squared(space: MetricSpace | Rows) -> bool:
    """The space's distances are half the squares of what its trees measure."""
    return isinstance(space, Vectors) and space.metric == "cosine"


def _over_rows(X: Any, manhattan: bool, seed: int) -> _native.Nodes:
    if not sparse.issparse(X):
        return _native.tree_over_rows(X, manhattan, seed)
    indices = X.indices.astype(np.int32, copy=False)
    indptr = X.indptr.astype(np.int64, copy=False)
    return _native.tree_over_csr(X.data, indices, indptr, X.shape[1], manhattan, seed)
