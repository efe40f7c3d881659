"""Pieces: rows of a source as a reader returns them, and their copy into a matrix of floats.

| piece | holds |
|---|---|
| `ArrowPiece` | a record batch: one array for each column |
| `MatrixPiece` | a NumPy matrix |
| `SparsePiece` | a CSR matrix |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.data.blocks import interleave
from kvariates.sources.columns import Field, Layout, matrix_fields
from kvariates.sources.text_format import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

Values = NDArray[Any]

CACHE_LINE = 64  # bytes


@dataclass(frozen=True, eq=False)
class Place:
    """Where rows come from, for messages. Rows and row groups are counted from 1 in messages.

    Attributes
    ----------
    source : str
        A file, or "array 3".
    first : int
        How many rows of the source come before these.
    group_ends : ndarray, optional
        The number of rows up to the end of each row group.
    """

    source: str
    first: int = 0
    group_ends: NDArray[np.int64] | None = None

    def row(self, index: int, column: str) -> str:
        """Name the row with this index."""
        row = self.first + index
        group = ""
        if self.group_ends is not None:
            group = f"row group {np.searchsorted(self.group_ends, row, side='right') + 1}, "
        return f"{self.source}: {group}row {row + 1}, column {column!r}"


class ChosenColumns(Protocol):
    """The columns of a piece that were chosen, and the weights."""

    @property
    def weight(self) -> Values | None: ...

    @property
    def n(self) -> int: ...

    def numbers(self, rows: NDArray[np.int64], j: int) -> Values:
        """The numbers of column j in these rows, before a conversion."""
        ...


@dataclass(frozen=True, eq=False)
class ArrowColumns:
    """One array for each column."""

    columns: list[Values]
    weight: Values | None

    @property
    def n(self) -> int:
        return len(self.columns[0])

    def matrix(self, start: int, stop: int) -> Values | None:
        return None

    def copy(self, start: int, stop: int, out: Values, scratch: Values) -> None:
        """Write these rows to `out`.

        If a row is shorter than a cache line, the columns are written one by one. Otherwise each of
        them would load all rows, so they are collected in `scratch` and transposed together.
        """
        parts = [column[start:stop] for column in self.columns]
        if all(part.dtype == out.dtype and part.flags.c_contiguous for part in parts):
            interleave(parts, out)
            return
        small = out.shape[1] * out.itemsize < CACHE_LINE
        target = out.T if small else scratch[:, : stop - start]
        for j, part in enumerate(parts):
            target[j] = part
        if not small:
            out[:] = target.T

    def numbers(self, rows: NDArray[np.int64], j: int) -> Values:
        return self.columns[j][rows]


@dataclass(frozen=True, eq=False)
class MatrixColumns:
    """Columns of a matrix; `index` is None for all of them."""

    X: Values
    index: list[int] | None
    weight: Values | None
    dtype: np.dtype[Any]

    @property
    def n(self) -> int:
        return len(self.X)

    def matrix(self, start: int, stop: int) -> Values | None:
        """These rows, if they need no copy."""
        flags = self.X.flags
        same = self.index is None and self.X.dtype == self.dtype
        return self.X[start:stop] if same and flags.c_contiguous and flags.aligned else None

    def copy(self, start: int, stop: int, out: Values, scratch: Values) -> None:
        """Write these rows to `out`."""
        out[:] = self.X[start:stop] if self.index is None else self.X[start:stop, self.index]

    def numbers(self, rows: NDArray[np.int64], j: int) -> Values:
        numbers: Values = self.X[rows, j if self.index is None else self.index[j]]
        return numbers


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """Columns of a CSR matrix."""

    X: Any
    weight: Values | None

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    def numbers(self, rows: NDArray[np.int64], j: int) -> Values:
        numbers: Values = self.X[rows][:, [j]].toarray()[:, 0]
        return numbers


DenseColumns = ArrowColumns | MatrixColumns


@dataclass(frozen=True, eq=False)
class ArrowPiece:
    """Rows as a record batch. `bytes_read` counts from the beginning of the source."""

    batch: pa.RecordBatch
    place: Place
    bytes_read: int

    @property
    def schema(self) -> object:
        return self.batch.schema

    @property
    def fields(self) -> tuple[Field, ...]:
        return arrow_fields(self.batch.schema)

    def chosen(self, layout: Layout) -> ArrowColumns:
        columns = [self._values(name) for name in layout.names]
        weight = None if layout.weights is None else self._values(layout.weights)
        return ArrowColumns(columns, weight)

    def _values(self, name: str) -> Values:
        """The numbers of a column: NaN where one is missing."""
        import pyarrow as pa

        array = self.batch.column(name)
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type)):
            if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
                array = _without_missing(array)
            try:
                array = array.cast(pa.float64(), safe=False)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                bad = next(i for i in range(len(array)) if not _casts(array.slice(i, 1)))
                cell = f"{array[bad].as_py()!r} is not a number"
                raise ValueError(
                    f"{self.place.row(bad, name)}: {cell}; empty this cell, or leave the column out"
                ) from None
        values: Values = array.to_numpy(zero_copy_only=False)
        return values


@dataclass(frozen=True, eq=False)
class MatrixPiece:
    """Rows as a NumPy matrix."""

    X: Values
    place: Place
    bytes_read: int

    @property
    def schema(self) -> object:
        return self.X.shape[1], self.X.dtype

    @property
    def fields(self) -> tuple[Field, ...]:
        return matrix_fields(self.X.shape[1], self.X.dtype)

    def chosen(self, layout: Layout) -> MatrixColumns:
        weight = None if layout.weights is None else self.X[:, _number(layout.weights)]
        return MatrixColumns(self.X, _index(layout, self.X.shape[1]), weight, layout.dtype)


@dataclass(frozen=True, eq=False)
class SparsePiece:
    """Rows as a CSR matrix."""

    X: Any
    place: Place
    bytes_read: int

    @property
    def schema(self) -> object:
        return "sparse", self.X.shape[1], self.X.dtype

    @property
    def fields(self) -> tuple[Field, ...]:
        return matrix_fields(self.X.shape[1], self.X.dtype)

    def chosen(self, layout: Layout) -> SparseColumns:
        index = _index(layout, self.X.shape[1])
        X = self.X if index is None else self.X[:, index]
        weight = None
        if layout.weights is not None:
            weight = self.X[:, [_number(layout.weights)]].toarray()[:, 0]
        return SparseColumns(X, weight)


DensePiece = ArrowPiece | MatrixPiece
Piece = DensePiece | SparsePiece


def _without_missing(text: pa.Array) -> pa.Array:
    """Text with null for cells that say that a number is missing."""
    import pyarrow as pa
    from pyarrow import compute as pc

    trimmed = pc.utf8_trim_whitespace(text)
    return pc.if_else(pc.is_in(trimmed, pa.array(sorted(MISSING), text.type)), None, trimmed)


def _casts(array: pa.Array) -> bool:
    import pyarrow as pa

    try:
        array.cast(pa.float64(), safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _number(name: str) -> int:
    """x12 -> 12."""
    return int(name[1:])


def _index(layout: Layout, d: int) -> list[int] | None:
    """The chosen columns of a matrix; None if they are all of them, in their order."""
    index = [_number(name) for name in layout.names]
    return None if index == list(range(d)) else index


def scratch_for(rows: int, d: int, dtype: np.dtype[Any]) -> Values:
    """Memory in which columns are collected.

    Columns are a cache line longer than needed. With a power of two, the values of a row would
    compete for the same lines of the cache.
    """
    return np.empty((d, rows + CACHE_LINE // dtype.itemsize), dtype)


def arrow_fields(schema: pa.Schema) -> tuple[Field, ...]:
    """The columns of an Arrow schema."""
    return tuple(arrow_field(field.name, field.type) for field in schema)


def arrow_field(name: str, kind: pa.DataType) -> Field:
    """A column of this Arrow type."""
    from pyarrow import types

    single, double = np.dtype(np.float32), np.dtype(np.float64)
    if types.is_dictionary(kind):
        return arrow_field(name, kind.value_type)
    if types.is_float16(kind) or types.is_float32(kind):
        return Field(name, single, True, str(kind))
    numeric = (
        types.is_float64(kind) or types.is_integer(kind) or types.is_decimal(kind)
        or types.is_boolean(kind)
    )  # fmt: skip
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    convertible = numeric or text or types.is_null(kind)
    return Field(name, double if convertible else None, numeric, str(kind))
