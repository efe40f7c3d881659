"""A federated fit with noise says which of its centres may be only noise: result, file, report."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
from api import FlowerTransport, fit, server_options
from federated.fake_grid import BOX, grid_of, ledgers

from kvariates.federated import Private
from kvariates.report import write_report

K = 3
MISREAD = [np.full((300, 2), np.nan)] * 2  # each row is left out, without a message
START = [[-6.0, -6.0], [6.0, 6.0], [-6.0, 6.0]]
GROUPS = np.repeat(START, 20_000, axis=0)
CLUSTERS = [GROUPS[::2], GROUPS[1::2]]


def fitted(tmp_path, shards, noise, epsilon=1.0, steps=2):
    if noise == "central":
        private, options = "central", {"epsilon": epsilon, "init": START}
    else:
        private = Private(epsilon, K, steps, ledger=ledgers(tmp_path))
        options = {"init": "pdk-means++"}
    grid = grid_of(shards, bounds=BOX, private=private)
    checked = server_options(K, bounds=BOX, max_iter=steps, random_state=1, **options)
    return fit(FlowerTransport(grid, 5.0), checked)


def pages(tmp_path, result):
    result.save(tmp_path / "result.json")
    write_report(result, tmp_path / "report.html")
    page = json.loads((tmp_path / "result.json").read_text())
    return page, (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("noise", ["local", "central"])
def test_a_fit_of_misread_rows_says_that_its_centres_may_be_noise(tmp_path, noise):
    with warnings.catch_warnings(record=True) as told:  # perhaps of few rows, too
        warnings.simplefilter("always")
        result = fitted(tmp_path, MISREAD, noise)
    page, report = pages(tmp_path, result)
    (note,) = result.notes
    many = int(result.doubtful.sum())  # 3 in 98 of 100 fits, and 0 in less than one of 1e6
    assert note.startswith(f"{many} of 3 centres may be only noise: ")
    assert ("Perhaps the data were not read as you think" in note) == (many > 1)
    assert note in [str(one.message) for one in told]
    assert page["notes"] == [note]
    assert page["may_be_only_noise"] == result.doubtful.tolist()
    assert "Read this first" in report
    assert note in report
    words = report.count("not known: this centre may be only noise")
    assert words == result.doubtful.sum()


@pytest.mark.parametrize("noise", ["local", "central"])
def test_a_sound_fit_says_nothing(tmp_path, noise):
    """With local noise the first centres are noisy rows, so only the total is sure to be clear."""
    with warnings.catch_warnings():
        warnings.simplefilter("error" if noise == "central" else "ignore")
        result = fitted(tmp_path, CLUSTERS, noise, epsilon=20.0)
    page, report = pages(tmp_path, result)
    assert not result.doubtful.all()
    if noise == "central":
        assert not result.doubtful.any()
        assert result.notes == ()
        assert page["notes"] == []
        assert "Read this first" not in report


def test_without_counts_nothing_is_known(tmp_path):
    with pytest.warns(UserWarning, match="All centres may be only noise: no counts are released"):
        result = fitted(tmp_path, CLUSTERS, "local", steps=0)
    assert result.doubtful.all()
    assert "no counts are released" in pages(tmp_path, result)[1]
