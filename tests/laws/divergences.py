"""The distortions' formulas, written a second time as in the papers, and rows to try."""

import numpy as np
import pytest
from api import DISTORTIONS, DivergenceObjective, HostData, Rows, StopRule
from scipy.special import kl_div, xlogy

NAMES = list(DISTORTIONS)
every = pytest.mark.parametrize("name", NAMES)
weighted = pytest.mark.parametrize("with_weights", [False, True], ids=["unweighted", "weighted"])


def total_jensen(X, C):
    def F(x):  # noqa: N802 - the paper's name
        return (xlogy(x, x) - x).sum(axis=-1)

    X, C = X[:, None, :], C[None]
    jensen = (F(X) + F(C)) / 2 - F((X + C) / 2)
    squares = ((X - C) ** 2).sum(axis=-1)
    slope2 = np.where(squares > 0, (F(X) - F(C)) ** 2 / np.where(squares > 0, squares, 1), 0)
    return jensen / np.sqrt(1 + slope2)


def mahalanobis(X, C, covariance):
    gap = X[:, None, :] - C[None]
    return np.einsum("ijk,kl,ijl->ij", gap, np.linalg.inv(covariance), gap)


def covariance_of(X, weights=None):
    return np.cov(X.T, bias=True, aweights=weights).reshape(X.shape[1], X.shape[1])


def table(name, X, C, weights=None):
    """D of every row to every centre, by the book. Mahalanobis: of X's own covariance."""
    X, C = np.asarray(X, dtype=np.float64), np.asarray(C, dtype=np.float64)
    if name == "kl":
        return kl_div(X[:, None, :], C[None]).sum(axis=-1)
    if name == "itakura-saito":
        ratio = X[:, None, :] / C[None]
        return (ratio - np.log(ratio) - 1).sum(axis=-1)
    if name == "mahalanobis":
        return mahalanobis(X, C, covariance_of(X, weights))
    return total_jensen(X, C)


def rows(name, n, d, seed=0, dtype=np.float64):
    """Overlapping groups that the distortion is defined for; with zeros where they are allowed."""
    rng = np.random.default_rng(seed)
    shape = rng.gamma(2.0, size=(4, d))[rng.integers(4, size=n)] + 0.3
    X = rng.gamma(4 * shape, 0.25)
    if name in ("kl", "total-jensen"):
        X[rng.random(X.shape) < 0.2] = 0
    if name == "mahalanobis":
        X = (X - 1) @ rng.normal(size=(d, d))
    return X.astype(dtype)


def distributions(n, d, seed):
    return np.random.default_rng(seed).dirichlet(np.full(d, 0.7), size=n)


def weights_of(n, seed=5):
    w = np.random.default_rng(seed).exponential(size=n)
    w[:: max(2, n // 5)] = 0
    return w


def lloyd_under(distortion, X, start, weights=None, *, max_iter=99, tol=0, callback=None):
    """Lloyd under a fitted distortion, from centres in the user's coordinates."""
    objective = DivergenceObjective(distortion)
    return objective.lloyd(HostData(Rows.of(X), weights), start, StopRule(max_iter, tol, callback))


def fitted(name, X, weights=None):
    distortion = DISTORTIONS[name].run
    distortion.check(X)
    return distortion.fitted(X, weights)


def measured(distortion, X, centers):
    """D of every row to every centre, by `divergence`."""
    X, centers = distortion.prepare(X), distortion.prepare(centers)
    return np.stack([distortion.divergence(X, center) for center in centers], axis=1)


def labelled(distortion, X, centers):
    return distortion.nearest(distortion.prepare(X), distortion.prepare(centers))


def summed(distortion, R, w, c):
    return float((w * distortion.divergence(R, c)).sum())
