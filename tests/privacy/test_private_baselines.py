"""Forgy-DP, GUPT, sample and aggregate, uniform grid: what each does when noise is next to none.

And what their proofs rest on: a row is in one cell and one block, whatever the other rows are.
"""

import math
from unittest.mock import patch

import numpy as np
import pytest

from kvariates import KMeans
from kvariates.privacy.ledger import Loss
from kvariates.private_methods import noisy_grid, sample_aggregate
from kvariates.private_methods.noisy_forgy import NoisyForgy
from kvariates.private_methods.row_count import public_size
from kvariates.private_methods.sample_aggregate import Gupt, SampleAggregate
from kvariates.private_methods.task import Accountant, Domain, PrivateTask

SIDES = ("add-remove", "replace-one")
BOX = Domain.box(np.array([-1.0, -2.0]), np.array([1.0, 2.0]))
BALL = Domain.around(np.zeros(2), 2.0)
MIDDLES = np.array([[-0.6, -1.0], [0.0, 1.0], [0.6, -1.0]])


def blobs(n=900):
    rng = np.random.default_rng(0)
    return MIDDLES[rng.integers(3, size=n)] + rng.normal(0, 0.05, (n, 2))


def task_of(rows, k=3, *, domain=BOX, adjacency="add-remove", loss=(1e9, 0.0)):
    return PrivateTask(domain.rows(rows), domain, k, adjacency, Loss(*loss))


# ---- grid ----


def test_cells_are_a_partition_and_a_middle_is_in_its_cell():
    cells = noisy_grid.Cells(BOX, np.array([3, 5]))
    ids = np.arange(cells.number)
    assert np.array_equal(cells.of(cells.middles(ids)), ids)
    rows = BOX.rows(np.random.default_rng(0).uniform(-3, 3, (500, 2)))  # many on the border
    away = np.abs(cells.middles(cells.of(rows)) - rows)
    assert (away <= BOX.half / cells.cuts * (1 + 1e-9)).all()


def test_blocks_of_rows_change_no_cell(monkeypatch):
    cells, rows = noisy_grid.Cells(BOX, np.array([7, 4])), BOX.rows(blobs())
    whole = cells.of(rows)
    monkeypatch.setattr(noisy_grid, "BLOCK", 11)
    assert np.array_equal(cells.of(rows), whole)


@pytest.mark.parametrize("d", [1, 2, 5, 11])
def test_as_many_cells_as_su_et_al_at_most(d):
    domain = Domain.box(np.zeros(d), np.ones(d))
    for worth in (0.1, 30.0, 5e3, 1e6):
        most = max(worth, 1.0) ** (2 * d / (2 + d))
        cells = noisy_grid.cut(domain, worth)
        assert cells.number <= most * (1 + 1e-6)
        assert cells.number == 1 or cells.number > most / 2 or cells.cuts.min() >= 2
    assert noisy_grid.cut(domain, 1e30).number <= noisy_grid.MOST_CELLS


def test_few_cells_cut_the_widest_axes():
    domain = Domain.box(np.zeros(12), np.arange(1.0, 13.0))
    cuts = noisy_grid.cut(domain, 20.0).cuts
    assert cuts.max() == 2
    assert np.array_equal(np.flatnonzero(cuts == 2), np.arange(12 - cuts.tolist().count(2), 12))


def test_an_empty_cell_is_found_by_its_number():
    """All cells pass when nothing is asked of them: each once, with a count near its own."""
    task = task_of(blobs(40), loss=(50.0, 0.0))
    cells = noisy_grid.Cells(BOX, np.array([9, 11]))
    with patch.object(noisy_grid, "_threshold", lambda *_: -1000.0):
        points, weight = noisy_grid._histogram(task, cells, {"epsilon": 50.0}, Accountant())
    exact = np.bincount(cells.of(task.rows), minlength=99)
    assert np.array_equal(cells.of(points), np.arange(99))
    assert np.abs(weight - exact).max() <= 1  # off by more: 99 e^-100


@pytest.mark.parametrize("loss", [(1e6, 0.0), (1e3, 1e-6)])
@pytest.mark.parametrize("adjacency", SIDES)
def test_without_noise_the_grid_finds_the_middles(loss, adjacency):
    task = task_of(blobs(), adjacency=adjacency, loss=loss)
    found = noisy_grid.GridMethod(rows_a_cell=100.0)(task).centers
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], MIDDLES, atol=0.02)


# ---- NoisyForgy ----


def test_without_noise_forgy_picks_different_rows():
    task = task_of(blobs(50), k=20)
    found = NoisyForgy()(task).centers
    away = np.abs(found[:, None] - task.rows).max(axis=2)
    assert away.min(axis=1).max() < 1e-5
    assert len(set(away.argmin(axis=1))) == 20


@pytest.mark.parametrize("adjacency", SIDES)
@pytest.mark.parametrize(
    ("domain", "delta", "diameter"),
    [
        (BOX, 0.0, 6.0),
        (BOX, 1e-6, 2 * math.sqrt(5)),
        (BALL, 0.0, 4 * math.sqrt(2)),
        (BALL, 1e-6, 4),
    ],
)
def test_a_pick_hides_the_diameter(adjacency, domain, delta, diameter):
    released = NoisyForgy()(task_of(blobs(), domain=domain, adjacency=adjacency, loss=(1.0, delta)))
    assert [c.sensitivity for c in released.charges] == pytest.approx([diameter] * 3, rel=1e-5)


# ---- blocks ----


def seeded():
    return patch.object(np.random, "default_rng", lambda: np.random.Generator(np.random.PCG64(5)))


@pytest.mark.parametrize("change", ["replaced", "added"])
def test_one_row_changes_one_answer(change):
    rows = blobs(200)
    other = np.concatenate(
        [rows[:-1], [[1.0, 2.0]]] if change == "replaced" else [rows, [[1.0, 2.0]]]
    )
    found = []
    for data in (rows, other):
        with seeded():
            found.append(sample_aggregate.answers(task_of(data), 10))
    changed = (found[0] != found[1]).any(axis=(1, 2))
    assert changed.sum() == 1


def test_answers_are_in_order_and_inside_and_blocks_may_be_empty():
    found = sample_aggregate.answers(task_of(blobs(9)), 20)
    assert found.shape == (20, 3, 2)
    assert (np.diff(found[:, :, 0], axis=1) >= 0).all()
    assert (np.abs(found) <= BOX.half).all()


@pytest.mark.parametrize("method", [Gupt(power=0.3), SampleAggregate(power=0.3)])
@pytest.mark.parametrize("adjacency", SIDES)
def test_without_noise_the_answers_agree_on_the_middles(method, adjacency):
    released = method(task_of(blobs(), adjacency=adjacency))
    np.testing.assert_allclose(released.centers, MIDDLES, atol=0.06)
    best = KMeans(3, random_state=0).fit(blobs()).cluster_centers_
    np.testing.assert_allclose(released.centers, best[np.argsort(best[:, 0])], atol=0.06)


@pytest.mark.parametrize("adjacency", SIDES)
@pytest.mark.parametrize(
    ("delta", "diameter"), [(0.0, 2 * 3 * 3.0), (1e-6, 2 * math.sqrt(3) * math.sqrt(5))]
)
def test_a_mean_answer_hides_an_answer(adjacency, delta, diameter):
    released = Gupt()(task_of(blobs(), adjacency=adjacency, loss=(1.0, delta)))
    assert released.charges[-1].sensitivity == pytest.approx(diameter, rel=1e-5)


def test_the_median_is_a_place_in_the_middle():
    values = np.sort(np.random.default_rng(0).uniform(-1, 1, 101))
    place, charge = sample_aggregate._median(values, 1.0, {"epsilon": 1e3}, "median")
    assert abs(np.searchsorted(values, place) - 50.5) <= 1.5
    assert charge.scale == pytest.approx(2 / 1e3, rel=1e-5)  # scores change by 1, up or down


@pytest.mark.parametrize("adjacency", SIDES)
def test_the_number_of_rows_is_public_or_paid_for(adjacency):
    task, accountant = task_of(blobs(), adjacency=adjacency, loss=(1.0, 0.0)), Accountant()
    size = public_size(task, 0.25, accountant, [1.0, 2.0])
    left = 1.0 - sum(charge.cost for charge in accountant.charges)
    assert sum(cost["epsilon"] for cost in size.rest) == pytest.approx(left, rel=1e-12)
    if adjacency == "replace-one":
        assert size.n == 900
        assert not accountant.charges
    else:
        assert accountant.charges[0].cost == pytest.approx(0.25, rel=1e-12)
        assert abs(size.n - 900) < 80  # e^-20
