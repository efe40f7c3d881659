"""Each row's squared distance to its nearest centre, kept up to date as centres are added.

Native kernels read and write the arrays. They also keep the exact sum of weight * cost over each
tile of rows, from which rows are drawn. Exact sums make a draw the same however the rows are cut
into shards (`ShardedCosts`).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.exact_sums import LARGEST, LIMBS, cut, exponent_of, whole
from kvariates.data.rows import F64, Labels, Rows
from kvariates.numerics.draws import I64, TOO_LARGE

WORD = 2**64 - 1
WIDE = 128  # features from which on products of bytes take less time than those of float32
WASTE = 8  # the filter is dropped when more than 1/8 of all pairs pass it without lowering a cost

Answer = TypeVar("Answer")


class Proposal(NamedTuple):
    """A row, and its cost before and after it was compared with the pending centres."""

    row: int
    bound: float
    cost: float


class Costs(Protocol):
    """The costs of rows, in memory or in shards. A centre is known by its index."""

    @property
    def skips(self) -> bool:
        """Whether bounds that leave out rows (`stay_limit`) spare work."""

    @property
    def weighted(self) -> bool:
        """Whether the rows have weights of their own."""

    @property
    def has_filter(self) -> bool:
        """Whether a copy of the rows in bytes excludes pairs before `gain_bounds` measures them."""

    def make_filter(self) -> None:
        """Make that copy, if the rows vary."""

    def largest(self) -> float:
        """The largest weight * cost."""

    def set_exponent(self, exponent: int) -> None:
        """Choose the unit of the sums (see `ExactSums`)."""

    def total(self) -> int:
        """Exact sum of weight * cost."""

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        """Take in centres, named from `first` on. `limit`: see `stay_limit`."""

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> F64:
        """Lower and upper bounds (m, 2) on how much each candidate would lower the total cost."""

    def gains(self, candidates: F64, limit: F64 | None) -> list[int]:
        """How much each candidate would lower the total, exactly."""

    def lower_to(self, candidates: F64, best: int, name: int) -> int:
        """Take in one of the candidates of the last `gain_bounds`, named `name`; the new total."""

    def propose(self, goal: int, pending: F64, first: int) -> Proposal:
        """The row at which the running sum passes the goal. Pre: 0 <= goal < total.

        `pending` are centres, named from `first` on, that were not taken in. The row is measured to
        them, and its cost is lowered. Pre: from one draw to the next, pending centres only become
        more.
        """

    def rows_at(self, goals: list[int]) -> I64:
        """For each goal the row at which the running sum passes it."""

    def masses(self, k: int, exponent: int) -> list[int]:
        """The exact weight of the rows nearest to each of k centres."""

    def by_weight(self) -> Costs:
        """The same rows, all with a cost of one."""


class RowCosts:
    """Costs and nearest centres of rows in memory.

    Pre: weight is None (all ones) or float64; `cost` and `nearest` belong together.
    """

    skips: ClassVar[bool] = True

    def __init__(
        self, rows: Rows, weight: F64 | None, cost: F64 | None = None, nearest: Labels | None = None
    ) -> None:
        self.rows, self.weight = rows, weight
        self.cost = np.full(rows.n, np.inf) if cost is None else cost
        self.nearest = np.full(rows.n, -1, dtype=np.int32) if nearest is None else nearest
        self._exponent = 0
        self._sums: NDArray[np.uint64] | None = None
        self._passed = _native.PassedPairs()
        self._filter: _native.RowFilter | None = None

    @property
    def weighted(self) -> bool:
        return self.weight is not None

    @property
    def has_filter(self) -> bool:
        return self._filter is not None

    def make_filter(self) -> None:
        wide = self.rows.dense and self.rows.d >= WIDE and _native.fast_bytes()
        found = _native.byte_tiles(self.rows.view, self.cost) if wide else None
        self._filter = found or _native.quantized_rows(self.rows.view, self.cost)

    def largest(self) -> float:
        with np.errstate(over="ignore"):  # infinity is refused with a message
            masses = self.cost if self.weight is None else self.weight * self.cost
        return float(masses.max(initial=0.0))

    def set_exponent(self, exponent: int) -> None:
        self._exponent = exponent
        self._sums = np.empty((-(-self.rows.n // _native.DRAW_TILE), 2), dtype=np.uint64)
        _native.sum_costs(self.rows.view, *self._state())

    def total(self) -> int:
        assert self._sums is not None  # noqa: S101
        high, low = _native.total_words(self._sums)
        return high << 64 | low

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        _native.lower_costs(self.rows.view, centers, first, limit, *self._state())

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> F64:
        bounds = np.empty(2 * len(candidates))
        _native.gain_bounds(
            self.rows.view, self._filter, candidates, limit, *self._state(), bounds, self._passed
        )
        return bounds.reshape(-1, 2)

    def gains(self, candidates: F64, limit: F64 | None) -> list[int]:
        gain = np.empty((len(candidates), 2), dtype=np.uint64)
        _native.gains(self.rows.view, candidates, limit, *self._state(), gain)
        return [high << 64 | low for low, high in gain.tolist()]

    def lower_to(self, candidates: F64, best: int, name: int) -> int:
        _native.lower_costs_of_passed(
            self.rows.view, self._filter, candidates[best : best + 1], best, name,
            *self._state(), self._passed,
        )  # fmt: skip
        if self.has_filter and self._passed.wasted > len(candidates) * self.rows.n // WASTE:
            self._filter = None
        return self.total()

    def propose(self, goal: int, pending: F64, first: int) -> Proposal:
        words = goal >> 64, goal & WORD
        return Proposal(*_native.propose(self.rows.view, pending, first, *self._state(), *words))

    def rows_at(self, goals: list[int]) -> I64:
        rows = np.empty(len(goals), dtype=np.int64)
        words = np.array([(goal & WORD, goal >> 64) for goal in goals], dtype=np.uint64)
        _native.rows_at(self.rows.view, *self._state(), words.reshape(-1, 2), rows)
        return rows

    def masses(self, k: int, exponent: int) -> list[int]:
        return masses_of(self.nearest, self.weight, k, exponent)

    def by_weight(self) -> RowCosts:
        return RowCosts(self.rows, self.weight, np.ones(self.rows.n), self.nearest)

    def _state(self) -> tuple[F64, Labels, F64 | None, NDArray[np.uint64] | None, int]:
        return self.cost, self.nearest, self.weight, self._sums, self._exponent


def masses_of(nearest: Labels, weight: F64 | None, k: int, exponent: int) -> list[int]:
    """The exact weight of the rows nearest to each of k centres."""
    sums = np.zeros((k, LIMBS), dtype=np.int64)
    np.add.at(sums, nearest, cut(np.ones(len(nearest)) if weight is None else weight, exponent))
    return whole(sums)


class ShardedCosts:
    """The costs of several shards as one; a subclass chooses their units.

    `map` applies a function to each shard, and to more arguments of each, and returns the answers
    in the order of the shards, as the built-in does; the shards may compute at the same time and
    finish in any order.
    `starts`: the number of the first row of each shard.
    """

    skips: ClassVar[bool] = True

    def __init__(
        self,
        shards: Sequence[Costs],
        starts: list[int],
        map: Callable[..., Iterable[Any]] = map,  # noqa: A002
    ) -> None:
        self._shards, self.starts, self._map = shards, starts, map
        self._totals: list[int] | None = None  # of the shards, while they are known

    def _ask(self, ask: Callable[[Costs], Answer]) -> list[Answer]:
        return list(self._map(ask, self._shards))

    def _ask_one(self, number: int, ask: Callable[[Costs], Answer]) -> Answer:
        found: list[Answer] = list(self._map(ask, [self._shards[number]]))
        return found[0]

    def largest(self) -> float:
        return max(self._ask(lambda shard: shard.largest()))

    def total(self) -> int:
        return sum(self._known_totals())

    def _known_totals(self) -> list[int]:
        if self._totals is None:
            self._totals = self._ask(lambda shard: shard.total())
        return self._totals

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        self._totals = None
        self._ask(lambda shard: shard.lower(centers, first, limit))

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> F64:
        bounds = sum(self._ask(lambda shard: shard.gain_bounds(candidates, limit)), np.zeros(2))
        rounding = len(self._shards) * 2.0**-52 * bounds[:, 1:]  # of this sum
        return bounds + np.hstack([-rounding, rounding])

    def gains(self, candidates: F64, limit: F64 | None) -> list[int]:
        parts = self._ask(lambda shard: shard.gains(candidates, limit))
        return [sum(gains) for gains in zip(*parts, strict=True)]

    def lower_to(self, candidates: F64, best: int, name: int) -> int:
        self._totals = self._ask(lambda shard: shard.lower_to(candidates, best, name))
        return sum(self._totals)

    def propose(self, goal: int, pending: F64, first: int) -> Proposal:
        totals = self._known_totals()
        ends = list(itertools.accumulate(totals))
        s = bisect.bisect_right(ends, goal)
        own = goal - ends[s] + totals[s]
        found = self._ask_one(s, lambda shard: shard.propose(own, pending, first))
        if found.cost < found.bound:
            totals[s] = self._ask_one(s, lambda shard: shard.total())
        return found._replace(row=self.starts[s] + found.row)

    def rows_at(self, goals: list[int]) -> I64:
        ends = list(itertools.accumulate(self._known_totals()))
        owner = np.array([bisect.bisect_right(ends, goal) for goal in goals], dtype=np.int64)
        owners = np.unique(owner).tolist()
        before = [0, *ends]
        there = [[goals[i] - before[s] for i in np.flatnonzero(owner == s)] for s in owners]
        found = self._map(_rows_at, [self._shards[s] for s in owners], there)
        rows = np.empty(len(goals), dtype=np.int64)
        for s, numbers in zip(owners, found, strict=True):
            rows[owner == s] = self.starts[s] + numbers
        return rows

    def masses(self, k: int, exponent: int) -> list[int]:
        parts = self._ask(lambda shard: shard.masses(k, exponent))
        return [sum(masses) for masses in zip(*parts, strict=True)]


def _rows_at(shard: Costs, goals: list[int]) -> I64:
    return shard.rows_at(goals)


def choose_unit(costs: Costs) -> int:
    """Choose the unit of the sums by the largest term; return its exponent."""
    largest = costs.largest()
    if not largest < LARGEST:
        raise ValueError(TOO_LARGE)
    exponent = exponent_of(largest)
    costs.set_exponent(exponent)
    return exponent


def stay_limit(centers: F64, fresh: F64) -> F64:
    """For each centre: if a row's cost is at most this limit, no fresh centre is nearer to it.

    If ||c - c(x)|| >= 2 ||x - c(x)|| then x stays with c(x). Rounded down, to be safe.
    """
    limit: F64 = Rows.of(centers).distances(fresh, squared=True).min(axis=1) * (1 - 1e-6) / 4
    return limit
