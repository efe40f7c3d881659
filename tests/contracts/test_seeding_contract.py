"""What any seeding owes its caller: rows of X, named by their indices, the same for a seed."""

import numpy as np
import pytest
from laws.cases import rows
from scipy import sparse

from kvariates import kmeans_plusplus

SEEDINGS = {"plain": 1, "greedy": None, "greedy of 7": 7}
every = pytest.mark.parametrize("trials", SEEDINGS.values(), ids=SEEDINGS)
X = rows(500, 6, seed=51, sparsity=0.3)


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("k", [1, 2, 17, 130, 500])
def test_centres_are_rows(trials, dtype, layout, k):
    data = layout(X.astype(dtype))
    centers, indices = kmeans_plusplus(data, k, n_local_trials=trials, random_state=0)
    assert centers.shape == (k, 6)
    assert centers.dtype == dtype
    assert isinstance(centers, np.ndarray)
    assert indices.shape == (k,)
    assert np.issubdtype(indices.dtype, np.integer)
    assert np.array_equal(centers, X.astype(dtype)[indices])
    assert len(set(indices.tolist())) == k


@every
def test_a_seed_names_its_draws(trials):
    def draw(state, data=X):
        return kmeans_plusplus(data, 20, n_local_trials=trials, random_state=state)[1].tolist()

    assert draw(3) == draw(3)
    assert draw(3) != draw(4)
    assert draw(np.random.default_rng(3)) == draw(np.random.default_rng(3))
    assert draw(np.random.RandomState(3)) == draw(np.random.RandomState(3))
    assert draw(None) != draw(None)
    assert draw(3, np.asfortranarray(X)) == draw(3)
    assert draw(3, X.tolist()) == draw(3)
    assert draw(3, sparse.csr_array(X)) == draw(3)
    assert draw(3, sparse.csc_array(X)) == draw(3)


@every
def test_weights_one_are_no_weights(trials):
    options = {"n_local_trials": trials, "random_state": 5}
    none = kmeans_plusplus(X, 20, **options)[1]
    assert np.array_equal(none, kmeans_plusplus(X, 20, sample_weight=np.ones(500), **options)[1])


@every
def test_weightless_rows_are_never_drawn(trials):
    weights = np.zeros(500)
    weights[100:160] = 1
    for seed in range(20):
        indices = kmeans_plusplus(
            X, 60, sample_weight=weights, n_local_trials=trials, random_state=seed
        )[1]
        assert sorted(indices.tolist()) == list(range(100, 160))


@every
def test_nothing_given_is_changed(trials):
    data, weights = X.copy(), np.arange(500.0)
    kmeans_plusplus(data, 20, sample_weight=weights, n_local_trials=trials, random_state=0)
    assert np.array_equal(data, X)
    assert np.array_equal(weights, np.arange(500.0))


@every
def test_given_norms_change_nothing(trials):
    options = {"n_local_trials": trials, "random_state": 5}
    norms = (X**2).sum(axis=1)
    assert np.array_equal(
        kmeans_plusplus(X, 20, x_squared_norms=norms, **options)[1],
        kmeans_plusplus(X, 20, **options)[1],
    )


def test_greedy_is_better_than_plain_on_average():
    def cost(centers):
        return ((X[:, None, :] - centers) ** 2).sum(axis=2).min(axis=1).sum()

    def mean(trials):
        draws = [kmeans_plusplus(X, 10, n_local_trials=trials, random_state=s) for s in range(60)]
        return np.mean([cost(centers) for centers, _ in draws])

    assert mean(None) < 0.97 * mean(1)
    assert mean(1) < 0.97 * np.mean(
        [cost(X[np.random.default_rng(s).permutation(500)[:10]]) for s in range(60)]
    )
