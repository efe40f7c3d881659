"""`choose_k`: validates its input and calls `k_selection`."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions

from kvariates.data.rows import F64, Rows, count_distinct
from kvariates.estimators import validation
from kvariates.estimators.callbacks import printed
from kvariates.estimators.validation import KMeansMetric, RandomState
from kvariates.k_selection import Choice, choose
from kvariates.k_selection.search import SelectionOptions
from kvariates.objectives.objective import OBJECTIVES, objective_for

APART = 100.0  # times the smallest deviation of a column: very different scales
BLOCK = 1 << 20  # values
CLOSE = 64.0  # roundings, up to which two directions are one


class ScaleWarning(UserWarning):
    """Columns have very different scales."""


@validation.parameters(
    k_range=["array-like", range],
    metric=[StrOptions(OBJECTIVES.keys())],
    method=[StrOptions({"warm", "global"})],
    silhouette_sample=[Interval(Integral, 2, None, closed="left")],
    verbose=["verbose"],
)
def choose_k(
    X: Any,
    k_range: Any = (1, 10),
    *,
    sample_weight: Any = None,
    metric: KMeansMetric = "euclidean",
    method: Literal["warm", "global"] = "warm",
    silhouette_sample: int = 2000,
    random_state: RandomState = None,
    verbose: int = 0,
) -> Choice:
    """Suggest a number of clusters and give the reason, or say that there is no clear answer.

    A cluster divides if it can be split into two groups with few rows between them (a valley). A k
    is ``clear`` if no cluster divides, if two halves of the rows (of 20,000 drawn rows, if there
    are more) lead to the same clusters and not to more, and if any two neighbours have a valley
    between them, in the direction from centre to centre (false-alarm rate 0.01 for all pairs
    together). Clusters should be convex and have twenty rows or more; groups that overlap count as
    one. If X has no more distinct rows than the highest k, and ten copies or more of each, they are
    clusters too, unless they may be ratings or counts.

    Where no k is clear, k is 1, and ``guess`` is the best k of at least 2 by the silhouette or the
    elbow. There is a warning if the deviations of dense columns differ by a factor of 100 or more.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The rows to cluster.
    k_range : pair of int, range or sequence of consecutive int, default=(1, 10)
        The lowest and the highest number of clusters, both included; or all of them.
    sample_weight : array-like of shape (n_samples,), default=None
        A row of weight w counts as w rows for centres and costs; it is not its own neighbour in
        the silhouette. The tests of valleys, and of copies, count each row once.
    metric : {"euclidean", "cosine"}, default="euclidean"
        As for `KMeans`. "cosine": directions are clustered; the criteria are in terms of 1 - cos.
    method : {"warm", "global"}, default="warm"
        The solution for k starts from the solution for k - 1 and one more centre. "warm" cuts the
        cluster where that helps most, from drawn rows; "global" adds the best of all rows, which is
        slower.
    silhouette_sample : int, default=2000
        The largest number of rows for the silhouette.
    random_state : int, RandomState, Generator or None, default=None
        The source of randomness.
    verbose : int, default=0
        Print a line for every k, and for every test whether clusters divide.

    Returns
    -------
    choice : Choice
        The suggested k, whether it is ``clear``, the reason, the criteria and the centres for
        every k.
    """
    X = validation.rows(X, 1)
    low, high = _bounds(k_range, X.shape[0], silhouette_sample)
    objective = objective_for(metric, None, None, None)
    weight = validation.weights(sample_weight, X)
    rows = objective.rows(X)
    rows, weight = _positive_rows(_joined(rows, high) if objective.unit else rows, weight)
    distinct = count_distinct(rows, high)
    if distinct < low:
        raise ValueError(f"X has {distinct} distinct rows; k_range begins at {low}.")
    if distinct < high:
        said = f"X has {distinct} distinct rows: k_range ends there, not at {high}."
        validation.warn(said, ConvergenceWarning)
    report = printed if verbose else None
    options = SelectionOptions(method == "global", silhouette_sample, report=report)
    if not objective.unit:
        _warn_of_scales(rows, weight)
    rng = validation.generator(random_state)
    return choose(rows, weight, objective, range(low, distinct + 1), options, rng)


def _bounds(k_range: Any, n: int, sample: int) -> tuple[int, int]:
    """The lowest and the highest k of `k_range`."""
    ks = list(k_range)
    if not ks or not all(isinstance(k, Integral) and not isinstance(k, bool) for k in ks):
        raise ValueError(f"k_range must be a pair or a range of integers; got {k_range!r}.")
    low, high = int(ks[0]), int(ks[-1])
    pair = len(ks) == 2 and not isinstance(k_range, range)
    if not 1 <= low <= high or not (pair or ks == list(range(low, high + 1))):
        raise ValueError(
            "k_range must be (lowest, highest) with 1 <= lowest <= highest, or consecutive "
            f"integers; got {k_range!r}."
        )
    more = f"The highest k ({high}) is larger than"
    if high > n:
        raise ValueError(f"{more} the number of rows ({n}). Lower k_range.")
    if high > sample:
        raise ValueError(
            f"{more} silhouette_sample ({sample}). Lower k_range or raise silhouette_sample."
        )
    return low, high


def _joined(rows: Rows, most: int) -> Rows:
    """Rows of one direction made equal if there are at most `most` directions.

    Their lengths have left rounding in the last digits, and copies of rows are looked for.
    """
    picked, cost = np.empty(0, dtype=np.int64), np.full(rows.n, np.inf)
    labels = np.zeros(rows.n, dtype=np.int32)
    while len(picked) < most:
        far = np.array([np.argmax(cost)])
        away = rows.costs(rows.take(far), np.zeros(rows.n, dtype=np.int32))
        labels[away < cost] = len(picked)
        picked, cost = np.append(picked, far), np.minimum(cost, away)
        if cost.max() <= (CLOSE * np.finfo(rows.dtype).eps) ** 2:
            return rows.subset(picked[labels])
    return rows


def _positive_rows(rows: Rows, weight: F64 | None) -> tuple[Rows, F64 | None]:
    """The rows of positive weight; if X is small, in an order that depends on values alone."""
    X = rows.X
    if weight is not None and not weight.all():
        X, weight = X[weight > 0], weight[weight > 0]
    rows = Rows.of(X)
    rows.spread()  # raises if squares overflow or vanish
    if (order := rows.canonical_order()) is not None:
        rows, weight = Rows.of(X[order]), None if weight is None else weight[order]
    return rows, weight


def _warn_of_scales(rows: Rows, weight: F64 | None) -> None:
    """Warn if few columns decide: sparse rows, whose rare values are small, are not looked at."""
    if not rows.dense or rows.d < 2:
        return
    low, high = rows.column_ranges()
    spread = _deviations(rows.X, weight)[low < high]
    if spread.size and spread.max() >= APART * spread.min():
        validation.warn(
            f"Deviations of columns are {spread.min():.3g} to {spread.max():.3g}: the largest "
            "decide which k is found. Scale the columns first, for example with StandardScaler.",
            ScaleWarning,
        )


def _deviations(X: F64, weight: F64 | None) -> F64:
    """The standard deviation of every column."""
    share = np.full(len(X), 1 / len(X)) if weight is None else weight / weight.sum()
    step = max(1, BLOCK // X.shape[1])
    parts = [slice(start, start + step) for start in range(0, len(X), step)]
    mean = sum(share[part] @ X[part] for part in parts)
    return np.sqrt(sum(share[part] @ np.square(X[part] - mean) for part in parts))
