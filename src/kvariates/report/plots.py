"""Draws clusters on matplotlib's axes, for `kvariates.plot`.

A cluster has a colour, a marker and a number at its centre, so that fifty can be told apart, in
print and by colour-blind eyes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from kvariates.palette import FAINT, INK, MARKERS, PALETTE, Array
from kvariates.report.colors import looks
from kvariates.report.model_view import ModelView, model_view

MOST_NUMBERED = 100
MOST_IN_LEGEND, LEGEND_ROWS = 75, 25
MOST_VECTORS = 5_000  # more points than this are pixels in an SVG or PDF file
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # a $ is a $


@dataclass(frozen=True, eq=False)
class ClusterStyles:
    """The colour and the marker of each cluster, as indices into PALETTE and MARKERS."""

    color: Array
    marker: Array


def cluster_styles(centers: Array) -> ClusterStyles:
    """Styles for centres in the plane; those of the first 96 clusters all differ."""
    return ClusterStyles(*np.array(looks(centers, len(MARKERS)), dtype=np.intp).T)


def new_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    made: Axes = plt.subplots(figsize=size, layout="constrained")[1]
    return made


def note(ax: Axes, words: str) -> None:
    """Write small words above the axes."""
    style: dict[str, Any] = {"color": FAINT, "size": "small", "ha": "left", "va": "bottom"}
    ax.text(0, 1.01, words, transform=ax.transAxes, **style, **PLAIN)


def draw_clusters(model: Any, X: Any, ax: Axes | None) -> Axes:
    """See `kvariates.plot.clusters`."""
    view = model_view(model, X)
    own, ax = ax is None, new_axes(ax, (8.0, 5.6))
    plane, limits = view.plane, np.array(view.plane.limits)
    styles = cluster_styles(plane.centers)
    _points(ax, view, styles)
    at_edge = _centers(ax, view, styles, limits)
    ax.set(xlim=limits[0], ylim=limits[1])
    ax.set_xlabel(plane.axes[0], **PLAIN)
    ax.set_ylabel(plane.axes[1], **PLAIN)
    if not plane.axes[1]:
        ax.set_yticks([])
    if plane.degrees and plane.aspect is not None:
        ax.set_box_aspect(1 / plane.aspect)
    ax.spines[["top", "right"]].set_visible(False)
    if words := _notes(view, at_edge):
        note(ax, "\n".join(words))
    if own:
        _legend(ax, view, styles)
    return ax


def _points(ax: Axes, view: ModelView, styles: ClusterStyles) -> None:
    points, labels = view.plane.points, view.labels
    size = float(np.clip(9000 / max(len(points), 1), 4, 30))
    style: dict[str, Any] = {"linewidths": 0, "rasterized": len(points) > MOST_VECTORS}
    if (labels < 0).any():
        x, y = points[labels < 0].T
        ax.scatter(x, y, s=size, c=FAINT, marker=".", zorder=1, **style)
    colors = np.array(PALETTE)[styles.color]
    of_row = np.where(labels < 0, -1, styles.marker[labels]) if len(labels) else labels
    for i in np.unique(of_row[of_row >= 0]):
        rows = np.flatnonzero(of_row == i)
        ax.scatter(
            points[rows, 0], points[rows, 1], s=size, c=colors[labels[rows]], marker=MARKERS[i],
            alpha=0.6, zorder=2, **style,
        )  # fmt: skip


def _centers(ax: Axes, view: ModelView, styles: ClusterStyles, limits: Array) -> int:
    """Draw centres and numbers. Returns how many are outside of the limits, drawn at the edge."""
    centers, colors = view.plane.centers, np.array(PALETTE)[styles.color]
    margin = 0.03 * (limits[:, 1] - limits[:, 0])
    far = np.any((centers < limits[:, 0]) | (centers > limits[:, 1]), axis=1)
    inside = np.clip(centers, limits[:, 0] + margin, limits[:, 1] - margin)
    spots = np.where(far[:, None], inside, centers)
    numbered = len(centers) <= MOST_NUMBERED
    size: Any = 150.0 if len(centers) <= 30 else 85.0
    if not view.rows and view.sizes is not None:  # areas show the counts
        share = np.maximum(view.sizes, 0) / max(float(np.max(view.sizes)), 1e-300)
        size = 60 + 900 * share
    elif not numbered:
        size = 12.0
    x, y = spots.T
    style: dict[str, Any] = {"c": "white", "edgecolors": colors.tolist(), "linewidths": 1.8}
    ax.scatter(x, y, s=size, zorder=3, **style)
    if numbered:
        letters = 8.5 if len(centers) <= 30 else 6.5
        style = {"ha": "center", "va": "center_baseline", "weight": "bold", "color": INK}
        for i in range(len(spots)):
            ax.text(x[i], y[i], str(i), size=letters, zorder=4, **style)
    return int(far.sum())


def _notes(view: ModelView, at_edge: int) -> list[str]:
    """What the reader must know about the picture."""
    n, far, words = len(view.plane.points), view.plane.n_outside, list[str]()
    if view.private and view.rows:
        words.append("the rows drawn are not private: do not publish this picture")
    elif view.private:
        words.append("centres of a private fit; areas show noisy counts")
    parts = []
    if n < view.rows:
        parts.append(f"{n:,} of {view.rows:,} rows drawn")
    if far:
        parts.append(f"{far:,} far {'row is' if far == 1 else 'rows are'} outside of the axes")
    if at_edge:
        parts.append(f"{at_edge:,} far {'centre' if at_edge == 1 else 'centres'} at the edge")
    return words + ([" · ".join(parts)] if parts else [])


def _legend(ax: Axes, view: ModelView, styles: ClusterStyles) -> None:
    k, sizes = len(view.plane.centers), view.sizes
    counts = [""] * k if sizes is None else [f"   {round(float(size)):,}" for size in sizes]
    handles = [
        Line2D(
            [], [], marker=MARKERS[styles.marker[i]], ls="", ms=7, mew=0,
            color=PALETTE[styles.color[i]], label=f"{i}{counts[i]}",
        )
        for i in range(k)
    ]  # fmt: skip
    if k > MOST_IN_LEGEND:
        rest = Line2D([], [], ls="", label=f"{k - MOST_IN_LEGEND:,} more")
        handles = [*handles[:MOST_IN_LEGEND], rest]
    what = "cluster" + ("" if sizes is None else "   rows" if view.rows else "   noisy count")
    legend = ax.legend(
        handles=handles, title=what, loc="upper left", bbox_to_anchor=(1.01, 1.0),
        ncols=math.ceil(min(k, MOST_IN_LEGEND) / LEGEND_ROWS), frameon=False, fontsize="small",
        alignment="left", handletextpad=0.3, labelcolor=INK,
    )  # fmt: skip
    legend.get_title().set_fontsize("small")
