"""Points for every metric of k-median. The cases are made from the table of metrics."""

import numpy as np
from api import DISTANCES, EDGES, MEDOID_SEEDINGS, METRICS, PLACES, ROWS
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import haversine_distances

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(c, 0.6, size=(30, 3)) for c in ((0, 0, 0), (5, 0, 1), (0, 6, 2))])
SQUARE = cdist(X, X)
INITS = [*MEDOID_SEEDINGS, [0, 1, 2]]


def ring(n=60, seed=0):
    """A ring of n nodes with some chords."""
    rng = np.random.default_rng(seed)
    A = np.zeros((n, n))
    for i in range(n):
        A[i, (i + 1) % n] = 1 + rng.random()
    for i, j in rng.integers(n, size=(n // 3, 2)):
        if abs(i - j) > 2:
            A[i, j] = 3 + rng.random()
    return sparse.csr_array(np.maximum(A, A.T))


def components(*graphs):
    return sparse.block_diag(graphs, format="csr")


def largest(a, b):
    return float(np.abs(a - b).max())


def letters(a, b):
    return len(set(a) ^ set(b))


EARTH = np.stack([X[:, 0] / 8, X[:, 1] / 2], axis=1)  # latitude and longitude
POINTS = {ROWS: np.abs(X) + 0.1, PLACES: EARTH, DISTANCES: SQUARE, EDGES: ring()}
CASES = {name: (POINTS[entry.needs], name) for name, entry in METRICS.items()}
CASES["callable"] = X, largest
CASES["words"] = ["pear", "peas", "bear", "zebra", "cobra", "sabre"], letters


def pairs(points, metric):
    """All distances, computed without the library if scipy knows the metric."""
    if callable(metric):
        return np.array([[metric(a, b) for b in points] for a in points], dtype=float)
    needs = METRICS[metric].needs
    if needs == EDGES:
        return dijkstra(points, directed=False)
    if needs == DISTANCES:
        return points
    if needs == PLACES:
        return haversine_distances(points)
    known = {"euclidean": "euclidean", "manhattan": "cityblock", "cosine": "cosine"}
    if metric in known:
        return cdist(points, points, known[metric])
    return METRICS[metric].run(points, None).distances(np.arange(len(points)))


def broken(i, j, value, both=True):
    """A matrix of distances with one wrong entry, or two."""
    D = SQUARE.copy()
    D[i, j] = value
    if both:
        D[j, i] = value
    return D
