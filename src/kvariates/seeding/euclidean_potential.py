"""The potential of rows in memory under squared Euclidean distance.

A plain draw needs no pass over the rows. Added centres stay *pending*: the kept costs are then
upper bounds, a row is proposed by its bound and accepted with probability (true cost / bound),
which is exactly the law of the true costs. All pending centres are taken in together, in one pass,
once they are as many as the centres before, or once many proposals were rejected. So k centres cost
about as much as one assignment to k centres, not k passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kvariates.data.exact_sums import share_of, unscaled
from kvariates.data.host_data import Data, HostData
from kvariates.data.row_costs import Costs, RowCosts, choose_unit, stay_limit
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.seeding.sampler import Potential

PROPOSALS = 16  # tried before all pending centres are taken in
FINE_BITS = 48  # of the total of the costs
FLAT = 32  # features up to which a quantized copy of the rows does not pay
FEW = 16  # pending centres that never force a pass, and passes too few for a filter to pay


class EuclideanPotential(Potential):
    """Room for k centres. With skip=False no row is left out by bounds: no draw changes.

    `rows`: `Rows`, or `Data` with its `costs` if they are not in memory.
    Pre: weight is None (all ones) or float64, non-negative, not all zero.
    """

    def __init__(
        self,
        rows: Any,
        weight: F64 | None,
        k: int,
        *,
        skip: bool = True,
        costs: Costs | None = None,
    ) -> None:
        super().__init__(np.empty((k, rows.d)))
        self.points, self.weight, self.skip = rows, weight, skip
        self._flushed = 0  # how many of the added centres the costs know
        self._costs: Costs = costs or RowCosts(rows, weight)
        self._exponent = 0  # of the sums of costs
        self._rejected = 0  # proposals since the last flush
        self._filter_due = True
        self._squares_checked = False

    def masses(self) -> F64:
        self.flush()
        _, exponent = self._by_weight()
        exact = self._costs.masses(self._known, exponent)
        return np.array([unscaled(mass, exponent) for mass in exact])

    def total(self) -> float:
        if self._known == 0:
            by_weight, exponent = self._by_weight()
            return unscaled(by_weight.total(), exponent)
        self.flush()
        return unscaled(self._costs.total(), self._exponent)

    def draw(self, rng: np.random.Generator) -> int:
        if self._known == 0:
            return self._draw_by_weight(rng)
        pending = self._known - self._flushed
        many = pending >= max(FEW, self._flushed) or self._rejected * pending > self.points.n // 8
        if many or self._flushed == 0:
            self.flush()
        while True:
            fresh = self._centers[self._flushed : self._known]
            for _ in range(PROPOSALS):
                total = self._costs.total()
                if total == 0:
                    break
                goal = share_of(total, rng.random())
                found = self._costs.propose(goal, fresh, self._flushed)
                if rng.random() * found.bound < found.cost:
                    return found.row
                self._rejected += 1
            if self._flushed == self._known and total == 0:
                self._check_squares()
                return self._draw_by_weight(rng)
            self.flush()

    def draw_many(self, size: int, rng: np.random.Generator) -> I64:
        self.flush()
        total = self._costs.total()
        if total == 0:
            return np.zeros(size, dtype=np.int64)
        return self._costs.rows_at([share_of(total, u) for u in rng.random(size).tolist()])

    def add_best(self, candidates: F64) -> int:
        self.flush()
        if self._filter_due:
            self._filter_due = False
            passes = len(self._centers) - self._known
            if self.skip and self.points.d > FLAT and passes >= FEW:
                self._costs.quantize()
        limit = None if self._costs.quantized else self._limit(candidates)
        best = self._best_of(candidates, limit)
        self._costs.lower_to(candidates, best, self._known)
        self.add(candidates[best : best + 1])
        self._flushed = self._known
        self._refine_unit()
        return best

    def _best_of(self, candidates: F64, limit: F64 | None) -> int:
        """The first candidate of the largest gain; exact gains decide where bounds overlap."""
        bounds = self._costs.gain_bounds(candidates, limit).tolist()
        least = max(low for low, _ in bounds)
        largest = [i for i, (_, high) in enumerate(bounds) if not high < least]
        if len(largest) == 1:
            return largest[0]
        gains = self._costs.gains(candidates[largest], limit)
        return largest[gains.index(max(gains))]

    def flush(self) -> None:
        if self._flushed == self._known:
            return
        fresh = self._centers[self._flushed : self._known]
        self._costs.lower(fresh, self._flushed, self._limit(fresh))
        if self._flushed == 0:
            self._choose_unit()
        self._flushed, self._rejected = self._known, 0
        self._refine_unit()

    def _choose_unit(self) -> None:
        """Costs only fall, so the largest cost at the first centres bounds all later ones."""
        try:
            self._exponent = choose_unit(self._costs)
        except ValueError:
            self._check_squares()  # raises if the rows are the reason
            raise

    def _check_squares(self) -> None:
        """Raise if squares of the rows vanish or overflow. All rows are read, but only once."""
        if not self._squares_checked:
            self.points.spread()
            self._squares_checked = True

    def _refine_unit(self) -> None:
        """Choose the unit again if costs have fallen so far that it rounds them."""
        if self._costs.total().bit_length() < FINE_BITS and self._costs.largest() > 0:
            self._choose_unit()

    def _limit(self, fresh: F64) -> F64 | None:
        """`stay_limit` of the known centres; none for pending ones, which may be nearest too."""
        old = self._flushed
        if not self.skip or old == 0 or old * len(fresh) > 4 * self.points.n:
            return None  # nothing to compare with, or more pairs of centres than rows to save
        limit = np.full(self._known, -1.0)
        limit[:old] = stay_limit(self._centers[:old], fresh)
        return limit

    def _by_weight(self) -> tuple[Costs, int]:
        """The rows with a cost of one each, and the exponent of their sums."""
        costs = self._costs.by_weight()
        return costs, choose_unit(costs)

    def _draw_by_weight(self, rng: np.random.Generator) -> int:
        if not self._costs.weighted:
            return share_of(self.points.n, rng.random())
        costs, _ = self._by_weight()
        return int(costs.rows_at([share_of(costs.total(), rng.random())])[0])


def euclidean_potential(data: Data, k: int) -> EuclideanPotential:
    """The potential of rows, wherever they are, with room for k centres."""
    if isinstance(data, HostData):
        return EuclideanPotential(data.rows, data.weight, k)
    return EuclideanPotential(data, None, k, costs=data.costs())
