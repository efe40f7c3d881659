"""Draws several small maps of the world side by side: the same places, other centres."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from kvariates.palette import Array
from kvariates.report.colors import spread_colors
from kvariates.report.picture import new_figure, png_bytes
from kvariates.report.worldmap import (
    BACKGROUND,
    BRIGHTER,
    GREY,
    NORTH,
    SOUTH,
    WHITE,
    rgb_of,
    tint,
    to_degrees,
)

COLUMNS = 2


@dataclass(frozen=True, eq=False)
class SmallMap:
    """A title, a second line, and centres as unit vectors. Map by map, centre i has one colour."""

    title: str
    subtitle: str
    centers: Array


def small_maps(places: Array, maps: Sequence[SmallMap]) -> bytes:
    """The maps as a PNG file: each place has the colour of its nearest centre."""
    colors = spread_colors(maps[0].centers)
    rows = -(-len(maps) // COLUMNS)
    figure = new_figure((13, 3.15 * rows), BACKGROUND, 0.12)
    for axes in figure.subplots(rows, COLUMNS, squeeze=False).ravel()[len(maps) :]:
        axes.set_visible(False)
    for axes, shown in zip(figure.axes, maps, strict=False):
        _map(axes, places, shown, colors)
    return png_bytes(figure, 110)


def _map(axes: Axes, places: Array, shown: SmallMap, color: Array) -> None:
    tint(axes, shown.centers, rgb_of(color))
    lon, lat = to_degrees(places)
    labels = np.argmax(places @ shown.centers.T, axis=1)
    style: dict[str, Any] = {"alpha": 0.5, "linewidths": 0}
    axes.scatter(lon, lat, s=0.9, c=rgb_of(color, BRIGHTER)[labels], **style)
    axes.plot(*to_degrees(shown.centers), "+", color=WHITE, ms=6, mew=1.3)
    axes.set(xlim=(-180, 180), ylim=(SOUTH, NORTH), xticks=[], yticks=[], facecolor=BACKGROUND)
    axes.spines[:].set_visible(False)
    axes.set_title(shown.title, loc="left", size=13, weight="bold", color=WHITE)
    axes.set_title(shown.subtitle, loc="right", size=10, color=GREY)
