"""Local search by the exponential mechanism (Gupta et al. 2010; Balcan et al. 2017, Algorithm 3).

The loop of `refining.swaps` with a chooser that draws each swap by the exponential mechanism, and
then one choice among the sets of medoids that the swaps went through. A swap (x, y) has the score
-cost(F - x + y), which one more row lowers by its own cost: scores are monotone. All swaps of all
candidates are compared in every step. Where swaps lead is released, and nothing stops the search
early. The swaps and the choice have equal parts of the budget.

`DemandLocalSearch` is this search for a private demand (also Fan et al. 2023, Algorithm 7): one
more point of the demand lowers the scores by at most the cap on distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvariates.data.hst_tree import HstTree, grow
from kvariates.data.lattice_rows import CappedDistances
from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64
from kvariates.privacy.budget import Cost
from kvariates.privacy.query import Scores
from kvariates.privacy.secret import Secret
from kvariates.private_methods.task import DemandTask, PrivateMethod, PrivateResult, Task, Traits
from kvariates.refining.swaps import (
    AllCandidates,
    MedoidProblem,
    MedoidState,
    MedoidSwap,
    SwapSearch,
    swap_medoids,
)
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS

ALL_CANDIDATES = 2**14  # points up to which all are candidates
CANDIDATES = 2**11  # of more points


@dataclass(frozen=True, eq=False)
class SwapPath:
    """The sets of medoids from the start on, and the number of the chosen one.

    reach : so many far points weigh as much as the noise of a swap; 0 if not computed.
    """

    sets: list[Ints]
    chosen: int
    reach: float = 0.0

    @property
    def medoids(self) -> Ints:
        return self.sets[self.chosen]


class PrivateChooser:
    """The chooser that draws a swap by the exponential mechanism; each call costs the next cost.

    `largest`: the largest cost of a row; `step`: the unit of the costs, which are multiples of it.
    """

    def __init__(self, task: Task[Any], largest: float, step: float, costs: list[Cost]) -> None:
        self.task, self.step = task, step
        self.scores = Scores(largest, monotone=True)
        self.chosen: list[MedoidSwap] = []
        self._costs: Iterator[Cost] = iter(costs)

    def __call__(self, changes: F64, cost: float) -> MedoidSwap:
        index = self.draw(Secret(cost + changes.ravel()), f"swap {len(self.chosen) + 1}")
        self.chosen.append(MedoidSwap(*divmod(index, changes.shape[1])))
        return self.chosen[-1]

    def draw(self, costs: Secret[F64], label: str) -> int:
        """The number of a low cost; costs are in steps."""
        step, cost = self.step, next(self._costs)
        return self.task.choose(costs.map(lambda of: -step * of), self.scores, label, cost)


def draw_swaps(
    problem: Secret[MedoidProblem], start: Ints, n_candidates: int, swaps: int,
    choose: PrivateChooser,
) -> SwapPath:  # fmt: skip
    """So many private swaps, and the private choice of one of the sets on the way.

    Pre: there are more candidates than medoids, and a cost for each swap and for the choice.
    """
    # The search ends only by its number of swaps.
    every = AllCandidates(np.arange(n_candidates), n_candidates, math.inf)
    how = SwapSearch(every, choose, max_swaps=swaps)
    problem.map(lambda p: swap_medoids(MedoidState.of(p, start.copy()), how))
    sets = _sets(start, choose.chosen, n_candidates)
    ends = problem.map(lambda p: np.array([MedoidState.of(p, each.copy()).cost for each in sets]))
    return SwapPath(sets, choose.draw(ends, "choice of a set"))


def _sets(start: Ints, swaps: list[MedoidSwap], number: int) -> list[Ints]:
    """The sets of medoids that released swaps lead through. A swap counts candidates only."""
    sets = [start]
    for swap in swaps:
        others = np.setdiff1d(np.arange(number), sets[-1])
        after = sets[-1].copy()
        after[swap.slot] = others[swap.candidate]
        sets.append(after)
    return sets


# proof: local_search.md
def private_search(task: DemandTask, start: Ints, candidates: Ints, costs: list[Cost]) -> SwapPath:
    """`len(costs) - 1` private swaps, and the private choice of one of the sets on the way.

    Pre: the candidates are ascending and contain the start; there are more of them than medoids.
    """
    distances, number = CappedDistances(task.space, task.cap), len(candidates)
    problem = task.rows.map(lambda demand: _problem(distances, candidates, demand))
    choose = PrivateChooser(task, distances.cap, distances.step, costs)
    first = np.searchsorted(candidates, start)
    path = draw_swaps(problem, first, number, len(costs) - 1, choose)
    noise = task.charges[-1].scale / distances.cap
    reach = noise * math.log(task.k * (number - task.k) + 1)
    return SwapPath([candidates[each] for each in path.sets], path.chosen, reach)


def _problem(distances: CappedDistances, candidates: Ints, demand: Ints) -> MedoidProblem:
    points, counts = np.unique(demand, return_counts=True)
    if not len(points):  # a point of weight zero stands for no demand
        points, counts = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    matrix = distances.matrix(candidates, points)
    return MedoidProblem(matrix, counts.astype(np.float64), np.searchsorted(candidates, points))


def public_candidates(
    task: DemandTask, start: Ints, most: int | None, tree: HstTree | None = None
) -> Ints:
    """The start and, of many points, the centres of the highest nodes of a tree; else all points.

    `most`: how many, about; None is ALL_CANDIDATES points or, of more, CANDIDATES.
    """
    n = task.space.n
    if most is None:
        most = n if n <= ALL_CANDIDATES else CANDIDATES
    if most >= n:
        return np.arange(n)
    tree = grow(task.space, task.rng) if tree is None else tree
    centers = tree.center[np.argsort(-tree.height, kind="stable")]
    first = np.sort(np.unique(centers, return_index=True)[1])[: max(most, len(start) + 1)]
    more = np.union1d(centers[first], start)
    if len(more) <= len(start):  # a tree with few nodes
        more = np.arange(n)
    return more.astype(np.int64)


# proof: local_search.md
@dataclass(frozen=True)
class DemandLocalSearch(PrivateMethod[DemandTask]):
    """DP local search from public points (Gupta et al. 2010).

    Parameters
    ----------
    n_swaps : int, default=20
        T. Every swap and the last choice have equal parts of the budget.
    start : {"random", "k-median++", "hst"}, default="random"
        A seeding of medoids, on all points.
    n_candidates : int or None, default=None
        How many points may become medoids. None: all, or of many points 2,048.
    """

    traits = Traits(swaps=True)

    n_swaps: int = 20
    start: str = "random"
    n_candidates: int | None = None

    def __post_init__(self) -> None:
        self.check_count("n_swaps", self.n_swaps, least=1)
        self.check_count("n_candidates", self.n_candidates, least=1)
        if self.start not in MEDOID_SEEDINGS:
            raise ValueError(f"start must be one of {sorted(MEDOID_SEEDINGS)}; got {self.start!r}.")

    def __call__(self, task: DemandTask) -> PrivateResult:
        task = task.without_charges()
        medoids = MEDOID_SEEDINGS[self.start].run(task.space, task.k, None, task.rng)
        candidates = public_candidates(task, medoids, self.n_candidates)
        costs = task.cost.split([1.0] * (self.n_swaps + 1))
        path = private_search(task, medoids, candidates, costs)
        return PrivateResult(path.medoids, task.charges, path=path.sets, reach=path.reach)

    def with_theory(self, n: int, k: int) -> DemandLocalSearch:
        """With T = 6 k ln n swaps among all points (Gupta et al. 2010)."""
        return replace(self, n_swaps=max(1, math.ceil(6 * k * math.log(n))), n_candidates=n)
