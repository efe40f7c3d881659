"""Noise cannot be seeded except in tests, processes and threads draw their own, checks of input."""

import math
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from api import (
    Cost,
    Lattice,
    Scores,
    count_query,
    release,
    sample_passing,
    score_query,
    sum_query,
)
from api import noise_source_module as noise_source
from privacy.exact_noise import DRAWS, p_value
from privacy.repeatable_noise import repeatable_noise
from sampling.chi_square import ALPHA


def draw(size=64, cost=None):
    zeros = count_query(np.zeros(size, int), "add-remove", "x")
    return release(zeros, cost or Cost(epsilon=0.01)).value


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_draws_its_own_noise():
    """With so many numbers that threads draw them, which a forked process does not have."""
    many = 2000, Cost(rho=0.01)
    draw(*many)
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        try:
            os.write(start, draw(*many).tobytes())
            os._exit(0)
        finally:
            os._exit(1)
    os.close(start)
    own = draw(*many)
    with os.fdopen(end, "rb") as pipe:
        other = np.frombuffer(pipe.read(), dtype=np.int64)
    assert os.waitpid(child, 0)[1] == 0
    assert len(other) == 2000
    assert np.mean(own == other) < 0.5


AT_EXIT = """
import threading, time
import numpy as np
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import release
from kvariates.privacy.query import count_query

def late():
    threading.main_thread().join()
    time.sleep(0.2)
    query = count_query(np.zeros(2000, int), "add-remove", "x")
    print("nonzero:", np.count_nonzero(release(query, Cost(rho=1e-4)).value) > 1900)

threading.Thread(target=late).start()
"""


def test_noise_is_drawn_after_the_main_thread_has_ended():
    """No thread can be started then."""
    command = [sys.executable, "-c", AT_EXIT]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stdout.strip() == "nonzero: True", done.stderr


def test_repeatable_noise_repeats():
    scores = score_query([3, 0, 2, 2, -1], Scores(1.0, monotone=True), "add-remove", "x")

    def everything():
        with repeatable_noise(3):
            costs = [Cost(epsilon=1.0), Cost(rho=1.0)]
            picks = [release(scores, cost).value for cost in costs for _ in range(20)]
            passing = sample_passing(10**5, 9.0, 3.0, law="gaussian")
            values = [draw(), passing.cells, passing.counts, draw(9, Cost(rho=1e-4))]
            return picks, [value.tolist() for value in values]

    assert everything() == everything()
    assert draw().tolist() != draw().tolist()


@pytest.mark.parametrize(
    ("law", "cost"), [("laplace", Cost(epsilon=0.1)), ("gaussian", Cost(rho=0.005))]
)
def test_repeatable_noise_has_about_the_right_law(law, cost):
    with repeatable_noise(0):
        assert p_value(draw(DRAWS, cost), law, 10.0) > ALPHA


# --- input -----------------------------------------------------------------------------------


def test_bad_costs_raise():
    for costs in ({}, {"epsilon": 1.0, "rho": 1.0}):
        with pytest.raises(ValueError, match="either"):
            Cost(**costs)
    for costs in ({"epsilon": 0.0}, {"rho": -1.0}, {"epsilon": math.nan}, {"rho": math.inf}):
        with pytest.raises(ValueError, match="must be"):
            draw(1, Cost(**costs))


@pytest.mark.parametrize(
    ("found", "right"), [("0.14.1", False), ("0.14.2", True), ("1.0rc1", True)]
)
def test_an_opendp_with_wrong_gaussian_noise_is_refused(found, right, monkeypatch):
    monkeypatch.setattr(noise_source, "version", lambda _: found)
    check = noise_source.check_installed.__wrapped__
    if right:
        check()
    else:
        with pytest.raises(ImportError, match=r"needs opendp 0.14.2 or newer, and 0.14.1 is"):
            check()


def test_bad_values_raise():
    with pytest.raises(TypeError, match="integers"):
        count_query([1.5], "add-remove", "x")
    with pytest.raises(ValueError, match="columns"):
        sum_query([0.0], Lattice(1.0, 2), "add-remove", "x")
    with pytest.raises(ValueError, match="no sums"):
        sum_query([0.1], Lattice(1.0, 1), "add-remove", "x")
    with pytest.raises(ValueError, match="laplace"):
        draw(1, Cost(epsilon=1e-320))
    for scores in ([], [math.nan], [[1.0]]):
        with pytest.raises(ValueError, match="scores"):
            score_query(scores, Scores(1.0, monotone=True), "add-remove", "x")
    for sensitivity, error in ((0.0, 0.0), (1.0, -1.0)):
        with pytest.raises(ValueError, match="sensitivity"):
            Scores(sensitivity, monotone=True, error=error)
    for bad in ((-1, 1.0, 1.0), (1, math.inf, 1.0), (1, 1.0, 0.0), (1, 1.0, math.inf)):
        with pytest.raises(ValueError, match="how_many"):
            sample_passing(*bad)
    assert draw(0).tolist() == []
    assert draw((2, 3)).shape == (2, 3)
