"""Distortions other than squared Euclidean: how far a row is from a centre, and the best centre.

| name          | D(x, c)                                          | rows      | best centre  |
|---------------|--------------------------------------------------|-----------|--------------|
| kl            | sum x log(x/c) - x + c                           | >= 0, CSR | mean         |
| itakura-saito | sum x/c - log(x/c) - 1                           | > 0       | mean         |
| mahalanobis   | squared Euclidean of whitened rows               | any       | mean         |
| total-jensen  | ((F(x)+F(c))/2 - F((x+c)/2)) / sqrt(1 + slope^2) | >= 0      | by iteration |

The first three are Bregman divergences phi(x) - phi(c) - <grad phi(c), x - c>, for which the
weighted mean is the best centre whatever phi (Banerjee et al. 2005). The last one (Nielsen and Nock
2015) has F(x) = sum x log x - x and slope = (F(x) - F(c)) / ||x - c||.

A Bregman divergence is affine in x but for what all centres share: D(x, c) = a(x) + b_c + <x, h_c>,
where b and h can be shifted to be >= 0. So a matrix product finds the nearest centre up to a small
relative error; centres closer than that are compared by the divergence itself, and what the BLAS
does with its threads decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import xlogy
from threadpoolctl import ThreadpoolController

from kvariates.geometry.euclidean import F64, Labels, Space

MIX = 1e-3  # of the mean in a KL centre that is seeded on a row with zeros
CHUNK = 2**17  # values worked on at a time: they stay in the cache
SMALLEST, LARGEST = 1e-100, 1e100  # float32's are within; quotients and squares are in range
STEPS = 100  # at most, of the search for a total Jensen centre


class Distortion(Protocol):
    """`check`, `fitted` and `seed` see rows as the user gave them, the others prepared ones.

    `prepare` is where work is done once (whitening, float64); `restore` takes centres back.
    """

    @property
    def name(self) -> str: ...

    def check(self, X: Any) -> None:
        """ValueError if D is not defined for some row."""

    def fitted(self, X: Any, weight: F64 | None) -> Distortion:
        """The same, knowing what it has to know of the data. Pre: checked."""

    def seed(self, X: Any, rows: NDArray[np.int64]) -> F64:
        """Picked rows as centres that no row is infinitely far from."""

    def prepare(self, X: Any) -> Any: ...

    def restore(self, centers: F64) -> F64: ...

    def divergence(self, X: Any, center: F64) -> F64:
        """D of every row to the centre, or to its own one if `center` has as many rows as X."""

    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        """The nearest centre (the lowest index of several) and D to it."""

    def center(self, X: Any, weight: F64 | None, start: F64 | None = None) -> F64:
        """The least weighted sum of D to it; never more than that of `start`. Pre: sum(w) > 0."""


class _Plain:
    """What distortions share whose coordinates are the user's."""

    name: ClassVar[str]
    positive: ClassVar[bool] = False  # zeros are not allowed
    takes_csr: ClassVar[bool] = False

    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        raise NotImplementedError

    def center(self, X: Any, weight: F64 | None, start: F64 | None = None) -> F64:
        raise NotImplementedError

    def check(self, X: Any) -> None:
        if not self.takes_csr:
            _check_dense(self.name, X)
        values = X.data if sparse.issparse(X) else X
        sign, hint = (">", "add a small constant") if self.positive else (">=", "shift X")
        wrong = values <= 0 if self.positive else values < 0
        if np.any(wrong):
            raise ValueError(
                f"distortion={self.name!r} needs values {sign} 0, but {_first(X, wrong)}; "
                f"drop such rows, {hint}, or use another distortion."
            )
        if X.dtype == np.float32:
            return
        extreme = (values > LARGEST) | ((values < SMALLEST) & (values > 0))
        if np.any(extreme):
            raise ValueError(
                f"distortion={self.name!r} needs positive values from {SMALLEST:g} to {LARGEST:g}, "
                f"or float64 cannot hold their quotients, but {_first(X, extreme)}; rescale X."
            )

    def fitted(self, X: Any, weight: F64 | None) -> Distortion:
        return self

    def seed(self, X: Any, rows: NDArray[np.int64]) -> F64:
        return Space.of(X).take(rows)

    def prepare(self, X: Any) -> Any:
        return X.astype(np.float64, copy=False)

    def restore(self, centers: F64) -> F64:
        return centers

    def divergence(self, X: Any, center: F64) -> F64:
        out = np.empty(X.shape[0])
        for part in _parts(X.shape):
            out[part] = self._divergence(X[part], center[part] if center.ndim > 1 else center)
        return out

    def _divergence(self, X: Any, center: F64) -> F64:
        raise NotImplementedError


class _Bregman(_Plain):
    def center(self, X: Any, weight: F64 | None, start: F64 | None = None) -> F64:
        return mean_row(X, weight)

    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        labels, cost = np.empty(X.shape[0], dtype=np.int32), np.empty(X.shape[0])
        affine = self._affine(centers)
        with _one_thread():
            for part in _parts((X.shape[0], max(centers.shape))):
                labels[part], cost[part] = self._nearest(X[part], centers, *affine)
        return labels, cost

    def _nearest(self, X: Any, centers: F64, b: F64, h: F64) -> tuple[Labels, F64]:
        score = X @ h.T
        score += b
        labels = score.argmin(axis=1).astype(np.int32)
        cost = self._divergence(X, centers[labels])
        least = score.min(axis=1)
        # All terms are >= 0, so that (d + a few) eps bounds the relative error of the product, and
        # that of the divergence beside its own terms; 16 is what these bounds sum to, and more.
        doubt = 16 * (X.shape[1] + 8) * np.finfo(np.float64).eps
        close = score <= (least + doubt * (least + cost + self._terms(X)))[:, None]
        rows = np.flatnonzero(np.count_nonzero(close, axis=1) > 1)
        if rows.size:
            labels[rows], cost[rows] = self._settled(X[rows], centers, close[rows])
        return labels, cost

    def _settled(self, X: Any, centers: F64, close: NDArray[np.bool_]) -> tuple[Labels, F64]:
        """The nearest of the close ones, by the divergence itself."""
        labels, cost = np.zeros(len(close), dtype=np.int32), np.full(len(close), np.inf)
        for j in np.flatnonzero(close.any(axis=0)):
            rows = np.flatnonzero(close[:, j])
            here = self._divergence(X[rows], centers[j])
            rows, here = rows[here < cost[rows]], here[here < cost[rows]]
            labels[rows], cost[rows] = j, here
        return labels, cost

    def _affine(self, centers: F64) -> tuple[F64, F64]:
        """The b (k,) and h (k, d), both >= 0."""
        raise NotImplementedError

    def _terms(self, X: Any) -> F64:
        """Size of what rounding in b and h is relative to, beside b and <x, h> themselves."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class KullbackLeibler(_Bregman):
    """The generalised I-divergence. 0 log 0 = 0; a centre's 0 is infinitely far from mass there.

    So a row with zeros is seeded as a mixture of itself and a little (MIX) of the weighted mean of
    all rows. The means that Lloyd's steps make are exact.
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
        if not sparse.issparse(X):
            return np.asarray(_relative_entropy(X, center).sum(axis=1))
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        own = center[X.indices] if center.ndim == 1 else center[row, X.indices]
        stored = np.bincount(row, _relative_entropy(X.data, own) - own, minlength=X.shape[0])
        return np.asarray(np.maximum(stored + center.sum(axis=-1), 0.0))

    def _affine(self, centers: F64) -> tuple[F64, F64]:
        # Any number above all logs will do for infinity: a guess that is wrong costs infinitely
        # much, and is then compared with all others.
        h = np.full_like(centers, 1e4)
        np.divide(centers.max(), centers, out=h, where=centers > 0)
        np.log(h, out=h, where=centers > 0)
        return centers.sum(axis=1), h

    def _terms(self, X: Any) -> F64:
        return np.asarray(X.sum(axis=1)).ravel()


class ItakuraSaito(_Bregman):
    """Scale-free: D(x, c) depends on the quotients x/c alone. The choice for power spectra."""

    name: ClassVar[str] = "itakura-saito"
    positive: ClassVar[bool] = True

    def _divergence(self, X: Any, center: F64) -> F64:
        terms = (X - center) / center - _log_ratio(X, center)
        return np.asarray(np.maximum(terms, 0.0).sum(axis=1))

    def _affine(self, centers: F64) -> tuple[F64, F64]:
        return np.log(centers / centers.min(axis=0)).sum(axis=1), 1 / centers

    def _terms(self, X: Any) -> F64:
        return np.full(X.shape[0], float(X.shape[1]))


class Bent(NamedTuple):
    """Of every row: Jensen divergence, conformal factor, (F(c) - F(x)) / ||x - c||^2."""

    jensen: F64
    factor: F64
    slope: F64  # 0 where x = c

    def total(self, w: F64) -> float:
        return float(np.sum(w * self.jensen * self.factor))


class TotalJensen(_Plain):
    """Symmetric; a Jensen divergence that does not change when the graph of F is rotated."""

    name: ClassVar[str] = "total-jensen"

    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        labels, cost = np.zeros(len(X), dtype=np.int32), np.full(len(X), np.inf)
        for part in _parts(X.shape):
            height = _height(X[part])
            for j, center in enumerate(centers):
                bent = _bent(X[part], height, center)
                here = bent.jensen * bent.factor
                labels[part][here < cost[part]] = j
                np.minimum(cost[part], here, out=cost[part])
        return labels, cost

    def center(self, X: Any, weight: F64 | None, start: F64 | None = None) -> F64:
        """By descent from the mean, or from `start` if that is better."""
        w = np.ones(len(X)) if weight is None else weight
        mean = mean_row(X, weight)
        live = mean > 0  # elsewhere all rows are 0, and so is the best centre
        if not live.any():
            return mean
        rows, X, begin = X, X[:, live], mean[live]
        height = _height(X)
        bent = _bent(X, height, begin)
        if start is not None:
            lifted = np.where(start > 0, start, MIX * mean)[live]  # steps are taken in log c
            other = _bent(X, height, lifted)
            if other.total(w) < bent.total(w):
                begin, bent = lifted, other
        out = np.zeros(len(mean))
        out[live] = _descend(X, w, height, begin, bent)
        if start is None or self._sum(rows, w, out) <= self._sum(rows, w, start):
            return out
        return start  # its zeros were better than what they were lifted to

    def _sum(self, X: F64, w: F64, center: F64) -> float:
        return float(np.sum(w * self.divergence(X, center)))

    def _divergence(self, X: Any, center: F64) -> F64:
        bent = _bent(X, _height(X), center)
        return np.asarray(bent.jensen * bent.factor)


def _descend(X: F64, w: F64, height: F64, center: F64, bent: Bent) -> F64:
    """Where the weighted sum of total Jensen divergences is least, near `center`; it never rises.

    Nielsen and Nock hold the factors still and repeat log c' = mean of log((x + c)/2), a gradient
    step in log c. Its fixed points are not the minima, for the factors depend on c; with the whole
    gradient they are, but hundreds of steps may not get there, for the factors make narrow valleys.
    So the steps, still in log c, are quasi-Newton ones.
    """
    share, top = w / w.sum(), np.log(X.max(axis=0))

    def cost(log_c: F64) -> tuple[float, F64]:
        c = np.exp(log_c)
        there = _bent(X, height, c)
        return there.total(share), c * _gradient(X, share, c, there)

    with _one_thread():
        found = minimize(
            cost, np.log(center), jac=True, method="L-BFGS-B",
            bounds=np.stack([top - 250, top + 5], axis=1),
            options={"maxiter": STEPS, "ftol": 1e-13, "gtol": 1e-9 * bent.total(share)},
        )  # fmt: skip
    return np.asarray(np.exp(found.x)) if found.fun < bent.total(share) else center


def _gradient(X: F64, w: F64, c: F64, bent: Bent) -> F64:
    turn = w * bent.jensen * bent.factor**3 * bent.slope  # of the factors
    grad = 0.5 * ((w * bent.factor)[:, None] * np.log(2 * c / (X + c))).sum(axis=0)
    grad += ((turn * bent.slope)[:, None] * (c - X)).sum(axis=0) - np.log(c) * turn.sum()
    return np.asarray(grad)


def _height(X: F64) -> F64:
    """F(x)."""
    return np.asarray((xlogy(X, X) - X).sum(axis=-1))


def _bent(X: F64, height: F64, c: F64) -> Bent:
    gap, both = c - X, X + c
    t = np.divide(gap, both, out=np.zeros_like(gap), where=both > 0)
    inside = np.nextafter(1.0, 0.0)  # 0 log 0 = 0 at t = 1 and -1
    terms = (1 + t) * np.log1p(np.maximum(t, -inside))
    terms += (1 - t) * np.log1p(np.maximum(-t, -inside))
    terms *= both / 4
    squared = (gap * gap).sum(axis=1)
    rise = _height(c) - height
    slope = np.divide(rise, squared, out=np.zeros_like(squared), where=squared > 0)
    return Bent(np.maximum(terms, 0.0).sum(axis=1), 1 / np.sqrt(1 + rise * slope), slope)


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
        # Of the correlations: columns in different units are no reason for a lost digit.
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
class Mahalanobis:
    """(x - c) S^-1 (x - c), S given or the (weighted) covariance of the rows `fitted` saw.

    After whitening all is squared Euclidean: the loops of `Space.of(prepare(X))` serve too.
    """

    covariance: F64 | None = None
    whitening: Whitening | None = None
    name: ClassVar[str] = "mahalanobis"

    def check(self, X: Any) -> None:
        _check_dense(self.name, X)
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
        with _one_thread():
            if (covariance := self.covariance) is None:
                rows = rows - mean
                share = np.ones(len(rows)) if weight is None else weight
                covariance = (rows * share[:, None]).T @ rows / share.sum()
            return replace(self, whitening=Whitening.of(covariance, mean))

    def seed(self, X: Any, rows: NDArray[np.int64]) -> F64:
        return Space.of(X).take(rows)

    def prepare(self, X: Any) -> F64:
        with _one_thread():
            return np.asarray((X - self._whitening.mean) @ self._whitening.root)

    def restore(self, centers: F64) -> F64:
        with _one_thread():
            return np.asarray(centers @ self._whitening.inverse + self._whitening.mean)

    def divergence(self, X: F64, center: F64) -> F64:
        return np.asarray(((X - center) ** 2).sum(axis=1))

    def nearest(self, X: F64, centers: F64) -> tuple[Labels, F64]:
        space = Space.of(X)
        labels = space.nearest(centers)
        return labels, space.own_cost(centers, labels)

    def center(self, X: F64, weight: F64 | None, start: F64 | None = None) -> F64:
        return mean_row(X, weight)

    @property
    def _whitening(self) -> Whitening:
        if self.whitening is None:
            raise ValueError("distortion='mahalanobis' knows no covariance before `fitted`.")
        return self.whitening


DISTORTIONS: dict[str, Distortion] = {
    distortion.name: distortion
    for distortion in (KullbackLeibler(), ItakuraSaito(), Mahalanobis(), TotalJensen())
}


def mean_row(X: Any, weight: F64 | None) -> F64:
    """The weighted mean, in row order. Pre: float64; not all weights are zero."""
    if sparse.issparse(X):
        share = np.ones(X.shape[0]) if weight is None else weight
        return np.asarray(X.T @ share / share.sum()).ravel()
    if weight is None:
        return np.asarray(X.mean(axis=0))
    return np.asarray((X * weight[:, None]).sum(axis=0) / weight.sum())


def _log_ratio(x: F64, c: F64) -> F64:
    """log(x/c), to the last digits also where x is close to c. Not a number for 0/0."""
    gap = x - c
    return np.asarray(np.copysign(np.log1p(np.abs(gap) / np.minimum(x, c)), gap))


def _relative_entropy(x: F64, c: F64) -> F64:
    """The terms x log(x/c) - x + c."""
    with np.errstate(divide="ignore", invalid="ignore"):  # zeros: see KullbackLeibler
        terms = np.where(x > 0, x * _log_ratio(x, c), 0.0)
    return np.maximum(terms + (c - x), 0.0)


def _parts(shape: tuple[int, int]) -> Iterator[slice]:
    """Slices of the rows, each about CHUNK values if a row has shape[1]."""
    step = max(1, CHUNK // max(1, shape[1]))
    for begin in range(0, shape[0], step):
        yield slice(begin, begin + step)


@cache
def _pools() -> ThreadpoolController:
    return ThreadpoolController()


def _one_thread() -> Any:
    """Whitened rows are part of the answer: their bits must not depend on the BLAS's threads.

    Nor is there a wait for threads then, which for thin products takes longer than the product.
    """
    return _pools().limit(limits=1, user_api="blas")


def _check_dense(name: str, X: Any) -> None:
    if sparse.issparse(X):
        raise ValueError(f"distortion={name!r} takes dense rows only; give X.toarray().")


def _first(X: Any, wrong: NDArray[np.bool_]) -> str:
    """Where the first of the wrong values is, and what it is."""
    place = int(np.argmax(wrong))
    if sparse.issparse(X):
        row = int(np.searchsorted(X.indptr, place, side="right")) - 1
        column, value = int(X.indices[place]), X.data[place]
    else:
        row, column = divmod(place, X.shape[1])
        value = X[row, column]
    return f"row {row}, column {column} is {value}"
