"""A plan of rows to clusters with size limits is the cheapest one, whatever it starts from."""

import numpy as np
import pytest
from api import Prices, Rows, UnitLimits, transport
from api import transport_plan_module as module
from laws import brute
from laws.cases import LAYOUTS, every_matrix, rows, start
from laws.threads import on_threads
from scipy.optimize import linear_sum_assignment, linprog

from kvariates import _native


def random_task(seed):
    """Rows (every second time on a small grid: many ties), centres and limits."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    k, d = int(rng.integers(1, min(n, 7) + 1)), int(rng.integers(1, 4))
    X = rng.normal(size=(n, d)) if seed % 2 else rng.integers(0, 3, size=(n, d)).astype(float)
    low, high = int(rng.integers(0, n // k + 1)), int(rng.integers(-(-n // k), n + 1))
    if seed % 7 == 0:
        low, high = n // k, -(-n // k)
    return X, X[rng.permutation(n)[:k]].copy(), UnitLimits(low, high)


def best_cost(squares, limits):
    """By scipy: a column for each place in a cluster; the first `low` places must be taken."""
    k = squares.shape[1]
    places = np.repeat(np.arange(k), limits.high)
    needed = np.tile(np.arange(limits.high) < limits.low, k)
    reward = np.where(needed, 1e6, 0.0)
    row, column = linear_sum_assignment(squares[:, places] - reward)
    return squares[row, places[column]].sum()


def plan_of(X, centers, limits, tau=1.0, supply=None, prices=None):
    begin = np.zeros(len(centers)) if prices is None else prices
    return transport(Rows.of(X), centers, supply, limits, Prices(begin, tau, 1e-9))


def check_slackness(squares, plan, limits, supply=None):
    """Prices and sizes prove that the plan is optimal."""
    n, k = squares.shape
    supply = np.ones(n, int) if supply is None else supply
    amounts = np.zeros((n, k), int)
    amounts[np.arange(n), plan.labels] = supply
    amounts[plan.parts.rows] = 0
    amounts[plan.parts.rows, plan.parts.clusters] = plan.parts.units
    assert (amounts.sum(axis=1) == supply).all()
    sizes, price = amounts.sum(axis=0), plan.prices.values
    assert sizes.min() >= limits.low
    assert sizes.max() <= limits.high
    assert (sizes[price > 0] == limits.high).all()
    assert (sizes[price < 0] == limits.low).all()
    priced = squares + price
    rounding = 1e-12 * (1 + np.abs(priced).max())
    assert (priced - priced.min(axis=1, keepdims=True))[amounts > 0].max() <= rounding
    return (amounts * squares).sum()


@pytest.mark.parametrize("tau", [1e-3, 1.0, np.inf])
def test_a_plan_is_the_best_assignment(tau):
    for seed in range(100):
        X, centers, limits = random_task(seed)
        squares = brute.squared_distances(X, centers)
        prices = np.random.default_rng(seed).normal(size=len(centers)) if seed % 3 == 0 else None
        plan = plan_of(X, centers, limits, tau, prices=prices)
        assert not len(plan.parts.rows)
        cost = check_slackness(squares, plan, limits)
        assert cost == pytest.approx(best_cost(squares, limits), rel=1e-9, abs=1e-9)


@every_matrix
def test_every_layout_gets_its_best_plan(dtype, layout):
    X = rows(300, 5, dtype, sparsity=0.5)
    centers, limits = start(X, 7).astype(np.float64), UnitLimits(40, 45)
    squares = brute.squared_distances(X, centers)
    plan = plan_of(LAYOUTS[layout](X), centers, limits)
    cost = check_slackness(squares, plan, limits)
    assert cost == pytest.approx(best_cost(squares, limits), rel=1e-9)


def test_unequal_rows_are_split_as_in_the_linear_program():
    for seed in range(60):
        X, centers, _ = random_task(seed)
        squares = brute.squared_distances(X, centers)
        n, k = squares.shape
        rng = np.random.default_rng(seed)
        supply = rng.integers(1, 9, size=n)
        total = int(supply.sum())
        limits = UnitLimits(int(rng.integers(0, total // k + 1)), -(-total // k) + seed % 3)
        plan = plan_of(X, centers, limits, 0.1, supply)
        cost = check_slackness(squares, plan, limits, supply)
        sizes = np.tile(np.eye(k), n)
        best = linprog(
            squares.ravel(), np.vstack([sizes, -sizes]),
            np.repeat([limits.high, -limits.low], k), np.kron(np.eye(n), np.ones(k)), supply,
        )  # fmt: skip
        assert cost == pytest.approx(best.fun, rel=1e-7, abs=1e-7)


def test_few_arcs_give_the_plan_of_all_arcs():
    X = rows(1500, 4)
    centers, limits = start(X, 12), UnitLimits(120, 130)
    few, all_arcs = (plan_of(X, centers, limits, tau) for tau in (1e-4, np.inf))
    assert (few.passes > 3, all_arcs.passes) == (True, 1)
    np.testing.assert_array_equal(few.labels, all_arcs.labels)


@pytest.mark.parametrize("weighted", [False, True])
def test_samples_and_given_prices_change_only_the_work(weighted, monkeypatch):
    X = rows(6000, 3)
    centers, limits = start(X, 10), UnitLimits(550, 650)
    supply = None
    if weighted:
        supply = np.random.default_rng(0).integers(1, 5, size=len(X))
        limits = UnitLimits(*(int(np.sum(supply) * share / 10) for share in (0.95, 1.05)))
    task = Rows.of(X), centers, supply, limits
    sampled = transport(*task)
    warm = transport(*task, sampled.prices)
    monkeypatch.setattr(module, "SMALLEST", len(X))
    plain = transport(*task)
    squares = brute.squared_distances(X, centers)
    costs = [check_slackness(squares, p, limits, supply) for p in (sampled, warm, plain)]
    np.testing.assert_allclose(costs, costs[0], rtol=1e-12)
    if not weighted:
        assert 4 * sampled.paths < plain.paths
    assert warm.paths < 100 < sampled.paths


def test_threads_do_not_change_a_plan():
    X = rows(9000, 5)
    task = Rows.of(X), start(X, 20), None, UnitLimits(400, 500)
    plans = on_threads(lambda: transport(*task))
    for plan in plans:
        assert plan.labels.tobytes() == plans[0].labels.tobytes()
        assert plan.prices.values.tobytes() == plans[0].prices.values.tobytes()
        assert plan.paths == plans[0].paths


def test_costs_that_are_not_finite_end_in_an_error():
    X = np.ones((5, 1))
    centers, labels = np.array([[np.nan], [1.0]]), np.zeros(5, np.int32)
    with pytest.raises(ValueError, match="must be finite"):
        _native.transport(_native.dense(X), centers, None, 2, 3, 1.0, np.zeros(2), labels)
