"""`kvariates fit DATA --dask ADDRESS`."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from api import ReadRequest, load_model
from api import fit_dask_module as dask_fitting
from cli.test_fit import FILES, failure
from cli.test_fit import run as invoke
from dask import dataframe as dd

from kvariates.dask import KMeans

# A warning of pandas 3.1 about dask's own code.
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame.reset_index")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 2)) + 20 * rng.integers(3, size=(3000, 1))
    table = pd.DataFrame({"x": X[:, 0], "y": X[:, 1], "w": rng.integers(1, 4, 3000), "name": "a"})
    path = tmp_path_factory.mktemp("dask") / "rows"
    path.mkdir()
    for part in range(3):
        table[part * 1000 : (part + 1) * 1000].to_parquet(path / f"{part}.parquet", index=False)
    return path


def address(client):
    return client.scheduler.address


def test_writes_what_fit_writes(client, folder, tmp_path):
    out = tmp_path / "out"
    words = ["-k", 3, "--weights", "w", "--seed", 7, "--init", "d2", "-o", out]
    done = invoke("fit", folder, *words, "--dask", address(client))
    assert done.exit_code == 0, done.output
    assert "left out, not numeric: name" in done.stderr
    assert sorted(p.name for p in out.iterdir()) == FILES
    frame = dd.read_parquet(str(folder))
    model = KMeans(3, random_state=7, client=client)
    model.fit(frame[["x", "y"]], sample_weight=frame["w"])
    labels = pd.read_parquet(out / "labels.parquet")["label"]
    np.testing.assert_array_equal(labels, model.labels_.compute())
    summary = json.loads((out / "summary.json").read_text())
    assert summary["inertia"] == model.inertia_
    assert summary["data"]["rows"] == 3000
    weights = frame["w"].compute().to_numpy()
    expected = np.bincount(labels, weights, 3).tolist()
    assert [c["weight"] for c in summary["clusters"]] == expected
    centers = pd.read_csv(out / "centers.csv")[["x", "y"]]
    np.testing.assert_allclose(centers, model.cluster_centers_)


def test_the_cosine_metric(client, folder, tmp_path):
    out = tmp_path / "out"
    words = ["-k", 3, "--metric", "cosine", "--columns", "x,y", "--seed", 7, "-o", out]
    done = invoke("fit", folder, *words, "--dask", address(client))
    assert done.exit_code == 0, done.output
    frame = dd.read_parquet(str(folder))[["x", "y"]]
    model = KMeans(3, metric="cosine", random_state=7, client=client).fit(frame)
    labels = pd.read_parquet(out / "labels.parquet")["label"]
    np.testing.assert_array_equal(labels, model.labels_.compute())
    summary = json.loads((out / "summary.json").read_text())
    assert summary["inertia"] == model.inertia_
    assert summary["parameters"]["metric"] == "cosine"
    saved = load_model(out)
    np.testing.assert_array_equal(saved.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(saved.predict(frame.compute()), labels)
    assert "cosine metric" in (out / "report.html").read_text()


def test_a_missing_extra_is_one_line(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = failure("fit", folder, "-k", 3, "-o", tmp_path / "out", "--dask", "tcp://127.0.0.1:1")
    assert "fit --dask needs distributed, which is not installed: pip install 'kvariates[d" in line


def test_the_report_has_the_transcript(client, folder, tmp_path):
    words = ["-k", 3, "--seed", 7, "-o", tmp_path / "out", "--dask", address(client)]
    assert invoke("fit", folder, *words).exit_code == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<section id="transcript"' in page
    assert "rows revealed" in page


def test_ids_and_other_columns_stay_beside_their_labels(client, folder, tmp_path):
    out = tmp_path / "out"
    words = ["-k", 3, "--id", "w", "--keep", "--seed", 7, "-o", out]
    done = invoke("fit", folder, *words, "--dask", address(client))
    assert done.exit_code == 0, done.output
    found, frame = pd.read_parquet(out / "labels.parquet"), dd.read_parquet(str(folder)).compute()
    assert list(found) == ["w", "x", "y", "name", "label"]
    for name in frame:
        assert found[name].tolist() == frame[name].tolist()
    centers = pd.read_csv(out / "centers.csv")
    assert list(centers) == ["label", "rows", "x", "y"]
    distances = abs(frame["x"].to_numpy()[:, None] - centers["x"].to_numpy())
    assert found["label"].tolist() == distances.argmin(axis=1).tolist()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--id", "z"), "no column 'z'"),
        (("--metric", "manhattan"), "--metric: 'manhattan' is not one of"),
        (("--init", "hst"), "--init hst does not work with --dask; use one of"),
        (("--standardize",), "--scale standard does not work with --dask"),
        (("--missing", "drop"), "--missing drop does not work with --dask"),
        (("--columns", "x,z"), "has no column z"),
        (("--columns", "x,name"), "partition 0: not numeric: name"),
    ],
)
def test_what_it_cannot_do(client, folder, tmp_path, words, line):
    given = failure(
        "fit", folder, "-k", 3, *words, "--dask", address(client), "-o", tmp_path / "out"
    )
    assert line in given
    assert not (tmp_path / "out").exists()


def test_no_scheduler(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("kvariates.cli.fit_dask.SECONDS", 1)
    words = ["fit", folder, "-k", 3, "-o", tmp_path / "out", "--dask", "tcp://127.0.0.1:1"]
    assert "Timed out trying to connect to tcp://127.0.0.1:1" in failure(*words)


def test_vectors_alone(client, tmp_path):
    pd.DataFrame({"e": [[1.0, 2.0], [3.0, 4.0]]}).to_parquet(tmp_path / "rows.parquet")
    words = ["fit", tmp_path / "rows.parquet", "-k", 2, "--dask", address(client)]
    assert "no numeric column (found e); vectors are read without --dask" in failure(*words)


def test_not_parquet(client, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x\n1\n2\n")
    words = ["fit", path, "-k", 1, "--dask", address(client), "-o", tmp_path / "out"]
    assert "is not Parquet" in failure(*words)


def test_a_column_of_weights_is_no_feature():
    frame = pd.DataFrame({"x": [1.0], "w": [2.0], "name": ["a"]})
    reading = ReadRequest(Path("rows"), None, "w")
    assert list(dask_fitting._columns(frame, reading)[0]) == ["x"]
    reading = ReadRequest(Path("rows"), ["x", "w"], "w")
    with pytest.raises(ValueError, match="column 'w' holds the weights; do not cluster it"):
        dask_fitting._columns(frame, reading)
