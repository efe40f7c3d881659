"""The quality experiment on small data: the centroid index, the runs and the tables."""

import json
import sys

import numpy as np
import pytest
from experiments import certificates, quality
from experiments.quality import Cell, Outcome, centroid_index
from scipy import sparse

CORNERS = np.array([[0.0, 0], [0, 9], [9, 0], [9, 9]])
ROWS = CORNERS[np.arange(120) % 4] + np.random.default_rng(0).normal(size=(120, 2))


def test_the_centroid_index_counts_centres_without_a_counterpart():
    twice = CORNERS[[0, 0, 1, 2]] + np.array([[0, 0], [1, 1], [0, 0], [0, 0]])
    moved, more = CORNERS[::-1] + 0.5, np.vstack([CORNERS, [[9.0, 8]]])
    middle = np.full((4, 2), 4.0)
    for found, missing in ((moved, 0), (twice, 1), (CORNERS[:3], 1), (more, 1), (middle, 3)):
        assert centroid_index(found, CORNERS) == centroid_index(CORNERS, found) == missing


def test_every_pair_runs_on_a_set():
    problem = quality.Problem("corners", ROWS, 4, CORNERS, 3)
    outcome = quality.run_problem(problem, ("random", "k-means++"), ("lloyd", "elkan"))
    assert [" ".join(cell.pair) for cell in outcome.cells] == [
        "random lloyd", "random elkan", "k-means++ lloyd", "k-means++ elkan",
    ]  # fmt: skip
    assert all(len(cell.costs) == len(cell.missed) == 3 for cell in outcome.cells)
    assert outcome.cells[2].missed == (0, 0, 0)
    assert outcome.best == pytest.approx(outcome.planted_cost)
    assert outcome.ratio(2 * outcome.best) == 2
    assert outcome.cells[0].costs == outcome.cells[1].costs


def test_a_line_of_the_table_of_certificates():
    name, shape, k, words, *seconds = certificates.line(quality.Problem("corners", ROWS, 4))
    assert (name, shape, k) == ("corners", "120 x 2", "4")
    assert words.endswith(" % of optimal (certified)")
    assert all(float(figure) >= 0 for figure in seconds)


def outcome(name, planted_cost, *cells):
    made = [Cell(*pair, costs, missed, (0.1, 0.1, 0.3)) for pair, costs, missed in cells]
    return Outcome(name, (10, 2), 3, planted_cost, made)


OUTCOMES = [
    outcome("one", 2.0, ("ax", (2.0, 2.0, 3.0), (0, 0, 0)), ("bx", (3.0, 2.5, 4.0), (1, 0, 2))),
    outcome("two", 5.0, ("ax", (4.0, 4.0, 4.0), (1, 0, 1)), ("bx", (8.0, 8.0, 8.0), (1, 1, 1))),
    outcome("three", None, ("ax", (1.0, 1.0, 1.0), ()), ("bx", (0.5, 0.5, 0.5), ())),
]


def test_the_tables_show_medians_means_and_finders():
    *sets, ranking, finders, left_out = quality.text(OUTCOMES, ["four (no file)"]).split("\n\n")
    assert [[line.split() for line in table.splitlines()[-2:]] for table in sets] == [
        [["a", "+0.00%", "0", "0.100"], ["b", "+50.00%", "1", "0.100"]],
        [["a", "+0.00%", "1", "0.100"], ["b", "+100.00%", "1", "0.100"]],
        [["a", "+100.00%", "-", "0.100"], ["b", "+0.00%", "-", "0.100"]],
    ]
    # Over seeds, then sets: (1.5^(1/3) 1 2)^(1/3) for a, ((1.5 1.25 2)^(1/3) 2 1)^(1/3) for b.
    means = [f"{100 * (x ** (1 / 9) * 2 ** (1 / 3) - 1):+.2f}%" for x in (1.5, 3.75)]
    assert [line.split()[:6] for line in ranking.splitlines()[2:]] == [
        ["a", "+", "x", means[0], "+100.00%", "4/6"],
        ["b", "+", "x", means[1], "+100.00%", "1/6"],
    ]
    assert finders.splitlines()[1:] == ["one  a", "two  no pair in every run; in some by a"]
    assert left_out == "Left out: four (no file)"
    # A seeding is listed with the refinements that find all.
    costs, pairs = (1.0, 1.0), (("ax", (0, 0)), ("ay", (0, 1)), ("bx", (0, 0)), ("by", (0, 0)))
    four = outcome("one", 1.0, *((pair, costs, missed) for pair, missed in pairs))
    assert quality.text([four], []).splitlines()[-1] == "one  a + x, b"


def test_global_is_compared_with_kmeans_plusplus_by_mean_costs():
    pairs = (("global", "x"), (3.0, 5.0)), (("k-means++", "x"), (2.0, 8.0))
    other = (("global", "y"), (1.0, 1.0)), (("k-means++", "y"), (1.0, 0.0))
    both = outcome("one", None, *((pair, costs, ()) for pair, costs in (*pairs, *other)))
    table = quality.text([both], []).split("\n\n")[-1].splitlines()
    assert table[0] == "Mean cost of global over that of k-means++"
    assert [line.split() for line in table[1:]] == [["x", "y"], ["one", "-20.00%", "+100.00%"]]


def test_text_is_read_as_sparse_weights(tmp_path):
    counts = sparse.csr_array(np.random.default_rng(0).integers(0, 3, size=(40, 9)))
    sparse.save_npz(tmp_path / "counts.npz", counts)
    problem = quality.SETS["newsgroups"][1](tmp_path / "counts.npz")
    assert sparse.issparse(problem.X)
    assert problem.X.shape == (20, 9)
    np.testing.assert_allclose(problem.X.multiply(problem.X).sum(axis=1), 1, rtol=1e-6)


def test_a_set_is_read_run_and_saved_and_one_without_data_is_left_out(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "sipu").mkdir()
    np.savez(tmp_path / "sipu/s1.npz", X=ROWS.astype(np.int32), centers=CORNERS)
    monkeypatch.setenv("KVARIATES_DATA", str(tmp_path))
    monkeypatch.setattr(quality, "COMPARED_SEEDINGS", ("k-means++",))
    monkeypatch.setattr(quality, "COMPARED_REFINEMENTS", ("auto",))
    monkeypatch.setattr(sys, "argv", ["quality", "--quick", "--save", str(tmp_path)])
    quality.main()
    said = capsys.readouterr().out
    assert "s1: 120 x 2, k = 4, 5 seeds" in said
    for name in quality.QUICK[1:]:
        assert f"Left out: {name} (no sipu/{name}.npz" in said
    (kept,) = tmp_path.glob("quality-*.json")
    (outcome,) = json.loads(kept.read_text())["sets"]
    assert outcome["cells"][0]["missed"] == [0] * 5


def test_an_unknown_set_is_refused(capsys):
    with pytest.raises(SystemExit):
        quality.options(["--sets", "s1,t1"])
    assert "no set named t1; use s1" in capsys.readouterr().err
