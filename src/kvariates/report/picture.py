"""Draws a clustering: at most 20,000 points in two dimensions, coloured by cluster.

More than two features are projected on their first two principal directions. Clusters are also
told apart without colour: each centre has its number, and the legend repeats it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D

Array = npt.NDArray[Any]

# Twelve colours, 0.1 or more apart in OKLab for normal, protan and deutan eyes.
PALETTE = (
    "#3977c2", "#cc8200", "#059499", "#d13e53", "#9d92f4", "#f7d22e",
    "#4bd2ff", "#893d0a", "#d5b25a", "#932c7e", "#3943bf", "#efa5ba",
)  # fmt: skip
PAPER, INK, FAINT = "#fcfbf8", "#22262e", "#8a8f99"
MOST_POINTS = 20_000
MOST_IN_LEGEND = 24
MOST_NUMBERED = 40
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "font.family": "sans-serif",
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
}


@dataclass(frozen=True, eq=False)
class Plane:
    """Points and centres in two dimensions, and the names of the two axes."""

    points: Array
    centers: Array
    axes: tuple[str, str]


def draw(
    X: Array,
    labels: Array,
    centers: Array,
    path: str | Path,
    names: tuple[str, ...] | None = None,
    *,
    subtitle: str = "",
) -> None:
    """Draw a clustering into a PNG file.

    At most 20,000 rows, drawn at random, are shown. `names` are those of the features, for the
    axes; `subtitle` is a second, smaller line under the title.
    """
    n, k = len(X), len(centers)
    sizes = np.bincount(labels, minlength=k)
    shown = shown_rows(n)
    plane = _plane(X[shown], centers, names or tuple(f"x{j}" for j in range(X.shape[1])))
    with picture(path, (9.6, 6.6)) as (_, [axes]):
        colors = np.array(PALETTE)[spread_colors(plane.centers)]
        x, y = plane.points.T
        style: dict[str, Any] = {"alpha": 0.55, "linewidths": 0, "rasterized": True}
        size = float(np.clip(9000 / max(len(shown), 1), 3, 36))
        axes.scatter(x, y, s=size, c=colors[labels[shown]], **style)
        _mark_centers(axes, plane.centers, colors)
        axes.set_xlabel(plane.axes[0])
        axes.set_ylabel(plane.axes[1])
        if not plane.axes[1]:
            axes.set_yticks([])
        axes.spines[["top", "right"]].set_visible(False)
        _heading(axes, n, k, len(shown), subtitle)
        _legend(axes, sizes, colors)


@contextmanager
def picture(
    path: str | Path, size: tuple[float, float], paper: str = PAPER, columns: int = 1
) -> Iterator[tuple[Figure, list[Axes]]]:
    """Yield a figure without a window and its axes, side by side; write it as a PNG file.

    The same picture gives the same bytes.
    """
    with mpl.rc_context(STYLE):
        margins = ConstrainedLayoutEngine(w_pad=0.15, h_pad=0.15)
        figure = Figure(figsize=size, facecolor=paper, layout=margins)
        FigureCanvasAgg(figure)
        style = {"facecolor": paper}
        yield figure, list(figure.subplots(1, columns, squeeze=False, subplot_kw=style)[0])
        figure.savefig(path, dpi=150, format="png", metadata={"Software": "kvariates"})


def spread_colors(centers: Array) -> Array:
    """Return an index into the palette for each centre; centres of one colour are far apart.

    The first twelve centres get the twelve colours in order.
    """
    places = np.zeros(len(centers), dtype=np.intp)
    nearest = np.full((len(PALETTE), len(centers)), np.inf)
    for i, center in enumerate(centers):
        places[i] = nearest[:, i].argmax()
        gaps = np.square(centers - center).sum(axis=1)
        nearest[places[i]] = np.minimum(nearest[places[i]], gaps)
    return places


def shown_rows(n: int) -> Array:
    """Return the indices of the rows that are drawn: all of them, or 20,000 at random."""
    if n <= MOST_POINTS:
        return np.arange(n)
    return np.random.default_rng(0).choice(n, MOST_POINTS, replace=False)


def _plane(X: Array, centers: Array, names: tuple[str, ...]) -> Plane:
    if X.shape[1] == 1:
        # There is no second feature: random heights keep the points apart.
        jitter = np.random.default_rng(0).uniform(-1, 1, len(X))
        points = np.column_stack([X[:, 0], jitter])
        middle = np.column_stack([centers[:, 0], np.zeros(len(centers))])
        return Plane(points, middle, (names[0], ""))
    if X.shape[1] == 2:
        return Plane(X, centers, (names[0], names[1]))
    mean = X.mean(axis=0, dtype=np.float64)
    # 2,000 rows are enough for two directions of a picture, and fast for many features.
    _, spread, directions = np.linalg.svd(X[:2000] - mean, full_matrices=False)
    share = spread**2 / max(float((spread**2).sum()), np.finfo(float).tiny)
    titles = [f"principal direction {i + 1} ({share[i]:.0%} of the variance)" for i in (0, 1)]
    flat = directions[:2].T
    return Plane((X - mean) @ flat, (centers - mean) @ flat, (titles[0], titles[1]))


def _mark_centers(axes: Axes, centers: Array, colors: Array) -> None:
    x, y = centers.T
    size = 190 if len(centers) <= MOST_NUMBERED else 30
    axes.scatter(x, y, s=size, c=PAPER, edgecolors=colors.tolist(), linewidths=2.2, zorder=3)
    if len(centers) <= MOST_NUMBERED:
        style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "weight": "bold"}
        for i in range(len(centers)):
            axes.text(x[i], y[i], str(i), size=8.5, color=INK, zorder=4, **style)


def _heading(axes: Axes, n: int, k: int, shown: int, subtitle: str) -> None:
    clusters = "1 cluster" if k == 1 else f"{k:,} clusters"
    rows = "1 row" if n == 1 else f"{n:,} rows"
    parts = [subtitle, f"{shown:,} rows shown" if shown < n else ""]
    axes.set_title(f"{clusters} of {rows}", loc="left", size=15, weight="bold", color=INK, pad=26)
    axes.text(
        0, 1.02, " · ".join(part for part in parts if part),
        transform=axes.transAxes, color=FAINT, size=10, va="bottom",
    )  # fmt: skip


def _legend(axes: Axes, sizes: Array, colors: Array) -> None:
    handles = [
        Line2D([], [], marker="o", ls="", ms=8, mew=0, color=color, label=f"{i}   {size:,}")
        for i, (size, color) in enumerate(zip(sizes, colors, strict=True))
    ]
    if (more := len(handles) - MOST_IN_LEGEND) > 0:
        rest = int(sizes[MOST_IN_LEGEND:].sum())
        blank = Line2D([], [], ls="", label=f"{more} more   {rest:,}")
        handles = [*handles[:MOST_IN_LEGEND], blank]
    legend = axes.legend(
        handles=handles, title="cluster   rows", loc="upper left", bbox_to_anchor=(1.01, 1.0),
        frameon=False, labelcolor=INK, alignment="left", handletextpad=0.4,
    )  # fmt: skip
    legend.get_title().set_color(FAINT)
