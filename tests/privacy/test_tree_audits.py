"""Audits of the tree's releases with many features, one by one: whole fits are too slow.

    location   number of rows, their sum, the sum of their squares
    axes       second moments of rows near the mean
    rounds     the products of the power method
    level      counts, sums and squares of groups in their balls
    leaves     the same, with squares added up

The row in question has the largest norm in its ball, and is alone there. Claims are in zCDP. A
claim that holds fails with probability at most 1e-6. Rows that are not clipped to the unit ball are
caught (a row twice as far moves second moments four times as far: 16 rho).
"""

from unittest.mock import patch

import numpy as np
import pytest
from api import Balls, Chosen, Cost, NoisyMoments, audit
from api import noisy_tree_module as noisy_tree
from privacy.exact_noise import both_adjacencies
from privacy.method_cases import watch_releases
from privacy.neighbours import neighbours
from privacy.private_models import make_task

pytestmark = pytest.mark.slow
D, RHO, RUNS = 6, 0.5, 1000
COST = Cost(rho=RHO)
ROWS = 12
LOCATION = noisy_tree.RowsLocation(float(ROWS), np.zeros(D), 0.1)  # the row is outside


def moments(task, level):
    chosen = task.rows.map(
        lambda rows: Chosen(rows, np.where(rows[:, 0] > 0, 0, 1).astype(np.int32))
    )
    measure = NoisyMoments(task, D, [COST, COST])
    measure(chosen, Balls(np.zeros((2, D)), np.ones(2)), level)


PARTS = {
    "location": lambda task: noisy_tree.locate(task, COST),
    "axes": lambda task: noisy_tree._all_moments(task, LOCATION, COST),
    # From the features, not from random directions: the attacker knows where to look.
    "rounds": lambda task: noisy_tree._power_method(task, LOCATION, COST, np.eye(D)),
    "level": lambda task: moments(task, 0),
    "leaves": lambda task: moments(task, 1),
}


def attack(part, adjacency):
    """An audit of all values that the part releases."""

    def mechanism(rows):
        values = {}
        with watch_releases(values):
            PARTS[part](make_task(rows, 2, adjacency, delta=0.01))
        return values

    return audit(mechanism, neighbours("corner", ROWS, D, adjacency), rho=RHO, runs=RUNS)


@pytest.mark.parametrize("part", PARTS)
@both_adjacencies
def test_a_release_of_the_tree_keeps_its_claim(part, adjacency):
    found = attack(part, adjacency)
    assert found.passed, str(found)


@pytest.mark.parametrize("part", ["axes", "rounds"])
def test_rows_that_are_not_clipped_are_caught(part):
    true = noisy_tree.products
    with patch.object(noisy_tree, "products", lambda *args: true(*args).map(lambda of: 4 * of)):
        found = attack(part, "add-remove")
    assert not found.passed, str(found)
