"""Pieces: rows of a source as a reader returns them, and their copy into a matrix of floats.

A row with a missing value is an error, or is left out (`Chunk.complete_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates.data.blocks import interleave
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.sources.columns import Field, Layout, arrow_fields, matrix_fields
from kvariates.sources.text_format import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

Values = NDArray[Any]

CACHE_LINE = 64  # bytes
DROP = "give blocks(..., missing='drop') to leave such rows out"


class MissingValuesError(ValueError):
    """A value is missing, and the caller did not say what to do with such rows.

    `where` says it without a remedy.
    """

    def __init__(self, where: str, remedy: str = "") -> None:
        super().__init__(f"{where}; {remedy}" if remedy else where)
        self.where = where


@dataclass(frozen=True, eq=False)
class Place:
    """Where rows come from, for messages. Rows and row groups are counted from 1 in messages."""

    source: str  # a file, or "array 3"
    first: int = 0  # how many rows of the source come before these
    group_ends: I64 | None = None  # the number of rows up to the end of each row group

    def row(self, index: int, column: str) -> str:
        """Name the row with this index."""
        row = self.first + index
        group = ""
        if self.group_ends is not None:
            group = f"row group {np.searchsorted(self.group_ends, row, side='right') + 1}, "
        return f"{self.source}: {group}row {row + 1}, column {column!r}"


@dataclass(frozen=True, eq=False)
class Columns:
    """The chosen columns of a piece, and the weights of its rows.

    `values` is an array for each column, or a NumPy or CSR matrix of these columns.
    """

    values: list[Values] | Any
    weight: Values | None
    n: int

    def copy(self, start: int, stop: int, out: Values, scratch: Values) -> None:
        """Write these rows to `out`. Pre: they are dense.

        If a row is shorter than a cache line, the columns are written one by one. Otherwise each of
        them would load all rows, so they are collected in `scratch` and transposed together.
        """
        if not isinstance(self.values, list):
            out[:] = self.values[start:stop]
            return
        parts = [column[start:stop] for column in self.values]
        if all(part.dtype == out.dtype and part.flags.c_contiguous for part in parts):
            interleave(parts, out)
            return
        small = out.shape[1] * out.itemsize < CACHE_LINE
        target = out.T if small else scratch[:, : stop - start]
        for j, part in enumerate(parts):
            target[j] = part
        if not small:
            out[:] = target.T

    def numbers(self, rows: I64, j: int) -> Values:
        """The numbers of column j in these rows, before a conversion."""
        if isinstance(self.values, list):
            return self.values[j][rows]
        if sparse.issparse(self.values):
            return np.asarray(self.values[rows][:, [j]].toarray()[:, 0])
        return np.asarray(self.values[rows, j])


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows as a record batch, a NumPy matrix or a CSR matrix.

    `bytes_read` counts from the beginning of the source.
    """

    data: Any
    place: Place
    bytes_read: int

    @property
    def is_sparse(self) -> bool:
        return bool(sparse.issparse(self.data))

    @property
    def schema(self) -> object:
        """The same for pieces with the same columns."""
        if hasattr(self.data, "schema"):
            return self.data.schema
        return self.is_sparse, self.data.shape[1], self.data.dtype

    def fields(self, lengths: Mapping[str, int] = MappingProxyType({})) -> tuple[Field, ...]:
        """Its columns. `lengths`: those of vectors, as far as they are known."""
        if not hasattr(self.data, "schema"):
            return matrix_fields(self.data.shape[1], self.data.dtype)
        return arrow_fields(
            self.data.schema, lambda names: {**vector_lengths([self.data], names), **lengths}
        )

    def chosen(self, layout: Layout) -> Columns:
        """The columns of a layout that was made from `fields`."""
        X, weights = self.data, layout.weights
        if hasattr(X, "schema"):
            features = self._features(layout)
            weight = None if weights is None else self._numbers(weights)
            return Columns(features, weight, X.num_rows)
        index = [int(name[1:]) for name in layout.names]  # x12 -> 12
        own = None if weights is None else int(weights[1:])
        every = index == list(range(X.shape[1]))
        if self.is_sparse:
            weight = None if own is None else X[:, [own]].toarray()[:, 0]
            return Columns(X if every else X[:, index], weight, X.shape[0])
        weight = None if own is None else X[:, own]
        return Columns(X if every else [X[:, j] for j in index], weight, X.shape[0])

    def _features(self, layout: Layout) -> list[Values] | Values:
        """The columns of a batch: a matrix, if they are those of one column of vectors."""
        made = {name: self._vectors(name, length) for name, length in layout.lengths.items()}
        for column, names in layout.vectors.items():
            if names == layout.names:
                return made[column]
        place = {
            name: (column, j) for column, of in layout.vectors.items() for j, name in enumerate(of)
        }
        columns = []
        for name in layout.names:
            column, j = place.get(name, (name, 0))
            columns.append(made[column][:, j] if name in place else self._numbers(name))
        return columns

    def _vectors(self, name: str, length: int) -> Values:
        """The vectors of a column as a matrix: NaN where a vector, or a value, is missing."""
        array = plain_lists(self.data.column(name))
        lengths = _lengths(array)
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        if (other := valid & (lengths != length)).any():
            row = int(other.argmax())
            raise ValueError(
                f"{self.place.row(row, name)}: a vector of {lengths[row]} values, but the vectors "
                f"before have {length}; give vectors of one length, or name other columns"
            )
        values: Values = array.flatten().to_numpy(zero_copy_only=False)  # without missing vectors
        if valid.all():
            return values.reshape(-1, length)
        made = np.full(
            (len(array), length), np.nan, values.dtype if values.dtype.kind == "f" else float
        )
        made[valid] = values.reshape(-1, length)
        return made

    def _numbers(self, name: str) -> Values:
        """The numbers of a column of a batch: NaN where one is missing."""
        import pyarrow as pa

        array = self.data.column(name)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
                array = _without_missing(array)
            try:
                array = array.cast(pa.float64(), safe=False)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                bad = _first_bad(array)
                cell = f"{array[bad].as_py()!r} is not a number"
                raise ValueError(
                    f"{self.place.row(bad, name)}: {cell}; empty this cell, or leave the column out"
                ) from None
        values: Values = array.to_numpy(zero_copy_only=False)
        return values


def plain_lists(array: pa.Array) -> pa.Array:
    """Lists without the name of a type of their own, as that of tensors."""
    import pyarrow as pa

    return array.storage if isinstance(array.type, pa.BaseExtensionType) else array


def _lengths(array: pa.Array) -> I64:
    """Of each list; 0 or anything of a missing one."""
    import pyarrow as pa
    from pyarrow import compute as pc

    found = pc.list_value_length(array)
    return np.asarray(pc.fill_null(found, 0).cast(pa.int64()))


def vector_lengths(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> dict[str, int]:
    """How long the first vector of each column is; without columns whose vectors are missing."""
    found: dict[str, int] = {}
    for batch in batches:
        for name in [name for name in names if name not in found]:
            array = plain_lists(batch.column(name)).drop_null()
            if len(array):
                found[name] = int(_lengths(array)[0])
        if len(found) == len(names):
            break
    return found


def _without_missing(text: pa.Array) -> pa.Array:
    """Text with null for cells that say that a number is missing."""
    import pyarrow as pa
    from pyarrow import compute as pc

    trimmed = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.is_in(trimmed, pa.array(sorted(MISSING), text.type)), None, trimmed)


def _first_bad(array: pa.Array) -> int:
    """The index of the first value that is no number. Pre: there is one."""
    import pyarrow as pa

    i = 0
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        for i in range(len(array)):
            array.slice(i, 1).cast(pa.float64(), safe=False)
    return i


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows that were copied, and the piece that they come from."""

    X: Values
    weight: F64 | None
    rows: I64  # their index in the piece
    columns: Columns
    place: Place
    layout: Layout

    def complete_rows(self, drop: bool) -> NDArray[np.bool_]:
        """Which rows have no missing and no infinite value.

        Raise ValueError if a row is incomplete and `drop` is false, if a weight is negative, or if
        a number does not fit into the dtype of the matrix.
        """
        bad = ~np.isfinite(self.X)
        self._check_range(bad)
        complete = np.asarray(~bad.any(axis=1))
        if self.weight is not None:
            check_weights(self.weight, self.place, self.layout.weights or "weights", self.rows)
            complete &= np.isfinite(self.weight)
        if not drop and not complete.all():
            i = int(complete.argmin())
            j = int(bad[i].argmax()) if bad[i].any() else None
            value: Any = self.weight if j is None else self.X[:, j]
            what = "a missing value" if np.isnan(value[i]) else "an infinite value"
            raise MissingValuesError(f"{self._cell(i, j)}: {what}", DROP)
        return complete

    def _check_range(self, bad: NDArray[np.bool_]) -> None:
        """Raise ValueError if a finite number became infinite."""
        for j in np.flatnonzero(bad.any(axis=0)):
            rows = np.flatnonzero(bad[:, j])
            numbers = self.columns.numbers(self.rows[rows], int(j))
            lost = np.flatnonzero(np.isfinite(numbers))
            if lost.size:
                where, number = self._cell(int(rows[lost[0]]), int(j)), float(numbers[lost[0]])
                too_large = f"{number!r} is too large for {self.layout.dtype}"
                raise ValueError(f"{where}: {too_large}; give dtype=")

    def _cell(self, i: int, j: int | None) -> str:
        """Name a cell; j is None for the weight."""
        name = self.layout.names[j] if j is not None else self.layout.weights or "weights"
        return self.place.row(int(self.rows[i]), name)


def is_clean(X: Values, weight: F64 | None) -> bool:
    """Whether all values are finite and no weight is negative. False if it needs a closer look.

    A sum is finite only if all terms are. It costs less than a test of every term.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        clean = np.isfinite(np.add.reduce(X.reshape(-1)))
        if weight is not None:
            clean &= np.isfinite(np.add.reduce(weight)) and weight.min(initial=0.0) >= 0
    return bool(clean)


def check_weights(weight: F64, place: Place, name: str, rows: I64 | None = None) -> None:
    """Raise ValueError if a weight is negative. `rows`: their index; None: all from the first."""
    negative = weight < 0
    if negative.any():
        i = int(negative.argmax())
        where = place.row(i if rows is None else int(rows[i]), name)
        raise ValueError(f"{where}: the weight {float(weight[i])!r} is negative")
