"""Seeding on larger sets, where draws are lazy, tiles are skipped and potentials go stale.

Sequences can no longer be enumerated, but each draw's law given the earlier ones can: its place
in that law must be uniform and independent of the others (exact.transforms). ALPHA a test.
"""

import numpy as np
import pytest
from sampling import exact, samplers
from sampling.chi_square import ALPHA, chi_square
from sampling.sets import groups
from scipy import sparse, stats

from kvariates import kmeans_plusplus

LAYOUTS = {"dense": np.asarray, "csr": sparse.csr_array}


def runs_of(X, k, weights=None, trials=1, runs=300, seed=1):
    rng = np.random.default_rng(seed)
    return np.array(
        [
            kmeans_plusplus(X, k, sample_weight=weights, n_local_trials=trials, random_state=rng)[1]
            for _ in range(runs)
        ]
    )


def clustered():
    return groups([1000, 400, 300, 150, 100, 30, 15, 5])[0]


def uniform_square():
    return np.random.default_rng(4).random((1500, 2))


def heavy_tail():
    return np.random.default_rng(5).standard_cauchy((1000, 3))


def weighted_clustered():
    X, of = groups([700, 300, 150, 40, 10], seed=6)
    return X, np.random.default_rng(7).exponential(size=len(X)) * (1 + 9 * (of % 2))


PLAIN = {
    "tight groups": (clustered(), None, 12),
    "uniform square": (uniform_square(), None, 20),
    "heavy tail": (heavy_tail(), None, 16),
    "weighted groups": (*weighted_clustered(), 12),
    "half the weights zero": (uniform_square(), np.arange(1500) % 2.0, 12),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_draws_have_their_conditional_law(name):
    X, weights, k = PLAIN[name]
    found = runs_of(X, k, weights)
    assert exact.worst(exact.transforms(exact.plain_step, X, found, weights)) > ALPHA


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_plain_draws_in_every_layout(layout, dtype):
    X, _ = groups([300, 120, 60, 15, 5], d=8, seed=9)
    X = (X * (np.random.default_rng(0).random(X.shape) < 0.5)).astype(dtype)
    found = runs_of(LAYOUTS[layout](X), 10, runs=250)
    assert exact.worst(exact.transforms(exact.plain_step, X, found)) > ALPHA


@pytest.mark.parametrize("layout", LAYOUTS)
def test_plain_draws_of_wide_rows(layout):
    """More than 2**18 values: rows are drawn in the order they came in, not in a sorted one."""
    X, of = groups([700, 400, 200, 80, 20], spread=0.5, d=200, seed=14)
    assert X.size > 2**18
    weights = np.random.default_rng(2).exponential(size=len(X)) * (1 + of)
    found = runs_of(LAYOUTS[layout](X), 20, weights, runs=120)
    assert exact.worst(exact.transforms(exact.plain_step, X, found, weights)) > ALPHA


@pytest.mark.parametrize("trials", [2, 4])
def test_greedy_draws_have_their_conditional_law(trials):
    X, _ = groups([150, 80, 40, 20, 10], spread=0.3, seed=10)
    weights = np.random.default_rng(1).integers(1, 5, size=len(X)).astype(float)
    found = runs_of(X, 8, weights, trials=trials, runs=250)
    step = exact.greedy_step(trials)
    assert exact.worst(exact.transforms(step, X, found, weights)) > ALPHA


@pytest.mark.parametrize(("n", "k"), [(70, 60), (600, 80)])
def test_many_centres(n, k):
    """Potentials are refreshed many times over; with k near n the last rows are rare."""
    X = np.random.default_rng(12).normal(size=(n, 2))
    found = runs_of(X, k, runs=150)
    assert exact.worst(exact.transforms(exact.plain_step, X, found)) > ALPHA


def test_a_lazy_sampler_that_forgets_to_refresh_would_be_seen():
    X, _, k = PLAIN["tight groups"]
    D, rng = exact.squared(X), np.random.default_rng(1)
    stale = samplers.WRONG_PLAIN["refreshed every other draw"]
    found = [stale(D, k, np.ones(len(X)), rng) for _ in range(60)]
    assert exact.worst(exact.transforms(exact.plain_step, X, found)) < ALPHA


@pytest.fixture(scope="module")
def pairs():
    """Three thousand rows, weighted, and many first and second draws."""
    rng = np.random.default_rng(13)
    X = np.concatenate([rng.normal(size=(2000, 2)), rng.normal(4, 0.1, size=(1000, 2))])
    weights = rng.uniform(0.5, 2.0, size=3000)
    weights[rng.permutation(3000)[:300]] = 0
    return X, weights, runs_of(X, 2, weights, runs=12000, seed=2)


def test_first_draws_at_3000_rows(pairs):
    X, weights, found = pairs
    counts = np.bincount(found[:, 0], minlength=len(X))
    assert chi_square(counts, weights / weights.sum()) > ALPHA


def test_second_draws_at_3000_rows(pairs):
    X, weights, found = pairs
    shares = exact.squared(X) * weights
    second = (weights / weights.sum()) @ (shares / shares.sum(axis=1, keepdims=True))
    counts = np.bincount(found[:, 1], minlength=len(X))
    assert chi_square(counts, second / second.sum()) > ALPHA


def test_which_group_each_draw_falls_in():
    """Against a slow sampler: the group of the t-th draw, two samples of runs compared."""
    X, of = groups([1000, 400, 300, 150, 100, 30, 15, 5])
    D, rng = exact.squared(X), np.random.default_rng(3)
    ours = of[runs_of(X, 12, runs=1000)]
    slow = of[np.array([samplers.right(D, 12, np.ones(len(X)), rng) for _ in range(1000)])]
    for t in range(12):
        assert same_law(ours[:, t], slow[:, t], cells=8) > ALPHA / 12


def same_law(a, b, cells):
    """Return the p-value of two samples of the same size having one law (chi-square)."""
    both = np.array([np.bincount(s, minlength=cells) for s in (a, b)], dtype=float)
    both = both[:, both.sum(axis=0) >= 20]
    statistic = ((both[0] - both[1]) ** 2 / both.sum(axis=0)).sum()
    return stats.chi2.sf(statistic, both.shape[1] - 1) if both.shape[1] > 1 else 1.0
