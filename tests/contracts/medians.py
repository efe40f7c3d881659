"""Points in every kind of metric, for the contract of k-median."""

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(c, 0.6, size=(30, 3)) for c in ((0, 0, 0), (5, 0, 1), (0, 6, 2))])


def ring(n=60, seed=0):
    """Return a ring of n nodes with some chords."""
    rng = np.random.default_rng(seed)
    A = np.zeros((n, n))
    for i in range(n):
        A[i, (i + 1) % n] = 1 + rng.random()
    for i, j in rng.integers(n, size=(n // 3, 2)):
        if abs(i - j) > 2:
            A[i, j] = 3 + rng.random()
    return sparse.csr_array(np.maximum(A, A.T))


CASES = {
    "euclidean": (X, "euclidean"),
    "manhattan": (X, "manhattan"),
    "cosine": (np.abs(X) + 0.1, "cosine"),
    "precomputed": (cdist(X, X), "precomputed"),
    "callable": (X, lambda a, b: float(np.abs(a - b).max())),
    "graph": (ring(), "graph"),
    "words": (
        ["pear", "peas", "bear", "zebra", "cobra", "sabre"],
        lambda a, b: len(set(a) ^ set(b)),
    ),
}


def pairs(points, metric):
    if metric == "graph":
        return dijkstra(points, directed=False)
    if metric == "precomputed":
        return points
    if callable(metric):
        return np.array([[metric(a, b) for b in points] for a in points], dtype=float)
    return cdist(points, points, "cityblock" if metric == "manhattan" else metric)


SQUARE = cdist(X, X)


def broken(i, j, value, both=True):
    D = SQUARE.copy()
    D[i, j] = value
    if both:
        D[j, i] = value
    return D
