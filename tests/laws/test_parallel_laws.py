"""k-means||: what holds for any data. Its distribution: sampling/test_parallel_distribution.py."""

import numpy as np
import pytest
from laws.brute import squared_distances
from laws.cases import DTYPES, LAYOUTS, rows
from laws.threads import on_threads
from scipy import sparse

from kvariates.data.rows import Rows
from kvariates.seeding.kmeans_parallel import kmeans_parallel
from kvariates.seeding.sampler import greedy_trials
from kvariates.seeding.seeding_problem import SeedingProblem, sample_rows


def problem(X, k, weights=None, seed=0):
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    return SeedingProblem(Rows.of(X), weights, k, rng=np.random.default_rng(seed))


def seeds(X, k, weights=None, seed=0, **options):
    return kmeans_parallel(problem(X, k, weights, seed), **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 2, 130])
def test_centres_are_different_rows(layout, dtype, k):
    dense = rows(700, 6, dtype, seed=71, sparsity=0.3)
    found = seeds(LAYOUTS[layout](dense), k)
    assert found.centers.shape == (k, 6)
    assert found.centers.dtype == np.float64
    assert np.array_equal(found.centers, dense[found.indices])
    assert len(set(found.indices.tolist())) == k


@pytest.mark.parametrize("k", [3, 40])
def test_weights_are_repeats_and_order_does_not_matter(k):
    X = rows(300, 4, seed=72)
    weights = np.random.default_rng(0).integers(0, 5, size=300)
    order = np.random.default_rng(1).permutation(weights.sum())
    repeated = np.repeat(X, weights, axis=0)[order]
    different = 0
    for seed in range(15):
        once, again = seeds(X, k, weights, seed), seeds(repeated, k, None, seed)
        assert np.array_equal(once.centers, again.centers)
        assert np.array_equal(repeated[again.indices], again.centers)
        different += not np.array_equal(once.centers, seeds(X, k, None, seed).centers)
    assert different > 12, "weights that never matter"


def test_sparse_is_dense_and_scales_change_nothing():
    X, weights = rows(400, 4, seed=74, sparsity=0.5), np.random.default_rng(2).exponential(size=400)
    for seed in range(5):
        once = seeds(X, 30, weights, seed).indices
        assert np.array_equal(once, seeds(sparse.csr_array(X), 30, weights, seed).indices)
        for power in (-60, 7, 60):
            assert np.array_equal(once, seeds(X * 2.0**power, 30, weights, seed).indices)
            assert np.array_equal(once, seeds(X, 30, weights * 2.0**power, seed).indices)
    assert not np.array_equal(once, seeds(X, 30, weights, seed=99).indices)


def test_threads_change_no_draw():
    X = rows(30011, 20, np.float32, seed=75)
    first, *others = on_threads(lambda: seeds(X, 60).indices)
    assert all(np.array_equal(first, other) for other in others)


def test_rows_without_weight_are_never_chosen():
    X, weights = rows(400, 3, seed=77), np.zeros(400)
    weights[100:160] = 1
    assert sorted(seeds(X, 60, weights).indices.tolist()) == list(range(100, 160))


@pytest.mark.parametrize("weights", [None, [1.0, 2, 0, 3, 0.5, 4, 0]], ids=["none", "weights"])
def test_more_centres_than_different_rows(weights):
    X = np.array([[0.0, 0], [0, 0], [9, 9], [3, 1], [3, 1], [3, 1], [8, 8]])
    able = X if weights is None else X[np.array(weights) > 0]
    for seed in range(20):
        found = seeds(X, 6, weights, seed)
        assert np.array_equal(found.centers, X[found.indices])
        assert np.array_equal(np.unique(found.centers, axis=0), np.unique(able, axis=0))


@pytest.mark.parametrize("oversampling", [0.01, 5.0])
@pytest.mark.parametrize("rounds", [0, 1, 8])
def test_too_few_and_too_many_candidates(rounds, oversampling):
    """Far less than k, or far more than n: k different rows either way."""
    X = rows(25, 3, seed=78)
    for seed in range(10):
        for k in (20, 25):
            found = seeds(X, k, seed=seed, rounds=rounds, oversampling=oversampling)
            assert len(set(found.indices.tolist())) == k


def test_squares_that_overflow_are_reported():
    with pytest.raises(ValueError, match="overflow"):
        seeds(np.array([[0.0], [1e200], [3e200]]), 2)


@pytest.mark.parametrize("spread", [0.05, 1.0, 30.0], ids=["groups", "overlapping", "no groups"])
def test_quality_is_that_of_kmeans_plusplus(spread):
    rng, k = np.random.default_rng(79), 40
    X = rng.normal(size=(k, 5))[rng.integers(k, size=4000)] * 3
    X += rng.normal(size=X.shape) * spread

    def mean_cost(seed_with):
        found = (seed_with(problem(X, k, seed=seed)).centers for seed in range(12))
        return np.mean([squared_distances(X, centers).min(axis=1).sum() for centers in found])

    parallel, plain = mean_cost(kmeans_parallel), mean_cost(sample_rows)
    greedy = mean_cost(lambda p: sample_rows(p, trials=greedy_trials(k)))
    assert parallel < plain
    assert parallel < 1.1 * greedy
