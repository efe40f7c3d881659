"""Choosing k: known numbers are found, and noise has no clear answer.

`python -m experiments.choosing` counts right answers on many more sets.
"""

import math

import numpy as np
import pytest
from api import Confirmation, Suggestion, guess, settled, suggest
from contracts.k_choices import blobs
from experiments import choosing, choosing_families
from laws import brute
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from kvariates import choose_k


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("k", [2, 3, 5, 8])
def test_a_planted_k_is_found(k, seed):
    choice = choose_k(blobs(k, seed), (1, 12), random_state=seed)
    assert (choice.k, choice.clear) == (k, True)


@pytest.mark.parametrize("shape", choosing.SHAPES)
def test_clusters_of_any_shape_are_counted(shape):
    choice = choose_k(choosing.planted(shape, 12, 2, 1500, 0), (1, 15), random_state=0)
    assert (choice.k, choice.clear) == (12, True)


@pytest.mark.parametrize("shape", choosing.ROUNDED)
def test_clusters_of_rounded_rows_are_counted(shape):
    X = np.round(choosing.planted(shape, 12, 2, 1500, 0))
    choice = choose_k(X, (1, 15), random_state=0)
    assert (choice.k, choice.clear) == (12, True)


def test_fifty_clusters_are_counted():
    choice = choose_k(choosing.planted("sizes", 50, 10, 2000, 0), (1, 53), random_state=0)
    assert (choice.k, choice.clear) == (50, True)


def test_topics_of_text_are_counted():
    choice = choose_k(choosing.topics(6, 500, 0), random_state=0)
    assert (choice.k, choice.clear) == (6, True)


@pytest.mark.parametrize("shape", choosing.NOISE_SHAPES)
@pytest.mark.parametrize("kind", choosing.NOISES)
@pytest.mark.filterwarnings("ignore:Deviations of columns")  # of Cauchy's law
def test_noise_has_no_clear_answer(kind, shape):
    choice = choose_k(choosing.noise(kind, *shape, 0), (1, 8), random_state=0)
    assert (choice.k, choice.clear) == (1, False)
    assert choice.reason.startswith("no clear answer: ")


def test_noise_with_a_division_by_chance_has_no_clear_answer():
    """The test divides one of 9 pieces. Pieces are joined on, although one of 6 divides too."""
    choice = choose_k(choosing.noise("stretched", 3000, 1, 2), (1, 12), random_state=0)
    assert choice.dividing[8] == 1
    assert (choice.k, choice.clear) == (1, False)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("step", [1, 0.1, 2.5])
def test_gaps_between_rounded_values_are_no_valleys(step, seed):
    """A step of 2.5 is coarse: most of the values of a column are one of three."""
    X = np.round(np.random.default_rng(seed).normal(0, 3, size=(1000, 2)) / step) * step
    for rows in (X, sparse.csr_array(X), X[:, :1]):
        choice = choose_k(rows, (1, 6), random_state=seed)
        assert (choice.clear, choice.dividing.max()) == (False, 0)


@pytest.mark.parametrize("scale", [np.log1p, np.sqrt])
@pytest.mark.parametrize("mean", [0.3, 2, 8])
def test_counts_on_another_scale_have_no_clear_answer(scale, mean):
    X = scale(np.random.default_rng(0).poisson(mean, size=(1000, 1)))
    choice = choose_k(X, (1, 3), random_state=0)
    assert (choice.clear, choice.dividing.max()) == (False, 0)


def test_a_single_value_far_from_rounded_ones_is_a_cluster():
    X = np.round(np.random.default_rng(0).normal(100, 3, size=(500, 1)))
    X[::5] = 0
    choice = choose_k(X, (1, 6), random_state=0)
    assert (choice.k, choice.clear) == (2, True)


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
    assert choice.ks.tolist() == [1, 2, 3, 4]
    assert choice.inertia[3] < 1e-20
    assert choice.clear
    assert choice.reason == "the 120 rows are copies of 4 distinct ones."
    assert choose_k(X, (2, 4), random_state=0).k == 4


def test_copies_of_ratings_are_no_clusters():
    X = np.random.default_rng(0).integers(1, 6, size=(500, 1))
    choice = choose_k(X.astype(float), (1, 5), random_state=0)
    assert (choice.k, choice.clear) == (1, False)


def test_groups_beside_a_column_of_noise_are_not_cut_by_the_noise():
    """Each seed and each range: two groups, or no clear answer."""
    rng = np.random.default_rng(0)
    group = rng.integers(2, size=400)
    X = np.c_[6 * group + 0.3 * rng.normal(size=400), rng.normal(size=400)]
    for seed in range(4):
        for most in (5, 10):
            choice = choose_k(X, (1, most), random_state=seed)
            assert (choice.k, choice.clear) == (2, True)
    assert not choose_k(X[:, 1:], (1, 10), random_state=0).clear


@pytest.mark.parametrize("family", choosing_families.TUNED + choosing_families.HELD)
@pytest.mark.filterwarnings("ignore:Deviations of columns")
def test_no_family_has_a_false_clear_answer(family):
    """`python -m experiments.choosing_families` counts false answers on many more sets."""
    for number in range(14, 16):
        found = choosing_families.answers(family, number, seeds=1)
        assert not found.false


def test_digits_have_no_clear_number():
    X = load_digits().data
    scaled = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
    for seed in range(2):
        choice = choose_k(scaled, (1, 10), random_state=seed)
        assert (choice.k, choice.clear) == (1, False)
        assert f"If you need groups anyway: k = {choice.guess} (" in choice.reason
        assert choice.guess > 1


@pytest.mark.parametrize(
    ("ks", "k", "answer", "why"),
    [
        (
            (1, 9),
            4,
            (4, True),
            "to the same clusters, and all 6 pairs of neighbours have a gap between them",
        ),
        ((1, 9), 1, (1, False), "no separate clusters were found. X may be one group (k = 1)"),
        ((2, 9), 1, (7, False), "no separate clusters were found. Best guess: k = 7 (guessed)."),
        ((5, 9), 4, (7, False), "4 separate clusters were found, but k_range begins at 5. Best g"),
        (
            (1, 9),
            None,
            (1, False),
            "at k = 9, the highest tried, some clusters still divide. Try a larger k_range. If you",
        ),
    ],
)
def test_the_answer_and_its_reason(ks, k, answer, why):
    tried, confirmed = np.arange(ks[0], ks[1] + 1), Confirmation(pairs=6)
    *found, reason = suggest(tried, k, confirmed, Suggestion(7, False, "guessed"))
    assert tuple(found) == answer
    assert why in reason
    assert reason.startswith("no clear answer") == (not answer[1])


@pytest.mark.parametrize(
    ("pairs", "words"), [(1, "the pair of"), (2, "both pairs of"), (3, "all 3 pairs of")]
)
def test_few_pairs_of_neighbours_in_words(pairs, words):
    reason = suggest(np.arange(1, 6), 3, Confirmation(pairs=pairs), Suggestion(3, False, "")).reason
    assert f"and {words} neighbours" in reason


@pytest.mark.parametrize(
    ("elbow", "silhouette", "k", "why"),
    [
        ([0, 0.5, 0], [math.nan, 0.9, 0.95], 3, "largest mean silhouette"),
        ([0, 0.1, 0], [math.nan, 0.1, 0.2], 2, "below 0.25; the elbow value is largest, 0.1"),
        ([0, -0.1, 0], [math.nan, 0.1, 0.2], 3, "neither the silhouette nor the elbow helps"),
        ([math.nan] * 3, [math.nan, 0.1, 0.2], 3, "largest mean silhouette"),
    ],
)
def test_a_guess_is_by_the_silhouette_and_then_by_the_elbow(elbow, silhouette, k, why):
    found = guess(np.array([1, 2, 3]), np.array(elbow), np.array(silhouette))
    assert found.k == k
    assert why in found.reason


def test_a_k_is_settled_when_no_cluster_divides_from_it_on():
    for dividing, k in (([0, 0], 1), ([1, 0, 0], 2), ([0, 2, 0, 1, 0], 5), ([1, 2, 1, 0], 4)):
        assert settled(np.array(dividing)) == k


def test_columns_of_very_different_scales_are_pointed_out():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 1.0, 150.0]
    words = r"Deviations of columns are 0.9.* to 1.* Scale the columns first.*StandardScaler"
    with pytest.warns(UserWarning, match=words) as told:
        choose_k(X, (1, 3), random_state=0)
    assert told[0].filename == __file__
    # None of these warns: warnings are errors here.
    choose_k(X / [1, 1, 2], (1, 3), random_state=0)
    choose_k(X[:, 2:], (1, 3), random_state=0)
    choose_k(np.c_[X[:, :2], np.full(500, 1e9 / 3)], (1, 3), random_state=0)  # constant
    choose_k(sparse.csr_array(X), (1, 3), random_state=0)


def test_scales_are_those_of_weighted_rows_after_the_first_block(monkeypatch):
    """One row of 500 is far away; its weight decides how much."""
    monkeypatch.setattr("kvariates.estimators.choose_k.BLOCK", 64)
    X = np.random.default_rng(0).normal(size=(500, 2))
    X[-1, 1] = 300.0
    choose_k(X, (1, 2), random_state=0)  # a deviation of 13
    choose_k(X, (1, 2), sample_weight=np.r_[np.ones(499), 0.0], random_state=0)
    with pytest.warns(UserWarning, match="to 150"):
        choose_k(X, (1, 2), sample_weight=np.r_[np.ones(499), 499.0], random_state=0)
