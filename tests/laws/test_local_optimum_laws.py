"""What `KMedian.guarantee_` says about a local optimum is true, or it says what it assumes."""

from itertools import combinations

import numpy as np
import pytest
from api import DistanceMatrix
from api import metric_input_module as metric_input

from kvariates import KMedian


def lowest(D, weight, k):
    return min(
        (D[list(some)].min(axis=0) * weight).sum() for some in combinations(range(len(D)), k)
    )


def symmetric(D):
    return np.triu(D, 1) + np.triu(D, 1).T


def odd_distances(rng, n):
    """Of all magnitudes; hardly ever a metric."""
    return symmetric(10.0 ** rng.uniform(-9, 0, size=(n, n)))


def rounded_distances(rng, n):
    """Two far groups; within a group, a metric only up to a millionth of the largest distance."""
    far = rng.integers(2, size=n)
    near = 10.0 ** rng.uniform(-12, -6.1, size=(n, n))
    return symmetric(np.where(far[:, None] == far, near, 1.0))


def metric_distances(rng, n):
    X = rng.normal(size=(n, 2)) * 10.0 ** rng.uniform(-4, 0, size=(n, 1))
    return np.linalg.norm(X[:, None] - X[None], axis=2)


@pytest.mark.filterwarnings("ignore:.* breaks the triangle inequality")
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize(
    ("distances", "least"), [(odd_distances, 0), (rounded_distances, 200), (metric_distances, 200)]
)
@pytest.mark.parametrize("way", ["precomputed", "callable"])
def test_no_medoids_cost_less_than_the_guarantee_says(way, distances, least):
    """Tiny sets are checked in full, so that nothing is assumed."""
    kept = 0
    for seed in range(250):
        rng = np.random.default_rng(seed)
        n, k = int(rng.integers(4, 8)), int(rng.integers(1, 4))
        D, weight = distances(rng, n), rng.integers(1, 9, size=n).astype(float)
        numbers, between = np.arange(n), lambda a, b, D=D: float(D[a, b])
        data, metric = (D, way) if way == "precomputed" else (numbers, between)
        model = KMedian(k, metric=metric, n_restarts=0, random_state=seed)
        promise = model.fit(data, sample_weight=weight).guarantee_
        if promise is not None:
            kept += 1
            assert promise.assumes is None
            assert promise.lower_bound <= lowest(D, weight, k) * (1 + 1e-9)
    assert kept >= least


def test_a_bound_that_ignores_the_tolerance_would_be_wrong():
    """The triangles of these distances hold within 1e-6 of the largest, and 5 times is exceeded."""
    D = np.array([[0, 1e-7, 1e-10, 1], [1e-7, 0, 1e-10, 1], [1e-10, 1e-10, 0, 1], [1, 1, 1, 0]])
    weight = np.array([1.0, 1e3, 1e-3, 1e3])
    model = KMedian(2, metric="precomputed", init=[0, 3], max_swaps=0).fit(D, sample_weight=weight)
    assert model.inertia_ > 5 * lowest(D, weight, 2)
    checked = metric_input.validated_points(D, "precomputed").triangles
    assert checked.lost is None
    assert model.inertia_ - 4 * weight.sum() * checked.error < 5 * lowest(D, weight, 2)


def squared(a, b):
    return float(((a - b) ** 2).sum())


def test_a_callable_that_breaks_the_triangle_inequality_is_found():
    X = np.random.default_rng(0).normal(size=(40, 2))
    with pytest.warns(UserWarning, match="metric breaks the triangle inequality"):
        model = KMedian(3, metric=squared, random_state=0).fit(X)
    assert model.guarantee_ is None
    assert "triangle inequality" in model.guarantee_lost_


@pytest.mark.parametrize("n", [270, 272, 600])
def test_a_check_reports_how_many_triangles_it_saw(n):
    X = np.random.default_rng(1).normal(size=(n, 2))
    D = np.linalg.norm(X[:, None] - X[None], axis=2)
    promise = KMedian(3, metric="precomputed", random_state=0).fit(D).guarantee_
    seen = DistanceMatrix(D).n_checked(metric_input.TRIANGLES)
    if seen == n**3:
        assert n <= 272
        assert promise.assumes is None
        broken = D.copy()
        broken[n - 1, n - 2] = broken[n - 2, n - 1] = 50.0  # seen by a full check only
        with pytest.warns(UserWarning, match="breaks the triangle inequality"):
            KMedian(3, metric="precomputed", random_state=0).fit(broken)
    else:
        assert n >= 272
        assert f"{seen:,} of {n**3:,} triangles were checked" in promise.assumes
        assert "It assumes that X obeys the triangle inequality" in str(promise)


def test_triangles_are_counted_as_the_kernel_checks_them():
    """With a broken pair (i, j), a check finds it exactly if it looks at i or j, by some via."""
    n, triangles = 41, 2000.0
    X = np.arange(n, dtype=float)
    D = np.abs(X[:, None] - X[None])
    found = 0
    for i in range(n):
        broken = D.copy()
        broken[i, (i + 2) % n] += 1e3
        broken[(i + 2) % n, i] += 1e3
        found += DistanceMatrix(broken).flaw(1e-6, triangles) is not None
    rows = DistanceMatrix(D).n_checked(triangles) // n
    step = -(-n // round(rows**0.5))
    seen = set(range(0, n, step))
    assert found == len({i for i in range(n) if i in seen or (i + 2) % n in seen})


def test_a_callable_without_a_matrix_is_not_checked():
    X = np.random.default_rng(2).normal(size=(30, 2))
    few = np.arange(20)  # then distances to the demand only are computed
    promise = KMedian(2, metric=squared, random_state=0).fit(X, demand=few).guarantee_
    assert "was not checked" in promise.assumes
    assert "It assumes that the metric obeys the triangle inequality" in str(promise)
