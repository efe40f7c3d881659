"""Problems with known optima, and their certificates."""

from fractions import Fraction
from itertools import combinations
from math import inf

import numpy as np
from api import Graph, certify
from scipy.sparse import csr_array


def exact_cost(D, weight, medoids):
    """The cost in rational numbers."""
    costs = D[list(medoids)].min(axis=0)
    return sum(Fraction(float(w)) * Fraction(float(c)) for w, c in zip(weight, costs, strict=True))


def optimum(D, weight, k):
    """The best medoids and their cost, by trying all."""
    best = min(combinations(range(len(D)), k), key=lambda chosen: exact_cost(D, weight, chosen))
    return np.array(best), exact_cost(D, weight, best)


def line_optimum(x, k):
    """The best k medoids on a line: each serves an interval (dynamic programming)."""
    x = np.sort(x)
    n = len(x)
    one = np.full((n + 1, n + 1), inf)
    for i in range(n):
        for j in range(i + 1, n + 1):
            one[i, j] = np.abs(x[i:j] - x[(i + j) // 2]).sum()
    cost, cut = np.full((k + 1, n + 1), inf), np.zeros((k + 1, n + 1), dtype=int)
    cost[0, 0] = 0
    for m in range(1, k + 1):
        for j in range(1, n + 1):
            options = cost[m - 1, :j] + one[:j, j]
            cut[m, j] = options.argmin()
            cost[m, j] = options.min()
    medoids, j = [], n
    for m in range(k, 0, -1):
        i = cut[m, j]
        medoids.append((i + j) // 2)
        j = i
    return x, np.array(medoids[::-1]), cost[k, n]


def certified(space, medoids, weight=None, seed=0, **options):
    near = space.two_nearest(np.asarray(medoids, dtype=np.int64))
    rng = np.random.default_rng(seed)
    return certify(space, len(medoids), near, weight, rng, **options)


def blobs(n, k, seed=0, spread=20.0):
    """Points around k centres, and a medoid near each of them."""
    rng = np.random.default_rng(seed)
    side = np.arange(k) * spread
    centers = np.stack([side, (side * 7) % (3 * spread)], axis=1)
    X = centers[rng.integers(k, size=n)] + rng.normal(size=(n, 2))
    medoids = [int(np.linalg.norm(X - center, axis=1).argmin()) for center in centers]
    return X, np.array(medoids)


def as_graph(D):
    """The complete graph with these lengths; equal points are joined by an edge of length zero."""
    n = len(D)
    row, column = np.nonzero(~np.eye(n, dtype=bool))
    return Graph(csr_array((D[row, column].astype(float), (row, column)), shape=(n, n)))
