"""`kvariates fit --metric graph --nodes`: the network is drawn in the report."""

import base64
import json
import re

import numpy as np
import pytest
from api import read_places
from cli.test_fit import failure, rows_of, run
from scipy import sparse
from scipy.io import mmwrite

GRAPH = ("--objective", "median", "--metric", "graph")


@pytest.fixture
def files(tmp_path):
    """A ring of twelve nodes, and where they are, in another order."""
    edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
    edges.write_text("from,to\n" + "".join(f"n{i},n{(i + 1) % 12}\n" for i in range(12)))
    turn = 2 * np.pi * np.arange(12) / 12
    lines = [f"n{i},{100 * i},{np.sin(t):.6f},{np.cos(t):.6f}" for i, t in enumerate(turn)]
    nodes.write_text("\n".join(["node,height,y,x", *lines[::-1]]) + "\n")
    return edges, nodes


def drawing(out):
    page = (out / "report.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json">(.*?)</script>', page)
    return None if found is None else json.loads(found[1])


def test_nodes_and_edges_are_drawn_at_their_places(files, tmp_path):
    edges, nodes = files
    out = tmp_path / "out"
    assert run("fit", edges, "-k", 3, *GRAPH, "--nodes", nodes, "-o", out).exit_code == 0
    found = drawing(out)
    ends = np.frombuffer(base64.b64decode(found["edges"]), "<u2").reshape(-1, 2, 2) / 65535
    assert len(ends) == 12
    lengths = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1)
    assert lengths.max() < 0.35  # neighbours on the ring are near each other
    assert sorted(found["titles"]) == sorted(f"n{i}" for i in range(12))
    assert "rows" not in found
    medoids = [row[2] for row in rows_of(out / "centers.csv")[1:]]
    assert [cluster["word"] for cluster in found["clusters"]] == medoids
    assert run("fit", edges, "-k", 3, *GRAPH, "-o", tmp_path / "plain").exit_code == 0
    assert drawing(tmp_path / "plain") is None
    words = (tmp_path / "plain" / "report.html").read_text(encoding="utf-8")
    assert "--nodes reads them from a table" in words


def test_a_symmetric_matrix_whose_rows_are_clustered_is_pointed_out(tmp_path):
    ring = sparse.csr_array((np.ones(12), (np.arange(12), (np.arange(12) + 1) % 12)))
    path, hint = tmp_path / "ring.mtx", "if it is a network: --objective median --metric graph"
    for name, matrix, words, said in (
        ("rows", ring + ring.T, (), True),
        ("graph", ring + ring.T, GRAPH, False),
        ("no graph", ring, (), False),
    ):
        mmwrite(path, matrix)
        result = run("fit", path, "-k", 2, *words, "-o", tmp_path / name)
        assert result.exit_code == 0
        assert (hint in result.stderr) == said


def test_places_are_found_by_the_names_of_columns(files):
    _, nodes = files
    found = read_places(nodes, np.array(["n0", "n3"]))
    assert found.names == ("x", "y")
    np.testing.assert_allclose(found.X, [[1, 0], [0, 1]], atol=1e-6)


def test_places_by_the_order_of_columns(tmp_path):
    (tmp_path / "nodes.csv").write_text("crossing;a;b\n7;1,5;2\n9;3;4\n")
    found = read_places(tmp_path / "nodes.csv", np.array([9, 7]))
    assert found.names == ("a", "b")
    assert found.X.tolist() == [[3.0, 4.0], [1.5, 2.0]]


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("node,x,y\nn0,1,2\n", "11 nodes of the graph have no coordinates: n1, n10, n11 and 8"),
        ("node,x\nn0,1\n", "two of coordinates, as lon and lat; this one has node, x"),
        (None, "no such file"),
    ],
)
def test_what_is_refused(files, tmp_path, content, line):
    edges, nodes = files
    nodes.unlink()
    if content is not None:
        nodes.write_text(content)
    assert line in failure("fit", edges, "-k", 3, *GRAPH, "--nodes", nodes, "-o", tmp_path / "out")


def test_nodes_are_for_graphs(files, tmp_path):
    line = failure("fit", files[1], "-k", 2, "--nodes", files[1], "-o", tmp_path / "out")
    assert line == "--nodes is for --objective median --metric graph"


@pytest.mark.parametrize("words", [("--keep",), ("--missing", "drop")])
def test_options_that_a_graph_does_not_have_are_refused(files, tmp_path, words):
    line = failure("fit", files[0], "-k", 3, *GRAPH, *words, "-o", tmp_path / "out")
    assert line == f"{' '.join(words)} does not work on a graph"


def test_a_negative_length_is_named_as_in_the_file(tmp_path):
    (tmp_path / "edges.csv").write_text("from,to,length\n7,8,1\n8,9,-2\n")
    line = failure("fit", tmp_path / "edges.csv", "-k", 1, *GRAPH, "-o", tmp_path / "out")
    assert "the edge from 8 to 9 in row 2 has the length -2, below 0" in line


def test_a_node_with_two_places_is_refused(tmp_path):
    (tmp_path / "nodes.csv").write_text("node,x,y\na,1,2\nb,3,4\na,5,6\n")
    with pytest.raises(ValueError, match="node a is in several rows"):
        read_places(tmp_path / "nodes.csv", np.array(["a", "b"]))
