"""What attackers look at finds what it is for; and pairs differ in one row.

Seeds are fixed, so what passes keeps passing.
"""

import random
from collections import Counter

import numpy as np
import pytest
from privacy.attacks import PAIR, run

from kvariates.privacy.auditing import repeatable
from kvariates.privacy.neighbours import KINDS, neighbours
from kvariates.privacy.testers import TESTERS, gather

# --- testers ---------------------------------------------------------------------------------


def shifted(data, runs, rng):
    return data[0] * 4 + rng.laplace(size=(runs, 2))


def wide(data, runs, rng):
    return (1 + 9 * data[0]) * rng.laplace(size=(runs, 3))


def shared(data, runs, rng):
    return np.array([data[0], 0.0]) + rng.laplace(size=(runs, 1))


def little_everywhere(data, runs, rng):
    return data[0] * 0.5 + rng.laplace(size=(runs, 40))


def choice(data, runs, rng):
    return ["ab"[int(i)] for i in rng.random(runs) < 0.1 + 0.8 * data[0]]


def cell_without_noise(data, runs, rng):
    return np.column_stack([rng.laplace(size=runs), data[0] + np.zeros(runs)])


def row_in_the_output(data, runs, rng):
    out = rng.random((runs, 5))
    out[np.arange(runs), rng.integers(5, size=runs)] = data[0]
    return out


def floats(data, runs, rng):
    return data[0] + rng.laplace(size=runs)


FINDS = {
    "coordinates": shifted,
    "summaries": wide,
    "linear": shared,
    "odds": little_everywhere,
    "labels": choice,
    "atoms": cell_without_noise,
    "contains": row_in_the_output,
    "bits": floats,
}


@pytest.mark.parametrize("name", TESTERS)
def test_a_tester_finds_what_it_is_for(name):
    rng = np.random.default_rng(0)
    mechanism = FINDS[name]
    assert not run(lambda data, runs: mechanism(data, runs, rng), test=name).passed
    assert run(lambda data, runs: mechanism(PAIR[0], runs, rng), test=[name]).lower_bound == 0.0


def test_the_last_bit():
    numbers = np.array([[1.0, 0.75, 0.0, -6.0, 2.0**-1074, np.nan, np.inf, 5e300]])
    a = gather(list(numbers), [])[0]
    found = [bit.of(a)[0] for bit in TESTERS["bits"](a, a)]
    assert found[:6] == [0, -2, np.inf, 1, -1074, np.inf]
    assert found[-1] == -1074


def test_many_columns():
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
def test_noise_that_can_be_seeded_is_told(noise, repeats):
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert repeatable(lambda data: noise(), PAIR[0]) is repeats
    assert random.getstate() == python
    after = np.random.get_state()  # noqa: NPY002
    assert all(np.array_equal(a, b) for a, b in zip(after, numpy, strict=True))


# --- neighbours ------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 3), (11, 16)])
def test_neighbours_differ_in_one_row_of_the_domain(kind, adjacency, norm, n, d):
    pair = neighbours(kind, n, d, adjacency, radius=2.5, norm=norm)
    mine, other = (Counter(map(tuple, rows.tolist())) for rows in pair)
    assert sum((mine - other).values()) == 1
    assert sum((other - mine).values()) == (adjacency == "replace-one")
    assert pair.first.shape == (1 if kind == "empty" else n, d)
    order = {"l1": 1, "l2": 2, "linf": np.inf}[norm]
    for rows in pair:
        assert (np.linalg.norm(rows, order, axis=1) <= 2.5 * (1 + 1e-15)).all()


def test_the_corner_is_farthest():
    (first, second), d = neighbours("corner", 5, 9, norm="l2"), 9
    assert abs(first.sum(axis=0) - second.sum(axis=0)).sum() == pytest.approx(np.sqrt(d))
