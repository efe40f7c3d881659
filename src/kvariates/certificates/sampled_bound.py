"""A lower bound on the cost of any k medoids from a sample of the points.

It is used where a pass over all distances takes too long. Choose a cap r(x) > 0 for every point x,
here a multiple of max(its cost in the solution, the mean cost). Let R = sum_x w(x) r(x), and draw s
points independently with probabilities w(x) r(x) / R. For the best medoids C*

    Z = the mean over the draws of min(d(x, C*), r(x)) / r(x)

is a mean of s independent numbers in [0, 1] with mean m = sum_x w(x) min(d(x, C*), r(x)) / R, so
R m <= OPT. C* is one choice of k medoids for the drawn points with weights 1 / (s r(x)) and costs
capped at r(x), so a lower bound z for that problem has z <= Z. (With costs capped at r(x), prices
need not exceed r(x), and for such prices the cap changes nothing.) By Chernoff and Hoeffding

    P(Z >= z) <= exp(-s KL(z || m))    for m < z.

Let m_0 be the root below z of s KL(z || m_0) = ln(1 / alpha). Then m < m_0 has probability at most
alpha, and R m_0 is a lower bound on OPT with confidence 1 - alpha. The solution and the caps may
depend on anything but the draws. Low caps make the mean more certain but leave out costs above
them; `_best_factor` chooses how low they are, with draws of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from kvariates.certificates import dual
from kvariates.certificates.dual import CertifiedProblem, Goal
from kvariates.data.distance_tables import DistanceOracle, StreamedDistances, graph_lists
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import Ints
from kvariates.data.rows import F64

FACTORS = 1.3, 1.8, 2.6, 4.0  # caps of a sample, as multiples of the points' costs
PILOT, CANDIDATES, PILOT_STEPS = 1000, 2048, 100  # draws, candidates and steps to choose a factor
WORK = 8e9  # distances, times `work`, in one pass over a sample
ENTRIES = 16 * 10**6  # on a graph: nodes within the caps of all draws
SIZES = 50, 16_000  # the smallest and the largest sample


@dataclass(frozen=True)
class Sample:
    problem: CertifiedProblem
    size: int
    total: float  # R
    drawn: Ints  # the distinct points drawn, as indices of the demand
    cap: F64
    weight: F64

    @classmethod
    def of(
        cls, problem: CertifiedProblem, factor: float, size: int, rng: np.random.Generator
    ) -> Sample:
        caps = problem.caps(factor)
        share = problem.weight * caps
        total = math.fsum(share)
        drawn, times = np.unique(rng.choice(len(share), size, p=share / total), return_counts=True)
        return cls(problem, size, total, drawn, caps[drawn], times / (size * caps[drawn]))

    @property
    def goal(self) -> Goal:
        cost = float(np.sum(self.weight * self.problem.nearest[self.drawn]))
        return Goal(self.problem.k, cost, tol=1e-3, report=self.problem.report)

    @property
    def start(self) -> F64:
        return np.minimum(self.problem.start()[self.drawn], self.cap)

    def distances(self) -> DistanceOracle:
        space, points = self.problem.space, self.problem.demand[self.drawn]
        if isinstance(space, Graph):
            lists = graph_lists(space, points, self.cap, self.weight, 2**31 - 1)
            if lists is None:
                raise ValueError(
                    "The graph is too large to certify; give certify a smaller sample."
                )
            return lists
        streamed = StreamedDistances(self.weight, dual.measured_at(space, points))
        return streamed.only(np.arange(streamed.n_candidates))


@dataclass(frozen=True)
class SampledBound:
    bound: float
    size: int  # of the sample
    iterations: int


def sampled_bound(problem: CertifiedProblem, rng: np.random.Generator) -> SampledBound:
    """A bound with the confidence, and from as many draws, as the problem says."""
    factor = _best_factor(problem, rng)
    size = problem.sample or _size(problem, factor, rng)
    sample = Sample.of(problem, factor, size, rng)
    best = dual.maximize_bound(
        sample.distances(), sample.goal, sample.start, sample.cap, problem.max_iter, rng
    )
    bound = sample.total * smallest_mean(best.bound, size, 1 - problem.confidence)
    # The last factor is far more than the rounding errors of sums and probabilities.
    bound = min(problem.below(bound) * (1 - 1e-9), problem.cost)
    return SampledBound(bound, size, best.iterations)


def _best_factor(problem: CertifiedProblem, rng: np.random.Generator) -> float:
    """The factor with the highest expected bound, by separate draws and a few candidates."""
    expected = {}
    for factor in FACTORS:
        planned = problem.sample or _size(problem, factor, rng)
        pilot = Sample.of(problem, factor, max(1, min(PILOT, planned // 4)), rng)
        distances, goal = pilot.distances(), pilot.goal
        many = distances.n_candidates
        some = distances.only(rng.choice(many, min(CANDIDATES, many), replace=False))
        bound = dual.subgradient_ascent(some, goal, pilot.start, pilot.cap, PILOT_STEPS).bound
        # As a share of the solution's cost in the pilot: most of the pilot's noise cancels.
        share = max(0.0, bound) / goal.cost if goal.cost > 0 else 0.0
        mean = min(1.0, share * problem.cost / pilot.total)
        expected[factor] = pilot.total * smallest_mean(mean, planned, 1 - problem.confidence)
    return max(expected, key=lambda factor: expected[factor])


def smallest_mean(seen: float, size: int, alpha: float) -> float:
    """The lower confidence bound on the mean of numbers in [0, 1] whose sample mean is `seen`."""
    low, high = 0.0, min(seen, 1.0)
    for _ in range(100):
        middle = (low + high) / 2
        if size * _divergence(seen, middle) > math.log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def _divergence(p: float, q: float) -> float:
    """KL(p || q) of two Bernoulli laws, for q <= p; infinite if q is 0 and p is not."""
    if not 0 < q < 1:
        return math.inf if q < p else 0.0
    ones = p * math.log(p / q) if p > 0 else 0.0
    return ones + (0.0 if p >= 1 else (1 - p) * math.log((1 - p) / (1 - q)))


def _size(problem: CertifiedProblem, factor: float, rng: np.random.Generator) -> int:
    """As many points as can be certified in about twenty seconds."""
    space, (least, most) = problem.space, SIZES
    if isinstance(space, Graph):
        each = dual.ball_size(space, problem.demand, problem.caps(factor), rng)
        return int(min(most, max(least, ENTRIES / each)))
    measured = dual.measured_at(space, problem.demand)
    return int(min(most, max(least, WORK / (measured.n_candidates * measured.work))))
