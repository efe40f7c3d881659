"""A random 2-HST (hierarchically separated tree) over the points of any space; seeding on it.

The root holds all points. The points of a node lie within a radius of its centre, and radii halve
from one height to the next. The distance of two points in the tree depends on the height of their
lowest common node:

    d_T(i, j) = unit * 2 ** (height + 1)    >= d(i, j), always
                                            <= O(log n) d(i, j), in expectation

| space | how a cluster is split | paper |
|---|---|---|
| any with rows of distances | by balls around its points, in a new random order | Fan et al. 2023 |
| a graph | a point joins the first point of one random order within the radius | \
Fakcharoenphol et al. 2004 |

The radius at height h is scale * 2 ** (h - 1) * unit with a random scale in [1, 2). A graph has one
scale for the whole tree, as it has one order. Elsewhere every height has a scale of its own, so
that the scale is independent of the clusters it splits. The scale is log-uniform, so the law does
not depend on the unit of length. The root's height is the lowest at which one ball holds all
points, so no diameter is needed. Nodes with a single child are left out; hardly any are computed,
because points within half the radius of each other's centre always stay together.

Cosine distances break the triangle inequality. Their tree is over the chord ||x - y||: a cosine
distance is half the square of the chord. The tree of great-circle distances is over pi / 2 times
the chord, which is at least the arc.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, Rows
from kvariates.notebook_html import boxed


@dataclass(frozen=True)
class HstTree:
    """A 2-HST. Parents have lower numbers than their children; the root is node 0.

    A node's points are within ``2 ** height * unit`` of its centre. A leaf is one height below its
    parent and holds one point, or several at distance 0. If some distances are infinite, so is
    ``2 ** height`` of the root.
    """

    parent: Ints  # -1 for the root
    height: Ints
    center: Ints  # a point
    leaf: Ints  # of every point
    unit: float  # a power of two: the lowest height is 0

    @property
    def nodes(self) -> int:
        return len(self.parent)

    def __repr__(self) -> str:
        heights = f"{self.height.min()} to {self.height.max()}"
        size = f"points={len(self.leaf)}, nodes={self.nodes}"
        return f"HstTree({size}, heights={heights}, unit={self.unit:.6g})"

    def _repr_html_(self) -> str:
        values, counts = np.unique(self.height, return_counts=True)
        with np.errstate(over="ignore"):
            radii = np.ldexp(self.unit, values)
        rows = [
            [str(value), str(count), f"{radius:.4g}"]
            for value, count, radius in zip(values[::-1], counts[::-1], radii[::-1], strict=True)
        ]
        title = f"A 2-HST over {len(self.leaf):,} points: {self.nodes:,} nodes"
        lines = ["Distances in the tree are never below the true ones."]
        return boxed(title, lines, ["height", "nodes", "radius"], rows)

    def distance(self, i: int, j: int) -> float:
        return float(self.distances(np.array([[i, j]]))[0])

    def distances(self, pairs: NDArray[np.int64]) -> F64:
        """Tree distances between the two points of every row of `pairs`."""
        a, b = np.ascontiguousarray(self.leaf[np.asarray(pairs)].T)
        common = np.empty(len(a), dtype=np.int64)
        _native.tree_common(self.parent, self.height, a, b, common)
        with np.errstate(over="ignore"):
            apart = np.ldexp(self.unit, self.height[common] + 1)
        return np.where(a == b, 0.0, apart)

    def counts(self, weight: F64 | None = None) -> F64:
        """The total weight of the points of every node; their number if there are no weights."""
        out = np.empty(self.nodes)
        _native.tree_counts(self.parent, self.leaf, weight, out)
        return out

    def distortion(self, space: MetricSpace, pairs: NDArray[np.int64]) -> F64:
        """Tree distance / distance (or chord) of every pair; NaN at distance 0."""
        true = np.empty(len(pairs))
        for point in np.unique(pairs[:, 0]).tolist():
            own = pairs[:, 0] == point
            true[own] = space.distances(np.array([point]), np.ascontiguousarray(pairs[own, 1]))[0]
        with np.errstate(invalid="ignore", divide="ignore"):
            lengths = np.sqrt(2 * true) if space.half_squares else true
            return np.where(true > 0, self.distances(pairs) / lengths, np.nan)

    @property
    def log_unit(self) -> int:
        """The logarithm of the unit, base 2."""
        return math.frexp(self.unit)[1] - 1


def grow(space: MetricSpace | Rows, rng: np.random.Generator) -> HstTree:
    """A random 2-HST over all points of the space; over `Rows`, with Euclidean distances."""
    seed = int(rng.integers(2**64, dtype=np.uint64))
    return HstTree(*space.tree_nodes(seed, rng))


# ---- Seeding: choose k subtrees, then one point in each ------------------------------------------
#
# The score of a node is, up to a constant, the cost of its points if none of them were chosen:
#
#     score(v) = counts[v] * 2 ** (power * (height of v's parent))
#
# Fan et al. 2023 (Algorithm 4) use N_v * 2 ** h_v on trees in which every height is present, where
# it is the same up to a constant. Here nodes with a single child are left out, and a node stands
# for the highest of its chain. Nodes are chosen by falling score, ties to the lower number. A node
# with a chosen node below it is skipped, and a chosen node above it is dropped. Then Algorithm 5
# descends from each chosen node, always to the child with the largest count.
#
# The cost in the tree metric is at most 10 times the optimum (Theorem 3.7), and with power=2, for
# squared distances, at most 34 times (Theorem C.3). The latter needs the square of 2 ** h_v in the
# score: with 2 ** h_v, as in appendix C, there is no bound (the tests have a counterexample).
#
# The exact optimum in the tree metric is found in the same time: in a 2-HST the k best leaves end
# the k longest disjoint paths, and a greedy search finds these. Only the scores keep their bound
# with noisy counts, which need not be consistent and may be negative.


def seed_on_tree(
    tree: HstTree, counts: F64, k: int, power: int = 1, *, exact: bool = False
) -> Ints:
    """K distinct points by falling score, or (exact) those of least cost. Pre: 1 <= k <= n."""
    leaves = _native.tree_leaves(tree.parent, tree.height, tree.log_unit, counts, k, power, exact)
    chosen = tree.center[leaves]
    if len(chosen) == k:
        return chosen
    # The tree has fewer than k leaves: the others are points at distance 0 of a chosen one.
    others = np.setdiff1d(np.arange(len(tree.leaf)), chosen)
    return np.concatenate([chosen, others[: k - len(chosen)]])


def hst_seed(
    space: MetricSpace | Rows, k: int, weight: F64 | None, power: int, rng: np.random.Generator
) -> Ints:
    """Grow a tree, count the weight on it, seed. Pre: 1 <= k <= n; a weight for every point."""
    tree = grow(space, rng)
    power = 2 * power if space.half_squares else power
    return seed_on_tree(tree, tree.counts(weight), k, power)
