"""Choosing k: known numbers are found, noise has no clear answer, criteria equal their definitions.

`python -m experiments.choosing` counts right answers on many more sets.
"""

import math

import numpy as np
import pytest
from experiments import choosing
from laws import brute
from scipy import sparse
from scipy.stats import binom
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from kvariates import KMeans, choose_k, k_selection
from kvariates.data.rows import Rows
from kvariates.k_selection import (
    DivisionTest,
    Guess,
    elbow_of,
    guess,
    settled,
    silhouette_of,
    suggest,
)
from kvariates.numerics.valleys import deepest_valley, pooled_p_value, valley_counts
from kvariates.seeding.seeding_problem import SeedingProblem

COLUMNS = ("ks", "inertia", "elbow", "silhouette", "dividing")
FAST = {"k_range": (1, 5), "random_state": 0}


def blobs(k, seed, n=400, d=3, apart=7.0):
    """Return unit Gaussians around k centres, no two of which are closer than `apart`."""
    rng = np.random.default_rng([k, seed])
    centers = np.empty((0, d))
    while len(centers) < k:
        fresh = rng.uniform(-10, 10, size=(1, d))
        if ((centers - fresh) ** 2).sum(axis=1).min(initial=np.inf) > apart**2:
            centers = np.vstack([centers, fresh])
    return centers[np.arange(n) % k] + rng.normal(size=(n, d))


def same(a, b):
    return (
        (a.k, a.clear, a.reason) == (b.k, b.clear, b.reason)
        and all(np.array_equal(getattr(a, c), getattr(b, c), equal_nan=True) for c in COLUMNS)
        and all(np.array_equal(x, y) for x, y in zip(a.solutions, b.solutions, strict=True))
    )


# ---- the suggestion ----


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_a_planted_k_is_found(k, seed):
    choice = choose_k(blobs(k, seed), (1, 12), random_state=seed)
    assert (choice.k, choice.clear) == (k, True)


@pytest.mark.parametrize("shape", choosing.SHAPES)
def test_clusters_of_any_shape_are_counted(shape):
    choice = choose_k(choosing.planted(shape, 12, 2, 1500, 0), (1, 15), random_state=0)
    assert (choice.k, choice.clear) == (12, True)


def test_fifty_clusters_are_counted():
    choice = choose_k(choosing.planted("sizes", 50, 10, 2000, 0), (1, 53), random_state=0)
    assert (choice.k, choice.clear) == (50, True)


def test_topics_of_text_are_counted():
    choice = choose_k(choosing.topics(6, 500, 0), random_state=0)
    assert (choice.k, choice.clear) == (6, True)


@pytest.mark.parametrize("shape", choosing.NOISE_SHAPES)
@pytest.mark.parametrize("kind", choosing.NOISES)
def test_noise_has_no_clear_answer(kind, shape):
    choice = choose_k(choosing.noise(kind, *shape, 0), (1, 8), random_state=0)
    assert (choice.k, choice.clear) == (1, False)
    assert choice.reason.startswith("no clear answer: the rows do not divide")


def test_clusters_in_groups_are_all_found():
    """The silhouette prefers the two groups."""
    rng = np.random.default_rng(0)
    near = np.array([[0, 0], [8, 0], [0, 8]])
    centers = np.vstack([near, near + 200])
    X = centers[np.arange(600) % 6] + rng.normal(size=(600, 2))
    choice = choose_k(X, random_state=0)
    assert choice.k == 6
    assert choice.ks[np.nanargmax(choice.silhouette)] == 2


def test_a_far_row_does_not_hide_clusters():
    X = np.vstack([blobs(4, 0), np.full((1, 3), 1e4)])
    choice = choose_k(X, random_state=0)
    assert choice.clear
    assert choice.k in {4, 5}


def test_a_wide_cluster_is_not_counted_twice():
    """Two centres in the wide cluster cost less than one for each of the small ones."""
    rng = np.random.default_rng(1)
    wide = rng.normal(size=(600, 2)) * 5
    small = np.vstack([rng.normal(size=(80, 2)) * 0.5 + (60, y) for y in (0, 6)])
    choice = choose_k(np.vstack([wide, small]), (1, 12), random_state=0)
    assert (choice.k, choice.clear) == (3, True)
    sizes = np.bincount(brute.nearest(np.vstack([wide, small]), choice.centers))
    assert sorted(sizes) == [80, 80, 600]
    assert choice.dividing[2] == 0


def test_the_range_ends_at_the_number_of_distinct_rows():
    X = np.repeat(np.random.default_rng(0).normal(size=(4, 2)), 30, axis=0)
    with pytest.warns(ConvergenceWarning, match="X has 4 distinct rows: k_range ends there"):
        choice = choose_k(X, (1, 9), random_state=0)
    assert choice.k == 4
    assert choice.ks.tolist() == [1, 2, 3, 4]
    assert choice.inertia[3] < 1e-20


@pytest.mark.parametrize(
    ("ks", "k", "answer", "why"),
    [
        ((1, 9), 4, (4, True), "no cluster divides"),
        ((1, 9), 1, (1, False), "do not divide into separate clusters."),
        ((2, 9), 1, (7, False), "do not divide into separate clusters; guessed."),
        ((5, 9), 4, (7, False), "separate at k = 4, below the range; guessed."),
        (
            (1, 9),
            None,
            (7, False),
            "still divide at k = 9; try a higher one; guessed.",
        ),
    ],
)
def test_the_answer_and_its_reason(ks, k, answer, why):
    *found, reason = suggest(np.arange(ks[0], ks[1] + 1), k, Guess(7, "guessed."))
    assert tuple(found) == answer
    assert why in reason
    assert reason.startswith("no clear answer") == (not answer[1])


@pytest.mark.parametrize(
    ("elbow", "silhouette", "k", "why"),
    [
        ([0, 0.5, 0], [math.nan, 0.9, 0.95], 3, "silhouette is largest"),
        ([0, 0.1, 0], [math.nan, 0.1, 0.2], 2, "the elbow is here"),
        ([math.nan] * 3, [math.nan, 0.1, 0.2], 3, "silhouette is largest"),
    ],
)
def test_a_guess_is_by_the_silhouette_and_then_by_the_elbow(elbow, silhouette, k, why):
    found = guess(np.array([1, 2, 3]), np.array(elbow), np.array(silhouette))
    assert found.k == k
    assert why in found.reason


def test_a_k_is_settled_when_no_cluster_divides_from_it_on():
    for dividing, k in (([0, 0], 1), ([1, 0, 0], 2), ([0, 2, 0, 1, 0], 5), ([1, 2, 1, 0], 4)):
        assert settled(np.array(dividing)) == k


# ---- the test of a division ----


def test_the_deepest_valley_is_found():
    bins = np.array([5, 9, 9, 4, 0, 1, 7, 8, 8, 0, 0, 0])
    found = deepest_valley(bins)
    score = {}
    for width in range(1, 5):
        inside = np.convolve(bins, np.ones(width, int), "valid")
        for m in range(width, len(inside) - width):
            side = min(inside[: m - width + 1].max(), inside[m + width :].max())
            score[m, width] = (side - inside[m]) / math.sqrt(max(side + inside[m], 1))
    assert score[found.middle, found.width] == max(score.values())
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


def test_two_peaks_have_a_small_p_value():
    rng = np.random.default_rng(3)
    one, two = (np.r_[rng.normal(size=40), rng.normal(size=40) + 9] for _ in range(2))
    assert pooled_p_value([valley_counts(one, two)]) < 1e-5
    assert pooled_p_value([]) == pooled_p_value([valley_counts(np.ones(9), one)]) == 1
    tiny = np.full(9, 1.0)
    tiny[0] += 2**-52  # less than 24 steps of float64
    assert tuple(valley_counts(tiny, tiny)) == (0, 0)


def test_a_part_of_many_rows_is_tested(monkeypatch):
    monkeypatch.setattr(k_selection, "TESTED", 300)
    X = blobs(3, 4, n=1000)
    test = DivisionTest(SeedingProblem(Rows.of(X), None, 3, rng=np.random.default_rng(0)))
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
    test = DivisionTest(SeedingProblem(Rows.of(X), None, 4, rng=rng))
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


# ---- invariance ----


def test_the_order_of_rows_does_not_matter():
    X, weight = blobs(3, 5), np.linspace(1, 3, 400)
    order = np.random.default_rng(0).permutation(400)
    a = choose_k(X, sample_weight=weight, **FAST)
    assert same(a, choose_k(X[order], sample_weight=weight[order], **FAST))
    assert not same(a, choose_k(X, **FAST))


def test_threads_do_not_matter():
    X, found = blobs(3, 6, n=800, d=400), []  # BLAS with more threads would give other bits
    for threads in (1, 2, 4):
        with threadpool_limits(threads):
            found.append(choose_k(X, (1, 4), random_state=0))
    assert same(found[0], found[1])
    assert same(found[0], found[2])


def test_a_seed_determines_the_choice():
    X = np.random.default_rng(7).normal(size=(600, 2))
    a, b, c = (choose_k(X, (1, 5), silhouette_sample=200, random_state=seed) for seed in (1, 1, 2))
    assert same(a, b)
    assert not same(a, c)


@pytest.mark.parametrize("layout", [sparse.csr_array, np.asfortranarray, np.ndarray.tolist])
def test_layouts_do_not_matter(layout):
    X = blobs(3, 8, n=200)
    a, b = choose_k(X, **FAST), choose_k(layout(X), **FAST)
    assert a.k == b.k == 3
    np.testing.assert_allclose(a.inertia, b.inertia, rtol=1e-9)
    np.testing.assert_allclose(a.silhouette, b.silhouette, rtol=1e-9)


def test_a_weight_equals_repeated_rows():
    """Costs are equal; silhouettes differ, as a row is not a neighbour of its own copies."""
    X = blobs(3, 9, n=240)
    weight = np.random.default_rng(0).integers(0, 4, size=240)
    options = {"k_range": (1, 5), "method": "global", "random_state": 0}
    a = choose_k(X, sample_weight=weight, **options)
    b = choose_k(np.repeat(X, weight, axis=0), **options)
    assert a.k == b.k == 3
    np.testing.assert_allclose(a.inertia, b.inertia, rtol=1e-9)
    np.testing.assert_allclose(a.silhouette, b.silhouette, atol=0.02)


def test_the_scale_of_weights_does_not_matter():
    X, weight = blobs(3, 10, n=200), np.linspace(1, 2, 200)
    a, b = (choose_k(X, sample_weight=w, **FAST) for w in (weight, weight / 1024))
    np.testing.assert_allclose(a.silhouette, b.silhouette, rtol=1e-9)
    assert np.array_equal(a.dividing, b.dividing)
    assert a.k == b.k == 3


def test_rows_of_weight_zero_do_not_count():
    X = np.vstack([blobs(2, 15, n=80), np.full((5, 3), 1e3)])
    a = choose_k(X, sample_weight=np.r_[np.ones(80), np.zeros(5)], **FAST)
    assert same(a, choose_k(X[:80], sample_weight=np.ones(80), **FAST))


@pytest.mark.parametrize("k_range", [(2, 6), range(2, 7), [2, 3, 4, 5, 6], np.arange(2, 7)])
def test_ways_to_write_a_range(k_range):
    choice = choose_k(blobs(3, 11), k_range, random_state=0)
    assert choice.ks.tolist() == [2, 3, 4, 5, 6]
    assert [len(centers) for centers in choice.solutions] == [2, 3, 4, 5, 6]
    assert choice.k == len(choice.centers) == 3


def test_float32_stays_float32():
    choice = choose_k(blobs(3, 12).astype(np.float32), **FAST)
    assert choice.k == 3
    assert choice.centers.dtype == np.float32


# ---- text ----


def test_the_criteria_are_printed_and_are_a_data_frame():
    choice = choose_k(blobs(3, 13), **FAST)
    names = ["k", "inertia", "elbow", "silhouette", "dividing"]
    head, *rows, last = str(choice).splitlines()
    assert head.split() == names
    assert [row.split()[0] for row in rows] == ["1", "2", "3", "4", "5"]
    assert [row.endswith("<") for row in rows] == [False, False, True, False, False]
    assert last == f"k = 3: {choice.reason}"
    assert list(choice.frame().columns) == names
    assert np.array_equal(choice.frame()["dividing"], choice.dividing)


# ---- bad input ----


PAIR, RISING = "a pair or a range of integers", "rise from 1 or more in steps of one"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        *(({"k_range": k}, PAIR) for k in ((), (1.0, 5.0), (True, 5))),
        *(({"k_range": k}, RISING) for k in ((0, 5), (5, 2), [1, 2, 4], range(1, 6, 4))),
        ({"k_range": (1, 61)}, "n_samples=60 should be >= 61, the highest k of k_range"),
        ({"k_range": 7}, "k_range"),
        ({"method": "fast"}, "method"),
        ({"silhouette_sample": 5}, "silhouette_sample=5 should be >= 10"),
        ({"sample_weight": np.zeros(60)}, "at least one"),
        ({"sample_weight": np.ones(59)}, "sample_weight.shape"),
        ({"random_state": "seed"}, "random_state"),
    ],
)
def test_a_bad_option_is_an_error(options, message):
    with pytest.raises(ValueError, match=message) as error:
        choose_k(blobs(2, 0, n=60), **options)
    assert "\n" not in str(error.value)


def test_bad_rows_are_an_error():
    with pytest.raises(ValueError, match="NaN"):
        choose_k(np.full((20, 2), np.nan))
    with pytest.raises(ValueError, match="X has 2 distinct rows; k_range begins at 3"):
        choose_k(np.repeat(np.eye(2), 9, axis=0), (3, 5))
    with pytest.raises(ValueError, match="overflow"):
        choose_k(np.eye(20) * 1e200)
