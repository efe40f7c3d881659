"""The data of the golden fits. Everything is made from fixed seeds."""

from functools import lru_cache

import numpy as np
from scipy import sparse


@lru_cache(maxsize=64)
def rows(n, d, dtype="float64", layout="dense", *, positive=False, seed=0):
    """Seven clusters of different sizes. With layout "csr", most values are zero."""
    rng = np.random.default_rng([n, d, seed])
    X = rng.normal(size=(n, d)) + 3 * rng.normal(size=(7, d))[rng.integers(7, size=n)]
    if positive:
        X = np.abs(X) + 0.05
    if layout == "csr":
        X[rng.random(X.shape) < 0.6] = 0
        X[:, 0] += 20.0 if positive else 0.5
        return sparse.csr_array(X.astype(dtype))
    return X.astype(dtype)


@lru_cache(maxsize=64)
def repeated(n, d, distinct, dtype="float64", layout="dense", *, positive=False):
    """Rows of which only so many are distinct."""
    base = rows(distinct, d, dtype, layout, positive=positive, seed=1)
    return base[np.random.default_rng([n, distinct]).integers(distinct, size=n)]


def weights(n, given="yes"):
    """One weight for every row, or None if not `given`. Some are zero, and some are equal."""
    if given == "no":
        return None
    w = np.random.default_rng([n, 2]).exponential(size=n)
    w[::11] = 0.0
    w[1::7] = 1.0
    return w


def dense(X):
    return X.toarray() if sparse.issparse(X) else X


def distances(n, *, whole=False, dtype="float64"):
    """A square matrix of distances between rows; with `whole`, random whole numbers."""
    if whole:
        D = np.random.default_rng([n, 3]).integers(50, 99, size=(n, n)).astype(dtype)
        return np.maximum(D, D.T) * (1 - np.eye(n, dtype=dtype))
    X = rows(n, 4, seed=3)
    return np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2)).astype(dtype)


def grid_graph(width, height, *, cut=False):
    """A grid whose edges have random lengths. With `cut`, it has two components."""
    at = np.arange(width * height).reshape(height, width)
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    a = np.concatenate([first.ravel() for first, _ in ends])
    b = np.concatenate([second.ravel() for _, second in ends])
    length = np.random.default_rng([width, height]).random(len(a)) + 0.1
    if cut:
        kept = (a < width * (height // 2)) == (b < width * (height // 2))
        a, b, length = a[kept], b[kept], length[kept]
    half = sparse.coo_array((length, (a, b)), shape=(at.size, at.size))
    return sparse.csr_array(half + half.T)
