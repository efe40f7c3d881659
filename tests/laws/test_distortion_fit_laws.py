"""Lloyd under a distortion: it never raises the cost, and finds what other ways find."""

import itertools

import numpy as np
import pytest
from api import Mahalanobis, filled, in_dtype, mean_row
from laws import divergences
from laws.brute import lloyd
from laws.divergences import every, fitted, lloyd_under, measured, rows, table, weights_of
from scipy import sparse


@every
@divergences.weighted
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_step_raises_the_cost(name, with_weights, dtype):
    X = rows(name, 500, 5, seed=2, dtype=dtype)
    w = weights_of(500) if with_weights else None
    share = np.ones(500) if w is None else w
    distortion = fitted(name, X, w)
    costs = []

    def watch(step):
        costs.append(step.statistics.cost)
        return False

    start = distortion.seed(X, np.arange(1, 10))
    start[7:] = 50 * X.max(axis=0)  # two clusters start empty, and would stay so
    fit = lloyd_under(distortion, X, start, w, max_iter=200, tol=0, callback=watch)
    costs = np.array(costs)
    assert fit.converged
    assert fit.n_iter == len(costs) > 5, "too easy"
    assert (np.diff(costs) <= 1e-12 * costs[:-1]).all()
    assert (np.diff(costs[:-1]) < 0).all()
    assert fit.inertia == pytest.approx(costs[-1], rel=1e-6 if dtype == np.float32 else 1e-11)
    assert fit.centers.dtype == dtype
    assert len(np.unique(fit.labels[share > 0])) == 9
    labels, cost = divergences.labelled(distortion, X, fit.centers.astype(np.float64))
    assert np.array_equal(labels, fit.labels)
    assert fit.inertia == pytest.approx(float((share * cost)[share > 0].sum()), rel=1e-13)


@every
def test_a_fit_stops_as_it_is_told(name):
    X = rows(name, 300, 4, seed=6)
    distortion = fitted(name, X)
    start = distortion.seed(X, np.arange(6))

    def fit(**options):
        options = {"tol": 0, "max_iter": 99} | options
        return lloyd_under(distortion, X, start, None, **options)

    assert fit().n_iter > 4
    assert fit(max_iter=3).n_iter == 3
    assert not fit(max_iter=3).converged
    assert fit(tol=1e9).n_iter == 1
    assert fit(callback=lambda step: step.iteration == 1).n_iter == 2
    again = lloyd_under(distortion, X, fit().centers, None, max_iter=99, tol=0)
    assert np.array_equal(again.labels, fit().labels)
    assert again.n_iter <= 2


@every
def test_a_weight_equals_repeated_rows(name):
    X = rows(name, 80, 3, seed=7)
    counts = np.random.default_rng(8).integers(0, 4, size=80)
    w, repeated = counts.astype(np.float64), np.repeat(X, counts, axis=0)
    fits = []
    for data, weight in ((X, w), (repeated, None)):
        distortion = fitted(name, data, weight)
        start = distortion.seed(np.concatenate([data, X[counts > 0][:4]]), np.arange(4) + len(data))
        fits.append(lloyd_under(distortion, data, start, weight, max_iter=99, tol=0))
    one, other = fits
    assert np.array_equal(np.repeat(one.labels, counts), other.labels)
    assert np.allclose(one.centers, other.centers, rtol=1e-7 if name == "total-jensen" else 1e-9)
    assert one.inertia == pytest.approx(other.inertia, rel=1e-10)


def test_an_empty_cluster_gets_the_row_of_largest_weighted_divergence():
    labels = np.array([0, 0, 0, 2, 2, 2], dtype=np.int32)
    cost = np.array([1.0, 2, 3, 4, 50, 6])
    assert filled(labels, cost, None, 4).tolist() == [0, 0, 0, 2, 1, 3]
    w = np.array([1.0, 9, 1, 1, 0, 1])
    assert filled(labels, cost, w, 3).tolist() == [0, 1, 0, 2, 2, 2]
    assert filled(labels, np.zeros(6), None, 4).tolist() == labels.tolist()
    alone = np.array([0, 1, 1, 1, 1, 1], dtype=np.int32)
    assert filled(alone, np.array([9.0, 1, 2, 3, 4, 5]), None, 3).tolist() == [0, 1, 1, 1, 1, 2]


def test_rounding_a_centre_leaves_no_new_zero():
    """A mean may be smaller than float32 can hold; as a zero it would be infinitely far."""
    X = np.array([[1.0, 1e-40], [1.0, 0], [1.0, 0]], dtype=np.float32)
    w = np.array([1e-12, 1.0, 1.0])
    kl = fitted("kl", X, w)
    fit = lloyd_under(kl, X, kl.seed(X, np.array([0])), w, max_iter=5, tol=0)
    assert mean_row(kl.prepare(X), w)[1] < 1e-46
    assert fit.centers[0, 1] > 0
    assert np.isfinite(fit.inertia)
    assert in_dtype(np.array([[0.0, -1e-60]]), np.dtype(np.float32)).tolist()[0][0] == 0


# ---- against other ways to the same answer ----


@pytest.mark.parametrize("csr", [sparse.csr_array, sparse.csr_matrix])
def test_kl_of_csr_rows_is_that_of_dense_ones(csr):
    X = rows("kl", 400, 7)
    X[5] = 0
    kl, w = fitted("kl", csr(X), weights_of(400)), weights_of(400)
    assert np.allclose(kl.mean, fitted("kl", X, w).mean, rtol=1e-13)
    C = np.concatenate([kl.seed(csr(X), np.arange(5)), X[7:9]])
    assert np.array_equal(C[:5], fitted("kl", csr(X), w).seed(X, np.arange(5)))
    assert np.allclose(measured(kl, csr(X), C), measured(kl, X, C), rtol=1e-12, atol=1e-12)
    sparse_fit = lloyd_under(kl, csr(X), C, w, max_iter=50, tol=0)
    dense_fit = lloyd_under(kl, X, C, w, max_iter=50, tol=0)
    assert np.array_equal(sparse_fit.labels, dense_fit.labels)
    assert np.allclose(sparse_fit.centers, dense_fit.centers, rtol=1e-12)
    assert sparse_fit.inertia == pytest.approx(dense_fit.inertia, rel=1e-12)


def best_partition(name, X, k):
    """The least cost of all ways to cut the rows into k, each with its best centre."""
    best = np.inf
    for labels in itertools.product(range(k), repeat=len(X) - 1):
        labels = np.array([0, *labels])
        if len(np.unique(labels)) < k:
            continue
        cost = sum(
            table(name, X[labels == j], X[labels == j].mean(axis=0)[None]).sum() for j in range(k)
        )
        best = min(best, cost)
    return best


@pytest.mark.parametrize("name", ["kl", "itakura-saito"])
@pytest.mark.parametrize(("n", "k", "seed"), [(8, 2, 0), (8, 2, 1), (7, 3, 2), (6, 3, 3)])
def test_the_best_restart_is_the_best_partition(name, n, k, seed):
    X = divergences.distributions(n, 3, seed)
    distortion, best = fitted(name, X), np.inf
    for start in itertools.combinations(range(n), k):
        centers = distortion.seed(X, np.array(start))
        fit = lloyd_under(distortion, X, centers, None, max_iter=99, tol=0)
        best = min(best, fit.inertia)
    assert best == pytest.approx(best_partition(name, X, k), rel=1e-10)


@divergences.weighted
@pytest.mark.parametrize("given_matrix", [False, True], ids=["estimated", "given"])
def test_mahalanobis_is_euclidean_of_whitened_rows(with_weights, given_matrix):
    X = rows("mahalanobis", 400, 4, seed=9) * [1, 1e5, 1e-4, 1] + [0, 1e6, 0, 5]
    w = weights_of(400) if with_weights else None
    matrix = np.diag([1.0, 1e10, 1e-8, 3.0]) if given_matrix else None
    distortion = Mahalanobis(matrix)
    distortion.check(X)
    distortion = distortion.fitted(X, w)
    S = divergences.covariance_of(X, w) if matrix is None else matrix
    white = X @ np.linalg.inv(np.linalg.cholesky(S)).T  # another root of the same inverse
    fit = lloyd_under(distortion, X, X[:7], w, max_iter=300, tol=0)
    peer = lloyd(white, white[:7], w, tol=0)
    assert np.array_equal(fit.labels, peer.labels)
    assert fit.inertia == pytest.approx(peer.inertia, rel=1e-6)
    own = np.ones(400) if w is None else w
    for j in range(7):
        mean = np.average(X[fit.labels == j], axis=0, weights=own[fit.labels == j])
        assert np.allclose(fit.centers[j], mean, rtol=1e-9, atol=1e-9)
