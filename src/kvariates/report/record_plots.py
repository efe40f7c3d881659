"""Draws a choice of k and a ledger on matplotlib's axes, for `kvariates.plot`."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter
from matplotlib.transforms import ScaledTranslation

from kvariates.k_selection import Choice
from kvariates.palette import FAINT, INK, PALETTE
from kvariates.privacy.ledger import Ledger
from kvariates.report.model_view import short_name
from kvariates.report.plots import PLAIN, new_axes, note
from kvariates.report.private_page import release_costs

MOST_BARS = 20
# Points from the axes to the legend: the numbers and the name of the axis are between.
BELOW = -34.0
COST, SILHOUETTE = PALETTE[0], PALETTE[3]


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
