"""What must not matter does not: repeats, order, scale and position of the rows.

All algorithms of "auto" give the same bits (test_assignment_laws), so each case takes one of them.
"""

from functools import partial
from itertools import cycle, product

import numpy as np
import pytest
from laws.cases import ALGORITHMS, DTYPES, LAYOUTS, METRICS, every_matrix, fit, rows, start

from kvariates import kmeans_parallel, kmeans_plusplus

CASES = [
    pytest.param(dtype, layout, {"metric": metric, "algorithm": algorithm, "tol": 0})
    for (dtype, layout, metric), algorithm in zip(
        product(DTYPES, LAYOUTS, METRICS), cycle(ALGORITHMS), strict=False
    )
]
every_case = pytest.mark.parametrize(("dtype", "layout", "options"), CASES)


def make(dtype, layout, n=400):
    return rows(n, 6, dtype, seed=21, sparsity=0.3), LAYOUTS[layout]


@every_case
def test_a_weight_equals_repeated_rows(dtype, layout, options):
    dense, wrap = make(dtype, layout)
    weights = np.random.default_rng(0).integers(0, 5, size=len(dense))
    init = start(dense[weights > 0], 9)
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
def test_a_cluster_of_rows_without_weight_is_empty(algorithm):
    """Its centre moves to other rows."""
    rng = np.random.default_rng(1)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(5, 2)) + 50])
    weights = np.r_[np.ones(60), np.zeros(5)]
    init = np.array([[0.0, 0], [1, 1], [50, 50]])
    with_them = fit(X, init, weights, algorithm=algorithm, tol=0)
    without = fit(X[:60], init, algorithm=algorithm, tol=0)
    np.testing.assert_allclose(with_them.cluster_centers_, without.cluster_centers_, rtol=1e-12)
    assert np.array_equal(with_them.labels_[:60], without.labels_)


@every_case
def test_scaled_weights_change_nothing_but_the_cost(dtype, layout, options):
    dense, wrap = make(dtype, layout)
    weights = np.random.default_rng(1).exponential(size=len(dense))
    for base in (np.ones(len(dense)), weights):
        once = fit(wrap(dense), start(dense, 9), base, **options)
        for factor in (2.0**-40, 2.0**30):
            scaled = fit(wrap(dense), start(dense, 9), base * factor, **options)
            assert np.array_equal(once.labels_, scaled.labels_)
            assert np.array_equal(once.cluster_centers_, scaled.cluster_centers_)
            assert scaled.inertia_ == once.inertia_ * factor
        if base is not weights:
            none = fit(wrap(dense), start(dense, 9), None, **options)
            assert np.array_equal(once.cluster_centers_, none.cluster_centers_)
            assert once.inertia_ == none.inertia_


@every_case
def test_powers_of_two_scale_exactly(dtype, layout, options):
    """The kernels contain no absolute constants: every bit of the mantissas stays."""
    dense, wrap = make(dtype, layout)
    once = fit(wrap(dense), start(dense, 9), **options)
    for power in (-50, 3, 50) if dtype == np.float32 else (-400, 3, 400):
        factor = dtype(2.0**power)
        scaled = fit(wrap(dense * factor), start(dense, 9) * factor, **options)
        kept = dtype(1) if options["metric"] == "cosine" else factor
        assert np.array_equal(once.labels_, scaled.labels_), power
        assert once.n_iter_ == scaled.n_iter_
        assert np.array_equal(once.cluster_centers_ * kept, scaled.cluster_centers_), power
        assert scaled.inertia_ == once.inertia_ * float(kept) ** 2


DRAWS = {
    "plain": partial(kmeans_plusplus, n_local_trials=1),
    "greedy": kmeans_plusplus,
    "parallel": kmeans_parallel,
}
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)


@every_draw
@every_matrix
def test_powers_of_two_change_no_draw(layout, dtype, draw):
    dense, wrap = make(dtype, layout, n=1500)
    weights = np.random.default_rng(2).exponential(size=len(dense))

    def drawn(X, weights):
        return draw(wrap(X), 40, sample_weight=weights, random_state=3)[1].tolist()

    once = drawn(dense, weights)
    for power in (-80, -5, 9, 80):
        assert drawn(dense * dtype(2.0**power), weights) == once, power
        assert drawn(dense, weights * 2.0**power) == once, power


@every_draw
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_order_of_few_rows_changes_no_draw(layout, draw):
    dense, wrap = make(np.float32, layout)
    weights = np.random.default_rng(3).uniform(0.5, 2, size=len(dense))
    order = np.random.default_rng(4).permutation(len(dense))
    once = draw(wrap(dense), 20, sample_weight=weights, random_state=3)[1]
    moved = draw(wrap(dense[order]), 20, sample_weight=weights[order], random_state=3)[1]
    assert np.array_equal(once, order[moved])


@every_case
def test_permuted_rows_and_starts_give_permuted_results(dtype, layout, options):
    dense, wrap = make(dtype, layout)
    weights = np.random.default_rng(3).uniform(0.5, 2, size=len(dense))
    once = fit(wrap(dense), start(dense, 9), weights, **options)
    order = np.random.default_rng(4).permutation(len(dense))
    moved = fit(wrap(dense[order]), start(dense, 9), weights[order], **options)
    assert np.array_equal(once.labels_[order], moved.labels_)
    assert once.n_iter_ == moved.n_iter_
    np.testing.assert_allclose(once.cluster_centers_, moved.cluster_centers_, rtol=1e-5, atol=1e-6)
    assert once.inertia_ == pytest.approx(moved.inertia_, rel=1e-6)
    order = np.random.default_rng(5).permutation(9)
    moved = fit(wrap(dense), start(dense, 9)[order], weights, **options)
    assert np.array_equal(once.labels_, order[moved.labels_])
    assert np.array_equal(once.cluster_centers_[order], moved.cluster_centers_)


@every_matrix
def test_translated_rows_have_translated_centres(dtype, layout):
    """The shift of the rows is exact; shifted float32 centres are rounded more coarsely."""
    dense, wrap = make(dtype, layout)
    dense = (np.round(dense * 64) / 64).astype(dtype)
    shift = np.array([1000, -500, 4096, 0, 7, -2048], dtype=dtype)
    once = fit(wrap(dense), start(dense, 9), tol=0, max_iter=3)
    moved = fit(wrap(dense + shift), start(dense, 9) + shift, tol=0, max_iter=3)
    exact = dtype == np.float64
    np.testing.assert_allclose(
        moved.cluster_centers_ - shift, once.cluster_centers_, rtol=0, atol=1e-11 if exact else 2e-3
    )
    assert np.mean(once.labels_ == moved.labels_) >= (1 if exact else 0.99)
    assert once.inertia_ == pytest.approx(moved.inertia_, rel=1e-9 if exact else 1e-3)


@every_case
def test_features_may_change_places_and_zeros_may_be_added(dtype, layout, options):
    dense, wrap = make(dtype, layout)
    once = fit(wrap(dense), start(dense, 9), **options)
    order = np.r_[2, 0, 5, 1, 4, 3]
    moved = fit(wrap(dense[:, order].copy()), start(dense, 9)[:, order], **options)
    assert np.array_equal(once.labels_, moved.labels_)
    pad = np.zeros((len(dense), 5), dtype)
    padded = fit(wrap(np.hstack([dense, pad])), np.hstack([start(dense, 9), pad[:9]]), **options)
    assert np.array_equal(once.labels_, padded.labels_)
    assert not padded.cluster_centers_[:, 6:].any()
