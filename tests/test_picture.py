"""Pictures in files, colours and the map of the world."""

import numpy as np
import pytest
from matplotlib.image import imread

from kvariates.report.colors import spread_colors
from kvariates.report.picture import picture
from kvariates.report.worldmap import draw_map, to_degrees


def rng(seed=0):
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    ("name", "start"),
    [("p.png", b"\x89PNG"), ("p.svg", b"<?xml"), ("p.pdf", b"%PDF"), ("p", b"\x89PNG")],
)
def test_the_format_is_that_of_the_name_and_bytes_repeat(tmp_path, name, start):
    found = []
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        with picture(tmp_path / folder / name, (3, 2)) as (_, [axes]):
            axes.plot([1, 2, 3])
        found.append((tmp_path / folder / name).read_bytes())
    assert found[0] == found[1]
    assert found[0].startswith(start)


def test_centres_of_one_colour_are_far_apart():
    line = np.column_stack([np.arange(36.0), np.zeros(36)])
    places = spread_colors(line)
    assert places[:12].tolist() == list(range(12))
    for color in range(12):
        assert np.diff(np.flatnonzero(places == color)).min() >= 6


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
