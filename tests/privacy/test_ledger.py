"""The ledger: totals are exact, never above the claim, and a budget is never overdrawn."""

import copy
import json
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kvariates.privacy import ledger as book
from kvariates.privacy import mechanisms
from kvariates.privacy.ledger import Budget, BudgetError, Charge, Ledger, epsilon_of, rho_for, split
from kvariates.privacy.rounding import down, root_up, up

epsilons = st.floats(1e-6, 50.0)
rhos = st.floats(1e-9, 50.0)
deltas = st.floats(1e-30, 0.4)
shares = st.lists(st.floats(0.0, 1e3), min_size=1, max_size=12).filter(lambda s: sum(s) > 1e-9)


def charge(cost, *, rho=False, parallel=None, label="x"):
    costs = {"rho": cost} if rho else {"epsilon": cost}
    return Charge(label, "laplace", 1.0, "l1", 1.0, **costs, parallel=parallel)


def ledger(*charges, claim=(math.inf, 0.5)):
    return Ledger("add-remove", charges, claim)


# Rounding


@given(st.fractions(-(10**30), 10**30, max_denominator=10**40))
def test_up_and_down_enclose_within_one_step(x):
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
def test_split_never_exceeds_and_loses_next_to_nothing(total, parts):
    pieces = split(total, parts)
    exact = sum(map(Fraction, pieces))
    assert exact <= Fraction(total)
    assert exact >= Fraction(total) * (1 - Fraction(2) ** -52)
    for piece, part in zip(pieces, parts, strict=True):
        assert piece == pytest.approx(total * part / sum(parts), rel=1e-12, abs=total * 1e-14)


@pytest.mark.parametrize("parts", [[], [0.0, 0.0], [1.0, -1.0], [math.nan]])
def test_split_refuses(parts):
    with pytest.raises(ValueError, match="shares"):
        split(1.0, parts)


# zCDP


def converted(rho, delta):
    """The conversion by the book, 80 digits, its own search."""
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
def test_conversion_is_the_best_there_is_rounded_up(rho, delta):
    exact, ours = converted(rho, delta), epsilon_of(rho, delta)
    assert Decimal(ours) >= exact

    assert ours <= float(exact) * (1 + 1e-15) + 1e-25


@given(rhos, deltas)
def test_conversion_covers_the_gaussian_whose_curve_is_known(rho, delta):
    """Balle and Wang 2018: the exact delta of a Gaussian with sensitivity / sigma = sqrt(2 rho)."""
    epsilon, mu = epsilon_of(rho, delta), math.sqrt(2 * rho)
    spent = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(
        epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu)
    )
    assert spent <= delta * (1 + 1e-9)


@given(rhos, deltas)
def test_conversion_is_within_bun_and_steinke(rho, delta):
    assert epsilon_of(rho, delta) <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12


@pytest.mark.parametrize(
    ("rho", "delta", "epsilon"),
    [  # computed with 80 digits; OpenDP's conversion gives the same
        (2.56, 1e-10, 17.15830871210475),
        (0.07, 1e-10, 2.3872751767179743),
        (0.5, 1e-6, 5.22153444453017),
        (100.0, 1e-9, 189.0556529021116),
    ],
)
def test_conversion_known_values(rho, delta, epsilon):
    assert epsilon_of(rho, delta) == pytest.approx(epsilon, rel=1e-14)


def test_conversion_edges():
    assert epsilon_of(0.0, 0.0) == 0.0
    assert epsilon_of(1.0, 0.0) == math.inf
    assert epsilon_of(1e-30, 1e-6) == 0.0
    with pytest.raises(ValueError, match="delta"):
        rho_for(1.0, 0.0)


@given(st.floats(1e-3, 50.0), deltas)
def test_rho_for_fills_the_budget_and_never_exceeds_it(epsilon, delta):
    rho = rho_for(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * (1 + 1e-9), delta) > epsilon


# Totals


@given(st.lists(epsilons, min_size=1, max_size=20))
def test_pure_totals_are_the_exact_sum_rounded_up(costs):
    total = ledger(*map(charge, costs)).total()
    exact = sum(map(Fraction, costs))
    assert Fraction(total.epsilon) >= exact > Fraction(math.nextafter(total.epsilon, 0))
    assert total.delta == 0.0


@given(epsilons, shares)
def test_a_split_budget_is_the_claim_up_to_rounding(epsilon, parts):
    pieces = [piece for piece in split(epsilon, parts) if piece > 0]
    total = ledger(*map(charge, pieces), claim=(epsilon, 0.0)).total()
    assert epsilon * (1 - 1e-15) <= total.epsilon <= epsilon


@given(st.lists(st.tuples(epsilons, st.sampled_from([None, "a", "b"])), min_size=1, max_size=12))
def test_a_parallel_group_costs_its_maximum(costs):
    total = ledger(*(charge(cost, parallel=group) for cost, group in costs)).total()
    alone = sum((Fraction(cost) for cost, group in costs if group is None), Fraction())
    for name in "ab":
        alone += max((Fraction(cost) for cost, group in costs if group == name), default=0)
    assert total.epsilon == up(alone)


@given(st.lists(st.tuples(st.floats(1e-4, 5.0), st.booleans()), min_size=1, max_size=9), deltas)
def test_mixed_totals_count_epsilon_as_half_its_square(costs, delta):
    costs = [*costs, (0.1, True)]
    total = ledger(*(charge(c, rho=rho) for c, rho in costs), claim=(math.inf, delta)).total()
    exact = sum(Fraction(c) if rho else Fraction(c) ** 2 / 2 for c, rho in costs)
    assert total == (epsilon_of(exact, delta), delta)


@given(st.floats(0.01, 20.0), deltas, shares)
def test_a_split_rho_is_the_claim_up_to_rounding(epsilon, delta, parts):
    pieces = [piece for piece in split(rho_for(epsilon, delta), parts) if piece > 0]
    total = ledger(*(charge(p, rho=True) for p in pieces), claim=(epsilon, delta)).total()
    assert epsilon * (1 - 1e-11) - 1e-12 <= total.epsilon <= epsilon


def test_a_ledger_above_its_claim_cannot_be_made():
    ledger(charge(0.5), charge(0.5), claim=(1.0, 0.0))
    with pytest.raises(BudgetError, match="more than the claim"):
        ledger(charge(0.5), charge(math.nextafter(0.5, 1)), claim=(1.0, 0.0))
    with pytest.raises(BudgetError):
        ledger(charge(0.5, rho=True), claim=(100.0, 0.0))  # rho implies no pure epsilon
    with pytest.raises(BudgetError):
        ledger(charge(math.inf), claim=(100.0, 0.0))


def test_a_charge_has_one_cost():
    for costs in ({}, {"epsilon": 1.0, "rho": 1.0}, {"epsilon": -1.0}, {"rho": math.nan}):
        with pytest.raises(ValueError, match="charge"):
            Charge("x", "laplace", 1.0, "l1", 1.0, **costs)


def test_a_ledger_prints_turns_into_a_frame_and_saves(tmp_path):
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


def test_releases_that_are_alike_share_a_line():
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


def test_a_save_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    path = tmp_path / "ledger.json"
    page = ledger(charge(0.25), claim=(1.0, 0.0))
    page.save(path)
    before = path.read_text(encoding="utf-8")
    monkeypatch.setattr(book.json, "dump", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        page.save(path)
    assert path.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


# Charges of real releases


@given(epsilons, st.sampled_from(["add-remove", "replace-one"]), shares)
def test_real_pure_charges_fill_the_claim(epsilon, adjacency, parts):
    pieces = [piece for piece in split(epsilon, parts) if piece > 1e-9]
    charges = []
    grid = mechanisms.Lattice(2.5, 3)
    for i, e in enumerate(pieces):
        common = {"epsilon": e, "adjacency": adjacency, "label": "x"}
        made = [
            lambda c: mechanisms.counts([3, 0], **c),
            lambda c: mechanisms.scalar(7, **c),
            lambda c: mechanisms.sums([[0.5, 0.0, 0.0]], grid=grid, **c),
            lambda c: mechanisms.choose([1.0, 2.0], sensitivity=0.3, monotone=True, **c),
        ][i % 4](common)
        charges.append(made[1])
    total = Ledger(adjacency, charges, (epsilon, 0.0)).total()
    assert sum(pieces) * (1 - 1e-13) <= total.epsilon <= epsilon


@given(st.floats(0.01, 20.0), deltas, st.sampled_from(["add-remove", "replace-one"]), shares)
def test_real_concentrated_charges_fill_the_claim(epsilon, delta, adjacency, parts):
    pieces = [piece for piece in split(rho_for(epsilon, delta), parts) if piece > 1e-12]
    grid = mechanisms.Lattice(0.1, 7)
    charges = []
    for i, r in enumerate(pieces):
        common = {"rho": r, "adjacency": adjacency, "label": "x"}
        made = [
            lambda c: mechanisms.counts([3, 0], **c),
            lambda c: mechanisms.sums([[0.0] * 7], grid=grid, **c),
            lambda c: mechanisms.choose([1.0, 2.0], sensitivity=0.3, monotone=True, **c),
        ][i % 3](common)
        charges.append(made[1])
    asked = epsilon_of(sum(map(Fraction, pieces)), delta)
    total = Ledger(adjacency, charges, (epsilon, delta)).total()
    assert asked * (1 - 1e-9) - 1e-12 <= total.epsilon <= epsilon


# Budgets


def test_a_budget_refuses_before_it_spends_and_is_exact():
    budget = Budget(1.0, 1e-6)
    for _ in range(9):
        budget.spend(0.1, 1e-7, "fit")
    before = budget.left
    with pytest.raises(BudgetError, match="left"):
        budget.spend(0.2)
    with pytest.raises(BudgetError):
        budget.spend(0.01, 2e-7)
    assert budget.left == before
    # 0.1 is a little more than a tenth, and ten of them are a little more than 1.
    with pytest.raises(BudgetError):
        budget.spend(0.1)
    budget.spend(budget.left.epsilon)
    assert budget.spent.epsilon == 1.0
    assert len(budget.lines) == 10
    assert "spent" in str(budget)
    assert repr(budget) == "Budget(epsilon=1.0, delta=1e-06)"


@given(st.lists(st.floats(1e-6, 0.5), max_size=30), st.floats(0.1, 3.0))
def test_a_budget_is_never_overdrawn(costs, epsilon):
    budget, spent = Budget(epsilon), Fraction()
    for cost in costs:
        fits = spent + Fraction(cost) <= Fraction(epsilon)
        try:
            budget.spend(cost)
        except BudgetError:
            assert not fits
        else:
            assert fits
            spent += Fraction(cost)
    assert Fraction(budget.left.epsilon) <= Fraction(epsilon) - spent
    assert Fraction(budget.spent.epsilon) >= spent


def test_a_budget_is_safe_to_share_between_threads():
    budget, cost = Budget(1.0), 0.001

    def spend(_):
        try:
            budget.spend(cost)
        except BudgetError:
            return 0
        return 1

    with ThreadPoolExecutor(8) as pool:
        done = sum(pool.map(spend, range(3000)))
    assert done == int(Fraction(1) / Fraction(cost))


def test_a_copy_of_a_budget_is_the_budget_and_a_pickled_one_is_spent():
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
def test_a_forked_process_cannot_spend_the_budget_a_second_time():
    budget = Budget(1.0)
    child = os.fork()
    if child == 0:  # no assertion may leave the child: it would go on with the other tests
        try:
            budget.spend(1.0)
        except BudgetError:
            os._exit(0 if budget.left == (0.0, 0.0) else 2)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    budget.spend(1.0)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [(0, 0), (-1, 0), (math.nan, 0), (math.inf, 0), (1, 1), (1, -0.1), (1, math.nan)],
)
def test_budgets_that_are_none(epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        Budget(epsilon, delta)
    with pytest.raises(ValueError, match="must be"):
        Budget(1.0, 0.5).spend(epsilon, delta)
