"""Noisy Lloyd: without noise its steps are those of Lloyd, and all noise has its charge.

With epsilon = 1e9 noise is below a step of the lattice, so only the mechanism itself is left.
"""

import numpy as np
import pytest
from api import (
    Cost,
    Domain,
    NoisyAssigner,
    StepCosts,
    domain_module,
    shrink,
)
from api import noisy_lloyd_module as noisy_lloyd
from privacy.exact_noise import both_adjacencies
from privacy.private_models import DELTAS, make_task, seen

FREE = StepCosts(Cost(epsilon=1e9), Cost(epsilon=1e9))


def step(task, centers, radii, costs=FREE):
    """One step on residuals: the assigner and the next centres."""
    assigner = NoisyAssigner(task, [costs], lambda *_: radii)
    return assigner, assigner.refine(centers)


def exact_step(rows, centers, clip=None):
    """Lloyd's step on residuals, clipped to radii."""
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


@both_adjacencies
def test_without_noise_a_step_is_the_clipped_step(rows, adjacency):
    task, centers = make_task(rows, 5, adjacency, epsilon=2e9), rows[:5]
    plain = exact_step(seen(task.rows), centers)
    radii = np.array([0.1, 0.3, 0.5, 0.7, 0.2])
    clipped = exact_step(seen(task.rows), centers, radii)
    np.testing.assert_allclose(step(task, centers, radii)[1], clipped, atol=2e-6)
    assert np.abs(clipped - plain).max() > 0.05
    wide = np.full(5, 2 * task.domain.radius)
    np.testing.assert_allclose(step(task, centers, wide)[1], plain, atol=2e-6)


def test_without_noise_the_statistics_are_exact(rows):
    task, centers = make_task(rows, 5, epsilon=2e9), rows[:5]
    found = NoisyAssigner(task, [FREE]).assign(centers)
    labels = ((seen(task.rows)[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)
    assert np.array_equal(found.counts, np.bincount(labels, minlength=5))
    sums = [seen(task.rows)[labels == j].sum(axis=0) for j in range(5)]
    np.testing.assert_allclose(found.sums, sums, atol=2e-3)
    assert found.changed is None
    assert np.isnan(found.cost)


def test_without_noise_the_method_is_lloyd(rows, monkeypatch):
    wanted = start = rows[:5].copy()
    monkeypatch.setattr(noisy_lloyd, "spread_out", lambda *_: start)
    task = make_task(rows, 5, epsilon=1e10)
    for _ in range(3):
        wanted = exact_step(seen(task.rows), wanted)
    np.testing.assert_allclose(noisy_lloyd.NoisyLloyd(steps=3)(task).centers, wanted, atol=5e-6)


@both_adjacencies
@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_one_row_moves_the_sums_of_residuals_by_one(rows, adjacency, kind):
    """In l2, and by sqrt(d) in l1; the noise is calibrated to this."""
    costs = StepCosts(Cost(**{kind: 0.3}), Cost(**{kind: 0.7}))
    task = make_task(rows, 3, adjacency)
    counted, summed = step(task, rows[:3], np.full(3, 0.1), costs)[0].task.charges
    far = (1.0 if kind == "rho" else np.sqrt(3)) * (1 if adjacency == "add-remove" else 2)
    assert summed.sensitivity == pytest.approx(far, rel=1e-5)
    assert counted.cost + summed.cost == pytest.approx(1.0, rel=1e-12)
    assert counted.cost <= 0.3
    assert summed.cost <= 0.7


@pytest.mark.parametrize("delta", DELTAS)
def test_centers_without_rows_stay(delta):
    """A centre moves only if noise passes CLEAR scales: e^-4 / 2 for Laplace noise."""
    task = make_task(np.empty((0, 2)), 3, delta=delta)
    costs, radii = StepCosts(*task.cost.split([1, 1])), np.ones(3)
    start = np.array([[0.5, 0.5], [-0.5, 0.5], [0.0, 0.0]])
    ends = [step(task, start, radii, costs)[1] for _ in range(60)]
    stayed = sum((end == start).all(axis=1).sum() for end in ends)
    assert stayed >= 140  # of 180, each with probability >= 0.99: fewer has a chance below 1e-30


@pytest.mark.parametrize("ball", [True, False])
def test_the_start_is_inside_and_spread_out(ball):
    half = np.array([1.0, 2.0, 5.0])
    domain = Domain.around(np.zeros(3), 2.0) if ball else Domain.box(-half, half)
    start = domain_module.spread_out(domain, 6, np.random.default_rng(0))
    np.testing.assert_allclose(domain.clip(start), start)
    distance = np.linalg.norm(start[:, None] - start, axis=2) + 9 * np.eye(6)
    assert distance.min() > 0.5


def test_vectors_shorter_than_their_noise_shrink_to_zero():
    found = shrink(np.array([[3.0, 4.0], [0.3, 0.4]]), np.array([[1.0], [1.0]]))
    np.testing.assert_allclose(found, [[3 * 0.96, 4 * 0.96], [0, 0]])
