"""Draws the balance of groups: a row for each column, and in it a dot for each group.

Up to 12 groups have colours and markers, and a legend. More groups have one colour, and in each row
the numbers of the two groups at its ends.
"""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from kvariates.data.rows import F64
from kvariates.extras import needed
from kvariates.palette import FAINT, INK, MARKERS, PALETTE

if TYPE_CHECKING:
    from kvariates.balancing.group_balance import GroupBalance

MOST_COLORS = len(PALETTE)  # groups that are told apart by colours
MOST_ROWS = 40  # columns that are drawn
LETTERS, MOST_LETTERS = 34, 100  # of a line of a name, and of the whole name
HEIGHT = 0.7  # of the dots of a row, which is 1 high
PLAIN: dict[str, Any] = {"parse_math": False, "usetex": False}  # a $ is a $


def draw_balance(balance: GroupBalance, ax: Any = None) -> Any:
    """See `kvariates.plot.balance`."""
    values = differences(balance)
    shares = [f"share of {name}" for name in balance.categories]
    names = [_lines(name) for name in (*balance.features, *shares)]
    shown = _farthest(values)
    values, names = values[:, shown], [names[j] for j in shown]
    if ax is None:
        plt = needed("matplotlib.pyplot", "plot", "The picture of a balance")
        height = 1.5 + max(0.36 * len(names), 0.16 * sum(1 + n.count("\n") for n in names), 1.2)
        ax = plt.subplots(figsize=(7.6, height), layout="constrained")[1]
    _frame(ax, names)
    _random_band(ax, balance)
    (_colored if len(values) <= MOST_COLORS else _numbered)(ax, values)
    style: dict[str, Any] = {"frameon": False, "fontsize": "small", "labelcolor": INK}
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), **style)
    _note(ax, values, names, len(balance.features) + len(shares))
    return ax


def differences(balance: GroupBalance) -> F64:
    """For each group and column, mean minus mean of all rows, in standard deviations of all rows.

    A category counts as a column of 0 and 1, so that all columns have the same unit.
    """
    p = balance.category_share - balance.share_difference  # in all rows
    deviation = np.sqrt(np.clip(p * (1 - p), 0, None))
    some = deviation > 1e-9  # not all rows, and not none
    shares = np.where(some, balance.share_difference / np.where(some, deviation, 1.0), 0.0)
    return np.hstack([balance.mean_difference, shares])


def random_deviation(sizes: Any) -> float:
    """The standard deviation of the mean of a random group, in standard deviations of all rows.

    That of n of N rows drawn without replacement is sqrt((N - n) / ((N - 1) n)), about 1 / sqrt(n)
    for small groups. Of groups of different sizes, the root of the mean square.
    """
    total = int(np.sum(sizes))
    if total < 2:
        return 0.0
    return math.sqrt(float(np.mean((total - sizes) / ((total - 1) * np.asarray(sizes)))))


def _farthest(values: F64) -> list[int]:
    """The columns that are drawn, in their order: those with the largest differences."""
    far = np.abs(values).max(axis=0)
    return [int(j) for j in np.sort(np.argsort(-far, kind="stable")[:MOST_ROWS])]


def _frame(ax: Any, names: list[str]) -> None:
    ax.axvline(0.0, color=FAINT, lw=0.8, zorder=1)
    for place in range(1, len(names)):
        ax.axhline(place - 0.5, color=FAINT, lw=0.3, alpha=0.5, zorder=1)
    ax.set_yticks(np.arange(len(names)), names, **PLAIN)
    ax.set_ylim(max(len(names), 1) - 0.5, -0.5)  # the first column on top
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel("difference from all rows (standard deviations)")
    ax.spines[["top", "right", "left"]].set_visible(False)


def _random_band(ax: Any, balance: GroupBalance) -> None:
    wide = random_deviation(balance.sizes)
    label = f"random groups:\n±1 standard\ndeviation ({wide:.2g})"
    ax.axvspan(-wide, wide, color=FAINT, alpha=0.18, lw=0, zorder=0, label=label)


def _colored(ax: Any, values: F64) -> None:
    """Each group has a colour, a marker and its own height in a row."""
    for g, line in enumerate(values):
        style = {"color": PALETTE[g], "marker": MARKERS[g % len(MARKERS)], "ms": 5, "mew": 0}
        ax.plot(line, _heights(values)[g], ls="", label=f"group {g}", zorder=3, **style)


def _numbered(ax: Any, values: F64) -> None:
    """All groups have one colour; the numbers of the two at the ends of a row are written."""
    heights = _heights(values)
    label = f"a group, of {len(values)};\nnumbers: the groups\nat both ends"
    ax.plot(
        values.T.ravel(), heights.T.ravel(), "o", ls="", color=PALETTE[0], ms=3.5, mew=0, alpha=0.6,
        label=label, zorder=3,
    )  # fmt: skip
    for j, column in enumerate(values.T):
        ends = ((int(column.argmin()), -4, "right"), (int(column.argmax()), 4, "left"))
        for g, dx, side in ends if column.any() else ():
            ax.annotate(
                str(g), (column[g], heights[g, j]), (dx, 0), textcoords="offset points", ha=side,
                va="center", size="x-small", color=INK, zorder=4,
            )  # fmt: skip


def _heights(values: F64) -> F64:
    """Where the dots of each group are: group 0 is the highest in each row."""
    groups, columns = values.shape
    offset = HEIGHT * ((np.arange(groups) + 0.5) / groups - 0.5)
    heights: F64 = np.arange(columns) + offset[:, None]
    return heights


def _note(ax: Any, values: F64, names: list[str], columns: int) -> None:
    words = "no columns and no categories to compare"
    if columns:
        g, j = np.unravel_index(np.abs(values).argmax(), values.shape)
        where = textwrap.shorten(names[j], LETTERS, placeholder=" …")
        words = f"largest difference: {abs(values[g, j]):.2g} (group {g}, {where})"
    if len(names) < columns:
        words += f"\n{len(names)} of {columns:,} columns, those with the largest differences"
    style: dict[str, Any] = {"color": FAINT, "size": "small", "ha": "left", "va": "bottom"}
    ax.text(0, 1.01, words, transform=ax.transAxes, **style, **PLAIN)


def _lines(name: str) -> str:
    """A name in lines of a few words."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    cut = words if len(words) <= MOST_LETTERS else words[: MOST_LETTERS - 1] + "…"
    return textwrap.fill(cut, LETTERS)
