"""Draws clusters on matplotlib's axes, for `kvariates.plot`.

A cluster has a colour, a marker and a number at its centre, so that fifty can be told apart, in
print and by colour-blind eyes.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from kvariates.k_selection import Choice
from kvariates.palette import FAINT, INK, MARKERS, PALETTE, Array, looks
from kvariates.privacy.ledger import Ledger
from kvariates.report.model_view import ModelView, model_view, short_name
from kvariates.report.sections import release_costs

MOST_NUMBERED = 100
MOST_IN_LEGEND, LEGEND_ROWS = 75, 25
MOST_VECTORS = 5_000  # more points than this are pixels in an SVG or PDF file
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # a $ is a $
MOST_BARS = 20
# Points from the axes to the legend: the numbers and the name of the axis are between.
BELOW = -34.0
COST, SILHOUETTE = PALETTE[0], PALETTE[3]


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


def draw_choice(choice: Choice, ax: Axes | None) -> Axes:
    """See `kvariates.plot.choice`."""
    own, ax = ax is None, new_axes(ax, (6.4, 4.4))
    ax.axvline(choice.k, color=FAINT, lw=1, ls=(0, (4, 3)), zorder=1)
    if choice.guess != choice.k:
        ax.axvline(choice.guess, color=FAINT, lw=1, ls=":", zorder=1)
    ax.plot(choice.ks, choice.inertia, color=COST, lw=1.6, zorder=2)
    for divides, fill in ((True, "white"), (False, COST)):
        at = (choice.dividing > 0) == divides
        dots: dict[str, Any] = {"mfc": fill, "mec": COST, "ms": 6, "mew": 1.4, "zorder": 3}
        ax.plot(choice.ks[at], choice.inertia[at], "o", **dots)
    if (choice.inertia > 0).any():
        ax.set_yscale("log", nonpositive="mask")
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.6g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("k")
    ax.set_ylabel("cost (inertia)", color=COST)
    ax.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    ax.spines[["top", "right"]].set_visible(False)
    if np.isfinite(choice.silhouette).any():
        _silhouette(ax, choice)
    _choice_legend(ax, choice, in_one_row=own)
    words = f"k = {choice.k}: {choice.reason}"
    note(ax, textwrap.fill(words, 84))
    return ax


def _silhouette(ax: Axes, choice: Choice) -> None:
    """On an axis from 0 to 1: differences between values near 0 mean nothing and look small."""
    right = ax.twinx()
    right.plot(choice.ks, choice.silhouette, "s--", color=SILHOUETTE, lw=1.3, ms=4.5)
    right.set_ylabel("mean silhouette", color=SILHOUETTE)
    right.set_ylim(min(0.0, float(np.nanmin(choice.silhouette))), 1.0)
    right.spines[["top", "left"]].set_visible(False)


def _choice_legend(ax: Axes, choice: Choice, *, in_one_row: bool) -> None:
    """Below the axes, where it covers no curve."""
    dot: dict[str, Any] = {"marker": "o", "color": COST, "mec": COST, "ms": 6, "mew": 1.4}
    handles = [
        Line2D([], [], mfc=COST, label="cost; no cluster divides", **dot),
        Line2D([], [], mfc="white", label="cost; some clusters divide", **dot),
    ]
    if np.isfinite(choice.silhouette).any():
        handles.append(
            Line2D([], [], marker="s", ls="--", ms=4.5, color=SILHOUETTE, label="silhouette")
        )
    if choice.guess != choice.k:
        handles.append(Line2D([], [], ls=":", color=FAINT, label=f"guess: k = {choice.guess}"))
    below = ax.transAxes + ScaledTranslation(0, BELOW / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        handles=handles, frameon=False, fontsize="small", labelcolor=INK, loc="upper center",
        bbox_to_anchor=(0.5, 0.0), bbox_transform=below, columnspacing=1.2, handletextpad=0.5,
        ncols=len(handles) if in_one_row else 1,
    )  # fmt: skip


def draw_ledger(ledger: Ledger, ax: Axes | None) -> Axes:
    """See `kvariates.plot.ledger`."""
    if any(math.isinf(charge.cost) for charge in ledger.charges):
        raise ValueError("a release costs infinitely much, so there are no shares to draw")
    names, values = _largest(release_costs(ledger))
    ax = new_axes(ax, (6.8, 1.2 + 0.34 * max(len(names), 2)))
    places = np.arange(len(names))
    ax.barh(places, values, height=0.62, color=PALETTE[0], zorder=2)
    total = sum(values)
    for place, value in enumerate(values):
        share = f" {value:.3g} ({value / total:.0%})" if total else " 0"
        ax.text(value, place, share, va="center", size="small", color=INK)
    ax.set_yticks(places, [textwrap.fill(name, 40) for name in names], **PLAIN)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.28 * max(values, default=0.0) or 1.0)
    unit = "rho of zCDP" if ledger.concentrated else "epsilon"
    ax.set_xlabel(f"{unit}; the bars add up to {total:.4g}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    note(ax, f"{ledger.claim.words()} ({ledger.adjacency})")
    return ax


def _largest(costs: dict[str, float]) -> tuple[list[str], list[float]]:
    """At most 20 bars, the largest first; the smallest kinds share the last one."""
    ordered = sorted(costs.items(), key=lambda item: -item[1])
    if len(ordered) > MOST_BARS:
        rest = ordered[MOST_BARS - 1 :]
        last = (f"{len(rest)} other kinds of releases", sum(cost for _, cost in rest))
        ordered = [*ordered[: MOST_BARS - 1], last]
    return [short_name(kind) for kind, _ in ordered], [cost for _, cost in ordered]
