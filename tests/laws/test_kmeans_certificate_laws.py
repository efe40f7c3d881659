"""The bound of a k-means certificate is never above the optimum, and close to it where possible."""

from fractions import Fraction

import numpy as np
import pytest
from api import (
    HostData,
    KnownClusters,
    Rows,
    SamplePlan,
    WeightedDistances,
    capped_bound,
    certify_kmeans,
    lower_bound,
    solve,
)
from api import kmeans_certificate_module as kmeans_certificate
from laws.exact_kmeans import MULTIPLE, line_optimum, optimum, optimum_with_outliers
from scipy import sparse
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from kvariates import KMeans


def certified(X, centers, weight=None, seed=0, plan=None):
    rows = Rows.of(X if sparse.issparse(X) else np.ascontiguousarray(X))
    centers = np.asarray(centers, dtype=np.float64)
    data, rng = HostData(rows, weight), np.random.default_rng(seed)
    return certify_kmeans(data, centers, rows.nearest(centers), rng, plan)


def tiny(rng):
    """Few points with small whole coordinates, many of them equal; weights with zeros; any k."""
    n, d = int(rng.integers(2, 8)), int(rng.integers(1, 4))
    X = rng.integers(0, int(rng.choice([3, 6, 20])), (n, d))
    weight = rng.integers(0, 4, n) if rng.random() < 0.5 else np.ones(n, dtype=int)
    return X, weight, int(rng.integers(1, min(n, 4) + 1))


def blobs(n=150, k=4, d=3, spread=30.0, seed=0):
    rng = np.random.default_rng(seed)
    centers = spread * np.arange(k)[:, None] * np.where(np.arange(d) == 0, 1.0, 0.3)
    X = centers[np.arange(n) % k] + rng.normal(size=(n, d))
    return X, np.array([X[np.arange(n) % k == j].mean(axis=0) for j in range(k)])


@pytest.mark.slow
def test_a_bound_is_never_above_the_optimum(monkeypatch):
    """1,000 tiny sets, by all partitions and in whole numbers; the solver may stop early."""
    rng, close = np.random.default_rng(0), 0
    for _ in range(1000):
        monkeypatch.setattr(kmeans_certificate, "EXACT_STEPS", int(rng.choice([0, 20])))
        X, weight, k = tiny(rng)
        scale = float(rng.choice([1.0, 2.0**-20, 2.0**30]))
        dtype = rng.choice([np.float32, np.float64])
        best = Fraction(optimum(X, weight, k), MULTIPLE) * Fraction(scale) ** 2
        data = (X * scale).astype(dtype)
        centers = data[rng.choice(len(X), k, replace=False)]
        made = certified(data, centers, weight.astype(float))
        assert made.confidence == 1
        assert 0 <= Fraction(made.lower_bound) <= best
        assert made.lower_bound <= made.cost
        close += made.lower_bound >= 0.97 * float(best)
    assert close > 400


def test_any_prices_prove_a_bound():
    """The theorem itself, with entries of H below their limit, which are raised."""
    rng = np.random.default_rng(1)
    for _ in range(4000):
        X, weight, k = tiny(rng)
        weight = np.maximum(weight, 1)
        n, mean = len(X), X.var() * X.shape[1] + 0.1
        price = rng.normal(1, 0.7, n) * rng.choice([0.5, 1, 2]) * mean
        points = WeightedDistances.of(X.astype(float), weight.astype(float))
        H = rng.normal(0, 0.3, (n, n)) * mean * rng.choice([0, 1])
        bound = lower_bound(points, k, price, H)
        assert Fraction(bound) <= Fraction(optimum(X, weight, k), MULTIPLE)


def test_capped_prices_bound_the_cost_with_outliers():
    rng, used = np.random.default_rng(2), 0
    for _ in range(80):
        X, weight, k = tiny(rng)
        X, weight = X[:6], np.maximum(weight[:6], 1)
        k = min(k, len(X))
        caps = rng.integers(0, 40, len(X))
        points = WeightedDistances.of(X.astype(float), weight.astype(float))
        labels = rng.integers(0, k, len(X)).astype(np.int32)
        labels = np.unique(labels, return_inverse=True)[1].astype(np.int32)
        known = KnownClusters(labels, rng.exponential(5, len(X)) + 0.1)
        found = solve(points, k, known, 60)
        bound = capped_bound(points, k, found, caps.astype(float))
        best = optimum_with_outliers(X, weight, k, caps)
        assert Fraction(bound) <= Fraction(best, MULTIPLE)
        used += best < optimum(X, weight, k) and bound > 0
    assert used > 5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [30.0, 1e5])
def test_separated_clusters_are_certified(dtype, spread):
    X, _ = blobs(spread=spread)
    X = X.astype(dtype)
    made = KMeans(4, random_state=0, certify=True).fit(X).certificate_
    assert made.gap < 0.01
    assert made.confidence == 1
    assert made.sample is None


def test_one_cluster_is_certified():
    X, _ = blobs()
    assert certified(X, [X.mean(axis=0)]).gap < 1e-9


def test_a_poor_solution_has_a_large_gap():
    X, centers = blobs()
    poor = np.stack([centers[0], centers[0] + 1, centers[0] - 1, centers[3]])
    good, bad = certified(X, centers), certified(X, poor)
    assert bad.cost > 3 * good.cost
    assert bad.lower_bound == pytest.approx(good.lower_bound, rel=0.05)
    assert str(bad) == "no useful bound"


def test_scale_and_shift_change_nothing():
    X, centers = blobs(80, spread=3.0)  # clusters overlap
    made = certified(X, centers)
    assert 0.001 < made.gap < 0.2
    scaled = certified(X * 2.0**40, centers * 2.0**40)
    assert scaled.lower_bound == made.lower_bound * 2.0**80
    for scale, shift in ((1e-7, 0.0), (3e9, 0.0), (1e-100, 0.0), (1e100, 0.0), (1.0, 1e6)):
        other = certified(scale * X + shift, scale * centers + shift)
        assert other.lower_bound == pytest.approx(scale**2 * made.lower_bound, rel=1e-4)


def test_a_weight_equals_repeated_rows_in_any_order():
    X, centers = blobs(60, spread=3.0)
    times = np.random.default_rng(0).integers(0, 4, 60)
    made = certified(X, centers, times.astype(float))
    repeated = np.random.default_rng(1).permutation(np.repeat(X, times, axis=0))
    other = certified(repeated, centers)
    assert made.lower_bound == other.lower_bound
    assert made.cost == pytest.approx(other.cost)
    assert certified(sparse.csr_array(repeated), centers).lower_bound == pytest.approx(
        made.lower_bound, rel=1e-9
    )


def test_the_bits_do_not_depend_on_the_number_of_blas_threads():
    X, centers = blobs(200, spread=3.0)
    bounds = []
    for threads in (1, 2):
        with threadpool_limits(threads, "blas"):
            bounds.append(certified(X, centers).lower_bound)
    assert 0 < bounds[0] == bounds[1]


def test_samples_keep_their_confidence():
    """With one centre the relaxation is exact, so only the confidence term keeps bounds below.

    False alarms: below 1e-6. Without the term about half of the bounds would be wrong.
    """
    rng = np.random.default_rng(3)
    X = rng.exponential(size=(500, 2)) ** 2
    weight, runs = rng.integers(1, 4, 500).astype(float), 200
    mean = np.average(X, axis=0, weights=weight)
    plan = SamplePlan(60, 2, confidence=0.8)
    made = [certified(X, [mean], weight, seed, plan) for seed in range(runs)]
    assert all(one.sample == 120 and one.confidence == 0.8 for one in made)
    # No bound is above the cost of the solution, the optimum here: one that was cut there is wrong.
    wrong = sum(one.gap == 0 for one in made)
    assert wrong <= binom.isf(1e-6, runs, 0.2)
    assert np.median([one.gap for one in made]) < 0.5


def test_samples_of_a_line_keep_their_confidence():
    rng = np.random.default_rng(4)
    x = rng.normal(size=400) + 6 * rng.integers(0, 3, 400)
    cost, centers = line_optimum(x, 3)
    made = [
        certified(x[:, None], centers, None, seed, SamplePlan(80, 4, 0.9)) for seed in range(12)
    ]
    assert made[0].cost == pytest.approx(cost)
    assert sum(one.gap == 0 for one in made) <= binom.isf(1e-6, 12, 0.1)
    assert np.median([one.gap for one in made]) < 0.35


def test_many_rows_are_sampled(monkeypatch):
    monkeypatch.setattr(kmeans_certificate, "EXACT", 100)
    monkeypatch.setattr(kmeans_certificate, "SIZE", 80)
    X, centers = blobs(2000)
    made = certified(X, centers)
    least, most = kmeans_certificate.SAMPLES
    assert least * 80 <= made.sample <= most * 80
    assert 0 < made.gap < 0.2
    assert "99 % confidence" in str(made)
    assert "centres" in made.explain()
    assert certified(X, [X.mean(axis=0)]).gap < 0.3  # the solver needs no step
    many = certified(X, X[:50])  # more clusters than half of a sample
    reason = "k = 50 is more than half of a sample (80 rows)"
    assert str(many) == f"no bound was computed: {reason}"
    assert many.explain().endswith(f"\nNo bound was computed: {reason}.")


def test_the_estimator_keeps_no_old_certificate_and_refuses_other_distances():
    X, _ = blobs(40)
    model = KMeans(4, certify=True, random_state=0).fit(X)
    assert model.certificate_.cost == pytest.approx(model.inertia_)
    assert not hasattr(model.set_params(certify=False).fit(X), "certificate_")
    for other in ({"metric": "cosine"}, {"distortion": "mahalanobis"}):
        with pytest.raises(ValueError, match="certify=True needs"):
            KMeans(4, certify=True, **other).fit(X + 100)


def test_equal_rows_cost_nothing():
    X = np.repeat([[0.1, 0.2], [5.0, 7.0]], 5, axis=0)
    made = certified(X, X[[0, 5]])
    assert made.cost == made.lower_bound == made.gap == 0
    assert str(made) == "optimal (certified)"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_cost_of_rounding_errors_is_optimal_up_to_rounding(dtype):
    """One column is much larger than the other: its rounding errors do not hide real costs."""
    X = np.repeat([[0.1, 2e6], [0.3, 7e6], [0.2, 7e6]], 5, axis=0).astype(dtype)
    above = np.nextafter(X[[0, 5, 10]], np.inf, dtype=dtype)
    made = certified(X, above.astype(np.float64))
    assert made.cost > 0
    assert made.gap == made.lower_bound == 0
    assert str(made) == "optimal up to rounding (certified)"
    assert "only rounding error" in made.explain()
    assert certified(X, X[[0, 5]].astype(np.float64)).gap > 0
