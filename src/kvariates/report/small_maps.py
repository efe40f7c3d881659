"""Draws several small maps of the world side by side: the same places, other centres."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from kvariates.palette import PALETTE, Array
from kvariates.report.colors import spread_colors
from kvariates.report.worldmap import BACKGROUND, GREY, NORTH, SOUTH, WHITE, tint, to_degrees

COLUMNS = 2


@dataclass(frozen=True, eq=False)
class SmallMap:
    """A title, a second line, and centres as unit vectors. Map by map, centre i has one colour."""

    title: str
    subtitle: str
    centers: Array


def small_maps(places: Array, maps: Sequence[SmallMap]) -> bytes:
    """The maps as a PNG file: each place has the colour of its nearest centre."""
    colors = np.array([to_rgb(PALETTE[i]) for i in spread_colors(maps[0].centers)])
    rows = -(-len(maps) // COLUMNS)
    margins = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(13, 3.15 * rows), facecolor=BACKGROUND, layout=margins)
    FigureCanvasAgg(figure)
    for axes in figure.subplots(rows, COLUMNS, squeeze=False).ravel()[len(maps) :]:
        axes.set_visible(False)
    for axes, shown in zip(figure.axes, maps, strict=False):
        _map(axes, places, shown, colors)
    file = io.BytesIO()
    figure.savefig(file, dpi=110, format="png", metadata={"Software": "kvariates"})
    return file.getvalue()


def _map(axes: Axes, places: Array, shown: SmallMap, colors: Array) -> None:
    tint(axes, shown.centers, colors)
    lon, lat = to_degrees(places)
    labels = np.argmax(places @ shown.centers.T, axis=1)
    bright = colors + 0.22 * (1 - colors)
    style: dict[str, Any] = {"alpha": 0.5, "linewidths": 0}
    axes.scatter(lon, lat, s=0.9, c=bright[labels], **style)
    axes.plot(*to_degrees(shown.centers), "+", color=WHITE, ms=6, mew=1.3)
    axes.set(xlim=(-180, 180), ylim=(SOUTH, NORTH), xticks=[], yticks=[], facecolor=BACKGROUND)
    axes.spines[:].set_visible(False)
    axes.set_title(shown.title, loc="left", size=13, weight="bold", color=WHITE)
    axes.set_title(shown.subtitle, loc="right", size=10, color=GREY)
