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

from kvariates.privacy.audit import audit
from kvariates.privacy.grid import Frames
from kvariates.privacy.ledger import Loss
from kvariates.privacy.neighbours import neighbours
from kvariates.private import axes, moments
from kvariates.private.task import Cost, Domain, Receipts, Task

D, RHO, RUNS = 6, 0.5, 1000
COST = Cost(rho=RHO)
ROWS = 12
WHERE = axes.Place(float(ROWS), np.zeros(D), 0.1)  # so narrow that the row in question is far out


def task_of(rows, side):
    domain = Domain.box(-np.ones(D), np.ones(D))
    return Task(domain.rows(rows), domain, 2, side, Loss(1.0, 0.01))


def measured(task, receipts, level):
    labels = np.where(task.rows[:, 0] > 0, 0, 1).astype(np.int32)
    frames = Frames(np.zeros((2, D)), np.ones(2))
    moments.Measured(task, task.rows, [COST, COST], receipts, "part")(labels, frames, level)


PARTS = {
    "place": lambda task, receipts: axes.place(task, COST, receipts),
    "axes": lambda task, receipts: axes._all_moments(task, WHERE, COST, receipts),
    # From the features, not from random directions: the attacker knows where to look.
    "rounds": lambda task, receipts: axes._iterated(task, WHERE, COST, receipts, np.eye(D)),
    "level": lambda task, receipts: measured(task, receipts, 0),
    "leaves": lambda task, receipts: measured(task, receipts, 1),
}


def attack(part, side):
    """An audit of all values that the part keeps receipts for."""

    def mechanism(rows):
        values, keep = [], Receipts.keep

        def kept(receipts, release):
            values.append(release[0])
            return keep(receipts, release)

        with patch.object(Receipts, "keep", kept):
            PARTS[part](task_of(rows, side), Receipts())
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

    true = axes._products
    with patch.object(axes, "_products", lambda *asked: 4 * true(*asked)):
        found = attack(part, "add-remove")
    assert not found.passed, str(found)
