"""`kvariates fit --stream`: files that are read in blocks."""

import gzip
import json
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest
from api import fit_means_module as fit_means
from api import input_file_module as input_file
from cli.test_fit import FILES, failure
from cli.test_fit import run as invoke

from kvariates import StreamingKMeans
from kvariates.sources import StandardizedBlocks, blocks, standardize


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


def test_a_compressed_file_that_is_too_large_is_streamed(table, tmp_path, monkeypatch):
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wt") as file:
        pd.read_parquet(table)[["x", "y"]].to_csv(file, index=False)
    words = ["fit", path, "-k", 3, "--force", "-o", tmp_path / "out"]
    monkeypatch.setattr(input_file, "memory", lambda: 4 * path.stat().st_size)
    line = failure(*words, "--no-stream")
    assert "GB of memory; --stream reads a table in blocks" in line
    result = run(*words)
    assert "is large compared with the memory, so it is read as a stream" in result.stderr
    assert (result.exit_code, (tmp_path / "out" / "report.html").exists()) == (0, True)


def test_a_folder_is_streamed(table, tmp_path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for part in "ab":
        (folder / f"{part}.parquet").write_bytes(table.read_bytes())
    done = run("fit", folder, "-k", 3, "-o", tmp_path / "out")
    assert "rows is a folder, so it is read as a stream" in done.stderr
    assert "left out, not numeric: name" in done.stderr
    assert len(labels_of(tmp_path / "out")) == 6000


def test_options_that_need_all_rows(table, tmp_path):
    words = ("fit", table, "-k", 3, "--stream", "--algorithm", "hartigan", "-o", tmp_path / "out")
    assert failure(*words) == "--algorithm hartigan does not work on a stream; use --no-stream"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
@pytest.mark.parametrize("k", [3, "auto"])
def test_directions_of_any_length(tmp_path, k, stream):
    rng = np.random.default_rng(0)
    rows = np.eye(3)[np.arange(600) % 3] + 0.05 * rng.normal(size=(600, 3))
    np.save(tmp_path / "X.npy", rows * rng.lognormal(size=(600, 1)))
    out = tmp_path / "out"
    words = ("--metric", "cosine", stream, "--seed", 0, "-o", out)
    run("fit", tmp_path / "X.npy", "-k", k, *words)
    labels = labels_of(out)
    assert (labels.reshape(-1, 3) == labels[:3]).all()
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    centers = pd.read_csv(out / "centers.csv").sort_values("label")[["x0", "x1", "x2"]].to_numpy()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["inertia"] == pytest.approx(600 - (unit * centers[labels]).sum())
    assert "1 - cos" in (out / "report.html").read_text()


def test_usual_values_may_be_given(table, tmp_path):
    usual = ("--algorithm", "auto", "--metric", "euclidean")
    run("fit", table, "-k", 3, "--stream", *usual, "-o", tmp_path / "out")


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


@pytest.fixture(params=["csv", "parquet", "folder"])
def gaps(request, tmp_path):
    """Rows with ids, of which some have a missing value, also the first and the last."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=500) + 20 * rng.integers(3, size=500)
    x[[0, 7, 8, 250, 499]] = np.nan
    frame = pd.DataFrame({"id": np.arange(500) + 10_000, "x": x, "label": ["a", "b"] * 250})
    path = tmp_path / f"gaps.{request.param}"
    if request.param == "csv":
        frame.to_csv(path, index=False)
    elif request.param == "parquet":
        frame.to_parquet(path, row_group_size=70)
    else:
        path.mkdir()
        frame[:100].to_parquet(path / "a.parquet")
        frame[100:].astype({"id": "int32"}).to_parquet(path / "b.parquet")
    return path, frame


def test_ids_and_other_columns_stay_beside_their_labels(gaps, tmp_path, monkeypatch):
    """Blocks, row groups and batches end at different rows."""
    path, frame = gaps
    monkeypatch.setattr(fit_means, "blocks", partial(blocks, block_bytes=8 * 64))
    words = ["-k", 3, "--stream", "--missing", "drop", "--seed", 1, "-o", tmp_path / "out"]
    done = run("fit", path, *words, "--id", "id", "--keep")
    assert "5 rows with a missing value left out; their label is missing" in done.stderr
    found = pd.read_parquet(tmp_path / "out" / "labels.parquet")
    assert list(found) == ["id", "x", "label of the data", "label"]
    assert found["id"].astype(int).tolist() == frame["id"].tolist()
    assert found["label of the data"].tolist() == frame["label"].tolist()
    assert found["label"].isna().tolist() == frame["x"].isna().tolist()
    centers = pd.read_csv(tmp_path / "out" / "centers.csv")["x"].to_numpy()
    kept = frame["x"].notna()
    nearest = abs(frame["x"][kept].to_numpy()[:, None] - centers).argmin(axis=1)
    assert found["label"][kept].astype(int).tolist() == nearest.tolist()
    assert list(pd.read_csv(tmp_path / "out" / "centers.csv")) == ["label", "rows", "x"]


def test_rows_left_out_have_a_missing_label_without_other_columns(gaps, tmp_path):
    path, frame = gaps
    words = ["--columns", "x", "--stream", "--missing", "drop", "--standardize"]
    run("fit", path, "-k", 3, *words, "-o", tmp_path / "out")
    found = pd.read_parquet(tmp_path / "out" / "labels.parquet")
    assert list(found) == ["label"]
    assert found["label"].isna().tolist() == frame["x"].isna().tolist()


def test_the_number_of_clusters_is_chosen_by_synopses(tmp_path):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(30_000, 2)) + 30 * rng.integers(4, size=(30_000, 1)) * [1, -1]
    pd.DataFrame(X, columns=["x", "y"]).to_parquet(tmp_path / "rows.parquet")
    words = ["-k", "auto", "--stream", "--seed", 2, "-o", tmp_path / "out"]
    done = run("fit", tmp_path / "rows.parquet", *words)
    assert re.search(r"k = 4, by [\d,]+ synopses of the rows: ", done.stderr)
    assert len(pd.read_csv(tmp_path / "out" / "centers.csv")) == 4


def test_a_matrix_has_no_columns_to_copy(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((5, 2)))
    line = failure("fit", tmp_path / "X.npy", "-k", 1, "--stream", "--keep", "-o", tmp_path / "out")
    assert line.endswith("columns have no names, so --id and --keep do not work")


def test_identifiers_and_scales_are_pointed_out(gaps, tmp_path):
    path, _ = gaps
    words = ["-k", 3, "--stream", "--missing", "drop", "-o", tmp_path / "out"]
    assert "id: looks like an identifier" in run("fit", path, *words).stderr
    assert "identifier" not in run("fit", path, *words, "--id", "id", "--force").stderr


@pytest.mark.parametrize("more", [(), ("--scale", "standard")])
def test_a_model_of_a_stream_predicts_the_labels_of_the_fit(table, tmp_path, more):
    words = ("--columns", "x,y", "--stream", "--seed", 1, "-o", tmp_path / "out")
    assert invoke("fit", table, "-k", 3, *words, *more).exit_code == 0
    out = tmp_path / "labels.parquet"
    result = invoke("predict", tmp_path / "out", table, "-o", out)
    assert result.exit_code == 0, result.stderr
    np.testing.assert_array_equal(pd.read_parquet(out)["label"], labels_of(tmp_path / "out"))
