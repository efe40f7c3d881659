"""Chooses the number of clusters by three criteria, from solutions for k = 1, 2, ..., K.

| criterion | what is computed, for every k |
|---|---|
| elbow | how far (log k, log inertia) lies below the line between its ends, both axes 0..1 |
| silhouette | the mean of (b - a) / max(a, b) over a sample of rows, from all pairs of its rows |
| gap | mean log cost of uniform data minus log cost of X (Tibshirani et al. 2001) |

In the silhouette, a is the mean distance of a row to the other sampled rows of its cluster, and b
is the mean distance to those of the next cluster. The gap uses the same sample. Its uniform data
have as many rows, fill the box of the sample along its principal axes, and are clustered in the
same way. If the cost falls like a power of k, there is no elbow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvariates.data.rows import F64, Floats, Labels, Rows
from kvariates.refining.lloyd import LloydResult, StopRule, refine
from kvariates.seeding.global_kmeans import global_kmeans, sample_size
from kvariates.seeding.seeding_problem import SeedingProblem

Ints = NDArray[np.int64]
Solutions = list[LloydResult]
CLEAR = 4.0  # errors by which a gap must exceed that of one cluster; uniform rows do in 1 of 100
WEAK = 0.25  # a silhouette below this shows no substantial structure (Kaufman and Rousseeuw 1990)


@dataclass(frozen=True, eq=False)
class Choice:
    """A suggested number of clusters, the reason, and the criteria for each k that was tried.

    Attributes
    ----------
    k : int
        The suggestion.
    reason : str
        The reason, in one sentence.
    ks, inertia, elbow, silhouette, gap, gap_error : ndarray of shape (n_ks,)
        The numbers of clusters; the cost of all rows; the depth of the elbow; mean silhouette (NaN
        for one cluster) and gap statistic of the sampled rows; the standard error of the gap.
    solutions : tuple of ndarray of shape (k, n_features)
        The centres for each k.
    """

    k: int
    reason: str
    ks: Ints
    inertia: F64
    elbow: F64
    silhouette: F64
    gap: F64
    gap_error: F64
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
        columns = self._columns()
        lines = ["".join(f"{name:>12}" for name in columns)]
        for k, inertia, *criteria in zip(*columns.values(), strict=True):
            words = ["-" if math.isnan(value) else f"{value:.3f}" for value in criteria]
            line = f"{k:12}{inertia:12.6g}" + "".join(f"{word:>12}" for word in words)
            lines.append(line + ("  <" if k == self.k else ""))
        return "\n".join([*lines, f"k = {self.k}: {self.reason}"])

    def _columns(self) -> dict[str, NDArray[Any]]:
        names = ("inertia", "elbow", "silhouette", "gap", "gap_error")
        return {"k": self.ks} | {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class SelectionOptions:
    """The parameters of `choose`, with the meaning they have in `kvariates.choose_k`."""

    method: str
    n_reference: int
    sample_size: int

    def solve(self, rows: Rows, k: int, weight: F64 | None, rng: np.random.Generator) -> Solutions:
        """The solutions for 1..k clusters."""
        stop = StopRule(300, 1e-4 * rows.spread())
        problem = SeedingProblem(
            rows, weight, k, lloyd=lambda centers: refine(rows, centers, weight, stop), rng=rng
        )
        all_rows = self.method == "global"
        return global_kmeans(problem, candidates="all" if all_rows else sample_size(rows.n))


def choose(
    rows: Rows, weight: F64 | None, ks: range, options: SelectionOptions, rng: np.random.Generator
) -> Choice:
    """The choice among `ks`.

    Pre: at least max(ks) distinct rows, all weights > 0, max(ks) <= options.sample_size.
    """
    # The order in which BLAS adds depends on its threads, so it gets one.
    with threadpool_limits(1, user_api="blas"):
        found = options.solve(rows, ks[-1], weight, rng)
        sample, mass, sample_found = rows, weight, found
        if rows.n > options.sample_size:
            picked = np.sort(rng.choice(rows.n, options.sample_size, replace=False))
            sample, mass = Rows.of(rows.X[picked]), None if weight is None else weight[picked]
            sample_found = options.solve(sample, ks[-1], mass, rng)
        mass = np.ones(sample.n) if mass is None else mass
        apart = sample.distances(sample.take(np.arange(sample.n))).astype(np.float64)
        labels = (sample.nearest(solution.centers.astype(np.float64)) for solution in found)
        silhouette = np.array([silhouette_of(apart, mass, one) for one in labels])
        gap, error = gaps(sample, mass, sample_found, options, rng)
    tried, asked = np.array(ks), slice(ks[0] - 1, None)
    inertia = _costs(found[asked])
    criteria = (elbow_of(tried, inertia), silhouette[asked], gap[asked], error[asked])
    centers = tuple(solution.centers for solution in found[asked])
    return Choice(*suggest(tried, *criteria), tried, inertia, *criteria, centers)


def count_distinct(rows: Rows, limit: int) -> int:
    """The number of distinct rows, or `limit` if there are at least so many."""
    distinct, step = np.empty((0, rows.d)), max(limit, 2**20 // rows.d)
    for first in range(0, rows.n, step):
        block = rows.take(np.arange(first, min(first + step, rows.n)))
        distinct = np.unique(np.concatenate([distinct, block]), axis=0)
        if len(distinct) >= limit:
            return limit
    return len(distinct)


def gaps(
    sample: Rows, mass: F64, found: Solutions, options: SelectionOptions, rng: np.random.Generator
) -> tuple[F64, F64]:
    """The gap for every k, and its error. The gap is infinite if the cost is zero."""
    box = principal(sample.take(np.arange(sample.n)), mass)
    low, high = box.min(axis=0), box.max(axis=0)
    uniform = []
    for _ in range(options.n_reference):
        rows = Rows.of(rng.uniform(low, high, size=box.shape))
        uniform.append(_costs(options.solve(rows, len(found), None, rng)) / rows.n)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(uniform)
        gap = logs.mean(axis=0) - np.log(_costs(found) / mass.sum())
        return gap, logs.std(axis=0) * math.sqrt(1 + 1 / len(uniform))


def _costs(found: Solutions) -> F64:
    return np.array([solution.inertia for solution in found])


def principal(rows: F64, mass: F64) -> F64:
    """The rows in coordinates along their principal axes."""
    root = np.sqrt(mass)[:, None]
    centred = rows - np.average(rows, axis=0, weights=mass)
    scaled = centred * root
    if rows.shape[1] <= rows.shape[0]:
        return np.asarray(centred @ np.linalg.eigh(scaled.T @ scaled)[1])
    squares, sides = np.linalg.eigh(scaled @ scaled.T)
    return np.asarray(sides * np.sqrt(squares.clip(min=0)) / root)


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


def elbow_of(ks: Ints, inertia: F64) -> F64:
    """The depth of the elbow; NaN where inertia is zero, and everywhere for fewer than 3 points."""
    some = np.flatnonzero(inertia > 0)
    if len(some) < 3 or inertia[some[-1]] >= inertia[0]:
        return np.full(len(ks), np.nan)
    x, y, last = np.log(ks), np.log(np.where(inertia > 0, inertia, np.nan)), some[-1]
    return np.asarray((y[0] - y) / (y[0] - y[last]) - (x - x[0]) / (x[last] - x[0]))


def suggest(ks: Ints, elbow: F64, silhouette: F64, gap: F64, error: F64) -> tuple[int, str]:
    """The suggested k and the reason.

    The gap statistic decides. If it has no peak before the highest k, the silhouette decides; if
    all silhouettes are weak, the elbow decides.
    """
    if len(ks) == 1:
        return int(ks[0]), "no other k was asked for."
    if np.isfinite(gap).any():
        peak = int(np.nanargmax(gap))
        noise = math.sqrt(float(np.nanmean(error**2)))
        if ks[0] == 1 and gap[peak] - gap[0] <= CLEAR * noise:
            return 1, "by the gap statistic no other k is clearly better than one cluster."
        if ks[peak] < ks[-1]:
            # The paper takes the first dip, but groups of clusters cause a dip before the peak.
            first = int(np.flatnonzero(gap >= gap[peak] - error[peak])[0])
            return int(ks[first]), "the gap statistic peaks here, give or take a standard error."
    climbing = "the gap statistic has not peaked before the highest k"
    best = int(np.nanargmax(np.nan_to_num(silhouette, nan=-1)))
    if silhouette[best] >= WEAK or np.isnan(elbow).all():
        return int(ks[best]), f"{climbing}; the mean silhouette is largest here."
    best = int(np.nanargmax(elbow))
    return int(ks[best]), f"{climbing}, silhouettes are weak; the elbow is here."
