"""Local search by the exponential mechanism (Gupta et al. 2010; Balcan et al. 2017, Algorithm 3).

The loop of `refining.swaps` with a chooser that draws each swap by the exponential mechanism, and
then one choice among the sets of medoids that the swaps went through. A swap (x, y) has the score
-cost(F - x + y), which one more row lowers by its own cost: scores are monotone. All swaps of all
candidates are compared in every step. Where swaps lead is released, and nothing stops the search
early.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64
from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import Query, Scores, score_query
from kvariates.privacy.secret import Secret
from kvariates.refining.swaps import (
    MedoidProblem,
    MedoidState,
    MedoidSwap,
    SwapSearch,
    swap_medoids,
)


@dataclass(frozen=True, eq=False)
class SwapPath:
    """The sets of medoids from the start on, and the number of the chosen one."""

    sets: list[Ints]
    chosen: int

    @property
    def medoids(self) -> Ints:
        return self.sets[self.chosen]


class PrivateChooser:
    """The chooser that draws a swap by the exponential mechanism; each call costs the next cost.

    Parameters
    ----------
    largest : float
        The largest cost of a row, in units of distance.
    step : float
        The unit of the costs that are given: they are multiples of it.
    adjacency : Adjacency
    costs : list of Cost
    accountant : Accountant
    """

    def __init__(
        self, largest: float, step: float, adjacency: Adjacency, costs: list[Cost],
        accountant: Accountant,
    ) -> None:  # fmt: skip
        self.adjacency, self.accountant, self.step = adjacency, accountant, step
        self.scores = Scores(largest, monotone=True)
        self.chosen: list[MedoidSwap] = []
        self._costs: Iterator[Cost] = iter(costs)

    def __call__(self, changes: F64, cost: float) -> MedoidSwap:
        label = f"swap {len(self.chosen) + 1}"
        index = self.draw(Secret(cost + changes.ravel()), label)
        candidate, slot = divmod(index, changes.shape[1])
        self.chosen.append(MedoidSwap(candidate, slot))
        return self.chosen[-1]

    def draw(self, costs: Secret[F64], label: str) -> int:
        """The number of a low cost; costs are in steps."""

        def query(costs: F64) -> Query[int]:
            return score_query(-self.step * costs, self.scores, self.adjacency, label)

        return self.accountant.release(costs.map(query), next(self._costs)).value


class EveryCandidate:
    """All candidates in every step. The search ends only by its number of swaps."""

    exhaustive, patience = True, math.inf

    def __init__(self, number: int) -> None:
        self._all = np.arange(number)

    def next(self, state: MedoidState) -> Ints:
        return self._all


def draw_swaps(
    problem: Secret[MedoidProblem], start: Ints, n_candidates: int, swaps: int,
    choose: PrivateChooser,
) -> SwapPath:  # fmt: skip
    """So many private swaps, and the private choice of one of the sets on the way.

    Pre: there are more candidates than medoids, and a cost for each swap and for the choice.
    """
    how = SwapSearch(EveryCandidate(n_candidates), choose, max_swaps=swaps)
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
