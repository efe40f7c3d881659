"""How far from the best k medoids a solution can be: a lower bound on what any k medoids cost.

**Exact.** Prices v prove L(v) <= OPT, whatever they are (`refining.dual`). A certificate's bound is
L(v) for the best prices found, rounded down by more than rounding may have added; where all weights
and distances are whole numbers OPT is one as well, and the bound is rounded up to the next.

**From a sample**, where a pass over all distances takes too long. Fix a cap r(x) > 0 for every
point x, here a multiple of max(its cost in the solution, the mean cost); let R = sum_x w(x) r(x),
and draw s points independently with probabilities w(x) r(x) / R. For the best medoids C*

    Z = the mean over the draws of min(d(x, C*), r(x)) / r(x)

is a mean of s independent numbers in [0, 1], with mean m = sum_x w(x) min(d(x, C*), r(x)) / R, so
R m <= OPT. C* is one choice of k medoids for the drawn points with weights 1 / (s r(x)) and costs
capped at r(x): any lower bound z on the best such choice is at most Z. (Capped costs need only
prices of at most r(x), for those are the same with and without a cap.) By Chernoff and Hoeffding

    P(Z >= z) <= exp(-s KL(z || m))    for m < z,

so m < m_0, the root below z of s KL(z || m_0) = ln(1 / alpha), happens with probability alpha at
most, and R m_0 is a lower bound on OPT with confidence 1 - alpha. The draws have to be fresh: the
solution and the caps may depend on everything but them. (Low caps make a sample say more about
what is below them, and leave out what is above; other draws decide how low: `_best_factor`.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from kvariates.geometry.euclidean import F64, Floats
from kvariates.geometry.graph import Graph
from kvariates.geometry.metric import FEW, Called, Ints, Matrix, MetricSpace, Near, Rows, Vectors
from kvariates.refining.dual import ROUNDING, Goal, Lists, Reach, Streamed, Table, ascend, climb

FACTORS = 1.3, 1.8, 2.6, 4.0  # caps of a sample, in multiples of what points cost
PILOT, CANDIDATES, PILOT_STEPS = 1000, 2048, 100  # draws, candidates and steps to choose one
REACH = 1.1  # prices go up to so many times the distance to the second nearest medoid, in lists
TABLE_BYTES = 2**30  # of distances, in a table
LIST_ENTRIES = 3 * 10**7  # in lists
BALL_ENTRIES = 16 * 10**6  # in lists that have to be turned over
EXACT_WORK = 2.5e9  # distances (see `_work`) for which a pass over all pairs is not too long
SAMPLE_WORK = 8e9  # the same for one pass over a sample
SAMPLES = 50, 16_000  # the smallest and the largest


@dataclass(frozen=True)
class Certificate:
    """Proof that no k medoids cost less than `lower_bound`."""

    lower_bound: float
    cost: float  # of the medoids that were found
    confidence: float  # 1 if the bound is exact
    sample: int | None  # how many points were drawn
    iterations: int
    rounded: bool = False  # up to a whole number: all weights and distances are

    @property
    def gap(self) -> float:
        """By what part of the best possible cost the solution's may be above it."""
        if self.cost <= self.lower_bound:
            return 0.0
        return self.cost / self.lower_bound - 1 if self.lower_bound > 0 else math.inf

    def __str__(self) -> str:
        how = "certified"
        if self.sample is not None:
            how = f"{100 * self.confidence:.6g} % confidence, from a sample of {self.sample:,}"
        if not math.isfinite(self.gap):
            return f"no bound was found ({how})"
        if self.gap == 0:
            return f"optimal ({how})"
        return f"within {_percent(self.gap)} of optimal ({how})"

    def explain(self) -> str:
        """What was proved, and what it rests on, in plain words."""
        lines = [
            f"The medoids cost {self.cost:.6g}.",
            f"No choice of as many medoids costs less than {self.lower_bound:.6g},",
            f"so these are {self}.",
        ]
        if self.sample is not None:
            lines.append(
                f"The bound comes from {self.sample:,} points drawn at random; of certificates "
                f"like this one, at most {100 * (1 - self.confidence):.3g} % are wrong."
            )
        else:
            lines.append("That was checked against every distance; no chance is involved.")
        if self.rounded:
            lines.append("All distances and weights are whole: the bound is the next whole number.")
        return "\n".join(lines)


def _percent(part: float) -> str:
    """Rounded up: a certificate may not promise more than was proved."""
    digits = max(0, 1 - math.floor(math.log10(100 * part)))
    scale = 10.0 ** min(digits, 6)
    return f"{math.ceil(100 * part * scale * (1 - 1e-12)) / scale:.12g} %"


def certify(
    space: MetricSpace,
    medoids: Ints,
    near: Near,
    weight: F64 | None,
    *,
    confidence: float = 0.99,
    sample: int | None = None,
    max_iter: int = 480,
    rng: np.random.Generator,
) -> Certificate:
    """A lower bound for the problem that `medoids` solve; `near` says at what cost.

    Exact where all distances that matter can be looked at in a few seconds, else from a sample, of
    `sample` points if given (then always).
    """
    k, demand = len(medoids), np.arange(len(near.cost))
    mass = np.ones(len(demand)) if weight is None else np.asarray(weight, dtype=np.float64)
    demand = demand[mass > 0]
    mass, paid, second = mass[demand], _wide(near.cost, demand), _wide(near.second_cost, demand)
    cost = math.fsum(mass * paid)
    if not 0 < cost < math.inf:
        return Certificate(0.0, cost, 1.0, None, 0)
    problem = _Problem(space, k, demand, mass, paid, second, cost, max_iter)
    made = _exact(problem, rng) if sample is None else None
    return made or _sampled(problem, confidence, sample, rng)


def _wide(values: Floats, rows: Ints) -> F64:
    out: F64 = values[rows].astype(np.float64)
    return out


@dataclass(frozen=True)
class _Problem:
    space: MetricSpace
    k: int
    demand: Ints  # points with a positive weight
    mass: F64  # their weights
    paid: F64  # and distances to the nearest
    second: F64  # and second nearest medoid
    cost: float
    max_iter: int

    def start(self) -> F64:
        """Prices to climb from: what is paid, and a quarter of what losing the medoid would add."""
        if self.k == 1:  # prices above all distances make the bound exact
            return np.full(len(self.paid), 2 * self.paid.max())
        return np.where(np.isfinite(self.second), 0.75 * self.paid + 0.25 * self.second, self.paid)

    def caps(self, factor: float) -> F64:
        """What a point may cost in a sample."""
        return factor * np.maximum(self.paid, self.cost / math.fsum(self.mass))


def _exact(problem: _Problem, rng: np.random.Generator) -> Certificate | None:
    """None: that would take too long, or too much memory."""
    reach = _whole_reach(problem, rng)
    if reach is None:
        return None
    whole = reach.whole and bool(np.all(problem.mass == np.rint(problem.mass)))
    goal = Goal(problem.k, problem.cost, whole)
    start = np.minimum(problem.start(), reach.cap)
    ascent = ascend(reach.distances, goal, start, reach.cap, problem.max_iter, rng)
    bound = ascent.bound * _trust(problem.space)
    if whole:
        bound = float(math.ceil(bound))
    return Certificate(min(bound, problem.cost), problem.cost, 1.0, None, ascent.iterations, whole)


@dataclass(frozen=True)
class _Reached:
    distances: Reach
    cap: F64  # prices for which the distances suffice
    whole: bool  # all distances are whole numbers, those left out too


def _whole_reach(problem: _Problem, rng: np.random.Generator) -> _Reached | None:
    space, mass = problem.space, problem.mass
    cap = problem.start() if problem.k == 1 else REACH * problem.second
    if isinstance(space, Graph):
        if _ball_size(space, problem.demand, cap, rng) * len(mass) > BALL_ENTRIES:
            return None
        lists = _balls(space, problem.demand, cap, mass, 2 * BALL_ENTRIES)
        whole = bool(np.all(space.csr.data == np.rint(space.csr.data)))
        return None if lists is None else _Reached(lists, cap, whole)
    measured = _onto(space, problem.demand)
    pairs = measured.universe * len(mass)
    if pairs * _work(measured) > EXACT_WORK:
        return None
    if pairs * measured.dtype.itemsize > TABLE_BYTES:
        return _near_rows(measured, cap, mass)
    D = measured.matrix().D
    return _Reached(Table(D, mass), np.full(len(mass), math.inf), _all_whole(D))


def _near_rows(space: Rows, cap: F64, mass: F64) -> _Reached | None:
    """Lists from rows of distances that are not kept."""
    counts, points, found, whole, size = [], [], [], True, 0
    for first in range(0, space.universe, space.block):
        rows = space.distances(np.arange(first, min(first + space.block, space.universe)))
        whole = whole and _all_whole(rows)
        close = rows < cap
        counts.append(np.count_nonzero(close, axis=1))
        size += int(counts[-1].sum())
        if size > LIST_ENTRIES * min(1.0, 0.1 + (first + len(rows)) / space.universe):
            return None
        points.append(np.nonzero(close)[1].astype(np.int32))
        found.append(rows[close].astype(np.float64))
    start = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return _Reached(Lists(start, np.concatenate(points), np.concatenate(found), mass), cap, whole)


@dataclass(frozen=True)
class _Sample:
    problem: _Problem
    size: int
    total: float  # R
    drawn: Ints  # different points of the demand
    cap: F64
    weight: F64

    @classmethod
    def of(cls, problem: _Problem, factor: float, size: int, rng: np.random.Generator) -> _Sample:
        caps = problem.caps(factor)
        share = problem.mass * caps
        total = math.fsum(share)
        drawn, times = np.unique(rng.choice(len(share), size, p=share / total), return_counts=True)
        return cls(problem, size, total, drawn, caps[drawn], times / (size * caps[drawn]))

    @property
    def goal(self) -> Goal:
        return Goal(
            self.problem.k, float(np.sum(self.weight * self.problem.paid[self.drawn])), tol=1e-3
        )

    @property
    def start(self) -> F64:
        return np.minimum(self.problem.start()[self.drawn], self.cap)

    def reach(self) -> Reach:
        space, points = self.problem.space, self.problem.demand[self.drawn]
        if isinstance(space, Graph):
            lists = _balls(space, points, self.cap, self.weight, 2**31 - 1)
            if lists is None:
                raise ValueError(
                    "The graph is too large to certify; give certify a smaller sample."
                )
            return lists
        streamed = Streamed(_onto(space, points), self.weight)
        return streamed.only(np.arange(streamed.candidates))


def _sampled(
    problem: _Problem, confidence: float, size: int | None, rng: np.random.Generator
) -> Certificate:
    factor = _best_factor(problem, confidence, size, rng)
    size = size or _size(problem, factor, rng)
    sample = _Sample.of(problem, factor, size, rng)
    reach, goal = sample.reach(), sample.goal
    ascent = ascend(reach, goal, sample.start, sample.cap, problem.max_iter, rng)
    bound = sample.total * smallest_mean(ascent.bound, size, 1 - confidence)
    # What was rounded on the way (sums, probabilities) is far less than this.
    bound = min(bound * _trust(problem.space) * (1 - 1e-9), problem.cost)
    return Certificate(bound, problem.cost, confidence, size, ascent.iterations)


def _best_factor(
    problem: _Problem, confidence: float, size: int | None, rng: np.random.Generator
) -> float:
    """The factor that promises the highest bound, by draws of its own and a few candidates."""
    promise = {}
    for factor in FACTORS:
        planned = size or _size(problem, factor, rng)
        pilot = _Sample.of(problem, factor, max(1, min(PILOT, planned // 4)), rng)
        reach, goal = pilot.reach(), pilot.goal
        some = rng.choice(reach.candidates, min(CANDIDATES, reach.candidates), replace=False)
        seen = climb(reach.only(some), goal, pilot.start, pilot.cap, PILOT_STEPS).bound
        # In proportion to what the solution costs there: the pilot's own chance cancels.
        share = max(0.0, seen) / goal.cost if goal.cost > 0 else 0.0
        mean = min(1.0, share * problem.cost / pilot.total)
        promise[factor] = pilot.total * smallest_mean(mean, planned, 1 - confidence)
    return max(promise, key=lambda factor: promise[factor])


def smallest_mean(seen: float, size: int, alpha: float) -> float:
    """The least mean of numbers in [0, 1] for which a sample mean of `seen` is not too unlikely."""
    low, high = 0.0, min(seen, 1.0)
    for _ in range(100):
        middle = (low + high) / 2
        if size * _divergence(seen, middle) > math.log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def _divergence(p: float, q: float) -> float:
    """KL(p || q) of two coins, for q <= p; infinite if q is 0 and p is not."""
    if not 0 < q < 1:
        return math.inf if q < p else 0.0
    ones = p * math.log(p / q) if p > 0 else 0.0
    return ones + (0.0 if p >= 1 else (1 - p) * math.log((1 - p) / (1 - q)))


def _size(problem: _Problem, factor: float, rng: np.random.Generator) -> int:
    """How many points to draw: as many as can be looked at in about twenty seconds."""
    space, (least, most) = problem.space, SAMPLES
    if isinstance(space, Graph):
        each = _ball_size(space, problem.demand, problem.caps(factor), rng)
        return int(min(most, max(least, BALL_ENTRIES / each)))
    measured = _onto(space, problem.demand)
    return int(min(most, max(least, SAMPLE_WORK / (measured.universe * _work(measured)))))


# Of spaces


def _work(space: Rows) -> float:
    """What a distance takes, compared to one in the plane."""
    if isinstance(space, Vectors):
        features = int(space.X.shape[1])
        return 1 + features / 16 if features <= FEW else features / 4
    return 1000.0 if isinstance(space, Called) else 1.0


def _onto(space: MetricSpace, points: Ints) -> Vectors | Matrix | Called:
    if not isinstance(space, Vectors | Matrix | Called):
        raise TypeError(f"cannot certify in a {type(space).__name__}")
    return space if len(points) == space.n else space.onto(points)


def _all_whole(D: Any) -> bool:
    step = max(1, 2**20 // max(1, D.shape[1]))
    parts = (D[first : first + step] for first in range(0, len(D), step))
    return all(bool(np.all(part == np.rint(part))) for part in parts)


def _ball_size(graph: Graph, points: Ints, radius: F64, rng: np.random.Generator) -> float:
    """How many nodes there are within a point's radius, about."""
    some = rng.choice(len(points), min(16, len(points)), replace=False)
    return max(1.0, len(graph.ball(points[some], radius[some]).point) / len(some))


def _balls(graph: Graph, points: Ints, radius: F64, weight: F64, most: int) -> Lists | None:
    """By candidate, from searches around the points, a part of them at a time; None if too many."""
    found, entries = [], 0
    for first in range(0, len(points), 64):
        part = slice(first, first + 64)
        found.append(graph.ball(points[part], radius[part]))
        entries += len(found[-1].point)
        if entries > most:  # the guess it was begun with was wrong
            return None
    start = np.concatenate([[0], np.cumsum(np.concatenate([np.diff(f.start) for f in found]))])
    point = np.concatenate([f.point for f in found])
    distance = np.concatenate([f.distance for f in found])
    del found
    start = start.astype(np.int32)  # or SciPy would make all indices twice as long
    turned = csr_array((distance, point, start), shape=(len(points), graph.n)).tocsc()
    return Lists(turned.indptr.astype(np.int64), turned.indices, turned.data, weight)


def _trust(space: MetricSpace) -> float:
    """On a graph, lengths were added up from the other end: n roundings either way."""
    return 1 - 4 * space.n * ROUNDING if isinstance(space, Graph) else 1.0
