"""What private estimators share: checks, what is paid before data are read, what is stored.

And the domain of rows, a box by its bounds or a ball by its radius, which is public.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from scipy import sparse
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _get_feature_names

from kvariates.data.lattice_rows import Adjacency
from kvariates.data.rows import F64
from kvariates.estimators import input_errors, validation
from kvariates.estimators.callbacks import CallbackSupportMixin, FitReport
from kvariates.estimators.fit_record import FitRecord
from kvariates.privacy.budget import Budget, Loss, check_loss
from kvariates.privacy.ledger import FitFacts, Ledger
from kvariates.privacy.noise_source import check_installed
from kvariates.privacy.rounding import at_most, rho_for, up_square_half
from kvariates.private_methods.domain import SHOWN, Domain
from kvariates.private_methods.noisy_centers import Mask
from kvariates.private_methods.task import PrivateMethod, PrivateResult, as_method
from kvariates.tables import Table

Missing = Literal["drop", "error"]
CONSTRAINTS: dict[str, list[Any]] = {  # of the parameters that all private estimators have
    "n_clusters": validation.COUNT,
    "epsilon": [Interval(Real, 0, None, closed="neither")],
    "delta": [Interval(Real, 0, 1, closed="left")],
    "adjacency": [StrOptions({"add-remove", "replace-one"})],
    "missing": [StrOptions({"drop", "error"})],
    "budget": [Budget, None],
}
LARGE_EPSILON, LARGE_DELTA = 5.0, 1e-3
NOT_RELEASED = {
    "labels_": "labels are not private; use predict(X)",
    "inertia_": "the inertia is not private; use score(X)",
}


class PrivateEstimator(CallbackSupportMixin):
    """What the private estimators share: method objects, what is paid first, what is stored."""

    n_clusters: int
    method: Any
    adjacency: Adjacency
    missing: Missing
    budget: Budget | None
    ledger_: Ledger
    condition_: str | None
    notes_: tuple[str, ...]
    cluster_counts_: F64 | None
    doubtful_: Mask | None
    center_errors_: F64 | None
    center_errors_about_: str
    _complete: ClassVar[str]  # the condition of missing="error"

    if not TYPE_CHECKING:  # it would give every name the type Any

        def __getattr__(self, name: str) -> Any:
            why = f": {NOT_RELEASED[name]}" if name in NOT_RELEASED else ""
            raise AttributeError(f"{type(self).__name__} has no {name}{why}.", name=name, obj=self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        return tags

    def _fit_record(self) -> FitRecord:
        """The record of the centres, with what was released."""
        record: FitRecord = super()._fit_record()
        return replace(
            record, method=f"private {record.method}", counts=self.cluster_counts_,
            doubtful=self.doubtful_, errors=self.center_errors_, notes=tuple(self.notes_),
            errors_about=self.center_errors_about_, ledger=self.ledger_,
            condition=self.condition_,
        )  # fmt: skip

    def _fit_and_warn(self, *data: Any) -> Self:
        report = FitReport(self, 2)
        self._fit(*data, report)
        report.end()
        if self.notes_:  # after the model is stored: its budget was spent
            validation.warn(" ".join(self.notes_))
        return self

    def _fit(self, *args: Any) -> None:
        raise NotImplementedError

    def _method_of(self, table: Table[Any]) -> PrivateMethod[Any]:
        """The method object, if all choices that it needs were made."""
        if isinstance(self.method, type):
            name = self.method.__name__
            raise TypeError(f"method must be a name or an object: give {name}(...).")
        named = isinstance(self.method, str)
        method: PrivateMethod[Any] = table[self.method].run if named else as_method(self.method)
        if method.traits.missing is not None:
            raise ValueError(method.traits.missing)
        return method

    def _pay(
        self, method: PrivateMethod[Any], claim: Loss, what: str, n: int | None = None
    ) -> str | None:
        """Say what to know first, and take the claim from the budget, before private data are read.

        Returns what the claim assumes about the data.
        """
        notice = method.notice(int(self.n_clusters), n)
        if notice is not None:
            validation.warn(notice)
        complete = self._complete if self.missing == "error" else None
        condition = "; ".join(filter(None, [method.traits.condition, complete])) or None
        if self.budget is not None:
            epsilon, delta = spendable(claim)
            pure = delta == 0 or method.traits.pure
            rho = up_square_half(epsilon) if pure else rho_for(epsilon, delta)
            label = f"{type(self).__name__}, {self.n_clusters} {what}"
            self.budget.spend(
                *claim, label=label, adjacency=self.adjacency, rho=rho, condition=condition
            )
        return condition

    def _store_releases(
        self, result: PrivateResult, claim: Loss, condition: str | None, domain: str, unit: str,
        words: str = "", columns: Iterable[Any] = (),
    ) -> None:  # fmt: skip
        """Everything but the centres. Facts are public; `words`: of the estimator's parameters."""
        counts, errors = result.counts, result.errors
        facts = FitFacts(
            method=f"{type(self).__name__}, {method_words(self.method)}{words}",
            n_clusters=int(self.n_clusters),
            domain=domain,
            unit=unit,
            condition=condition,
            version=version("kvariates"),
            date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            columns=tuple(map(str, columns)),
            notes=result.notes,
            errors=(errors.words(), *errors.lines()),
        )
        self.ledger_ = Ledger(self.adjacency, tuple(result.charges), claim, facts)
        self.condition_, self.notes_ = condition, result.notes
        self.cluster_counts_ = None if counts is None else counts.values
        self.doubtful_ = None if counts is None else counts.doubtful
        self.center_errors_, self.center_errors_about_ = errors.values, errors.words()


def spendable(claim: Loss) -> Loss:
    """The claim as numbers that are not above what is written."""
    return Loss(at_most(claim.epsilon), at_most(claim.delta))


def checked_claim(epsilon: float, delta: float) -> Loss:
    """(epsilon, delta), with a warning if they protect little; an error if noise is missing."""
    check_installed()
    check_loss(float(epsilon), float(delta))
    if epsilon > LARGE_EPSILON:
        validation.warn(
            f"epsilon={epsilon:g} protects little: what is released may be exp({epsilon:g}) times "
            "as likely with a row as without it. Usual values are 0.1 to 3."
        )
    if delta > LARGE_DELTA:
        validation.warn(
            f"delta={delta:g} is large: it should be well below one over the number of rows, for "
            "example 1e-6."
        )
    return Loss(float(epsilon), float(delta))


def check_kind(X: Any, *, sparse_allowed: bool = False) -> None:
    """Raise if X cannot be a table of numbers, by its type alone: before a budget is spent."""
    is_sparse = sparse.issparse(X)
    if type(X).__name__ == "LazyFrame" or isinstance(X, Iterator):
        input_errors.refuse_kind(X)
    input_errors.refuse_columns_by_type(X)
    if X is None or (isinstance(X, (str, bytes, dict, set)) and not is_sparse):
        raise TypeError(f"X must be a table of numbers; got {type(X).__name__}.")
    if is_sparse and not sparse_allowed:
        raise TypeError("Sparse data was passed for X: use method='candidates', or dense rows.")
    shape, dtype = getattr(X, "shape", None), getattr(X, "dtype", None)
    if np.isscalar(X):
        input_errors.refuse_kind(X)
    if shape is not None and len(shape) != 2:
        raise ValueError(f"Expected 2D array, got {len(shape)}D array instead; one row per line.")
    if isinstance(X, (list, tuple)) and not X:
        raise ValueError("X is empty and has no number of features: give an array of shape (0, d).")
    if getattr(dtype, "kind", "f") not in "fiubO":
        raise ValueError(f"X must have numbers; its dtype is {dtype}. Complex data not supported.")


def number_of_features(X: Any) -> int | None:
    """By the shape of X or, of a list, the length of its first row; None if neither tells it.

    The number of features is public, and no value is read: so it is looked at before a budget is
    spent. That all rows of a list are as long is checked afterwards.
    """
    shape = tuple(getattr(X, "shape", ()))
    if len(shape) == 2:
        return int(shape[1])
    first = X[0] if isinstance(X, (list, tuple)) and X else None
    if isinstance(first, (list, tuple)) or (isinstance(first, np.ndarray) and first.ndim == 1):
        return len(first)
    return None


def missing_as_nan(X: Any) -> Any:
    """X with NaN for each missing cell (None, NA, NaT): float() refuses some of them.

    A data frame stays one, since its names are public.
    """
    array = X if sparse.issparse(X) else np.asarray(X)
    if array.dtype != object:
        return X
    cells = [np.nan if input_errors.is_missing(cell) else cell for cell in array.ravel()]
    floats = np.array(cells, dtype=object).reshape(array.shape).astype(np.float64)
    if hasattr(X, "iloc"):  # pandas, where two columns may share a name
        return type(X)(floats, columns=X.columns)
    if hasattr(X, "get_column"):  # polars
        return type(X)(dict(zip(X.columns, floats.T, strict=True)))
    return floats


def without_missing(X: Any, adjacency: Adjacency, center: F64) -> Any:
    """X without rows that have NaN or infinity; each row is judged by itself.

    If the number of rows is public, such a row becomes the centre of the domain instead.
    """
    if sparse.issparse(X):
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        bad = np.bincount(row[~np.isfinite(X.data)], minlength=X.shape[0]) > 0
    else:
        bad = ~np.isfinite(X).all(axis=1)
    if not bad.any():
        return X
    if adjacency == "add-remove":
        return X[~bad]
    if sparse.issparse(X):
        filled = X.copy()
        filled.data[bad[row]] = 0.0
        return filled
    filled = np.array(X, dtype=np.float64)
    filled[bad] = center
    return filled


def method_words(method: Any) -> str:
    """A method's name, or its class with those fields that differ from their defaults."""
    if not is_dataclass(method) or isinstance(method, type):
        return method if isinstance(method, str) else repr(method)
    values = vars(method)
    given = [
        f"{field.name}={values[field.name]!r}"
        for field in fields(method)
        if field.default is MISSING or repr(values[field.name]) != repr(field.default)
    ]
    return f"{type(method).__name__}({', '.join(given)})"


# Squares and variances of rows inside must neither overflow nor vanish: k-means on a block of rows
# raises for both, and whether a fit fails would then depend on the rows.
SMALLEST, LARGEST = 1e-100, 1e100
BLOCK = 1 << 20  # values

NO_DOMAIN = (
    "Give bounds=(low, high) or radius=... Do not compute them from the data: the minimum and "
    "maximum reveal single rows. Use the possible range, e.g. 0 to 120 for an age. Rows outside "
    "are clipped."
)


@dataclass(frozen=True, eq=False)
class DomainSpec:
    """A domain whose number of features may not be known yet."""

    low: F64  # of the box; for a ball, its centre
    high: F64
    radius: float | None = None

    @classmethod
    def of(cls, bounds: Any, radius: Any, center: Any, X: Any) -> DomainSpec:
        """The domain of these parameters. ValueError if there is none, or two."""
        named = isinstance(bounds, Mapping)
        if named:
            bounds = _in_order(bounds, X)
        if bounds is None and radius is None:
            raise ValueError(NO_DOMAIN)
        if bounds is not None and (radius is not None or center is not None):
            raise ValueError("Give either bounds=(low, high) or radius (and center), not both.")
        return _ball(radius, center) if bounds is None else _box(bounds, named=named)

    def check_features(self, d: int | None) -> None:
        """ValueError if it is given for another number of features than d; None: not known yet."""
        if d is not None and self.low.ndim and self.low.size != d:
            what = "bounds are" if self.radius is None else "center is"
            raise ValueError(f"The {what} given for {self.low.size} features, but X has {d}.")

    def check_sparse(self) -> None:
        """ValueError unless its centre is the origin: rows with another one would be dense."""
        if self.low.any() if self.radius is not None else (self.low != -self.high).any():
            raise ValueError(
                "Sparse rows need a domain around the origin: radius=..., or bounds=(-b, b)."
            )

    def domain(self, X: Any) -> Domain:
        self.check_features(X.shape[1])
        ends = (np.broadcast_to(end, X.shape[1:]) for end in (self.low, self.high))
        low, high = (end.astype(np.float64) for end in ends)
        return Domain.box(low, high) if self.radius is None else Domain.around(low, self.radius)


def _in_order(bounds: Mapping[Any, Any], X: Any) -> list[list[Any]]:
    """The low ends and the high ends of bounds by the names of columns, in the order of X."""
    names = _get_feature_names(X)
    if names is None:
        raise ValueError("bounds by name need an X with names of columns, such as a DataFrame.")
    for wrong, what in (
        ([name for name in bounds if name not in names], "X has no column"),
        ([name for name in names if name not in bounds], "there are none for"),
    ):
        if wrong:
            raise ValueError(f"bounds: {what} {', '.join(map(repr, wrong[:SHOWN]))}.")
    pairs = [bounds[name] for name in names]
    for name, pair in zip(names, pairs, strict=True):
        if not isinstance(pair, (tuple, list, np.ndarray)) or len(pair) != 2:
            raise ValueError(f"bounds of column {name!r} must be a pair (low, high).")
    return [list(ends) for ends in zip(*pairs, strict=True)]


def _box(bounds: Any, *, named: bool) -> DomainSpec:
    if not isinstance(bounds, (tuple, list, np.ndarray)) or len(bounds) != 2:
        raise ValueError(
            "bounds must be a pair (low, high) of numbers, or of one number per feature, or a dict "
            "of a pair for each column."
        )
    low, high = _numbers(bounds[0], "bounds' low end"), _numbers(bounds[1], "bounds' high end")
    if low.ndim and high.ndim and low.shape != high.shape:
        raise ValueError(f"bounds have {low.size} low ends and {high.size} high ends.")
    if not named:
        _check_orientation(low, high)
    low, high = np.broadcast_arrays(low, high)
    if not (high > low).all():
        raise ValueError("bounds must have low < high, for every feature; drop constant features.")
    _check_size((high - low).min(), "bounds")
    return DomainSpec(low, high)


def _check_orientation(low: F64, high: F64) -> None:
    """Two pairs might be a pair for each of two features: say how they are read."""
    if low.size == 2 and high.size == 2 and low[0] < low[1] and high[0] < high[1]:
        as_pairs = f"({low[0]:g} to {low[1]:g}) and ({high[0]:g} to {high[1]:g})"
        if not (high > low).all():
            raise ValueError(
                f"bounds look like one pair for each feature, {as_pairs}; give all low ends first: "
                f"bounds=([{low[0]:g}, {high[0]:g}], [{low[1]:g}, {high[1]:g}])."
            )
        validation.warn(
            f"bounds are read as (low, high): feature 1 from {low[0]:g} to {high[0]:g}, feature 2 "
            f"from {low[1]:g} to {high[1]:g}. If you meant {as_pairs}, give all low ends first."
        )


def _ball(radius: Any, center: Any) -> DomainSpec:
    if radius is True or not isinstance(radius, Real) or not 0 < float(radius) < np.inf:
        raise ValueError(f"radius must be a number > 0; got {radius!r}.")
    _check_size(float(radius), "radius")
    middle = _numbers(0.0 if center is None else center, "center")
    return DomainSpec(middle, middle, float(radius))


def _numbers(value: Any, name: str) -> F64:
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number or one number per feature.") from None
    if numbers.ndim > 1 or not numbers.size or not np.isfinite(numbers).all():
        raise ValueError(f"{name} must be a finite number, or one per feature.")
    if np.abs(numbers).max() > LARGEST:
        raise ValueError(f"{name} must be within +-{LARGEST:g}; rescale the features.")
    return numbers


def _check_size(size: float, name: str) -> None:
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"{name} must span {SMALLEST:g} to {LARGEST:g}; rescale the features.")


def all_finite(X: Any) -> bool:
    """Whether X has no NaN and no infinity, checked block by block."""
    if sparse.issparse(X):
        return bool(np.isfinite(X.data).all())
    size = max(1, BLOCK // max(1, X.shape[1]))
    return all(bool(np.isfinite(X[i : i + size]).all()) for i in range(0, len(X), size))
