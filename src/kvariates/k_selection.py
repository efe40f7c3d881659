"""Chooses the number of clusters from solutions for k = 1, 2, ..., K.

| criterion | what is computed, for every k |
|---|---|
| dividing | how many of the k clusters split into two groups with few rows between (a valley) |
| elbow | how far (log k, log inertia) lies below the line between its ends, both axes 0..1 |
| silhouette | the mean of (b - a) / max(a, b) over a sample of rows, from all pairs of its rows |

The first one decides: k is right if no cluster divides, and if every cluster and its nearest one
together do. The other two only make a guess where the first gives no answer.

A cluster is tested by halves of its rows: two centres, found on one half, give a direction, and the
other half is projected on it. Inside of a cluster that is a convex piece of a log-concave density
(normal, uniform, exponential), every projection is log-concave too and has no valley.

In the silhouette, a is the mean distance of a row to the other sampled rows of its cluster, and b
is the mean distance to those of the next cluster. If the cost falls like a power of k, there is no
elbow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvariates.data.rows import F64, Floats, Labels, Rows
from kvariates.notebook_html import HtmlTable, boxed, shortened
from kvariates.numerics.draws import I64
from kvariates.numerics.valleys import RoundedColumns, ValleyCounts, pooled_p_value, valley_counts
from kvariates.progress import Progress, Report
from kvariates.refining.lloyd import LloydResult, StopRule, refine
from kvariates.seeding.global_kmeans import Candidates, global_kmeans, sample_size
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows

Solutions = list[LloydResult]
LEVEL = 0.01  # a p-value below LEVEL / k shows that one of k clusters divides
JOINED = 0.05  # two clusters are joined if the p-value of both together is above this
TESTED = 20_000  # rows that test whether clusters divide
FEWEST = 4  # rows of each half that are needed to test a cluster
TRIALS, STEPS = 5, 50  # draws for each of two centres; iterations of Lloyd
WEAK = 0.25  # a silhouette below this shows no substantial structure (Kaufman and Rousseeuw 1990)


@dataclass(frozen=True, eq=False)
class Choice:
    """A suggested number of clusters, the reason, and the criteria for each k that was tried.

    Attributes
    ----------
    k : int
        The suggestion.
    clear : bool
        Whether the test found k separate groups. The test assumes convex clusters: for rings or
        crescents k may be wrong. Groups that overlap count as one. k = 1 is never clear. If not
        clear, `k` is a guess, and the reason begins with "no clear answer".
    reason : str
        The reason, in words.
    ks, inertia, elbow, silhouette, dividing : ndarray of shape (n_ks,)
        The numbers of clusters; the cost of all rows; the depth of the elbow; the mean silhouette
        of sampled rows (NaN for one cluster); how many clusters divide.
    solutions : tuple of ndarray of shape (k, n_features)
        The centres for each k.
    """

    k: int
    clear: bool
    reason: str
    ks: I64
    inertia: F64
    elbow: F64
    silhouette: F64
    dividing: I64
    solutions: tuple[Floats, ...]

    @property
    def centers(self) -> Floats:
        """The centres for the suggested k."""
        return self.solutions[self.k - int(self.ks[0])]

    def frame(self) -> Any:
        """The criteria as a pandas DataFrame, a row for each k. Needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Choice.frame needs pandas: pip install pandas.") from error
        return pd.DataFrame(self._columns())

    def __str__(self) -> str:
        lines = ["".join(f"{name:>12}" for name in self._columns())]
        for k, words in zip(self.ks, self._words(), strict=True):
            line = "".join(f"{word:>12}" for word in words)
            lines.append(line + ("  <" if k == self.k else ""))
        return "\n".join([*lines, f"k = {self.k}: {self.reason}"])

    def __repr__(self) -> str:
        tried = f"{self.ks[0]} to {self.ks[-1]}"
        reason = shortened(self.reason, 250)
        return f"Choice(k={self.k}, clear={self.clear}, tried={tried}, reason={reason!r})"

    def _repr_html_(self) -> str:
        words = self._words()
        title = f"k = {self.k}{'' if self.clear else ' (no clear answer)'}"
        table = HtmlTable(list(self._columns()), words, marked=self.k - int(self.ks[0]))
        return boxed(title, [self.reason], table)

    def _words(self) -> list[list[str]]:
        """The table of criteria as text."""
        return [
            [
                str(k), f"{inertia:.6g}",
                *("-" if math.isnan(value) else f"{value:.3f}" for value in criteria),
                str(dividing),
            ]
            for k, inertia, *criteria, dividing in zip(*self._columns().values(), strict=True)
        ]  # fmt: skip

    def _columns(self) -> dict[str, NDArray[Any]]:
        names = ("inertia", "elbow", "silhouette", "dividing")
        return {"k": self.ks} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class SelectionOptions:
    """The parameters of `choose`, with the meaning they have in `kvariates.choose_k`."""

    method: str
    sample_size: int
    report: Report | None = None  # called for each k, and for each test whether clusters divide


def choose(
    rows: Rows, weight: F64 | None, ks: range, options: SelectionOptions, rng: np.random.Generator
) -> Choice:
    """The choice among `ks`.

    Pre: at least max(ks) distinct rows, all weights > 0, max(ks) <= options.sample_size.
    """
    stop = StopRule(300, 1e-4 * rows.spread())
    problem = SeedingProblem(
        rows, weight, ks[-1], lloyd=lambda part, mass, c: refine(part, c, mass, stop), rng=rng
    )
    # The order in which BLAS adds depends on its threads, so it gets one.
    with threadpool_limits(1, user_api="blas"):
        all_rows = options.method == "global"
        candidates: Candidates = "all" if all_rows else sample_size(rows.n)
        found = global_kmeans(problem, candidates=candidates, report=options.report)
        test = DivisionTest(problem, options.report)
        dividing = np.array([test.dividing(solution.labels) for solution in found])
        k = None
        if not dividing[-1]:
            joined = join(problem, found[settled(dividing) - 1], test)
            k = len(joined.centers)
            found[k - 1], dividing[k - 1] = joined, 0
        silhouette = silhouettes(rows, weight, found, options.sample_size, rng)
    tried, found = np.array(ks), found[ks[0] - 1 :]
    inertia = np.array([solution.inertia for solution in found])
    elbow, silhouette = elbow_of(tried, inertia), silhouette[ks[0] - 1 :]
    answer = suggest(tried, k, guess(tried, elbow, silhouette))
    centers = tuple(solution.centers for solution in found)
    return Choice(*answer, tried, inertia, elbow, silhouette, dividing[ks[0] - 1 :], centers)


class DivisionTest:
    """Tests whether clusters divide, on at most TESTED rows. Results are kept by the rows tested.

    Weights count for the centres of a division; the test itself counts rows. Rows with rounded
    features are tested with noise, because gaps between rounded values are no valleys.
    """

    def __init__(self, problem: SeedingProblem, report: Report | None = None) -> None:
        self._problem, self._report = problem, report
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
        rows, weight = self._problem.rows, self._problem.weight
        part, mass = rows.subset(chooses), None if weight is None else weight[chooses]
        pair = SeedingProblem(part, mass, 2, rng=self._problem.rng)
        seeds = sample_rows(pair, trials=TRIALS).centers
        one, two = refine(part, seeds, mass, StopRule(STEPS, 0.0)).centers.astype(np.float64)
        along = (np.asarray(rows.X[some] @ (two - one)).ravel() for some in (chooses, counts))
        fill, rng = self._rounding.fill, self._problem.rng
        return valley_counts(*(fill(values, two - one, rng) for values in along))


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
        solution = problem.needed_lloyd(problem.rows, problem.weight, centers)
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


def silhouettes(
    rows: Rows, weight: F64 | None, found: Solutions, size: int, rng: np.random.Generator
) -> F64:
    """The mean silhouette of at most `size` rows, for each solution."""
    picked = np.arange(rows.n)
    if rows.n > size:
        picked = np.sort(rng.choice(rows.n, size, replace=False))
    sample = rows.subset(picked)
    mass = np.ones(sample.n) if weight is None else weight[picked]
    apart = sample.distances(sample.take(np.arange(sample.n))).astype(np.float64)
    return np.array([silhouette_of(apart, mass, solution.labels[picked]) for solution in found])


def silhouette_of(apart: F64, mass: F64, labels: Labels) -> float:
    """The mean silhouette; a row alone in its cluster has 0. NaN if there is only one cluster."""
    member = np.zeros((len(labels), int(labels.max()) + 1))
    member[np.arange(len(labels)), labels] = mass
    member = member[:, member.any(axis=0)]
    if member.shape[1] == 1:
        return math.nan
    own = member > 0
    others = member.sum(axis=0) - member  # the weight of each cluster without the row
    alone = own.sum(axis=0)[own.argmax(axis=1)] == 1
    total = apart @ member
    a = total[own] / np.where(alone, 1, others[own])
    b = np.where(own, np.inf, total / np.where(own, 1, others)).min(axis=1)
    wide = np.maximum(a, b)
    value = np.where(alone | (wide == 0), 0, (b - a) / np.where(wide > 0, wide, 1))
    return float(np.average(value, weights=mass))


def elbow_of(ks: I64, inertia: F64) -> F64:
    """The depth of the elbow; NaN where inertia is zero, and everywhere for fewer than 3 points."""
    some = np.flatnonzero(inertia > 0)
    if len(some) < 3 or inertia[some[-1]] >= inertia[0]:
        return np.full(len(ks), np.nan)
    x, y, last = np.log(ks), np.log(np.where(inertia > 0, inertia, np.nan)), some[-1]
    return np.asarray((y[0] - y) / (y[0] - y[last]) - (x - x[0]) / (x[last] - x[0]))


def suggest(ks: I64, k: int | None, guess: Guess) -> tuple[int, bool, str]:
    """The suggested k, whether it is clear, and the reason.

    `k` is what remains after `join`; None if some clusters divide at the highest of `ks`.
    """
    if k is not None and ks[0] <= k > 1:
        return k, True, f"the {k} clusters are well separated, and none of them splits further."
    why = "no separate clusters were found."
    if k is None:
        why = (
            f"at k = {ks[-1]}, the highest tried, some clusters still divide. Try a larger k_range."
        )
    elif k > 1:
        why = f"{k} separate clusters were found, but k_range begins at {ks[0]}."
    elif ks[0] == 1:
        return 1, False, f"no clear answer: {why} X may be one group (k = 1) or have no clusters."
    return guess.k, False, f"no clear answer: {why} Best guess: k = {guess.k} ({guess.reason})."


class Guess(NamedTuple):
    """A number of clusters, and the reason."""

    k: int
    reason: str


def guess(ks: I64, elbow: F64, silhouette: F64) -> Guess:
    """By the silhouette; if all silhouettes are weak, by the elbow."""
    if len(ks) == 1:
        return Guess(int(ks[0]), "no other k was tried")
    best = int(np.argmax(np.nan_to_num(silhouette, nan=-1)))
    if silhouette[best] >= WEAK or np.isnan(elbow).all():
        return Guess(int(ks[best]), "largest mean silhouette")
    k, depth = int(ks[np.nanargmax(elbow)]), float(np.nanmax(elbow))
    if depth <= 0:  # as at the lowest k
        return Guess(k, "neither the silhouette nor the elbow helps; this is the lowest k")
    return Guess(k, f"all silhouettes are below {WEAK:g}; the elbow value is largest, {depth:.2g}")
