"""`kvariates fit --objective median --epsilon`: public points, and a demand that stays private."""

import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from api import Vectors, demand_numbers
from cli.test_fit import failure, run
from cli.test_private_fit import texts

from kvariates import PrivateKMedian
from kvariates.sources import TextOptions

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 100, (60, 2)).round(3)
AT = RNG.integers(0, 20, 3000)  # nobody is at the other points
MEDIAN = ("-k", 3, "--objective", "median", "--epsilon", 2)


@pytest.fixture
def files(tmp_path):
    sites, people = tmp_path / "sites.csv", tmp_path / "people.csv"
    lines = [f"S{i},{x},{y}" for i, (x, y) in enumerate(X.tolist())]
    sites.write_text("\n".join(["site,x,y", *lines]) + "\n")
    people.write_text("\n".join(["person,site", *(f"anna{i},S{j}" for i, j in enumerate(AT))]))
    return sites, people


@pytest.fixture
def seen(monkeypatch):
    """The demands that fits get."""
    found, fit = [], PrivateKMedian.fit

    def watched(self, X, y=None, *, demand=None):
        found.append(demand)
        return fit(self, X, demand=demand)

    monkeypatch.setattr(PrivateKMedian, "fit", watched)
    return found


def test_medoids_are_points_and_labels_those_of_public_points(files, seen, tmp_path):
    sites, people = files
    out = tmp_path / "out"
    result = run("fit", sites, *MEDIAN, "--demand", people, "--id", "site", "-o", out)
    assert result.exit_code == 0, result.output
    assert "labels.parquet may be published" in result.stderr
    assert seen[0].tolist() == AT.tolist()
    centers = pd.read_csv(out / "centers.csv")[["x", "y"]].to_numpy()
    medoids = [np.flatnonzero((center == X).all(axis=1))[0] for center in centers]
    table = pq.read_table(out / "labels.parquet")
    assert table["site"].to_pylist() == [f"S{i}" for i in range(60)]
    nearest = Vectors(X, "euclidean").two_nearest(np.array(medoids)).labels
    assert table["label"].to_numpy().tolist() == nearest.tolist()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["privacy"]["claim"] == {"epsilon": 2.0, "delta": 0.0}
    assert "noisy_demand" in summary["clusters"][0]


def test_outputs_show_points_and_nothing_of_the_demand(files, tmp_path, monkeypatch):
    """With one and the same model, two demands give the same bytes."""
    sites, people = files
    model = PrivateKMedian(3, epsilon=2.0).fit(X, demand=AT)
    labels = Vectors(X, "euclidean").two_nearest(model.medoid_indices_).labels

    def fit_predict(self, X, y=None, *, demand=None):
        self.__dict__.update(model.__dict__)
        return labels

    monkeypatch.setattr(PrivateKMedian, "fit_predict", fit_predict)
    words = ("fit", sites, *MEDIAN, "--demand", people, "--id", "site", "--force", "-o")
    found = []
    for demand in (people.read_text(), "site\nS1\nS2\n"):
        people.write_text(demand)
        result = run(*words, tmp_path / "out")
        found.append((result.output, texts(tmp_path / "out")))
    assert found[0] == found[1]
    assert "model.skops" in found[0][1]
    page = found[0][1]["report.html"].decode()
    assert "The points are public" in page
    assert "The demand: the points of single people." in page
    assert "anna" not in str(found)


def test_every_entry_of_the_demand_is_read_by_itself(tmp_path):
    cells = ["S1", '"S2"', " S0 ", "S9", "", '"S1', "S2\x00", "1", "S2"]
    expected, alone = [1, 2, 0, -1, -1, -1, -1, -1, 2], []
    for more in ([], ['"'], ["S1,S2,S0"], ["\ufffd"], ["x" * 200_000]):
        path = tmp_path / "demand.csv"
        path.write_text("\n".join(["site", *cells, *more]) + "\n")
        found = demand_numbers(path, ["S0", "S1", "S2"], "site", TextOptions())
        assert len(found) == len(cells) + len(more)
        alone.append(found[: len(cells)].tolist())
    assert alone == [expected] * 5
    path.write_bytes(b"S1\n\xff\nS2")
    found = demand_numbers(path, ["S0", "S1", "S2"], "site", TextOptions(header=False))
    assert found.tolist() == [1, -1, 2]


@pytest.mark.parametrize("values", [["1", None, "2"], [1, None, 2]])
def test_a_demand_of_parquet(tmp_path, values):
    path = tmp_path / "demand.parquet"
    pq.write_table(pa.table({"who": ["a", "b", "c"], "row": values}), path)
    assert demand_numbers(path, ["0", "1", "2"], "row", TextOptions()).tolist() == [1, -1, 2]
    text = pa.array([b"1", b"\xff", b"2"]).view(pa.string())  # the second is not UTF-8
    pq.write_table(pa.table({"row": text}), path)
    assert demand_numbers(path, ["0", "1", "2"], "row", TextOptions()).tolist() == [1, -1, 2]
    pq.write_table(pa.table({"row": [1.5]}), path)
    with pytest.raises(ValueError, match="'row' holds double, not names or numbers of points"):
        demand_numbers(path, ["0"], "row", TextOptions())


def test_a_demand_of_arrow(tmp_path):
    table = pa.table({"who": ["a", "b", "c"], "row": pa.array([1, None, 2])})
    for name, opened in (("d.feather", pa.ipc.new_file), ("d.arrow", pa.ipc.new_stream)):
        with opened(tmp_path / name, table.schema) as file:
            file.write_table(table)
        found = demand_numbers(tmp_path / name, ["0", "1", "2"], "row", TextOptions())
        assert found.tolist() == [1, -1, 2]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("d.npy", b"\x93NUMPY", "is a NumPy or ZIP file; a demand is a text table"),
        ("d.npz", b"", "is a NumPy or ZIP file; a demand is"),
        ("d.zip", b"PK\x03\x04", "is a NumPy or ZIP file; a demand is"),
        ("d.mtx", b"", "is a Matrix Market file; a demand is"),
        ("d.xlsx", b"", "is a spreadsheet; save it as CSV first"),
        ("d.json", b"", "unknown extension .json"),
        ("d", b"%PDF-1.7", "is a PDF; a demand is"),
        ("d.csv", b"PK\x03\x04\nS1\n", "is called .csv, but is no text"),
        ("d.csv", b"ARROW1\nS1\n", "is called .csv, but is no text"),
        ("d.parquet", b"S1\nS2\n", "is damaged, or no parquet file"),
        ("d.feather", b"site\nS1\n", "is damaged, or no arrow file"),
    ],
)
def test_a_demand_of_another_kind_is_refused(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="^" + re.escape(f"{tmp_path / name}: {words}")):
        demand_numbers(tmp_path / name, ["S1"], "site", TextOptions())


def test_a_folder_is_no_demand(tmp_path):
    with pytest.raises(ValueError, match="is a folder; a demand is"):
        demand_numbers(tmp_path, ["S1"], "site", TextOptions())


def test_nodes_of_a_graph(seen, tmp_path):
    edges, people = tmp_path / "edges.csv", tmp_path / "people.tsv"
    edges.write_text("from,to\n" + "".join(f"n{i},n{(i + 1) % 30}\n" for i in range(30)))
    people.write_text("person\tnode\n" + "a\tn7\n" * 500)
    words = ("fit", edges, *MEDIAN, "--metric", "graph", "--demand", people, "-o", tmp_path / "out")
    assert run(*words).exit_code == 0
    nodes = sorted(f"n{i}" for i in range(30))
    assert seen[0].tolist() == [nodes.index("n7")] * 500
    centers = (tmp_path / "out" / "centers.csv").read_text().splitlines()
    assert centers[0] == "label,noisy_demand,node"
    assert all(line.split(",")[2] in nodes for line in centers[1:])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "--epsilon with --objective median needs --demand FILE"),
        (["--demand", "PEOPLE"], "has 2 columns, and none is called 'row'"),
        (["--demand", "none.csv"], "none.csv: no such file"),
        (["--demand", "PEOPLE", "--id", "site", "--bounds", "0,1"], "--bounds is for --objective"),
        (["--demand", "PEOPLE", "--id", "site", "--seed", 1], "noise that can be repeated"),
        (["--demand", "PEOPLE", "--id", "site", "--labels"], "--labels is for private rows"),
        (["--demand", "PEOPLE", "--id", "site", "--weights", "x"], "--weights does not work with"),
        (["--demand", "PEOPLE", "--id", "x"], "none is called 'x'"),
        (["--demand", "PEOPLE", "--id", "site", "--stream"], "--stream does not work with"),
    ],
)
def test_what_is_refused(files, tmp_path, words, line):
    sites, people = files
    words = [people if word == "PEOPLE" else word for word in words]
    assert line in failure("fit", sites, *MEDIAN, *words, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_demand_is_for_medians(files, tmp_path):
    sites, people = files
    words = ("fit", sites, "-k", 3, "--epsilon", 1, "--bounds", "0,100", "--demand", people)
    assert "--demand is for --objective median" in failure(*words, "-o", tmp_path / "out")
