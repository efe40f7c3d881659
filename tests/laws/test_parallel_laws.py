"""k-means||: what any data must give. Its sampling law is in sampling/test_parallel_odds.py."""

import numpy as np
import pytest
from laws.brute import squared_distances
from laws.cases import DTYPES, LAYOUTS, rows
from scipy import sparse
from threadpoolctl import threadpool_limits

from kvariates.data.rows import Rows
from kvariates.seeding.kmeans_parallel import kmeans_parallel
from kvariates.seeding.sampler import PLAIN, greedy_trials, kvariates


def seeds(X, k, weights=None, seed=0, **options):
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    return kmeans_parallel(Rows.of(X), k, weights, rng=np.random.default_rng(seed), **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("k", [1, 2, 17, 130])
def test_centres_are_rows_and_all_different(layout, dtype, k):
    dense = rows(700, 6, dtype, seed=71, sparsity=0.3)
    found = seeds(LAYOUTS[layout](dense), k)
    assert found.centers.shape == (k, 6)
    assert found.centers.dtype == np.float64
    assert found.indices.dtype == np.int64
    assert np.array_equal(found.centers, dense[found.indices])
    assert len(set(found.indices.tolist())) == k


@pytest.mark.parametrize("k", [3, 40])
def test_weights_are_repeats_and_order_is_none(k):
    X = rows(300, 4, seed=72)
    weights = np.random.default_rng(0).integers(0, 5, size=300)
    order = np.random.default_rng(1).permutation(weights.sum())
    repeated = np.repeat(X, weights, axis=0)[order]
    different = 0
    for seed in range(30):
        once = seeds(X, k, weights, seed)
        again = seeds(repeated, k, None, seed)
        assert np.array_equal(once.centers, again.centers)
        assert np.array_equal(repeated[again.indices], again.centers)
        different += not np.array_equal(once.centers, seeds(X, k, None, seed).centers)
    assert different > 25, "weights that never matter"


def test_sparse_is_dense():
    X = rows(300, 4, seed=73, sparsity=0.5)
    for seed in range(10):
        dense, csr = seeds(X, 20, seed=seed), seeds(sparse.csr_array(X), 20, seed=seed)
        assert np.array_equal(dense.indices, csr.indices)


def test_scales_change_nothing():
    X, weights = rows(400, 4, seed=74), np.random.default_rng(2).exponential(size=400)
    for seed in range(5):
        once = seeds(X, 30, weights, seed).indices
        for power in (-60, 7, 60):
            assert np.array_equal(once, seeds(X * 2.0**power, 30, weights, seed).indices)
            assert np.array_equal(once, seeds(X, 30, weights * 2.0**power, seed).indices)


@pytest.mark.parametrize("d", [3, 20])
def test_draws_do_not_see_threads(d):
    X = rows(30011, d, np.float32, seed=75)
    found = []
    for threads in (1, 2, 4):
        with threadpool_limits(threads, user_api="openmp"):
            found.append(seeds(X, 60).indices)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_a_seed_names_its_draws():
    X = rows(500, 3, seed=76)
    assert np.array_equal(seeds(X, 20, seed=1).indices, seeds(X, 20, seed=1).indices)
    assert not np.array_equal(seeds(X, 20, seed=1).indices, seeds(X, 20, seed=2).indices)


def test_weightless_rows_are_never_chosen():
    X, weights = rows(400, 3, seed=77), np.zeros(400)
    weights[100:160] = 1
    for seed in range(10):
        found = seeds(X, 60, weights, seed).indices
        assert sorted(found.tolist()) == list(range(100, 160))


@pytest.mark.parametrize(
    "weights", [None, [1.0, 2, 0, 3, 0.5, 4, 0]], ids=["no weights", "weights"]
)
def test_more_centres_than_different_rows(weights):
    X = np.array([[0.0, 0], [0, 0], [9, 9], [3, 1], [3, 1], [3, 1], [8, 8]])
    able = X if weights is None else X[np.array(weights) > 0]
    for seed in range(20):
        found = seeds(X, 6, weights, seed)
        assert found.centers.shape == (6, 2)
        assert np.array_equal(found.centers, X[found.indices])
        assert np.array_equal(np.unique(found.centers, axis=0), np.unique(able, axis=0))


@pytest.mark.parametrize("oversampling", [0.01, 5.0])
@pytest.mark.parametrize("rounds", [0, 1, 8])
def test_too_few_or_too_many_candidates(rounds, oversampling):
    """Far less than k, or far more than n: k different rows either way."""
    X = rows(25, 3, seed=78)
    for seed in range(10):
        found = seeds(X, 20, seed=seed, rounds=rounds, oversampling=oversampling)
        assert len(set(found.indices.tolist())) == 20
        everything = seeds(X, 25, seed=seed, rounds=rounds, oversampling=oversampling)
        assert sorted(everything.indices.tolist()) == list(range(25))


def test_squares_that_overflow_are_reported():
    with pytest.raises(ValueError, match="overflow"):
        seeds(np.array([[0.0], [1e200], [3e200]]), 2)


def mean_cost(draw, X, runs=12):
    costs = []
    for seed in range(runs):
        centers = draw(np.random.default_rng(seed))
        costs.append(squared_distances(X, centers).min(axis=1).sum())
    return np.mean(costs)


@pytest.mark.parametrize("spread", [0.05, 1.0, 30.0], ids=["groups", "overlapping", "no groups"])
def test_quality_is_on_par_with_kmeans_plusplus(spread):
    rng = np.random.default_rng(79)
    X = rng.normal(size=(40, 5))[rng.integers(40, size=4000)] * 3
    X += rng.normal(size=X.shape) * spread
    space, k = Rows.of(X), 40
    parallel = mean_cost(lambda r: kmeans_parallel(space, k, None, rng=r).centers, X)
    plain = mean_cost(lambda r: kvariates(space, k, None, PLAIN, 1, r).centers, X)
    greedy = mean_cost(lambda r: kvariates(space, k, None, PLAIN, greedy_trials(k), r).centers, X)
    assert parallel < plain
    assert parallel < 1.1 * greedy
