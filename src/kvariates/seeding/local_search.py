"""LS++ (Lattanzi & Sohler 2019): swap a centre for a row while that lowers the cost.

    repeat:  draw a row p with probability proportional to w D^2
             find the centre whose replacement by p leaves the least cost; replace it if that helps

With d1 <= d2 a row's squared distances to its two nearest centres and dp to p, a swap of centre j
for p leaves the row min(dp, d2) if j is its nearest centre and min(dp, d1) if not. So all k swaps
are weighed in one pass over three numbers per row, and only d1, d2 and whose they are need be kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvariates.data.rows import F64, Rows, total_cost
from kvariates.numerics.draws import I64, CumulativeMass
from kvariates.seeding.seeding_problem import SeedingProblem

EPS = float(np.finfo(np.float64).eps)


def search_steps(k: int) -> int:
    """Steps after which the planted centres of the usual benchmark sets are found."""
    return max(25, 4 * k)


@dataclass(frozen=True)
class LocalSearchResult:
    centers: F64
    cost: float
    swaps: int


@dataclass(frozen=True)
class Swap:
    center: int  # the centre that is given up
    cost: float  # of all rows afterwards


class LocalSearchState:
    """The centres and, exactly, every row's two nearest: ties go to the lowest index."""

    def __init__(self, rows: Rows, weight: F64 | None, centers: F64) -> None:
        self.points, self.weight = rows, weight
        self.centers = centers.copy()
        self.two = rows.two_nearest(centers)
        self._measure()

    def draw(self, rng: np.random.Generator) -> int:
        """Draw a row in proportion to weight * cost."""
        return int(self._mass.draw(1, rng)[0])

    def best_swap(self, to_p: F64) -> Swap:
        """The swap for p, at these costs from all rows, that leaves the least cost."""
        kept = np.minimum(to_p, self.two.cost)
        more = np.minimum(to_p, self.two.second_cost)
        more -= kept
        if self.weight is not None:
            more *= self.weight
        loss = np.bincount(self.two.labels, more, minlength=len(self.centers))
        j = int(np.argmin(loss))
        return Swap(j, total_cost(kept, self.weight) + float(loss[j]))

    def swap(self, j: int, p: F64, to_p: F64) -> None:
        """Put p in the place of centre j and update every row's two nearest."""
        two = self.two
        loses = (two.labels == j) | (two.second == j)
        rows = np.flatnonzero(loses | (to_p <= two.second_cost))
        # Where p is nearer than the second was, the third nearest need not be known.
        lost = rows[loses[rows] & (to_p[rows] >= two.second_cost[rows])]
        self.centers[j] = p
        self._exchange(j, rows, to_p[rows])
        if len(lost):
            found = self.points.subset(lost).two_nearest(self.centers)
            two.labels[lost], two.second[lost] = found.labels, found.second
            two.cost[lost], two.second_cost[lost] = found.cost, found.second_cost
        self._measure()

    def _exchange(self, j: int, rows: I64, to_p: F64) -> None:
        """In these rows' two nearest, replace the old centre j by the new one."""
        first, cost = self.two.labels[rows], self.two.cost[rows]
        second, second_cost = self.two.second[rows], self.two.second_cost[rows]
        second_cost[(first == j) | (second == j)] = np.inf
        cost = np.where(first == j, self.two.second_cost[rows], cost)
        first = np.where(first == j, second, first)
        wins = (to_p < cost) | ((to_p == cost) & (j < first))
        places = (to_p < second_cost) | ((to_p == second_cost) & (j < second))
        self.two.labels[rows] = np.where(wins, j, first)
        self.two.cost[rows] = np.where(wins, to_p, cost)
        self.two.second[rows] = np.where(wins, first, np.where(places, j, second))
        self.two.second_cost[rows] = np.where(wins, cost, np.where(places, to_p, second_cost))

    def _measure(self) -> None:
        self.total = total_cost(self.two.cost, self.weight)
        costs = self.two.cost if self.weight is None else self.weight * self.two.cost
        self._mass = CumulativeMass(costs)


def local_search(problem: SeedingProblem, centers: F64, *, steps: int) -> LocalSearchResult:
    """Try `steps` swaps; fewer if every row comes to lie on a centre. `centers` are not changed."""
    p = problem.canonical()
    state = LocalSearchState(p.rows, p.weight, centers)
    zeros, swaps = np.zeros(p.rows.n, dtype=np.int32), 0
    for _ in range(steps):
        row = state.draw(p.rng)
        if not state.total > 0:
            break
        candidate = p.rows.take(np.array([row]))
        to_candidate = p.rows.costs(candidate, zeros)
        swap = state.best_swap(to_candidate)
        if swap.cost < state.total * (1 - p.rows.n * EPS):  # more than a sum of n terms is off
            state.swap(swap.center, candidate[0], to_candidate)
            swaps += 1
    return LocalSearchResult(state.centers, state.total, swaps)
