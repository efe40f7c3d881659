"""Every private method keeps its claim under attack; mistakes planted in methods are caught.

Noise is fresh at every run of the tests. A claim that holds fails with probability 1e-6 at most.
How many runs, and why: `methods.py` and `mistakes.py`.
"""

import math
from collections import Counter

import pytest
from privacy.methods import ASSERTED, LOSSES, QUICK, QUICK_RUNS, SCENES, Case, Scene, spread
from privacy.mistakes import MISTAKES

from kvariates.privacy import mechanisms
from kvariates.privacy.auditing import audit, repeatable
from kvariates.privacy.ledger import BudgetError, Ledger
from kvariates.private_methods import sample_aggregate
from kvariates.private_methods.methods import METHODS
from kvariates.private_methods.noisy_kvariates import Floored, WithLaplace
from kvariates.private_methods.row_count import Size, public_size
from kvariates.private_methods.sample_aggregate import SampleAggregate
from kvariates.private_methods.task import Accountant


def attack(case, runs):
    return audit(case, case.neighbours, view=case.view, runs=runs, **case.claim)


@pytest.mark.parametrize("name", QUICK)
def test_a_method_keeps_its_claim(name):
    found = attack(QUICK[name], QUICK_RUNS)
    assert found.passed, str(found)


def test_what_is_asserted_is_true():
    method, scene = ASSERTED["kvariates-conditional"]
    for side in ("add-remove", "replace-one"):
        rows = scene.neighbours(side).first
        assert spread(rows, scene.k, 4 * scene.domain.radius**2) <= method.delta_w


@pytest.mark.parametrize("name", QUICK)
def test_noise_cannot_be_seeded(name):
    case = QUICK[name]
    assert not repeatable(case, case.neighbours.first, view=case.view, runs=8)


ONE_CHARGE = ("floored k-variates++", "k-variates++ with Laplace noise", "k-variates++")


def uncharged(seen):
    """Noise that was drawn and has no line in the ledger, by (law, cost)."""
    lines = Counter((charge.mechanism, charge.cost) for charge in seen.released.charges)
    centers = any(charge.mechanism in ONE_CHARGE for charge in seen.released.charges)
    drawn = Counter(seen.drawn)
    if centers:  # one line for all centres, each drawn by itself at another cost
        drawn = Counter({draw: n for draw, n in drawn.items() if draw in lines})
    return drawn - lines


@pytest.mark.parametrize("name", QUICK)
def test_no_noise_is_drawn_without_a_charge(name):
    case = QUICK[name]
    assert not uncharged(case(case.neighbours.first))


LEFT_OUT = {"lloyd": "step 2", "tree": "tree, level 1"}


@pytest.mark.parametrize(("name", "left_out"), LEFT_OUT.items())
def test_a_release_that_is_not_charged_is_caught(monkeypatch, name, left_out):
    """One step of Lloyd, or one level of a tree, is left out of the ledger."""
    case = Case(METHODS[name], "add-remove", LOSSES["pure"], SCENES["crowd"])
    keep = Accountant.record

    def forgetful(accountant, release):
        value = keep(accountant, release)
        if release[1].label.startswith(left_out):
            accountant.charges.pop()
        return value

    monkeypatch.setattr(Accountant, "record", forgetful)
    assert uncharged(case(case.neighbours.first))


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_caught(name):
    mistake = MISTAKES[name]
    with mistake.planted():
        found = attack(mistake.case, mistake.runs)
    assert not found.passed, str(found)


@pytest.mark.parametrize("method", [Floored(), WithLaplace()])
def test_seeded_noise_is_caught(method):
    """All that is random in these methods is noise, or a draw that privacy rests on."""
    case = Case(method, "replace-one", LOSSES["pure"], SCENES["alone"])

    def seeded(X):
        with mechanisms._REPEATABLE_NOISE_FOR_TESTS_ONLY(0, i_know_that_this_protects_nobody=True):
            return case(X)

    assert repeatable(seeded, case.neighbours.first, view=case.view)
    found = audit(seeded, case.neighbours, view=case.view, runs=QUICK_RUNS, epsilon=1.0)
    assert found.lower_bound == found.most


def test_a_swapped_pair_of_budgets_is_refused_by_the_ledger(monkeypatch):
    """A count's part and a coordinate's, unpacked the other way: d k parts too large."""

    def swapped(task, share, accountant, parts):
        right = public_size(task, share, accountant, parts)
        each, count = right.rest[0], task.costs([share, 1.0 - share])[0]
        assert count["epsilon"] > each["epsilon"]
        return Size(right.n, [count] * len(parts))

    scene = Scene("lone", 9, 5, 8)
    case = Case(SampleAggregate(), "add-remove", LOSSES["pure"], scene)
    charges = case(case.neighbours.first).released.charges
    assert math.isclose(Ledger("add-remove", charges, case.loss).total().epsilon, 1.0)
    monkeypatch.setattr(sample_aggregate, "public_size", swapped)
    with pytest.raises(BudgetError, match="more than the claim"):
        Ledger("add-remove", case(case.neighbours.first).released.charges, case.loss)
