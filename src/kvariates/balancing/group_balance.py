"""How alike the groups of an anti-clustering are: a record, a table and a picture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kvariates.balancing.units import constant_columns
from kvariates.data.exchanges import Ints
from kvariates.data.rows import F64, Labels
from kvariates.notebook_html import HtmlTable, boxed, shortened

HEADINGS = ("group", "rows", "mean, largest difference", "spread", "category share")


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
        table = [self._headings(), *self._cells()]
        widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
        return "\n".join(
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in table
        )

    def __repr__(self) -> str:
        sizes = f"{self.sizes.min()} to {self.sizes.max()} rows"
        return f"GroupBalance({len(self.sizes)} groups of {sizes}{self._worst()})"

    def _repr_html_(self) -> str:
        lines = ["How far each group is from all rows, where the difference is largest."]
        title = f"Balance of {len(self.sizes)} groups"
        return boxed(title, lines, HtmlTable(self._headings(), self._cells()))

    def _worst(self) -> str:
        """The largest difference of means of all groups, in words."""
        if not self.features:
            return ""
        far = np.abs(self.mean_difference).max(axis=0)
        name = shortened(self.features[int(far.argmax())], 60)
        return f", means differ by up to {far.max():.2g} sd ({name})"

    def plot(self, ax: Any = None) -> Any:
        """Draw the differences, a dot for each group and column; returns matplotlib's Axes."""
        from kvariates.balancing.balance_plot import draw_balance

        return draw_balance(self, ax)

    def frame(self) -> Any:
        """All numbers as a pandas DataFrame, a row for each group. Needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("GroupBalance.frame needs pandas: pip install pandas.") from error
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

    def _headings(self) -> list[str]:
        shown = (True, True, bool(self.features), bool(self.features), bool(self.categories))
        return [name for name, show in zip(HEADINGS, shown, strict=True) if show]

    def _cells(self) -> list[list[str]]:
        return [self._line(g) for g in range(len(self.sizes))]

    def _line(self, g: int) -> list[str]:
        cells = [str(g), str(self.sizes[g])]
        if self.features:
            worst = int(np.abs(self.mean_difference[g]).argmax())
            low, high = self.spread_ratio[g].min(), self.spread_ratio[g].max()
            cells.append(f"{self.mean_difference[g, worst]:+.2g} sd ({self.features[worst]})")
            cells.append(f"{low:.3f} to {high:.3f}")
        if self.categories:
            worst = int(np.abs(self.share_difference[g]).argmax())
            difference = 100 * self.share_difference[g, worst]
            cells.append(f"{difference:+.2f} points ({self.categories[worst]})")
        return cells


@dataclass(frozen=True, eq=False)
class NamedColumns:
    """Columns of numbers (None if there are only distances) and categories, with their names."""

    X: F64 | None
    features: tuple[str, ...]
    category: Ints
    categories: tuple[str, ...]


def group_balance(labels: Labels, n_groups: int, data: NamedColumns) -> GroupBalance:
    """The balance of the groups of all rows."""
    sizes = np.bincount(labels, minlength=n_groups)
    X = np.empty((len(labels), 0)) if data.X is None else data.X
    means, spreads = _moments(X - X.mean(axis=0), labels, sizes)
    constant = constant_columns(X)
    scale = np.where(constant, 1.0, X.std(axis=0))
    count = max(1, len(data.categories))
    cell = np.bincount(labels * count + data.category, minlength=n_groups * count)
    share = cell.reshape(n_groups, count) / sizes[:, None]
    all_rows = np.bincount(data.category, minlength=count) / len(labels)
    named = slice(None) if data.categories else slice(0)
    return GroupBalance(
        sizes,
        data.features,
        np.where(constant, 0.0, means / scale),
        np.where(constant, 1.0, spreads / scale),
        data.categories,
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
