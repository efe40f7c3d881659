"""Fingerprints of everything the library computes, printed as JSON: run as a script.

Two runs under different numbers of threads or instruction sets must print the same.
"""

import hashlib
import itertools
import json

import numpy as np
from scipy import sparse

from kvariates import KMeans, kmeans_plusplus
from kvariates.geometry.euclidean import Space
from kvariates.geometry.hst import grow

# Several tiles and a ragged last one; narrow, middling and wide rows; few and many centres.
SHAPES = [(13001, 2, 17), (9001, 19, 33), (4500, 131, 12), (4200, 600, 9)]


def data(n, d, dtype, layout, offset=0.0):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, d)) + 3 * rng.normal(size=(7, d))[rng.integers(7, size=n)] + offset
    if layout == "csr":
        X[rng.random(X.shape) < 0.7] = 0
        X[:, 0] += 0.5
        return sparse.csr_array(X.astype(dtype))
    return X.astype(dtype)


def digest(*arrays):
    h = hashlib.sha256()
    for array in arrays:
        h.update(np.ascontiguousarray(array).tobytes())
    return h.hexdigest()[:16]


def fits(X, k, weights):
    for algorithm, metric in itertools.product(
        ("lloyd", "elkan", "hamerly"), ("euclidean", "cosine")
    ):
        model = KMeans(k, random_state=0, algorithm=algorithm, metric=metric, max_iter=6)
        model.fit(X, sample_weight=weights)
        kept = model.cluster_centers_, model.labels_, np.float64(model.inertia_)
        rest = model.predict(X), model.transform(X), np.float64(model.score(X))
        yield f"{algorithm} {metric}", digest(*kept, *rest) + f" {model.n_iter_}"


def fingerprints():
    found = {}
    for (n, d, k), dtype, layout in itertools.product(
        SHAPES, (np.float32, np.float64), ("dense", "csr")
    ):
        if layout == "csr" and d > 131:
            continue
        X = data(n, d, dtype, layout)
        weights = np.random.default_rng(1).exponential(size=n) if d != 19 else None
        name = f"{n}x{d} {np.dtype(dtype)} {layout}"
        for trials in (1, None):
            drawn = kmeans_plusplus(
                X, 3 * k, sample_weight=weights, n_local_trials=trials, random_state=0
            )
            found[f"{name} seeds {trials}"] = digest(*drawn)
        if layout == "dense" or n < 5000:
            tree = grow(Space.of(X), np.random.default_rng(2))
            found[f"{name} tree"] = digest(tree.parent, tree.height, tree.center, tree.leaf)
        for variant, print_ in fits(X, k, weights):
            found[f"{name} {variant}"] = print_
    far = data(9001, 19, np.float32, "dense", offset=1e4)
    found.update({f"far {variant}": print_ for variant, print_ in fits(far, 20, None)})
    return found


if __name__ == "__main__":
    print(json.dumps(fingerprints()))
