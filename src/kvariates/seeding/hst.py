"""Seeding on a tree: k subtrees that matter most, and in each the point that most others lead to.

A node's score is how much its points would pay if none of them were chosen:

    score(v) = counts[v] * 2 ** (power * (height of v's parent))

Fan et al. 2023 (Algorithm 4) print N_v * 2 ** h_v on trees whose heights fall one by one, where it
is the same up to a constant; here chains of single children are cut out, and a chain stands for its
highest node. Nodes are taken by falling score, ties to the lower number; one that has a chosen node
below it is passed over, and a chosen one above it makes way. Then Algorithm 5: from each chosen
node down, always to the child with the largest count.

Costs in the tree metric are within 10 times the optimum (Theorem 3.7), and with power=2, squared
distances, within 34 (Theorem C.3). For that the score must hold the squared height: as appendix C
prints it, with 2 ** h_v, the ratio has no bound (the tests keep a counterexample).

`best_on_tree` is the optimum itself: in a 2-HST the k best leaves are the k longest disjoint paths,
and a greedy search finds those in the same time. Scores, though, keep their promise under noise.

Counts are an argument. They may be noisy: of no order, or negative.
"""

from __future__ import annotations

import numpy as np

from kvariates import _native
from kvariates.data.hst_tree import HstTree, grow, squared
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, Rows


def seed_on_tree(tree: HstTree, counts: F64, k: int, power: int = 1) -> Ints:
    """The k points of highest score, all distinct. Pre: 1 <= k <= n."""
    return _points(tree, counts, k, power, False)


def best_on_tree(tree: HstTree, counts: F64, k: int, power: int = 1) -> Ints:
    """The k points of least cost in the tree metric, all distinct. Pre: true counts."""
    return _points(tree, counts, k, power, True)


def hst_seed(
    space: MetricSpace | Rows, k: int, weight: F64 | None, power: int, rng: np.random.Generator
) -> Ints:
    """Grow a tree, count the demand on it, seed. Pre: 1 <= k <= n; a weight for every point."""
    tree = grow(space, rng)
    return seed_on_tree(tree, tree.counts(weight), k, 2 * power if squared(space) else power)


def _points(tree: HstTree, counts: F64, k: int, power: int, exact: bool) -> Ints:
    leaves = _native.tree_leaves(tree.parent, tree.height, tree.low, counts, k, power, exact)
    chosen = tree.center[leaves]
    if len(chosen) == k:
        return chosen
    # Fewer places than k: the others are points at distance 0 of a chosen one.
    others = np.setdiff1d(np.arange(len(tree.leaf)), chosen)
    return np.concatenate([chosen, others[: k - len(chosen)]])
