"""Draws a road network on a dark map: each street in the colour of its facility."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection

from kvariates.palette import Array
from kvariates.report.colors import spread_colors
from kvariates.report.picture import new_figure, png_bytes
from kvariates.report.worldmap import BACKGROUND, BRIGHTER, GREY, WHITE, rgb_of

INCHES, LETTERS = 7.6, 9.5


@dataclass(frozen=True, eq=False)
class Roads:
    """Streets between crossings, whose places are (longitude, latitude), and facilities."""

    places: Array  # (n, 2)
    streets: Array  # (m, 2), pairs of crossings
    labels: Array  # (n,): the facility of each crossing
    facilities: Array  # (k,): crossings
    title: str
    subtitle: str


def road_map(roads: Roads) -> bytes:
    """The map as a PNG file."""
    spots = roads.places[roads.facilities]
    colors = rgb_of(spread_colors(spots), BRIGHTER)
    low, high = roads.places.min(axis=0), roads.places.max(axis=0)
    narrowing = float(np.cos(np.radians((low[1] + high[1]) / 2)))
    height = INCHES * (high[1] - low[1]) / ((high[0] - low[0]) * narrowing)
    figure = new_figure((INCHES, height + 0.9), BACKGROUND)
    axes = figure.subplots()
    lines = roads.places[roads.streets]
    of_street = roads.labels[roads.streets[:, 0]]
    for width, alpha in ((2.6, 0.10), (0.7, 0.9)):  # a glow below the streets
        axes.add_collection(
            LineCollection(list(lines), colors=colors[of_street], linewidths=width, alpha=alpha)
        )
    x, y = spots.T
    axes.scatter(x, y, s=210, c=BACKGROUND, ec=WHITE, linewidths=1.8, zorder=3)
    style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "weight": "bold"}
    for i in range(len(spots)):
        axes.text(x[i], y[i], str(i), color=WHITE, size=LETTERS, zorder=4, **style)
    axes.set(xticks=[], yticks=[], facecolor=BACKGROUND, aspect=1 / narrowing)
    axes.margins(0.02)
    axes.autoscale_view()
    axes.spines[:].set_visible(False)
    axes.set_title(roads.title, loc="left", size=15, weight="bold", color=WHITE, pad=20)
    style = {"color": GREY, "size": LETTERS, "va": "bottom"}
    axes.text(0, 1.008, roads.subtitle, transform=axes.transAxes, **style)
    return png_bytes(figure, 140)
