"""Data that the laws are tested on, and the choices that must agree on them."""

from itertools import product

import numpy as np
import pytest
from api import OBJECTIVES, SCANS
from scipy import sparse

from kvariates import KMeans

ALGORITHMS = [name for name in SCANS if name != "bytes"]  # all of them give the same fit
METRICS = list(OBJECTIVES)
DTYPES = [np.float32, np.float64]
LAYOUTS = {"dense": np.ascontiguousarray, "csr": sparse.csr_array}
every_matrix = pytest.mark.parametrize(("dtype", "layout"), [*product(DTYPES, LAYOUTS)])
every_metric = pytest.mark.parametrize("metric", METRICS)
weighted_or_not = pytest.mark.parametrize("weighted", [False, True])


def fit(X, init, weights=None, **options):
    """Fit from the given start."""
    model = KMeans(len(init), init=init, n_init=1, **options)
    return model.fit(X, sample_weight=weights)


def cluster(data, k=3, sample_weight=None, **options):
    """Fit from a seed."""
    return KMeans(k, random_state=0, **options).fit(data, sample_weight=sample_weight)


def rows(n, d, dtype=np.float64, seed=0, sparsity=0.0, groups=5):
    """Return overlapping groups: labels change for many iterations, and ties are rare."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(groups, d))[rng.integers(groups, size=n)]
    if sparsity:
        X[rng.random(X.shape) < sparsity] = 0
        X[:, 0] += np.where(np.abs(X).sum(axis=1) == 0, 1.0, 0.0)
    return X.astype(dtype)


def start(X, k, seed=1):
    """Return k different rows, so that no cluster is empty at first."""
    X = X.toarray() if sparse.issparse(X) else X
    return X[np.random.default_rng(seed).permutation(len(X))[:k]].copy()


def weights_for(n, seed=0):
    """Return weights of many sizes, some of them zero."""
    rng = np.random.default_rng(seed)
    return rng.exponential(size=n) ** 2 * (rng.random(n) < 0.9)


def same_bits(a, b):
    """Return whether two fits agree to the last bit."""
    return (
        a.cluster_centers_.tobytes() == b.cluster_centers_.tobytes()
        and a.labels_.tobytes() == b.labels_.tobytes()
        and a.inertia_ == b.inertia_
        and a.n_iter_ == b.n_iter_
    )


def close(dtype):
    """Return tolerances for values that were rounded to `dtype` once."""
    return {"rtol": 2e-6, "atol": 2e-6} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-11}
