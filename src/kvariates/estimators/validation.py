"""Types of parameters, checks that scikit-learn's validators do not make, and what fits share."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions, validate_params
from sklearn.utils.validation import _check_sample_weight

from kvariates.data.host_data import HostData
from kvariates.data.rows import F64, SMALL_TYPES, Rows, check_sparse
from kvariates.estimators import input_errors
from kvariates.estimators.array_input import check_readable
from kvariates.estimators.callbacks import CallbackSupportMixin, FitCallbacks, torn_down_after
from kvariates.objectives.objective import OBJECTIVES, Objective
from kvariates.seeding.sampler import SeedingProblem
from kvariates.seeding.seedings import HOST_SEEDINGS

# ---- Types of parameters, so that editors complete names and type checkers find wrong ones -------
#
# A type checker cannot read the tables of choices. So their names stand here once more, and a test
# compares them.

Init = Literal["k-means++", "d2", "k-means||", "ls++", "global", "hst", "random"]
Algorithm = Literal["auto", "lloyd", "elkan", "hamerly", "yinyang", "hartigan", "swap", "minibatch"]
KMeansMetric = Literal["euclidean", "cosine"]
DistortionName = Literal["kl", "itakura-saito", "mahalanobis", "total-jensen"]
MedianMetric = Literal["euclidean", "manhattan", "cosine", "haversine", "precomputed", "graph"]
MedianInit = Literal["hst", "k-median++", "random"]
PrivateMethodName = Literal[
    "auto", "tree", "candidates", "forgy", "gupt", "sample-aggregate", "lloyd", "grid", "kvariates",
    "kvariates-laplace", "kvariates-conditional",
]  # fmt: skip
DemandMethodName = Literal["auto", "cells", "hst", "local-search", "candidates"]
SynopsisName = Literal["coreset", "lightweight", "reservoir", "k-means#"]
GroupObjectiveName = Literal["variance", "kplus", "diversity", "dispersion"]
GroupMetric = Literal["euclidean", "manhattan", "cosine", "precomputed"]

PeerInit = Literal["k-means++", "d2", "k-means||", "dk-means++"]  # kvariates.dask.KMeans

Auto = Literal["auto"]
MissingRows = Literal["error", "drop"]
RandomState = int | np.integer[Any] | np.random.RandomState | np.random.Generator | None
GivenCenters = NDArray[Any] | Sequence[Sequence[float]] | Sequence[NDArray[Any]]
Integers = NDArray[Any] | Sequence[int]
MakeCenters = Callable[..., Any]  # takes X, n_clusters and random_state
DistanceFunction = Callable[[Any, Any], float]

# ---- Checks -------------------------------------------------------------------------------------

Fit = TypeVar("Fit", bound=Callable[..., Any])


class DeviceNames(StrOptions):
    """A constraint: one of these names, or "cuda:1"."""

    def is_satisfied_by(self, val: Any) -> bool:
        return super().is_satisfied_by(val) or (
            isinstance(val, str) and re.fullmatch(r"cuda:[0-9]{1,3}", val) is not None
        )

    def __str__(self) -> str:
        return f"{super().__str__()}, or 'cuda:1' for the GPU of this number"


PLAIN = 2**14  # values of a small array
LARGEST = 1e120  # of weights, and of their inverses: weighted squares must stay in float64
NO_WEIGHT = "sample_weight is zero for every row; at least one must be positive."
COUNT = [Interval(Integral, 1, None, closed="left")]
CONSTRAINTS: dict[str, Any] = {  # of parameters that mean the same wherever they are
    "X": "no_validation",  # see `rows`
    "certify": ["boolean"],
    "demand": ["array-like", None],
    "device": [DeviceNames(dict.fromkeys(("auto", "cpu", "cuda")).keys())],
    "init": [StrOptions(HOST_SEEDINGS.keys())],
    "max_iter": COUNT,
    "metric": [StrOptions(OBJECTIVES.keys())],
    "missing": [StrOptions({"error", "drop"})],
    "n_clusters": COUNT,
    "n_init": COUNT,
    "random_state": ["random_state", np.random.Generator],
    "sample_weight": ["array-like", None],
    "tol": [Interval(Real, 0, None, closed="left")],
    "verbose": ["verbose"],
}
SMALL = SMALL_TYPES - {"bfloat16"}  # those that scikit-learn's validators know
CSR_OR_DENSE: dict[str, Any] = {  # for scikit-learn's validators of rows
    "accept_sparse": "csr",
    "dtype": [np.float64, np.float32],
    "order": "C",
    "accept_large_sparse": False,
}


def row_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The type to which rows are converted, and that of their centres."""
    single = dtype == np.float32 or dtype.name in SMALL
    return np.dtype(np.float32 if single else np.float64)


def is_plain(X: Any, d: int) -> bool:
    """Whether X is a small array that needs no conversion and has no fault.

    scikit-learn's validators, which would return it as it is, take longer than to label a row.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.shape[1] == d
        and 0 < X.size <= PLAIN
        and X.dtype in (np.float32, np.float64)
        and X.flags.c_contiguous
        and bool(np.isfinite(X).all())
    )


def row_options(X: Any) -> dict[str, Any]:
    """CSR_OR_DENSE for X. SMALL types become float32, which holds all their values."""
    small = SMALL.issuperset(input_errors.types_of(X))
    return {**CSR_OR_DENSE, "dtype": [np.float32, np.float64]} if small else CSR_OR_DENSE


def constraints(names: str, **others: list[Any]) -> dict[str, list[Any]]:
    """The constraints of these parameters of `CONSTRAINTS`, and others."""
    return {name: CONSTRAINTS[name] for name in names.split()} | others


def parameters(
    names: str = "X n_clusters sample_weight random_state", **others: list[Any]
) -> Callable[[Fit], Fit]:
    """scikit-learn's decorator that checks parameters, for functions: see `constraints`."""
    check = validate_params(constraints(names, **others), prefer_skip_nested_validation=True)
    return cast("Callable[[Fit], Fit]", check)


def checked_fit(fit: Fit) -> Fit:
    """A `fit` that checks the parameters of its estimator, and ends callbacks even if it fails."""
    checked = _fit_context(prefer_skip_nested_validation=True)(fit)
    # Where scikit-learn has callbacks, its decorator ends them.
    ours = CallbackSupportMixin is FitCallbacks
    return cast("Fit", torn_down_after(checked) if ours else checked)


def seeding_problem(X: Any, k: int, sample_weight: Any, random_state: Any) -> SeedingProblem:
    """The parameters of COMMON, checked: at least k rows, their weights and randomness."""
    X, rng = rows(X, k), generator(random_state)
    return SeedingProblem(HostData(Rows.of(X), weights(sample_weight, X)), k, rng=rng)


def all_or_nothing(fit: Fit) -> Fit:
    """A `fit` that leaves the model as it was if it fails, for whatever reason."""

    @wraps(fit)
    def guarded(model: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(model))
        try:
            return fit(model, *args, **kwargs)
        except BaseException:
            vars(model).clear()
            vars(model).update(before)
            raise

    return guarded  # type: ignore[return-value]


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line that called this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(
        ("kvariates.", "sklearn.")
    ):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level + 1)


def warn_of_few_clusters(
    distinct: int, k: int, reason: str = "Possibly due to duplicate points in X."
) -> None:
    """Warn if fewer clusters than `k` have rows."""
    if distinct < k:
        message = f"Number of distinct clusters ({distinct}) found smaller than n_clusters ({k})."
        warn(f"{message} {reason}", ConvergenceWarning)


def generator(random_state: Any) -> np.random.Generator:
    """A Generator from None, an int, a RandomState or a Generator (used as it is, not copied)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if random_state is None or isinstance(random_state, Integral):
        return np.random.default_rng(None if random_state is None else int(random_state))
    state = check_random_state(random_state)
    return np.random.default_rng(state.randint(0, 2**32, size=4, dtype=np.uint32))


def weights(sample_weight: Any, X: Any) -> F64 | None:
    """float64 weights, or None for all ones."""
    if sample_weight is None:
        return None
    check_readable(sample_weight, "sample_weight")
    out = np.ascontiguousarray(
        _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    )
    check_weights(out)
    return out


def check_weights(weight: F64) -> None:
    """ValueError unless some weights are positive, and all of these can be added up in float64."""
    positive = weight[weight > 0]
    weight_range(positive.min(initial=np.inf), positive.max(initial=0.0))


def no_weights(sample_weight: Any, instead: str = "blocks(..., weights=...)") -> None:
    """ValueError if there are weights, because they must be given in another way."""
    if sample_weight is not None:
        raise ValueError(f"sample_weight is for a single table in memory; use {instead}.")


def weight_range(least: float, most: float) -> None:
    """ValueError unless positive weights from `least` to `most` can be added up in float64."""
    if most == 0:
        raise ValueError(NO_WEIGHT)
    if most > LARGEST or least < 1 / LARGEST:
        raise ValueError(
            f"sample_weight goes from {least:.3g} to {most:.3g}, too small or too large for sums "
            "in float64. Divide the weights by their mean, and leave out rows of tiny weight."
        )


def rows(X: Any, n_clusters: int) -> Any:
    """X, checked and converted, with at least as many rows as clusters."""
    check_sparse(X)
    with input_errors.one_line(X) as X:
        X = check_array(X, **row_options(X))
    X = canonical(X)
    enough_rows(X.shape[0], n_clusters)
    return X


class TooFewRowsError(ValueError):
    """There are fewer rows than clusters or groups: `rows`, and what was asked for."""

    def __init__(self, rows: int, asked: int, parameter: str) -> None:
        super().__init__(f"n_samples={rows} should be >= {parameter}={asked}.")
        self.rows, self.asked, self.parameter = rows, asked, parameter


def enough_rows(rows: int, asked: int, parameter: str = "n_clusters") -> None:
    """Raise TooFewRowsError if there are fewer rows than clusters or groups."""
    if rows < asked:
        raise TooFewRowsError(rows, int(asked), parameter)


def canonical(X: Any) -> Any:
    """A CSR matrix with sorted, merged entries (a copy if it was not); anything else as it is."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def given_centers(given: Any, k: int, objective: Objective, dtype: Any, d: int) -> F64:
    """Rounded to the rows' dtype, as fitted centres are, and in the objective's coordinates."""
    centers = check_array(given, dtype=dtype, order="C").astype(np.float64)
    for place, wanted, what in (
        (0, k, f"number of clusters {k}"),
        (1, d, f"number of features of the data {d}"),
    ):
        if centers.shape[place] != wanted:
            raise ValueError(
                f"The shape of the initial centers {centers.shape} does not match the {what}."
            )
    try:
        return objective.start(centers)
    except ValueError as error:
        raise ValueError(f"init: {error}") from None
