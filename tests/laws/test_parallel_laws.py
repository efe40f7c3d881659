"""k-means||: what holds for any data. Its distribution: sampling/test_parallel_distribution.py."""

import numpy as np
import pytest
from api import HostData, Rows, SeedingProblem, kmeans_parallel
from laws.cases import rows


def problem(X, k, weights=None, seed=0):
    weights = None if weights is None else np.asarray(weights, dtype=np.float64)
    return SeedingProblem(HostData(Rows.of(X), weights), k, rng=np.random.default_rng(seed))


def seeds(X, k, weights=None, seed=0, **options):
    return kmeans_parallel(problem(X, k, weights, seed), **options)


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
