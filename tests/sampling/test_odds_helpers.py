"""The tests of laws are tested: they accept a correct sampler and reject each planted mistake."""

import itertools

import numpy as np
import pytest
from sampling import exact, samplers
from sampling.chi_square import ALPHA, chi_square, follows, merge_rare, uniform
from scipy import stats

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)
# Seventeen rows: enough for an eighth to be two of them.
FEW = RNG.normal(size=(17, 2)) * [3, 1], RNG.integers(1, 6, size=17).astype(float)
_groups = RNG.normal(scale=4, size=(6, 2)).repeat(40, axis=0)
GROUPS = _groups + RNG.normal(scale=0.05, size=(240, 2)), RNG.integers(1, 6, size=240).astype(float)
PLAIN, GREEDY = exact.plain_step, exact.greedy_step(3)


def test_chi_square_is_the_textbook_statistic():
    counts, p = np.array([25, 30, 45]), np.array([0.2, 0.3, 0.5])
    assert chi_square(counts, p) == pytest.approx(stats.chisquare(counts, p * 100).pvalue)
    assert chi_square([500, 500, 1], [0.5, 0.5, 0.0]) == 0.0
    assert chi_square([500, 500, 0], [0.5, 0.5, 0.0]) == 1.0


def test_p_values_are_uniform_if_the_law_is_right():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(40, 0.5))
    p_values = [chi_square(rng.multinomial(5000, p), p) for _ in range(2000)]
    assert stats.kstest(p_values, "uniform").pvalue > ALPHA
    assert np.mean(np.array(p_values) < 0.01) < 0.03


def test_what_is_no_law_is_refused():
    for p in ([0.5, 0.4], [0.5, 0.6], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="sum to"):
            chi_square([5, 5], p)
    with pytest.raises(ValueError, match="two cells"):
        chi_square([100, 0], [1.0, 0.0])


def test_merging_keeps_every_draw_and_leaves_no_rare_cell():
    expected = np.array([0.1, 0.2, 9.0, 3.0, 0.0, 50.0, 7.0, 0.5, 20.0, 1.0])
    counts, merged = merge_rare(np.arange(10.0), expected)
    assert merged.min() >= 8
    assert merged.sum() == pytest.approx(expected.sum())
    assert counts.sum() == 45 - 4
    counts, merged = merge_rare(np.ones(30), np.full(30, 0.9))
    assert (counts.sum(), merged.sum()) == (30, pytest.approx(27))


def test_uniform_accepts_and_rejects():
    values = np.random.default_rng(1).random(4000)
    assert uniform(values) > ALPHA
    assert uniform(values**1.25) < ALPHA


def test_greedy_law_is_the_enumeration_of_candidate_tuples():
    """The closed form of greedy_step against every tuple of candidates, ties to the first."""
    X = np.array([[0.0, 0], [1, 0], [1, 0], [4, 1], [0, 3], [2, 2]])
    weights = np.array([1.0, 2, 1, 0, 1, 3])
    D, law = exact.squared(X), np.zeros(len(X))
    plain = PLAIN(D, weights, [0])
    for candidates in itertools.product(np.flatnonzero(plain), repeat=3):
        left = [weights @ np.minimum(D[:, 0], D[:, c]) for c in candidates]
        law[candidates[int(np.argmin(np.round(left, 9)))]] += np.prod(plain[list(candidates)])
    assert law.sum() == pytest.approx(1.0)
    assert GREEDY(D, weights, [0]) == pytest.approx(law, abs=1e-12)
    assert exact.greedy_step(1)(D, weights, [0]) == pytest.approx(plain, abs=1e-12)


def p_values(sampler, step, runs):
    """Judge whole sequences on a small set, and single draws on a larger one."""
    X, weights = FEW
    D, rng = exact.squared(X), np.random.default_rng(11)
    sequences = [tuple(map(int, sampler(D, 3, weights, rng))) for _ in range(3000)]
    first = follows(sequences, exact.sequence_law(step, X, 3, weights))
    X, weights = GROUPS
    D = exact.squared(X)
    found = np.array([sampler(D, 9, weights, rng) for _ in range(runs)])
    return first, exact.judge(step, X, found, weights)


def test_a_correct_sampler_is_accepted():
    assert min(p_values(samplers.right, PLAIN, 300)) > ALPHA
    assert min(p_values(samplers.right_greedy, GREEDY, 300)) > ALPHA


@pytest.mark.parametrize("mistake", samplers.WRONG_PLAIN)
def test_a_wrong_plain_sampler_is_rejected(mistake):
    assert max(p_values(samplers.WRONG_PLAIN[mistake], PLAIN, 300)) < ALPHA


@pytest.mark.parametrize("mistake", samplers.WRONG_GREEDY)
def test_a_wrong_greedy_sampler_is_rejected(mistake):
    assert max(p_values(samplers.WRONG_GREEDY[mistake], GREEDY, 600)) < ALPHA
