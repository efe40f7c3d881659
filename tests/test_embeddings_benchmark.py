"""`python -m benchmarks.embeddings` on small data, and its verdicts on made-up figures."""

import dataclasses
import json

import numpy as np
import pytest
from benchmarks import embedding_data, embedding_tasks, embeddings
from benchmarks.embeddings import Figures, Measured
from benchmarks.processes import Run


def test_a_quick_run(tmp_path, monkeypatch):
    """Equal starts lead to equal costs; a library that is missing is left out, with the reason."""
    small = embedding_tasks.cells(quick=True)[0]
    cell = dataclasses.replace(small, libraries=("kvariates", "sklearn", "nobody"))
    monkeypatch.setattr(embeddings, "cells", lambda quick=False: [cell])
    embeddings.main(["--quick", "--threads=1", f"--save={tmp_path}"])
    (file,) = tmp_path.glob("embeddings-*.json")
    [kept] = json.loads(file.read_text())["cells"]
    assert kept["name"] == "lloyd-25: made 2kx384 k=50"
    costs = [kept["libraries"][name]["cost"] for name in ("kvariates", "sklearn")]
    assert costs[0] == pytest.approx(costs[1], rel=1e-3)
    assert "nobody" in kept["left_out"]


def measured(section, name, seconds, costs=None, extra=None):
    costs = costs or {}
    libraries = {
        who: Figures([Run(wall, wall, 0.0)], costs.get(who), extra) for who, wall in seconds.items()
    }
    return Measured(f"{section}: {name}", section, 1000, libraries)


def test_verdicts_follow_from_the_figures():
    steps = [
        measured("lloyd-25", "made k=1000", {"kvariates": 1, "sklearn": 4, "superkmeans": 1.1}),
        measured("lloyd-25", "made k=4000", {"kvariates": 1, "sklearn": 3.5, "superkmeans": 2}),
        measured("lloyd-25", "uniform k=1000", {"kvariates": 1, "sklearn": 1}),
    ]
    cheaper = {"kvariates": 10.0, "superkmeans": 9.0}
    fit = measured("fit", "made k=4000", {"kvariates": 1, "superkmeans": 5}, cheaper)
    told = {v.target: v for v in embeddings.verdicts([*steps, fit])}
    met = {target.split(" takes")[0]: verdict.met for target, verdict in told.items()}
    assert met["25 iterations: sklearn"] is True
    assert met["25 iterations: superkmeans"] is False
    assert met["25 iterations: faiss"] is None
    assert met["fit, k=4000: superkmeans"] is False
    memory = [measured("memory", "made", {"kvariates": 1}, extra=extra) for extra in (300, 450)]
    assert [embeddings.verdicts([one])[-1].met for one in memory] == [True, False]


def test_made_rows_have_length_one_and_the_spectrum():
    rows = embedding_data.Rows("made", 3_000, 256)
    X = rows.make()
    assert (X**2).sum(axis=1) == pytest.approx(1, abs=1e-5)
    variances = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    share = variances[:43].sum() / variances.sum()  # of the first sixth: 62 % of the real set
    assert 0.55 < share < 0.75
