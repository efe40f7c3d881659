"""Finds the k at which no cluster divides further, from solutions for k = 1, 2, ..., K.

A cluster divides if it has two groups with few rows between them: a valley. The search takes the
smallest k from which on no cluster divides, and then joins clusters that do not divide together.

A cluster is tested by halves of its rows. One half chooses a direction, the other one is projected
on it. The direction is that between two centres, or between two centres after all principal axes
were scaled to one deviation: a thin gap beside a wide column of noise is seen only by the second.
The confirmation also tries the columns.
Inside of a cluster that is a convex piece of a log-concave density (normal, uniform, exponential),
every projection is log-concave too and has no valley.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from kvariates.data.assigners import InMemoryAssigner
from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, Labels, Rows
from kvariates.numerics.draws import I64
from kvariates.numerics.valleys import RoundedColumns, Valley, ValleyCounts, pooled_p_value
from kvariates.progress import Progress, Report
from kvariates.refining.lloyd import LloydResult, MeanUpdate, StopRule, lloyd
from kvariates.seeding.global_kmeans import Candidates, global_kmeans, sample_size
from kvariates.seeding.sampler import SeedingProblem, sample_rows

LEVEL = 0.01  # a p-value below LEVEL / k shows that one of k clusters divides
JOINED = 0.05  # two clusters are joined if the p-value of both together is above this
TESTED = 20_000  # rows that test whether clusters divide
FEWEST = 4  # rows of each half that are needed to test a cluster
TRIALS, STEPS = 3, 15  # draws for each of two centres; iterations of Lloyd
AXES = 8  # principal axes that are scaled to one deviation
DEEP = 4.0  # a depth from which on no other direction is tried
PER_AXIS = 5  # rows of a cluster for each of these axes
FEATURES = 50  # up to which axes are computed: it takes time with their square


@dataclass(frozen=True)
class SelectionOptions:
    """How to search."""

    every_row: bool = False  # candidates for the next centre: every row, or drawn ones
    sample_size: int = 0  # rows for the silhouette
    every_k: bool = True  # test the clusters for every k, or only down to the k that is found
    report: Report | None = None  # called for each k, and for each test whether clusters divide


@dataclass(frozen=True, eq=False)
class Search:
    """Solutions for k = 1, 2, ..., K, and what the search found.

    k : the number of clusters after joining; None if some clusters divide at the highest k.
    dividing : how many clusters divide, for each k; -1 if not tested.
    """

    k: int | None
    found: list[LloydResult]
    dividing: I64

    @classmethod
    def of(cls, problem: SeedingProblem, options: SelectionOptions) -> Self:
        candidates: Candidates = "all" if options.every_row else sample_size(problem.rows.n)
        found = global_kmeans(problem, candidates=candidates, report=options.report)
        test = DivisionTest(problem, options.report)
        dividing = np.full(len(found), -1)
        for at in reversed(range(len(found))):
            dividing[at] = test.dividing(found[at].labels)
            if dividing[at] and not options.every_k:
                break
        if dividing[-1]:
            return cls(None, found, dividing)
        joined = join(problem, found[settled(dividing) - 1], test)
        k = len(joined.centers)
        found[k - 1], dividing[k - 1] = joined, 0
        return cls(k, found, dividing)


class DivisionTest:
    """Tests whether clusters divide, on at most TESTED rows. Results are kept by the rows tested.

    Weights count for the centres of a division; the test itself counts rows. Rows with rounded
    features are tested with noise, because gaps between rounded values are no valleys.
    """

    def __init__(
        self, problem: SeedingProblem, report: Report | None = None, *, columns: bool = False
    ) -> None:
        self._problem, self._report, self._columns = problem, report, columns
        n, rng = problem.rows.n, problem.rng
        parts = max(2, math.ceil(2 * n / TESTED))
        self._part = rng.permutation(n) % parts  # 0 and 1 are the two halves
        self._rounding = RoundedColumns(problem.rows.X[self._part < 2])
        self._known: dict[bytes, float] = {}

    def dividing(self, labels: Labels) -> int:
        """How many of these clusters divide."""
        k = int(labels.max()) + 1
        clusters = (np.flatnonzero(labels == j) for j in range(k))
        dividing = sum(self.p_value(members) < LEVEL / k for members in clusters)
        if self._report is not None:
            self._report(Progress("dividing clusters, k =", k, dividing))
        return dividing

    def p_value(self, members: I64) -> float:
        """The p-value of "these rows do not divide", by halves that count for each other."""
        key = members.tobytes()
        if key not in self._known:
            one, two = (members[self._part[members] == half] for half in (0, 1))
            few = min(len(one), len(two)) < FEWEST
            counts = [] if few else [self._counts(one, two), self._counts(two, one)]
            self._known[key] = pooled_p_value(counts)
        return self._known[key]

    def _counts(self, chooses: I64, counts: I64) -> ValleyCounts:
        """Rows of the second half in a valley and beside it, along a direction of the first."""
        rows, fill, rng = self._problem.rows, self._rounding.fill, self._problem.rng
        weight = None if self._problem.weight is None else self._problem.weight[chooses]
        halves = rows.subset(chooses), rows.subset(counts)
        best, deepest = ValleyCounts(0, 0), -math.inf
        for direction in self._directions(halves[0], weight):
            along = (np.asarray(half.X @ direction).ravel() for half in halves)
            one, two = (fill(values, direction, rng) for values in along)
            if (valley := Valley.of(one)) and valley.depth > deepest:
                best, deepest = valley.counts(two), valley.depth
            if deepest > DEEP:
                break
        return best

    def _directions(self, part: Rows, mass: F64 | None) -> Iterator[F64]:
        """Directions in which these rows may divide."""
        yield self._between_two(part, mass)
        if not part.dense or part.d > FEATURES:
            return
        if self._columns:
            yield from np.eye(part.d)
        axes = min(part.d, AXES, part.n // PER_AXIS)
        if axes > 1:
            X = part.X.astype(np.float64, copy=False)
            variances, turn = np.linalg.eigh(np.cov(X, rowvar=False))
            some = np.flatnonzero(variances > 1e-12 * variances[-1])[-axes:]
            if some.size:
                scaled = turn[:, some] / np.sqrt(variances[some])
                yield scaled @ self._between_two(Rows.of(X @ scaled), mass)

    def _between_two(self, part: Rows, mass: F64 | None) -> F64:
        """The direction from one centre to another, for two centres of these rows."""
        one, two = two_centers(part, mass, self._problem.rng)
        return np.asarray(two - one)


def two_centers(part: Rows, mass: F64 | None, rng: np.random.Generator) -> F64:
    """Two centres of some rows, by a few iterations."""
    seeds = sample_rows(SeedingProblem(HostData(part, mass), 2, rng=rng), trials=TRIALS).centers
    assigner = InMemoryAssigner(part, mass, 2)
    end = lloyd(assigner, seeds, MeanUpdate(assigner), StopRule(STEPS, 0.0))
    return end.centers.astype(part.dtype).astype(np.float64)


def settled(dividing: I64) -> int:
    """The smallest k from which on no cluster divides. Pre: none divides at the highest k."""
    return int(np.flatnonzero(np.r_[1, dividing])[-1]) + 1


def join(problem: SeedingProblem, solution: LloydResult, test: DivisionTest) -> LloydResult:
    """The solution after joining clusters that do not divide together with their nearest one.

    It is the last one in which no cluster divides. Pre: none divides in the given one.
    """
    joined = solution
    while len(solution.centers) > 1:
        centers = solution.centers.astype(np.float64)
        i, j = _least_apart(solution.labels, centers, test)
        if i == j:
            break
        masses = np.bincount(solution.labels, problem.weight, minlength=len(centers))
        centers[i] = np.average(centers[[i, j]], axis=0, weights=masses[[i, j]])
        centers = np.delete(centers, j, axis=0)
        solution = problem.lloyd(problem.data, centers)
        if not test.dividing(solution.labels):
            joined = solution
    return joined


def _least_apart(labels: Labels, centers: F64, test: DivisionTest) -> tuple[int, int]:
    """The cluster and its nearest one that least divide together; (0, 0) if all pairs might."""
    apart = Rows.of(centers).distances(centers)
    np.fill_diagonal(apart, np.inf)
    most, found = JOINED, (0, 0)
    for i, j in enumerate(apart.argmin(axis=1).tolist()):
        p_value = test.p_value(np.flatnonzero((labels == i) | (labels == j)))
        if p_value > most:
            most, found = p_value, (i, j)
    return found
