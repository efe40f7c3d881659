"""Few rows are answered as many: `predict` and `transform` of a row do not depend on the others.

Few rows and many take different ways through the kernels.
"""

import pickle

import numpy as np
import pytest
from laws import reference
from laws.cases import METRICS, every_matrix, every_metric
from laws.threads import on_threads
from scipy import sparse
from sklearn.base import clone

from kvariates import KMeans

COUNTS = (1, 2, 5, 16, 17, 65)  # some take exact distances, others a filter


def grid(n, d, dtype, seed=0):
    """Many rows are as far from one centre as from another."""
    return np.random.default_rng(seed).integers(-2, 3, (n, d)).astype(dtype) + dtype(0.5)


def fitted(centers, metric="euclidean"):
    return KMeans(len(centers), init=centers, n_init=1, max_iter=1, metric=metric).fit(centers)


def assert_parts_agree(model, X):
    labels, distances = model.predict(X), model.transform(X)
    for count in COUNTS:
        for first in (0, X.shape[0] - count):
            part = slice(first, first + count)
            assert np.array_equal(model.predict(X[part]), labels[part])
            assert model.transform(X[part]).tobytes() == distances[part].tobytes()
    return labels


@every_metric
@every_matrix
@pytest.mark.parametrize("shape", [(3, 2), (40, 15), (300, 16), (700, 37)])
def test_a_row_has_the_label_that_it_has_among_others(shape, dtype, layout, metric):
    X, centers = grid(200, shape[1], dtype), grid(*shape, dtype, seed=1)
    centers = np.unique(centers, axis=0)
    model = fitted(centers, metric)
    for rows in (X, X.astype(np.float32), X.astype(np.float64)):
        labels = assert_parts_agree(model, rows if layout == "dense" else sparse.csr_array(rows))
        if metric == METRICS[0] and layout == "dense":
            D = reference.distances(X, model.cluster_centers_.astype(np.float64))
            assert np.array_equal(labels, reference.labels(D))


def test_centres_that_were_replaced_or_written_are_used():
    X, first = grid(100, 20, np.float32), grid(50, 20, np.float32, seed=1)
    model = fitted(first)
    before = assert_parts_agree(model, X)
    model.cluster_centers_[:] = grid(50, 20, np.float32, seed=2)  # in place
    written = assert_parts_agree(model, X)
    assert not np.array_equal(written, before)
    assert np.array_equal(written, fitted(model.cluster_centers_).predict(X))
    model.cluster_centers_ = first.astype(np.float64)  # of another type
    assert np.array_equal(assert_parts_agree(model, X), fitted(first).predict(X))
    model.cluster_centers_ = first[::-1].tolist()
    assert np.array_equal(assert_parts_agree(model, X), fitted(first[::-1]).predict(X))


def test_copies_answer_alike():
    X, model = grid(100, 20, np.float32), fitted(grid(50, 20, np.float32, seed=1))
    size = len(pickle.dumps(model))
    labels = assert_parts_agree(model, X)
    assert len(pickle.dumps(model)) == size  # nothing is kept for later calls
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(X[:3]), labels[:3])
    assert np.array_equal(clone(model).fit(model.cluster_centers_).predict(X[:3]), labels[:3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_threads_answer_alike(dtype):
    model, x = fitted(np.unique(grid(900, 70, dtype, seed=1), axis=0)), grid(3, 70, dtype)
    for ask in (model.predict, model.transform):
        alone, *others = on_threads(lambda ask=ask: ask(x))
        assert all(other.tobytes() == alone.tobytes() for other in others)
