"""Total Jensen divergence (Nielsen and Nock 2015): its centre has no closed form."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from kvariates.data.rows import F64, Labels
from kvariates.objectives.distortion import MIX, Distortion, mean_row, one_thread, parts

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
