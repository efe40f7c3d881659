"""The private benchmark on made-up figures: targets, marks and times."""

import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # benchmarks/ stands beside tests/

from benchmarks import private, private_timing
from benchmarks.private_data import Problem
from benchmarks.private_report import EPSILONS, Cell, Large, utility_table, verdicts

from kvariates import PrivateKMeans
from kvariates.private_methods.methods import PRIVATE_METHODS

PROBLEM = Problem("made up", 3, (1.40, 1.20, 1.10), 1.10)


def cells(means, method="auto", delta=1e-6):
    return [
        Cell("auto", "made up", 3, method, epsilon, delta, [mean, mean], [1.0, 1.0], [0.1, 0.2])
        for epsilon, mean in zip(EPSILONS, means, strict=True)
    ]


def test_targets_are_compared_exactly_and_peers_to_two_decimals():
    just = cells([1.404, 1.10, 1.06])
    assert "1 of 1 targets met; worse than the best peer in 0 of 3 figures" in _said(just)
    over = cells([1.406, 1.1001, 1.2])
    assert "0 of 1 targets met; worse than the best peer in 2 of 3 figures" in _said(over)
    line = utility_table(over, [PROBLEM]).splitlines()[-1]
    assert "1.406!" in line
    assert "1.100 " in line
    assert "1.200!" in line
    assert "NOT MET" in line


def test_a_figure_without_runs_is_not_met_and_shows_its_reason():
    none = [Cell("auto", "made up", 3, "auto", e, 1e-6, [], [], [], "over 9 s") for e in EPSILONS]
    assert "0 of 1 targets met; worse than the best peer in 3 of 3 figures" in _said(none)
    assert utility_table(none, [PROBLEM]).count("over 9 s") == 3


def _said(found):
    return "\n".join(verdicts(found, [PROBLEM]))


def test_pure_figures_and_other_methods_are_not_judged():
    found = cells([9, 9, 9], delta=0.0) + cells([9, 9, 9], method="lloyd")
    assert "targets" not in _said(found)
    assert "9.000!" not in utility_table(cells([9, 9, 9], delta=0.0), [PROBLEM])


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

    with pytest.raises(TimeoutError, match=r"over 0\.1 s"):
        private_timing.timed(
            PrivateKMeans(2, epsilon=1.0, radius=1.0, method=Slow()), np.zeros((9, 2)), 0.1
        )
    chosen = private.Chosen([], [], [0.0], 2, 0.1, tmp_path)
    of = ("methods", Problem("made up", 2), Slow(), 0.0)
    found = private.figures(chosen, of, np.zeros((9, 2)), 1.0)
    assert [cell.reason for cell in found] == ["over 0.1 s"] * 3
    assert Slow.runs == 2


def test_timing_noise_restores_the_functions():
    from kvariates.privacy import mechanisms, mixture

    before = mechanisms.release, mixture.NoisyRows.__call__
    with private_timing.noise_time() as noise:
        PrivateKMeans(2, epsilon=1.0, radius=1.0, method="grid").fit(np.zeros((9, 2)))
    assert noise.seconds > 0
    assert (mechanisms.release, mixture.NoisyRows.__call__) == before


def test_large_fits_have_limits_of_time_memory_and_noise():
    assert Large("x", 0.0, seconds=5.0, in_noise=1.0, peak_gb=1.5, allowed=10.0).met
    assert not Large("x", 0.0, seconds=11.0, in_noise=1.0, peak_gb=1.5, allowed=10.0).met
    assert not Large("x", 0.0, seconds=5.0, in_noise=2.0, peak_gb=1.5, allowed=10.0).met
    assert not Large("x", 0.0, seconds=5.0, in_noise=1.0, peak_gb=2.5, allowed=10.0).met
