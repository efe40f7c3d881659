"""Certificates for k-means: lower bounds on the cost of any k centres.

**Exact**, if there are at most `EXACT` distinct rows: the dual bound of `certificates.kmeans_dual`.

**From samples** otherwise (after Mixon and Xie's Monte Carlo certificates). Choose a cap r(x) > 0
for every row x, let R = sum_x w(x) r(x), and draw m samples of s rows each, independently, with
probabilities w(x) r(x) / R. Let C* be the best k centres and d^2 squared distances. In each sample

    Z = the mean over its draws of min(d^2(x, C*), r(x)) / r(x)

is a mean of s numbers in [0, 1] whose expectation is q = sum_x w(x) min(d^2(x, C*), r(x)) / R, so
R q <= OPT. C* is one choice of k centres for the drawn rows with weights 1 / (s r(x)), where a row
may be left out for the price r(x). The dual bound z of a sample, with prices of at most r(x), is a
lower bound for the best choice, so z <= Z. The mean of the m bounds z is therefore at most a mean
of m s independent numbers in [0, 1] with expectation q, and `smallest_mean` of it is at most q with
the stated confidence (Chernoff and Hoeffding). R times that is the bound on OPT.

k centres fit s rows better than all rows, so the bound falls short by about k / s of the cost even
if the relaxation is perfect. The caps are the squared distance to the known centres plus a multiple
of the prices in a first sample; neither depends on the draws of the other samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from threadpoolctl import threadpool_limits

from kvariates.certificates.certificate import Certificate, smallest_mean
from kvariates.certificates.kmeans_dual import (
    KnownClusters,
    Solution,
    WeightedDistances,
    capped_bound,
    solve,
)
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Labels, Rows
from kvariates.numerics.draws import I64
from kvariates.progress import Progress, Report

EXACT = 1100  # distinct rows up to which the bound is exact
MERGED = 2**20  # values up to which equal rows are merged first
SHARES = 0.5, 0.7, 1.0, 1.4, 2.0, 3.0  # of the mean price of a cluster, in the caps
SIZE = 400  # draws in a sample
WORK, SAMPLES = 800, (4, 32)  # steps of the solver in all samples; the least and most samples
CLUSTERS = 0.5  # as a part of a sample: with more clusters, samples say nothing
EXACT_STEPS, STEPS = 400, 200  # of the solver at most: for an exact bound, for a sample
EXACT_WORK = 1e11  # rows^3 times steps, for an exact bound


@dataclass(frozen=True)
class SamplePlan:
    """How many rows are drawn, and the confidence of a bound from them."""

    size: int = SIZE  # draws in a sample
    samples: int = 8
    confidence: float = 0.99

    @property
    def draws(self) -> int:
        return self.size * self.samples

    def certain(self, bound: float, total: float) -> float:
        """The bound on OPT, from the mean of the samples' bounds; `total` is R."""
        mean = min(max(bound / total, 0.0), 1.0)
        return total * smallest_mean(mean, self.draws, 1 - self.confidence)


@dataclass(frozen=True, eq=False)
class CertifiedRows:
    """Rows of positive weight with the clusters that were found; one entry for each row."""

    rows: Rows
    index: I64
    weight: F64
    known: KnownClusters
    k: int
    report: Report | None = None

    @property
    def cost(self) -> float:
        return math.fsum(self.weight * self.known.cost)

    def points(self, chosen: I64, weight: F64) -> WeightedDistances:
        return WeightedDistances.of(self.rows.take(self.index[chosen]), weight)


@dataclass(frozen=True, eq=False)
class DrawnRows:
    """Drawn rows. Their weights make sums over them estimates of sums over all rows."""

    points: WeightedDistances
    chosen: I64  # the distinct rows drawn
    solution: Solution

    @classmethod
    def of(
        cls, problem: CertifiedRows, caps: F64, size: int, rng: np.random.Generator
    ) -> DrawnRows:
        share = problem.weight * caps
        total = math.fsum(share)
        drawn = rng.choice(len(share), size, p=share / share.sum())
        chosen, times = np.unique(drawn, return_counts=True)
        points = problem.points(chosen, times * (total / (size * caps[chosen])))
        solution = solve(points, problem.k, problem.known.only(chosen), STEPS)
        return cls(points, chosen, solution)

    def bound(self, k: int, caps: F64) -> float:
        """The dual bound with prices of at most the caps."""
        return capped_bound(self.points, k, self.solution, caps[self.chosen])


def certify_kmeans(
    data: HostData, centers: F64, labels: Labels, rng: np.random.Generator,
    plan: SamplePlan | None = None, report: Report | None = None,
) -> Certificate:  # fmt: skip
    """A lower bound on the cost of any k centres, beside the known ones and the labels of all rows.

    It is exact if there are few distinct rows and no plan for samples is given.
    """
    problem = replace(_problem(data, centers, labels), report=report)
    if not problem.cost > 0 or _only_rounding(problem, centers):
        return _trivial(problem, only_rounding=problem.cost > 0)
    with threadpool_limits(1, "blas"):  # so that the bits do not depend on the number of threads
        if plan is None and len(problem.index) <= EXACT:
            return _exact(problem)
        return _sampled(problem, plan, rng)


def _problem(data: HostData, centers: F64, labels: Labels) -> CertifiedRows:
    """Rows without weight are left out, and equal rows of small data become one."""
    rows, cost = data.rows, data.rows.costs(centers, labels)
    given = np.ones(rows.n) if data.weight is None else data.weight
    index: I64 = np.flatnonzero(given > 0)
    mass = given[index]
    if rows.n * rows.d <= MERGED:
        _, first, group = np.unique(
            rows.take(index), axis=0, return_index=True, return_inverse=True
        )
        mass = np.bincount(group.ravel(), mass).astype(np.float64)
        index = index[first]
    known = KnownClusters(labels[index], cost[index])
    return CertifiedRows(rows, index, mass, known, len(centers))


def _only_rounding(problem: CertifiedRows, centers: F64) -> bool:
    """Whether every row is equal to its centre, except for rounding errors of the centre."""
    rows, labels = problem.rows, problem.known.labels
    unit, step = 2 * float(np.finfo(rows.dtype).eps), max(1, 2**20 // rows.d)
    for first in range(0, len(labels), step):
        center = centers[labels[first : first + step]]
        apart = np.abs(rows.take(problem.index[first : first + step]) - center)
        if (apart > unit * np.abs(center)).any():
            return False
    return True


def _trivial(
    problem: CertifiedRows, missing: str | None = None, *, only_rounding: bool = False
) -> Certificate:
    """The bound 0, which needs no computation."""
    return Certificate(
        0.0, problem.cost, 1.0, None, 0,
        centers="centres", missing=missing, only_rounding=only_rounding,
    )  # fmt: skip


def _exact(problem: CertifiedRows) -> Certificate:
    points = problem.points(np.arange(len(problem.index)), problem.weight)
    steps = min(EXACT_STEPS, int(EXACT_WORK / len(problem.index) ** 3))
    found = solve(points, problem.k, problem.known, steps, tol=1e-4, report=problem.report)
    bound = min(max(found.bound, 0.0), problem.cost)
    return Certificate(bound, problem.cost, 1.0, None, found.iterations, centers="centres")


def _sampled(
    problem: CertifiedRows, plan: SamplePlan | None, rng: np.random.Generator
) -> Certificate:
    k, cost, size = problem.k, problem.cost, SIZE if plan is None else plan.size
    if k > CLUSTERS * size:
        return _trivial(problem, f"k = {k} is more than half of a sample ({size} rows)")
    mean = problem.cost / math.fsum(problem.weight)
    pilot = DrawnRows.of(problem, problem.known.cost + mean, size, rng)
    if plan is None:
        least, most = SAMPLES
        plan = SamplePlan(size, min(max(WORK // max(pilot.solution.iterations, 1), least), most))
    caps = _best_caps(problem, plan, pilot)
    total = math.fsum(problem.weight * caps)
    bounds, iterations = [], 0
    for _ in range(plan.samples):
        sample = DrawnRows.of(problem, caps, size, rng)
        bounds.append(min(max(sample.bound(k, caps), 0.0), total))
        iterations += sample.solution.iterations
        if problem.report is not None:
            problem.report(Progress("bound, sample", len(bounds), math.fsum(bounds) / len(bounds)))
    bound = plan.certain(math.fsum(bounds) / plan.samples, total)
    # The last factor is far more than the rounding errors of sums and probabilities.
    bound = min(bound * (1 - 1e-9), cost)
    return Certificate(bound, cost, plan.confidence, plan.draws, iterations, centers="centres")


def _best_caps(problem: CertifiedRows, plan: SamplePlan, pilot: DrawnRows) -> F64:
    """Caps with the highest expected bound, by a sample of their own."""
    above = pilot.solution.price - problem.known.cost[pilot.chosen]
    level = max(math.fsum(pilot.points.weight * above) / problem.k, 0.0)

    def caps(share: float) -> F64:
        return problem.known.first_prices(problem.weight, share * level)

    def expected(share: float) -> float:
        total = math.fsum(problem.weight * caps(share))
        return plan.certain(pilot.bound(problem.k, caps(share)), total)

    return caps(max(SHARES, key=expected))
