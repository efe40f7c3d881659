"""The rows that vertical k-means starts from follow the law of k-means++."""

import numpy as np
import pytest
from api import InProcessParties, MaskedPotential, PointIndex, VerticalSession, sample
from peers.party_transports import parties_of
from sampling import exact
from sampling.chi_square import ALPHA, follows
from sampling.sets import groups

ROWS = np.array([[0.0, 0, 1], [1, 0, 1], [0, 2.5, 3], [6, 5, 1], [7, 3.5, 2], [7, 3.5, 2]])


def draws(X, k, trials=1, runs=1500, cuts=(1,)):
    session = VerticalSession(InProcessParties(parties_of(X, cuts)))
    rng = np.random.default_rng(3)
    return [
        tuple(sample(MaskedPotential(session, k), PointIndex(), k, rng, trials=trials).indices)
        for _ in range(runs)
    ]


@pytest.mark.parametrize("trials", [1, 3], ids=["plain", "greedy"])
@pytest.mark.parametrize("cuts", [(1,), (1, 2)], ids=["2", "3 parties"])
def test_sequences_follow_their_law(trials, cuts):
    law = exact.sequence_law(exact.greedy_step(trials), ROWS, 3)
    assert follows(draws(ROWS, 3, trials, cuts=cuts), law) > ALPHA


def test_draws_on_a_larger_set_follow_their_law():
    X, _ = groups([60, 20, 5], spread=0.5)
    runs = draws(X, 5, runs=400)
    assert exact.judge(exact.plain_step, X, runs) > ALPHA


def test_rows_are_drawn_uniformly_once_all_lie_on_centers():
    X = np.array([[0.0, 1], [0, 1], [4, 2], [4, 2], [4, 2]])
    later = [i for run in draws(X, 4) for i in run[2:]]
    assert follows(later, dict.fromkeys(range(5), 0.2)) > ALPHA


def test_the_total_is_the_cost_of_the_pooled_rows():
    session = VerticalSession(InProcessParties(parties_of(ROWS, (2,))))
    potential = MaskedPotential(session, 3)
    assert potential.total() == 6
    potential.add(np.array([1, 4]))
    assert potential.total() == exact.squared(ROWS)[:, [1, 4]].min(axis=1).sum()
    assert potential.centers.tolist() == [1, 4]
