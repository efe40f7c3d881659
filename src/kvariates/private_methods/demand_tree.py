"""Noisy demand of the nodes of a 2-HST, and seeding on it (DP-HST, Fan et al. 2023, Algorithm 6).

The tree is grown over the public points alone. The nodes below the root are in levels: a node is in
the level of the greatest height at which its cluster exists. A point is in at most one node of a
level, so each level is one release of counts of disjoint cells, of all its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.hst_tree import HstTree, grow, is_squared
from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods.demand_task import DemandTask
from kvariates.seeding.hst import seed_on_tree

CLEAR = 4.0  # standard deviations of noise below which a total of counts says nothing


@dataclass(frozen=True, eq=False)
class LeveledTree:
    """The highest levels of a tree. `levels`: the numbers of their nodes, from the top."""

    tree: HstTree
    levels: list[Ints]

    @classmethod
    def grown(cls, task: DemandTask, depth: int) -> LeveledTree:
        """The `depth` highest levels of a new tree; more if they have fewer than k leaves."""
        return cls.of(grow(task.space, task.rng), depth, task.k)

    @classmethod
    def of(cls, tree: HstTree, depth: int, k: int) -> LeveledTree:
        top = np.full(tree.nodes, int(tree.height[0]), dtype=np.int64)
        top[1:] = tree.height[tree.parent[1:]] - 1
        heights = np.unique(top[1:])[::-1]
        limit = int(tree.height[0]) - depth
        while True:
            kept = top >= limit
            kept[0] = True
            if kept.all() or _n_leaves(tree, kept) >= k:
                break
            limit -= 1
        pruned, of_kept = _pruned(tree, kept), top[kept]
        levels = [np.flatnonzero(of_kept == h) for h in heights if h >= limit]
        # The root has the highest number of all but is in no level.
        return cls(pruned, [nodes[nodes > 0] for nodes in levels if (nodes > 0).any()])


def _n_leaves(tree: HstTree, kept: NDArray[np.bool_]) -> int:
    inner = np.unique(tree.parent[1:][kept[1:]])
    return int(kept.sum()) - len(inner)


def _pruned(tree: HstTree, kept: NDArray[np.bool_]) -> HstTree:
    """The tree of the kept nodes; the parent of a kept node is kept. Leaves hold what was below."""
    number = np.cumsum(kept) - 1
    above = np.where(kept, np.arange(tree.nodes), tree.parent)
    while not kept[above].all():
        above = above[above]
    parent = tree.parent[kept]
    parent[1:] = number[parent[1:]]
    return HstTree(
        parent, tree.height[kept], tree.center[kept], number[above[tree.leaf]], tree.unit
    )


@dataclass(frozen=True, eq=False)
class NoisyTree:
    """Noisy counts of all nodes; the root has the sum of the highest level."""

    tree: HstTree
    counts: F64
    warning: str | None

    def seeds(self, task: DemandTask) -> Ints:
        """K points by Algorithm 4 with the noisy counts."""
        return seed_on_tree(self.tree, self.counts, task.k, 2 if is_squared(task.space) else 1)


def noisy_tree(
    task: DemandTask, leveled: LeveledTree, costs: list[Cost], accountant: Accountant
) -> NoisyTree:
    """Release the counts of every level, each for its own cost."""
    tree, counts, warning = leveled.tree, np.zeros(leveled.tree.nodes), None
    for number, (nodes, cost) in enumerate(zip(leveled.levels, costs, strict=True), start=1):
        cells = _cells(tree, nodes)
        label = f"level {number}: demand of each node"
        counted = task.count(cells, len(nodes), label, cost, accountant)
        counts[nodes] = counted.counts
        if number == 1:
            total, noise = float(counted.counts.sum()), counted.deviation * np.sqrt(len(nodes))
            counts[0] = total
            if total < CLEAR * noise:
                warning = small_budget(total, float(noise), "nodes of the highest level")
    return NoisyTree(tree, counts, warning)


def small_budget(total: float, noise: float, what: str) -> str:
    """The warning about counts that are mostly noise."""
    return (
        f"The noise of the counts of the {what} is about {noise:.3g} in all, and what was counted "
        f"is {total:.3g}: the answer is close to a public one. Use a larger epsilon or more demand."
    )


def level_costs(cost: Cost, levels: int, decay: float) -> list[Cost]:
    """The cost in parts, each `decay` times the part of the level above. Together they are it."""
    return cost.split([decay**number for number in range(levels)])


def _cells(tree: HstTree, nodes: Ints) -> Ints:
    """The index among `nodes` of the node that each point is in; -1 if it is in none."""
    index = np.full(tree.nodes, -1, dtype=np.int64)
    index[nodes] = np.arange(len(nodes))
    unknown, above = index < 0, tree.parent.copy()
    above[0] = 0
    at = np.where(unknown, above, np.arange(tree.nodes))
    while True:
        further = np.where(index[at] < 0, above[at], at)
        if (further == at).all():
            return index[at][tree.leaf]
        at = further
