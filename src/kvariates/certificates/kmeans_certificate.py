"""Certificates for k-means: lower bounds on the cost of any k centres.

**Exact**, if there are at most `EXACT` distinct rows: the dual bound below, for all of them.

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

**The dual bound** is that of a semidefinite relaxation. Let D_ij be squared distances and w_i
weights. Give every point i a price a_i, and let

    A_ij = sqrt(w_i w_j) (a_i + a_j - D_ij) / 2.

**Theorem.** For any prices a and any symmetric matrix H with H_ij >= A_ij for all i and j, no k
centres cost less than

    L(a, H) = sum_i w_i a_i - (sum of the k largest eigenvalues of H, negative ones left out).

*Proof.* The best centres are the means of a partition into at most k clusters. For a cluster S of
weight w(S) let u_S be the vector with entries sqrt(w_i / w(S)) on S and 0 elsewhere. The cost of S
is sum_{i,j in S} w_i w_j D_ij / (2 w(S)), so u_S' A u_S = (sum_{i in S} w_i a_i) - cost(S). As
u_S >= 0, u_S' H u_S is not smaller. The u_S are orthonormal, so their u_S' H u_S sum up to at most
the k largest eigenvalues (Ky Fan). Hence the sum of all cost(S) is at least L(a, H).

If every point may also be left out for a price r_i >= a_i, the theorem holds as well: a point that
is left out costs r_i, which is at least the a_i that the sum of prices counts for it.

The largest L(a, H) is the value of the relaxation of Peng and Wei (2007). A partition is a matrix
Z = sum_S u_S u_S' with Z >= 0 in every entry, eigenvalues from 0 to 1, trace k and Z v = v, where
v = sqrt(w) / |sqrt(w)|. Its cost is <C, Z> with C_ij = sqrt(w_i w_j) D_ij / 2. The relaxation keeps
these conditions and drops the rest. `solve` finds good prices: the alternating direction method of
multipliers splits the conditions in two sets with simple projections:

| set | projection |
|---|---|
| Z v = v, eigenvalues from 0 to 1, trace k | eigenvalues beside v are shifted and clipped |
| Z >= 0 | negative entries become 0 |

The multiplier of the second set is a matrix B >= 0 at any time, and gives prices and H: B is added
to A, and the prices are the smallest for which v is an eigenvector of A + B beside the k largest.

A solver that stops early gives a weaker bound, never a wrong one: `lower_bound` computes L(a, H)
from distances and eigenvalues and subtracts a bound on all rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from kvariates.certificates.certificate import Certificate, smallest_mean
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
ROUNDING = 2.0**-53
RELAXED = 1.6  # over-relaxation
CHECK, ADAPT = 20, 10  # iterations between two bounds, and between changes of the penalty
STIFF = 10.0  # the first penalty, in units of the cost
FAR = 4.0  # times the first prices of two points: a larger distance counts as this one


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
    report: Report | None

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
        known = KnownClusters(problem.known.labels[chosen], problem.known.cost[chosen])
        solution = solve(points, problem.k, known, STEPS)
        return cls(points, chosen, solution)

    def bound(self, k: int, caps: F64) -> float:
        return capped_bound(self.points, k, self.solution, caps[self.chosen])


def certify_kmeans(
    data: HostData, centers: F64, labels: Labels, rng: np.random.Generator,
    plan: SamplePlan | None = None, report: Report | None = None,
) -> Certificate:  # fmt: skip
    """A lower bound on the cost of any k centres, beside the known ones and the labels of all rows.

    It is exact if there are few distinct rows and no plan for samples is given.
    """
    problem = _problem(data, centers, labels, report)
    if not problem.cost > 0 or _only_rounding(problem, centers):
        none = Certificate(0.0, problem.cost, 1.0, None, 0, centers="centres")
        return replace(none, only_rounding=problem.cost > 0)
    with threadpool_limits(1, "blas"):  # so that the bits do not depend on the number of threads
        if plan is None and len(problem.index) <= EXACT:
            return _exact(problem)
        return _sampled(problem, plan, rng)


def _problem(data: HostData, centers: F64, labels: Labels, report: Report | None) -> CertifiedRows:
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
    return CertifiedRows(rows, index, mass, known, len(centers), report)


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
        missing = f"k = {k} is more than half of a sample ({size} rows)"
        return Certificate(0.0, cost, 1.0, None, 0, centers="centres", missing=missing)
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


# ---- the dual bound, and the solver


@dataclass(frozen=True, eq=False)
class WeightedDistances:
    """A small set of points: weights and squared distances between all pairs."""

    weight: F64
    D: F64  # no entry is larger than the exact squared distance

    @classmethod
    def of(cls, X: Any, weight: F64) -> WeightedDistances:
        """The points are the rows of a dense float64 array.

        A squared distance is a sum of d squares of rounded differences, so its relative error is at
        most (d + 2) roundings; lowering it by more than that makes it too small, which is safe.
        """
        rows = Rows.of(np.ascontiguousarray(X, dtype=np.float64))
        D = rows.distances(rows.X, squared=True)
        return cls(weight, D * (1 - 2 * (rows.d + 4) * ROUNDING))

    @property
    def root(self) -> F64:
        return np.sqrt(self.weight)


def lower_bound(points: WeightedDistances, k: int, price: F64, H: F64) -> float:
    """L(price, H) minus a bound on its rounding error; entries of H that are too small are raised.

    The eigenvalues of a symmetric solver are those of a matrix within a small multiple of n
    roundings of H; 16 n is far more than LAPACK needs.
    """
    n, root = len(price), points.root
    pairs = np.multiply.outer(root, root)
    sizes = np.abs(price)[:, None] + np.abs(price) + points.D
    least = pairs * (0.5 * (price[:, None] + price - points.D) + 8 * ROUNDING * sizes)
    raised = np.maximum(0.5 * (H + H.T), least)
    top = np.linalg.eigvalsh(raised)[max(0, n - k) :]
    offered = points.weight * price
    largest = float(np.abs(raised).max()) or 1.0
    norm = largest * float(np.linalg.norm(raised / largest))  # squares may overflow
    error = ROUNDING * (16.0 * n * len(top) * norm + 8 * math.fsum(np.abs(offered)))
    return math.fsum(offered) - math.fsum(np.maximum(top, 0.0)) - error


@dataclass(frozen=True, eq=False)
class Solution:
    """Prices, the matrix H, the bound that they prove, and the known labels."""

    price: F64
    H: F64
    bound: float
    labels: Labels
    iterations: int


@dataclass(frozen=True, eq=False)
class KnownClusters:
    """The clusters of a known solution: labels and squared distances to the centres."""

    labels: Labels
    cost: F64

    def first_prices(self, weight: F64, level: float) -> F64:
        """The cost of every point plus the level divided by the weight of its cluster."""
        return self.cost + level / np.bincount(self.labels, weight)[self.labels]


def solve(
    points: WeightedDistances, k: int, known: KnownClusters, max_iter: int, tol: float = 1e-3,
    report: Report | None = None,
) -> Solution:  # fmt: skip
    """Prices with a high bound; it starts from the known clusters.

    It stops when the bound is within `tol` of the known cost, or hardly rises any more.
    """
    mass = float(points.weight.mean())
    unit = float(np.average(known.cost, weights=points.weight)) or 1.0
    scaled = WeightedDistances(points.weight / mass, points.D / unit)
    start = KnownClusters(known.labels, known.cost / unit)

    def told(step: int, bound: float) -> None:
        if report is not None:
            report(Progress("bound, step", step, unit * mass * bound))

    found = _Iteration(scaled, k, start).run(max_iter, tol, told)
    price, H = found.price * unit, found.H * (unit * mass)
    return replace(found, price=price, H=H, bound=lower_bound(points, k, price, H))


def capped_bound(points: WeightedDistances, k: int, found: Solution, caps: F64) -> float:
    """The bound with prices of at most the caps.

    H falls with the prices inside the known clusters, where it is as small as it may be.
    """
    price = np.minimum(found.price, caps)
    half = 0.5 * np.multiply.outer((found.price - price) * points.root, points.root)
    same = found.labels[:, None] == found.labels
    return lower_bound(points, k, price, found.H - np.where(same, half + half.T, 0.0))


class _Iteration:
    """The alternating direction method, in units of the mean weight and the mean cost."""

    def __init__(self, points: WeightedDistances, k: int, known: KnownClusters) -> None:
        self.points, self.k, self.labels, self.root = points, k, known.labels, points.root
        self.v = self.root / np.linalg.norm(self.root)
        pairs = np.multiply.outer(self.root, self.root)
        weight, labels = points.weight, known.labels
        level = float(np.bincount(labels, weight * known.cost).max())
        first = known.first_prices(weight, level)
        far = FAR * (first[:, None] + first)
        self.C = 0.5 * pairs * np.minimum(points.D, far)
        same = labels[:, None] == labels
        size = np.bincount(labels, weight)[labels]
        self.Y = np.where(same, pairs / size, 0.0)
        self.B = np.where(same, 0.0, np.maximum(self.C - 0.5 * pairs * (first[:, None] + first), 0))
        self.cost = float(np.sum(self.C * self.Y))  # with the means of these points as centres
        self.rho = STIFF * float(np.linalg.norm(self.C) / np.linalg.norm(self.Y)) / len(weight)

    def run(self, max_iter: int, tol: float, tell: Callable[[int, float], None]) -> Solution:
        best = now = self.solution(0)
        while now.iterations < max_iter and best.bound < (1 - tol) * self.cost:
            for step in range(CHECK):
                self.step(adapt=step % ADAPT == ADAPT - 1)
            before, now = now, self.solution(now.iterations + CHECK)
            best = max(best, now, key=lambda one: one.bound)
            tell(now.iterations, best.bound)
            if abs(now.bound - before.bound) < tol * self.cost / 2:
                break
        return replace(best, iterations=now.iterations)

    def step(self, *, adapt: bool) -> None:
        Z = self.spectral(self.Y + (self.B - self.C) / self.rho)
        mixed = RELAXED * Z + (1 - RELAXED) * self.Y - self.B / self.rho
        before = self.Y
        self.Y = np.maximum(mixed, 0.0)
        self.B = self.rho * (self.Y - mixed)
        if adapt:
            primal = float(np.linalg.norm(Z - self.Y))
            dual = float(np.linalg.norm(self.Y - before))
            if primal > 3 * dual:
                self.rho *= 1.5
            elif dual > 3 * primal:
                self.rho /= 1.5

    def beside(self, M: F64) -> F64:
        """M on the vectors orthogonal to v; v itself gets an eigenvalue below all others."""
        Mv = M @ self.v
        inner = float(self.v @ Mv)
        half = np.multiply.outer(self.v, Mv - 0.5 * (inner - 2 * np.linalg.norm(M)) * self.v)
        only: F64 = M - half - half.T
        return only

    def spectral(self, W: F64) -> F64:
        """The nearest matrix with Z v = v, eigenvalues from 0 to 1 and trace k."""
        values, vectors = np.linalg.eigh(self.beside(W))
        kept = clipped_shift(values, self.k - 1)
        used = kept > 0
        Z: F64 = (vectors[:, used] * kept[used]) @ vectors[:, used].T
        return Z + np.multiply.outer(self.v, self.v)

    def solution(self, iteration: int) -> Solution:
        M, length, n = self.C - self.B, float(np.linalg.norm(self.root)), len(self.v)
        level = max(float(np.linalg.eigvalsh(self.beside(-M))[max(n - self.k, 0)]), 0.0)
        Mv = M @ self.v
        inner = float(self.v @ Mv)
        price = (2 * Mv + self.v * (level - inner)) / (length * self.root)
        half = 0.5 * np.multiply.outer(price * self.root, self.root)
        H = half + half.T - M
        bound = lower_bound(self.points, self.k, price, H)
        return Solution(price, H, bound, self.labels, iteration)


def clipped_shift(values: F64, total: float) -> F64:
    """The nearest numbers from 0 to 1 with this sum: clip(values - shift, 0, 1)."""
    low, high = float(values.min()) - 1.0, float(values.max())
    for _ in range(100):
        shift = 0.5 * (low + high)
        if np.clip(values - shift, 0.0, 1.0).sum() > total:
            low = shift
        else:
            high = shift
    return np.clip(values - high, 0.0, 1.0)
