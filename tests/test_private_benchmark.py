"""The private benchmark on made-up figures: targets, marks and times."""

import time

import numpy as np
import pytest
from api import PRIVATE_METHODS
from api import mechanisms_module as mechanisms
from benchmarks import private, private_timing
from benchmarks.private_data import Problem
from benchmarks.private_report import EPSILONS, Cell, Large, utility_table, verdicts

from kvariates import PrivateKMeans

PROBLEM = Problem("made up", 3, (1.40, 1.20, 1.10), 1.10)


def cells(means, method="auto", delta=1e-6):
    """A mean of None: there are no runs."""
    runs = (
        [[mean] * 2, [1.0] * 2, [0.1, 0.2]] if mean else [[], [], [], "over 9 s"] for mean in means
    )
    of = ("auto", "made up", 3, method)
    return [Cell(*of, epsilon, delta, *run) for epsilon, run in zip(EPSILONS, runs, strict=True)]


def test_targets_are_compared_exactly_and_peers_to_two_decimals():
    over, none = cells([1.406, 1.1001, 1.2]), cells([None] * 3)
    for found, met, worse in ((cells([1.404, 1.10, 1.06]), 1, 0), (over, 0, 2), (none, 0, 3)):
        words = f"{met} of 1 targets met; worse than the best peer in {worse} of 3 figures"
        assert words in "\n".join(verdicts(found, [PROBLEM]))
    line = utility_table(over, [PROBLEM]).splitlines()[-1]
    assert all(word in line for word in ("1.406!", "1.100 ", "1.200!", "NOT MET"))
    assert utility_table(none, [PROBLEM]).count("over 9 s") == 3


def test_pure_figures_and_other_methods_are_not_judged():
    pure = cells([9, 9, 9], delta=0.0)
    assert "targets" not in "\n".join(verdicts(pure + cells([9, 9, 9], "lloyd"), [PROBLEM]))
    assert "9.000!" not in utility_table(pure, [PROBLEM])


def test_every_method_has_figures(tmp_path):
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (200, 2))
    chosen = private.Chosen([], list(PRIVATE_METHODS), [1e-6], 1, 60.0, tmp_path)
    for name in PRIVATE_METHODS:
        found = private.figures(chosen, ("methods", Problem("made up", 2), name, 1e-6), X, 10.0)
        assert [len(cell.ratios) for cell in found] == [1, 1, 1], name
        assert all(0 < cell.in_noise[0] < cell.seconds[0] for cell in found), name


def test_a_fit_over_the_limit_is_stopped_and_its_method_not_run_again(tmp_path):
    class Slow:
        runs = 0

        def __call__(self, task):
            Slow.runs += 1
            while True:
                time.sleep(0.01)

    model, rows = PrivateKMeans(2, epsilon=1.0, radius=1.0, method=Slow()), np.zeros((9, 2))
    with pytest.raises(TimeoutError, match=r"over 0\.1 s"):
        private_timing.timed(model, rows, 0.1)
    chosen = private.Chosen([], [], [0.0], 2, 0.1, tmp_path)
    found = private.figures(chosen, ("methods", Problem("made up", 2), Slow(), 0.0), rows, 1.0)
    assert [cell.reason for cell in found] == ["over 0.1 s"] * 3
    assert Slow.runs == 2


def test_timing_noise_restores_the_functions():
    before = mechanisms.release, mechanisms.NoisyRows.__call__
    with private_timing.noise_time() as noise:
        PrivateKMeans(2, epsilon=1.0, radius=1.0, method="grid").fit(np.zeros((9, 2)))
    assert noise.seconds > 0
    assert (mechanisms.release, mechanisms.NoisyRows.__call__) == before


def test_large_fits_have_limits_of_time_memory_and_noise():
    within = {"seconds": 5.0, "in_noise": 1.0, "peak_gb": 1.5}
    assert Large("x", 0.0, **within, allowed=10.0).met
    for above in ({"seconds": 11.0}, {"in_noise": 2.0}, {"peak_gb": 2.5}):
        assert not Large("x", 0.0, **within | above, allowed=10.0).met
