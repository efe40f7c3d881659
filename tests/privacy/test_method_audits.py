"""Every private method keeps its claim under audit, and planted mistakes break it.

Noise is fresh in every run of the tests. A claim that holds fails with probability at most 1e-6.
`method_cases.py` and `broken_methods.py` explain the numbers of runs.
"""

import math
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest
from api import (
    PRIVATE_METHODS,
    Accountant,
    BudgetError,
    Floored,
    Ledger,
    PrivateTask,
    RowCount,
    SampleAggregate,
    WithLaplace,
    audit,
)
from privacy.broken_methods import MISTAKES, SLOWLY_CAUGHT
from privacy.exact_noise import ADJACENCIES, repeatable
from privacy.method_cases import (
    ASSERTED,
    LOSSES,
    QUICK,
    QUICK_RUNS,
    SCENES,
    SLOW,
    Case,
    Scene,
    spread,
)
from privacy.repeatable_noise import repeatable_noise
from slow_cases import mark_slow


def attack(case, runs):
    return audit(case, case.neighbours, view=case.view, runs=runs, **case.claim)


ALL = QUICK | SLOW


@pytest.mark.parametrize("name", mark_slow(ALL, SLOW.keys() - QUICK.keys()))
def test_a_method_keeps_its_claim(name):
    found = attack(ALL[name], QUICK_RUNS)
    assert found.passed, str(found)


def test_the_asserted_condition_holds():
    method, scene = ASSERTED["kvariates-conditional"]
    for adjacency in ADJACENCIES:
        rows = scene.neighbours(adjacency).first
        assert spread(rows, scene.k, 4 * scene.domain.radius**2) <= method.delta_w


def test_data_with_fewer_rows_than_centres_fulfil_no_condition():
    rows = np.array([[-1.0, -1.0], [1.0, 1.0], [1.0, -1.0]])
    assert spread(rows, 2, 8.0) < math.inf
    for k, n in ((4, 3), (5, 3), (9, 2), (2, 1), (1, 1), (3, 0)):
        assert spread(rows[:n], k, 8.0) == math.inf


ONE_CHARGE = ("floored k-variates++", "k-variates++ with Laplace noise", "k-variates++")


def uncharged(seen):
    """The noise that was drawn without a charge, by (law, cost)."""
    charges = seen.result.charges
    lines = Counter((charge.mechanism, charge.cost) for charge in charges)
    drawn = Counter(seen.drawn)
    if any(charge.mechanism in ONE_CHARGE for charge in charges):
        # All centres have one charge, with another cost than the noise of each.
        drawn = Counter({draw: n for draw, n in drawn.items() if draw in lines})
    return drawn - lines


@pytest.mark.parametrize("name", ALL)
def test_all_noise_is_charged_and_cannot_be_seeded(name):
    case = ALL[name]
    assert not uncharged(case(case.neighbours.first))
    assert not repeatable(case, case.neighbours.first, view=case.view, runs=8)


@pytest.mark.parametrize(("name", "left_out"), [("lloyd", "step 2"), ("tree", "tree, level 1")])
def test_an_uncharged_release_is_caught(name, left_out):
    """One step of Lloyd, or one level of a tree, is left out of the ledger."""
    case = Case(PRIVATE_METHODS[name].run, "add-remove", LOSSES["pure"], SCENES["crowd"])
    true = Accountant.release

    def forgetful(accountant, query, cost):
        made = true(accountant, query, cost)
        if made.charge.label.startswith(left_out):
            accountant.charges.pop()
        return made

    with patch.object(Accountant, "release", forgetful):
        assert uncharged(case(case.neighbours.first))


@pytest.mark.parametrize("name", mark_slow(MISTAKES, SLOWLY_CAUGHT))
def test_a_mistake_is_caught(name):
    mistake = MISTAKES[name]
    with mistake.planted():
        found = attack(mistake.case, mistake.runs)
    assert not found.passed, str(found)


@pytest.mark.parametrize("method", [Floored(), WithLaplace()])
def test_seeded_noise_is_caught(method):
    """All randomness of these methods comes from `privacy`."""
    case = Case(method, "replace-one", LOSSES["pure"], SCENES["alone"])

    def seeded(X):
        # With this seed noise is small: not every result is clipped to the same corner.
        with repeatable_noise(2):
            return case(X)

    assert repeatable(seeded, case.neighbours.first, view=case.view)
    found = audit(seeded, case.neighbours, view=case.view, runs=QUICK_RUNS, epsilon=1.0)
    assert found.lower_bound == found.most


def test_the_ledger_refuses_swapped_budgets(monkeypatch):
    """The cost of the count and that of a coordinate are swapped, which is d k times too much."""

    true = PrivateTask.row_count

    def swapped(task, share, shares):
        right = true(task, share, shares)
        count = task.cost.split([share, 1.0 - share])[0]
        assert count.value > right.costs[0].value
        return RowCount(right.n, [count] * len(shares))

    case = Case(SampleAggregate(), "add-remove", LOSSES["pure"], Scene("lone", 9, 5, 8))
    charges = case(case.neighbours.first).result.charges
    assert math.isclose(Ledger("add-remove", charges, case.loss).total().epsilon, 1.0)
    monkeypatch.setattr(PrivateTask, "row_count", swapped)
    with pytest.raises(BudgetError, match="more than the claim"):
        Ledger("add-remove", case(case.neighbours.first).result.charges, case.loss)
