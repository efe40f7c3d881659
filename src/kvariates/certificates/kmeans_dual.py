"""Lower bounds on the cost of any k centres, from the dual of a semidefinite relaxation.

Let D_ij be squared distances and w_i weights. Give every point i a price a_i, and let

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
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Labels, Rows
from kvariates.progress import Progress, Report

ROUNDING = 2.0**-53
RELAXED = 1.6  # over-relaxation
CHECK, ADAPT = 20, 10  # iterations between two bounds, and between changes of the penalty
STIFF = 10.0  # the first penalty, in units of the cost
FAR = 4.0  # times the first prices of two points: a larger distance counts as this one


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

    def only(self, chosen: NDArray[np.int64]) -> KnownClusters:
        return KnownClusters(self.labels[chosen], self.cost[chosen])


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
    scaled_report = None if report is None else _in_unit(report, unit * mass)
    found = _Iteration(scaled, k, start).run(max_iter, tol, scaled_report)
    price, H = found.price * unit, found.H * (unit * mass)
    return replace(found, price=price, H=H, bound=lower_bound(points, k, price, H))


def _in_unit(report: Report, unit: float) -> Report:
    """The same report, of values that are to be multiplied by a unit."""
    return lambda step: report(replace(step, value=unit * (step.value or 0.0)))


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

    def run(self, max_iter: int, tol: float, report: Report | None = None) -> Solution:
        best = now = self.solution(0)
        while now.iterations < max_iter and best.bound < (1 - tol) * self.cost:
            for step in range(CHECK):
                self.step(adapt=step % ADAPT == ADAPT - 1)
            before, now = now, self.solution(now.iterations + CHECK)
            best = max(best, now, key=lambda one: one.bound)
            if report is not None:
                report(Progress("bound, step", now.iterations, best.bound))
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
