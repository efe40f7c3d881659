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
from scipy.spatial import ConvexHull, QhullError

from kvariates.data.hst_tree import HstTree
from kvariates.palette import (
    FAINT,
    INK,
    MOST_VECTORS,
    PALETTE,
    Array,
    lighter,
    spread_colors,
    write_note,
)
from kvariates.report.plane import MOST_SHOWN, some_rows

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
        axes.set(xlim=(-180, 180), ylim=(SOUTH, NORTH), xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
        axes.set_title(shown.title, loc="left", size=21, weight="bold", color=WHITE, pad=30)
        small: dict[str, Any] = {"transform": axes.transAxes, "color": GREY, "size": 11.5}
        axes.text(0, 1.015, shown.subtitle, va="bottom", **small)
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


@dataclass(frozen=True)
class Top:
    """The nodes of the upper levels, in the tree's own order."""

    nodes: Array
    level: Array  # of each node; the root's is 0
    parent: Array  # as an index into `nodes`; the root's is -1
    count: Array  # the number of points of each node
    deepest: Array  # for every point the deepest node that contains it, as an index into `nodes`

    def inside(self) -> Iterator[tuple[int, Array]]:
        """Every node with its points, deepest first."""
        node_of = self.deepest
        for level in range(int(self.level.max()), -1, -1):
            for node in np.flatnonzero(self.level == level):
                yield int(node), np.flatnonzero(node_of == node)
            up = (self.level[node_of] == level) & (level > 0)
            node_of = np.where(up, self.parent[node_of], node_of)


def points_of(tree: HstTree, X: Any) -> Array:
    """The points of a tree in the plane; ValueError if X are others."""
    points = np.asarray(X, dtype=np.float64)
    if points.shape != (len(tree.leaf), 2):
        raise ValueError(
            f"X must have two columns and a row for each of the {len(tree.leaf):,} points of the "
            f"tree; its shape is {points.shape}"
        )
    return points


def _write_size(axes: Axes, tree: HstTree, top: Top) -> None:
    deep = int(top.level.max())
    write_note(
        axes,
        f"{len(tree.leaf):,} points in a tree of {tree.nodes:,} nodes; the root and "
        f"{deep} level{'' if deep == 1 else 's'} below it",
    )


def _top(tree: HstTree, levels: int) -> Top:
    level = np.full(tree.nodes, -1)
    level[0], last = 0, np.array([0])
    for depth in range(1, levels + 1):
        last = np.flatnonzero(np.isin(tree.parent, last))
        level[last] = depth
    nodes = np.flatnonzero(level >= 0)
    index = np.full(tree.nodes, -1)
    index[nodes] = np.arange(len(nodes))
    shown = np.where(level >= 0, np.arange(tree.nodes), tree.parent)
    while (shown != (above := shown[shown])).any():
        shown = above
    parent = np.where(nodes == 0, -1, index[tree.parent[nodes]])
    return Top(nodes, level[nodes], parent, tree.counts()[nodes], index[shown[tree.leaf]])


def draw_outlines(axes: Axes, tree: HstTree, X: Array, levels: int) -> None:
    """The points in the plane, and the outlines of the nodes."""
    top, shown = _top(tree, levels), some_rows(np.arange(len(X)), MOST_SHOWN)
    size = float(np.clip(4000 / len(shown), 2, 24))
    style: dict[str, Any] = {"linewidths": 0, "rasterized": len(shown) > MOST_VECTORS}
    axes.scatter(X[shown, 0], X[shown, 1], s=size, c=INK, alpha=0.6, **style)
    for node, points in top.inside():
        if len(points) > 1:
            order = 3 - 0.1 * top.level[node]
            axes.plot(*_outline(X[points]).T, alpha=0.85, zorder=order, **_line(top, node))
    axes.set_aspect("equal", adjustable="datalim")
    axes.spines[["top", "right"]].set_visible(False)
    _write_size(axes, tree, top)


def _outline(points: Array) -> Array:
    """The convex hull as a closed line; for points on a line, the line."""
    try:
        corners = points[ConvexHull(points).vertices]
        return np.vstack([corners, corners[:1]])
    except (QhullError, ValueError):
        spread = points - points.mean(axis=0)
        along = spread @ np.linalg.svd(spread, full_matrices=False)[2][0]
        return points[[along.argmin(), along.argmax()]]


def draw_branches(axes: Axes, tree: HstTree, levels: int) -> None:
    """The upper levels of a tree as branches."""
    top = _top(tree, levels)
    x, y = _positions(top), _widths(top, tree)
    for node in range(1, len(top.nodes)):
        up, style = top.parent[node], {"solid_joinstyle": "round", **_line(top, node)}
        axes.plot([x[up], x[node], x[node]], [y[up], y[up], y[node]], **style)
    size = 12 + 220 * np.sqrt(top.count / top.count[0])
    colors = [_line(top, node)["color"] for node in range(len(top.nodes))]
    axes.scatter(x, y, s=size, c="white", edgecolors=colors, linewidths=1.6, zorder=3)
    if len(top.nodes) <= 40:
        for node, count in enumerate(top.count.astype(int).tolist()):
            axes.annotate(
                f"{count:,}", (x[node], y[node]), xytext=(0, -11), textcoords="offset points",
                ha="center", va="top", size=7.5, color=FAINT,
            )  # fmt: skip
    axes.set_yscale("log", base=2)
    axes.margins(y=0.1)
    axes.set_xticks([])
    axes.set_ylabel("tree distance of points that part here")
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    _write_size(axes, tree, top)


def _positions(top: Top) -> Array:
    """Nodes without shown children side by side, the others above the mean of their children."""
    order, open_ = [], [0]
    while open_:  # parents before their children
        order.append(node := open_.pop())
        open_ += np.flatnonzero(top.parent == node)[::-1].tolist()
    childless = ~np.isin(np.arange(len(top.nodes)), top.parent)
    x = np.zeros(len(top.nodes))
    ends = [node for node in order if childless[node]]
    x[ends] = np.arange(len(ends))
    for node in reversed(order):
        if not childless[node]:
            x[node] = x[top.parent == node].mean()
    return x


def _widths(top: Top, tree: HstTree) -> Array:
    """Tree distances of points whose lowest common node it is; an infinite root is one step up."""
    finite = tree.height[tree.height + tree.log_unit < 1024]
    height = np.minimum(tree.height[top.nodes], finite.max(initial=0) + 1)
    return np.asarray(np.ldexp(tree.unit, height + 1))


def _line(top: Top, node: int) -> dict[str, Any]:
    level = int(top.level[node])
    return {"color": PALETTE[level % len(PALETTE)], "lw": 3.2 * 0.7**level}
