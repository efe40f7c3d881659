"""Forgy-DP, GUPT, sample and aggregate, uniform grid: their results with almost no noise.

Their proofs need that the cell and the block of a row do not depend on other rows.
"""

import math
import time
from unittest.mock import patch

import numpy as np
import pytest
from api import (
    Domain,
    Gupt,
    Loss,
    NoisyForgy,
    PrivateTask,
    SampleAggregate,
)
from api import noisy_grid_module as noisy_grid
from api import sample_aggregate_module as sample_aggregate
from privacy.exact_noise import both_adjacencies
from privacy.private_models import seen
from privacy.repeatable_noise import repeatable_noise

from kvariates import PrivateKMeans

BOX = Domain.box(np.array([-1.0, -2.0]), np.array([1.0, 2.0]))
BALL = Domain.around(np.zeros(2), 2.0)
MIDDLES = np.array([[-0.6, -1.0], [0.0, 1.0], [0.6, -1.0]])


def blobs(n=900):
    rng = np.random.default_rng(0)
    return MIDDLES[rng.integers(3, size=n)] + rng.normal(0, 0.05, (n, 2))


def task_of(rows, k=3, *, domain=BOX, adjacency="add-remove", loss=(1e9, 0.0)):
    return PrivateTask(domain.rows(rows), domain, k, adjacency, Loss(*loss))


# ---- grid ----


def test_cells_are_a_partition_and_a_middle_is_in_its_cell(monkeypatch):
    grid = noisy_grid.Grid(BOX, np.array([3, 5]))
    ids = np.arange(grid.number)
    assert np.array_equal(grid.cells(grid.middles(ids)), ids)
    rows = seen(BOX.rows(np.random.default_rng(0).uniform(-3, 3, (500, 2))))  # many on the border
    cells = grid.cells(rows)
    assert (np.abs(grid.middles(cells) - rows) <= BOX.half / grid.cuts * (1 + 1e-9)).all()
    monkeypatch.setattr(noisy_grid, "BLOCK", 11)
    assert np.array_equal(grid.cells(rows), cells)


@pytest.mark.parametrize("d", [1, 2, 5, 11])
def test_there_are_at_most_as_many_cells_as_in_the_paper(d):
    domain = Domain.box(np.zeros(d), np.ones(d))
    for worth in (0.1, 30.0, 5e3, 1e6):
        most = max(worth, 1.0) ** (2 * d / (2 + d))
        grid = noisy_grid.make_grid(domain, worth)
        assert grid.number <= most * (1 + 1e-6)
        assert grid.number == 1 or grid.number > most / 2 or grid.cuts.min() >= 2
    assert noisy_grid.make_grid(domain, 1e30).number <= noisy_grid.MOST_CELLS


def test_few_cells_cut_the_widest_axes():
    domain = Domain.box(np.zeros(12), np.arange(1.0, 13.0))
    cuts = noisy_grid.make_grid(domain, 20.0).cuts
    assert cuts.max() == 2
    assert np.array_equal(np.flatnonzero(cuts == 2), np.arange(12 - cuts.tolist().count(2), 12))


@pytest.mark.parametrize("loss", [(1e6, 0.0), (1e3, 1e-6)])
@both_adjacencies
def test_without_noise_the_grid_finds_the_middles(loss, adjacency):
    task = task_of(blobs(), adjacency=adjacency, loss=loss)
    found = noisy_grid.GridMethod(rows_a_cell=100.0)(task).centers
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], MIDDLES, atol=0.02)


# ---- Forgy ----


def test_without_noise_forgy_picks_different_rows():
    task = task_of(blobs(50), k=20)
    found = NoisyForgy()(task).centers
    distance = np.abs(found[:, None] - seen(task.rows)).max(axis=2)
    assert distance.min(axis=1).max() < 1e-5
    assert len(set(distance.argmin(axis=1))) == 20


@both_adjacencies
def test_the_sensitivity_of_a_pick_is_the_diameter(adjacency):
    diameters = {
        (BOX, 0.0): 6.0, (BOX, 1e-6): 2 * math.sqrt(5), (BALL, 0.0): 4 * math.sqrt(2),
        (BALL, 1e-6): 4,
    }  # fmt: skip
    for (domain, delta), diameter in diameters.items():
        task = task_of(blobs(), domain=domain, adjacency=adjacency, loss=(1.0, delta))
        charges = NoisyForgy()(task).charges
        assert [c.sensitivity for c in charges] == pytest.approx([diameter] * 3, rel=1e-5)


# ---- blocks ----


def seeded():
    return patch.object(np.random, "default_rng", lambda: np.random.Generator(np.random.PCG64(5)))


def test_one_row_changes_the_result_of_one_block():
    rows, new = blobs(200), [[1.0, 2.0]]
    results = []
    for data in (rows, np.concatenate([rows[:-1], new]), np.concatenate([rows, new])):
        with seeded():
            results.append(seen(sample_aggregate.block_results(task_of(data), 10)))
    for other in results[1:]:
        assert (results[0] != other).any(axis=(1, 2)).sum() == 1


def test_results_are_ordered_and_inside_and_blocks_may_be_empty():
    found = seen(sample_aggregate.block_results(task_of(blobs(9)), 20))
    assert found.shape == (20, 3, 2)
    assert (np.diff(found[:, :, 0], axis=1) >= 0).all()
    assert (np.abs(found) <= BOX.half).all()


@pytest.mark.parametrize("method", [Gupt(power=0.6), SampleAggregate(power=0.6)])
def test_a_number_of_rows_that_is_noise_does_not_make_a_fit_long(method):
    model = PrivateKMeans(50, epsilon=1e-6, method=method, bounds=([0, 0], [1, 1]))
    begin = time.process_time()
    with repeatable_noise(4):
        model.fit([[0.5, 0.5]])  # by its noisy number it has more than 10^7 rows
    assert time.process_time() - begin < 2
    if isinstance(method, Gupt):
        assert "sum of 16384 blocks' centres" in str(model.ledger_)


@pytest.mark.parametrize("method", [Gupt(power=0.3), SampleAggregate(power=0.3)])
@both_adjacencies
def test_without_noise_the_summaries_are_the_middles(method, adjacency):
    result = method(task_of(blobs(), adjacency=adjacency))
    np.testing.assert_allclose(result.centers, MIDDLES, atol=0.06)


@both_adjacencies
def test_the_sensitivity_of_the_mean_is_the_diameter_of_a_result(adjacency):
    for delta, diameter in ((0.0, 2 * 3 * 3.0), (1e-6, 2 * math.sqrt(3) * math.sqrt(5))):
        result = Gupt()(task_of(blobs(), adjacency=adjacency, loss=(1.0, delta)))
        assert result.charges[-1].sensitivity == pytest.approx(diameter, rel=1e-5)


def test_the_median_is_an_interval_in_the_middle():
    values = np.sort(np.random.default_rng(0).uniform(-1, 1, 101))
    ends = np.linspace(-1, 1, 257)
    which = sample_aggregate.median_scores(0, ends, values[None]).argmax()
    assert abs(np.searchsorted(values, ends[which : which + 2].mean()) - 50.5) <= 1.5


@both_adjacencies
def test_one_block_moves_the_scores_of_a_median_by_one_up_or_down(adjacency):
    task = task_of(blobs(), adjacency=adjacency, loss=(1.0, 0.0))
    for charge in SampleAggregate()(task).charges[adjacency == "add-remove" :]:
        assert charge.scale == pytest.approx(2 / charge.epsilon, rel=1e-5)


@both_adjacencies
def test_the_number_of_rows_is_public_or_released(adjacency):
    task = task_of(blobs(), adjacency=adjacency, loss=(1.0, 0.0))
    count = task.row_count(0.25, [1.0, 2.0])
    left = 1.0 - sum(charge.cost for charge in task.charges)
    assert sum(cost.value for cost in count.costs) == pytest.approx(left, rel=1e-12)
    if adjacency == "replace-one":
        assert count.n == 900
        assert not task.charges
    else:
        assert task.charges[0].cost == pytest.approx(0.25, rel=1e-12)
        assert abs(count.n - 900) < 80  # e^-20
