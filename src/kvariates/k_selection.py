"""Choosing k: three criteria of nested solutions, and one suggestion with its reason.

| criterion | what is computed, for every k |
|---|---|
| elbow | how far (log k, log inertia) lies below its chord from end to end, both axes 0..1 |
| silhouette | the mean of (b - a) / max(a, b) over a sample of rows, from all pairs of its rows |
| gap | mean log cost of structureless data less log cost of X (Tibshirani et al. 2001) |

In the silhouette, a is a row's mean distance to the other sampled rows of its cluster and b that to
those of the next cluster: exact for the sample, no centre stands in for rows. The gap is of the
same sample; structureless data are as many rows, uniform in the sample's box along its principal
axes, clustered by the same nested pass. Where costs fall like a power of k, there is no elbow.

How rows are clustered is handed in: *solve*, a function from a space, a number K and weights to the
solutions for k = 1..K.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from kvariates.data.rows import F64, Floats, Labels, Rows
from kvariates.seeding.global_kmeans import Solution

Ints = NDArray[np.int64]
Solve = Callable[[Rows, int, F64 | None], list[Solution]]
CLEAR = 4.0  # errors by which a gap must exceed that of one cluster; uniform rows do in 1 of 100
WEAK = 0.25  # a silhouette below this shows no substantial structure (Kaufman and Rousseeuw 1990)


@dataclass(frozen=True, eq=False)
class Choice:
    """A suggested number of clusters, why, and a table with one value for each k that was tried.

    Attributes
    ----------
    k : int
        The suggestion.
    reason : str
        Why, in one sentence.
    ks, inertia, elbow, silhouette, gap, gap_error : ndarray of shape (n_ks,)
        The numbers of clusters; the cost of all rows; depth below the chord; mean silhouette (NaN
        for one cluster) and gap statistic of the sampled rows; the gap's standard error.
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
        """The table as a pandas DataFrame, a row for each k. Needs pandas."""
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


def choose(
    space: Rows, low: int, high: int, weight: F64 | None, solve: Solve, *,
    references: int, sample_size: int, rng: np.random.Generator,
) -> Choice:  # fmt: skip
    """The choice among low..high. Pre: high distinct rows, all weights > 0; high <= sample_size."""
    # BLAS sums in an order that depends on its threads; the little it does here needs but one.
    with threadpool_limits(1, user_api="blas"):
        found = solve(space, high, weight)
        sample, mass, its_found = space, weight, found
        if space.n > sample_size:
            picked = np.sort(rng.choice(space.n, sample_size, replace=False))
            sample, mass = Rows.of(space.X[picked]), None if weight is None else weight[picked]
            its_found = solve(sample, high, mass)
        mass = np.ones(sample.n) if mass is None else mass
        silhouette = silhouettes(sample, mass, found)
        gap, error = gaps(sample, mass, its_found, solve, references, rng)
    ks, asked = np.arange(low, high + 1), slice(low - 1, None)
    inertia = _costs(found[asked])
    criteria = (elbow_of(ks, inertia), silhouette[asked], gap[asked], error[asked])
    centers = tuple(solution.centers.astype(space.dtype) for solution in found[asked])
    return Choice(*suggest(ks, *criteria), ks, inertia, *criteria, centers)


def gaps(
    sample: Rows, mass: F64, found: list[Solution], solve: Solve, B: int, rng: np.random.Generator
) -> tuple[F64, F64]:
    """The gap for every k, and its error. Infinite where every row lies on a centre."""
    box = principal(sample.take(np.arange(sample.n)), mass)
    low, high = box.min(axis=0), box.max(axis=0)
    blank = []
    for _ in range(B):
        space = Rows.of(rng.uniform(low, high, size=box.shape))
        blank.append(_costs(solve(space, len(found), None)) / space.n)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(blank)
        gap = logs.mean(axis=0) - np.log(_costs(found) / mass.sum())
        return gap, logs.std(axis=0) * math.sqrt(1 + 1 / B)


def _costs(found: list[Solution]) -> F64:
    return np.array([solution.cost for solution in found])


def principal(rows: F64, mass: F64) -> F64:
    """The rows in coordinates along their principal axes."""
    root = np.sqrt(mass)[:, None]
    centred = rows - np.average(rows, axis=0, weights=mass)
    scaled = centred * root
    if rows.shape[1] <= rows.shape[0]:
        return np.asarray(centred @ np.linalg.eigh(scaled.T @ scaled)[1])
    squares, sides = np.linalg.eigh(scaled @ scaled.T)
    return np.asarray(sides * np.sqrt(squares.clip(min=0)) / root)


def silhouettes(sample: Rows, mass: F64, found: list[Solution]) -> F64:
    """The mean silhouette of the sampled rows, for every solution."""
    apart = sample.distances(sample.take(np.arange(sample.n))).astype(np.float64)
    return np.array([silhouette_of(apart, mass, sample.nearest(one.centers)) for one in found])


def silhouette_of(apart: F64, mass: F64, labels: Labels) -> float:
    """Mean silhouette; a row alone in its cluster has 0. NaN if there is but one cluster."""
    member = np.zeros((len(labels), int(labels.max()) + 1))
    member[np.arange(len(labels)), labels] = mass
    member = member[:, member.any(axis=0)]
    if member.shape[1] == 1:
        return math.nan
    own = member > 0
    others = member.sum(axis=0) - member  # what each cluster weighs without the row
    alone = own.sum(axis=0)[own.argmax(axis=1)] == 1
    total = apart @ member
    a = total[own] / np.where(alone, 1, others[own])
    b = np.where(own, np.inf, total / np.where(own, 1, others)).min(axis=1)
    wide = np.maximum(a, b)
    value = np.where(alone | (wide == 0), 0, (b - a) / np.where(wide > 0, wide, 1))
    return float(np.average(value, weights=mass))


def elbow_of(ks: Ints, inertia: F64) -> F64:
    """Depth below the chord; NaN where inertia is zero, and everywhere if there is no curve."""
    some = np.flatnonzero(inertia > 0)
    if len(some) < 3 or inertia[some[-1]] >= inertia[0]:
        return np.full(len(ks), np.nan)
    x, y, last = np.log(ks), np.log(np.where(inertia > 0, inertia, np.nan)), some[-1]
    return np.asarray((y[0] - y) / (y[0] - y[last]) - (x - x[0]) / (x[last] - x[0]))


def suggest(ks: Ints, elbow: F64, silhouette: F64, gap: F64, error: F64) -> tuple[int, str]:
    """The rule: gap first; where it has not peaked, silhouette; where that is weak, elbow."""
    if len(ks) == 1:
        return int(ks[0]), "no other k was asked for."
    if np.isfinite(gap).any():
        peak = int(np.nanargmax(gap))
        noise = math.sqrt(float(np.nanmean(error**2)))
        if ks[0] == 1 and gap[peak] - gap[0] <= CLEAR * noise:
            return 1, "by the gap statistic no other k is clearly better than one cluster."
        if ks[peak] < ks[-1]:
            # Not the first dip, as in the paper: clusters in groups make it dip before it peaks.
            first = int(np.flatnonzero(gap >= gap[peak] - error[peak])[0])
            return int(ks[first]), "the gap statistic peaks here, give or take a standard error."
    climbing = "the gap statistic has not peaked before the highest k"
    best = int(np.nanargmax(np.nan_to_num(silhouette, nan=-1)))
    if silhouette[best] >= WEAK or np.isnan(elbow).all():
        return int(ks[best]), f"{climbing}; the mean silhouette is largest here."
    best = int(np.nanargmax(elbow))
    return int(ks[best]), f"{climbing}, silhouettes are weak; the elbow is here."
