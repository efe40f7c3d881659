"""Totals of ledgers are exact and never above the claim; budgets are never overdrawn."""

import copy
import json
import math
import os
import pickle
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from privacy.exact_noise import ADJACENCIES
from scipy import stats

from kvariates.numerics.lattice import Lattice
from kvariates.privacy import query
from kvariates.privacy.budget import Budget, BudgetError, Cost, Loss
from kvariates.privacy.ledger import Charge, Ledger
from kvariates.privacy.mechanisms import charge_of
from kvariates.privacy.rounding import (
    as_written,
    at_most,
    down,
    epsilon_of,
    rho_for,
    root_up,
    split,
    up,
)

epsilons = st.floats(1e-6, 50.0)
rhos = st.floats(1e-9, 50.0)
deltas = st.floats(1e-30, 0.4)
shares = st.lists(st.floats(0.0, 1e3), min_size=1, max_size=12).filter(lambda s: sum(s) > 1e-9)


def charge(cost, *, rho=False, parallel=None, label="x"):
    costs = {"rho": cost} if rho else {"epsilon": cost}
    return Charge(label, "laplace", "add-remove", 1.0, "l1", 1.0, **costs, parallel=parallel)


def ledger(*charges, claim=(math.inf, 0.5)):
    return Ledger("add-remove", charges, claim)


# --- rounding --------------------------------------------------------------------------------


@given(st.fractions(-(10**30), 10**30, max_denominator=10**40))
def test_up_and_down_enclose_within_one_float(x):
    assert Fraction(down(x)) <= x <= Fraction(up(x))
    assert up(x) <= math.nextafter(down(x), math.inf)


@given(st.fractions(Fraction(1, 10**20), 10**20))
def test_root_up_is_the_smallest_float_above_the_root(x):
    root = root_up(x)
    assert Fraction(root) ** 2 >= x > Fraction(math.nextafter(root, 0)) ** 2


def test_rounding_beyond_the_largest_float():
    assert up(Fraction(10) ** 400) == math.inf
    assert down(-(Fraction(10) ** 400)) == -math.inf


@given(epsilons, shares)
def test_split_never_exceeds_the_total_and_nearly_reaches_it(total, parts):
    pieces = split(total, parts)
    exact = sum(map(Fraction, pieces))
    assert exact <= Fraction(total)
    assert exact >= Fraction(total) * (1 - Fraction(2) ** -52)
    for piece, part in zip(pieces, parts, strict=True):
        assert piece == pytest.approx(total * part / sum(parts), rel=1e-12, abs=total * 1e-14)


def test_split_refuses_bad_shares():
    for parts in ([], [0.0, 0.0], [1.0, -1.0], [math.nan]):
        with pytest.raises(ValueError, match="shares"):
            split(1.0, parts)


@pytest.mark.parametrize("claim", [(math.nan, 0.0), (1.0, math.nan), (-1.0, 0.0), (1.0, 1.0)])
def test_a_ledger_refuses_a_claim_that_is_none(claim):
    with pytest.raises(ValueError, match="A claim has epsilon >= 0 and 0 <= delta < 1; got"):
        Ledger("add-remove", (charge(0.5),), claim)


def test_a_ledger_refuses_an_unknown_adjacency():
    with pytest.raises(ValueError, match="'add-remove' or 'replace-one'; got 'foo'"):
        Ledger("foo", (charge(0.5),), (1.0, 0.0))


# --- zCDP ------------------------------------------------------------------------------------


def converted(rho, delta):
    """The conversion from its formula, with 80 digits and another search."""
    with localcontext() as context:
        context.prec = 80
        rho, delta = Decimal(rho), Decimal(delta)

        def bound(log_order):
            alpha = 1 + log_order.exp()
            return alpha * rho + (1 - 1 / alpha).ln() - (delta * alpha).ln() / (alpha - 1)

        low, high = Decimal(-25), Decimal(45)
        for _ in range(170):
            third = (high - low) / 3
            if bound(low + third) < bound(high - third):
                high -= third
            else:
                low += third
        return max(bound((low + high) / 2), Decimal(0))


@given(rhos, deltas)
def test_conversion_is_optimal_and_rounded_up(rho, delta):
    exact, ours = converted(rho, delta), epsilon_of(rho, delta)
    assert Decimal(ours) >= exact
    assert ours <= float(exact) * (1 + 1e-15) + 1e-25


@given(rhos, deltas)
def test_conversion_is_between_a_gaussian_and_the_simple_bound(rho, delta):
    """The exact delta of a Gaussian: Balle and Wang 2018; the bound: Bun and Steinke 2016."""
    epsilon, mu = epsilon_of(rho, delta), math.sqrt(2 * rho)
    spent = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(
        epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu)
    )
    assert spent <= delta * (1 + 1e-9)
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12


def test_conversion_of_known_values_and_edges():
    """The values are those of OpenDP."""
    assert epsilon_of(2.56, 1e-10) == pytest.approx(17.15830871210475, rel=1e-14)
    assert epsilon_of(0.5, 1e-6) == pytest.approx(5.22153444453017, rel=1e-14)
    assert epsilon_of(0.0, 0.0) == 0.0
    assert epsilon_of(1.0, 0.0) == math.inf
    assert epsilon_of(1e-30, 1e-6) == 0.0
    with pytest.raises(ValueError, match="delta"):
        rho_for(1.0, 0.0)


@given(st.floats(1e-3, 50.0), deltas)
def test_rho_for_uses_the_whole_budget_and_never_more(epsilon, delta):
    rho = rho_for(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * (1 + 1e-9), delta) > epsilon


# --- totals ----------------------------------------------------------------------------------


@given(st.lists(st.tuples(epsilons, st.sampled_from([None, "a", "b"])), min_size=1, max_size=12))
def test_a_parallel_group_costs_its_maximum(costs):
    costs.sort(key=lambda pair: pair[1] or "")  # the charges of a group come one after the other
    total = ledger(*(charge(cost, parallel=group) for cost, group in costs)).total()
    alone = sum((Fraction(cost) for cost, group in costs if group is None), Fraction())
    for name in "ab":
        alone += max((Fraction(cost) for cost, group in costs if group == name), default=0)
    assert total == (up(alone), 0.0)


@given(st.lists(st.tuples(st.floats(1e-4, 5.0), st.booleans()), min_size=1, max_size=9), deltas)
def test_mixed_totals_count_epsilon_as_half_its_square(costs, delta):
    costs = [*costs, (0.1, True)]
    total = ledger(*(charge(c, rho=rho) for c, rho in costs), claim=(math.inf, delta)).total()
    exact = sum(Fraction(c) if rho else Fraction(c) ** 2 / 2 for c, rho in costs)
    assert total == (epsilon_of(exact, delta), delta)


def test_a_ledger_above_its_claim_raises():
    ledger(charge(0.5), charge(0.5), claim=(1.0, 0.0))
    with pytest.raises(BudgetError, match="more than the claim"):
        ledger(charge(0.5), charge(math.nextafter(0.5, 1)), claim=(1.0, 0.0))
    with pytest.raises(BudgetError):
        ledger(charge(0.5, rho=True), claim=(100.0, 0.0))  # rho implies no pure epsilon
    with pytest.raises(BudgetError):
        ledger(charge(math.inf), claim=(100.0, 0.0))


def test_a_charge_needs_one_cost():
    for costs in ({}, {"epsilon": 1.0, "rho": 1.0}, {"epsilon": -1.0}, {"rho": math.nan}):
        with pytest.raises(ValueError, match="charge"):
            Charge("x", "laplace", "add-remove", 1.0, "l1", 1.0, **costs)


def test_a_ledger_prints_saves_and_becomes_a_data_frame(tmp_path):
    page = ledger(charge(0.25, label="n"), charge(0.5, parallel="cells"), claim=(1.0, 0.0))
    text = str(page)
    assert text.splitlines()[-1] == "total: epsilon = 0.75, delta = 0"
    assert "add-remove" in text
    assert "cells" in text
    frame = page.frame()
    assert list(frame["label"]) == ["n", "x"]
    assert frame["epsilon"].sum() == 0.75
    page.save(tmp_path / "ledger.json")
    read = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    assert read["total"] == {"epsilon": 0.75, "delta": 0.0}
    assert [Charge(**line) for line in read["charges"]] == list(page.charges)
    assert [file.name for file in tmp_path.iterdir()] == ["ledger.json"]


def test_similar_releases_share_a_line():
    steps = [charge(0.125, label=f"step {i}: {what}") for i in (1, 2, 3) for what in ("a", "b 7")]
    page = ledger(*steps, charge(0.125, label="level 2: a"), claim=(1.0, 0.0))
    lines = str(page).splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == [
        "step 1 to 3: a",
        "step 1 to 3: b 7",
        "level 2: a",
    ]
    assert [line.split()[-1] for line in lines[:4]] == ["times", "3", "3", "-"]
    assert len(page.frame()) == 7
    assert "times" not in str(ledger(charge(0.5), claim=(1.0, 0.0)))
    assert str(ledger(claim=(1.0, 0.0))).splitlines()[-1] == "total: epsilon = 0, delta = 0"


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    page = ledger(charge(0.25), claim=(1.0, 0.0))
    page.save(path)
    before = path.read_text(encoding="utf-8")
    monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        page.save(path)
    assert path.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


# --- charges of releases ---------------------------------------------------------------------

LATTICE = Lattice(2.5, 3)
QUERIES = (
    lambda adjacency: query.count_query([3, 0], adjacency, "x"),
    lambda adjacency: query.total_query(7, adjacency, "x"),
    lambda adjacency: query.sum_query([[0.5, 0.0, 0.0]], LATTICE, adjacency, "x"),
    lambda adjacency: query.score_query([1.0, 2.0], query.Scores(0.3, True), adjacency, "x"),
)


@given(st.floats(0.01, 20.0), deltas | st.just(0.0), st.sampled_from(ADJACENCIES), shares)
def test_charges_of_releases_use_the_whole_claim(epsilon, delta, adjacency, parts):
    whole = Cost(rho=rho_for(epsilon, delta)) if delta else Cost(epsilon=epsilon)
    costs = [cost for cost in whole.split(parts) if cost.value > 1e-9]
    charges = [charge_of(QUERIES[i % 4](adjacency), cost) for i, cost in enumerate(costs)]
    total = Ledger(adjacency, charges, (epsilon, delta)).total()
    spent = sum(Fraction(cost.value) for cost in costs)
    used = epsilon_of(spent, delta) if delta else float(spent)
    assert used * (1 - 1e-9) - 1e-12 <= total.epsilon <= epsilon


# --- budgets ---------------------------------------------------------------------------------


def test_a_budget_is_exact_and_a_refused_fit_spends_nothing():
    budget = Budget(1.0, 1e-6)
    for _ in range(9):
        budget.spend(0.1, 1e-7, "fit")
    before = budget.left
    assert before == Loss(0.1, 1e-7)
    with pytest.raises(BudgetError, match="left"):
        budget.spend(0.2)
    with pytest.raises(BudgetError):
        budget.spend(0.01, 2e-7)
    assert budget.left == before
    # As a float 0.1 is a little more than a tenth; what counts is how it is written.
    budget.spend(0.1)
    with pytest.raises(BudgetError):
        budget.spend(1e-6)
    assert budget.spent.epsilon == 1.0
    assert len(budget.lines) == 10
    assert "spent" in str(budget)
    assert repr(budget) == "Budget(epsilon=1.0, delta=1e-06)"


@given(st.lists(st.floats(1e-6, 0.5), max_size=30), st.floats(0.1, 3.0))
def test_a_budget_is_never_overdrawn(costs, epsilon):
    budget, spent = Budget(epsilon), Fraction()
    for cost in costs:
        fits = spent + as_written(cost) <= as_written(epsilon)
        try:
            budget.spend(cost)
        except BudgetError:
            assert not fits
        else:
            assert fits
            spent += as_written(cost)
    assert as_written(budget.left.epsilon) <= as_written(epsilon) - spent
    assert Fraction(budget.spent.epsilon) >= spent


@given(st.floats(1e-12, 1e6))
def test_a_fit_costs_no_more_than_the_number_as_it_is_written(epsilon):
    assert Fraction(at_most(epsilon)) <= as_written(epsilon)
    assert at_most(epsilon) >= math.nextafter(epsilon, 0)


def test_a_parallel_group_must_not_come_back():
    """Its second release is about the same rows, and would cost nothing."""
    ledger(charge(0.5, parallel="a"), charge(0.5, parallel="a"), charge(0.5, parallel="b"))
    with pytest.raises(BudgetError, match="'a' comes back"):
        ledger(charge(0.5, parallel="a"), charge(0.1), charge(0.5, parallel="a"))


@pytest.mark.parametrize("rho", [-5.0, math.nan, math.inf])
def test_a_rho_must_be_a_number(rho):
    with pytest.raises(ValueError, match="rho must be"):
        Budget(1.0, 1e-6, accountant="zcdp").spend(0.1, 1e-6, rho=rho)


@given(st.floats(0.05, 0.9), st.floats(1.0, 3.0))
def test_what_is_left_in_zcdp_can_be_spent(first, whole):
    budget = Budget(whole, 1e-6, accountant="zcdp")
    budget.spend(first, 1e-6, rho=rho_for(at_most(first), 1e-6))
    left = budget.left
    budget.spend(*left, rho=rho_for(at_most(left.epsilon), at_most(left.delta)))


def test_a_budget_is_for_one_kind_of_neighbours():
    budget = Budget(3.0)
    with pytest.raises(BudgetError, match="replace-one"):
        budget.spend(1.0, adjacency="replace-one")
    Budget(3.0, adjacency="replace-one").spend(1.0, adjacency="replace-one")
    assert budget.spent == Loss(0.0, 0.0)
    with pytest.raises(ValueError, match="adjacency"):
        Budget(1.0, adjacency="foo")


def test_rhos_add_up_and_are_converted_once():
    budget = Budget(1.0, 1e-6, accountant="zcdp")
    rho = rho_for(0.1, 1e-6)
    fits = int(Fraction(rho_for(1.0, 1e-6)) / Fraction(rho))
    assert fits > 70  # ten with basic composition
    for _ in range(fits):
        budget.spend(0.1, 1e-6, rho=rho)
    assert 0.99 < budget.spent.epsilon <= 1.0
    with pytest.raises(BudgetError, match="left"):
        budget.spend(0.1, 1e-6, rho=rho)
    with pytest.raises(BudgetError, match="no rho"):
        budget.spend(0.1, 1e-6)
    budget = Budget(1.0, 1e-6, accountant="zcdp")
    with pytest.raises(BudgetError):
        budget.spend(1.0)  # a pure epsilon of 1 is rho = 1 / 2
    budget.spend(0.1, condition="conditional: x")
    assert budget.lines[0].rho == pytest.approx(0.005)
    assert "conditional: x" in str(budget)
    with pytest.raises(ValueError, match="delta > 0"):
        Budget(1.0, accountant="zcdp")


def test_threads_can_share_a_budget():
    budget, cost = Budget(1.0), 0.001

    def spend(_):
        try:
            budget.spend(cost)
        except BudgetError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(spend, range(3000)))
    assert done == 1000


def test_a_copied_budget_is_the_same_and_a_pickled_one_has_nothing_left():
    budget = Budget(1.0)
    assert copy.copy(budget) is budget
    assert copy.deepcopy({"b": budget})["b"] is budget
    budget.spend(0.25, label="first")
    other = pickle.loads(pickle.dumps(budget))
    assert other.left == (0.0, 0.0)
    assert other.spent == (0.25, 0.0)
    with pytest.raises(BudgetError, match="pickled"):
        other.spend(0.1)
    budget.spend(0.75)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("held", [False, True])
def test_a_forked_process_cannot_spend_the_budget_again(held):
    """Nor does it hang if another thread held the lock."""
    budget = Budget(1.0)
    if held:
        budget._lock.acquire()
    child = os.fork()
    if child == 0:  # the child must not go on with the other tests
        try:
            budget.spend(1.0)
        except BudgetError:
            os._exit(0 if budget.left == (0.0, 0.0) else 2)
        finally:
            os._exit(1)
    end = time.monotonic() + 10
    while (status := os.waitpid(child, os.WNOHANG))[0] == 0 and time.monotonic() < end:
        time.sleep(0.01)
    if status[0] == 0:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert status[0] == child
    assert os.waitstatus_to_exitcode(status[1]) == 0
    if held:
        budget._lock.release()
    budget.spend(1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (0, 0),
        (-1, 0),
        (math.nan, 0),
        (math.inf, 0),
        (1, 1),
        (1, -0.1),
        (1, math.nan),
        (5e-324, 0),
        (1e-20, 0),
        (1e12, 0),
    ],
)
def test_bad_budgets_raise(epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        Budget(epsilon, delta)
    with pytest.raises(ValueError, match="must be"):
        Budget(1.0, 0.5).spend(epsilon, delta)


def test_a_ledger_is_for_one_kind_of_neighbours():
    one = charge(0.1)
    other = replace(one, adjacency="replace-one")
    assert Ledger("add-remove", (one, one), Loss(1.0, 0.0)).total().epsilon == 0.2
    with pytest.raises(BudgetError, match="do not add up"):
        Ledger("add-remove", (one, other), Loss(1.0, 0.0))
    with pytest.raises(BudgetError, match="do not add up"):
        Ledger("replace-one", (one,), Loss(1.0, 0.0))
