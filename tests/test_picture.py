"""Pictures: they are drawn for data of any shape, and the same data give the same bytes."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread

from kvariates.report.picture import PALETTE, draw, spread_colors
from kvariates.report.worldmap import draw_map, to_degrees


def clustered(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * 10
    labels = rng.integers(0, k, n)
    return centers[labels] + rng.normal(size=(n, d)), labels, centers


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
    X, labels, centers = clustered(30_000, 3, 4)
    for name in ("a.png", "b.png"):
        draw(X, labels, centers, tmp_path / name, ("x", "y", "z"))
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_each_cluster_is_drawn_in_its_colour(tmp_path):
    X, labels, centers = clustered(3000, 2, 4)
    draw(X, labels, centers, tmp_path / "p.png")
    pixels = imread(tmp_path / "p.png")[..., :3].reshape(-1, 3)
    for color in PALETTE[:4]:
        assert (np.abs(pixels - to_rgb(color)).max(axis=1) < 0.02).sum() > 100


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


def test_the_map_is_drawn(tmp_path):
    rng = np.random.default_rng(0)
    places = rng.normal(size=(500, 3))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    centers, people = places[:5], rng.uniform(1e4, 1e7, 500)
    labels = np.argmax(places @ centers.T, axis=1)
    # Six names near one place: the last ones have no free side, which is not an error.
    named = dict.fromkeys(np.argsort(places @ places[0])[-6:].tolist(), "a name")
    draw_map(places, labels, people, centers, named, tmp_path / "m.png", title="t", subtitle="s")
    assert imread(tmp_path / "m.png")[..., :3].std() > 0.02


def test_unit_vectors_become_degrees():
    lon, lat = to_degrees(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]]))
    np.testing.assert_allclose(lat, [0, 0, 90, 0], atol=1e-12)
    np.testing.assert_allclose(lon[[0, 1, 3]], [0, 90, 180], atol=1e-12)
