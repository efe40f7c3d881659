"""What must not matter, does not: repeats, order, scale and place of the rows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws.cases import ALGORITHMS, DTYPES, LAYOUTS, METRICS, fit, rows, start
from scipy import sparse

from kvariates import kmeans_plusplus

VARIANT = [
    pytest.param(
        algorithm, dtype, layout, metric, id=f"{algorithm}-{dtype.__name__}-{layout}-{metric}"
    )
    for algorithm in ALGORITHMS
    for dtype in DTYPES
    for layout in LAYOUTS
    for metric in METRICS
]
every_variant = pytest.mark.parametrize(("algorithm", "dtype", "layout", "metric"), VARIANT)


def make(dtype, layout, n=400, d=6, seed=21):
    dense = rows(n, d, dtype, seed=seed, sparsity=0.3)
    return dense, LAYOUTS[layout]


@every_variant
def test_weights_are_repeats(algorithm, dtype, layout, metric):
    dense, wrap = make(dtype, layout)
    weights = np.random.default_rng(0).integers(0, 5, size=len(dense))
    init = start(dense[weights > 0], 9)
    options = {"algorithm": algorithm, "metric": metric, "tol": 0}
    weighted = fit(wrap(dense), init, weights, **options)
    repeated = fit(wrap(np.repeat(dense, weights, axis=0)), init, **options)
    assert np.array_equal(np.repeat(weighted.labels_, weights), repeated.labels_)
    assert weighted.n_iter_ == repeated.n_iter_
    atol = 1e-12 if dtype == np.float64 else 1e-6
    np.testing.assert_allclose(
        weighted.cluster_centers_, repeated.cluster_centers_, rtol=0, atol=atol
    )
    assert weighted.inertia_ == pytest.approx(repeated.inertia_, rel=1e-6)
    ignored = fit(wrap(dense), init, **options)
    assert not np.allclose(weighted.cluster_centers_, ignored.cluster_centers_), "too weak a test"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_cluster_of_weightless_rows_is_empty(algorithm):
    """Weight zero is absence: nobody's only neighbours being weightless, the centre moves away."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(5, 2)) + 50])
    weights = np.r_[np.ones(60), np.zeros(5)]
    init = np.array([[0.0, 0], [1, 1], [50, 50]])
    with_them = fit(X, init, weights, algorithm=algorithm, tol=0)
    without = fit(X[:60], init, algorithm=algorithm, tol=0)
    np.testing.assert_allclose(with_them.cluster_centers_, without.cluster_centers_, rtol=1e-12)
    assert np.array_equal(with_them.labels_[:60], without.labels_)


@every_variant
def test_scaled_weights_change_nothing_but_the_cost(algorithm, dtype, layout, metric):
    dense, wrap = make(dtype, layout)
    weights = np.random.default_rng(1).exponential(size=len(dense))
    options = {"algorithm": algorithm, "metric": metric}
    once = fit(wrap(dense), start(dense, 9), weights, **options)
    for factor in (2.0**-40, 2.0**30):
        scaled = fit(wrap(dense), start(dense, 9), weights * factor, **options)
        assert np.array_equal(once.labels_, scaled.labels_)
        assert np.array_equal(once.cluster_centers_, scaled.cluster_centers_)
        assert scaled.inertia_ == once.inertia_ * factor
    other = fit(wrap(dense), start(dense, 9), weights * 0.3, **options)
    assert np.array_equal(once.labels_, other.labels_)
    np.testing.assert_allclose(once.cluster_centers_, other.cluster_centers_, rtol=1e-5, atol=1e-7)


@every_variant
def test_unit_weights_are_no_weights(algorithm, dtype, layout, metric):
    dense, wrap = make(dtype, layout)
    options = {"algorithm": algorithm, "metric": metric}
    ones = fit(wrap(dense), start(dense, 9), np.ones(len(dense)), **options)
    none = fit(wrap(dense), start(dense, 9), None, **options)
    assert np.array_equal(ones.labels_, none.labels_)
    assert np.array_equal(ones.cluster_centers_, none.cluster_centers_)
    assert ones.inertia_ == none.inertia_


@every_variant
def test_powers_of_two_scale_exactly(algorithm, dtype, layout, metric):
    """No absolute constant hides in the kernels: every bit of the mantissas stays."""
    dense, wrap = make(dtype, layout)
    options = {"algorithm": algorithm, "metric": metric}
    once = fit(wrap(dense), start(dense, 9), **options)
    powers = (-50, -7, 3, 50) if dtype == np.float32 else (-400, -50, 3, 50, 400)
    for power in powers:
        factor = dtype(2.0**power)
        scaled = fit(wrap(dense * factor), start(dense, 9) * factor, **options)
        assert np.array_equal(once.labels_, scaled.labels_), power
        assert once.n_iter_ == scaled.n_iter_
        if metric == "cosine":
            assert np.array_equal(once.cluster_centers_, scaled.cluster_centers_), power
            assert scaled.inertia_ == once.inertia_
        else:
            assert np.array_equal(once.cluster_centers_ * factor, scaled.cluster_centers_), power
            assert scaled.inertia_ == once.inertia_ * float(factor) ** 2


@pytest.mark.parametrize("trials", [1, None], ids=["plain", "greedy"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_seeding_does_not_see_powers_of_two(layout, dtype, trials):
    dense, wrap = make(dtype, layout, n=1500)
    weights = np.random.default_rng(2).exponential(size=len(dense))
    for seed in range(5):
        options = {"n_local_trials": trials, "random_state": seed}
        found = kmeans_plusplus(wrap(dense), 40, sample_weight=weights, **options)[1]
        for power in (-80, -5, 9, 80):
            scaled, heavier = wrap(dense * dtype(2.0**power)), weights * 2.0**power
            same = kmeans_plusplus(scaled, 40, sample_weight=weights, **options)[1]
            assert np.array_equal(found, same), power
            same = kmeans_plusplus(wrap(dense), 40, sample_weight=heavier, **options)[1]
            assert np.array_equal(found, same), power


@every_variant
def test_permuted_rows_give_permuted_labels(algorithm, dtype, layout, metric):
    dense, wrap = make(dtype, layout)
    weights = np.random.default_rng(3).uniform(0.5, 2, size=len(dense))
    order = np.random.default_rng(4).permutation(len(dense))
    options = {"algorithm": algorithm, "metric": metric, "tol": 0}
    once = fit(wrap(dense), start(dense, 9), weights, **options)
    moved = fit(wrap(dense[order]), start(dense, 9), weights[order], **options)
    assert np.array_equal(once.labels_[order], moved.labels_)
    assert once.n_iter_ == moved.n_iter_
    np.testing.assert_allclose(once.cluster_centers_, moved.cluster_centers_, rtol=1e-5, atol=1e-6)
    assert once.inertia_ == pytest.approx(moved.inertia_, rel=1e-6)


@every_variant
def test_permuted_starts_give_permuted_centres(algorithm, dtype, layout, metric):
    dense, wrap = make(dtype, layout)
    order = np.random.default_rng(5).permutation(9)
    options = {"algorithm": algorithm, "metric": metric, "tol": 0}
    once = fit(wrap(dense), start(dense, 9), **options)
    moved = fit(wrap(dense), start(dense, 9)[order], **options)
    assert np.array_equal(once.labels_, order[moved.labels_])
    assert np.array_equal(once.cluster_centers_[order], moved.cluster_centers_)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_translation_moves_the_centres_along(algorithm, dtype, layout):
    """The shift of the rows is exact; float32 centres are rounded more coarsely out there."""
    dense, wrap = make(dtype, layout)
    dense = (np.round(dense * 64) / 64).astype(dtype)
    shift = np.array([1000, -500, 4096, 0, 7, -2048], dtype=dtype)
    init, options = start(dense, 9), {"algorithm": algorithm, "tol": 0, "max_iter": 3}
    once = fit(wrap(dense), init, **options)
    moved = fit(wrap(dense + shift), init + shift, **options)
    atol = 1e-11 if dtype == np.float64 else 2e-3
    back = moved.cluster_centers_ - shift
    np.testing.assert_allclose(back, once.cluster_centers_, rtol=0, atol=atol)
    agree = np.mean(once.labels_ == moved.labels_)
    assert agree == 1 if dtype == np.float64 else agree > 0.99
    assert once.inertia_ == pytest.approx(moved.inertia_, rel=1e-3 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_features_may_change_places_and_zeros_may_be_added(algorithm, metric, dtype):
    dense, _ = make(dtype, "dense")
    options = {"algorithm": algorithm, "metric": metric, "tol": 0}
    once = fit(dense, start(dense, 9), **options)
    order = np.r_[2, 0, 5, 1, 4, 3]
    moved = fit(np.ascontiguousarray(dense[:, order]), start(dense, 9)[:, order], **options)
    assert np.array_equal(once.labels_, moved.labels_)
    pad = np.zeros((len(dense), 5), dtype)
    padded = fit(np.hstack([dense, pad]), np.hstack([start(dense, 9), pad[:9]]), **options)
    assert np.array_equal(once.labels_, padded.labels_)
    assert not padded.cluster_centers_[:, 6:].any()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("metric", METRICS)
def test_sparse_is_dense(algorithm, dtype, metric):
    # A direction at right angles to several centres is tied between them: few zeros for cosine.
    sparsity = 0.8 if metric == "euclidean" else 0.3
    dense = rows(600, 30, dtype, seed=22, sparsity=sparsity)
    options = {"algorithm": algorithm, "metric": metric, "tol": 0}
    a = fit(dense, start(dense, 12), **options)
    b = fit(sparse.csr_array(dense), start(dense, 12), **options)
    assert np.array_equal(a.labels_, b.labels_)
    assert a.n_iter_ == b.n_iter_
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, rtol=1e-6, atol=1e-7)
    assert a.inertia_ == pytest.approx(b.inertia_, rel=1e-6)
    np.testing.assert_allclose(
        a.transform(dense), b.transform(sparse.csr_array(dense)), rtol=1e-5, atol=1e-6
    )


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(10, 80),
    k=st.integers(2, 9),
    dtype=st.sampled_from(DTYPES),
    algorithm=st.sampled_from(ALGORITHMS),
    metric=st.sampled_from(METRICS),
)
def test_symmetries_of_any_small_set(seed, n, k, dtype, algorithm, metric):
    dense = rows(n, 3, dtype, seed=seed)
    rng = np.random.default_rng(seed)
    weights, order = rng.integers(1, 4, size=n), rng.permutation(n)
    init = start(dense, k, seed=seed)
    options = {"algorithm": algorithm, "metric": metric, "tol": 0, "max_iter": 10}
    once = fit(dense, init, weights, **options)
    repeated = np.repeat(dense[order], weights[order], axis=0)
    mixed = fit(repeated * dtype(8), init * dtype(8), **options)
    assert np.array_equal(np.repeat(once.labels_[order], weights[order]), mixed.labels_)
    cost = mixed.inertia_ / (64 if metric == "euclidean" else 1)
    assert once.inertia_ == pytest.approx(cost, rel=1e-4, abs=float(n * np.finfo(dtype).eps))
