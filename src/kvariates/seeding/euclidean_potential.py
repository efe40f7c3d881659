"""The potential of rows in memory under squared Euclidean distance.

A plain draw needs no pass over the rows. Added centres stay *pending*: the kept costs are then
upper bounds, a row is proposed by its bound and accepted with probability (true cost / bound),
which is exactly the law of the true costs. All pending centres are taken in together, in one pass,
once they are as many as the centres before, or once many proposals were rejected. So k centres cost
about as much as one assignment to k centres, not k passes.
"""

from __future__ import annotations

import numpy as np

from kvariates.data.row_costs import RowCosts, stay_limit
from kvariates.data.rows import F64, Labels, Rows
from kvariates.numerics.draws import I64, TOO_LARGE, draw_proportional
from kvariates.seeding.sampler import AddedCenters

PROPOSALS = 16  # tried before all pending centres are taken in
FLAT = 4  # features up to which measuring a row costs less than filtering it
FEW = 16  # pending centres that never force a pass, and passes too few for a filter to pay


class EuclideanPotential(AddedCenters):
    """Room for k centres. With skip=False no row is left out by bounds: no draw changes.

    Pre: weight is None (all ones) or float64, non-negative, not all zero.
    """

    def __init__(self, rows: Rows, weight: F64 | None, k: int, *, skip: bool = True) -> None:
        super().__init__(np.empty((k, rows.d)))
        self.points, self.weight, self.skip = rows, weight, skip
        self._flushed = 0  # how many of the added centres the costs know
        self._costs = RowCosts(rows, weight)
        self._filter_due = True

    @property
    def costs(self) -> F64:
        """Every row's squared distance to its nearest centre. Read only."""
        self.flush()
        return self._costs.cost

    @property
    def nearest(self) -> Labels:
        """That centre of every row, counted in the order of `add`. Read only."""
        self.flush()
        return self._costs.nearest

    def masses(self) -> F64:
        found = np.bincount(self.nearest, self.weight, minlength=self._known)
        return found.astype(np.float64, copy=False)

    def total(self) -> float:
        if self._known == 0:
            return float(self.points.n if self.weight is None else self.weight.sum())
        self.flush()
        return self._costs.total()

    def draw(self, rng: np.random.Generator) -> int:
        if self._known == 0:
            return self._draw_by_weight(rng)
        pending = self._known - self._flushed
        wasted = self._costs.rejected * pending
        if pending >= max(FEW, self._flushed) or wasted > self.points.n // 8:
            self.flush()
        while True:
            fresh = self._centers[self._flushed : self._known]
            row = self._costs.draw(fresh, self._flushed, rng.random(2 * PROPOSALS))
            if row >= 0:
                return row
            if self._flushed == self._known and not self._costs.total():
                self.points.spread()  # raises if squares merely vanished
                return self._draw_by_weight(rng)
            self.flush()

    def draw_many(self, size: int, rng: np.random.Generator) -> I64:
        costs = self.costs
        return draw_proportional(costs if self.weight is None else self.weight * costs, size, rng)

    def gains(self, candidates: F64) -> F64:
        self.flush()
        return self._costs.gains(candidates, self._limit(candidates))

    def add_best(self, candidates: F64) -> int:
        self.flush()
        if self._filter_due:
            self._filter_due = False
            passes = len(self._centers) - self._known
            if self.skip and self.points.d > FLAT and passes >= FEW:
                self._costs.quantize()
        limit = self._limit(candidates) if self._costs.quantized is None else None
        best = self._costs.lower_to_best(candidates, self._known, limit)
        self.add(candidates[best : best + 1])
        self._flushed = self._known
        return best

    def flush(self) -> None:
        if self._flushed == self._known:
            return
        fresh = self._centers[self._flushed : self._known]
        self._costs.lower(fresh, self._flushed, self._limit(fresh))
        self._flushed = self._known
        if not np.isfinite(self._costs.total()):
            self.points.spread()  # raises if the rows are the reason
            raise ValueError(TOO_LARGE)

    def _limit(self, fresh: F64) -> F64 | None:
        """`stay_limit` of the known centres; none for pending ones, which may be nearest too."""
        old = self._flushed
        if not self.skip or old == 0 or old * len(fresh) > 4 * self.points.n:
            return None  # nothing to compare with, or more pairs of centres than rows to save
        limit = np.full(self._known, -1.0)
        limit[:old] = stay_limit(self._centers[:old], fresh)
        return limit

    def _draw_by_weight(self, rng: np.random.Generator) -> int:
        if self.weight is None:
            return min(int(rng.random() * self.points.n), self.points.n - 1)
        return int(draw_proportional(self.weight, 1, rng)[0])
