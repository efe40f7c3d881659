"""Choosing k: one pass of nested solutions, three criteria, one suggestion with its reason.

| criterion | what is computed, for every k |
|---|---|
| elbow | how far (log k, log inertia) lies below its chord from end to end, both axes 0..1 |
| silhouette | the mean of (b - a) / max(a, b) over a sample of rows, from all pairs of its rows |
| gap | mean log cost of structureless data less log cost of X (Tibshirani et al. 2001) |

In the silhouette, a is a row's mean distance to the other sampled rows of its cluster and b that to
those of the next cluster: exact for the sample, no centre stands in for rows. The gap is of the
same sample; structureless data are as many rows, uniform in the sample's box along its principal
axes, clustered by the same nested pass. Where costs fall like a power of k, there is no elbow.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils._optional_dependencies import check_pandas_support
from sklearn.utils._param_validation import Interval, StrOptions, validate_params
from threadpoolctl import threadpool_limits

from kvariates.estimators import checks
from kvariates.estimators.starts import Problem, settle
from kvariates.geometry.euclidean import F64, Floats, Labels, Space
from kvariates.seeding.nested import Solution, nested, sample_size

Ints = NDArray[np.int64]
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
        return check_pandas_support("Choice.frame").DataFrame(self._columns())

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


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "k_range": ["array-like", range],
        "sample_weight": ["array-like", None],
        "method": [StrOptions({"warm", "global"})],
        "n_reference": [Interval(Integral, 2, None, closed="left")],
        "silhouette_sample": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    },
    prefer_skip_nested_validation=True,
)
def choose_k(
    X: Any,
    k_range: Any = (1, 10),
    *,
    sample_weight: Any = None,
    method: str = "warm",
    n_reference: int = 10,
    silhouette_sample: int = 2000,
    random_state: Any = None,
) -> Choice:
    """Suggest a number of clusters, and say why.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to cluster.
    k_range : pair of int, range or sequence of consecutive int, default=(1, 10)
        The lowest and the highest number of clusters, both included; or all those numbers.
    sample_weight : array-like of shape (n_samples,), default=None
        A row of weight w counts as w rows (but not as a neighbour of itself in the silhouette).
    method : {"warm", "global"}, default="warm"
        The solution for k starts from that for k - 1 and one more centre: the best of a few rows
        drawn by their squared distance ("warm"), or of all rows ("global", better and slower).
    n_reference : int, default=10
        Sets of structureless data for the gap statistic.
    silhouette_sample : int, default=2000
        The most rows that silhouette and gap are computed from.
    random_state : int, RandomState, Generator or None, default=None
        Where the randomness comes from.

    Returns
    -------
    choice : Choice
        The suggestion with its reason, the table of criteria and the centres for every k.
    """
    kinds = [np.float64, np.float32]
    X = check_array(X, accept_sparse="csr", dtype=kinds, order="C", accept_large_sparse=False)
    low, high = _bounds(k_range, X.shape[0], silhouette_sample)
    space, weight = _rows(checks.canonical(X), checks.weights(sample_weight, X))
    high = _reachable(space, low, high)
    rng = checks.generator(random_state)
    # BLAS sums in an order that depends on its threads; the little it does here needs but one.
    with threadpool_limits(1, user_api="blas"):
        found = _solutions(space, high, weight, method, rng)
        sample, mass, its_found = space, weight, found
        if space.n > silhouette_sample:
            picked = np.sort(rng.choice(space.n, silhouette_sample, replace=False))
            sample, mass = Space.of(space.X[picked]), None if weight is None else weight[picked]
            its_found = _solutions(sample, high, mass, method, rng)
        mass = np.ones(sample.n) if mass is None else mass
        silhouette = _silhouettes(sample, mass, found)
        gap, error = _gap(sample, mass, its_found, method, n_reference, rng)
    ks, asked = np.arange(low, high + 1), slice(low - 1, None)
    inertia = _costs(found[asked])
    criteria = (_elbow(ks, inertia), silhouette[asked], gap[asked], error[asked])
    centers = tuple(solution.centers.astype(space.dtype) for solution in found[asked])
    return Choice(*_suggest(ks, *criteria), ks, inertia, *criteria, centers)


def _bounds(k_range: Any, n: int, sample: int) -> tuple[int, int]:
    """The lowest and the highest k asked for."""
    ks = list(k_range)
    if not ks or not all(isinstance(k, Integral) and not isinstance(k, bool) for k in ks):
        raise ValueError(f"k_range should be a pair or a range of integers; got {k_range!r}.")
    low, high = int(ks[0]), int(ks[-1])
    pair = len(ks) == 2 and not isinstance(k_range, range)
    if not 1 <= low <= high or not (pair or ks == list(range(low, high + 1))):
        raise ValueError(f"k_range should rise from 1 or more in steps of one; got {k_range!r}.")
    for name, size in (("n_samples", n), ("silhouette_sample", sample)):
        if high > size:
            raise ValueError(f"{name}={size} should be >= {high}, the highest k of k_range.")
    return low, high


def _rows(X: Any, weight: F64 | None) -> tuple[Space, F64 | None]:
    """The rows that weigh something; if X is small, in an order that depends on values alone."""
    if weight is not None and not weight.all():
        X, weight = X[weight > 0], weight[weight > 0]
    space = Space.of(X)
    space.spread()  # complains if squares overflow or vanish
    if (order := space.canonical_order()) is not None:
        space, weight = Space.of(X[order]), None if weight is None else weight[order]
    return space, weight


def _reachable(space: Space, low: int, high: int) -> int:
    """`high`, or the number of distinct rows if that is less."""
    distinct, step = np.empty((0, space.d)), max(high, 2**20 // space.d)
    for first in range(0, space.n, step):
        rows = space.take(np.arange(first, min(first + step, space.n)))
        distinct = np.unique(np.concatenate([distinct, rows]), axis=0)
        if len(distinct) >= high:
            return high
    if len(distinct) < low:
        raise ValueError(f"X has {len(distinct)} distinct rows; k_range begins at {low}.")
    said = f"X has {len(distinct)} distinct rows: k_range ends there, not at {high}."
    warnings.warn(said, ConvergenceWarning, stacklevel=4)
    return len(distinct)


def _solutions(
    space: Space, k: int, weight: F64 | None, method: str, rng: np.random.Generator
) -> list[Solution]:
    problem = Problem(
        space, k, weight, max_iter=300, tol=1e-4 * space.spread(), unit=False, rng=rng
    )
    candidates: Literal["all"] | int = "all" if method == "global" else sample_size(space.n)
    return nested(space, k, weight, settle(problem), candidates=candidates, rng=rng)


def _gap(
    sample: Space, mass: F64, found: list[Solution], method: str, B: int, rng: np.random.Generator
) -> tuple[F64, F64]:
    """The gap for every k, and its error. Infinite where every row lies on a centre."""
    box = _principal(sample.take(np.arange(sample.n)), mass)
    low, high = box.min(axis=0), box.max(axis=0)
    blank = []
    for _ in range(B):
        space = Space.of(rng.uniform(low, high, size=box.shape))
        blank.append(_costs(_solutions(space, len(found), None, method, rng)) / space.n)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(blank)
        gap = logs.mean(axis=0) - np.log(_costs(found) / mass.sum())
        return gap, logs.std(axis=0) * math.sqrt(1 + 1 / B)


def _costs(found: list[Solution]) -> F64:
    return np.array([solution.cost for solution in found])


def _principal(rows: F64, mass: F64) -> F64:
    """The rows in coordinates along their principal axes."""
    root = np.sqrt(mass)[:, None]
    centred = rows - np.average(rows, axis=0, weights=mass)
    scaled = centred * root
    if rows.shape[1] <= rows.shape[0]:
        return np.asarray(centred @ np.linalg.eigh(scaled.T @ scaled)[1])
    squares, sides = np.linalg.eigh(scaled @ scaled.T)
    return np.asarray(sides * np.sqrt(squares.clip(min=0)) / root)


def _silhouettes(sample: Space, mass: F64, found: list[Solution]) -> F64:
    apart = sample.distances(sample.take(np.arange(sample.n))).astype(np.float64)
    return np.array([_silhouette(apart, mass, sample.nearest(one.centers)) for one in found])


def _silhouette(apart: F64, mass: F64, labels: Labels) -> float:
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


def _elbow(ks: Ints, inertia: F64) -> F64:
    """Depth below the chord; NaN where inertia is zero, and everywhere if there is no curve."""
    some = np.flatnonzero(inertia > 0)
    if len(some) < 3 or inertia[some[-1]] >= inertia[0]:
        return np.full(len(ks), np.nan)
    x, y, last = np.log(ks), np.log(np.where(inertia > 0, inertia, np.nan)), some[-1]
    return np.asarray((y[0] - y) / (y[0] - y[last]) - (x - x[0]) / (x[last] - x[0]))


def _suggest(ks: Ints, elbow: F64, silhouette: F64, gap: F64, error: F64) -> tuple[int, str]:
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
