"""Draws the balance of groups: the differences of their means from the mean of all rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kvariates.balancing.group_balance import GroupBalance

MOST_NAMES = 30


def draw_balance(balance: GroupBalance, ax: Any = None) -> Any:
    """A line of dots for each group: its means (or shares of categories) beside those of all rows.

    The vertical distance from 0 is in standard deviations; for shares of categories it is the
    difference of the shares.
    """
    if ax is None:
        from matplotlib import pyplot as plt

        ax = plt.subplots(layout="constrained")[1]
    values = np.hstack([balance.mean_difference, balance.share_difference])
    names = [*balance.features, *balance.categories]
    for g, line in enumerate(values):
        ax.plot(np.arange(len(names)), line, "o-", lw=0.8, ms=4, label=f"group {g}")
    ax.axhline(0.0, color="0.6", lw=0.8, zorder=0)
    ax.set_ylabel("difference from all rows (standard deviations; shares)")
    if len(names) <= MOST_NAMES:
        ax.set_xticks(np.arange(len(names)), names, rotation=45, ha="right")
    else:
        ax.set_xlabel("feature")
    if len(values) <= MOST_NAMES:
        ax.legend(frameon=False, fontsize="small")
    return ax
