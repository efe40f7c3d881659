"""Choosing k as a function: validate, cluster by global k-means, choose by `k_selection`."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions, validate_params

from kvariates.data.rows import F64, Rows
from kvariates.estimators import validation
from kvariates.k_selection import Choice, Solve, choose
from kvariates.seeding.global_kmeans import Solution, global_kmeans, sample_size
from kvariates.seeding.seedings import SeedingProblem, settle


@validate_params(
    {
        **validation.COMMON,
        "k_range": ["array-like", range],
        "method": [StrOptions({"warm", "global"})],
        "n_reference": [Interval(Integral, 2, None, closed="left")],
        "silhouette_sample": [Interval(Integral, 2, None, closed="left")],
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
    X = validation.rows(X, 1)
    low, high = _bounds(k_range, X.shape[0], silhouette_sample)
    space, weight = _rows(X, validation.weights(sample_weight, X))
    high = _reachable(space, low, high)
    rng = validation.generator(random_state)
    return choose(
        space, low, high, weight, _solver(method, rng),
        references=n_reference, sample_size=silhouette_sample, rng=rng,
    )  # fmt: skip


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


def _rows(X: Any, weight: F64 | None) -> tuple[Rows, F64 | None]:
    """The rows that weigh something; if X is small, in an order that depends on values alone."""
    if weight is not None and not weight.all():
        X, weight = X[weight > 0], weight[weight > 0]
    space = Rows.of(X)
    space.spread()  # complains if squares overflow or vanish
    if (order := space.canonical_order()) is not None:
        space, weight = Rows.of(X[order]), None if weight is None else weight[order]
    return space, weight


def _reachable(space: Rows, low: int, high: int) -> int:
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


def _solver(method: str, rng: np.random.Generator) -> Solve:
    def solve(space: Rows, k: int, weight: F64 | None) -> list[Solution]:
        problem = SeedingProblem(
            space, k, weight, max_iter=300, tol=1e-4 * space.spread(), unit=False, rng=rng
        )
        candidates: Literal["all"] | int = "all" if method == "global" else sample_size(space.n)
        return global_kmeans(space, k, weight, settle(problem), candidates=candidates, rng=rng)

    return solve
