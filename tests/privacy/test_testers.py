"""Every tester finds the leak it is for, and neighbours differ in one row. Seeds are fixed."""

import itertools
import random
from collections import Counter

import numpy as np
import pytest
from api import TESTERS, gather
from privacy.exact_noise import both_adjacencies, repeatable
from privacy.neighbours import KINDS, neighbours
from privacy.numpy_mechanisms import PAIR, run

# --- testers ---------------------------------------------------------------------------------


def row_in_the_output(x, runs, rng):
    out = rng.random((runs, 5))
    out[np.arange(runs), rng.integers(5, size=runs)] = x
    return out


LEAKS = {
    "coordinates": lambda x, runs, rng: 4 * x + rng.laplace(size=(runs, 2)),
    "summaries": lambda x, runs, rng: (1 + 9 * x) * rng.laplace(size=(runs, 3)),
    "linear": lambda x, runs, rng: np.array([x, 0.0]) + rng.laplace(size=(runs, 1)),  # shared noise
    "odds": lambda x, runs, rng: 0.5 * x + rng.laplace(size=(runs, 40)),
    "labels": lambda x, runs, rng: ["ab"[int(i)] for i in rng.random(runs) < 0.1 + 0.8 * x],
    "atoms": lambda x, runs, rng: np.column_stack([rng.laplace(size=runs), np.full(runs, x)]),
    "contains": row_in_the_output,
    "bits": lambda x, runs, rng: x + rng.laplace(size=runs),
}


@pytest.mark.parametrize("name", TESTERS)
def test_a_tester_finds_the_leak_it_is_for(name):
    rng = np.random.default_rng(0)
    mechanism = LEAKS[name]
    assert not run(lambda data, runs: mechanism(data[0], runs, rng), test=name).passed
    assert run(lambda data, runs: mechanism(1.0, runs, rng), test=[name]).lower_bound == 0.0


def test_the_last_bit():
    numbers = np.array([[1.0, 0.75, 0.0, -6.0, 2.0**-1074, np.nan, np.inf, 5e300]])
    a = gather(list(numbers), [])[0]
    found = [bit.of(a)[0] for bit in TESTERS["bits"](a, a)]
    assert found[:6] == [0, -2, np.inf, 1, -1074, np.inf]
    assert found[-1] == -1074


def test_numbers_are_aligned_by_their_place():
    """Outputs of different widths: the same key, and the same place below it, is one column."""
    outputs = [
        {"cells": [1.0, 2.0], "end": 7},
        {"cells": [3.0], "end": 8, "more": np.array([[9.0, 10.0]])},
        "an error",
        {"end": [11.0]},
    ]
    first, second = gather(outputs[:2], outputs[2:])
    nan = np.nan
    np.testing.assert_array_equal(first.numbers, [[1, 2, 7, nan, nan], [3, nan, 8, 9, 10]])
    np.testing.assert_array_equal(second.numbers, [[nan] * 5, [nan, nan, 11, nan, nan]])


def test_a_leak_behind_a_part_of_random_width_is_found():
    rng = np.random.default_rng(0)

    def outputs(data, runs):
        return [
            {"a": rng.laplace(size=rng.integers(1, 60)), "b": 6 * data[0] + rng.laplace()}
            for _ in range(runs)
        ]

    assert not run(outputs, test="coordinates", runs=2000).passed


def test_one_column_of_many_is_found():
    rng = np.random.default_rng(0)

    def one_of_many(data, runs):
        out = rng.laplace(size=(runs, 300))
        out[:, 217] += 4 * data[0]
        return out

    found = run(one_of_many, runs=2000)
    assert not found.passed


# --- noise that repeats ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("noise", "repeats"),
    [
        (lambda: np.random.default_rng(0).laplace(), True),
        (np.random.laplace, True),
        (lambda: random.choice("ab"), True),
        (lambda: np.random.default_rng().laplace(), False),
        (lambda: random.SystemRandom().choice("ab"), False),
    ],
)
def test_repeatable_noise_is_recognised(noise, repeats):
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert repeatable(lambda data: noise(), PAIR[0]) is repeats
    assert random.getstate() == python
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(after, numpy, strict=True))


# --- neighbours ------------------------------------------------------------------------------


@both_adjacencies
@pytest.mark.parametrize("kind", KINDS)
def test_neighbours_differ_in_one_row_of_the_domain(kind, adjacency):
    orders = {"l1": 1, "l2": 2, "linf": np.inf}
    for (norm, order), (n, d) in itertools.product(orders.items(), [(1, 1), (2, 3), (11, 16)]):
        pair = neighbours(kind, n, d, adjacency, norm=norm)
        first, second = (Counter(map(tuple, rows.tolist())) for rows in pair)
        assert sum((first - second).values()) == 1
        assert sum((second - first).values()) == (adjacency == "replace-one")
        assert pair.first.shape == (1 if kind == "empty" else n, d)
        for rows in pair:
            assert (np.linalg.norm(rows, order, axis=1) <= 1 + 1e-15).all()


def test_the_corner_has_the_largest_l1_norm():
    (first, second), d = neighbours("corner", 5, 9, norm="l2"), 9
    assert abs(first.sum(axis=0) - second.sum(axis=0)).sum() == pytest.approx(np.sqrt(d))
