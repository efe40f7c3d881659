"""The tree's releases for many features, attacked one by one: whole fits are too slow for depth.

    place      how many rows, their sum, the sum of their squares
    axes       second moments of rows near the mean
    rounds     the power method's products, where there are too many moments
    level      counts, sums and squares of groups in their frames
    leaves     the same, with squares added up

The row in question has the largest norm that its frame admits, and is alone there. Claims are in
zCDP. A claim that holds fails with probability 1e-6 at most; rows that are not pulled into the unit
ball are caught (twice as far out, a row moves second moments four times as far: 16 rho).
"""

from unittest.mock import patch

import numpy as np
import pytest
from kvariates.data.lattice import Balls

from kvariates.privacy.auditing import audit
from kvariates.privacy.ledger import Loss
from kvariates.privacy.neighbours import neighbours
from kvariates.private_methods import noisy_moments, principal_axes
from kvariates.private_methods.task import Accountant, Cost, Domain, PrivateTask

D, RHO, RUNS = 6, 0.5, 1000
COST = Cost(rho=RHO)
ROWS = 12
WHERE = principal_axes.Place(
    float(ROWS), np.zeros(D), 0.1
)  # so narrow that the row in question is far out


def task_of(rows, side):
    domain = Domain.box(-np.ones(D), np.ones(D))
    return PrivateTask(domain.rows(rows), domain, 2, side, Loss(1.0, 0.01))


def measured(task, accountant, level):
    labels = np.where(task.rows[:, 0] > 0, 0, 1).astype(np.int32)
    frames = Balls(np.zeros((2, D)), np.ones(2))
    noisy_moments.NoisyMoments(task, task.rows, [COST, COST], accountant, "part")(
        labels, frames, level
    )


PARTS = {
    "place": lambda task, accountant: principal_axes.place(task, COST, accountant),
    "axes": lambda task, accountant: principal_axes._all_moments(task, WHERE, COST, accountant),
    # From the features, not from random directions: the attacker knows where to look.
    "rounds": lambda task, accountant: principal_axes._iterated(
        task, WHERE, COST, accountant, np.eye(D)
    ),
    "level": lambda task, accountant: measured(task, accountant, 0),
    "leaves": lambda task, accountant: measured(task, accountant, 1),
}


def attack(part, side):
    """An audit of all values that the part keeps accountant for."""

    def mechanism(rows):
        values, keep = [], Accountant.record

        def kept(accountant, release):
            values.append(release[0])
            return keep(accountant, release)

        with patch.object(Accountant, "record", kept):
            PARTS[part](task_of(rows, side), Accountant())
        return values

    return audit(mechanism, neighbours("corner", ROWS, D, side), rho=RHO, runs=RUNS)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("side", ["add-remove", "replace-one"])
def test_a_part_keeps_its_claim(part, side):
    found = attack(part, side)
    assert found.passed, str(found)


@pytest.mark.parametrize("part", ["axes", "rounds"])
def test_rows_that_are_not_pulled_in_are_caught(part):
    """Second moments are the part for which neither `summed` nor its tests vouch."""

    true = principal_axes._products
    with patch.object(principal_axes, "_products", lambda *asked: 4 * true(*asked)):
        found = attack(part, "add-remove")
    assert not found.passed, str(found)
