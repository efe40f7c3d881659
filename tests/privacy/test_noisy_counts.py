"""Centres whose counts noise alone could give: a fit says so, and the grid leaves them out."""

import warnings

import numpy as np
import pytest
from api import CHANCE, NoisyCounts, PassedCells, clear_centers
from privacy.private_models import DELTAS, every_method, make_model, make_task
from scipy.stats import binom

NOISE = "[0-9]+ of 30 centres may be only noise: their noisy counts are too small to tell from zero"
RNG = np.random.default_rng(0)
GROUPS = np.repeat([[-0.7, -0.7], [0.0, 0.7], [0.7, -0.7]], 10_000, axis=0)


@pytest.mark.parametrize("delta", DELTAS)
@every_method
def test_a_fit_says_that_most_of_it_is_noise(name, delta):
    """All counts have noise far above 100 rows: that all thirty seem clear is impossible."""
    rows = RNG.uniform(-1, 1, (100, 2))
    with pytest.warns(UserWarning, match=f"{NOISE}|The budget may be too small") as told:
        make_model(name, 30, epsilon=0.1, delta=delta).fit(rows)
    assert len(told) == 1
    message = str(told[0].message)
    assert ("a larger epsilon, a delta, fewer" in message) == (delta == 0 and "of 30" in message)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", ["auto", "tree", "grid", "candidates"])
def test_a_sound_fit_is_silent(name, delta):
    """Groups of 10,000 rows, at least fifty deviations of the noise of any count."""
    rows = GROUPS + RNG.normal(0, 0.02, GROUPS.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_model(name, epsilon=4.0, delta=delta).fit(rows)


@pytest.mark.slow
@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("name", ["lloyd", "grid", "tree", "candidates", "forgy"])
def test_without_rows_all_centres_are_doubtful_in_98_of_100_fits(name, delta):
    """A test of this law fails by chance once in 1e6 times."""
    model, runs, empty = make_model(name, 4, delta=delta), 400, np.empty((0, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clear = sum(not model.fit(empty).doubtful_.all() for _ in range(runs))
    assert clear <= binom.isf(1e-6, runs, CHANCE)


def test_the_note_says_how_many_centres_are_doubtful_and_what_to_try():
    counts = NoisyCounts.of(np.array([-3.0, 30.9, 31.1]), 10.0)  # 3.1 deviations
    assert counts.values.tolist() == [0.0, 30.9, 31.1]
    assert counts.doubtful.tolist() == [True, True, False]
    (note,) = counts.notes(pure=True)
    assert note.startswith("2 of 3 centres may be only noise: their noisy counts are too small to")
    assert "Perhaps the data were not read as you think" in note
    assert "more rows, a larger epsilon, a delta, fewer clusters or tighter bounds." in note
    (one,) = NoisyCounts(counts.values, np.array([False, True, False])).notes(pure=False)
    assert one == (
        "1 of 3 centres may be only noise: its noisy count is too small to tell from zero. Use "
        "more rows, a larger epsilon, fewer clusters or tighter bounds."
    )
    assert NoisyCounts.of(np.array([30.0]), 10.0).notes(pure=True) == ()


def test_cells_of_noise_are_doubtful_however_many_they_are():
    """Cells that just pass say nothing, and centres without cells say nothing either."""
    points = np.array([[0.0, 0.0]] * 9 + [[1.0, 0.0]] * 9)
    cells = PassedCells(points, np.array([6.5] * 9 + [9.0] * 9), threshold=5.0, deviation=2.0)
    counts = cells.counts(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]))
    np.testing.assert_allclose(counts.values, [9 * 6.5, 81.0, 0.0])
    assert counts.doubtful.tolist() == [True, False, True]
    none = PassedCells(points[:0], np.empty(0), 5.0, 2.0).counts(points[:2])
    assert none.doubtful.all()
    assert none.values.tolist() == [0.0, 0.0]


def laplace(scale, shape):
    """Noise of whole numbers: the difference of two geometric numbers."""
    p = -np.expm1(-1 / scale)
    return RNG.geometric(p, shape) - RNG.geometric(p, shape)


RUNS = 20_000


@pytest.mark.parametrize("scale", [0.21, 0.5, 1.0, 10.0])
def test_counts_of_noise_are_doubtful_however_small_its_scale(scale):
    """Noise is whole numbers, so a small scale has another law. Fails by chance once in 1e6."""
    drawn = laplace(scale, (RUNS, 4)).astype(float)
    clear = sum(not NoisyCounts.of(row, scale * np.sqrt(2)).doubtful.all() for row in drawn)
    assert clear <= binom.isf(1e-6, RUNS, CHANCE)


@pytest.mark.parametrize("many", [1, 4, 20])
@pytest.mark.parametrize("scale", [0.5, 1.0, 10.0])
def test_cells_that_passed_by_noise_are_doubtful_at_the_stated_rate(scale, many):
    """What noise has above the least number that passes is geometric. Fails once in 1e6."""
    threshold, runs = 4.3 * scale, RUNS // 4
    drawn = np.floor(threshold) + RNG.geometric(-np.expm1(-1 / scale), (runs, many))
    points, center = np.zeros((many, 1)), np.zeros((1, 1))
    clear = sum(
        not PassedCells(points, row, threshold, scale * np.sqrt(2)).counts(center).doubtful[0]
        for row in drawn
    )
    assert clear <= binom.isf(1e-6, runs, CHANCE)


def test_a_far_cell_of_noise_gets_no_centre():
    """Alone it would be worth a centre: its distance weighs more than the width of the groups."""
    near = np.linspace(-0.02, 0.02, 41)[:, None]
    cells = PassedCells(np.r_[near, [[1.0]]], np.r_[np.full(41, 50.0), 7.0], 6.0, 1.5)
    task = make_task(np.zeros((1, 1)), k=2)
    centers = clear_centers(task, cells, np.random.default_rng(0)).centers
    assert np.abs(centers).max() < 0.02
    real = PassedCells(cells.points, np.r_[np.full(41, 50.0), 12.0], 6.0, 1.5)
    assert clear_centers(task, real, np.random.default_rng(0)).centers.max() == 1.0


@pytest.mark.parametrize("number", [0, 1, 3, 8])
def test_cells_that_are_all_noise_still_give_k_centres(number):
    points = np.linspace(-1, 1, number)[:, None] if number else np.empty((0, 1))
    cells = PassedCells(points, np.full(number, 6.5), 6.0, 1.5)
    found = clear_centers(make_task(np.zeros((1, 1)), k=3), cells, np.random.default_rng(0))
    assert found.centers.shape == (3, 1)
    assert found.counts.doubtful.all()
