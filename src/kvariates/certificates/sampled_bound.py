"""A lower bound on what any k medoids cost, from a sample of the points.

For where a pass over all distances takes too long. Fix a cap r(x) > 0 for every
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

import numpy as np

from kvariates.certificates.certified_problem import (
    CertifiedProblem,
    ball_size,
    balls,
    onto,
    trust,
    work,
)
from kvariates.certificates.dual import DistanceOracle, Goal, StreamedDistances, ascend, climb
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64

FACTORS = 1.3, 1.8, 2.6, 4.0  # caps of a sample, in multiples of what points cost
PILOT, CANDIDATES, PILOT_STEPS = 1000, 2048, 100  # draws, candidates and steps to choose one
WORK = 8e9  # distances (see `problem.work`) in one pass over a sample
ENTRIES = 16 * 10**6  # of a graph, the nodes within the caps of all draws
SIZES = 50, 16_000  # the smallest and the largest sample


@dataclass(frozen=True)
class Sample:
    problem: CertifiedProblem
    size: int
    total: float  # R
    drawn: Ints  # different points of the demand
    cap: F64
    weight: F64

    @classmethod
    def of(
        cls, problem: CertifiedProblem, factor: float, size: int, rng: np.random.Generator
    ) -> Sample:
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

    def reach(self) -> DistanceOracle:
        space, points = self.problem.space, self.problem.demand[self.drawn]
        if isinstance(space, Graph):
            lists = balls(space, points, self.cap, self.weight, 2**31 - 1)
            if lists is None:
                raise ValueError(
                    "The graph is too large to certify; give certify a smaller sample."
                )
            return lists
        streamed = StreamedDistances(onto(space, points), self.weight)
        return streamed.only(np.arange(streamed.candidates))


@dataclass(frozen=True)
class SampleBound:
    bound: float
    size: int  # of the sample
    iterations: int


def sampled(
    problem: CertifiedProblem, confidence: float, size: int | None, rng: np.random.Generator
) -> SampleBound:
    """A bound that holds with the given confidence, from `size` draws or as many as can be had."""
    factor = _best_factor(problem, confidence, size, rng)
    size = size or _size(problem, factor, rng)
    sample = Sample.of(problem, factor, size, rng)
    reach, goal = sample.reach(), sample.goal
    ascent = ascend(reach, goal, sample.start, sample.cap, problem.max_iter, rng)
    bound = sample.total * smallest_mean(ascent.bound, size, 1 - confidence)
    # What was rounded on the way (sums, probabilities) is far less than this.
    bound = min(bound * trust(problem.space) * (1 - 1e-9), problem.cost)
    return SampleBound(bound, size, ascent.iterations)


def _best_factor(
    problem: CertifiedProblem, confidence: float, size: int | None, rng: np.random.Generator
) -> float:
    """The factor that promises the highest bound, by draws of its own and a few candidates."""
    promise = {}
    for factor in FACTORS:
        planned = size or _size(problem, factor, rng)
        pilot = Sample.of(problem, factor, max(1, min(PILOT, planned // 4)), rng)
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


def _size(problem: CertifiedProblem, factor: float, rng: np.random.Generator) -> int:
    """How many points to draw: as many as can be looked at in about twenty seconds."""
    space, (least, most) = problem.space, SIZES
    if isinstance(space, Graph):
        each = ball_size(space, problem.demand, problem.caps(factor), rng)
        return int(min(most, max(least, ENTRIES / each)))
    measured = onto(space, problem.demand)
    return int(min(most, max(least, WORK / (measured.universe * work(measured)))))
