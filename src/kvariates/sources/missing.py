"""Finds values that are not finite, and says where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvariates.data.rows import F64
from kvariates.sources.columns import Layout
from kvariates.sources.pieces import ChosenColumns, Place, Values

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
