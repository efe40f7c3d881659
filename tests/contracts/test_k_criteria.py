"""Choosing k: the test of a division, and criteria equal their definitions."""

import math

import numpy as np
import pytest
from api import (
    FALSE_ALARM,
    DivisionTest,
    HostData,
    RoundedColumns,
    Rows,
    SeedingProblem,
    Valley,
    ValleyCounts,
    deepest_valley,
    elbow_of,
    pooled_p_value,
    silhouette_of,
)
from contracts.k_choices import blobs
from scipy import sparse
from scipy.stats import binom
from sklearn.metrics import silhouette_score

from kvariates import KMeans, choose_k

# ---- the test of a division ----


def valley_counts(chooses, counts):
    """The counts of the second half in the intervals that the first half chooses."""
    valley = Valley.of(chooses)
    return ValleyCounts(0, 0) if valley is None else valley.counts(counts)


def test_the_deepest_valley_is_found():
    bins = np.array([5, 9, 9, 4, 0, 1, 7, 8, 8, 0, 0, 0])
    found, depth = deepest_valley(bins)
    score = {}
    for width in range(1, 5):
        inside = np.convolve(bins, np.ones(width, int), "valid")
        for m in range(width, len(inside) - width):
            side = min(inside[: m - width + 1].max(), inside[m + width :].max())
            score[m, width] = (side - inside[m]) / math.sqrt(max(side + inside[m], 1))
    assert score[found.middle, found.width] == max(score.values()) == depth
    assert found.left + found.width <= found.middle <= found.right - found.width


def test_a_p_value_without_a_valley_is_at_least_uniform():
    """P(p <= a) <= a, for densities without a valley; uniform ones are the hardest.

    The number of 1,500 p-values below a is at most binomial(1500, a).
    """
    rng = np.random.default_rng(2)
    for draw in (rng.random, rng.standard_cauchy):
        p_values = [pooled_p_value([valley_counts(draw(60), draw(60))]) for _ in range(1500)]
        for level in (0.3, 0.05, 0.01):
            count = np.count_nonzero(np.array(p_values) <= level)
            assert binom.sf(count - 1, 1500, level) > 1e-6


@pytest.mark.parametrize("n", [20, 100])
def test_halves_that_count_for_each_other_keep_the_false_alarm_rate(n):
    """They are not independent, but at the level that is used the p-value still holds."""
    rng, false = np.random.default_rng(7), 0
    for _ in range(1500):
        one, two = rng.random((2, n))
        counts = [valley_counts(one, two), valley_counts(two, one)]
        false += pooled_p_value(counts) < FALSE_ALARM
    assert binom.sf(false - 1, 1500, FALSE_ALARM) > 1e-6


def test_two_peaks_have_a_small_p_value():
    rng = np.random.default_rng(3)
    one, two = (np.r_[rng.normal(size=40), rng.normal(size=40) + 9] for _ in range(2))
    assert pooled_p_value([valley_counts(one, two)]) < 1e-5
    assert pooled_p_value([]) == pooled_p_value([valley_counts(np.ones(9), one)]) == 1
    tiny = np.full(9, 1.0)
    tiny[0] += 2**-52  # less than 24 steps of float64
    assert tuple(valley_counts(tiny, tiny)) == (0, 0)


def steps(X):
    """Return the deviation of the noise along each axis, times two."""
    rng, n, d = np.random.default_rng(0), 10**5, X.shape[1]
    rounding = RoundedColumns(X)
    noise = [rounding.fill(np.zeros(n), axis, rng) for axis in np.eye(d)]
    return 2 * np.std(noise, axis=1)


def test_rounded_columns_get_noise_of_half_a_step():
    rng = np.random.default_rng(5)
    normal = rng.normal(size=500)
    sums = 0.1 * rng.integers(9, size=500) + 0.2 * rng.integers(9, size=500)  # 0.3 is 0.1 + 0.2
    code = np.where(rng.random(500) < 0.2, 1e6, np.round(5 * normal))
    X = np.c_[normal, np.round(normal, 1), np.round(30 * normal) * 7, sums, code, np.ones(500)]
    expected = [0, 0.1, 7, 0.1, 4, 0]
    assert steps(X) == pytest.approx(expected, rel=0.02)
    assert steps(sparse.csr_array(X)) == pytest.approx(expected, rel=0.02)
    assert steps(np.repeat(X[:, :1], 2, axis=0)).max() < 0.1


def test_noise_fills_the_gaps_between_rounded_values():
    rng = np.random.default_rng(6)
    one, two = rng.poisson(2, size=(2, 1000)) * 1.0
    rounding = RoundedColumns(np.r_[one, two][:, None])
    filled = [rounding.fill(values, np.ones(1), rng) for values in (one, two)]
    assert pooled_p_value([valley_counts(one, two)]) < 1e-5
    assert pooled_p_value([valley_counts(*filled)]) > 0.05


def test_rows_with_hardly_any_repeated_values_get_no_noise():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(90, 2))
    state = rng.bit_generator.state
    X[5] = X[4]
    assert np.array_equal(RoundedColumns(X).fill(X[:, 0], np.ones(2), rng), X[:, 0])
    assert rng.bit_generator.state == state


def test_a_part_of_many_rows_is_tested(monkeypatch):
    monkeypatch.setattr("kvariates.k_selection.search.TESTED", 300)
    X = blobs(3, 4, n=1000)
    test = DivisionTest(SeedingProblem(HostData(Rows.of(X), None), 3, rng=np.random.default_rng(0)))
    used, counts = [], test._counts
    test._counts = lambda *halves: used.extend(halves) or counts(*halves)
    assert test.dividing(np.zeros(1000, np.int32)) == 1
    assert 200 < len(np.unique(np.concatenate(used))) <= 300
    assert not np.intersect1d(*used[:2]).size
    assert choose_k(X, random_state=0).k == 3


def test_clusters_are_tested_one_by_one():
    """Of the joined pairs both divide, single ones do not; the same rows have one p-value."""
    X = blobs(4, 3, n=400)
    rng = np.random.default_rng(0)
    test = DivisionTest(SeedingProblem(HostData(Rows.of(X), None), 4, rng=rng))
    labels = (np.arange(400) % 4).astype(np.int32)
    assert test.dividing(labels) == 0
    assert test.dividing(labels // 2) == 2
    state = rng.bit_generator.state
    assert test.dividing(labels // 2) == 2
    assert rng.bit_generator.state == state


# ---- the criteria ----


@pytest.mark.parametrize("method", ["warm", "global"])
def test_costs_fall_and_are_those_of_the_centres(method):
    X = np.random.default_rng(1).normal(size=(300, 4))
    choice = choose_k(X, (1, 12), method=method, random_state=0)
    assert (np.diff(choice.inertia) < 0).all()
    for k, inertia, centers in zip(choice.ks, choice.inertia, choice.solutions, strict=True):
        assert centers.shape == (k, 4)
        cost = ((X[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()
        assert inertia == pytest.approx(cost, rel=1e-12)
    assert np.array_equal(choice.centers, choice.solutions[choice.k - 1])


def test_silhouettes_are_those_of_scikit_learn():
    X = blobs(4, 1)
    choice = choose_k(X, (1, 7), random_state=0)
    assert math.isnan(choice.silhouette[0])
    for value, centers in zip(choice.silhouette[1:], choice.solutions[1:], strict=True):
        labels = KMeans(len(centers), init=centers, max_iter=1).fit(X).predict(X)
        assert value == pytest.approx(silhouette_score(X, labels), abs=1e-3)


def test_a_silhouette_equals_its_definition():
    rng = np.random.default_rng(2)
    X, labels = rng.normal(size=(60, 2)), rng.integers(4, size=60)
    labels[labels == 3] = 0
    labels[7] = 3  # alone in its cluster: counts as 0
    apart = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    expected = silhouette_score(X, labels)
    assert silhouette_of(apart, np.ones(60), labels) == pytest.approx(expected, rel=1e-12)
    assert silhouette_of(apart, np.full(60, 0.01), labels) == pytest.approx(expected, rel=1e-12)
    assert math.isnan(silhouette_of(apart, np.ones(60), np.zeros(60, int)))


def test_an_elbow_is_the_depth_below_the_line():
    ks = np.arange(1, 9)
    assert elbow_of(ks, 100.0 * ks**-0.7) == pytest.approx(np.zeros(8), abs=1e-12)
    depth = elbow_of(ks, np.where(ks <= 4, 100.0 * ks**-2.0, 100.0 * 4**-2.0))
    assert np.argmax(depth) == 3
    # At k = 4 log cost has reached its end, and log k two thirds of its way.
    assert depth[3] == pytest.approx(1 - 2 / 3)
    assert np.isnan(elbow_of(np.array([1, 2]), np.array([2.0, 1.0]))).all()
