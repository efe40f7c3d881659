"""The highest lower bound on what k medoids can cost, by prices.

Let every point i offer a price v_i, and let candidate j earn g_j(v) = sum_i w_i max(v_i - d_ij, 0).
For any k candidates C a point's cost is at least v_i - sum_{j in C} max(v_i - d_ij, 0), so

    cost(C)  >=  sum_i w_i v_i - sum_{j in C} g_j(v)
             >=  sum_i w_i v_i - (sum of the k largest g_j(v))  =:  L(v)

for any prices whatever: one pass over the distances proves a bound. The highest L is the optimum of
the linear program of k-median, which is close to the true one. (Nothing here needs a triangle
inequality, and prices that are capped only weaken the bound.)

L is concave. `climb` follows its subgradients, 1 - (how many of the k best candidates are closer to
i than its price), averaged with those before, in steps of Polyak's length, which knows the cost
that was found (Held, Wolfe and Crowder 1974); steps are halved when nothing is gained. Where
candidates are many, a few climb for all, and passes over the others say who has to join (`ascend`).
What a `DistanceOracle` is asked for is all the loop knows of distances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates import _native
from kvariates.data.metric_spaces import DistanceRows, Ints
from kvariates.data.rows import F64, Floats

MEMORY = 0.7  # how much of a step's direction is the one before
PATIENCE = 10  # steps without a better bound before they are halved
SMALLEST = 1e-4  # the shortest step, as a part of Polyak's
AGAIN = 2.0  # how much longer steps may be when others have joined
JOINING = 256  # candidates at least that join at a time
ROUND, ROUNDS = 80, 6  # steps before others join, and how often
POOL = 2**14  # candidates in a pass that is not over all
KEPT_BYTES = 2**28  # of distances
SMALL = 2**21  # pairs up to which all candidates take part
ROUNDING = 2.0**-53


class DistanceOracle(Protocol):
    """Candidates, weighted points, and the distances between them."""

    @property
    def weight(self) -> F64: ...

    @property
    def candidates(self) -> int: ...

    def gains(self, price: F64) -> F64:
        """What every candidate would earn."""

    def cover(self, price: F64, chosen: Ints) -> F64:
        """How many of the chosen candidates are closer to a point than its price."""

    def only(self, some: Ints) -> DistanceOracle:
        """The same with some of the candidates, numbered anew."""


def _named(kept: Ints | None, some: Ints) -> Ints:
    """Numbers among those kept, as numbers among all."""
    return some if kept is None else kept[some]


@dataclass(frozen=True)
class DistanceTable:
    """All distances at hand: one row a candidate."""

    distance: Floats
    weight: F64
    some: Ints | None = None

    @property
    def candidates(self) -> int:
        return len(self.distance) if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        out = np.empty(self.candidates)
        _native.table_gains(self.distance, self.some, price, self.weight, out)
        return out

    def cover(self, price: F64, chosen: Ints) -> F64:
        out = np.empty(len(price))
        rows = _named(self.some, chosen)
        _native.table_cover(self.distance, rows, price, out)
        return out

    def only(self, some: Ints) -> DistanceTable:
        return DistanceTable(self.distance, self.weight, _named(self.some, some))


@dataclass(frozen=True)
class DistanceLists:
    """For each candidate only the points that are close enough for their prices' caps."""

    start: Ints
    point: NDArray[np.int32]
    distance: F64
    weight: F64
    some: Ints | None = None

    @property
    def candidates(self) -> int:
        return len(self.start) - 1 if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        out = np.empty(self.candidates)
        lists = (self.start, self.point, self.distance)
        _native.list_gains(*lists, self.some, price, self.weight, out)
        return out

    def cover(self, price: F64, chosen: Ints) -> F64:
        out = np.empty(len(price))
        rows = _named(self.some, chosen)
        _native.list_cover(self.start, self.point, self.distance, rows, price, out)
        return out

    def only(self, some: Ints) -> DistanceLists:
        return DistanceLists(
            self.start, self.point, self.distance, self.weight, _named(self.some, some)
        )


@dataclass(frozen=True)
class StreamedDistances:
    """Distances too many to keep: a pass over the candidates makes them afresh, block by block."""

    space: DistanceRows
    weight: F64
    some: Ints | None = None

    @property
    def candidates(self) -> int:
        return self.space.universe if self.some is None else len(self.some)

    def gains(self, price: F64) -> F64:
        out, everyone, step = (
            np.empty(self.candidates),
            np.arange(self.candidates),
            self.space.block,
        )
        for first in range(0, self.candidates, step):
            part = slice(first, first + step)
            table = self.space.distances(_named(self.some, everyone[part]))
            _native.table_gains(table, None, price, self.weight, out[part])
        return out

    def cover(self, price: F64, chosen: Ints) -> F64:
        table = DistanceTable(self.space.distances(_named(self.some, chosen)), self.weight)
        return table.cover(price, np.arange(len(chosen)))

    def only(self, some: Ints) -> DistanceOracle:
        if len(some) * len(self.weight) * self.space.dtype.itemsize > KEPT_BYTES:
            return StreamedDistances(self.space, self.weight, _named(self.some, some))
        return DistanceTable(self.space.distances(_named(self.some, some)), self.weight)


@dataclass(frozen=True)
class Goal:
    """What a climb is for: k, the cost that was found, and when the bound is close enough to it."""

    k: int
    cost: float
    whole: bool = False  # the optimum is a whole number
    tol: float = 1e-4

    def reached(self, bound: float) -> bool:
        if self.whole and math.ceil(bound) >= self.cost:
            return True
        return self.cost - bound <= self.tol * self.cost


@dataclass(frozen=True)
class Ascent:
    price: F64
    bound: float
    iterations: int
    step: float = 1.0


def best(gain: F64, k: int) -> Ints:
    """The k candidates with the largest gains."""
    if k >= len(gain):
        return np.arange(len(gain))
    return np.argpartition(gain, len(gain) - k)[len(gain) - k :]


def lower_bound(reach: DistanceOracle, price: F64, gain: F64, k: int) -> float:
    """L(price), less what rounding may have added to it.

    All terms are sums of at most n + 3 non-negative ones, so each is off by at most that many
    roundings of itself.
    """
    offered = math.fsum(reach.weight * price)
    earned = math.fsum(gain[best(gain, k)])
    slack = (len(price) + 8) * ROUNDING * (offered + earned)
    return max(0.0, offered - earned - 2.0 * slack)


def proved(reach: DistanceOracle, goal: Goal, price: F64, iterations: int) -> tuple[Ascent, F64]:
    """What these prices prove, and all gains."""
    gain = reach.gains(price)
    return Ascent(price, lower_bound(reach, price, gain, goal.k), iterations), gain


def climb(
    reach: DistanceOracle, goal: Goal, price: F64, cap: F64, max_iter: int, step: float = 1.0
) -> Ascent:
    """Subgradient steps from `price`; the best prices met."""
    vain, weight = 0, reach.weight
    top, at, uphill, way = -math.inf, price, price, None
    used = 0
    while used < max_iter:
        used += 1
        gain = reach.gains(price)
        chosen = best(gain, goal.k)
        value = float(np.sum(weight * price) - gain[chosen].sum())
        slope = 1.0 - reach.cover(price, chosen)
        vain += 1
        if value > top:
            top, at, uphill, vain = value, price, slope, 0
        elif vain == PATIENCE:  # back to the best place, and slower
            value, price, slope, way = top, at, uphill, None
            step, vain = step / 2, 0
        way = slope if way is None else (1 - MEMORY) * slope + MEMORY * way
        length = float(np.sum(weight * way * way))
        if goal.reached(top) or step < SMALLEST or length <= 0:
            break
        price = np.clip(price + (step * (goal.cost - value) / length) * way, 0.0, cap)
    return Ascent(at, top, used, step)


def ascend(
    reach: DistanceOracle, goal: Goal, price: F64, cap: F64, max_iter: int, rng: np.random.Generator
) -> Ascent:
    """The highest bound that a pass over all candidates has proved.

    If they are many, a few climb for all: some at random, and those that were seen to earn more.
    These are looked for in a random pool, and among all in the last two rounds.
    """
    if reach.candidates * len(price) <= SMALL:
        climbed = climb(reach, goal, price, cap, max_iter)
        return proved(reach, goal, climbed.price, climbed.iterations)[0]
    many, few, used = reach.candidates, max(JOINING, 8 * goal.k), 0
    joined = rng.choice(many, min(few, many), replace=False)
    pool = rng.choice(many, min(POOL, many), replace=False)
    top, step = Ascent(price, 0.0, 0), 1.0
    for left in reversed(range(ROUNDS)):
        part = reach.only(joined)
        climbed = climb(part, goal, price, cap, min(ROUND, max_iter - used), step)
        step = min(1.0, AGAIN * climbed.step)
        price, used = climbed.price, used + climbed.iterations
        if left < 2 or used >= max_iter or len(pool) == many:
            now, gain = proved(reach, goal, price, used)
            top = max(top, now, key=lambda ascent: ascent.bound)
            fresh = _rising(gain, part.gains(price), goal.k, rng)
        else:
            fresh = pool[_rising(reach.only(pool).gains(price), part.gains(price), goal.k, rng)]
        if goal.reached(top.bound) or used >= max_iter:
            break
        joined = np.union1d(joined, fresh)
    return Ascent(top.price, top.bound, used)


def _rising(gain: F64, among: F64, k: int, rng: np.random.Generator) -> Ints:
    """Candidates that earn more than the k-th best of `among`: the best, and some of the others.

    The best alone would all come from one place: neighbours earn alike.
    """
    above = np.flatnonzero(gain >= among[best(among, k)].min())
    some = rng.choice(above, min(len(above), max(JOINING, 4 * k)), replace=False)
    return np.concatenate([best(gain, max(JOINING // 4, 2 * k)), some])
