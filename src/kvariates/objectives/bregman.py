"""Bregman divergences phi(x) - phi(c) - <grad phi(c), x - c>, whose best centre is the mean.

Up to a term a(x) that all centres share, a Bregman divergence is affine in x:
D(x, c) = a(x) + b_c + <x, h_c>, where b and h can be shifted to be >= 0. So a matrix product finds
the nearest centre up to a small relative error. Centres that are closer than this error are
compared by the divergence itself, so that the result does not depend on the BLAS.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from kvariates.data.rows import F64, Labels
from kvariates.objectives.distortion import MIX, Distortion, mean_row, one_thread, parts


class Bregman(Distortion):
    mean_is_best: ClassVar[bool] = True

    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        labels, cost = np.empty(X.shape[0], dtype=np.int32), np.empty(X.shape[0])
        affine = self._affine(centers)
        with one_thread():
            for part in parts((X.shape[0], max(centers.shape))):
                labels[part], cost[part] = self._nearest(X[part], centers, *affine)
        return labels, cost

    def _nearest(self, X: Any, centers: F64, b: F64, h: F64) -> tuple[Labels, F64]:
        score = X @ h.T
        score += b
        labels = score.argmin(axis=1).astype(np.int32)
        cost = self._divergence(X, centers[labels])
        least = score.min(axis=1)
        # All terms are >= 0, so (d + 8) eps bounds the relative error of the product and of the
        # divergence; the factor 16 covers the sum of these bounds.
        doubt = 16 * (X.shape[1] + 8) * np.finfo(np.float64).eps
        close = score <= (least + doubt * (least + cost + self._terms(X)))[:, None]
        rows = np.flatnonzero(np.count_nonzero(close, axis=1) > 1)
        if rows.size:
            labels[rows], cost[rows] = self._break_ties(X[rows], centers, close[rows])
        return labels, cost

    def _break_ties(self, X: Any, centers: F64, close: NDArray[np.bool_]) -> tuple[Labels, F64]:
        """The nearest of the close centres, by the divergence itself."""
        labels, cost = np.zeros(len(close), dtype=np.int32), np.full(len(close), np.inf)
        for j in np.flatnonzero(close.any(axis=0)):
            rows = np.flatnonzero(close[:, j])
            here = self._divergence(X[rows], centers[j])
            rows, here = rows[here < cost[rows]], here[here < cost[rows]]
            labels[rows], cost[rows] = j, here
        return labels, cost

    @abstractmethod
    def _affine(self, centers: F64) -> tuple[F64, F64]:
        """The b (k,) and h (k, d), both >= 0."""

    @abstractmethod
    def _terms(self, X: Any) -> F64:
        """What the rounding errors of b and h are relative to, besides b and <x, h>."""


@dataclass(frozen=True, eq=False)
class KullbackLeibler(Bregman):
    """The generalised I-divergence, with 0 log 0 = 0.

    A centre with a 0 is infinitely far from rows that are positive there. So a centre seeded at a
    row with zeros is mixed with a little (MIX) of the weighted mean of all rows. Lloyd's means are
    not changed.
    """

    mean: F64 | None = None
    name: ClassVar[str] = "kl"
    takes_csr: ClassVar[bool] = True

    def fitted(self, X: Any, weight: F64 | None) -> KullbackLeibler:
        return replace(self, mean=mean_row(self.prepare(X), weight))

    def seed(self, X: Any, rows: NDArray[np.int64]) -> F64:
        centers = super().seed(X, rows)
        mean = mean_row(self.prepare(X), None) if self.mean is None else self.mean
        void = (centers == 0).any(axis=1)
        centers[void] = (1 - MIX) * centers[void] + MIX * mean
        return centers

    def _divergence(self, X: Any, center: F64) -> F64:
        if not scipy.sparse.issparse(X):
            return np.asarray(relative_entropy(X, center).sum(axis=1))
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        own = center[X.indices] if center.ndim == 1 else center[row, X.indices]
        stored = np.bincount(row, relative_entropy(X.data, own) - own, minlength=X.shape[0])
        return np.asarray(np.maximum(stored + center.sum(axis=-1), 0.0))

    def _affine(self, centers: F64) -> tuple[F64, F64]:
        # Any number above all logs can stand for infinity: a wrong guess has infinite cost, and is
        # then compared with all other centres.
        h = np.full_like(centers, 1e4)
        np.divide(centers.max(), centers, out=h, where=centers > 0)
        np.log(h, out=h, where=centers > 0)
        return centers.sum(axis=1), h

    def _terms(self, X: Any) -> F64:
        return np.asarray(X.sum(axis=1)).ravel()


class ItakuraSaito(Bregman):
    """D(x, c) depends on the quotients x/c only, so it is scale-free. Used for power spectra."""

    name: ClassVar[str] = "itakura-saito"
    positive: ClassVar[bool] = True

    def _divergence(self, X: Any, center: F64) -> F64:
        terms = (X - center) / center - log_ratio(X, center)
        return np.asarray(np.maximum(terms, 0.0).sum(axis=1))

    def _affine(self, centers: F64) -> tuple[F64, F64]:
        return np.log(centers / centers.min(axis=0)).sum(axis=1), 1 / centers

    def _terms(self, X: Any) -> F64:
        return np.full(X.shape[0], float(X.shape[1]))


def log_ratio(x: F64, c: F64) -> F64:
    """log(x/c), accurate also where x is close to c. NaN for 0/0."""
    gap = x - c
    return np.asarray(np.copysign(np.log1p(np.abs(gap) / np.minimum(x, c)), gap))


def relative_entropy(x: F64, c: F64) -> F64:
    """The terms x log(x/c) - x + c."""
    with np.errstate(divide="ignore", invalid="ignore"):  # zeros: see KullbackLeibler
        terms = np.where(x > 0, x * log_ratio(x, c), 0.0)
    return np.maximum(terms + (c - x), 0.0)
