"""The comparison of two versions, on made-up packages that sleep instead of computing."""

import json
import warnings

import pytest
from benchmarks import side_by_side
from benchmarks.processes import Run
from benchmarks.side_by_side import Compared, Round
from benchmarks.side_by_side_cells import SUITES, cells

PACKAGE = """
import time
class KMeans:
    n_iter_, cluster_centers_ = 1, None
    def __init__(self, k, *, max_iter, **options):
        self.seconds = {{20: 0.05}}[max_iter]
    def fit(self, X):
        time.sleep(self.seconds)
def kmeans_plusplus(X, k, *, n_local_trials, random_state):
    time.sleep({greedy} if n_local_trials is None else 0.05)
    return X[:k], None
"""
DATA = "uniform 10kx16 k=32 f32"


def version(folder, greedy):
    package = folder / "src" / "kvariates"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(PACKAGE.format(greedy=greedy))
    return str(folder)


def test_a_slower_cell_is_low_an_equal_one_is_not_and_one_that_fails_is_named(tmp_path, capsys):
    versions = version(tmp_path / "old", greedy=0.05), version(tmp_path / "new", greedy=0.1)
    options = ["--quick", "--rounds=1", "--repeats=2", f"--save={tmp_path}", f"--only={DATA}"]
    assert side_by_side.main([*versions, *options]) == 1
    (file,) = tmp_path.glob("*.json")
    ratios = json.loads(file.read_text())["ratios"]
    assert list(ratios) == [f"{section}: {DATA}" for section in ("plain", "greedy", "lloyd")]
    assert 0.8 < ratios[f"plain: {DATA}"][0] < 1.25
    assert ratios[f"greedy: {DATA}"][0] < 0.7
    assert f"failed: converge: {DATA}: KeyError" in capsys.readouterr().out


def test_disturbed_rounds_count_only_where_every_round_is():
    calm = Round([Run(2.0, 2.0, 0.0)] * 5, [Run(1.0, 1.0, 0.0)] * 5)
    busy = Round([Run(1.0, 2.0, 0.5)] * 5, [Run(4.0, 1.0, 0.5)] * 5)
    wide = Round([Run(wall, 1.0, 0.0) for wall in (1.0, 1.0, 1.3, 1.3, 1.3)], calm.new)
    assert [one.disturbed for one in (calm, busy, wide)] == [False, True, True]
    assert Compared("x", [busy, calm, wide]).ratio() == 2.0
    assert Compared("x", [busy]).ratio() == 0.25
    assert Compared("x", [busy]).ratio("cpu") == 2.0


@pytest.mark.parametrize("suite", SUITES)
def test_every_task_runs_with_the_public_names(suite):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for cell in cells(suite, quick=True):
            if suite != "main" or DATA in cell.name:
                cell.prepare(cell.make())()
