"""Errors of the library in the words of the command, and folders as DATA of every command."""

import numpy as np
import pandas as pd
import pytest
from cli.test_fit import failure
from cli.test_fit import run as invoke


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2)) + 9 * rng.integers(2, size=(40, 1))
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "name": "n"})


@pytest.fixture
def table(rows, tmp_path):
    path = tmp_path / "rows.csv"
    rows[["a", "b"]].to_csv(path, index=False)
    return path


@pytest.fixture
def folder(rows, tmp_path):
    """The rows in two files."""
    path = tmp_path / "rows"
    path.mkdir()
    rows[:25].to_parquet(path / "1.parquet")
    rows[25:].to_parquet(path / "2.parquet")
    return path


@pytest.mark.parametrize(
    "words", [("--no-stream",), ("--stream",), ("--objective", "median")], ids=" ".join
)
def test_more_clusters_than_rows(table, tmp_path, words):
    line = failure("fit", table, "-k", 41, *words, "-o", tmp_path / "out")
    assert line == f"-k 41 is above the 40 rows of {table}"


def test_more_groups_than_rows_and_clusters_than_nodes(table, tmp_path):
    line = failure("anticluster", table, "-g", 41, "-o", tmp_path / "out")
    assert line == f"-g 41 is above the 40 rows of {table}"
    edges = tmp_path / "edges.csv"
    edges.write_text("from,to\n1,2\n2,3\n3,1\n")
    words = ("--objective", "median", "--metric", "graph", "-o", tmp_path / "out")
    assert failure("fit", edges, "-k", 9, *words) == f"-k 9 is above the 3 nodes of {edges}"


def test_a_missing_value_of_a_stream(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,\n")
    line = failure("fit", path, "-k", 1, "--stream", "-o", tmp_path / "out")
    missing = "row 2, column 'b': a missing value; --missing drop leaves such rows out"
    assert line == f"{path}: {missing}"


def test_every_command_takes_a_folder(folder, rows, tmp_path):
    """The labels are those of one file with the same rows."""
    whole = tmp_path / "whole.parquet"
    rows.to_parquet(whole)
    for i, words in enumerate((("--no-stream",), ("--objective", "median"))):
        found = []
        for data in (folder, whole):
            out = tmp_path / f"{data.stem}-{i}"
            succeed("fit", data, "-k", 2, *words, "--seed", 0, "-o", out)
            found.append(pd.read_parquet(out / "labels.parquet"))
        pd.testing.assert_frame_equal(*found)
        labels = tmp_path / f"labels{i}.parquet"
        succeed("predict", out, folder, "-o", labels)
        pd.testing.assert_frame_equal(pd.read_parquet(labels)[["label"]], found[0][["label"]])
    succeed("compare", folder, "-k", "2:3")
    succeed("anticluster", folder, "-g", 2, "-o", tmp_path / "groups")
    bounds = ("--epsilon", 1, "--bounds", "a=-9:20,b=-9:20")
    succeed("fit", folder, "-k", 2, *bounds, "-o", tmp_path / "private")


def succeed(*words):
    result = invoke(*words)
    assert result.exit_code == 0, result.output
