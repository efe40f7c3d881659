"""Plots for papers and notebooks. Each function returns matplotlib's Axes.

    from kvariates import plot

    ax = plot.clusters(model, X)
    ax.figure.savefig("clusters.svg")  # or .pdf, .png

Without `ax` a new figure of pyplot is made. Colours can be told apart by colour-blind eyes, and
clusters and groups have markers or numbers too. Needs matplotlib: pip install 'kvariates[plot]'.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kvariates.extras import needed
from kvariates.palette import (
    FAINT,
    INK,
    MARKERS,
    MOST_VECTORS,
    PALETTE,
    PLAIN,
    Look,
    looks,
    one_line,
    write_note,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kvariates.balancing.group_balance import GroupBalance
    from kvariates.data.hst_tree import HstTree
    from kvariates.k_selection import Choice
    from kvariates.privacy.ledger import Ledger
    from kvariates.report.model_report import ModelView

__all__ = ["balance", "choice", "clusters", "ledger", "tree"]

MOST_NUMBERED = 100
MOST_IN_LEGEND, LEGEND_ROWS = 75, 25
MOST_BARS = 20
BELOW = -34.0  # points from the axes to the legend: numbers and the name of the axis are between
COST, SILHOUETTE = PALETTE[0], PALETTE[3]


def clusters(model: Any, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw rows in the colours of their clusters, and the centres with their numbers.

    Two columns are drawn as they are, more on their first two principal directions. A few far rows
    do not change the limits of the axes; how many are not shown is written above the axes. At most
    20,000 rows are drawn, chosen at random.

    Parameters
    ----------
    model : estimator
        Fitted, with `cluster_centers_` or `medoid_indices_`. A model of private rows can be drawn
        without X: its centres, and areas that show its noisy counts.
    X : array-like or CSR matrix of shape (n_samples, n_features), default=None
        The rows, which are labelled by ``predict``; by `labels_` if the model has size limits and
        X has as many rows as the fit. For `VerticalKMeans`: a list of the columns of each party.
        For ``metric="graph"`` and "precomputed": coordinates of the points of the fit. None: only
        centres are drawn.
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None. Only a new figure has a legend with the sizes.

    Returns
    -------
    ax : matplotlib Axes
    """
    needed("matplotlib", "plot")
    from kvariates.report.model_report import model_view

    view = model_view(model, X)
    own, ax = ax is None, _axes(ax, (8.0, 5.6))
    plane = view.plane
    look = looks(plane.centers, len(MARKERS))
    _points(ax, view, look)
    _centers(ax, view, look)
    ax.set(xlim=plane.limits[0], ylim=plane.limits[1])
    ax.set_xlabel(plane.axes[0], **PLAIN)
    ax.set_ylabel(plane.axes[1], **PLAIN)
    if not plane.axes[1]:
        ax.set_yticks([])
    if plane.degrees and plane.aspect is not None:
        ax.set_box_aspect(1 / plane.aspect)
    ax.spines[["top", "right"]].set_visible(False)
    if words := _about_view(view):
        write_note(ax, "\n".join(words))
    if own:
        _legend(ax, view, look)
    return ax


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes that were given, or those of a new figure."""
    if ax is not None:
        return ax
    made: Axes = needed("matplotlib.pyplot", "plot").subplots(figsize=size, layout="constrained")[1]
    return made


def _points(ax: Axes, view: ModelView, look: tuple[Look, ...]) -> None:
    points, labels = view.plane.points, view.labels
    size = float(np.clip(9000 / max(len(points), 1), 4, 30))
    style: dict[str, Any] = {"linewidths": 0, "rasterized": len(points) > MOST_VECTORS}
    if (labels < 0).any():
        x, y = points[labels < 0].T
        ax.scatter(x, y, s=size, c=FAINT, marker=".", zorder=1, **style)
    color, marker = np.array(look).T
    of_row = np.where(labels < 0, -1, marker[labels]) if len(labels) else labels
    for i in np.unique(of_row[of_row >= 0]):
        rows = np.flatnonzero(of_row == i)
        ax.scatter(
            points[rows, 0], points[rows, 1], s=size, c=np.array(PALETTE)[color[labels[rows]]],
            marker=MARKERS[i], alpha=0.6, zorder=2, **style,
        )  # fmt: skip


def _centers(ax: Axes, view: ModelView, look: tuple[Look, ...]) -> None:
    """Draw centres, those outside of the limits at the edge, and numbers."""
    centers, colors = view.plane.centers, [PALETTE[color] for color, _ in look]
    low, high = np.array(view.plane.limits).T
    margin = 0.03 * (high - low)
    far = view.plane.outside(centers)[:, None]
    spots = np.where(far, np.clip(centers, low + margin, high - margin), centers)
    few, numbered = len(centers) <= 30, len(centers) <= MOST_NUMBERED
    size: Any = 150.0 if few else 85.0 if numbered else 12.0
    if not view.rows and view.sizes is not None:  # areas show the counts
        size = 60 + 900 * np.maximum(view.sizes, 0) / max(float(np.max(view.sizes)), 1e-300)
    x, y = spots.T
    ax.scatter(x, y, s=size, zorder=3, c="white", edgecolors=colors, linewidths=1.8)
    if numbered:
        style: dict[str, Any] = {"ha": "center", "va": "center_baseline", "weight": "bold"}
        style |= {"size": 8.5 if few else 6.5, "zorder": 4, "color": INK}
        for i, (x, y) in enumerate(spots):
            ax.text(x, y, str(i), **style)


def _about_view(view: ModelView) -> list[str]:
    """What the reader must know about the picture."""
    n, words = len(view.plane.points), list[str]()
    far, at_edge = (
        np.count_nonzero(view.plane.outside(places))
        for places in (view.plane.points, view.plane.centers)
    )
    if view.private and view.rows:
        words.append("the rows drawn are not private: do not publish this picture")
    elif view.private:
        words.append("centres of a private fit; areas show noisy counts")
    parts = [f"{n:,} of {view.rows:,} rows drawn"] if n < view.rows else []
    if far:
        parts.append(f"{far:,} far {'row is' if far == 1 else 'rows are'} outside of the axes")
    if at_edge:
        parts.append(f"{at_edge:,} far {'centre' if at_edge == 1 else 'centres'} at the edge")
    return words + ([" · ".join(parts)] if parts else [])


def _legend(ax: Axes, view: ModelView, look: tuple[Look, ...]) -> None:
    from matplotlib.lines import Line2D

    k, sizes = len(look), view.sizes
    handles, style = [], dict[str, Any](ls="", ms=7, mew=0)
    for i, (color, marker) in enumerate(look[:MOST_IN_LEGEND]):
        label = f"{i}" if sizes is None else f"{i}   {round(float(sizes[i])):,}"
        dot = Line2D([], [], marker=MARKERS[marker], color=PALETTE[color], label=label, **style)
        handles.append(dot)
    if k > MOST_IN_LEGEND:
        handles.append(Line2D([], [], ls="", label=f"{k - MOST_IN_LEGEND:,} more"))
    what = "cluster" + ("" if sizes is None else "   rows" if view.rows else "   noisy count")
    legend = ax.legend(
        handles=handles, title=what, loc="upper left", bbox_to_anchor=(1.01, 1.0),
        ncols=math.ceil(min(k, MOST_IN_LEGEND) / LEGEND_ROWS), frameon=False, fontsize="small",
        alignment="left", handletextpad=0.3, labelcolor=INK,
    )  # fmt: skip
    legend.get_title().set_fontsize("small")


def choice(choice: Choice, ax: Axes | None = None) -> Axes:
    """Draw a choice of k, the result of ``choose_k``: cost and silhouette for each k.

    The cost has filled dots where no cluster divides, and hollow ones elsewhere. A dashed line is
    at the suggested k. The silhouette has an axis of its own on the right, from 0 to 1.
    """
    from kvariates.k_selection import Choice

    _check("choice", choice, Choice, "the result of choose_k")
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    own, ax = ax is None, _axes(ax, (6.4, 4.4))
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
    write_note(ax, textwrap.fill(f"k = {choice.k}: {choice.reason}", 84))
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
    from matplotlib.lines import Line2D
    from matplotlib.transforms import ScaledTranslation

    dot: dict[str, Any] = {"marker": "o", "color": COST, "mec": COST, "ms": 6, "mew": 1.4}
    handles = [
        Line2D([], [], mfc=COST, label="cost; no cluster divides", **dot),
        Line2D([], [], mfc="white", label="cost; some clusters divide", **dot),
    ]
    if np.isfinite(choice.silhouette).any():
        square: dict[str, Any] = {"marker": "s", "ls": "--", "ms": 4.5, "color": SILHOUETTE}
        handles.append(Line2D([], [], label="silhouette", **square))
    if choice.guess != choice.k:
        handles.append(Line2D([], [], ls=":", color=FAINT, label=f"guess: k = {choice.guess}"))
    below = ax.transAxes + ScaledTranslation(0, BELOW / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        handles=handles, frameon=False, fontsize="small", labelcolor=INK, loc="upper center",
        bbox_to_anchor=(0.5, 0.0), bbox_transform=below, columnspacing=1.2, handletextpad=0.5,
        ncols=len(handles) if in_one_row else 1,
    )  # fmt: skip


def balance(balance: GroupBalance, ax: Axes | None = None) -> Axes:
    """Draw the balance of groups, ``AntiClustering().fit(X).balance_``.

    Each column has a row, and each group a dot in it: the mean of the group minus the mean of all
    rows, in standard deviations of all rows. A category counts as a column of 0 and 1. Groups that
    were drawn at random would have differences of about the width of the grey band.

    Up to 12 groups have colours and markers. Of more groups, the numbers of the two at the ends of
    each row are written. At most 40 columns are drawn, those with the largest differences.
    """
    from kvariates.balancing.group_balance import GroupBalance

    _check("balance", balance, GroupBalance, "balance_ of a fitted AntiClustering")
    return cast("Axes", balance.plot(ax))


def ledger(ledger: Ledger, ax: Axes | None = None) -> Axes:
    """Draw where the budget of a private fit went: a bar for each kind of release.

    The bars add up to the total of the ledger: charges about disjoint rows cost their maximum.
    """
    from kvariates.privacy.ledger import Ledger
    from kvariates.report.sections import release_costs

    _check("ledger", ledger, Ledger, "ledger_ of a private model")
    if any(math.isinf(charge.cost) for charge in ledger.charges):
        raise ValueError("a release costs infinitely much, so there are no shares to draw")
    kinds = _largest(release_costs(ledger))
    ax = _axes(ax, (6.8, 1.2 + 0.34 * max(len(kinds), 2)))
    places, values = np.arange(len(kinds)), [cost for _, cost in kinds]
    ax.barh(places, values, height=0.62, color=PALETTE[0], zorder=2)
    total = sum(values)
    for place, value in enumerate(values):
        share = f" {value:.3g} ({value / total:.0%})" if total else " 0"
        ax.text(value, place, share, va="center", size="small", color=INK)
    ax.set_yticks(places, [textwrap.fill(one_line(name), 40) for name, _ in kinds], **PLAIN)
    ax.invert_yaxis()
    ax.set_xlim(0, 1.28 * max(values, default=0.0) or 1.0)
    unit = "rho of zCDP" if ledger.concentrated else "epsilon"
    ax.set_xlabel(f"{unit}; the bars add up to {total:.4g}")
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    write_note(ax, f"{ledger.claim.words()} ({ledger.adjacency})")
    return ax


def _largest(costs: dict[str, float]) -> list[tuple[str, float]]:
    """At most 20 kinds of releases, the largest first; the smallest kinds share the last one."""
    ordered = sorted(costs.items(), key=lambda item: -item[1])
    if len(ordered) <= MOST_BARS:
        return ordered
    rest = ordered[MOST_BARS - 1 :]
    last = (f"{len(rest)} other kinds of releases", sum(cost for _, cost in rest))
    return [*ordered[: MOST_BARS - 1], last]


def tree(tree: HstTree, ax: Axes | None = None, *, X: Any = None, levels: int = 4) -> Axes:
    """Draw the upper levels of a tree, the result of ``hst_tree``.

    Parameters
    ----------
    tree : HstTree
    ax : matplotlib Axes, default=None
        Where to draw; a new figure if None.
    X : array-like of shape (n_points, 2), default=None
        The points of the tree in the plane. If given, the points and the outlines of the nodes are
        drawn instead of branches.
    levels : int, default=4
        How many levels below the root are drawn.
    """
    from kvariates.data.hst_tree import HstTree

    _check("tree", tree, HstTree, "the result of hst_tree")
    from kvariates.report.pictures import draw_branches, draw_outlines, points_of

    if X is None:
        ax = _axes(ax, (6.8, 4.8))
        draw_branches(ax, tree, levels)
    else:
        points = points_of(tree, X)
        ax = _axes(ax, (6.2, 5.4))
        draw_outlines(ax, tree, points, levels)
    return ax


def _check(function: str, given: Any, kind: type, where: str) -> None:
    needed("matplotlib", "plot")
    if not isinstance(given, kind):
        raise TypeError(
            f"plot.{function} draws a {kind.__name__}, {where}; got {type(given).__name__}"
        )
