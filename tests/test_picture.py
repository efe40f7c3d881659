"""Pictures: they are drawn for data of any shape, and the same data give the same bytes."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from kvariates import choose_k
from kvariates.data.hst_tree import grow
from kvariates.data.metric_spaces import DistanceMatrix, Vectors
from kvariates.report import choice, tree_picture
from kvariates.report.picture import PALETTE, draw, spread_colors
from kvariates.report.worldmap import draw_map, to_degrees


def rng(seed=0):
    return np.random.default_rng(seed)


def clustered(n, d, k):
    g = rng()
    centers = g.normal(size=(k, d)) * 10
    labels = g.integers(0, k, n)
    return centers[labels] + g.normal(size=(n, d)), labels, centers


def same_bytes(folder, draw_to):
    """Draw twice; return whether the files are equal."""
    for name in ("a.png", "b.png"):
        draw_to(folder / name)
    return (folder / "a.png").read_bytes() == (folder / "b.png").read_bytes()


def pixels_of(path, color):
    """How many pixels have this colour."""
    pixels = imread(path)[..., :3].reshape(-1, 3)
    return (np.abs(pixels - to_rgb(color)).max(axis=1) < 0.02).sum()


@pytest.mark.parametrize(
    ("n", "d", "k"),
    [(300, 2, 3), (300, 1, 3), (300, 7, 5), (50, 400, 4), (25_000, 3, 8), (200, 2, 80), (1, 2, 1)],
)
def test_data_of_any_shape_are_drawn(tmp_path, n, d, k):
    X, labels, centers = clustered(n, d, k)
    draw(X, labels, centers, tmp_path / "p.png", subtitle="a test")
    image = imread(tmp_path / "p.png")
    assert image.shape == (990, 1440, 4)
    assert image[..., :3].std() > 0.02


def test_the_same_picture_is_the_same_bytes(tmp_path):
    data = clustered(30_000, 3, 4)
    assert same_bytes(tmp_path, lambda path: draw(*data, path, ("x", "y", "z")))


def test_each_cluster_is_drawn_in_its_colour(tmp_path):
    draw(*clustered(3000, 2, 4), tmp_path / "p.png")
    assert min(pixels_of(tmp_path / "p.png", color) for color in PALETTE[:4]) > 100


@pytest.mark.parametrize("d", [1, 2, 5])
def test_identical_rows_are_drawn(tmp_path, d):
    draw(np.ones((10, d)), np.zeros(10, int), np.ones((1, d)), tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_centres_of_one_colour_are_far_apart():
    line = np.column_stack([np.arange(36.0), np.zeros(36)])
    places = spread_colors(line)
    assert places[:12].tolist() == list(range(12))
    for color in range(12):
        assert np.diff(np.flatnonzero(places == color)).min() >= 6


@pytest.mark.parametrize(
    "X", [clustered(400, 3, 3)[0], np.repeat(np.eye(3), 20, 0), np.ones((9, 2))]
)
def test_a_choice_of_k_is_drawn_repeatably(tmp_path, X):
    chosen = choose_k(X, (1, min(3, len(np.unique(X, axis=0)))), random_state=0)
    assert same_bytes(tmp_path, lambda path: choice.draw(chosen, path))
    assert imread(tmp_path / "a.png")[..., :3].std() > 0.02


def test_the_map_is_drawn(tmp_path):
    g = rng()
    places = g.normal(size=(500, 3))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    centers, people = places[:5], g.uniform(1e4, 1e7, 500)
    labels = np.argmax(places @ centers.T, axis=1)
    # Six names near one place: the last ones have no free side, which is not an error.
    named = dict.fromkeys(np.argsort(places @ places[0])[-6:].tolist(), "a name")
    draw_map(places, labels, people, centers, named, tmp_path / "m.png", title="t", subtitle="s")
    assert imread(tmp_path / "m.png")[..., :3].std() > 0.02


def test_unit_vectors_become_degrees():
    lon, lat = to_degrees(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]]))
    np.testing.assert_allclose(lat, [0, 0, 90, 0], atol=1e-12)
    np.testing.assert_allclose(lon[[0, 1, 3]], [0, 90, 180], atol=1e-12)


# ---- 2-HSTs ----


def planted(n=200):
    return rng().normal(size=(n, 2)) + 20 * rng(1).integers(0, 3, size=(n, 2))


POINTS = {
    "groups": planted(),
    "one point": np.zeros((1, 2)),
    "one place": np.zeros((9, 2)),
    "a line": np.column_stack([np.arange(30.0), np.arange(30.0)]),
    "many": rng().random((25_000, 2)),
}


def grown(X):
    return grow(Vectors(X, "euclidean"), rng())


@pytest.mark.parametrize("X", POINTS.values(), ids=POINTS)
def test_trees_of_any_points_are_drawn_repeatably(tmp_path, X):
    assert same_bytes(tmp_path, lambda path: tree_picture.draw(grown(X), X, path, levels=3))
    assert imread(tmp_path / "a.png").shape == (870, 1800, 4)


def test_components_are_drawn(tmp_path):
    D = np.where(np.add.outer(np.arange(20) < 7, np.arange(20) < 7) == 1, np.inf, 1.0)
    np.fill_diagonal(D, 0)
    tree_picture.draw(grow(DistanceMatrix(D), rng()), planted(20), tmp_path / "p.png")
    assert (tmp_path / "p.png").stat().st_size > 10_000


def test_each_level_has_its_color(tmp_path):
    tree_picture.draw(grown(planted()), planted(), tmp_path / "p.png", levels=2)
    assert min(pixels_of(tmp_path / "p.png", PALETTE[level]) for level in range(3)) > 50
    assert pixels_of(tmp_path / "p.png", PALETTE[3]) == 0


def test_nodes_contain_their_points():
    tree = grown(planted(60))
    top = tree_picture._top(tree, 3)
    for node, points in top.inside():
        assert len(points) == tree.counts()[top.nodes[node]] == top.count[node]
