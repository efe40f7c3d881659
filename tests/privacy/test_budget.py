"""Budgets are exact and never overdrawn, whoever shares them."""

import copy
import math
import os
import pickle
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from api import Budget, BudgetError, Loss, as_written, at_most, rho_for
from hypothesis import given
from hypothesis import strategies as st


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


def test_a_refusal_under_zcdp_compares_rhos():
    """epsilon = 0.25 without delta is below what is left at delta = 1e-6, and costs far more."""
    budget = Budget(1.0, 1e-6, accountant="zcdp")
    budget.spend(0.9, 1e-6, rho=rho_for(0.9, 1e-6))
    assert budget.left.epsilon > 0.25
    left = Fraction(rho_for(1.0, 1e-6)) - Fraction(rho_for(0.9, 1e-6))
    words = "First needs rho = 0.03125 (epsilon = 0.25, delta = 0); what is left is rho = "
    with pytest.raises(BudgetError, match=f"^{re.escape(f'{words}{float(left):.6g}.')}$"):
        budget.spend(0.25, label="First")
    budget = Budget(1.0, 1e-6, accountant="zcdp")
    limit = rho_for(1.0, 1e-6)
    with pytest.raises(BudgetError) as refused:
        budget.spend(1.0, 1e-6, rho=math.nextafter(limit, 1))
    need, left = re.findall(r"rho = ([0-9.e-]+[0-9])", str(refused.value))
    assert float(need) > float(left)


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


@pytest.mark.parametrize("name", ["epsilon", "delta", "adjacency", "accountant"])
def test_a_budget_cannot_be_changed(name):
    budget = Budget(1.0)
    with pytest.raises(AttributeError, match=name):
        setattr(budget, name, getattr(budget, name))


def test_a_copied_budget_is_the_same_and_a_pickled_one_has_nothing_left():
    budget = Budget(1.0)
    assert copy.copy(budget) is budget
    assert copy.deepcopy({"b": budget})["b"] is budget
    budget.spend(0.25, label="first")
    other = pickle.loads(pickle.dumps(budget))
    assert other.left == (0.0, 0.0)
    assert str(other).endswith("left: nothing; this is only a copy")
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
