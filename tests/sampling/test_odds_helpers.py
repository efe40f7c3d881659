"""The judges are judged first: they must accept a right sampler and reject each planted slip."""

import numpy as np
import pytest
from sampling import exact, samplers
from sampling.chi_square import ALPHA, chi_square, follows, merge_rare, uniform
from scipy import stats

RUNS = 3000


@pytest.fixture(scope="module")
def points():
    """Seventeen rows: enough for an eighth to be two of them; weights far from equal."""
    rng = np.random.default_rng(5)
    return rng.normal(size=(17, 2)) * [3, 1], rng.integers(1, 6, size=17).astype(float)


def draws(sampler, X, k, weights, runs=RUNS, seed=11):
    rng = np.random.default_rng(seed)
    D = exact.squared(X)
    return [tuple(map(int, sampler(D, k, weights, rng))) for _ in range(runs)]


def test_chi_square_is_the_textbook_statistic():
    counts, p = np.array([25, 30, 45]), np.array([0.2, 0.3, 0.5])
    assert chi_square(counts, p) == pytest.approx(stats.chisquare(counts, p * 100).pvalue)


def test_chi_square_p_values_are_uniform_when_the_law_is_right():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.full(40, 0.5))
    p_values = [chi_square(rng.multinomial(5000, p), p) for _ in range(2000)]
    assert stats.kstest(p_values, "uniform").pvalue > ALPHA
    assert np.mean(np.array(p_values) < 0.01) < 0.03


def test_chi_square_knows_impossible_draws():
    assert chi_square([500, 500, 1], [0.5, 0.5, 0.0]) == 0.0
    assert chi_square([500, 500, 0], [0.5, 0.5, 0.0]) == 1.0


@pytest.mark.parametrize("p", [[0.5, 0.4], [0.5, 0.6], [np.nan, 1.0]])
def test_chi_square_refuses_what_is_no_law(p):
    with pytest.raises(ValueError, match="sum to"):
        chi_square([5, 5], p)


def test_chi_square_refuses_to_judge_a_single_cell():
    with pytest.raises(ValueError, match="two cells"):
        chi_square([100, 0], [1.0, 0.0])


def test_merging_keeps_every_draw_and_leaves_no_rare_cell():
    counts = np.arange(10.0)
    expected = np.array([0.1, 0.2, 9.0, 3.0, 0.0, 50.0, 7.0, 0.5, 20.0, 1.0])
    merged_counts, merged = merge_rare(counts, expected)
    assert merged.min() >= 8
    assert merged.sum() == pytest.approx(expected.sum())
    assert merged_counts.sum() == counts.sum() - counts[4]


def test_merging_when_all_is_rare_but_together():
    counts, expected = merge_rare(np.ones(30), np.full(30, 0.9))
    assert expected.sum() == pytest.approx(27)
    assert counts.sum() == 30


def test_uniform_accepts_and_rejects():
    values = np.random.default_rng(1).random(4000)
    assert uniform(values) > ALPHA
    assert uniform(values**1.25) < ALPHA


def test_laws_are_laws(points):
    X, weights = points
    for step in (exact.plain_step, exact.greedy_step(3), exact.forgy_step):
        law = exact.sequence_law(step, X[:6], 3, weights[:6])
        assert sum(law.values()) == pytest.approx(1.0)


def test_greedy_law_is_the_enumeration_of_candidate_tuples():
    """The closed form of greedy_step against every tuple of candidates, ties to the first."""
    X = np.array([[0.0, 0], [1, 0], [1, 0], [4, 1], [0, 3], [2, 2]])
    weights = np.array([1.0, 2, 1, 0, 1, 3])
    D, chosen, trials = exact.squared(X), [0], 3
    law = np.zeros(len(X))
    for candidates, chance in exact.every_tuple(exact.plain_step(D, weights, chosen), trials):
        left = [weights @ np.minimum(D[:, chosen].min(axis=1), D[:, c]) for c in candidates]
        law[candidates[int(np.argmin(np.round(left, 9)))]] += chance
    assert exact.greedy_step(trials)(D, weights, chosen) == pytest.approx(law, abs=1e-12)
    assert exact.greedy_step(1)(D, weights, chosen) == pytest.approx(
        exact.plain_step(D, weights, chosen), abs=1e-12
    )


def test_a_right_sampler_is_accepted(points):
    X, weights = points
    law = exact.sequence_law(exact.plain_step, X, 3, weights)
    assert follows(draws(samplers.right, X, 3, weights), law) > ALPHA
    greedy = exact.sequence_law(exact.greedy_step(3), X, 3, weights)
    assert follows(draws(samplers.right_greedy, X, 3, weights), greedy) > ALPHA


@pytest.mark.parametrize("slip", samplers.WRONG_PLAIN)
def test_a_wrong_plain_sampler_is_rejected(slip, points):
    X, weights = points
    law = exact.sequence_law(exact.plain_step, X, 3, weights)
    assert follows(draws(samplers.WRONG_PLAIN[slip], X, 3, weights), law) < ALPHA


@pytest.mark.parametrize("slip", samplers.WRONG_GREEDY)
def test_a_wrong_greedy_sampler_is_rejected(slip, points):
    X, weights = points
    law = exact.sequence_law(exact.greedy_step(3), X, 3, weights)
    assert follows(draws(samplers.WRONG_GREEDY[slip], X, 3, weights), law) < ALPHA


@pytest.fixture(scope="module")
def groups():
    rng = np.random.default_rng(2)
    X = rng.normal(scale=0.05, size=(240, 2)) + rng.normal(scale=4, size=(6, 2)).repeat(40, axis=0)
    return X, rng.integers(1, 4, size=240).astype(float)


def judged(sampler, X, weights, step=exact.plain_step, runs=300):
    found = np.array(draws(sampler, X, 9, weights, runs))
    try:
        return exact.worst(exact.transforms(step, X, found, weights))
    except exact.ImpossibleDrawError:
        return 0.0


def test_transforms_of_a_right_sampler_are_uniform(groups):
    assert judged(samplers.right, *groups) > ALPHA
    assert judged(samplers.right_greedy, *groups, exact.greedy_step(3)) > ALPHA


@pytest.mark.parametrize("slip", samplers.WRONG_PLAIN)
def test_transforms_of_a_wrong_plain_sampler_are_not(slip, groups):
    assert judged(samplers.WRONG_PLAIN[slip], *groups) < ALPHA


@pytest.mark.parametrize("slip", samplers.WRONG_GREEDY)
def test_transforms_of_a_wrong_greedy_sampler_are_not(slip, groups):
    assert judged(samplers.WRONG_GREEDY[slip], *groups, exact.greedy_step(3), 600) < ALPHA
