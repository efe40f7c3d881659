"""Draws a 2-HST on matplotlib's axes, for `kvariates.plot.tree`.

As branches: a node's height is its width in the tree metric, and its dot grows with the number of
its points. In the plane: the points and the hull of every node, with thinner lines from level to
level, in the same colours. Deeper levels are not drawn, but their points are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from scipy.spatial import ConvexHull, QhullError

from kvariates.data.hst_tree import HstTree
from kvariates.palette import FAINT, INK, MOST_VECTORS, PALETTE, Array, write_note
from kvariates.report.plane import MOST_SHOWN, some_rows


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
    order = _preorder(top)
    childless = ~np.isin(np.arange(len(top.nodes)), top.parent)
    x = np.zeros(len(top.nodes))
    ends = [node for node in order if childless[node]]
    x[ends] = np.arange(len(ends))
    for node in reversed(order):
        if not childless[node]:
            x[node] = x[top.parent == node].mean()
    return x


def _preorder(top: Top) -> list[int]:
    order, open_ = [], [0]
    while open_:
        node = open_.pop()
        order.append(node)
        open_ += np.flatnonzero(top.parent == node)[::-1].tolist()
    return order


def _widths(top: Top, tree: HstTree) -> Array:
    """Tree distances of points whose lowest common node it is; an infinite root is one step up."""
    finite = tree.height[tree.height + tree.log_unit < 1024]
    height = np.minimum(tree.height[top.nodes], finite.max(initial=0) + 1)
    widths: Array = np.ldexp(tree.unit, height + 1)
    return widths


def _line(top: Top, node: int) -> dict[str, Any]:
    level = int(top.level[node])
    return {"color": PALETTE[level % len(PALETTE)], "lw": 3.2 * 0.7**level}
