"""`kvariates fit --stream`: files that are read in blocks."""

import json

import numpy as np
import pandas as pd
import pytest
from cli.test_fit import FILES, failure
from cli.test_fit import run as invoke

from kvariates import StreamingKMeans
from kvariates.sources import StandardizedBlocks, blocks, input_file, standardize


def run(*words):
    result = invoke(*words)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Three clusters with weights, in Parquet."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) * [1, 100] + 50 * rng.integers(3, size=(3000, 1)) * [1, 100]
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "w": rng.integers(1, 4, 3000), "name": "a"})
    path = tmp_path_factory.mktemp("stream") / "rows.parquet"
    frame.to_parquet(path, row_group_size=700)
    return path


def labels_of(out):
    return pd.read_parquet(out / "labels.parquet")["label"].to_numpy()


def test_writes_the_labels_and_the_cost_of_all_rows(table, tmp_path):
    out = tmp_path / "out"
    run(
        "fit",
        table,
        "-k",
        3,
        "--columns",
        "x,y",
        "--weights",
        "w",
        "--stream",
        "--seed",
        7,
        "-o",
        out,
    )
    assert sorted(p.name for p in out.iterdir()) == FILES
    rows = blocks(table, columns=["x", "y"], weights="w")
    model = StreamingKMeans(3, random_state=7).fit(rows)
    np.testing.assert_array_equal(labels_of(out), np.concatenate(list(model.predict(rows))))
    summary = json.loads((out / "summary.json").read_text())
    assert summary["inertia"] == pytest.approx(-model.score(rows))
    assert summary["data"]["streamed"]
    assert summary["data"]["rows"] == 3000
    assert sum(c["weight"] for c in summary["clusters"]) == pd.read_parquet(table)["w"].sum()


def test_standardizes_by_an_additional_pass(table, tmp_path):
    words = ["--columns", "x,y", "--standardize", "--stream", "--seed", 1, "-o", tmp_path / "out"]
    run("fit", table, "-k", 3, *words)
    centers = pd.read_csv(tmp_path / "out" / "centers.csv")[["x", "y"]].to_numpy()
    X = pd.read_parquet(table)[["x", "y"]].to_numpy()
    means = [X[labels_of(tmp_path / "out") == j].mean(axis=0) for j in range(3)]
    np.testing.assert_allclose(centers, means, rtol=0.02, atol=2)


@pytest.mark.parametrize("weights", [None, "w"])
def test_blocks_get_the_scale_of_the_table(table, weights):
    rows = blocks(table, columns=["x", "y"], weights=weights, block_bytes=5000)
    frame = pd.read_parquet(table)
    X, scale = standardize(frame[["x", "y"]].to_numpy(), None if weights is None else frame["w"])
    found = StandardizedBlocks(rows)
    np.testing.assert_allclose(found.scale.mean, scale.mean)
    np.testing.assert_allclose(found.scale.spread, scale.spread)
    np.testing.assert_allclose(np.concatenate([block.X for block in found]), X)


def test_a_large_file_is_streamed_and_a_line_says_so(table, tmp_path, monkeypatch):
    words = ["fit", table, "-k", 3, "--columns", "x,y", "--force", "-o", tmp_path / "out"]
    assert "stream" not in run(*words).stderr
    monkeypatch.setattr(input_file, "memory", lambda: 100_000)
    assert "is large compared with the memory, so it is read as a stream" in run(*words).stderr
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["data"]["streamed"]
    assert "stream" not in run(*words, "--no-stream").stderr


def test_a_folder_is_streamed(table, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for part in "ab":
        (folder / f"{part}.parquet").write_bytes(table.read_bytes())
    done = run("fit", folder, "-k", 3, "-o", tmp_path / "out")
    assert "rows is a folder, so it is read as a stream" in done.stderr
    assert "left out, not numeric: name" in done.stderr
    assert len(labels_of(tmp_path / "out")) == 6000


@pytest.mark.parametrize("option", [("--metric", "cosine"), ("--algorithm", "hartigan")])
def test_options_that_need_all_rows(table, tmp_path, option):
    line = failure("fit", table, "-k", 3, "--stream", *option, "-o", tmp_path / "out")
    assert line == f"{option[0]} {option[1]} does not work on a stream; use --no-stream"
    assert not (tmp_path / "out").exists()


def test_a_numpy_file_has_names(tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(500, 3)))
    run("fit", tmp_path / "X.npy", "-k", 2, "--stream", "-o", tmp_path / "out")
    assert list(pd.read_csv(tmp_path / "out" / "centers.csv")) == [
        "label",
        "rows",
        "x0",
        "x1",
        "x2",
    ]
