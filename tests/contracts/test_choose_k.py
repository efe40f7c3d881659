"""Choosing k: planted numbers are found, and the criteria equal their definitions.

Uniform rows are not taken for one cluster in about one of a hundred draws (measured, see CLEAR in
k_selection.py), so every draw below has a fixed seed.
"""

import math

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from kvariates import KMeans, choose_k
from kvariates.k_selection import elbow_of, principal, silhouette_of, suggest

COLUMNS = ("ks", "inertia", "elbow", "silhouette", "gap", "gap_error")
FAST = {"k_range": (1, 5), "n_reference": 2, "random_state": 0}


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
        (a.k, a.reason) == (b.k, b.reason)
        and all(np.array_equal(getattr(a, c), getattr(b, c), equal_nan=True) for c in COLUMNS)
        and all(np.array_equal(x, y) for x, y in zip(a.solutions, b.solutions, strict=True))
    )


# ---- the suggestion ----


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_a_planted_k_is_found(k, seed):
    assert choose_k(blobs(k, seed), (1, 12), random_state=seed).k == k


@pytest.mark.parametrize("d", [1, 2, 8])
def test_uniform_rows_are_one_cluster(d):
    choice = choose_k(np.random.default_rng(d).random((500, d)), random_state=d)
    assert choice.k == 1
    assert "one cluster" in choice.reason


def test_clusters_in_groups_are_all_found():
    """The silhouette prefers the two groups, and the gap has its first dip at one cluster."""
    rng = np.random.default_rng(0)
    near = np.array([[0, 0], [8, 0], [0, 8]])
    centers = np.vstack([near, near + 200])
    X = centers[np.arange(600) % 6] + rng.normal(size=(600, 2))
    choice = choose_k(X, random_state=0)
    assert choice.k == 6
    assert choice.ks[np.nanargmax(choice.silhouette)] == 2


def test_the_range_ends_at_the_number_of_distinct_rows():
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 30, axis=0)
    with pytest.warns(ConvergenceWarning, match="X has 4 distinct rows: k_range ends there"):
        choice = choose_k(X, (1, 9), random_state=0)
    assert choice.k == 4
    assert choice.ks.tolist() == [1, 2, 3, 4]
    assert choice.inertia[3] < 1e-20


@pytest.mark.parametrize(
    ("elbow", "silhouette", "gap", "k", "why"),
    [
        ([0, 0.5, 0], [math.nan, 0.9, 0.8], [0, 0.3, 0.2], 1, "one cluster"),
        ([0, 0.5, 0], [math.nan, 0.9, 0.95], [0, 3, 2], 2, "peaks here"),
        ([0, 0.5, 0], [math.nan, 0.9, 0.8], [0, 3, 5], 2, "silhouette is largest"),
        ([0, 0.1, 0], [math.nan, 0.1, 0.2], [0, 3, 5], 2, "the elbow is here"),
        ([0, 0.5, 0], [math.nan, 0.1, 0.2], [0, 3, math.inf], 2, "the elbow is here"),
        ([math.nan] * 3, [math.nan, 0.1, 0.2], [0, 3, 5], 3, "silhouette is largest"),
    ],
)
def test_the_criteria_decide_in_their_order(elbow, silhouette, gap, k, why):
    columns = map(np.array, (elbow, silhouette, gap, [0.1, 0.1, 0.1]))
    found, reason = suggest(np.array([1, 2, 3]), *columns)
    assert found == k
    assert why in reason


def test_within_an_error_of_the_peak_the_smaller_k_is_taken():
    ks, error = np.arange(1, 6), np.full(5, 0.2)
    gap = np.array([0, 1.9, 2.0, 1.5, 1.4])
    assert suggest(ks, np.zeros(5), np.zeros(5), gap, error)[0] == 2
    assert suggest(ks, np.zeros(5), np.zeros(5), gap, error / 4)[0] == 3


# ---- the criteria ----


@pytest.mark.parametrize("method", ["warm", "global"])
def test_costs_fall_and_are_those_of_the_centres(method):
    X = np.random.default_rng(1).normal(size=(300, 4))
    choice = choose_k(X, (1, 12), method=method, n_reference=2, random_state=0)
    assert (np.diff(choice.inertia) < 0).all()
    for k, inertia, centers in zip(choice.ks, choice.inertia, choice.solutions, strict=True):
        assert centers.shape == (k, 4)
        cost = ((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()
        assert inertia == pytest.approx(cost, rel=1e-12)
    assert np.array_equal(choice.centers, choice.solutions[choice.k - 1])


def test_silhouettes_are_those_of_scikit_learn():
    X = blobs(4, 1)
    choice = choose_k(X, (1, 7), n_reference=2, random_state=0)
    assert math.isnan(choice.silhouette[0])
    for value, centers in zip(choice.silhouette[1:], choice.solutions[1:], strict=True):
        labels = KMeans(len(centers), init=centers, max_iter=1).fit(X).predict(X)
        assert value == pytest.approx(silhouette_score(X, labels), abs=1e-3)


def test_a_silhouette_equals_its_definition():
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(60, 2)), rng.integers(4, size=60)
    labels[labels == 3] = 0
    labels[7] = 3  # alone in its cluster: counts as 0
    apart = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    expected = silhouette_score(X, labels)
    assert silhouette_of(apart, np.ones(60), labels) == pytest.approx(expected, rel=1e-12)
    assert silhouette_of(apart, np.full(60, 0.01), labels) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(silhouette_of(apart, np.ones(60), np.zeros(60, int)))


def test_an_elbow_is_the_depth_below_the_line():
    ks = np.arange(1, 9)
    assert elbow_of(ks, 100.0 * ks**-0.7) == pytest.approx(np.zeros(8), abs=1e-12)
    depth = elbow_of(ks, np.where(ks <= 4, 100.0 * ks**-2.0, 100.0 * 4**-2.0))
    assert np.argmax(depth) == 3
    # At k = 4 log cost has reached its end, and log k two thirds of its way.
    assert depth[3] == pytest.approx(1 - 2 / 3)
    assert np.isnan(elbow_of(np.array([1, 2]), np.array([2.0, 1.0]))).all()


def test_the_gap_equals_its_definition():
    """For k = 1 the cost is the total variance, and its mean for uniform rows is known.

    Uniform rows in a box of sides s have mean cost sum(s^2) / 12 (n - 1) / n. The log of the cost
    of one reference has a standard deviation of 0.045. So the mean of 60 misses by 0.03, and the
    error by half, with probability below 1e-6 each.
    """
    rng = np.random.default_rng(3)
    X = rng.normal(size=(400, 2)) * (5, 1) @ np.array([[0.6, 0.8], [-0.8, 0.6]])
    choice = choose_k(X, (1, 2), n_reference=60, random_state=0)
    centred = X - X.mean(axis=0)
    sides = np.ptp(centred @ np.linalg.svd(centred, full_matrices=False)[2].T, axis=0)
    expected = np.log((sides**2).sum() / 12 * 399 / 400) - np.log((centred**2).sum() / 400)
    assert choice.gap[0] == pytest.approx(expected, abs=0.03)
    assert choice.gap_error[0] == pytest.approx(0.045, rel=0.5)


@pytest.mark.parametrize("shape", [(50, 3), (6, 20)])
def test_principal_coordinates_keep_distances(shape):
    X, mass = np.random.default_rng(4).normal(size=shape), np.linspace(1, 2, shape[0])
    turned = principal(X, mass)
    pairs = [((rows[:, None] - rows) ** 2).sum(axis=2) for rows in (turned, X)]
    np.testing.assert_allclose(*pairs, atol=1e-9)
    scatter = turned.T @ (turned * mass[:, None])
    np.testing.assert_allclose(scatter, np.diag(np.diag(scatter)), atol=1e-9)


# ---- invariance ----


def test_the_order_of_rows_does_not_matter():
    X, weight = blobs(3, 5), np.linspace(1, 3, 400)
    order = np.random.default_rng(0).permutation(400)
    a = choose_k(X, sample_weight=weight, **FAST)
    assert same(a, choose_k(X[order], sample_weight=weight[order], **FAST))
    assert not same(a, choose_k(X, **FAST))


def test_threads_do_not_matter():
    X, found = blobs(3, 6, n=800, d=400), []  # BLAS with more threads would give other bits
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.append(choose_k(X, (1, 4), n_reference=2, random_state=0))
    assert same(found[0], found[1])
    assert same(found[0], found[2])


def test_a_seed_determines_the_choice():
    X = np.random.default_rng(7).normal(size=(600, 2))
    a, b, c = (
        choose_k(X, (1, 5), n_reference=2, silhouette_sample=200, random_state=seed)
        for seed in (1, 1, 2)
    )
    assert same(a, b)
    assert not same(a, c)


@pytest.mark.parametrize("layout", [sparse.csr_array, np.asfortranarray, np.ndarray.tolist])
def test_layouts_do_not_matter(layout):
    X = blobs(3, 8, n=200)
    a, b = choose_k(X, **FAST), choose_k(layout(X), **FAST)
    assert a.k == b.k == 3
    np.testing.assert_allclose(a.inertia, b.inertia, rtol=1e-9)
    np.testing.assert_allclose(a.silhouette, b.silhouette, rtol=1e-9)


def test_a_weight_equals_repeated_rows():
    """Costs are equal; silhouette and gap differ, as a row is not a neighbour of its own copies."""
    X = blobs(3, 9, n=240)
    weight = np.random.default_rng(0).integers(0, 4, size=240)
    options = {"k_range": (1, 5), "method": "global", "n_reference": 20, "random_state": 0}
    a = choose_k(X, sample_weight=weight, **options)
    b = choose_k(np.repeat(X, weight, axis=0), **options)
    assert a.k == b.k == 3
    np.testing.assert_allclose(a.inertia, b.inertia, rtol=1e-9)
    np.testing.assert_allclose(a.silhouette, b.silhouette, atol=0.02)
    np.testing.assert_allclose(a.gap, b.gap, atol=0.15)


def test_the_scale_of_weights_does_not_matter():
    X, weight = blobs(3, 10, n=200), np.linspace(1, 2, 200)
    a, b = (choose_k(X, sample_weight=w, **FAST) for w in (weight, weight / 1024))
    np.testing.assert_allclose(a.silhouette, b.silhouette, rtol=1e-9)
    np.testing.assert_allclose(a.gap, b.gap, rtol=1e-9)
    assert a.k == b.k == 3


def test_rows_of_weight_zero_do_not_count():
    X = np.vstack([blobs(2, 15, n=80), np.full((5, 3), 1e3)])
    a = choose_k(X, sample_weight=np.r_[np.ones(80), np.zeros(5)], **FAST)
    assert same(a, choose_k(X[:80], sample_weight=np.ones(80), **FAST))


@pytest.mark.parametrize("k_range", [(2, 6), range(2, 7), [2, 3, 4, 5, 6], np.arange(2, 7)])
def test_ways_to_write_a_range(k_range):
    choice = choose_k(blobs(3, 11), k_range, n_reference=2, random_state=0)
    assert choice.ks.tolist() == [2, 3, 4, 5, 6]
    assert [len(centers) for centers in choice.solutions] == [2, 3, 4, 5, 6]
    assert choice.k == len(choice.centers) == 3


def test_float32_stays_float32():
    choice = choose_k(blobs(3, 12).astype(np.float32), **FAST)
    assert choice.k == 3
    assert choice.centers.dtype == np.float32


# ---- text ----


def test_the_criteria_are_printed_and_are_a_data_frame():
    choice = choose_k(blobs(3, 13), **FAST)
    names = ["k", "inertia", "elbow", "silhouette", "gap", "gap_error"]
    head, *rows, last = str(choice).splitlines()
    assert head.split() == names
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row.endswith("<") for row in rows] == [False, False, True, False, False]
    assert last == f"k = 3: {choice.reason}"
    assert list(choice.frame().columns) == names
    assert np.array_equal(choice.frame()["gap"], choice.gap)


# ---- bad input ----


PAIR, RISING = "a pair or a range of integers", "rise from 1 or more in steps of one"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"k_range": k}, PAIR) for k in ((), (1.0, 5.0), (True, 5))),
        *(({"k_range": k}, RISING) for k in ((0, 5), (5, 2), [1, 2, 4], range(1, 6, 4))),
        ({"k_range": (1, 61)}, "n_samples=60 should be >= 61, the highest k of k_range"),
        ({"k_range": 7}, "k_range"),
        ({"method": "fast"}, "method"),
        ({"n_reference": 1}, "n_reference"),
        ({"silhouette_sample": 5}, "silhouette_sample=5 should be >= 10"),
        ({"sample_weight": np.zeros(60)}, "at least one"),
        ({"sample_weight": np.ones(59)}, "sample_weight.shape"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_a_bad_option_is_an_error(options, message):
    with pytest.raises(ValueError, match=message) as error:
        choose_k(blobs(2, 0, n=60), **options)
    assert "\n" not in str(error.value)


def test_bad_rows_are_an_error():
    with pytest.raises(ValueError, match="NaN"):
        choose_k(np.full((20, 2), np.nan))
    with pytest.raises(ValueError, match="X has 2 distinct rows; k_range begins at 3"):
        choose_k(np.repeat(np.eye(2), 9, axis=0), (3, 5))
    with pytest.raises(ValueError, match="overflow"):
        choose_k(np.eye(20) * 1e200)
