"""The experiment on Table 1: Liberty's algorithm, the limit of varsigma, and the verdicts."""

import math

import numpy as np
import pytest
from experiments import liberty
from experiments import nock_table1_streams as table1
from experiments import stream_costs as costs
from laws.cases import rows
from sampling.chi_square import ALPHA, chi_square

X = rows(3000, 2, seed=9)


def one_by_one(data, k, start, facility, limit, rng):
    """Liberty's algorithm as it is written, from row number `start[1]` on."""
    centers, first = list(start[0]), start[1]
    opened, cost = 0, 0.0
    for i, u in enumerate(rng.random(len(data) - first), start=first):
        near = min((((data[i] - c) ** 2).sum() for c in centers), default=math.inf)
        if u < min(near / facility, 1):
            centers.append(data[i])
            opened += 1
            if opened >= limit(i + 1):
                facility, opened = 2 * facility, 0
        else:
            cost += near
    return np.array(centers), cost


def test_rows_in_chunks_give_what_single_rows_give():
    data = X[:2500]
    found = liberty.fully_online(data, 3, np.random.default_rng(0))
    apart = [((a - b) ** 2).sum() for i, a in enumerate(data[:4]) for b in data[:i]]
    assert found.lower_bound == pytest.approx(min(apart) / 2)
    centers, cost = one_by_one(
        data, 3, (data[:4], 4), min(apart) / 6,
        lambda n: 9 * (1 + math.log(n)), np.random.default_rng(0),
    )  # fmt: skip
    assert np.array_equal(found.centers, centers)
    assert found.cost == pytest.approx(cost)
    known = liberty.semi_online(data, 3, 50.0, np.random.default_rng(1))
    centers, cost = one_by_one(
        data, 3, ([], 0), 50 / (3 * math.log(2500)),
        lambda _: 9 * (1 + math.log(2500)), np.random.default_rng(1),
    )  # fmt: skip
    assert np.array_equal(known.centers, centers)
    assert known.cost == pytest.approx(cost)


def test_a_row_opens_a_centre_with_its_probability():
    """The first row always does; the second, at distance 1, with probability 1 / f."""
    data, rng = np.array([[0.0], [1.0]]), np.random.default_rng(3)
    facility = 2.5
    bound = facility * math.log(2)
    opened = [len(liberty.semi_online(data, 1, bound, rng).centers) for _ in range(2000)]
    assert set(opened) == {1, 2}
    assert chi_square(np.bincount(opened)[1:], [0.6, 0.4]) > ALPHA


def test_repeated_rows_are_no_first_centres():
    data = np.repeat(X[:9], 3, axis=0)
    run = liberty.fully_online(data, 4, np.random.default_rng(0))
    assert len(np.unique(run.centers, axis=0)) == len(run.centers) >= 5


def test_the_experiment_runs():
    stream = costs.KnownStream("small", X, 5, costs.lowest_cost(X, 5, runs=1))
    result = table1.measured(stream, seeds=2)
    assert min(result.online.costs) >= result.opt
    assert 0 <= result.online.varsigma <= 1
    said = table1.text([result], 2)
    assert said.count("holds") >= 4
    for row in ("(i)", "(ii)", "(a)", "(b)"):
        assert f"\n{row} " in said


def test_no_varsigma_if_a_batch_misses_a_cluster():
    two = np.repeat([0.0, 100.0], 50)[:, None] + rows(100, 1, seed=3)
    sorted_known = costs.KnownStream("sorted", two, 2, costs.lowest_cost(two, 2, runs=1))
    assert costs.varsigma_limit(sorted_known) == 0
    mixed = costs.KnownStream(
        "mixed", two.reshape(2, 50).T.reshape(-1, 1).copy(), 2, sorted_known.opt
    )
    assert 0 < costs.varsigma_limit(mixed) < 0.1
