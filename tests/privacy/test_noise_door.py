"""Noise cannot be seeded, but by a test that says so; and what noise is not asked for."""

import math
import os
import random
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from privacy.exact import DRAWS, p_value
from sampling.chi_square import ALPHA

from kvariates.privacy import mechanisms
from kvariates.privacy.mechanisms import Lattice

COMMON = {"label": "x"}


def draw():
    return mechanisms.counts(np.zeros(64, int), epsilon=0.01, adjacency="add-remove", **COMMON)[
        0
    ].tolist()


def test_noise_cannot_be_seeded():
    runs = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        runs.append((draw(), mechanisms.empty_cells(10**6, 20.0, 3.0).cells.tolist()))
    assert runs[0][0] != runs[1][0]
    assert runs[0][1] != runs[1][1]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_draws_noise_of_its_own():
    """So many numbers that threads draw them, of which a fork has none."""

    def many():
        return mechanisms.counts(np.zeros(2000, int), rho=0.01, adjacency="add-remove", **COMMON)[0]

    many()
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os.write(start, many().tobytes())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(start)
    own = many()
    with os.fdopen(end, "rb") as pipe:
        other = np.frombuffer(pipe.read(), dtype=np.int64)
    assert os.waitpid(child, 0)[1] == 0
    assert len(other) == 2000
    assert np.mean(own == other) < 0.5


AT_THE_END = """
import threading, time
import numpy as np
from kvariates.privacy import mechanisms

def late():
    threading.main_thread().join()
    time.sleep(0.2)
    values, _ = mechanisms.counts(np.zeros(2000, int), rho=1e-4, adjacency="add-remove", label="x")
    print("nonzero:", np.count_nonzero(values) > 1900)

threading.Thread(target=late).start()
"""


def test_a_thread_that_outlives_the_main_one_draws_by_itself():
    """No thread starts any more then."""
    command = [sys.executable, "-c", AT_THE_END]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout.strip() == "nonzero: True", done.stderr


def test_repeatable_noise_is_for_tests_only(monkeypatch):
    door = mechanisms._REPEATABLE_NOISE_FOR_TESTS_ONLY

    def everything():
        with door(3, i_know_that_this_protects_nobody=True):
            picks = [
                mechanisms.choose(
                    [3, 0, 2, 2, -1],
                    sensitivity=1.0,
                    adjacency="add-remove",
                    monotone=True,
                    label="x",
                    **cost,
                )[0]
                for cost in ({"epsilon": 1.0}, {"rho": 1.0})
                for _ in range(20)
            ]
            passing = mechanisms.empty_cells(10**5, 9.0, 3.0, law="gaussian")
            gauss = mechanisms.counts([0] * 9, rho=1e-4, adjacency="add-remove", label="x")[
                0
            ].tolist()
            return draw(), picks, passing.cells.tolist(), passing.counts.tolist(), gauss

    assert everything() == everything()
    assert draw() != draw()
    with pytest.raises(TypeError):
        door(3)
    with pytest.raises(RuntimeError, match="protects nobody"):
        door(3, i_know_that_this_protects_nobody=1).__enter__()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(RuntimeError, match="protects nobody"):
        door(3, i_know_that_this_protects_nobody=True).__enter__()


def test_repeatable_noise_stays_in_its_thread():
    found = []
    with mechanisms._REPEATABLE_NOISE_FOR_TESTS_ONLY(3, i_know_that_this_protects_nobody=True):
        for _ in range(2):
            thread = threading.Thread(target=lambda: found.append(draw()))
            thread.start()
            thread.join()
    assert found[0] != found[1]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_repeatable_noise_has_about_the_right_law(law):
    cost = {"epsilon": 0.1} if law == "laplace" else {"rho": 0.005}
    with mechanisms._REPEATABLE_NOISE_FOR_TESTS_ONLY(0, i_know_that_this_protects_nobody=True):
        noisy, _ = mechanisms.counts(np.zeros(DRAWS, int), adjacency="add-remove", **cost, **COMMON)
    assert p_value(noisy, law, 10.0) > ALPHA


# At the door


@pytest.mark.parametrize(
    "cost",
    [
        {},
        {"epsilon": 1.0, "rho": 1.0},
        {"epsilon": 0.0},
        {"rho": -1.0},
        {"epsilon": math.nan},
        {"rho": math.inf},
    ],
)
def test_costs_that_are_none(cost):
    calls = [
        lambda c: mechanisms.counts([1], **c),
        lambda c: mechanisms.scalar(1, **c),
        lambda c: mechanisms.cells_above([1], 3, 1.0, **c),
        lambda c: mechanisms.sums([0.0], grid=Lattice(1.0, 1), **c),
        lambda c: mechanisms.choose([1.0], sensitivity=1.0, monotone=True, **c),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"either|must be"):
            call({"adjacency": "add-remove", "label": "x", **cost})


def test_values_that_are_none():
    ok = {"epsilon": 1.0, "adjacency": "add-remove", "label": "x"}
    with pytest.raises(TypeError, match="integers"):
        mechanisms.counts([1.5], **ok)
    with pytest.raises(ValueError, match="columns"):
        mechanisms.sums([0.0], grid=Lattice(1.0, 2), **ok)
    with pytest.raises(ValueError, match="no sums"):
        mechanisms.sums([0.1], grid=Lattice(1.0, 1), **ok)
    with pytest.raises(ValueError, match="laplace"):
        mechanisms.counts([1], **{**ok, "epsilon": 1e-320})
    for scores in ([], [math.nan], [[1.0]]):
        with pytest.raises(ValueError, match="scores"):
            mechanisms.choose(scores, sensitivity=1.0, monotone=True, **ok)
    for other in ({"sensitivity": 0.0}, {"sensitivity": 1.0, "error": -1.0}):
        with pytest.raises(ValueError, match="sensitivity"):
            mechanisms.choose([1.0], monotone=True, **other, **ok)
    for bad in ((-1, 1.0, 1.0), (1, math.inf, 1.0), (1, 1.0, 0.0), (1, 1.0, math.inf)):
        with pytest.raises(ValueError, match="how_many"):
            mechanisms.empty_cells(*bad)
    assert mechanisms.counts([], **ok)[0].tolist() == []
    assert mechanisms.counts(np.zeros((2, 3), int), **ok)[0].shape == (2, 3)
