"""Draws a choice of k: each criterion as a curve over k, and the suggested k.

A dashed line marks the suggested k in every curve, and a filled dot the k that elbow and silhouette
prefer. The title gives the reason.
"""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from ..k_selection import Choice
from .picture import FAINT, INK, PALETTE, PAPER, Array, picture


def draw(choice: Choice, path: str | Path) -> None:
    """Draw the criteria of a choice, the result of `kvariates.choose_k`, into a PNG file."""
    with picture(path, (12.0, 4.4), columns=3) as (figure, [left, middle, right]):
        _curve(left, choice, choice.inertia, choice.elbow, PALETTE[0])
        if choice.inertia.any():
            _logarithmic(left)
        _name(left, "inertia", "the dot: the elbow, deepest below the curve's chord")
        _curve(middle, choice, choice.silhouette, choice.silhouette, PALETTE[1])
        _name(middle, "silhouette", "the dot: the largest mean, over sampled rows")
        _curve(right, choice, choice.dividing, None, PALETTE[2])
        _name(right, "clusters that divide", "none at the suggested k, if it is clear")
        clusters = "1 cluster" if choice.k == 1 else f"{choice.k:,} clusters"
        reason = textwrap.fill(choice.reason, 110)
        title = {"x": 0.01, "ha": "left", "color": INK}
        figure.suptitle(f"{clusters}: {reason}", size=12, weight="bold", **title)


def _curve(axes: Axes, choice: Choice, values: Array, merit: Array | None, color: str) -> None:
    """Draw a criterion; the dot marks the largest `merit`, if there is one."""
    axes.axvline(choice.k, color=FAINT, lw=1, ls=(0, (4, 3)), zorder=1)
    shown = np.isfinite(values)
    dots: dict[str, Any] = {"marker": "o", "ms": 4.5, "mfc": PAPER, "mew": 1.4}
    axes.plot(choice.ks[shown], values[shown], color=color, lw=1.8, zorder=2, **dots)
    if merit is not None and np.isfinite(merit).any():
        best = int(np.nanargmax(merit))
        axes.plot(choice.ks[best], values[best], "o", ms=9, color=color, mew=0, zorder=3)
    axes.set_xlim(choice.ks[0] - 0.5, choice.ks[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))
    axes.set_xlabel("k")
    axes.spines[["top", "right"]].set_visible(False)


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log", nonpositive="mask")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _name(axes: Axes, name: str, note: str) -> None:
    axes.set_title(name, loc="left", size=11, weight="bold", color=INK, pad=18)
    axes.text(0, 1.02, note, transform=axes.transAxes, color=FAINT, size=8.5, va="bottom")
