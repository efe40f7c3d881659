"""Seeding on larger sets, where draws are lazy, tiles are skipped and costs are updated late.

Sequences can no longer be enumerated, but the law of each draw given the earlier ones is known: the
place of the draw in that law must be uniform and independent of the others (exact.transforms).
"""

import numpy as np
import pytest
from api import HostData, Rows, SeedingProblem, sample_rows
from sampling import exact, samplers
from sampling.chi_square import ALPHA, chi_square
from sampling.sets import groups
from scipy import sparse

pytestmark = pytest.mark.slow


def runs_of(X, k, weights=None, trials=1, runs=300):
    problem = SeedingProblem(
        HostData(Rows.of(X), weights), k, rng=np.random.default_rng(1)
    ).canonical()
    return np.array([sample_rows(problem, trials=trials).indices for _ in range(runs)])


def weighted_groups():
    X, of = groups([700, 300, 150, 40, 10], seed=6)
    return X, np.random.default_rng(7).exponential(size=len(X)) * (1 + 9 * (of % 2))


SQUARE = np.random.default_rng(4).random((1500, 2))
PLAIN = {
    "tight groups": (groups([1000, 400, 300, 150, 100, 30, 15, 5])[0], None, 12),
    "uniform square": (SQUARE, None, 20),
    "heavy tail": (np.random.default_rng(5).standard_cauchy((1000, 3)), None, 16),
    "weighted groups": (*weighted_groups(), 12),
    "half the weights zero": (SQUARE, np.arange(1500) % 2.0, 12),
    "k near n": (np.random.default_rng(12).normal(size=(70, 2)), None, 60),
}


@pytest.mark.parametrize("name", PLAIN)
def test_plain_draws_have_their_conditional_law(name):
    X, weights, k = PLAIN[name]
    assert exact.judge(exact.plain_step, X, runs_of(X, k, weights), weights) > ALPHA


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_plain_draws_of_wide_rows(layout):
    """More than 2**18 values: rows are drawn in the order they came in, not in a sorted one."""
    X, of = groups([700, 400, 200, 80, 20], spread=0.5, d=200, seed=14)
    X = X * (np.random.default_rng(0).random(X.shape) < 0.5)
    assert X.size > 2**18
    weights = np.random.default_rng(2).exponential(size=len(X)) * (1 + of)
    found = runs_of(layout(X), 20, weights, runs=120)
    assert exact.judge(exact.plain_step, X, found, weights) > ALPHA


@pytest.mark.parametrize("trials", [2, 4])
def test_greedy_draws_have_their_conditional_law(trials):
    X, _ = groups([150, 80, 40, 20, 10], spread=0.3, seed=10)
    weights = np.random.default_rng(1).integers(1, 5, size=len(X)).astype(float)
    found = runs_of(X, 8, weights, trials=trials, runs=250)
    assert exact.judge(exact.greedy_step(trials), X, found, weights) > ALPHA


def test_costs_that_are_not_updated_would_be_seen():
    X, _, k = PLAIN["tight groups"]
    D, rng = exact.squared(X), np.random.default_rng(1)
    stale = samplers.WRONG_PLAIN["refreshed every other draw"]
    found = [stale(D, k, np.ones(len(X)), rng) for _ in range(60)]
    assert exact.judge(exact.plain_step, X, found) < ALPHA


def test_first_and_second_draws_of_3000_rows():
    rng = np.random.default_rng(13)
    X = np.concatenate([rng.normal(size=(2000, 2)), rng.normal(4, 0.1, size=(1000, 2))])
    weights = rng.uniform(0.5, 2.0, size=3000)
    weights[rng.permutation(3000)[:300]] = 0
    found = runs_of(X, 2, weights, runs=12000)
    first = weights / weights.sum()
    assert chi_square(np.bincount(found[:, 0], minlength=3000), first) > ALPHA
    shares = exact.squared(X) * weights
    second = first @ (shares / shares.sum(axis=1, keepdims=True))
    assert chi_square(np.bincount(found[:, 1], minlength=3000), second / second.sum()) > ALPHA
