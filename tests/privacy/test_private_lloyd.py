"""Noisy Lloyd steps: without noise they are Lloyd's steps; with noise they stay where they should.

Noise of epsilon = 1e9 is below a step of the grid, so that what is left is the mechanism itself.
"""

import numpy as np
import pytest

from kvariates.privacy.ledger import Ledger, Loss
from kvariates.private_methods import noisy_lloyd, public_start, shrinkage
from kvariates.private_methods.task import Accountant, Cost, Domain, PrivateTask

SIDES = ("add-remove", "replace-one")
FREE = noisy_lloyd.StepCosts(Cost(epsilon=1e9), Cost(epsilon=1e9))


def task_of(X, k, *, side=1.0, adjacency="add-remove", loss=(2e9, 0.0)):
    d = X.shape[1]
    domain = Domain.box(np.full(d, -side), np.full(d, side))
    return PrivateTask(domain.rows(X), domain, k, adjacency, Loss(*loss))


def lloyd_step(rows, centers, clip=None):
    """Lloyd's step on residuals, clipped to radii, in the obvious way."""
    labels = ((rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    out = centers.copy()
    for j in range(len(centers)):
        residuals = rows[labels == j] - centers[j]
        if clip is not None:
            norms = np.linalg.norm(residuals, axis=1, keepdims=True)
            residuals = residuals * np.minimum(1, clip[j] / np.maximum(norms, 1e-300))
        if len(residuals):
            out[j] = centers[j] + residuals.mean(axis=0)
    return out


@pytest.fixture
def rows():
    return np.random.default_rng(0).uniform(-1, 1, (2000, 3))


@pytest.mark.parametrize("adjacency", SIDES)
def test_without_noise_a_step_is_the_clipped_step(rows, adjacency):
    task = task_of(rows, 5, adjacency=adjacency)
    centers = rows[:5]
    radii = np.array([0.1, 0.3, 0.5, 0.7, 0.2])
    means = noisy_lloyd.step(task, centers, radii, FREE, Accountant(), "step")
    wanted = lloyd_step(task.rows, centers, radii)
    np.testing.assert_allclose(means.centers, wanted, atol=2e-6)
    assert np.abs(wanted - lloyd_step(task.rows, centers)).max() > 0.05


def test_with_radii_as_wide_as_the_domain_it_is_lloyds_step(rows):
    task = task_of(rows, 5)
    centers = rows[:5]
    radii = np.full(5, 2 * task.domain.radius)
    means = noisy_lloyd.step(task, centers, radii, FREE, Accountant(), "step")
    np.testing.assert_allclose(means.centers, lloyd_step(task.rows, centers), atol=2e-6)
    labels = ((task.rows[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(means.counts, np.bincount(labels, minlength=5))


def test_without_noise_the_method_is_lloyd(rows, monkeypatch):
    start = rows[:5].copy()
    monkeypatch.setattr(noisy_lloyd, "spread_out", lambda *_: start)
    task = task_of(rows, 5, loss=(1e10, 0.0))
    wanted = start
    for _ in range(3):
        wanted = lloyd_step(task.rows, wanted)
    np.testing.assert_allclose(noisy_lloyd.NoisyLloyd(steps=3)(task).centers, wanted, atol=5e-6)


@pytest.mark.parametrize("adjacency", SIDES)
@pytest.mark.parametrize("cost", ["epsilon", "rho"])
def test_one_row_moves_the_sums_of_residuals_by_one(rows, adjacency, cost):
    """The charge says so, and that is what noise is calibrated to; in l1 sqrt(d)."""
    accountant = Accountant()
    price = noisy_lloyd.StepCosts(Cost(**{cost: 0.3}), Cost(**{cost: 0.7}))
    task = task_of(rows, 3, adjacency=adjacency)
    noisy_lloyd.step(task, rows[:3], np.full(3, 0.1), price, accountant, "step")
    counted, summed = accountant.charges
    far = (1.0 if cost == "rho" else np.sqrt(3)) * (1 if adjacency == "add-remove" else 2)
    assert summed.sensitivity == pytest.approx(far, rel=1e-5)
    assert counted.cost + summed.cost == pytest.approx(1.0, rel=1e-12)
    assert counted.cost <= 0.3
    assert summed.cost <= 0.7


@pytest.mark.parametrize("loss", [(1.0, 0.0), (1.0, 1e-6)])
def test_no_rows_no_steps(loss):
    """Centres stay unless noise passes for rows: CLEAR scales of Laplace noise, e^-4 / 2 each."""
    task = task_of(np.empty((0, 2)), 3, loss=loss)
    released = noisy_lloyd.NoisyLloyd(steps=2)(task)
    assert np.isfinite(released.centers).all()
    assert (np.abs(released.centers) <= task.domain.half).all()
    price = noisy_lloyd.StepCosts(*task.costs([1, 1]))
    start = np.array([[0.5, 0.5], [-0.5, 0.5], [0.0, 0.0]])
    means = [
        noisy_lloyd.step(task, start, np.ones(3), price, Accountant(), "step") for _ in range(60)
    ]
    stayed = sum((m.centers == start).all(axis=1).sum() for m in means)
    assert stayed >= 140  # of 180, each with probability >= 0.99: fewer has a chance below 1e-30


@pytest.mark.parametrize("ball", [True, False])
def test_the_start_is_inside_and_spread_out(ball):
    half = np.array([1.0, 2.0, 5.0])
    domain = Domain.around(np.zeros(3), 2.0) if ball else Domain.box(-half, half)
    start = public_start.spread_out(domain, 6, np.random.default_rng(0))
    np.testing.assert_allclose(domain.inside(start), start)
    apart = np.linalg.norm(start[:, None] - start, axis=2) + 9 * np.eye(6)
    assert apart.min() > 0.5


def test_noise_that_drowns_a_step_shrinks_it_away():
    way = np.array([[3.0, 4.0], [0.3, 0.4]])
    np.testing.assert_allclose(
        shrinkage.shrunken(way, np.array([[1.0], [1.0]])), [[3 * 0.96, 4 * 0.96], [0, 0]]
    )


@pytest.mark.parametrize("adjacency", SIDES)
@pytest.mark.parametrize("loss", [(0.7, 0.0), (0.7, 1e-6)])
def test_the_whole_budget_is_spent(rows, adjacency, loss):
    task = task_of(rows, 4, adjacency=adjacency, loss=loss)
    released = noisy_lloyd.NoisyLloyd(steps=4)(task)
    total = Ledger(adjacency, released.charges, Loss(*loss)).total()
    assert total.epsilon == pytest.approx(loss[0], rel=1e-9)
