"""Fingerprints of everything the library computes, printed as JSON: run as a script.

Two runs under different numbers of threads or instruction sets must print the same.
"""

import hashlib
import itertools
import json

import numpy as np
from scipy import sparse

from kvariates import KMeans, KMedian, kmeans_plusplus
from kvariates.data.hst_tree import grow
from kvariates.data.rows import Rows
from kvariates.refining import medoid_search

# Several tiles and a ragged last one; narrow, middling and wide rows; few and many centres.
SHAPES = [(13001, 2, 17), (9001, 19, 33), (4500, 131, 12), (4200, 600, 9)]
# Enough that threads share the distances and look ahead for swaps; features that leave a rest.
MEDIANS = [(2501, 2, 17), (2203, 19, 9), (1801, 131, 40), (1203, 600, 5)]


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


def median(X, k, metric, certify=True, **options):
    model = KMedian(k, metric=metric, certify=certify, random_state=0, **options).fit(X)
    kept = model.medoid_indices_, model.labels_, np.float64(model.inertia_)
    bound = model.certificate_.lower_bound if certify else 0.0
    return digest(*kept, np.float64(bound)) + f" {model.n_swaps_}"


def medians():
    for (n, d, k), dtype in itertools.product(MEDIANS, (np.float32, np.float64)):
        X = data(n, d, dtype, "dense")
        X[:, : d // 3] = 0  # blank
        for metric in ("euclidean", "manhattan", "cosine"):
            yield (
                f"median {n}x{d} {np.dtype(dtype)} {metric}",
                median(X, k, metric, metric == "euclidean"),
            )
    D = np.random.default_rng(3).integers(50, 99, size=(700, 700)).astype(float)
    D = np.maximum(D, D.T) * (1 - np.eye(700))
    yield "median precomputed", median(D, 30, "precomputed", n_restarts=20)
    row, column = np.arange(900), np.arange(900).reshape(30, 30).T.ravel()
    length = np.random.default_rng(4).random(899) + 0.1
    half = sparse.coo_array((length, (row[:-1], row[1:])), shape=(900, 900))
    half = half + sparse.coo_array((length, (column[:-1], column[1:])), shape=(900, 900))
    yield "median graph", median(half + half.T, 8, "graph", n_restarts=1)
    matrix_bytes, medoid_search.MATRIX_BYTES = medoid_search.MATRIX_BYTES, 2**24
    X = data(*MEDIANS[0][:2], np.float32, "dense")
    sample, medoid_search.SAMPLE = medoid_search.SAMPLE, 1000
    yield "median sampled", median(X, 17, "manhattan", certify=False)
    medoid_search.MATRIX_BYTES, medoid_search.SAMPLE = matrix_bytes, sample


def fingerprints():
    found = dict(medians())
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
            tree = grow(Rows.of(X), np.random.default_rng(2))
            found[f"{name} tree"] = digest(tree.parent, tree.height, tree.center, tree.leaf)
        for variant, print_ in fits(X, k, weights):
            found[f"{name} {variant}"] = print_
    far = data(9001, 19, np.float32, "dense", offset=1e4)
    found.update({f"far {variant}": print_ for variant, print_ in fits(far, 20, None)})
    return found


if __name__ == "__main__":
    print(json.dumps(fingerprints()))
