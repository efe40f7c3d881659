"""Totals of ledgers are exact and never above the claim."""

import json
import math
import os
from dataclasses import replace
from fractions import Fraction

import pytest
from api import BudgetError, Charge, Cost, Lattice, Ledger, Loss, charge_of, epsilon_of, rho_for, up
from api import query_module as query
from hypothesis import given
from hypothesis import strategies as st
from privacy.exact_noise import ADJACENCIES

epsilons = st.floats(1e-6, 50.0)
deltas = st.floats(1e-30, 0.4)
shares = st.lists(st.floats(0.0, 1e3), min_size=1, max_size=12).filter(lambda s: sum(s) > 1e-9)


def charge(cost, *, rho=False, parallel=None, label="x"):
    costs = {"rho": cost} if rho else {"epsilon": cost}
    return Charge(label, "laplace", "add-remove", 1.0, "l1", 1.0, **costs, parallel=parallel)


def ledger(*charges, claim=(math.inf, 0.5)):
    return Ledger("add-remove", charges, claim)


@pytest.mark.parametrize("claim", [(math.nan, 0.0), (1.0, math.nan), (-1.0, 0.0), (1.0, 1.0)])
def test_a_ledger_refuses_a_claim_that_is_none(claim):
    with pytest.raises(ValueError, match="A claim has epsilon >= 0 and 0 <= delta < 1; got"):
        Ledger("add-remove", (charge(0.5),), claim)


def test_a_ledger_refuses_an_unknown_adjacency():
    with pytest.raises(ValueError, match="'add-remove' or 'replace-one'; got 'foo'"):
        Ledger("foo", (charge(0.5),), (1.0, 0.0))


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


def test_a_parallel_group_must_not_come_back():
    """Its second release is about the same rows, and would cost nothing."""
    ledger(charge(0.5, parallel="a"), charge(0.5, parallel="a"), charge(0.5, parallel="b"))
    with pytest.raises(BudgetError, match="'a' comes back"):
        ledger(charge(0.5, parallel="a"), charge(0.1), charge(0.5, parallel="a"))


def test_a_ledger_is_for_one_kind_of_neighbours():
    one = charge(0.1)
    other = replace(one, adjacency="replace-one")
    assert Ledger("add-remove", (one, one), Loss(1.0, 0.0)).total().epsilon == 0.2
    with pytest.raises(BudgetError, match="do not add up"):
        Ledger("add-remove", (one, other), Loss(1.0, 0.0))
    with pytest.raises(BudgetError, match="do not add up"):
        Ledger("replace-one", (one,), Loss(1.0, 0.0))
