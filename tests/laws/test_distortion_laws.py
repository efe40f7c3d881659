"""Distortions: formulas, nearest centres, best centres, and a loop that never raises the cost.

Every formula is written here a second time, as the papers have it.
"""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from laws.brute import lloyd
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import kl_div, xlogy
from threadpoolctl import threadpool_limits

from kvariates.geometry.bregman import KullbackLeibler
from kvariates.geometry.distortion import MIX, mean_row
from kvariates.geometry.distortions import DISTORTIONS
from kvariates.geometry.mahalanobis import Mahalanobis
from kvariates.refining.distorted import filled, in_dtype, refine_distorted

NAMES = list(DISTORTIONS)
every = pytest.mark.parametrize("name", NAMES)
weighted = pytest.mark.parametrize("with_weights", [False, True], ids=["unweighted", "weighted"])


def total_jensen(X, C):
    def F(x):  # noqa: N802 - the paper's name
        return (xlogy(x, x) - x).sum(axis=-1)

    X, C = X[:, None, :], C[None]
    jensen = (F(X) + F(C)) / 2 - F((X + C) / 2)
    squares = ((X - C) ** 2).sum(axis=-1)
    slope2 = np.where(squares > 0, (F(X) - F(C)) ** 2 / np.where(squares > 0, squares, 1), 0)
    return jensen / np.sqrt(1 + slope2)


def mahalanobis(X, C, covariance):
    gap = X[:, None, :] - C[None]
    return np.einsum("ijk,kl,ijl->ij", gap, np.linalg.inv(covariance), gap)


def covariance_of(X, weights=None):
    return np.cov(X.T, bias=True, aweights=weights).reshape(X.shape[1], X.shape[1])


def table(name, X, C, weights=None):
    """D of every row to every centre, by the book. Mahalanobis: of X's own covariance."""
    X, C = np.asarray(X, dtype=np.float64), np.asarray(C, dtype=np.float64)
    if name == "kl":
        return kl_div(X[:, None, :], C[None]).sum(axis=-1)
    if name == "itakura-saito":
        ratio = X[:, None, :] / C[None]
        return (ratio - np.log(ratio) - 1).sum(axis=-1)
    if name == "mahalanobis":
        return mahalanobis(X, C, covariance_of(X, weights))
    return total_jensen(X, C)


def rows(name, n, d, seed=0, dtype=np.float64):
    """Overlapping groups that the distortion is defined for; with zeros where they are allowed."""
    rng = np.random.default_rng(seed)
    shape = rng.gamma(2.0, size=(4, d))[rng.integers(4, size=n)] + 0.3
    X = rng.gamma(4 * shape, 0.25)
    if name in ("kl", "total-jensen"):
        X[rng.random(X.shape) < 0.2] = 0
    if name == "mahalanobis":
        X = (X - 1) @ rng.normal(size=(d, d))
    return X.astype(dtype)


def weights_of(n, seed=5):
    w = np.random.default_rng(seed).exponential(size=n)
    w[:: max(2, n // 5)] = 0
    return w


def fitted(name, X, weights=None):
    distortion = DISTORTIONS[name]
    distortion.check(X)
    return distortion.fitted(X, weights)


def measured(distortion, X, centers):
    """D of every row to every centre, by `divergence`."""
    X, centers = distortion.prepare(X), distortion.prepare(centers)
    return np.stack([distortion.divergence(X, center) for center in centers], axis=1)


def labelled(distortion, X, centers):
    return distortion.nearest(distortion.prepare(X), distortion.prepare(centers))


# ---- the divergence ----


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(1, 1), (7, 1), (40, 3), (300, 17)])
def test_divergence_is_the_formula(name, n, d, dtype):
    X = rows(name, n, d, dtype=dtype)
    if name == "mahalanobis" and n <= d:
        pytest.skip("no covariance of full rank")
    distortion = fitted(name, X)
    C = rows(name, 5, d, seed=1)
    C[0] = X[-1]
    expected = table(name, X, C)
    np.testing.assert_allclose(measured(distortion, X, C), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["kl", "itakura-saito", "total-jensen"])
def test_divergence_keeps_its_digits_close_to_the_centre(name):
    """phi'' (x - c)^2 / 2 is the limit, a quarter of it for Jensen; plain formulas lose it all."""
    x, gap = np.array([[0.7, 2.0, 30.0]]), np.array([1e-7, -2e-7, 3e-6])
    second = 1 / x[0] ** 2 if name == "itakura-saito" else 1 / x[0]
    limit = (second * gap**2).sum() / 2
    if name == "total-jensen":
        slope = (np.log(x[0]) * gap).sum() / np.sqrt((gap**2).sum())
        limit = limit / 4 / np.sqrt(1 + slope**2)
    found = DISTORTIONS[name].divergence(x, x[0] + gap)[0]
    assert found == pytest.approx(limit, rel=1e-5)


@every
def test_divergence_is_zero_on_the_row_and_positive_off_it(name):
    X = np.unique(rows(name, 60, 3), axis=0)
    distortion = fitted(name, X)
    D = measured(distortion, X, X)
    assert (np.diagonal(D) == 0).all()
    assert (D[~np.eye(len(X), dtype=bool)] > 0).all()


def test_total_jensen_is_symmetric_and_kl_is_not():
    X = rows("itakura-saito", 50, 4)
    D = measured(DISTORTIONS["total-jensen"], X, X)
    assert np.array_equal(D, D.T)
    D = measured(DISTORTIONS["kl"], X, X)
    assert np.abs(D - D.T).max() > 0.1


def test_kl_zeros():
    kl = DISTORTIONS["kl"]
    X = np.array([[0.0, 2.0], [1.0, 1.0], [0.0, 0.0]])
    assert kl.divergence(X, np.array([0.0, 2.0])).tolist() == [0.0, np.inf, 2.0]


# ---- the nearest centre ----


def check_nearest(name, X, C):
    distortion = fitted(name, X)
    D = measured(distortion, X, C)
    labels, cost = labelled(distortion, X, C)
    assert labels.dtype == np.int32
    if name == "mahalanobis":  # squared by another kernel: ties may be broken by a rounding
        assert np.allclose(D[np.arange(len(D)), labels], D.min(axis=1), rtol=1e-12, atol=1e-13)
        assert np.allclose(cost, D.min(axis=1), rtol=1e-12, atol=1e-13)
    else:
        assert np.array_equal(labels, D.argmin(axis=1))
        assert np.array_equal(cost, D.min(axis=1))
    book = table(name, X, C)
    found = book[np.arange(len(book)), labels]
    assert np.allclose(found, book.min(axis=1), rtol=1e-9, atol=1e-11)


@every
@pytest.mark.parametrize("k", [1, 2, 9, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_nearest_is_the_argmin_of_the_divergence(name, k, dtype):
    X = rows(name, 700, 6, dtype=dtype)
    check_nearest(name, X, fitted(name, X).seed(X, np.arange(k)))


@every
@given(data=st.data(), k=st.integers(1, 6), d=st.integers(1, 4))
def test_nearest_with_ties_zeros_and_copies(name, data, k, d):
    """Small whole numbers tie all the time, and their zeros make KL centres infinitely far."""
    least = 1 if name == "itakura-saito" else 0
    cell = st.integers(least, 3)
    rows_ = st.lists(cell, min_size=d, max_size=d)
    X = np.array(data.draw(st.lists(rows_, min_size=2, max_size=12)), dtype=np.float64)
    C = np.array(data.draw(st.lists(rows_, min_size=k, max_size=k)), dtype=np.float64)
    if name == "mahalanobis":
        X = np.concatenate([X, np.eye(d), -np.eye(d)])  # of full rank
    check_nearest(name, X, C)


@pytest.mark.parametrize("name", ["kl", "itakura-saito"])
@pytest.mark.parametrize("gap", [0.0, 1e-16, 1e-15, 1e-14, 1e-12, 1e-9])
def test_near_ties_are_settled_by_the_divergence(name, gap):
    """Centres a rounding apart: the matrix product cannot tell them, the divergence decides."""
    rng = np.random.default_rng(3)
    X = rng.gamma(2.0, size=(2000, 5)) * 10.0 ** rng.integers(-3, 4, size=5)
    C = np.repeat(X[:2], 4, axis=0) * (1 + gap * rng.normal(size=(8, 5)))
    D = measured(DISTORTIONS[name], X, C)
    assert np.array_equal(DISTORTIONS[name].nearest(X, C)[0], D.argmin(axis=1))


def test_the_product_alone_would_not_do():
    """The test above can fail: on its data the plain argmin of the scores is often wrong."""
    kl, rng = DISTORTIONS["kl"], np.random.default_rng(3)
    X = rng.gamma(2.0, size=(2000, 5)) * 10.0 ** rng.integers(-3, 4, size=5)
    C = np.repeat(X[:2], 4, axis=0) * (1 + 1e-15 * rng.normal(size=(8, 5)))
    b, h = kl._affine(C)
    assert (h >= 0).all()
    assert (b >= 0).all()
    assert np.mean((X @ h.T + b).argmin(axis=1) != measured(kl, X, C).argmin(axis=1)) > 0.05


def test_an_infinitely_far_centre_is_never_nearest_unless_all_are():
    X = np.array([[1.0, 1, 0], [0, 1, 0], [1, 0, 5], [1e-90, 1, 0]])
    C = np.array([[0.0, 1, 0], [9, 9, 0], [0.0, 1, 0]])
    labels, cost = DISTORTIONS["kl"].nearest(X, C)
    assert labels.tolist() == [1, 0, 0, 1]
    assert cost[1] == 0
    assert np.isinf(cost).tolist() == [False, False, True, False]


@pytest.mark.parametrize("csr", [sparse.csr_array, sparse.csr_matrix])
def test_kl_of_csr_rows_is_that_of_dense_ones(csr):
    X = rows("kl", 400, 7)
    X[5] = 0
    kl, w = fitted("kl", csr(X), weights_of(400)), weights_of(400)
    assert np.allclose(kl.mean, fitted("kl", X, w).mean, rtol=1e-13)
    C = np.concatenate([kl.seed(csr(X), np.arange(5)), X[7:9]])
    assert np.array_equal(C[:5], fitted("kl", csr(X), w).seed(X, np.arange(5)))
    assert np.allclose(measured(kl, csr(X), C), measured(kl, X, C), rtol=1e-12, atol=1e-12)
    sparse_fit = refine_distorted(csr(X), C, w, kl, max_iter=50, tol=0)
    dense_fit = refine_distorted(X, C, w, kl, max_iter=50, tol=0)
    assert np.array_equal(sparse_fit.labels, dense_fit.labels)
    assert np.allclose(sparse_fit.centers, dense_fit.centers, rtol=1e-12)
    assert sparse_fit.inertia == pytest.approx(dense_fit.inertia, rel=1e-12)


@every
def test_threads_change_no_bit(name):
    X = rows(name, 3000, 24, seed=4)
    fits = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            distortion = fitted(name, X)
            C = distortion.seed(X, np.arange(8))
            fits.append(refine_distorted(X, C, None, distortion, max_iter=4, tol=0))
    for other in fits[1:]:
        assert fits[0].labels.tobytes() == other.labels.tobytes()
        assert fits[0].centers.tobytes() == other.centers.tobytes()
        assert fits[0].inertia == other.inertia


# ---- the best centre ----


def summed(distortion, R, w, c):
    return float((w * distortion.divergence(R, c)).sum())


def local_size(R, c):
    """A relative step from c that is small beside the way to any row: there D is not smooth."""
    way = np.abs(R - c).max(axis=1)
    return min([0.01, *(0.1 * way[way > 1e-9] / max(c.max(), 1e-300))])


@every
@given(seed=st.integers(0, 10**6), n=st.integers(1, 9), d=st.integers(1, 4))
@example(seed=0, n=1, d=1)
@example(seed=156, n=2, d=2)  # total Jensen: a narrow valley, too long for gradient steps
def test_no_other_centre_is_better(name, seed, n, d):
    rng = np.random.default_rng(seed)
    X = rows(name, n + 3 * d, d, seed)
    distortion = fitted(name, X)
    R, w = distortion.prepare(X[:n]), rng.exponential(size=n)
    best = distortion.center(R, w)
    least = summed(distortion, R, w, best)
    # Total Jensen has local minima, and the search ends where it gains no 1e-13 of the sum.
    local = local_size(R, best)
    sizes = [local / 10, local] if name == "total-jensen" else [1e-3, 0.1, 0.5]
    slack = 1e-9 if name == "total-jensen" else 1e-12
    for size in sizes:
        for noise in rng.uniform(-1, 1, size=(6, d)):
            off = best + size * noise if name == "mahalanobis" else best * np.exp(size * noise)
            assert least <= summed(distortion, R, w, off) * (1 + slack) + 1e-15
    if name != "total-jensen":
        assert np.allclose(best, np.average(R, axis=0, weights=w), rtol=1e-12)


def test_perturbing_a_wrong_centre_would_be_seen():
    """The test above can fail: away from the minimum some perturbation helps."""
    rng = np.random.default_rng(0)
    X, w = rows("itakura-saito", 8, 3), np.ones(8)
    for name in ("kl", "itakura-saito", "total-jensen"):
        D = DISTORTIONS[name]
        wrong = D.center(X, w) * 1.02
        offs = [wrong * np.exp(0.01 * rng.uniform(-1, 1, size=3)) for _ in range(6)]
        assert min(summed(D, X, w, off) for off in offs) < summed(D, X, w, wrong)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), d=st.integers(1, 4))
def test_total_jensen_centre_is_stationary(seed, n, d):
    rng = np.random.default_rng(seed)
    X, w, D = rows("total-jensen", n, d, seed), rng.exponential(size=n), DISTORTIONS["total-jensen"]
    found = D.center(X, w)
    assert (found[~X.any(axis=0)] == 0).all()

    def slope(c):
        size = local_size(X, c) / 10
        up, down = np.exp(size), np.exp(-size)
        sides = [
            [summed(D, X, w, np.where(np.arange(d) == j, c * side, c)) for side in (up, down)]
            for j in range(d)
        ]
        return np.abs([a - b for a, b in sides]).max() / (2 * size)

    # Central differences err by the third derivative, which is large close to a heavy row.
    assert slope(found) <= 1e-2 * summed(D, X, w, found) + 1e-5 * w.sum()


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), d=st.integers(1, 4))
@example(seed=2221, n=2, d=2)  # a start of zeros, and the best one
def test_total_jensen_centre_is_never_worse_than_its_start(seed, n, d):
    rng = np.random.default_rng(seed)
    X, w, D = rows("total-jensen", n, d, seed), rng.exponential(size=n), DISTORTIONS["total-jensen"]
    for start in (rows("itakura-saito", 1, d, seed + 1)[0], X[0], D.center(X, w), X.max(axis=0)):
        after = summed(D, X, w, D.center(X, w, start))
        assert after <= summed(D, X, w, start) * (1 + 1e-12) + 1e-15


def test_total_jensen_has_other_minima_than_the_one_near_the_mean():
    """So a centre is sought from where it was, or a step of the loop could raise the cost."""
    X, w, D = np.array([[99.465], [0.019]]), np.array([0.4, 0.8]), DISTORTIONS["total-jensen"]
    start = X[1]
    assert summed(D, X, w, D.center(X, w)) > 1.02 * summed(D, X, w, start)
    assert summed(D, X, w, D.center(X, w, start)) <= summed(D, X, w, start)
    fit = refine_distorted(X, start[None], w, D, max_iter=9, tol=0)
    assert fit.inertia <= summed(D, X, w, start)


# ---- the loop ----


@every
@weighted
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_step_raises_the_cost(name, with_weights, dtype):
    X = rows(name, 500, 5, seed=2, dtype=dtype)
    w = weights_of(500) if with_weights else None
    share = np.ones(500) if w is None else w
    distortion = fitted(name, X, w)
    R, costs = distortion.prepare(X), []

    def watch(step):
        own = distortion.prepare(step.centers)[step.labels]
        cost = distortion.divergence(R, own)
        costs.append(float((share * cost)[share > 0].sum()))
        return False

    start = distortion.seed(X, np.arange(1, 10))
    start[7:] = 50 * X.max(axis=0)  # two clusters start empty, and would stay so
    fit = refine_distorted(X, start, w, distortion, max_iter=200, tol=0, on_step=watch)
    costs = np.array(costs)
    assert fit.strict
    assert fit.n_iter == len(costs) > 5, "too easy"
    assert (np.diff(costs) <= 1e-12 * costs[:-1]).all()
    assert (np.diff(costs[:-1]) < 0).all()
    assert fit.inertia == pytest.approx(costs[-1], rel=1e-6 if dtype == np.float32 else 1e-11)
    assert fit.centers.dtype == dtype
    assert len(np.unique(fit.labels[share > 0])) == 9
    labels, cost = labelled(distortion, X, fit.centers.astype(np.float64))
    assert np.array_equal(labels, fit.labels)
    assert fit.inertia == pytest.approx(float((share * cost)[share > 0].sum()), rel=1e-13)


@every
def test_a_fit_stops_as_it_is_told(name):
    X = rows(name, 300, 4, seed=6)
    distortion = fitted(name, X)
    start = distortion.seed(X, np.arange(6))

    def fit(**options):
        options = {"tol": 0, "max_iter": 99} | options
        return refine_distorted(X, start, None, distortion, **options)

    assert fit().n_iter > 4
    assert fit(max_iter=3).n_iter == 3
    assert not fit(max_iter=3).strict
    assert fit(tol=1e9).n_iter == 1
    assert fit(on_step=lambda step: step.iteration == 1).n_iter == 2
    again = refine_distorted(X, fit().centers, None, distortion, max_iter=99, tol=0)
    assert np.array_equal(again.labels, fit().labels)
    assert again.n_iter <= 2


@every
def test_weights_equal_repeats(name):
    X = rows(name, 80, 3, seed=7)
    counts = np.random.default_rng(8).integers(0, 4, size=80)
    w, repeated = counts.astype(np.float64), np.repeat(X, counts, axis=0)
    fits = []
    for data, weight in ((X, w), (repeated, None)):
        distortion = fitted(name, data, weight)
        start = distortion.seed(np.concatenate([data, X[counts > 0][:4]]), np.arange(4) + len(data))
        fits.append(refine_distorted(data, start, weight, distortion, max_iter=99, tol=0))
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
    fit = refine_distorted(X, kl.seed(X, np.array([0])), w, kl, max_iter=5, tol=0)
    assert mean_row(kl.prepare(X), w)[1] < 1e-46
    assert fit.centers[0, 1] > 0
    assert np.isfinite(fit.inertia)
    assert in_dtype(np.array([[0.0, -1e-60]]), np.dtype(np.float32)).tolist()[0][0] == 0


# ---- against other ways to the same answer ----


def distributions(n, d, seed):
    return np.random.default_rng(seed).dirichlet(np.full(d, 0.7), size=n)


@pytest.mark.parametrize("seed", range(3))
def test_kl_centres_of_fixed_labels_are_what_an_optimiser_finds(seed):
    """Over all distributions (a softmax of free numbers), cluster by cluster."""
    X, w = distributions(9, 4, seed), np.random.default_rng(seed).exponential(size=9)
    kl = DISTORTIONS["kl"]
    for own in (np.arange(4), np.arange(4, 9)):

        def cost(free, own=own):
            c = np.exp(free - free.max())
            return float((w[own] * kl_div(X[own], c / c.sum()).sum(axis=1)).sum())

        direct = minimize(cost, np.zeros(4), method="BFGS", options={"gtol": 1e-9})
        c = np.exp(direct.x - direct.x.max())
        found = kl.center(X[own], w[own])
        assert cost(np.log(found)) == pytest.approx(direct.fun, rel=1e-9)
        assert np.allclose(found, c / c.sum(), atol=1e-5)


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
    X = distributions(n, 3, seed)
    distortion, best = fitted(name, X), np.inf
    for start in itertools.combinations(range(n), k):
        centers = distortion.seed(X, np.array(start))
        fit = refine_distorted(X, centers, None, distortion, max_iter=99, tol=0)
        best = min(best, fit.inertia)
    assert best == pytest.approx(best_partition(name, X, k), rel=1e-10)


@weighted
@pytest.mark.parametrize("given_matrix", [False, True], ids=["estimated", "given"])
def test_mahalanobis_is_euclidean_of_whitened_rows(with_weights, given_matrix):
    X = rows("mahalanobis", 400, 4, seed=9) * [1, 1e5, 1e-4, 1] + [0, 1e6, 0, 5]
    w = weights_of(400) if with_weights else None
    matrix = np.diag([1.0, 1e10, 1e-8, 3.0]) if given_matrix else None
    distortion = Mahalanobis(matrix)
    distortion.check(X)
    distortion = distortion.fitted(X, w)
    S = covariance_of(X, w) if matrix is None else matrix
    white = X @ np.linalg.inv(np.linalg.cholesky(S)).T  # another root of the same inverse
    fit = refine_distorted(X, X[:7], w, distortion, max_iter=300, tol=0)
    peer = lloyd(white, white[:7], w, tol=0)
    assert np.array_equal(fit.labels, peer.labels)
    assert fit.inertia == pytest.approx(peer.inertia, rel=1e-6)
    own = np.ones(400) if w is None else w
    for j in range(7):
        mean = np.average(X[fit.labels == j], axis=0, weights=own[fit.labels == j])
        assert np.allclose(fit.centers[j], mean, rtol=1e-9, atol=1e-9)


# ---- the door ----


def test_kl_seeds_are_mixed_only_where_a_row_has_zeros():
    X = np.array([[1.0, 2, 3], [0, 4, 2], [5, 0, 0]])
    w = np.array([1.0, 2.0, 0.0])
    seeds = fitted("kl", X, w).seed(X, np.array([0, 1, 2]))
    mean = np.average(X, axis=0, weights=w)
    assert np.array_equal(seeds[0], X[0])
    assert np.allclose(seeds[1:], (1 - MIX) * X[1:] + MIX * mean)
    assert np.isfinite(measured(DISTORTIONS["kl"], X, seeds)).all()
    assert np.array_equal(
        KullbackLeibler().seed(X, np.array([1])), fitted("kl", X).seed(X, np.array([1]))
    )


GOOD = [[1.0, 2.0], [3.0, 1.0], [2.0, 5.0], [4.0, 4.0]]


@pytest.mark.parametrize(
    ("name", "place", "value", "says"),
    [
        ("kl", (2, 1), -0.5, r"needs values >= 0, but row 2, column 1 is -0\.5; drop"),
        ("total-jensen", (0, 1), -2.0, r"needs values >= 0, but row 0, column 1 is -2\.0; drop"),
        ("itakura-saito", (3, 0), 0.0, r"needs values > 0, but row 3, column 0 is 0\.0; drop"),
        ("itakura-saito", (1, 1), -1.0, r"needs values > 0, but row 1, column 1 is -1\.0; drop"),
        ("kl", (1, 0), 1e150, r"row 1, column 0 is 1e\+150; rescale X"),
        ("itakura-saito", (1, 0), 1e-150, r"row 1, column 0 is 1e-150; rescale X"),
    ],
)
def test_bad_values_are_named(name, place, value, says):
    X = np.array(GOOD)
    DISTORTIONS[name].check(X)
    X[place] = value
    with pytest.raises(ValueError, match=says) as error:
        DISTORTIONS[name].check(X)
    assert "\n" not in str(error.value)
    if name == "kl":
        with pytest.raises(ValueError, match=says):
            DISTORTIONS[name].check(sparse.csr_array(X))


@pytest.mark.parametrize("name", ["itakura-saito", "mahalanobis", "total-jensen"])
def test_csr_rows_are_for_kl_only(name):
    with pytest.raises(ValueError, match=f"{name}' takes dense rows only"):
        DISTORTIONS[name].check(sparse.csr_array(np.array(GOOD)))


@pytest.mark.parametrize(
    ("X", "matrix", "says"),
    [
        ([[1.0, 2], [1, 3], [1, 5]], None, "column 0 does not. Drop"),
        ([[1.0, 2, 3], [2, 3, 5], [1, 5, 6], [0, 7, 7]], None, "has rank 2 of 3; drop"),
        ([[1.0, 2, 3], [2, 3, 9]], None, "has rank 1 of 3; drop"),
        (GOOD, np.eye(3), r"of shape \(2, 2\), .* but it is \(3, 3\)"),
        (GOOD, np.array([[1.0, 0.5], [0, 1]]), "symmetric"),
        (GOOD, np.array([[1.0, 2], [2, 1]]), "has rank 1 of 2"),
    ],
)
def test_bad_covariances_are_named(X, matrix, says):
    distortion, X = Mahalanobis(matrix), np.array(X)
    with pytest.raises(ValueError, match=says):  # noqa: PT012 - at the first or at the second door
        distortion.check(X)
        distortion.fitted(X, None)


def test_mahalanobis_must_be_fitted():
    with pytest.raises(ValueError, match="before `fitted`"):
        Mahalanobis().prepare(np.array(GOOD))
