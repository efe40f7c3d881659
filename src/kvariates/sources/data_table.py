"""A matrix of numbers with column names, and what is done with missing values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from kvariates.sources.missing import MissingValuesError, is_clean

Missing = Literal["error", "drop", "mean", "keep"]


@dataclass(frozen=True, eq=False)
class DataTable:
    """A matrix of numbers with column names.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_columns), float32 or float64
        Finite, C-contiguous.
    names : tuple of str
        One name for each column of X.
    path : Path
        The file.
    left_out : tuple of str
        Columns of the file that hold no numbers, if no columns were named.
    weight : ndarray of shape (n_rows,) or None
        The column of weights.
    kept : ndarray of bool, or None
        Which rows of the file are rows of X; None if all are.
    means : ndarray of shape (n_columns,) or None
        What missing values were replaced by; None: none were.
    filled : int
        How many values were replaced.
    """

    X: Any
    names: tuple[str, ...]
    path: Path
    left_out: tuple[str, ...] = ()
    weight: npt.NDArray[np.float64] | None = None
    kept: npt.NDArray[np.bool_] | None = None
    means: npt.NDArray[np.float64] | None = None
    filled: int = 0

    def without(self, name: str) -> DataTable:
        """Return the table without one column, if it has it."""
        keep = [i for i, other in enumerate(self.names) if other != name]
        if not keep:
            raise ValueError(f"{self.path}: no column is left to cluster without {name!r}")
        X = np.ascontiguousarray(self.X[:, keep])
        return replace(self, X=X, names=tuple(self.names[i] for i in keep))


def complete(
    table: DataTable, missing: Missing, means: npt.NDArray[np.float64] | None = None
) -> DataTable:
    """The table without missing values, as `missing` says.

    `means` take the place of missing values; None: the means of the table.
    """
    X, weight = table.X, table.weight
    if missing == "mean" and means is None:
        means = _means(table)
    if is_clean(X, weight):
        return replace(table, means=means)
    bad = ~np.isfinite(X)
    bad_weight = np.zeros(len(X), bool) if weight is None else ~np.isfinite(weight)
    if not (bad.any() or bad_weight.any()):
        return replace(table, means=means)
    if missing == "drop":
        kept = ~(bad.any(axis=1) | bad_weight)
        if not kept.any():
            raise ValueError(f"{table.path}: no rows: all {len(X)} have a missing value")
        part = None if weight is None else weight[kept]
        return replace(table, X=np.ascontiguousarray(X[kept]), weight=part, kept=kept)
    if means is not None and not bad_weight.any() and not np.isinf(X).any():
        full = np.where(bad, means, X).astype(X.dtype)
        return replace(table, X=full, means=means, filled=int(bad.sum()))
    raise MissingValuesError(_missing_words(table, bad, bad_weight))


def _means(table: DataTable) -> npt.NDArray[np.float64]:
    """The mean of each column, without missing and infinite values."""
    finite = np.isfinite(table.X)
    number = finite.sum(axis=0)
    if not number.all():
        raise ValueError(
            f"{table.path}: column {table.names[number.argmin()]!r} has no value at all"
        )
    # A mean of shares: the sum of the values themselves could overflow.
    means: npt.NDArray[np.float64] = np.where(finite, table.X / number, 0.0).sum(axis=0)
    return means


def _missing_words(
    table: DataTable, bad: npt.NDArray[np.bool_], bad_weight: npt.NDArray[np.bool_]
) -> str:
    """The first column with missing values, their number, and the number of all of them."""
    columns = np.flatnonzero(bad.any(axis=0))
    if not columns.size:
        count, first = int(bad_weight.sum()), int(bad_weight.argmax()) + 1
        values = "value" if count == 1 else "values"
        return f"{table.path}: the weights have {count} missing {values}, first in row {first}"
    j = int(columns[0])
    count, first = int(bad[:, j].sum()), int(bad[:, j].argmax()) + 1
    what = "missing" if np.isnan(table.X[bad[:, j], j]).all() else "missing or infinite"
    values = "value" if count == 1 else "values"
    line = (
        f"{table.path}: column {table.names[j]!r} has {count} {what} {values}, first in row {first}"
    )
    if len(columns) > 1:
        rows = int(bad.any(axis=1).sum())
        words = "row" if rows == 1 else "rows"
        line += f" ({int(bad.sum())} in {len(columns)} columns, {rows} {words})"
    return line
