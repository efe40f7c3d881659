"""Seeding on a 2-HST: choose k subtrees, then one point in each.

The score of a node is, up to a constant, the cost of its points if none of them were chosen:

    score(v) = counts[v] * 2 ** (power * (height of v's parent))

Fan et al. 2023 (Algorithm 4) use N_v * 2 ** h_v on trees in which every height is present; there it
is the same up to a constant. Here nodes with a single child are left out, and a node stands for the
highest of its chain. Nodes are chosen by falling score, ties to the lower number. A node with a
chosen node below it is skipped, and a chosen node above it is dropped. Then Algorithm 5 descends
from each chosen node, always to the child with the largest count.

The cost in the tree metric is at most 10 times the optimum (Theorem 3.7), and with power=2, for
squared distances, at most 34 times (Theorem C.3). The latter needs the square of 2 ** h_v in the
score: with 2 ** h_v, as in appendix C, there is no bound (the tests have a counterexample).

The exact optimum in the tree metric is found in the same time: in a 2-HST the k best leaves end the
k longest disjoint paths, and a greedy search finds these. Only the scores keep their bound with
noisy counts, which need not be consistent and may be negative.
"""

from __future__ import annotations

import numpy as np

from kvariates.data.hst_tree import HstTree, grow
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, Rows


def seed_on_tree(
    tree: HstTree, counts: F64, k: int, power: int = 1, *, exact: bool = False
) -> Ints:
    """K distinct points by falling score, or (exact) those of least cost. Pre: 1 <= k <= n."""
    chosen = tree.center[tree.best_leaves(counts, k, power, exact=exact)]
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
