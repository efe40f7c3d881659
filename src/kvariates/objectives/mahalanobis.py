"""Mahalanobis distance: squared Euclidean, once the rows are whitened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Labels, Rows
from kvariates.objectives.distortion import Distortion, check_dense, mean_row, one_thread

ROUNDING = 8  # units in the last place of a column's largest value: less is rounding error
COLLINEAR = 1e-13  # times the number of columns: the least eigenvalue of the correlations


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> (x - mean) @ root, with root @ root.T the inverse of the covariance."""

    mean: F64
    root: F64
    inverse: F64

    @classmethod
    def of(cls, covariance: F64, mean: F64, noise: F64) -> Whitening:
        """ValueError if the matrix is no covariance, or one without an inverse.

        noise : the standard deviation that rounding errors of a column may have.
        """
        scale = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        constant = np.flatnonzero(scale <= noise)
        if len(constant):
            raise ValueError(
                f"distortion='mahalanobis' needs columns that vary, and {_columns(constant)} "
                f"{'does' if len(constant) == 1 else 'do'} not, but for rounding errors: drop "
                f"{'it' if len(constant) == 1 else 'them'}."
            )
        # Eigenvalues of the correlations, so that units of the columns cost no digits.
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        least = (vectors**2).T @ (noise / scale) ** 2  # of each eigenvalue, because of rounding
        least = np.maximum(least, len(values) * COLLINEAR * values[-1])
        if (null := values <= least).any():
            involved = np.flatnonzero((vectors[:, null] ** 2).sum(axis=1) > COLLINEAR**0.5)
            raise ValueError(
                "distortion='mahalanobis' needs a positive definite covariance, but "
                f"{_columns(involved)} depend on each other linearly: drop "
                f"{np.count_nonzero(null)} of them, or add rows."
            )
        stretch = np.sqrt(values)
        return cls(
            mean,
            (vectors / stretch) @ vectors.T / scale[:, None],
            (vectors * stretch) @ vectors.T * scale,
        )


def _columns(numbers: NDArray[np.int64], most: int = 12) -> str:
    """Columns by their numbers, in words; the first ones if there are many."""
    names = [str(number) for number in numbers[:most]]
    if len(numbers) > most:
        names.append(f"{len(numbers) - most} more")
    if len(names) == 1:
        return f"column {names[0]}"
    return f"columns {', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True, eq=False)
class Mahalanobis(Distortion):
    """(x - c) S^-1 (x - c), with S given or the weighted covariance of the rows.

    After whitening it is squared Euclidean distance.
    """

    covariance: F64 | None = None
    whitening: Whitening | None = None
    name: ClassVar[str] = "mahalanobis"

    def check(self, X: Any) -> None:
        check_dense(self.name, X)
        given = self.covariance
        if given is None:
            return
        if given.shape != (X.shape[1], X.shape[1]):
            raise ValueError(
                f"distortion='mahalanobis' needs a covariance of shape "
                f"{(X.shape[1], X.shape[1])}, one row per column of X, but it is {given.shape}."
            )
        if not np.isfinite(given).all():
            raise ValueError("distortion='mahalanobis' needs a covariance of finite numbers.")
        if not np.allclose(given, given.T):
            raise ValueError(
                "distortion='mahalanobis' needs a symmetric covariance; give (S + S.T) / 2."
            )

    def fitted(self, X: Any, weight: F64 | None) -> Mahalanobis:
        with one_thread():
            if self.covariance is None:
                return replace(self, whitening=_estimated(X, weight))
            mean = mean_row(X.astype(np.float64, copy=False), weight)
            return replace(self, whitening=Whitening.of(self.covariance, mean, np.zeros(len(mean))))

    def prepare(self, X: Any) -> F64:
        with one_thread():
            return np.asarray((X - self._whitening.mean) @ self._whitening.root)

    def restore(self, centers: F64) -> F64:
        with one_thread():
            return np.asarray(centers @ self._whitening.inverse + self._whitening.mean)

    def _divergence(self, X: F64, center: F64) -> F64:
        return np.asarray(((X - center) ** 2).sum(axis=1))

    def nearest(self, X: F64, centers: F64) -> tuple[Labels, F64]:
        space = Rows.of(X)
        labels = space.nearest(centers)
        return labels, space.costs(centers, labels)

    @property
    def _whitening(self) -> Whitening:
        if self.whitening is None:
            raise ValueError("distortion='mahalanobis' knows no covariance before `fitted`.")
        return self.whitening


def _estimated(X: Any, weight: F64 | None) -> Whitening:
    """The whitening by the weighted covariance of the rows."""
    if weight is not None and not weight.all():
        X, weight = X[weight > 0], weight[weight > 0]
    rows = X.astype(np.float64, copy=False)
    # Columns are divided by powers of two, which costs no digits: then no square overflows.
    unit = np.ldexp(1.0, np.frexp(np.abs(rows).max(axis=0))[1] - 1)
    rows = rows / unit
    noise = ROUNDING * float(np.finfo(X.dtype).eps) * np.abs(rows).max(axis=0)
    mean = mean_row(rows, weight)
    rows -= mean
    rows -= mean_row(rows, weight)  # the rounding error of the mean
    share = np.ones(len(rows)) if weight is None else weight
    covariance = (rows * share[:, None]).T @ rows / share.sum()
    scaled = Whitening.of(covariance, mean, noise)
    return Whitening(mean * unit, scaled.root / unit[:, None], scaled.inverse * unit)
