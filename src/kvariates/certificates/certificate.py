"""Certificates: lower bounds on the cost of any k medoids.

**Exact.** Any prices v prove L(v) <= OPT (`certificates.dual`). The bound is L(v) for the best
prices found, minus a bound on its rounding error. If all weights and distances are whole numbers,
OPT is one too, and the bound is rounded up.

**From a sample**, if a pass over all distances takes too long. Choose a cap r(x) > 0 for every
point x, here a multiple of max(its cost in the solution, the mean cost). Let R = sum_x w(x) r(x),
and draw s points independently with probabilities w(x) r(x) / R. For the best medoids C*

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
from kvariates.data.distance_tables import (
    DistanceOracle,
    DistanceTable,
    StreamedDistances,
    all_whole,
    graph_lists,
    row_lists,
)
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, TwoNearest
from kvariates.notebook_html import boxed, shortened
from kvariates.progress import Report

CAP = 1.1  # times the distance to the second nearest medoid: the largest price, with lists
TABLE_BYTES = 2**30  # of distances in a table
LIST_ENTRIES = 3 * 10**7  # in lists
BALL_ENTRIES = 16 * 10**6  # in lists of a graph
USELESS = 1.0  # a gap above which a bound tells hardly anything
EXACT_WORK = 2.5e9  # distances, times `work`, up to which all are computed
FACTORS = 1.3, 1.8, 2.6, 4.0  # caps of a sample, as multiples of the points' costs
PILOT, CANDIDATES, PILOT_STEPS = 1000, 2048, 100  # draws, candidates and steps to choose a factor
WORK = 8e9  # distances, times `work`, in one pass over a sample
ENTRIES = 16 * 10**6  # on a graph: nodes within the caps of all draws
SIZES = 50, 16_000  # the smallest and the largest sample


@dataclass(frozen=True)
class Certificate:
    """Proof that no k medoids (or centres) cost less than `lower_bound`."""

    lower_bound: float
    cost: float  # of the medoids or centres that were found
    confidence: float  # 1 if the bound is exact
    sample: int | None  # how many points were drawn
    iterations: int
    rounded: bool = False  # up to a whole number, as all weights and distances are
    centers: str = "medoids"  # what was found, in words
    missing: str | None = None  # why no bound was computed
    only_rounding: bool = False  # the whole cost is rounding errors of the centres

    @property
    def gap(self) -> float:
        """The most by which the cost can exceed the optimum, as a part of the optimum.

        0 if the whole cost is rounding errors.
        """
        if self.cost <= self.lower_bound or self.only_rounding:
            return 0.0
        return self.cost / self.lower_bound - 1 if self.lower_bound > 0 else math.inf

    def __str__(self) -> str:
        if self.missing is not None:
            return f"no bound was computed: {self.missing}"
        if self.gap > USELESS:
            return "no useful bound"
        how = "certified"
        if self.sample is not None:
            how = f"{100 * self.confidence:.6g} % confidence, from a sample of {self.sample:,}"
        if self.gap == 0:
            return f"optimal{' up to rounding' if self.only_rounding else ''} ({how})"
        return f"within {_percent(self.gap)} of optimal ({how})"

    def __repr__(self) -> str:
        words = shortened(str(self), 200)
        return f"Certificate({words!r}, cost={self.cost:.6g}, lower_bound={self.lower_bound:.6g})"

    def _repr_html_(self) -> str:
        said = str(self)
        return boxed(f"{said[0].upper()}{said[1:]}", self.explain().splitlines())

    def explain(self) -> str:
        """What was proved, and how, in plain words."""
        cost = f"The {self.centers} cost {self.cost:.6g}."
        if self.missing is not None:
            return f"{cost}\nNo bound was computed: {self.missing}."
        if self.only_rounding:
            return f"{cost}\nThis is only rounding error: every row is equal to its centre."
        lines = [
            cost,
            f"No choice of as many {self.centers} costs less than {self.lower_bound:.6g},",
            f"so these are {self}."
            if self.gap <= USELESS
            else "which is less than half of the cost: no useful bound.",
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
    """Rounded up, so that no more is promised than was proved; at least 0.0001 %."""
    digits = max(0, 1 - math.floor(math.log10(100 * part)))
    scale = 10.0 ** min(digits, 4)
    return f"{math.ceil(100 * part * scale * (1 - 1e-12)) / scale:.12g} %"


def certify(
    space: MetricSpace, k: int, near: TwoNearest, weight: F64 | None, rng: np.random.Generator,
    *, sample: int | None = None, confidence: float = 0.99, max_iter: int = 480,
    report: Report | None = None,
) -> Certificate:  # fmt: skip
    """A lower bound on the cost of any k medoids; `near` belongs to those that were found.

    The bound is exact if all distances that matter can be computed in a few seconds and no sample
    is asked for.
    """
    mass = np.ones(space.n) if weight is None else np.asarray(weight, dtype=np.float64)
    demand = np.flatnonzero(mass > 0)
    mass = mass[demand]
    nearest, second = (d[demand].astype(np.float64) for d in (near.cost, near.second_cost))
    cost = math.fsum(mass * nearest)
    if not 0 < cost < math.inf:
        missing = "the cost is infinite" if cost > 0 else None
        return Certificate(0.0, cost, 1.0, None, 0, missing=missing)
    problem = CertifiedProblem(
        space, k, demand, mass, nearest, second, cost, sample, confidence, max_iter, report
    )
    exact = _exact(problem, rng) if sample is None else None
    if exact is not None:
        return exact
    return _from_sample(problem, rng)


def _exact(problem: CertifiedProblem, rng: np.random.Generator) -> Certificate | None:
    """None if that takes too much time or memory."""
    found = _all_distances(problem, rng)
    if found is None:
        return None
    whole = found.whole and all_whole(problem.weight[None])
    goal = dual.Goal(problem.k, problem.cost, whole, report=problem.report)
    start = np.minimum(problem.start(), found.cap)
    best = dual.maximize_bound(found.distances, goal, start, found.cap, problem.max_iter, rng)
    bound = problem.below(best.bound)
    if whole:
        bound = float(math.ceil(bound))
    return Certificate(min(bound, problem.cost), problem.cost, 1.0, None, best.iterations, whole)


@dataclass(frozen=True)
class _AllDistances:
    distances: DistanceOracle  # all that matter while prices stay below the cap
    cap: F64
    whole: bool  # all distances are whole numbers, also those left out


def _all_distances(problem: CertifiedProblem, rng: np.random.Generator) -> _AllDistances | None:
    space, weight = problem.space, problem.weight
    cap = problem.start() if problem.k == 1 else CAP * problem.second
    if isinstance(space, Graph):
        if dual.ball_size(space, problem.demand, cap, rng) * len(weight) > BALL_ENTRIES:
            return None
        lists = graph_lists(space, problem.demand, cap, weight, 2 * BALL_ENTRIES)
        whole = all_whole(space.csr.data[None])
        return None if lists is None else _AllDistances(lists, cap, whole)
    measured = dual.measured_at(space, problem.demand)
    pairs = measured.n_candidates * len(weight)
    if pairs * measured.work > EXACT_WORK:
        return None
    if pairs * measured.dtype.itemsize > TABLE_BYTES:
        found = row_lists(measured, cap, weight, LIST_ENTRIES)
        return None if found is None else _AllDistances(found.lists, cap, found.whole)
    D, cap = measured.matrix().D, np.full(len(weight), math.inf)
    whole = measured.exact_if_whole(float(D.max())) and all_whole(D)
    return _AllDistances(DistanceTable(weight, D), cap, whole)


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


def _from_sample(problem: CertifiedProblem, rng: np.random.Generator) -> Certificate:
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
    return Certificate(bound, problem.cost, problem.confidence, size, best.iterations)


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
