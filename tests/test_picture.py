"""Pictures in files, colours and the map of the world."""

import numpy as np
import pytest
from api import (
    BRIGHTER,
    FAINT,
    INK,
    MARKERS,
    PALETTE,
    STYLE,
    WorldMap,
    draw_map,
    lighter,
    looks,
    picture,
    rgb_of,
    spread_colors,
    to_degrees,
)
from matplotlib.colors import to_hex, to_rgb
from matplotlib.image import imread


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


# Machado, Oliveira, Fernandes 2009, severity 1, on linear RGB.
EYES = {
    "normal": np.eye(3),
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
               [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
               [-0.011820, 0.042940, 0.968881]],
}  # fmt: skip


def oklab(rgb):
    lms = np.cbrt(np.clip(rgb, 0, 1) @ np.array([
        [0.4122214708, 0.2119034982, 0.0883024619], [0.5363325363, 0.6806995451, 0.2817188376],
        [0.0514459929, 0.1073969566, 0.6299787005]]))  # fmt: skip
    return lms @ np.array([
        [0.2104542553, 1.9779984951, 0.0259040371], [0.7936177850, -2.4285922050, 0.7827717662],
        [-0.0040720468, 0.4505937099, -0.8086757660]])  # fmt: skip


@pytest.mark.parametrize("eye", EYES)
def test_colours_can_be_told_apart(eye):
    srgb = np.array([to_rgb(color) for color in PALETTE])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    lab = oklab(linear @ np.asarray(EYES[eye]).T)
    gaps = np.linalg.norm(lab[:, None] - lab[None], axis=2)
    assert gaps[~np.eye(len(PALETTE), dtype=bool)].min() > 0.08


def test_colours_of_text_are_the_same_in_all_pictures():
    assert STYLE["axes.labelcolor"] == INK
    assert STYLE["axes.edgecolor"] == FAINT


@pytest.mark.parametrize("seed", range(3))
def test_styles_of_96_clusters_differ(seed):
    assert len(set(looks(rng(seed).normal(size=(96, 2)) ** 3, len(MARKERS)))) == 96


def test_the_map_is_drawn(tmp_path):
    g = rng()
    places = g.normal(size=(500, 3))
    places /= np.linalg.norm(places, axis=1, keepdims=True)
    centers, people = places[:5], g.uniform(1e4, 1e7, 500)
    labels = np.argmax(places @ centers.T, axis=1)
    # Six names near one place: the last ones have no free side, which is not an error.
    named = dict.fromkeys(np.argsort(places @ places[0])[-6:].tolist(), "a name")
    shown = WorldMap(places, labels, people, centers, named, title="t", subtitle="s")
    draw_map(shown, tmp_path / "m.png")
    assert imread(tmp_path / "m.png")[..., :3].std() > 0.02


def test_unit_vectors_become_degrees():
    lon, lat = to_degrees(np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, 0, 0]]))
    np.testing.assert_allclose(lat, [0, 0, 90, 0], atol=1e-12)
    np.testing.assert_allclose(lon[[0, 1, 3]], [0, 90, 180], atol=1e-12)


def test_colours_on_a_dark_map_have_a_part_of_white():
    """The same colours as in the dark theme of the pages."""
    dark = [lighter(color) for color in PALETTE]
    assert [to_hex(rgb) for rgb in rgb_of(np.arange(12), BRIGHTER)] == dark
    assert [to_hex(rgb) for rgb in rgb_of(np.arange(12))] == list(PALETTE)
