"""Tables of numbers with column names, and what is done with rows that have a missing value.

| rows | a missing value |
|---|---|
| of a block | `complete_rows`: an error, or the row is left out |
| of a whole table | `complete`: also the mean of its column |
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from kvariates.data.rows import F64
from kvariates.sources.columns import Layout
from kvariates.sources.input_file import PathOrUrl
from kvariates.sources.pieces import ChosenColumns, Place, Values

Missing = Literal["error", "drop", "mean", "keep"]
INFINITE = "an infinite value"
MISSING = "a missing value"
DROP = "give blocks(..., missing='drop') to leave such rows out"


class MissingValuesError(ValueError):
    """A value is missing, and the caller did not say what to do with such rows.

    `where` says it without a remedy.
    """

    def __init__(self, where: str, remedy: str = "") -> None:
        super().__init__(f"{where}; {remedy}" if remedy else where)
        self.where = where


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows that were copied, and where they come from.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    weight : ndarray of shape (n,) or None
    rows : ndarray of shape (n,)
        Their index in the piece.
    columns : ChosenColumns
        The piece.
    place : Place
        Of the piece.
    """

    X: Values
    weight: F64 | None
    rows: NDArray[np.int64]
    columns: ChosenColumns
    place: Place


def is_clean(X: Values, weight: F64 | None) -> bool:
    """Whether all values are finite and no weight is negative. False if it needs a closer look.

    A sum is finite only if all terms are. It costs less than a test of every term.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        clean = np.isfinite(np.add.reduce(X.reshape(-1)))
        if weight is not None:
            clean &= np.isfinite(np.add.reduce(weight)) and weight.min(initial=0.0) >= 0
    return bool(clean)


def complete_rows(chunk: Chunk, layout: Layout, drop: bool) -> NDArray[np.bool_]:
    """Which rows have no missing and no infinite value.

    Raise ValueError if a row is incomplete and `drop` is false, if a weight is negative, or if a
    number does not fit into the dtype of the matrix.
    """
    bad = ~np.isfinite(chunk.X)
    _check_range(chunk, bad, layout)
    complete = np.asarray(~bad.any(axis=1))
    if chunk.weight is not None:
        check_weights(chunk.weight, chunk.place, layout.weights or "weights", chunk.rows)
        complete &= np.isfinite(chunk.weight)
    if not drop and not complete.all():
        i = int(complete.argmin())
        j = int(bad[i].argmax()) if bad[i].any() else None
        value: Any = chunk.weight if j is None else chunk.X[:, j]
        what = MISSING if np.isnan(value[i]) else INFINITE
        raise MissingValuesError(f"{_cell(chunk, layout, i, j)}: {what}", DROP)
    return complete


def _check_range(chunk: Chunk, bad: NDArray[np.bool_], layout: Layout) -> None:
    """Raise ValueError if a finite number became infinite."""
    for j in np.flatnonzero(bad.any(axis=0)):
        rows = np.flatnonzero(bad[:, j])
        numbers = chunk.columns.numbers(chunk.rows[rows], int(j))
        lost = np.flatnonzero(np.isfinite(numbers))
        if lost.size:
            where = _cell(chunk, layout, int(rows[lost[0]]), int(j))
            number = float(numbers[lost[0]])
            raise ValueError(f"{where}: {number!r} is too large for {layout.dtype}; give dtype=")


def check_weights(
    weight: F64, place: Place, name: str, rows: NDArray[np.int64] | None = None
) -> None:
    """Raise ValueError if a weight is negative. `rows`: their index; None: all from the first."""
    negative = weight < 0
    if negative.any():
        i = int(negative.argmax())
        where = place.row(i if rows is None else int(rows[i]), name)
        raise ValueError(f"{where}: the weight {float(weight[i])!r} is negative")


def _cell(chunk: Chunk, layout: Layout, i: int, j: int | None) -> str:
    """Name a cell; j is None for the weight."""
    name = layout.names[j] if j is not None else layout.weights or "weights"
    return chunk.place.row(int(chunk.rows[i]), name)


@dataclass(frozen=True, eq=False)
class DataTable:
    """A matrix of numbers with column names.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_columns), float32 or float64
        Finite, C-contiguous.
    names : tuple of str
        One name for each column of X.
    path : Path or Url
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
    path: PathOrUrl
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
