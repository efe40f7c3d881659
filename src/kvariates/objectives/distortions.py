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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64, Labels, Rows
from kvariates.objectives.distortion import (
    MIX,
    Distortion,
    ItakuraSaito,
    KullbackLeibler,
    check_dense,
    mean_row,
    one_thread,
    parts,
)
from kvariates.tables import Entry, Table

# ---- Total Jensen divergence (Nielsen and Nock 2015): its centre has no closed form --------------

STEPS = 100  # at most, of the search for a total Jensen centre


class JensenTerms(NamedTuple):
    """Of every row: Jensen divergence, conformal factor, (F(c) - F(x)) / ||x - c||^2."""

    jensen: F64
    factor: F64
    slope: F64  # 0 where x = c

    def total(self, w: F64) -> float:
        return float(np.sum(w * self.jensen * self.factor))


class TotalJensen(Distortion):
    """A symmetric Jensen divergence that does not change when the graph of F is rotated."""

    name: ClassVar[str] = "total-jensen"

    def nearest(self, X: Any, centers: F64) -> tuple[Labels, F64]:
        labels, cost = np.zeros(len(X), dtype=np.int32), np.full(len(X), np.inf)
        for part in parts(X.shape):
            height = _height(X[part])
            for j, center in enumerate(centers):
                terms = _terms(X[part], height, center)
                here = terms.jensen * terms.factor
                labels[part][here < cost[part]] = j
                np.minimum(cost[part], here, out=cost[part])
        return labels, cost

    def center(self, X: Any, weight: F64 | None, start: F64 | None = None) -> F64:
        """By descent from the mean, or from `start` if that is better."""
        w = np.ones(len(X)) if weight is None else weight
        mean = mean_row(X, weight)
        live = mean > 0  # in other features all rows are 0, and so is the best centre
        if not live.any():
            return mean
        rows, X, begin = X, X[:, live], mean[live]
        height = _height(X)
        terms = _terms(X, height, begin)
        if start is not None:
            lifted = np.where(start > 0, start, MIX * mean)[live]  # steps are taken in log c
            other = _terms(X, height, lifted)
            if other.total(w) < terms.total(w):
                begin, terms = lifted, other
        out = np.zeros(len(mean))
        out[live] = _descend(X, w, height, begin, terms)
        if start is None or self._sum(rows, w, out) <= self._sum(rows, w, start):
            return out
        return start  # its zeros were better than the small values used instead

    def _sum(self, X: F64, w: F64, center: F64) -> float:
        return float(np.sum(w * self.divergence(X, center)))

    def _divergence(self, X: Any, center: F64) -> F64:
        terms = _terms(X, _height(X), center)
        return np.asarray(terms.jensen * terms.factor)


def _descend(X: F64, w: F64, height: F64, center: F64, terms: JensenTerms) -> F64:
    """A local minimum of the weighted sum of divergences near `center`, never above it.

    Nielsen and Nock keep the factors fixed and repeat log c' = mean of log((x + c)/2), a gradient
    step in log c. Its fixed points are not the minima, because the factors depend on c. With the
    whole gradient they are, but convergence is slow in narrow valleys. So the steps, in log c, are
    quasi-Newton steps (L-BFGS).
    """
    from scipy.optimize import minimize  # it takes long to import, and few fits need it

    share, top = w / w.sum(), np.log(X.max(axis=0))

    def cost(log_c: F64) -> tuple[float, F64]:
        c = np.exp(log_c)
        there = _terms(X, height, c)
        return there.total(share), c * _gradient(X, share, c, there)

    with one_thread():
        found = minimize(
            cost, np.log(center), jac=True, method="L-BFGS-B",
            bounds=np.stack([top - 250, top + 5], axis=1),
            options={"maxiter": STEPS, "ftol": 1e-13, "gtol": 1e-9 * terms.total(share)},
        )  # fmt: skip
    return np.asarray(np.exp(found.x)) if found.fun < terms.total(share) else center


def _gradient(X: F64, w: F64, c: F64, terms: JensenTerms) -> F64:
    turn = w * terms.jensen * terms.factor**3 * terms.slope  # of the factors
    grad = 0.5 * ((w * terms.factor)[:, None] * np.log(2 * c / (X + c))).sum(axis=0)
    grad += ((turn * terms.slope)[:, None] * (c - X)).sum(axis=0) - np.log(c) * turn.sum()
    return np.asarray(grad)


def _height(X: F64) -> F64:
    """F(x)."""
    from scipy.special import xlogy  # it takes long to import, and few fits need it

    return np.asarray((xlogy(X, X) - X).sum(axis=-1))


def _terms(X: F64, height: F64, c: F64) -> JensenTerms:
    gap, both = c - X, X + c
    t = np.divide(gap, both, out=np.zeros_like(gap), where=both > 0)
    inside = np.nextafter(1.0, 0.0)  # 0 log 0 = 0 at t = 1 and -1
    jensen = (1 + t) * np.log1p(np.maximum(t, -inside))
    jensen += (1 - t) * np.log1p(np.maximum(-t, -inside))
    jensen *= both / 4
    squared = (gap * gap).sum(axis=1)
    rise = _height(c) - height
    slope = np.divide(rise, squared, out=np.zeros_like(squared), where=squared > 0)
    return JensenTerms(np.maximum(jensen, 0.0).sum(axis=1), 1 / np.sqrt(1 + rise * slope), slope)


# ---- Mahalanobis distance: squared Euclidean, once the rows are whitened -------------------------

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
    whitening: Any = None  # a `Whitening`, once it is fitted
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
            return np.asarray((X - self.whitening.mean) @ self.whitening.root)

    def restore(self, centers: F64) -> F64:
        with one_thread():
            return np.asarray(centers @ self.whitening.inverse + self.whitening.mean)

    def _divergence(self, X: F64, center: F64) -> F64:
        return np.asarray(((X - center) ** 2).sum(axis=1))

    def nearest(self, X: F64, centers: F64) -> tuple[Labels, F64]:
        space = Rows.of(X)
        labels = space.nearest(centers)
        return labels, space.costs(centers, labels)


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


# ---- The table of distortions --------------------------------------------------------------------

LOST = (
    "Theorem 2 is about squared Euclidean distances; for other distortions its constants "
    "depend on the data (Nock, Luosto, Kivinen 2008) and are not computed."
)

DISTORTIONS: Table[Distortion] = Table(
    "distortion",
    {
        "kl": Entry(
            KullbackLeibler(),
            "The Kullback-Leibler divergence (generalised I-divergence); rows >= 0, dense or CSR.",
            lost=LOST,
        ),
        "itakura-saito": Entry(
            ItakuraSaito(), "The Itakura-Saito divergence, for power spectra; rows > 0.", lost=LOST
        ),
        "mahalanobis": Entry(
            Mahalanobis(),
            "Squared Euclidean distance after whitening with the covariance of X.",
            theorem="Theorem 2",
        ),
        "total-jensen": Entry(
            TotalJensen(), "The total Jensen divergence, which is symmetric; rows >= 0.", lost=LOST
        ),
    },
)
