"""How alike the groups of an anti-clustering are: a record, a table and a picture.

The picture has a row for each column, and in it a dot for each group. Up to 12 groups have colours
and markers, and a legend. More groups have one colour, and in each row the numbers of the two
groups at its ends.
"""

from __future__ import annotations

import math
import textwrap
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kvariates.balancing.group_objectives import constant_columns
from kvariates.balancing.group_problem import Categories
from kvariates.data.exchanges import Ints
from kvariates.data.rows import F64, Labels
from kvariates.extras import needed, pandas_for
from kvariates.notebook_html import boxed, shortened
from kvariates.palette import FAINT, INK, MARKERS, PALETTE, PLAIN, one_line, write_note

MOST_COLORS = len(PALETTE)  # groups that are told apart by colours
MOST_ROWS = 40  # columns that are drawn
LETTERS, MOST_LETTERS = 34, 100  # of a line of a name, and of the whole name
HEIGHT = 0.7  # of the dots of a row, which is 1 high


@dataclass(frozen=True, eq=False)
class GroupBalance:
    """How far each group is from all rows.

    Attributes
    ----------
    sizes : ndarray of shape (n_groups,)
        The rows of each group.
    features : tuple of str
        The names of the columns; empty if there are only distances.
    mean_difference : ndarray of shape (n_groups, n_features)
        The mean of a group minus the mean of all rows, in standard deviations of all rows. 0 for
        constant columns.
    spread_ratio : ndarray of shape (n_groups, n_features)
        The standard deviation within a group over that of all rows. 1 for constant columns.
    categories : tuple of str
        The names of the categories; empty if there are none.
    category_share : ndarray of shape (n_groups, n_categories)
        The share of each category in a group.
    share_difference : ndarray of shape (n_groups, n_categories)
        The same minus the share of the category in all rows.
    """

    sizes: Ints
    features: tuple[str, ...]
    mean_difference: F64
    spread_ratio: F64
    categories: tuple[str, ...]
    category_share: F64
    share_difference: F64

    def __str__(self) -> str:
        columns = [[heading, *cells] for heading, cells in self._columns().items()]
        padded = [[cell.rjust(max(map(len, column))) for cell in column] for column in columns]
        return "\n".join("  ".join(line) for line in zip(*padded, strict=True))

    def __repr__(self) -> str:
        words = f"{len(self.sizes)} groups of {self.sizes.min()} to {self.sizes.max()} rows"
        if self.features:
            far = np.abs(self.mean_difference).max(axis=0)
            name = shortened(self.features[int(far.argmax())], 60)
            words += f", means differ by up to {far.max():.2g} sd ({name})"
        return f"GroupBalance({words})"

    def _repr_html_(self) -> str:
        lines = ["How far each group is from all rows, where the difference is largest."]
        columns = self._columns()
        rows = list(zip(*columns.values(), strict=True))
        return boxed(f"Balance of {len(self.sizes)} groups", lines, [*columns], rows)

    def plot(self, ax: Any = None) -> Any:
        """Draw the differences, a dot for each group and column; returns matplotlib's Axes."""
        return draw_balance(self, ax)

    def frame(self) -> Any:
        """All numbers as a pandas DataFrame, a row for each group. Needs pandas."""
        pd = pandas_for("GroupBalance.frame")
        parts = {
            "mean_difference": (self.features, self.mean_difference),
            "spread_ratio": (self.features, self.spread_ratio),
            "category_share": (self.categories, self.category_share),
            "share_difference": (self.categories, self.share_difference),
        }
        tables = [pd.DataFrame({("rows", ""): self.sizes})]
        for name, (columns, values) in parts.items():
            named = pd.MultiIndex.from_product([[name], columns])
            tables.append(pd.DataFrame(values, columns=named))
        return pd.concat(tables, axis=1).rename_axis("group")

    def _columns(self) -> dict[str, list[str]]:
        """The cells of the table, a line for each group, by their headings."""
        groups = range(len(self.sizes))
        columns = {"group": [str(g) for g in groups], "rows": [str(size) for size in self.sizes]}
        if self.features:
            worst = np.abs(self.mean_difference).argmax(axis=1)
            columns["mean, largest difference"] = [
                f"{self.mean_difference[g, worst[g]]:+.2g} sd ({self.features[worst[g]]})"
                for g in groups
            ]
            columns["spread"] = [f"{r.min():.3f} to {r.max():.3f}" for r in self.spread_ratio]
        if self.categories:
            worst = np.abs(self.share_difference).argmax(axis=1)
            columns["category share"] = [
                f"{100 * self.share_difference[g, worst[g]]:+.2f} points"
                f" ({self.categories[worst[g]]})"
                for g in groups
            ]
        return columns


def group_balance(
    labels: Labels, n_groups: int, X: F64, features: tuple[str, ...], categories: Categories
) -> GroupBalance:
    """The balance of the groups of all rows. X has no columns if there are only distances."""
    sizes = np.bincount(labels, minlength=n_groups)
    means, spreads = _moments(X - X.mean(axis=0), labels, sizes)
    constant = constant_columns(X)
    scale = np.where(constant, 1.0, X.std(axis=0))
    count = max(1, len(categories.names))
    cell = np.bincount(labels * count + categories.number, minlength=n_groups * count)
    share = cell.reshape(n_groups, count) / sizes[:, None]
    all_rows = np.bincount(categories.number, minlength=count) / len(labels)
    named = slice(len(categories.names))
    return GroupBalance(
        sizes,
        features,
        np.where(constant, 0.0, means / scale),
        np.where(constant, 1.0, spreads / scale),
        categories.names,
        share[:, named],
        (share - all_rows)[:, named],
    )


def _moments(X: F64, labels: Labels, sizes: Ints) -> tuple[F64, F64]:
    """Means and standard deviations of each group (axis 0) and column (axis 1)."""
    means, spreads = np.empty((2, len(sizes), X.shape[1]))
    for j, column in enumerate(X.T):
        means[:, j] = np.bincount(labels, column, len(sizes)) / sizes
        square = np.square(column - means[labels, j])
        spreads[:, j] = np.sqrt(np.bincount(labels, square, len(sizes)) / sizes)
    return means, spreads


def draw_balance(balance: GroupBalance, ax: Any = None) -> Any:
    """See `kvariates.plot.balance`."""
    values = differences(balance)
    shares = [f"share of {name}" for name in balance.categories]
    every = [one_line(name, MOST_LETTERS) for name in (*balance.features, *shares)]
    names = [textwrap.fill(name, LETTERS) for name in every]
    far = np.argsort(-np.abs(values).max(axis=0), kind="stable")
    shown = np.sort(far[:MOST_ROWS])  # the columns with the largest differences, in their order
    values, names = values[:, shown], [names[j] for j in shown]
    if ax is None:
        plt = needed("matplotlib.pyplot", "plot", "The picture of a balance")
        height = 1.5 + max(0.36 * len(names), 0.16 * sum(1 + n.count("\n") for n in names), 1.2)
        ax = plt.subplots(figsize=(7.6, height), layout="constrained")[1]
    _frame(ax, names)
    wide = random_deviation(balance.sizes)
    label = f"random groups:\n±1 standard\ndeviation ({wide:.2g})"
    ax.axvspan(-wide, wide, color=FAINT, alpha=0.18, lw=0, zorder=0, label=label)
    (_colored if len(values) <= MOST_COLORS else _numbered)(ax, values)
    style: dict[str, Any] = {"frameon": False, "fontsize": "small", "labelcolor": INK}
    ax.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), **style)
    _note(ax, values, names, len(balance.features) + len(shares))
    return ax


def save_picture(balance: GroupBalance, path: Path) -> None:
    """Save the picture of a balance, and forget the figure."""
    figure = draw_balance(balance).figure
    with warnings.catch_warnings():  # letters that the font does not have become boxes
        warnings.filterwarnings("ignore", r"Glyph .* missing from")
        figure.savefig(path, dpi=150, bbox_inches="tight")
    needed("matplotlib.pyplot", "plot", "The picture of a balance").close(figure)


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
    write_note(ax, words)
