"""Pictures in files, without a window; a map of the world with a tint for each region.

Each pixel of the map has the colour of its nearest centre on the sphere, so that the borders of the
regions can be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from kvariates.palette import FAINT, INK, PALETTE, Array, lighter, spread_colors

BACKGROUND, GREY, WHITE = "#0c1220", "#8d98ad", "#f2f4f8"
BRIGHTER = 0.22  # the part of white in colours on the dark background
SOUTH, NORTH = -57.0, 74.0
SIDES = (
    (0, 8, "center", "bottom"),
    (0, -9, "center", "top"),
    (10, 0, "left", "center"),
    (-10, 0, "right", "center"),
)
PAPER = "#fcfbf8"
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "svg.hashsalt": "kvariates",
}
# Without the date, the same picture gives the same bytes.
METADATA: dict[str, dict[str, Any]] = {
    "png": {"Software": "kvariates"},
    "svg": {"Date": None},
    "pdf": {"CreationDate": None},
}


@dataclass(frozen=True, eq=False)
class WorldMap:
    """Places and the centres of their regions, as unit vectors, and texts."""

    places: Array  # (n, 3)
    labels: Array  # (n,): the region of each place
    people: Array  # (n,): dots grow with them
    centers: Array  # (k, 3)
    named: Mapping[int, str]  # the text at some of the places, by row
    title: str
    subtitle: str


def draw_map(shown: WorldMap, path: str | Path) -> None:
    """Draw places on a map of longitudes and latitudes, into a PNG file."""
    lon, lat = to_degrees(shown.places)
    order = np.argsort(-shown.people, kind="stable")  # small places last, on top of large ones
    colors = spread_colors(shown.centers)
    of_place = rgb_of(colors, BRIGHTER)[shown.labels]
    sizes = 0.25 + 95 * (shown.people / shown.people.max()) ** 0.75
    with picture(path, (15, 7.15), BACKGROUND) as (figure, [axes]):
        tint(axes, shown.centers, rgb_of(colors))
        style: dict[str, Any] = {"alpha": 0.8, "linewidths": 0, "rasterized": True}
        axes.scatter(lon[order], lat[order], s=sizes[order], c=of_place[order], **style)
        axes.plot(*to_degrees(shown.centers), "+", color=WHITE, ms=7, mew=1.4, alpha=0.75)
        _frame(axes, shown.title, shown.subtitle)
        figure.draw_without_rendering()  # computes the layout, on which the places of names depend
        rows = np.array(list(shown.named), dtype=np.intp)
        style = {"s": 50, "ec": WHITE, "linewidths": 1.8, "zorder": 4}
        axes.scatter(lon[rows], lat[rows], c=of_place[rows], **style)
        _names(axes, np.column_stack([lon, lat])[rows], list(shown.named.values()))


def rgb_of(colors: Array, part: float = 0.0) -> Array:
    """Colours of the palette, given as indices, with a part of white: rows of red, green, blue."""
    return np.array([to_rgb(lighter(PALETTE[i], part)) for i in colors])


def to_degrees(vectors: Array) -> tuple[Array, Array]:
    """Return longitudes and latitudes of unit vectors: x at (0, 0), z at the north pole."""
    lon = np.degrees(np.arctan2(vectors[:, 1], vectors[:, 0]))
    return lon, np.degrees(np.arcsin(np.clip(vectors[:, 2], -1, 1)))


def tint(axes: Axes, centers: Array, colors: Array) -> None:
    """Give each pixel a tint of the colour of its nearest centre, on the sphere."""
    lon = np.radians(np.linspace(-180, 180, 1440, endpoint=False) + 0.125)
    lat = np.radians(np.linspace(NORTH, SOUTH, 524))[:, None]
    grid = [np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat) + 0 * lon]
    region = np.argmax(np.stack(grid, axis=-1) @ centers.T, axis=-1)
    background = np.array(to_rgb(BACKGROUND))
    tint = background + 0.17 * (colors[region] - background)
    axes.imshow(tint, extent=(-180, 180, SOUTH, NORTH), aspect=1.15, interpolation="bilinear")


def _names(axes: Axes, spots: Array, names: Sequence[str]) -> None:
    """Write each name on the first side of its spot where it covers no other name or spot."""
    pixels = axes.transData.transform(spots)
    taken = [Bbox.from_bounds(x - 8, y - 8, 16, 16) for x, y in pixels]
    for spot, name in zip(spots, names, strict=True):
        for side in SIDES:
            text = _write(axes, spot, name, *side)
            box = text.get_window_extent()
            if not box.count_overlaps(taken):
                break
            text.remove()
        else:
            text = _write(axes, spot, name, *SIDES[0])
        taken.append(text.get_window_extent())


def _write(axes: Axes, spot: Array, name: str, dx: int, dy: int, ha: str, va: str) -> Annotation:
    style: dict[str, Any] = {"ha": ha, "va": va, "multialignment": ha, "zorder": 5}
    outline = patheffects.withStroke(linewidth=3.5, foreground=BACKGROUND)
    return axes.annotate(
        name, (spot[0], spot[1]), (dx, dy), textcoords="offset points", color=WHITE, size=11,
        weight="bold", linespacing=1.15, path_effects=[outline], **style,
    )  # fmt: skip


def _frame(axes: Axes, title: str, subtitle: str) -> None:
    axes.set(xlim=(-180, 180), ylim=(SOUTH, NORTH), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    axes.set_title(title, loc="left", size=21, weight="bold", color=WHITE, pad=30)
    axes.text(0, 1.015, subtitle, transform=axes.transAxes, color=GREY, size=11.5, va="bottom")


@contextmanager
def picture(
    path: str | Path, size: tuple[float, float], paper: str = PAPER, columns: int = 1
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure without a window and its axes, side by side; write it as PNG, SVG or PDF.

    The same picture gives the same bytes.
    """
    kind, style = Path(path).suffix[1:] or "png", {"facecolor": paper}
    margins = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15)  # in inches
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=size, facecolor=paper, layout=margins)
        FigureCanvasAgg(figure)
        yield figure, list(figure.subplots(1, columns, squeeze=False, subplot_kw=style)[0])
        figure.savefig(path, dpi=150, format=kind, metadata=METADATA.get(kind))
