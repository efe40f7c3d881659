"""The quality experiment on small data: the centroid index, the runs and the tables."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of experiments/

from experiments import quality
from experiments.quality import Cell, Outcome, Problem, centroid_index, run_problem, text

CORNERS = np.array([[0.0, 0], [0, 9], [9, 0], [9, 9]])


def planted(n=120):
    rng = np.random.default_rng(0)
    return Problem("corners", CORNERS[np.arange(n) % 4] + rng.normal(size=(n, 2)), 4, CORNERS, 3)


@pytest.mark.parametrize(
    ("found", "missing"),
    [
        (CORNERS, 0),
        (CORNERS[::-1] + 0.5, 0),
        (CORNERS[[0, 0, 1, 2]] + np.array([[0, 0], [1, 1], [0, 0], [0, 0]]), 1),
        (np.zeros((4, 2)) + 4, 3),
        (CORNERS[:3], 1),
        (np.vstack([CORNERS, [[9.0, 8]]]), 1),
    ],
)
def test_the_centroid_index_counts_centres_without_a_counterpart(found, missing):
    assert centroid_index(found, CORNERS) == missing
    assert centroid_index(CORNERS, found) == missing


def test_every_pair_runs_on_a_set():
    outcome = run_problem(planted(), ("random", "k-means++"), ("lloyd", "elkan"))
    assert [cell.pair for cell in outcome.cells] == [
        ("random", "lloyd"), ("random", "elkan"), ("k-means++", "lloyd"), ("k-means++", "elkan"),
    ]  # fmt: skip
    assert all(len(cell.costs) == len(cell.missed) == 3 for cell in outcome.cells)
    assert outcome.cells[2].missed == (0, 0, 0)
    assert outcome.best == pytest.approx(outcome.planted_cost)
    assert outcome.ratio(2 * outcome.best) == 2
    assert outcome.cells[0].costs == outcome.cells[1].costs


OUTCOMES = [
    Outcome("one", (10, 2), 3, 2.0, [
        Cell("a", "x", (2.0, 2.0, 3.0), (0, 0, 0), (0.1, 0.2, 0.3)),
        Cell("b", "x", (3.0, 2.5, 4.0), (1, 0, 2), (0.1, 0.1, 0.1)),
    ]),
    Outcome("two", (10, 2), 3, 5.0, [
        Cell("a", "x", (4.0, 4.0, 4.0), (1, 0, 1), (0.1, 0.1, 0.1)),
        Cell("b", "x", (8.0, 8.0, 8.0), (1, 1, 1), (0.1, 0.1, 0.1)),
    ]),
    Outcome("three", (10, 2), 3, None, [
        Cell("a", "x", (1.0, 1.0, 1.0), (), (0.1, 0.1, 0.1)),
        Cell("b", "x", (0.5, 0.5, 0.5), (), (0.1, 0.1, 0.1)),
    ]),
]  # fmt: skip


def words(table, start):
    """Return the words of the line that starts so."""
    return next(line.split() for line in table.splitlines() if line.startswith(start))


def test_the_tables_show_medians_means_and_finders():
    table = text(OUTCOMES, ["four (no file)"])
    first, second, third, ranking, finders, left_out = table.split("\n\n")
    assert words(first, "a ") == ["a", "+0.00%", "0", "0.200"]
    assert words(first, "b ") == ["b", "+50.00%", "1", "0.100"]
    assert words(second, "a ") == ["a", "+0.00%", "1", "0.100"]
    assert words(third, "a ") == ["a", "+100.00%", "-", "0.100"]
    # Over seeds, then sets: (1.5^(1/3) 1 2)^(1/3) for a, ((1.5 1.25 2)^(1/3) 2 1)^(1/3) for b.
    assert [line.split()[3:6] for line in ranking.splitlines()[2:]] == [
        [f"{100 * (1.5 ** (1 / 9) * 2 ** (1 / 3) - 1):+.2f}%", "+100.00%", "4/6"],
        [f"{100 * (3.75 ** (1 / 9) * 2 ** (1 / 3) - 1):+.2f}%", "+100.00%", "1/6"],
    ]
    assert [line.split()[0] for line in ranking.splitlines()[2:]] == ["a", "b"]
    assert finders.splitlines()[1:] == ["one  a", "two  no pair in every run; in some by a"]
    assert left_out == "Left out: four (no file)"


def test_a_seeding_is_listed_with_the_refinements_that_find_all():
    cells = [
        Cell("a", "x", (1.0, 1.0), (0, 0), (0.1, 0.1)),
        Cell("a", "y", (1.0, 1.0), (0, 1), (0.1, 0.1)),
        Cell("b", "x", (1.0, 1.0), (0, 0), (0.1, 0.1)),
        Cell("b", "y", (1.0, 1.0), (0, 0), (0.1, 0.1)),
    ]
    table = text([Outcome("one", (10, 2), 3, 1.0, cells)], [])
    assert table.splitlines()[-1] == "one  a + x, b"


def test_sets_without_data_are_left_out(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KVARIATES_DATA", str(tmp_path / "nowhere"))
    monkeypatch.setattr(sys, "argv", ["quality", "--quick", "--save", str(tmp_path)])
    quality.main()
    said = capsys.readouterr().out
    for name in quality.QUICK:
        assert f"Left out: {name} (no sipu/{name}.npz" in said
    (kept,) = tmp_path.glob("quality-*.json")
    assert json.loads(kept.read_text())["sets"] == []


def test_a_set_is_read_run_and_saved(tmp_path, monkeypatch, capsys):
    problem = planted()
    (tmp_path / "sipu").mkdir()
    np.savez(tmp_path / "sipu/s1.npz", X=problem.X.astype(np.int32), centers=CORNERS)
    monkeypatch.setenv("KVARIATES_DATA", str(tmp_path))
    monkeypatch.setattr(quality, "COMPARED_SEEDINGS", ("k-means++",))
    monkeypatch.setattr(quality, "COMPARED_REFINEMENTS", ("auto",))
    monkeypatch.setattr(sys, "argv", ["quality", "--sets", "s1", "--save", str(tmp_path)])
    quality.main()
    assert "s1: 120 x 2, k = 4, 5 seeds" in capsys.readouterr().out
    (kept,) = tmp_path.glob("quality-*.json")
    (outcome,) = json.loads(kept.read_text())["sets"]
    assert outcome["cells"][0]["missed"] == [0] * 5


def test_an_unknown_set_is_refused(capsys):
    with pytest.raises(SystemExit):
        quality.options(["--sets", "s1,t1"])
    assert "no set named t1; use s1" in capsys.readouterr().err
