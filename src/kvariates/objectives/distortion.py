"""The interface of a distortion, and what the distortions of this room share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from kvariates.data.rows import F64, Labels, Rows

MIX = 1e-3  # share of the mean in a centre that is seeded at a row with zeros
CHUNK = 2**17  # values handled at a time, so that they stay in the cache
SMALLEST, LARGEST = 1e-100, 1e100  # quotients and squares of these are in range


class Distortion(ABC):
    """A divergence D(x, c), and the centre that minimises a weighted sum of it.

    `check`, `fitted` and `seed` take rows as the user gave them; the others take prepared rows.
    `prepare` does work that is needed once (whitening, float64); `restore` maps centres back.
    """

    name: ClassVar[str]
    positive: ClassVar[bool] = False  # zeros are not allowed
    takes_csr: ClassVar[bool] = False
    mean_is_best: ClassVar[bool] = False  # the weighted mean is the best centre

    @abstractmethod
    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        """The index of the nearest centre (the lowest of equal ones) and D to it."""

    @abstractmethod
    def _divergence(self, X: Any, center: F64) -> F64:
        """`divergence` of a part of the rows."""

    def center(self, X: Any, weight: F64 | None, start: F64 | None = None) -> F64:
        """The centre of least weighted sum of D, never more than at `start`. Pre: sum(w) > 0."""
        return mean_row(X, weight)

    def check(self, X: Any) -> None:
        """ValueError if D is not defined for some row."""
        if not self.takes_csr:
            check_dense(self.name, X)
        values = X.data if scipy.sparse.issparse(X) else X
        sign, hint = (">", "add a small constant") if self.positive else (">=", "shift X")
        wrong = values <= 0 if self.positive else values < 0
        if np.any(wrong):
            raise ValueError(
                f"distortion={self.name!r} needs values {sign} 0, but {first(X, wrong)}; "
                f"drop such rows, {hint}, or use another distortion."
            )
        if X.dtype == np.float32:
            return
        extreme = (values > LARGEST) | ((values < SMALLEST) & (values > 0))
        if np.any(extreme):
            raise ValueError(
                f"distortion={self.name!r} needs positive values from {SMALLEST:g} to {LARGEST:g}, "
                f"or float64 cannot hold their quotients, but {first(X, extreme)}; rescale X."
            )

    def fitted(self, X: Any, weight: F64 | None) -> Distortion:
        """The same distortion with parameters estimated from the data. Pre: `check` has passed."""
        return self

    def seed(self, X: Any, rows: NDArray[np.int64]) -> F64:
        """Picked rows as centres, changed where some row would be infinitely far from them."""
        return Rows.of(X).take(rows)

    def prepare(self, X: Any) -> Any:
        return X.astype(np.float64, copy=False)

    def restore(self, centers: F64) -> F64:
        return centers

    def divergence(self, X: Any, center: F64) -> F64:
        """D of every row to the centre, or to its own one if `center` has as many rows as X."""
        out = np.empty(X.shape[0])
        for part in parts(X.shape):
            out[part] = self._divergence(X[part], center[part] if center.ndim > 1 else center)
        return out


def mean_row(X: Any, weight: F64 | None) -> F64:
    """The weighted mean, in row order. Pre: float64; not all weights are zero."""
    return sum_rows(X, weight) / (float(X.shape[0]) if weight is None else weight.sum())


def sum_rows(X: Any, weight: F64 | None) -> F64:
    """The weighted sum, in row order. Pre: float64."""
    if scipy.sparse.issparse(X):
        return np.asarray(X.T @ (np.ones(X.shape[0]) if weight is None else weight)).ravel()
    return np.asarray((X if weight is None else X * weight[:, None]).sum(axis=0))


def parts(shape: tuple[int, int]) -> Iterator[slice]:
    """Slices of the rows, each about CHUNK values if a row has shape[1]."""
    step = max(1, CHUNK // max(1, shape[1]))
    for begin in range(0, shape[0], step):
        yield slice(begin, begin + step)


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def one_thread() -> Any:
    """Run BLAS on one thread, so that results do not depend on its number of threads.

    For thin products this is faster too: starting threads takes longer than the product.
    """
    return _pools().limit(limits=1, user_api="blas")


def check_dense(name: str, X: Any) -> None:
    """ValueError for sparse rows."""
    if scipy.sparse.issparse(X):
        raise ValueError(f"distortion={name!r} takes dense rows only; give X.toarray().")


def first(X: Any, wrong: NDArray[np.bool_]) -> str:
    """The place and the value of the first wrong value, in words."""
    place = int(np.argmax(wrong))
    if scipy.sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        column, value = int(X.indices[place]), X.data[place]
    else:
        row, column = divmod(place, X.shape[1])
        value = X[row, column]
    return f"row {row}, column {column} is {value}"


# ---- Bregman divergences phi(x) - phi(c) - <grad phi(c), x - c>, whose best centre is the mean
#
# Up to a term a(x) that all centres share, a Bregman divergence is affine in x: D(x, c) = a(x) +
# b_c + <x, h_c>, where b and h can be shifted to be >= 0. So a matrix product finds the nearest
# centre up to a small relative error. Centres that are closer than this error are compared by
# the divergence itself, so that the result does not depend on the BLAS.


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
