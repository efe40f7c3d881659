"""Draws the balance of groups: the differences of their means from the mean of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvariates.extras import needed
from kvariates.palette import FAINT, MARKERS, PALETTE

if TYPE_CHECKING:
    from kvariates.balancing.group_balance import GroupBalance

MOST_NAMES = 30
LONGEST_NAME = 30


def draw_balance(balance: GroupBalance, ax: Any = None) -> Any:
    """A line of dots for each group: its means (or shares of categories) beside those of all rows.

    The vertical distance from 0 is in standard deviations; for shares of categories it is the
    difference of the shares. Groups have different colours and markers.
    """
    if ax is None:
        plt = needed("matplotlib.pyplot", "plot", "The picture of a balance")
        ax = plt.subplots(layout="constrained")[1]
    values = np.hstack([balance.mean_difference, balance.share_difference])
    names = [_short(name) for name in (*balance.features, *balance.categories)]
    for g, line in enumerate(values):
        color, marker = PALETTE[g % len(PALETTE)], MARKERS[g % len(MARKERS)]
        places = np.arange(len(names))
        ax.plot(places, line, ls="-", lw=0.8, ms=5, color=color, marker=marker, label=f"group {g}")
    ax.axhline(0.0, color=FAINT, lw=0.8, zorder=0)
    ax.set_ylabel("difference from all rows (standard deviations; shares)")
    if len(names) <= MOST_NAMES:
        plain = {"parse_math": False, "usetex": False}  # a $ is a $
        ax.set_xticks(np.arange(len(names)), names, rotation=45, ha="right", **plain)
    else:
        ax.set_xlabel("feature")
    if len(values) <= MOST_NAMES:
        ax.legend(frameon=False, fontsize="small", ncols=1 + (len(values) - 1) // 10)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _short(name: str) -> str:
    name = " ".join(str(name).split())
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
