"""What every seeding owes its caller: the entries of SEEDINGS, and kmeans_plusplus."""

import numpy as np
import pytest
from api import HOST_SEEDINGS, HostData, Rows, SeedingProblem, StopRule, refine
from laws.cases import rows
from scipy import sparse

from kvariates import kmeans_plusplus

X = rows(500, 6, seed=51, sparsity=0.3)
WEIGHTS = np.random.default_rng(1).exponential(size=500)


def seeded(name, data=X, weights=WEIGHTS, k=20, seed=0):
    points = HostData(Rows.of(data), weights)
    problem = SeedingProblem(
        points, k, rng=np.random.default_rng(seed),
        lloyd=lambda part, centers: refine(part, centers, StopRule(100, 0.0)),
    )  # fmt: skip
    return HOST_SEEDINGS[name].run(problem)


@pytest.mark.parametrize("name", HOST_SEEDINGS)
def test_every_seeding_returns_centres(name):
    """Different rows in float64: the same for a seed, and others for another seed."""
    data, weights = X.copy(), WEIGHTS.copy()
    centers = seeded(name, data, weights)
    assert centers.shape == (20, 6)
    assert centers.dtype == np.float64
    assert len(np.unique(centers, axis=0)) == 20
    assert np.array_equal(centers, seeded(name))
    if name != "global":  # tries all rows here, and draws nothing
        assert not np.array_equal(centers, seeded(name, seed=1))
        assert (centers[:, None] == X).all(axis=2).any(axis=1).all(), "not rows of X"
    assert np.array_equal(data, X)
    assert np.array_equal(weights, WEIGHTS)


@pytest.mark.parametrize("name", HOST_SEEDINGS)
def test_every_seeding_takes_sparse_and_single_precision(name):
    single = X.astype(np.float32)
    dense, csr = seeded(name, single), seeded(name, sparse.csr_array(single))
    np.testing.assert_allclose(dense, csr, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", HOST_SEEDINGS)
def test_rows_without_weight_are_never_centres(name):
    weights = np.zeros(500)
    weights[100:160] = 1
    centers = seeded(name, weights=weights, k=60)
    expected = X[100:160]
    assert np.array_equal(np.unique(centers, axis=0), np.unique(expected, axis=0))


TRIALS = {"plain": 1, "greedy": None, "greedy of 7": 7}
every_kind = pytest.mark.parametrize("trials", TRIALS.values(), ids=TRIALS)


@every_kind
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_centres_are_rows(trials, dtype, layout):
    for k in (1, 2, 130, 500):
        data = layout(X.astype(dtype))
        centers, indices = kmeans_plusplus(data, k, n_local_trials=trials, random_state=0)
        assert centers.dtype == dtype
        assert isinstance(centers, np.ndarray)
        assert np.issubdtype(indices.dtype, np.integer)
        assert np.array_equal(centers, X.astype(dtype)[indices])
        assert len(set(indices.tolist())) == k


@every_kind
def test_a_seed_determines_the_draws(trials):
    def draw(state, data=X, **options):
        options = {"n_local_trials": trials, "random_state": state, **options}
        return kmeans_plusplus(data, 20, **options)[1].tolist()

    once = draw(3)
    assert draw(4) != once
    assert draw(np.random.default_rng(3)) == draw(np.random.default_rng(3))
    assert draw(np.random.RandomState(3)) == draw(np.random.RandomState(3))
    assert draw(None) != draw(None)
    for data in (np.asfortranarray(X), X.tolist(), sparse.csr_array(X), sparse.csc_array(X)):
        assert draw(3, data) == once
    assert draw(3, sample_weight=np.ones(500)) == once
    assert draw(3, x_squared_norms=(X**2).sum(axis=1)) == once
