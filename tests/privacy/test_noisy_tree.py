"""The tree: each row is treated independently and exactly; with little noise the cost is low."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from api import (
    AutoMethod,
    Axes,
    Cost,
    Ledger,
    Loss,
    PrivateTask,
    RowsLocation,
    Secret,
    TreeMethod,
    locate,
    worthwhile,
)
from api import noisy_tree_module as noisy_tree
from laws import brute
from privacy import private_models
from privacy.exact_noise import both_adjacencies
from privacy.private_models import seen

from kvariates import KMeans, PrivateKMeans

make_task = partial(private_models.make_task, delta=1e-6, ball=True)


def blobs(n, d, k, seed=0, sd=0.05):
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(k, d))
    middles *= 0.7 / np.linalg.norm(middles, axis=1, keepdims=True)
    return middles[rng.integers(k, size=n)] + sd * rng.normal(size=(n, d)) / np.sqrt(d)


def coarse_basis(d, columns):
    return noisy_tree.coarse(np.linalg.qr(np.random.default_rng(1).normal(size=(d, columns)))[0])


@pytest.mark.parametrize("d", [5, 64, 784, 2000])
def test_the_projection_of_a_row_does_not_depend_on_other_rows(d):
    """Bit for bit, at any position among any rows."""
    task, rng = make_task(blobs(70, d, 3)), np.random.default_rng(0)
    rows = seen(task.rows)
    public = noisy_tree.public_axes(task, RowsLocation(70, np.zeros(d), 0.1), rng)
    for axes in (public, Axes(coarse_basis(d, 4), np.ones(4), 0.0, None)):
        whole = axes.project(rows)
        for i in (0, 33, 69):
            assert np.array_equal(whole[i], axes.project(rows[i : i + 1])[0])
            assert np.array_equal(whole[i:], axes.project(rows[i:]))


def test_projections_are_exact():
    task, basis = make_task(blobs(3, 40, 3)), coarse_basis(40, 2)
    found = Axes(basis, np.ones(2), 0.0, None).project(seen(task.rows))
    for i, j in np.ndindex(3, 2):
        terms = zip(seen(task.rows)[i], basis[:, j], strict=True)
        assert Fraction(found[i, j]) == sum(Fraction(x) * Fraction(y) for x, y in terms)


def basis_of(d, columns):
    """Twice as long as orthonormal, so that projections must be clipped."""
    return 2 * np.linalg.qr(np.random.default_rng(1).normal(size=(d, columns)))[0]


@pytest.mark.parametrize(("d", "columns"), [(4, None), (17, None), (6, 2), (200, 24)])
def test_one_row_moves_second_moments_by_its_own_product(d, columns):
    task = make_task(blobs(500, d, 3, sd=0.8))
    location = RowsLocation(500, np.full(d, 0.01), 0.2)
    basis = basis_of(d, columns) if columns else None
    released = np.s_[:] if columns else np.triu_indices(d)

    def products(rows, location=location):
        part = PrivateTask(Secret(rows), task.domain, 4, task.adjacency, task.loss)
        return seen(noisy_tree.products(part, location, basis))

    rows = seen(task.rows)
    whole = products(rows)
    for i in (0, 250, 499):
        moved = whole - products(np.delete(rows, i, 0))
        assert np.array_equal(moved, products(rows[i : i + 1]))
        assert np.array_equal(np.rint(moved * 2**20), moved * 2**20)
        assert sum(Fraction(v) ** 2 for v in moved[released].ravel()) <= 1
    row = 0.3 * np.eye(1, d) if basis is None else 0.3 * basis[:, :1].T
    clipped = products(row, RowsLocation(1, np.zeros(d), 1e-6))[released].ravel()
    # Clipped to the surface of the ball; rounding to 2^-10 shortens z by at most sqrt(d) steps.
    least = ((1 - np.sqrt(d) / 2**10) * (1 - np.sqrt(columns or d) / 2**10)) ** 2
    assert least <= sum(Fraction(v) ** 2 for v in clipped) <= 1


@both_adjacencies
@pytest.mark.parametrize(
    ("d", "delta"), [(2, 0.0), (2, 1e-6), (6, 0.0), (6, 1e-6), (30, 1e-6), (150, 1e-6)]
)
def test_with_little_noise_the_cost_is_nearly_optimal(d, delta, adjacency):
    X = blobs(4000, d, 6, seed=d)
    best = KMeans(6, init="ls++", n_init=3, random_state=0).fit(X).inertia_
    made = TreeMethod()(make_task(X, 6, adjacency, 60.0, delta=delta))
    assert brute.cost(X, made.centers) < 1.05 * best


@pytest.mark.parametrize(("d", "rho"), [(12, 0.05), (300, 5.0)])
def test_principal_axes_are_found(d, rho):
    """From all second moments, and by the power method."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, d)) * np.array([0.2, 0.1, *[0.03 / np.sqrt(d)] * (d - 2)])
    task = make_task(X)
    location = locate(task, Cost(rho=rho))
    assert location.n == pytest.approx(20_000, rel=0.01)
    assert location.spread == pytest.approx(0.051, rel=0.05)
    assert worthwhile(task, location, Cost(rho=rho))
    task = task.without_charges()
    axes = noisy_tree.principal_axes(task, location, Cost(rho=rho), rng)
    assert len(task.charges) == (1 if d <= noisy_tree.WIDE else noisy_tree.ROUNDS)
    assert abs(axes.basis[0, 0]) > 0.99
    assert abs(axes.basis[1, 1]) > 0.99
    assert axes.variances[:2] == pytest.approx([0.04, 0.01], rel=0.3)


def test_second_moments_are_released_only_if_they_are_above_their_noise():
    task, cost = make_task(blobs(50, 20, 3)), Cost(rho=1e-4)
    assert not worthwhile(task, RowsLocation(50, np.zeros(20), 0.1), cost)
    assert worthwhile(task, RowsLocation(10**7, np.zeros(20), 0.1), cost)


@pytest.mark.parametrize(
    ("n", "d", "epsilon", "rounds"),
    [(10, 2, 1.0, 0), (10, 6, 1.0, 0), (2000, 6, 20.0, 1), (2000, 150, 20.0, 2)],
)
def test_the_whole_budget_is_charged_whatever_is_found(n, d, epsilon, rounds):
    """With ten rows no node is cut twice. The power method has two rounds of second moments."""
    result = TreeMethod()(make_task(blobs(n, d, 2), 3, epsilon=epsilon))
    assert sum("second moments" in charge.label for charge in result.charges) == rounds
    total = Ledger("add-remove", result.charges, Loss(epsilon, 1e-6)).total()
    assert total.epsilon == pytest.approx(epsilon, rel=1e-9)


def test_auto_chooses_the_method_of_its_table():
    words = {"tree": "tree", "cells": "grid", "partition": "candidates"}

    def taken(n, d, epsilon, delta):
        made = AutoMethod()(make_task(blobs(n, d, 3), 3, "replace-one", epsilon, delta=delta))
        labels = " ".join(charge.label for charge in made.charges)
        return next(method for word, method in words.items() if word in labels)

    assert taken(3000, 2, 1.0, 1e-6) == "tree"
    for d in (2, 3):
        assert taken(2900 * d, d, 3.0, 0.0) == "grid"  # 2,900 of epsilon n / (k d)
        assert taken(3100 * d, d, 3.0, 0.0) == "tree"
    assert taken(880, 6, 1.0, 0.0) == "candidates"  # 49
    assert taken(920, 6, 1.0, 0.0) == "tree"


def test_auto_charges_a_secret_number_of_rows():
    first = AutoMethod()(make_task(blobs(300, 6, 3), delta=0.0)).charges[0]
    assert (first.label, first.epsilon) == ("number of rows", pytest.approx(0.01))


@pytest.mark.parametrize("where", ["corner", "beyond the bounds", "mostly at the corner"])
def test_rows_in_one_place_can_be_fitted(where):
    """Cells at a corner of the domain have no extent; a fit must not fail, as data decide it."""
    rng = np.random.default_rng(0)
    few = rng.exponential(1, (9000, 1)) * (rng.random((9000, 1)) < 0.02)
    X = {"corner": np.zeros((9000, 1)), "beyond the bounds": few - 50}.get(where, few)
    for _ in range(4):
        model = PrivateKMeans(3, epsilon=1.0, delta=1e-6, bounds=(0, 100)).fit(X)
        assert np.isfinite(model.cluster_centers_).all()
