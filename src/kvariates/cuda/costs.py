"""The state of D² sampling on a card: `Costs` of rows that are there.

The kernels compute exact gains as fast as bounds, so bounds are the gains, rounded outwards.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from kvariates.cuda.card import CardArray
from kvariates.cuda.filter import Changes, Filter
from kvariates.cuda.rows import BLOCK, CardRows, blocks_for, defines_of
from kvariates.data.exact_sums import unscaled
from kvariates.data.row_costs import Proposal, masses_of
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64

FILE = "costs.cu"
TILE = 256  # rows under a sum, and sums under one of the next level
BITS = 32  # candidates that a row's word has room for
MANY = 64  # centres from which on a filter finds the nearest of them
MOST_SHARED = 160 * 1024  # bytes of candidates
GROUPS = 8, 4, 2, 1  # of candidates that a kernel compares at once


class CardCosts:
    """Costs and nearest centres. Pre: `weight` is None (all ones) or float64."""

    has_filter: ClassVar[bool] = True  # no bound of centres spares work
    skips: ClassVar[bool] = False

    def __init__(
        self, rows: CardRows, weight: CardArray | None, cost: CardArray | None = None,
        nearest: CardArray | None = None,
    ) -> None:  # fmt: skip
        card = self._card = rows.card
        self._rows, self._weight, n = rows, weight, rows.n
        self._cost = card.empty(n, np.float64) if cost is None else cost
        if cost is None:
            self._fill(self._cost, np.inf)
        self._nearest = rows.no_labels() if nearest is None else nearest
        self._passed = card.zeros(n, np.uint32)
        self._exponent = 0
        self._levels = self._make_levels()
        pointers = np.array([level.pointer for level in self._levels], dtype=np.int64)
        self._pointers = card.put(pointers)
        self._sizes = card.put(np.array([len(level) for level in self._levels], dtype=np.int64))
        self._candidates: tuple[Any, CardArray] | None = None  # the last ones, and their copy
        self._pending: tuple[int, int, CardArray] | None = None  # first, how many, their copy
        self._total: int | None = None

    def _make_levels(self) -> list[CardArray]:
        levels: list[CardArray] = []
        count = self._rows.n
        while not levels or count > TILE:
            count = -(-count // TILE)
            levels.append(self._card.zeros((count, 2), np.uint64))
        return levels

    @property
    def weighted(self) -> bool:
        return self._weight is not None

    def make_filter(self) -> None:
        """Do nothing: a copy of the rows would spare nothing."""

    # -- sums --------------------------------------------------------------------------------------

    def largest(self) -> float:
        bits = self._card.zeros(1, np.uint64)
        self._run("largest_cost", self._rows.n, self._cost, self._weight, self._rows.n, bits)
        return float(bits.get().view(np.float64)[0])

    def set_exponent(self, exponent: int) -> None:
        self._exponent = exponent
        self._add_up()

    def _add_up(self) -> None:
        self._total, n = None, self._rows.n
        grid = min(len(self._levels[0]), 2**31 - 1)
        args = self._cost, self._weight, n, self._exponent, self._levels[0]
        self._card.run(FILE, "sum_costs", grid, TILE, *args, defines=self._defines)
        for below, level in pairwise(self._levels):
            of_sums = below, len(below), level
            self._card.run(FILE, "sum_sums", len(level), TILE, *of_sums, defines=self._defines)

    def total(self) -> int:
        if self._total is None:
            words = self._levels[-1].get().tolist()
            self._total = sum(high << 64 | low for low, high in words)
        return self._total

    # -- centres -----------------------------------------------------------------------------------

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        given = self._card.put(centers)
        if len(centers) >= MANY:
            self._lower_many(given, first)
        else:
            for start in range(0, len(centers), BITS):
                some = given.part(start, min(start + BITS, len(centers)))
                self._compare(some, None)
                self._keep(some, first + start, -1)
        self._add_up()

    def _lower_many(self, centers: CardArray, first: int) -> None:
        rows, labels = self._rows, self._rows.no_labels()
        changes = Changes.for_rows(self._card, rows.n)
        Filter(self._card, rows.X, len(centers)).nearest(centers, labels, changes, None)
        found = rows.costs(centers, labels)
        self._run("keep_lower", rows.n, found, labels, rows.n, first, self._cost, self._nearest)

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> F64:
        return self._outwards(self.gains(candidates, limit))

    def _outwards(self, gains: list[int]) -> F64:
        values = np.array([unscaled(gain, self._exponent) for gain in gains])
        return np.stack([np.nextafter(values, -np.inf), np.nextafter(values, np.inf)], axis=1)

    def gains(self, candidates: F64, limit: F64 | None) -> list[int]:
        given = self._card.put(candidates)
        pieces = self._card.zeros((len(candidates), 4), np.uint64)
        self._compare(given, pieces)
        self._candidates = candidates, given
        return [sum(p << 32 * i for i, p in enumerate(own)) for own in pieces.get().tolist()]

    def lower_to(self, candidates: F64, best: int, name: int) -> int:
        known, given = self._candidates or (None, None)
        if given is None or known is not candidates:
            self.lower(candidates[best : best + 1], name, None)
            return self.total()
        self._keep(given.part(best, best + 1), name, best)
        self._add_up()
        return self.total()

    def _compare(self, centers: CardArray, pieces: CardArray | None) -> None:
        """Note which of up to 32 centres lower the cost of each row, and by how much in all."""
        self._candidates = None
        self._card.clear(self._passed)
        rows, d, first = self._rows, self._rows.d, 0
        while first < len(centers):
            left = len(centers) - first
            m = next(size for size in GROUPS if size <= left)
            most = min(MOST_SHARED, self._card.shared_memory)
            shared = 8 * m * d if d >= 16 and 8 * m * d <= most else 0
            defines = {**self._defines, "M": m, "D": d if d < 16 else 0}
            if shared:
                defines["CENTERS_IN_SHARED"] = 1
            threads = rows.n if d < 16 else 4 * rows.n  # sixteen have four rows
            self._card.run(
                FILE, "gains", blocks_for(self._card, threads), BLOCK, rows.X, rows.n, d,
                centers.part(first, first + m), self._cost, self._weight, self._exponent, first,
                None if pieces is None else pieces.part(first, first + m), self._passed,
                shared=shared, defines=defines,
            )  # fmt: skip
            first += m

    def _keep(self, centers: CardArray, first: int, only: int) -> None:
        """Lower the costs of the rows that `_compare` has noted."""
        rows = self._rows
        args = rows.X, rows.n, rows.d, centers, first, only, self._passed, self._cost, self._nearest
        self._run("lower_passed", rows.n, *args)

    # -- draws -------------------------------------------------------------------------------------

    def propose(self, goal: int, pending: F64, first: int) -> Proposal:
        card, rows = self._card, self._rows
        place = self._find([goal])
        answer = card.empty(3, np.uint64)
        given = self._pending_centers(pending, first)
        card.run(
            FILE, "lower_row", 1, TILE, rows.X, rows.n, rows.d, given, len(pending), first, place,
            self._cost, self._nearest, self._weight, self._exponent, self._pointers,
            len(self._levels), answer, defines=self._defines,
        )  # fmt: skip
        words = answer.get()
        bound, cost = words[1:].view(np.float64).tolist()
        if cost < bound:
            self._total = None
        return Proposal(int(words[0]), bound, cost)

    def _pending_centers(self, pending: F64, first: int) -> CardArray:
        """Their copy on the card. From draw to draw they only become more."""
        known = self._pending
        room = max(2 * len(pending), 16)
        if (
            known is None
            or known[0] != first
            or known[1] > len(pending)
            or len(known[2]) < len(pending)
        ):
            known = first, 0, self._card.empty((room, self._rows.d), np.float64)
        done, copy = known[1], known[2]
        if len(pending) > done:
            copy.part(done, len(pending)).put(pending[done:])
        self._pending = first, len(pending), copy
        return copy

    def rows_at(self, goals: list[int]) -> I64:
        return self._find(goals).get()

    def _find(self, goals: list[int]) -> CardArray:
        card, n = self._card, self._rows.n
        words = np.array([(goal & 2**64 - 1, goal >> 64) for goal in goals], dtype=np.uint64)
        out = card.empty(len(goals), np.int64)
        card.run(
            FILE, "rows_at", len(goals), TILE, self._cost, self._weight, n, self._exponent,
            self._pointers, self._sizes, len(self._levels), card.put(words), out,
            defines=self._defines,
        )  # fmt: skip
        return out

    def masses(self, k: int, exponent: int) -> list[int]:
        weight = None if self._weight is None else self._weight.get()
        return masses_of(self._nearest.get(), weight, k, exponent)

    def by_weight(self) -> CardCosts:
        ones = self._card.empty(self._rows.n, np.float64)
        self._fill(ones, 1.0)
        return CardCosts(self._rows, self._weight, ones, self._nearest)

    # -- kernels -----------------------------------------------------------------------------------

    @property
    def _defines(self) -> dict[str, Any]:
        return defines_of(self._rows.X)

    def _run(self, name: str, threads: int, *args: Any) -> None:
        self._card.run(
            FILE, name, blocks_for(self._card, threads), BLOCK, *args, defines=self._defines
        )

    def _fill(self, values: CardArray, value: float) -> None:
        self._run("fill", len(values), values, len(values), self._card.put(np.array([value])))
