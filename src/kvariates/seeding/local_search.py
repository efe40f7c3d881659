"""LS++ (Lattanzi & Sohler 2019): swap a centre for a row while that lowers the cost.

    repeat:  draw a row p with probability proportional to w D^2
             find the centre whose replacement by p leaves the least cost; replace it if that helps

With d1 <= d2 a row's squared distances to its two nearest centres and dp to p, a swap of centre j
for p leaves the row min(dp, d2) if j is its nearest centre and min(dp, d1) if not. So all k swaps
are weighed in one pass over three numbers a row, and only d1, d2 and whose they are need be kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Rows, total_cost

EPS = float(np.finfo(np.float64).eps)


def search_steps(k: int) -> int:
    """Steps after which the planted centres of the usual benchmark sets are found."""
    return max(25, 4 * k)


@dataclass(frozen=True)
class LocalSearchResult:
    centers: F64
    cost: float
    swaps: int


class LocalSearchState:
    """The centres and, exactly, every row's two nearest: ties go to the lowest index."""

    def __init__(self, space: Rows, weight: F64 | None, centers: F64) -> None:
        self.space, self.weight = space, weight
        self.centers = centers.copy()
        self.two = space.two_nearest(centers)
        self._measure()

    def draw(self, rng: np.random.Generator) -> int:
        """A row, with probability proportional to weight * cost; -1 if all of them are zero."""
        ends = self._ends
        place = rng.random() * ends[-1]
        if not ends[-1] > 0:
            return -1
        row = np.searchsorted(ends, place, side="right")
        return int(min(row, np.searchsorted(ends, ends[-1])))  # rounding may carry past the end

    def best_swap(self, to_p: F64) -> tuple[int, float]:
        """Which centre to give up for p, and what all rows cost then."""
        kept = np.minimum(to_p, self.two.cost)
        more = np.minimum(to_p, self.two.second_cost)
        more -= kept
        if self.weight is not None:
            more *= self.weight
        loss = np.bincount(self.two.labels, more, minlength=len(self.centers))
        j = int(np.argmin(loss))
        return j, total_cost(kept, self.weight) + float(loss[j])

    def swap(self, j: int, p: F64, to_p: F64) -> None:
        """Put p in the place of centre j, and every row's two nearest right."""
        two = self.two
        loses = (two.labels == j) | (two.second == j)
        rows = np.flatnonzero(loses | (to_p <= two.second_cost))
        # Where p is nearer than the second was, who comes third need not be known.
        lost = rows[loses[rows] & (to_p[rows] >= two.second_cost[rows])]
        self.centers[j] = p
        self._exchange(j, rows, to_p[rows])
        if len(lost):
            found = Rows.of(self.space.X[lost]).two_nearest(self.centers)
            two.labels[lost], two.second[lost] = found.labels, found.second
            two.cost[lost], two.second_cost[lost] = found.cost, found.second_cost
        self._measure()

    def _exchange(self, j: int, rows: NDArray[np.int64], to_p: F64) -> None:
        """Of these rows' two nearest take out the old centre j, and put in the new one."""
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
        self.cost = total_cost(self.two.cost, self.weight)
        costs = self.two.cost if self.weight is None else self.weight * self.two.cost
        self._ends = np.cumsum(costs)


def local_search(
    space: Rows,
    centers: F64,
    weight: F64 | None,
    *,
    steps: int,
    rng: np.random.Generator,
) -> LocalSearchResult:
    """Try `steps` swaps; fewer if every row comes to lie on a centre. `centers` are not changed.

    Pre: weight is None (all ones) or float64, non-negative, not all zero.
    """
    order = space.canonical_order()
    if order is not None:
        space = Rows.of(space.X[order])
        weight = None if weight is None else weight[order]
    standing = LocalSearchState(space, weight, centers)
    alone, swaps = np.zeros(space.n, dtype=np.int32), 0
    for _ in range(steps):
        row = standing.draw(rng)
        if row < 0:
            break
        p = space.take(np.array([row]))
        to_p = space.costs(p, alone)
        j, after = standing.best_swap(to_p)
        if after < standing.cost * (1 - space.n * EPS):  # by more than sums of n terms are off
            standing.swap(j, p[0], to_p)
            swaps += 1
    return LocalSearchResult(standing.centers, standing.cost, swaps)
