"""Pictures of 2-HSTs: for any points, with the tree's own counts, and repeatable."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from kvariates.data.hst_tree import grow
from kvariates.data.metric_spaces import DistanceMatrix, Vectors
from kvariates.report.picture import PALETTE
from kvariates.report.tree_picture import _top, draw


def rng(seed=0):
    return np.random.default_rng(seed)


def planted(n=200):
    return rng().normal(size=(n, 2)) + 20 * rng(1).integers(0, 3, size=(n, 2))


CASES = {
    "groups": planted(),
    "one point": np.zeros((1, 2)),
    "one place": np.zeros((9, 2)),
    "a line": np.column_stack([np.arange(30.0), np.arange(30.0)]),
    "many": rng().random((25_000, 2)),
}


@pytest.mark.parametrize("X", CASES.values(), ids=CASES)
def test_any_points_are_drawn_repeatably(tmp_path, X):
    for name in ("a.png", "b.png"):
        draw(grow(Vectors(X, "euclidean"), rng()), X, tmp_path / name, levels=3)
    assert imread(tmp_path / "a.png").shape == (870, 1800, 4)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_components_are_drawn(tmp_path):
    X = planted(20)
    D = np.where(np.add.outer(np.arange(20) < 7, np.arange(20) < 7) == 1, np.inf, 1.0)
    np.fill_diagonal(D, 0)
    draw(grow(DistanceMatrix(D), rng()), X, tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_each_level_has_its_color(tmp_path):
    X = planted()
    draw(grow(Vectors(X, "euclidean"), rng()), X, tmp_path / "p.png", levels=2)
    pixels = imread(tmp_path / "p.png")[..., :3].reshape(-1, 3)

    def seen(color):
        return (np.abs(pixels - to_rgb(color)).max(axis=1) < 0.02).sum()

    assert min(seen(PALETTE[level]) for level in range(3)) > 50
    assert seen(PALETTE[3]) == 0


def test_nodes_contain_their_points():
    X = planted(60)
    tree = grow(Vectors(X, "euclidean"), rng())
    top = _top(tree, 3)
    counts = tree.counts()
    for node, points in top.inside():
        assert len(points) == counts[top.nodes[node]] == top.count[node]
