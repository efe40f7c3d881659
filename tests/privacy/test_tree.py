"""The tree's parts: every row is by itself, exactly; and with little noise it is a good k-means."""

from fractions import Fraction

import numpy as np
import pytest

from kvariates import KMeans
from kvariates.data.rows import Rows
from kvariates.privacy.ledger import Ledger, Loss
from kvariates.private_methods import principal_axes
from kvariates.private_methods.auto_method import AutoMethod
from kvariates.private_methods.noisy_tree import TreeMethod
from kvariates.private_methods.task import Accountant, Cost, Domain, PrivateTask


def task_of(X, k=4, epsilon=1.0, delta=1e-6, adjacency="add-remove"):
    domain = Domain.around(np.zeros(X.shape[1]), 1.0)
    return PrivateTask(domain.rows(X), domain, k, adjacency, Loss(epsilon, delta))


def blobs(n, d, k, seed=0, sd=0.05):
    rng = np.random.default_rng(seed)
    middles = rng.normal(size=(k, d))
    middles *= 0.7 / np.linalg.norm(middles, axis=1, keepdims=True)
    return middles[rng.integers(k, size=n)] + sd * rng.normal(size=(n, d)) / np.sqrt(d)


def cost(X, centers):
    space = Rows.of(X)
    centers = np.ascontiguousarray(centers)
    return space.costs(centers, space.nearest(centers)).sum()


@pytest.mark.parametrize("d", [5, 64, 784, 2000])
def test_a_rows_picture_is_its_own(d):
    """Bit for bit, whatever the other rows are and wherever it stands among them."""
    task = task_of(blobs(70, d, 3))
    turned = principal_axes.features(
        task, principal_axes.Place(70, np.zeros(d), 0.1), np.random.default_rng(0)
    )
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(d, 4)))[0]
    for chosen in (
        turned,
        principal_axes.Axes(principal_axes._coarse(basis), np.ones(4), 0.0, None),
    ):
        whole = chosen.picture(task.rows)
        for i in (0, 33, 69):
            assert np.array_equal(whole[i], chosen.picture(task.rows[i : i + 1])[0])
            assert np.array_equal(whole[i:], chosen.picture(task.rows[i:]))


def test_pictures_are_exact():
    task = task_of(blobs(3, 40, 3))
    basis = principal_axes._coarse(np.linalg.qr(np.random.default_rng(1).normal(size=(40, 2)))[0])
    got = principal_axes.Axes(basis, np.ones(2), 0.0, None).picture(task.rows)
    for i, j in np.ndindex(3, 2):
        exact = sum(
            Fraction(x) * Fraction(b) for x, b in zip(task.rows[i], basis[:, j], strict=True)
        )
        assert Fraction(got[i, j]) == exact


def basis_of(d, columns):
    """Twice as long as orthonormal: pictures must be pulled in, not trusted."""
    return 2 * np.linalg.qr(np.random.default_rng(1).normal(size=(d, columns)))[0]


@pytest.mark.parametrize(("d", "columns"), [(4, None), (17, None), (6, 2), (200, 24)])
def test_one_row_moves_second_moments_by_its_own_product(d, columns):
    task = task_of(blobs(500, d, 3, sd=0.8))
    where = principal_axes.Place(500, np.full(d, 0.01), 0.2)
    size = principal_axes.REACH * np.sqrt(where.spread)
    basis = basis_of(d, columns) if columns else None
    released = np.s_[:] if columns else np.triu_indices(d)

    def products(rows, place=where, unit=size):
        part = PrivateTask(rows, task.domain, 4, task.adjacency, task.loss)
        return principal_axes._products(part, place, unit, basis)

    whole = products(task.rows)
    for i in (0, 250, 499):
        moved = whole - products(np.delete(task.rows, i, 0))
        assert np.array_equal(moved, products(task.rows[i : i + 1]))
        assert np.array_equal(np.rint(moved * 2**20), moved * 2**20)
        assert sum(Fraction(v) ** 2 for v in moved[released].ravel()) <= 1
    row = 0.3 * np.eye(1, d) if basis is None else 0.3 * basis[:, :1].T
    near = products(row, principal_axes.Place(1, np.zeros(d), 1e-6), 1e-3)[released].ravel()
    # Pulled in, to the ball's surface; rounding to 2^-10 shortens z by sqrt(d) steps at most.
    least = ((1 - np.sqrt(d) / 2**10) * (1 - np.sqrt(columns or d) / 2**10)) ** 2
    assert least <= sum(Fraction(v) ** 2 for v in near) <= 1


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("d", "delta"), [(2, 0.0), (2, 1e-6), (6, 0.0), (6, 1e-6), (30, 1e-6), (150, 1e-6)]
)
def test_with_little_noise_it_finds_what_is_there(d, delta, adjacency):
    X = blobs(4000, d, 6, seed=d)
    best = KMeans(6, init="ls++", n_init=3, random_state=0).fit(X).inertia_
    made = TreeMethod()(task_of(X, 6, 60.0, delta, adjacency))
    assert cost(X, made.centers) < 1.05 * best


@pytest.mark.parametrize(("d", "rho"), [(12, 0.05), (300, 5.0)])
def test_principal_axes_are_found(d, rho):
    """By all moments, and by the power method."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, d)) * np.array([0.2, 0.1, *[0.03 / np.sqrt(d)] * (d - 2)])
    task = task_of(X)
    where = principal_axes.place(task, Cost(rho=rho), Accountant())
    assert where.n == pytest.approx(20_000, rel=0.01)
    assert where.spread == pytest.approx(0.051, rel=0.05)
    assert principal_axes.worthwhile(task, where, Cost(rho=rho))
    accountant = Accountant()
    turned = principal_axes.axes(task, where, Cost(rho=rho), accountant, rng)
    assert len(accountant.charges) == (1 if d <= principal_axes.WIDE else principal_axes.ROUNDS)
    assert abs(turned.basis[0, 0]) > 0.99
    assert abs(turned.basis[1, 1]) > 0.99
    assert turned.variances[:2] == pytest.approx([0.04, 0.01], rel=0.3)


def test_second_moments_are_not_bought_where_they_would_drown():
    task = task_of(blobs(50, 20, 3))
    assert not principal_axes.worthwhile(
        task, principal_axes.Place(50, np.zeros(20), 0.1), Cost(rho=1e-4)
    )
    assert principal_axes.worthwhile(
        task, principal_axes.Place(10**7, np.zeros(20), 0.1), Cost(rho=1e-4)
    )


@pytest.mark.parametrize("d", [2, 6])
def test_levels_are_charged_whether_they_find_anything_or_not(d):
    """Ten rows: no node is cut twice, and all the budget is on the ledger all the same."""
    made = TreeMethod()(task_of(blobs(10, d, 2), 3))
    ledger = Ledger("add-remove", made.charges, Loss(1.0, 1e-6))
    assert ledger.total().epsilon == pytest.approx(1.0, rel=1e-9)


@pytest.mark.parametrize(("d", "rounds"), [(6, 1), (150, principal_axes.ROUNDS)])
def test_second_moments_are_within_the_budget(d, rounds):
    made = TreeMethod()(task_of(blobs(2000, d, 2), 3, epsilon=20.0))
    assert sum("second moments" in charge.label for charge in made.charges) == rounds
    ledger = Ledger("add-remove", made.charges, Loss(20.0, 1e-6))
    assert ledger.total().epsilon == pytest.approx(20.0, rel=1e-9)


def test_auto_takes_what_its_table_says():
    told = {"tree": "tree", "cells": "grid", "step": "lloyd"}

    def taken(n, d, epsilon, delta):
        made = AutoMethod()(task_of(blobs(n, d, 3), 3, epsilon, delta, "replace-one"))
        labels = " ".join(charge.label for charge in made.charges)
        return next(method for word, method in told.items() if word in labels)

    assert taken(3000, 2, 1.0, 1e-6) == "tree"
    for d in (2, 3):
        assert taken(2900 * d, d, 3.0, 0.0) == "grid"  # 2,900 of epsilon n / (k d)
        assert taken(3100 * d, d, 3.0, 0.0) == "tree"
    assert taken(300, 6, 1.0, 0.0) == "lloyd"  # 17
    assert taken(420, 6, 1.0, 0.0) == "tree"


@pytest.mark.parametrize("d", [2, 6])
def test_auto_pays_for_a_secret_number_of_rows(d):
    made = AutoMethod()(task_of(blobs(300, d, 3), 3, 1.0, 0.0))
    assert made.charges[0].label == "number of rows"
    assert made.charges[0].epsilon == pytest.approx(0.01)
