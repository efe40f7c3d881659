"""Rows in known clusters, and equality of two choices of k."""

import numpy as np

COLUMNS = ("ks", "inertia", "elbow", "silhouette", "dividing")
FAST = {"k_range": (1, 5), "random_state": 0}


def blobs(k, seed, n=400, d=3, apart=7.0):
    """Return unit Gaussians around k centres, no two of which are closer than `apart`."""
    rng = np.random.default_rng([k, seed])
    centers = np.empty((0, d))
    while len(centers) < k:
        fresh = rng.uniform(-10, 10, size=(1, d))
        if ((centers - fresh) ** 2).sum(axis=1).min(initial=np.inf) > apart**2:
            centers = np.vstack([centers, fresh])
    return centers[np.arange(n) % k] + rng.normal(size=(n, d))


def same(a, b):
    return (
        (a.k, a.clear, a.reason) == (b.k, b.clear, b.reason)
        and all(np.array_equal(getattr(a, c), getattr(b, c), equal_nan=True) for c in COLUMNS)
        and all(np.array_equal(x, y) for x, y in zip(a.solutions, b.solutions, strict=True))
    )
