"""Local search by the exponential mechanism (Gupta et al. 2010; Balcan et al. 2017, Algorithm 3).

    a number of times that is fixed beforehand
        a swap of a medoid for a candidate is drawn: the lower the cost after it, the likelier
    one of the sets of medoids that were visited is drawn likewise

A score is minus the cost of a whole set of medoids. One more row adds its own cost, between 0 and
the largest cost of a row, to all of them: scores are monotone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from kvariates.data.metric_spaces import Ints
from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import Query, Scores, score_query
from kvariates.privacy.secret import Secret
from kvariates.refining.swaps import MedoidState


class _Visited:
    """A search, and the cost of each set of medoids that it visited."""

    def __init__(self, state: MedoidState) -> None:
        self.state = state
        self.costs: list[float] = []

    def scores(self, others: Ints) -> np.ndarray:
        """Minus the cost after every swap, slots in the inner order."""
        return -(self.state.cost + self.state.changes(others)).ravel()

    def swap(self, candidate: int, slot: int) -> None:
        self.state.swap(candidate, slot)
        self.costs.append(self.state.cost)


@dataclass(frozen=True, eq=False)
class PrivateSwaps:
    """Swaps that are drawn by the cost after them. `scores`: how far one row moves a cost."""

    scores: Scores
    adjacency: Adjacency
    accountant: Accountant

    def __call__(
        self, state: Secret[MedoidState], medoids: Ints, n_candidates: int, costs: Sequence[Cost]
    ) -> Ints:
        """Medoids after len(costs) - 1 swaps or fewer: the last cost pays for the best number.

        Pre: the state is at `medoids`, and there is a candidate that is none of them.
        """
        visited, sets = state.map(_Visited), [medoids]
        for number, cost in enumerate(costs[:-1], start=1):
            now = sets[-1]
            others = np.setdiff1d(np.arange(n_candidates), now)
            scores = visited.map(partial(_Visited.scores, others=others))
            chosen = self._choose(scores, f"swap {number}", cost)
            candidate, slot = int(others[chosen // len(now)]), chosen % len(now)
            visited.map(partial(_Visited.swap, candidate=candidate, slot=slot))
            sets.append(np.concatenate([now[:slot], [candidate], now[slot + 1 :]]))
        ended = visited.map(lambda of: -np.array(of.costs))
        return sets[1 + self._choose(ended, "number of swaps", costs[-1])]

    def _choose(self, scores: Secret[np.ndarray], label: str, cost: Cost) -> int:
        def query(exact: np.ndarray) -> Query[int]:
            return score_query(exact, self.scores, self.adjacency, label)

        return self.accountant.release(scores.map(query), cost).value
