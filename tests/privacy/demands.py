"""Small private k-median tasks, and what their releases were made from."""

from unittest.mock import patch

import numpy as np
from api import Accountant, Cost, DemandTask, DistanceMatrix, Graph, Loss, Secret, Vectors
from scipy import sparse

FREE = Cost(epsilon=1e9)  # next to no noise


def whole_distances(n, rng):
    """A matrix of whole numbers that is a metric, without ties."""
    D = np.triu(rng.permutation(n * n).reshape(n, n) + n * n, 1).astype(np.float64)
    return DistanceMatrix(D + D.T)


def ring(n, rng):
    """A graph: a ring with a few chords."""
    a = np.concatenate([np.arange(n), rng.integers(n, size=n // 4)])
    b = np.concatenate([(np.arange(n) + 1) % n, rng.integers(n, size=n // 4)])
    lengths = rng.integers(1, 1000, len(a)).astype(np.float64)
    A = sparse.csr_array((lengths[a != b], (a[a != b], b[a != b])), shape=(n, n))
    return Graph(sparse.csr_array(A.maximum(A.T)))


def spaces(rng, n=40):
    X = rng.normal(size=(n, 3))
    return {
        "matrix": whole_distances(n, rng),
        "euclidean": Vectors(X, "euclidean"),
        "float32": Vectors(X.astype(np.float32), "manhattan"),
        "graph": ring(n, rng),
    }


def task_of(space, demand, k=3, adjacency="add-remove", *, epsilon=1.0, delta=0.0, seed=0):
    rng = np.random.default_rng(seed)
    return DemandTask(
        space, Secret(np.asarray(demand, dtype=np.int64)), k, adjacency, Loss(epsilon, delta), rng
    )


def asked(run):
    """The exact queries that `run()` made releases from."""
    queries, true = [], Accountant.release

    def watched(accountant, query, cost):
        queries.append(query.reveal("for a test"))
        return true(accountant, query, cost)

    with patch.object(Accountant, "release", watched):
        run()
    return queries
