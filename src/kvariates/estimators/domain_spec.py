"""Checks the domain of the rows: a box by its bounds, or a ball by its radius. Public."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import _get_feature_names

from kvariates.data.rows import F64
from kvariates.estimators import validation
from kvariates.private_methods.domain import SHOWN, Domain

# Squares and variances of rows inside must neither overflow nor vanish: k-means on a block of rows
# raises for both, and whether a fit fails would then depend on the rows.
SMALLEST, LARGEST = 1e-100, 1e100
BLOCK = 1 << 20  # values

MISSING = (
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
    def of(cls, bounds: Any, radius: Any, center: Any) -> DomainSpec:
        """The domain of these parameters. ValueError if there is none, or two."""
        if bounds is None and radius is None:
            raise ValueError(MISSING)
        if bounds is not None and (radius is not None or center is not None):
            raise ValueError("Give either bounds=(low, high) or radius (and center), not both.")
        return _ball(radius, center) if bounds is None else _box(bounds)

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


@dataclass(frozen=True, eq=False)
class NamedBounds:
    """The low and the high ends of columns that were given by name, so in a known order."""

    low: list[Any]
    high: list[Any]


def bounds_of_columns(bounds: Any, X: Any) -> Any:
    """Bounds by the names of columns, in the order of X; other bounds as they are."""
    if not isinstance(bounds, Mapping):
        return bounds
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
    return NamedBounds(*map(list, zip(*pairs, strict=True)))


def _box(bounds: Any) -> DomainSpec:
    named = isinstance(bounds, NamedBounds)
    if named:
        bounds = bounds.low, bounds.high
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
