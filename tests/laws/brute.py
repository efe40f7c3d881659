"""A simple k-means to compare the fast one with: float64, all pairs, nothing skipped.

Where there is a choice it does as scikit-learn does: when to stop, where an empty cluster goes,
and which of two equally near centres is taken (the lowest index).
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse


class Fit(NamedTuple):
    labels: np.ndarray
    centers: np.ndarray
    inertia: float
    n_iter: int


def dense64(X):
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def unit_rows(X):
    X = dense64(X)
    # Scaled first: the square of a tiny or a huge entry must not leave the range of a double.
    X = X / np.abs(X).max(axis=1, keepdims=True)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def squared_distances(X, centers):
    X, centers = dense64(X), dense64(centers)
    if X.size * len(centers) < 200_000:
        return ((X[:, None, :] - centers) ** 2).sum(axis=2)
    return np.stack([((X - c) ** 2).sum(axis=1) for c in centers], axis=1)


def nearest(X, centers):
    return squared_distances(X, centers).argmin(axis=1).astype(np.int32)


def inertia(X, centers, labels, weights=None):
    squares = ((dense64(X) - dense64(centers)[labels]) ** 2).sum(axis=1)
    return float(squares.sum() if weights is None else squares @ np.asarray(weights, np.float64))


def tolerance(X, tol):
    return tol * dense64(X).var(axis=0).mean()


def lloyd(X, init, weights=None, tol=1e-4, max_iter=300, metric="euclidean"):
    """Return the Fit that every algorithm must reach from the start `init`."""
    dtype = X.dtype
    spherical = metric == "cosine"
    X = unit_rows(X) if spherical else dense64(X)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    centers = unit_rows(init) if spherical else dense64(init)
    centers = centers.astype(dtype).astype(np.float64)
    tol, old = tolerance(X, tol), None
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        labels = nearest(X, centers)
        moved = means(X, weights, labels, centers)
        if spherical:
            moved = unit_rows(moved)
        shift = ((moved - centers) ** 2).sum()
        centers = moved
        if old is not None and np.array_equal(labels, old):
            break
        old = labels
        if shift <= tol:
            break
    # Rounded to the rows' dtype; the labels are those of the rounded centres.
    centers = centers.astype(dtype)
    labels = nearest(X, centers)
    cost = inertia(X, centers, labels, weights)
    return Fit(labels, centers, cost / 2 if spherical else cost, n_iter)


def means(X, weights, labels, centers):
    """Return the weighted means; an empty cluster takes the row farthest from its centre."""
    k = len(centers)
    sums, mass = np.zeros_like(centers), np.zeros(k)
    np.add.at(sums, labels, X * weights[:, None])
    np.add.at(mass, labels, weights)
    empty = np.flatnonzero(mass == 0)
    squares = ((X - centers[labels]) ** 2).sum(axis=1)
    if len(empty) and squares.max() > 0:
        for j, far in zip(empty, np.argsort(-squares, kind="stable"), strict=False):
            sums[labels[far]] -= X[far] * weights[far]
            mass[labels[far]] -= weights[far]
            sums[j], mass[j] = X[far] * weights[far], weights[far]
    moved = np.divide(sums, mass[:, None], where=mass[:, None] > 0, out=np.zeros_like(sums))
    moved[mass <= 0] = moved[mass.argmax()]
    return moved
