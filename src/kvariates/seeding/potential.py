"""The potential: how far every row still is from the centres, and drawing rows in proportion to it.

A plain draw needs no pass over the data. New centres stay *pending*: the kept costs are then upper
bounds, a row is proposed by its bound and accepted with probability (true cost / bound), which is
exactly the law of the true costs. Pending centres are absorbed together, in one pass, once there
are as many as the centres absorbed before, or once rejections have become dear. So k centres cost
about as much as one assignment to k centres, not k passes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.rows import F64, Rows

PROPOSALS = 16  # tried between two looks at whether to absorb
BLURRED = 8  # a shadow that lets through more than one pair in so many, in vain, is dropped
FLAT = 4  # features up to which measuring a row costs less than a look at its shadow
FEW = 16  # pending centres that never force a pass, and passes that are worth no shadow


class EuclideanPotential:
    """Pre: weight is None (all ones) or float64, non-negative, not all zero."""

    def __init__(self, space: Rows, weight: F64 | None, k: int, *, skip: bool = True) -> None:
        self.space = self.around = space
        self.weight = weight
        self.skip = skip  # leave out what bounds rule out; changes no draw
        self.centers = np.empty((k, space.d))
        self.absorbed = 0
        self.known = 0
        self._cost = np.full(space.n, np.inf)
        self._nearest = np.full(space.n, -1, dtype=np.int32)
        self._sums = np.zeros(-(-space.n // _native.DRAW_TILE))
        self._hits = _native.Hits()
        self._shadow: _native.QuantizedRows | None = None
        self._shadow_due = True
        self._rejected = 0

    def add(self, center: F64) -> None:
        """Take a centre into account. No work is done before it is needed."""
        self.centers[self.known] = center
        self.known += 1

    def draw(self, rng: np.random.Generator) -> int:
        """A row, with probability proportional to weight * cost (to weight alone at first)."""
        if self.known == 0:
            return self._draw_by_weight(rng)
        pending = self.known - self.absorbed
        if pending >= max(FEW, self.absorbed) or self._rejected * pending > self.space.n // 8:
            self.settle()
        while True:
            row, used = _native.draw(
                self.space.view,
                self.centers[self.absorbed : self.known],
                self.absorbed,
                *self._state(),
                rng.random(2 * PROPOSALS),
            )
            self._rejected += used // 2 - (row >= 0)
            if row >= 0:
                return row
            if self.absorbed == self.known and not self._sums.any():
                self.space.spread()  # complains if squares merely vanished
                return self._draw_by_weight(rng)  # every row lies on a centre already
            self.settle()

    def add_best(self, candidates: F64) -> int:
        """Take in the candidate that lowers the potential most; which one that is."""
        self.settle()
        shadow = self._cast_shadow()
        limit = None if shadow else self._limit(candidates)
        gain = np.empty(len(candidates))
        rows, state = self.space.view, self._state()
        _native.gains(rows, shadow, candidates, limit, *state, gain, self._hits)
        best = int(np.argmax(gain))
        fresh = candidates[best : best + 1]
        _native.lower_costs_by_hits(
            rows, shadow, fresh, best, self.known, limit, *state, self._hits
        )
        if shadow and self._hits.wasted > len(candidates) * self.space.n // BLURRED:
            self._shadow = None
        self.add(fresh[0])
        self.absorbed = self.known
        return best

    def _cast_shadow(self) -> _native.QuantizedRows | None:
        """The rows' shadow, which spares greedy passes the rows; made when the first one is due."""
        if self._shadow_due:
            self._shadow_due = False
            pays = self.skip and self.space.d > FLAT and len(self.centers) - self.known >= FEW
            if pays:
                self._shadow = _native.quantize(self.space.view, self._cost)
        return self._shadow

    def settle(self) -> None:
        """Absorb what is pending: costs are exact afterwards."""
        if self.absorbed == self.known:
            return
        fresh = self.centers[self.absorbed : self.known]
        _native.lower_costs(
            self.space.view, fresh, self.absorbed, self._limit(fresh), *self._state()
        )
        self.absorbed = self.known
        self._rejected = 0
        if not np.isfinite(self._sums.sum()):
            self.space.spread()  # complains that squares overflow

    @property
    def costs(self) -> F64:
        """Every row's squared distance to its nearest centre. Pre: settled. Read only."""
        return self._cost

    @property
    def nearest(self) -> NDArray[np.int32]:
        """That centre of every row, counted in the order of `add`. Pre: settled."""
        return self._nearest

    def _state(self) -> tuple[F64, NDArray[np.int32], F64 | None, F64]:
        return self._cost, self._nearest, self.weight, self._sums

    def _limit(self, fresh: F64) -> F64 | None:
        """Per known centre, the cost up to which none of the fresh ones can improve a row.

        If ||c - c(x)|| >= 2 ||x - c(x)|| then x stays with c(x). A pending centre may be a row's
        nearest too; it has no limit yet, so such rows are always looked at.
        """
        if not self.skip or self.absorbed == 0 or self.absorbed * len(fresh) > 4 * self.space.n:
            return None  # nothing to compare with, or more pairs of centres than rows to save
        old = Rows.of(self.centers[: self.absorbed])
        apart = old.distances(fresh, squared=True).min(axis=1)
        limit = np.full(self.known, -1.0)
        limit[: self.absorbed] = apart * (1 - 1e-6) / 4  # rounded towards looking
        return limit

    def _draw_by_weight(self, rng: np.random.Generator) -> int:
        u = rng.random()
        if self.weight is None:
            return min(int(u * self.space.n), self.space.n - 1)
        sums = np.cumsum(self.weight)
        row = int(np.searchsorted(sums, u * sums[-1], side="right"))
        return min(row, int(np.flatnonzero(self.weight)[-1]))
