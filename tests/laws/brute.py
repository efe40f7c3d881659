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


def cost(X, centers, weights=None):
    """The inertia of nearest centres."""
    return inertia(X, centers, nearest(X, centers), weights)


def lloyd(X, init, weights=None, tol=1e-4, max_iter=300, metric="euclidean"):
    """Return the Fit that every algorithm must reach from the start `init`."""
    dtype = X.dtype
    spherical = metric == "cosine"
    X = unit_rows(X) if spherical else dense64(X)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, np.float64)
    centers = unit_rows(init) if spherical else dense64(init)
    centers = centers.astype(dtype).astype(np.float64)
    tol, old = tol * X.var(axis=0).mean(), None
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
    total = inertia(X, centers, labels, weights)
    return Fit(labels, centers, total / 2 if spherical else total, n_iter)


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


def assert_two_nearest(near, d, medoids, *, ties=True):
    """Compare with a sort of all distances `d`; with `ties`, ties must go to the lowest slot."""
    rows, nodes = d[medoids], np.arange(d.shape[1])
    order = np.argsort(rows, axis=0, kind="stable")
    cost = np.take_along_axis(rows, order, axis=0)
    first, second = order[0], order[min(1, len(medoids) - 1)]
    second_cost = cost[1] if len(medoids) > 1 else np.full(len(nodes), np.inf)
    assert np.array_equal(near.cost, cost[0])
    assert np.array_equal(near.second_cost, second_cost)
    assert np.array_equal(rows[near.labels, nodes], cost[0])
    if len(medoids) > 1:
        assert np.array_equal(rows[near.second, nodes], second_cost)
        assert (near.labels != near.second).all()
    if ties:
        assert np.array_equal(near.labels, first)
        assert np.array_equal(near.second, second)


def medoid_cost(D, medoids, weight=None):
    nearest = D[medoids].min(axis=0)
    return float(nearest.sum() if weight is None else nearest @ weight)


def best_swap(D, medoids, weight=None):
    """The least cost after a single swap, by trying all."""
    return min(
        medoid_cost(D, np.r_[np.delete(medoids, m), c], weight)
        for m in range(len(medoids))
        for c in range(len(D))
    )
