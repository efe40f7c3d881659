"""Private k-median by noisy demand of public cells, or of the nodes of a public tree.

`DemandCells`, noisy demand of cells, and ordinary k-median on the demand they estimate:

| round | cells | costs |
|---|---|---|
| 1 | of the medoids of all points, which are public | one release of counts |
| 2 | of the medoids of the demand that round 1 estimates, which is released | another |

The estimate spreads the noisy count of a cell over its points, evenly at first, then in proportion
to the estimate before. So where the counts say nothing, the density of the public points is used.
The cells of the second round are small where there is demand. Medoids, and the counts of their
clusters, are computed from the estimate by the search of `KMedian`, which costs no privacy.

`DemandHst` (Fan et al. 2023): a 2-HST is grown over the public points alone. The nodes below the
root are in levels: a node is in the level of the greatest height at which its cluster exists. A
point is in at most one node of a level, so each level is one release of counts of disjoint cells,
of all its nodes. Seeds on the tree (Algorithm 6) are followed by private swaps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvariates.data.hst_tree import HstTree, grow, seed_on_tree
from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Release
from kvariates.private_methods.noisy_centers import NoisyCounts, about_total
from kvariates.private_methods.private_swaps import (
    DemandLocalSearch,
    private_search,
    public_candidates,
)
from kvariates.private_methods.task import DemandTask, PrivateMethod, PrivateResult, Traits
from kvariates.refining.medoid_search import find_medoids, search_task
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS

ALL_LEVELS = 10**6  # of a tree
FEWEST, MOST = 8, 1024  # cells of the second round
RESTARTS = 1  # of the last search, except on a graph
MAX_SWAPS = 10**9
SWAPPED = 2**15  # nodes of a graph up to which the medoids of cells are swapped
PER_CELL = 4.0  # standard deviations of noise that a cell of the second round should count


@dataclass(frozen=True, eq=False)
class LeveledTree:
    """The highest levels of a tree. `levels`: the numbers of their nodes, from the top."""

    tree: HstTree
    levels: list[Ints]

    @classmethod
    def of(cls, tree: HstTree, depth: int, k: int) -> LeveledTree:
        """The `depth` highest levels of a tree; more if they have fewer than k leaves."""
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
    parent, leaf = tree.parent[kept], number[_climbed(tree, kept)]
    parent[1:] = number[parent[1:]]
    return HstTree(parent, tree.height[kept], tree.center[kept], leaf, tree.unit)


def _climbed(tree: HstTree, ends: NDArray[np.bool_]) -> Ints:
    """The first node above the leaf of each point, or the leaf, that is an end; else the root."""
    at = tree.leaf
    while not (there := ends[at] | (at == 0)).all():
        at = np.where(there, at, tree.parent[at])
    return at


@dataclass(frozen=True, eq=False)
class NoisyTree:
    """Noisy counts of all nodes; the root has the sum of the highest level."""

    tree: HstTree
    counts: F64
    notes: tuple[str, ...]

    def seeds(self, task: DemandTask) -> Ints:
        """K points by Algorithm 4 with the noisy counts."""
        return seed_on_tree(self.tree, self.counts, task.k, 2 if task.space.half_squares else 1)


# proof: hst_counts.md
def noisy_tree(task: DemandTask, leveled: LeveledTree, costs: list[Cost]) -> NoisyTree:
    """Release the counts of every level, each for its own cost."""
    tree, counts = leveled.tree, np.zeros(leveled.tree.nodes)
    notes: tuple[str, ...] = ()
    for number, (nodes, cost) in enumerate(zip(leveled.levels, costs, strict=True), start=1):
        cells = _cells(tree, nodes)
        label = f"level {number}: demand of each node"
        counted = task.count(cells, len(nodes), label, cost)
        counts[nodes] = counted.value
        if number == 1:
            counts[0] = counted.value.sum()
            deviation, what = counted.charge.deviation, "nodes of the highest level"
            notes = about_total(counted.value, deviation, what)
    return NoisyTree(tree, counts, notes)


def level_costs(cost: Cost, levels: int, decay: float) -> list[Cost]:
    """The cost in parts, each `decay` times the part of the level above. Together they are it."""
    return cost.split([decay**number for number in range(levels)])


def _cells(tree: HstTree, nodes: Ints) -> Ints:
    """The index among `nodes` of the node that each point is in; -1 if it is in none."""
    index = np.full(tree.nodes, -1, dtype=np.int64)
    index[nodes] = np.arange(len(nodes))
    return index[_climbed(tree, index >= 0)]


# proof: demand_cells.md
@dataclass(frozen=True)
class DemandCells(PrivateMethod[DemandTask]):
    """Noisy demand of cells in two rounds; k-median on the demand that they estimate.

    Parameters
    ----------
    first : int, default=24
        Cells of the first round.
    second : int or None, default=None
        Cells of the second. None: by the noisy total of the first, about one for each four
        standard deviations of noise.
    second_share : float, default=0.5
        The share of the budget of the second round.
    """

    traits = Traits(counts=True)

    first: int = 24
    second: int | None = None
    second_share: float = 0.5

    def __post_init__(self) -> None:
        self.check_count("first", self.first, least=1)
        self.check_count("second", self.second, least=1)
        self.check_number("second_share", self.second_share, 0.0, 1.0)

    def __call__(self, task: DemandTask) -> PrivateResult:
        task, public = task.without_charges(), np.ones(task.space.n)
        first, *others = task.cost.split([1 - self.second_share, self.second_share])
        if task.space.n <= self.first:  # every point is a cell, and one round is enough
            first, others = task.cost, []
        counted = _count(task, public, self.first, "round 1", first)
        total = float(counted.noisy.value.sum())
        notes = about_total(counted.noisy.value, counted.noisy.charge.deviation, "first cells")
        estimate = counted.estimate(public)
        for cost in others:
            enough = total / (PER_CELL * cost.deviation(task.adjacency))
            number = self.second or int(np.clip(enough, FEWEST, MOST))
            counted = _count(task, estimate, number, "round 2", cost)
            estimate = counted.estimate(estimate)
        restarts = RESTARTS if task.space.quick_swaps else 0
        medoids = weighted_medoids(task, estimate, task.k, restarts)
        nearest = task.space.two_nearest(medoids).labels
        counts = counted.counts(np.maximum(nearest, 0), estimate, task.k)
        return PrivateResult(medoids, task.charges, counts, notes)


@dataclass(frozen=True, eq=False)
class CountedCells:
    """The cell of every point, and the noisy counts of the cells."""

    cells: Ints
    noisy: Release[I64]

    def estimate(self, before: F64) -> F64:
        """The demand of every point: the counts, spread in proportion to the estimate before.

        Counts become non-negative by the nearest such counts with the same sum.
        """
        number = len(self.noisy.value)
        counts = nearest_counts(self.noisy.value)
        held = np.bincount(self.cells, before, minlength=number)
        evenly = np.bincount(self.cells, minlength=number)
        some = held > 0
        factor = counts / np.where(some, held, np.maximum(evenly, 1))
        return np.asarray(np.where(some[self.cells], before, 1.0) * factor[self.cells])

    def counts(self, nearest: Ints, estimate: F64, k: int) -> NoisyCounts:
        """The demand of each medoid, by the estimate, with the noise of its parts of the cells."""
        number = len(self.noisy.value)
        held = np.bincount(self.cells, estimate, minlength=number)
        # A cell whose count became 0 had noise, too: it is shared by its points.
        mass = np.where(held[self.cells] > 0, estimate, 1.0)
        parts = np.bincount(nearest * number + self.cells, mass, minlength=k * number)
        masses = np.bincount(self.cells, mass, minlength=number)
        # A cell without points has no part of any medoid.
        shares = parts.reshape(k, number) / np.where(masses > 0, masses, 1.0)
        cells = np.maximum((shares**2).sum(axis=1), 1.0)  # no part is less noisy than a cell
        counts: F64 = np.bincount(nearest, estimate, minlength=k).astype(np.float64)
        return NoisyCounts.of(counts, self.noisy.charge.deviation * np.sqrt(cells))


def _count(task: DemandTask, weight: F64, number: int, label: str, cost: Cost) -> CountedCells:
    """Release the demand of the cells of medoids of the weights."""
    number = min(number, task.space.n)
    # Swaps of many medoids of a large graph take long, and cells need not be the best ones.
    large = not task.space.quick_swaps and task.space.n > SWAPPED
    medoids = weighted_medoids(task, weight, number, 0, max_swaps=0 if large else MAX_SWAPS)
    labels = task.space.two_nearest(medoids).labels
    cells = np.maximum(labels, 0).astype(np.int64)  # what no medoid reaches is in the first cell
    noisy = task.count(cells, number, f"{label}: demand of each cell", cost)
    return CountedCells(cells, noisy)


def weighted_medoids(
    task: DemandTask, weight: F64, k: int, restarts: int, max_swaps: int = MAX_SWAPS
) -> Ints:
    """The medoids of public or released weights."""
    search = search_task(
        task.space, weight, k, restarts=restarts, max_swaps=max_swaps, rng=task.rng
    )
    seed = MEDOID_SEEDINGS["k-median++"].run
    return find_medoids(search, lambda space, mass: seed(space, k, mass, task.rng)).medoids


def nearest_counts(noisy: I64) -> F64:
    """The nearest non-negative counts with the same sum, at least 1."""
    total, falling = max(float(noisy.sum()), 1.0), np.sort(noisy)[::-1]
    over = (np.cumsum(falling) - total) / np.arange(1, len(noisy) + 1)
    last = int(np.flatnonzero(falling > over)[-1])
    return np.asarray(np.maximum(noisy - over[last], 0.0))


# proof: hst_counts.md
@dataclass(frozen=True)
class DemandHst(PrivateMethod[DemandTask]):
    """DP-HST (Fan et al. 2023, Algorithms 6 and 7): noisy counts on a tree, then DP local search.

    Parameters
    ----------
    levels : int, default=8
        L, the levels of the tree below its root that are counted; more, if they have too few
        leaves.
    decay : float, default=0.5
        The budget of a level divided by that of the level above. It is 1/2 as printed; but the
        parts add up to the budget.
    seed_share : float, default=0.5
        The share of the budget of the counts.
    n_swaps : int, default=20
        T. 0 is no local search, and all of the budget goes to the counts.
    n_candidates : int or None, default=None
        As in `DemandLocalSearch`.
    """

    traits = Traits(swaps=True)

    levels: int = 8
    decay: float = 0.5
    seed_share: float = 0.5
    n_swaps: int = 20
    n_candidates: int | None = None

    def __post_init__(self) -> None:
        self.check_count("levels", self.levels, least=1)
        self.check_count("n_swaps", self.n_swaps, least=0)
        self.check_count("n_candidates", self.n_candidates, least=1)
        self.check_number("decay", self.decay, 1e-3, 1e3)
        self.check_number("seed_share", self.seed_share, 0.0, 1.0)

    def __call__(self, task: DemandTask) -> PrivateResult:
        task = task.without_charges()
        leveled = LeveledTree.of(grow(task.space, task.rng), self.levels, task.k)
        if not leveled.levels:  # all points are at the same place: there is nothing to count
            swaps = max(1, self.n_swaps)
            return DemandLocalSearch(n_swaps=swaps, n_candidates=self.n_candidates)(task)
        seeding, searching = task.cost, []
        if self.n_swaps:
            each = (1 - self.seed_share) / (self.n_swaps + 1)
            seeding, *searching = task.cost.split([self.seed_share, *[each] * (self.n_swaps + 1)])
        costs = level_costs(seeding, len(leveled.levels), self.decay)
        noisy = noisy_tree(task, leveled, costs)
        medoids, path, reach = noisy.seeds(task), [], 0.0
        if searching:
            candidates = public_candidates(task, medoids, self.n_candidates, leveled.tree)
            found = private_search(task, medoids, candidates, searching)
            medoids, path, reach = found.medoids, found.sets, found.reach
        return PrivateResult(medoids, task.charges, notes=noisy.notes, path=path, reach=reach)

    def with_theory(self, n: int, k: int) -> DemandHst:
        """All levels of the tree, and T = k ln ln n swaps among all points (Theorem 4.3)."""
        swaps = max(1, math.ceil(k * math.log(max(math.log(n), 1.0))))
        return replace(self, levels=ALL_LEVELS, n_swaps=swaps, n_candidates=n)
