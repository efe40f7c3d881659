"""Mahalanobis distance: squared Euclidean, once the rows are whitened."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from kvariates.data.rows import F64, Labels, Rows
from kvariates.objectives.distortion import Distortion, check_dense, mean_row, one_thread


@dataclass(frozen=True, eq=False)
class Whitening:
    """x -> (x - mean) @ root, with root @ root.T the inverse of the covariance."""

    mean: F64
    root: F64
    inverse: F64

    @classmethod
    def of(cls, covariance: F64, mean: F64) -> Whitening:
        """ValueError if the matrix is no covariance, or one without an inverse."""
        scale = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        if not scale.all():
            column = int(np.flatnonzero(scale == 0)[0])
            raise ValueError(
                f"distortion='mahalanobis' needs columns that vary; column {column} does not. "
                "Drop such columns."
            )
        # Eigenvalues of the correlations, so that units of the columns cost no digits.
        values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
        rank = int(np.count_nonzero(values > len(values) * 1e-13 * values[-1]))
        if rank < len(values):
            raise ValueError(
                f"distortion='mahalanobis' needs a covariance of full rank, but it has rank {rank} "
                f"of {len(values)}; drop columns that depend on others, or add rows."
            )
        stretch = np.sqrt(values)
        return cls(
            mean,
            (vectors / stretch) @ vectors.T / scale[:, None],
            (vectors * stretch) @ vectors.T * scale,
        )


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
                f"{(X.shape[1], X.shape[1])}, one row a column of X, but it is {given.shape}."
            )
        if not np.allclose(given, given.T):
            raise ValueError(
                "distortion='mahalanobis' needs a symmetric covariance; give (S + S.T) / 2."
            )

    def fitted(self, X: Any, weight: F64 | None) -> Mahalanobis:
        rows = X.astype(np.float64, copy=False)
        mean = mean_row(rows, weight)
        with one_thread():
            if (covariance := self.covariance) is None:
                rows = rows - mean
                share = np.ones(len(rows)) if weight is None else weight
                covariance = (rows * share[:, None]).T @ rows / share.sum()
            return replace(self, whitening=Whitening.of(covariance, mean))

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
