"""What is on the axes of a plot, and rows to draw."""

import numpy as np
from api import MARKERS
from matplotlib.colors import to_hex
from matplotlib.markers import MarkerStyle

from kvariates import KMeans


def rng(seed=0):
    return np.random.default_rng(seed)


def blobs(n, d=2, k=3, seed=0):
    g = rng(seed)
    return 10 * g.normal(size=(k, d))[g.integers(0, k, n)] + g.normal(size=(n, d))


def fitted(X, k=3):
    return KMeans(k, random_state=0).fit(X)


def notes(ax):
    return "\n".join(text.get_text() for text in ax.texts if text.get_transform() == ax.transAxes)


def drawn_rows(ax):
    """Places, colours and markers of all rows; centres are white and left out."""
    found = []
    for collection in ax.collections:
        colors, places = collection.get_facecolors(), np.asarray(collection.get_offsets())
        if to_hex(colors[0]) == "#ffffff":
            continue
        path = collection.get_paths()[0]
        [marker] = [m for m in (*MARKERS, ".") if same_path(path, m)]
        colors = np.broadcast_to(colors, (len(places), 4))
        found += [
            (*place, to_hex(color), marker) for place, color in zip(places, colors, strict=True)
        ]
    return found


def same_path(path, marker):
    style = MarkerStyle(marker)
    own = style.get_path().transformed(style.get_transform())
    return own.vertices.shape == path.vertices.shape and np.allclose(own.vertices, path.vertices)


def centers_of(ax):
    [white] = [c for c in ax.collections if to_hex(c.get_facecolors()[0]) == "#ffffff"]
    return np.asarray(white.get_offsets()), white


def numbers(ax):
    return [text.get_text() for text in ax.texts if text.get_text().isdigit()]
