"""Readers of data in memory.

| reader | source |
|---|---|
| `MatrixReader` | a NumPy or sparse matrix |
| `FrameReader` | a pandas frame, converted a block at a time |
| `LazyFrameReader` | a polars LazyFrame, computed in batches |
| `RelationReader` | a DuckDB relation, fetched in batches |
| `StreamReader` | anything with Arrow's C stream interface: a table, a polars frame |
| `ItemsReader` | an iterable of any of these, or a function that returns one |
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kvariates.data.rows import check_sparse
from kvariates.extras import needed
from kvariates.sources.columns import matrix_fields
from kvariates.sources.pieces import (
    ArrowPiece,
    MatrixPiece,
    Piece,
    Place,
    SparsePiece,
    arrow_fields,
)
from kvariates.sources.readers import Part, Reader, arrow_pieces, one_line_errors, piece_rows

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class MatrixReader(Reader):
    """Reads a NumPy or CSR matrix."""

    X: Any
    label: str
    named = False

    def __post_init__(self) -> None:
        if self.X.ndim != 2:
            raise ValueError(f"{self.description}: has {self.X.ndim} dimensions, not 2")

    @property
    def n_rows(self) -> int:
        return int(self.X.shape[0])

    @property
    def n_bytes(self) -> int:
        return int(self.X.data.nbytes)

    @property
    def parts(self) -> list[Part]:
        return [Part(self.description, matrix_fields(self.X.shape[1], self.X.dtype))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        if sparse.issparse(self.X):
            yield SparsePiece(self.X, Place(self.description), self.n_bytes)
            return
        for first in range(0, self.n_rows, rows):
            X = self.X[first : first + rows]
            done = self.n_bytes * (first + len(X)) // self.n_rows
            yield MatrixPiece(X, Place(self.description, first), done)

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        columns = (self.X[:, [int(name[1:])]] for name in names)
        dense = (c.toarray() if sparse.issparse(c) else c for c in columns)
        return {name: column[:, 0] for name, column in zip(names, dense, strict=True)}


@dataclass(frozen=True, eq=False)
class FrameReader(Reader):
    """Reads a pandas frame; the index is not read."""

    frame: Any
    label: str

    @property
    def n_rows(self) -> int:
        return len(self.frame)

    @cached_property  # it and `parts` ask every column
    def n_bytes(self) -> int:
        return int(self.frame.memory_usage(index=False).sum())

    @cached_property
    def parts(self) -> list[Part]:
        import pyarrow as pa

        with one_line_errors(self.description):
            schema = pa.Schema.from_pandas(self.frame, preserve_index=False)
        return [Part(self.description, arrow_fields(schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        import pyarrow as pa

        names = [str(name) for name in self.frame.columns]
        place = {name: j for j, name in reversed([*enumerate(names)])}
        for first in range(0, self.n_rows, rows):
            part = self.frame.iloc[first : first + rows]
            with one_line_errors(self.description):
                column = self._column_of(part)
                columns = (column(place[name]) for name in wanted or names)
                arrays = [pa.array(values, from_pandas=True) for values in columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=wanted or names)
            done = self.n_bytes * (first + len(part)) // self.n_rows
            yield ArrowPiece(batch, Place(self.description, first), done)

    def _column_of(self, part: Any) -> Callable[[int], Any]:
        """A function that returns a column of some rows by its number."""
        kinds = self.frame.dtypes.unique()
        if len(kinds) == 1 and isinstance(kinds[0], np.dtype) and kinds[0].kind in "fiu":
            X = part.to_numpy()  # ten times faster than a Series for each column
            return lambda j: X[:, j]
        return lambda j: part.iloc[:, j]


@dataclass(frozen=True, eq=False)
class LazyFrameReader(Reader):
    """Computes a polars LazyFrame in batches."""

    frame: Any
    label: str
    decodes = True

    @property
    def parts(self) -> list[Part]:
        schema = self.frame.clear().collect().to_arrow().schema
        return [Part(self.description, arrow_fields(schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        size = piece_rows(len(wanted), rows)
        with one_line_errors(self.description):
            frames = self.frame.select(wanted).collect_batches(chunk_size=size)
            batches = (batch for frame in frames for batch in frame.to_arrow().to_batches())
            yield from arrow_pieces(batches, self.description)


@dataclass(frozen=True, eq=False)
class RelationReader(Reader):
    """Runs the query of a DuckDB relation, anew for every pass."""

    relation: Any
    label: str
    decodes = True

    @property
    def parts(self) -> list[Part]:
        import pyarrow as pa

        schema = pa.RecordBatchReader.from_stream(self.relation.limit(0)).schema
        return [Part(self.description, arrow_fields(schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        quoted = ['"' + name.replace('"', '""') + '"' for name in wanted]
        query = self.relation.select(*quoted)
        # The second name is that of DuckDB 1.
        run = getattr(query, "to_arrow_reader", None) or query.fetch_record_batch
        with one_line_errors(self.description):
            yield from arrow_pieces(run(piece_rows(len(wanted), rows)), self.description)


class StreamReader(Reader):
    """Reads anything with Arrow's C stream interface."""

    repeatable = True
    n_rows: int | None = None
    parts: list[Part] | None = None

    def __init__(self, source: Any, description: str) -> None:
        import pyarrow as pa

        self.source, self.label = source, description
        self.repeatable = not isinstance(source, pa.RecordBatchReader | Iterator)
        size = getattr(source, "num_rows", getattr(source, "height", None))
        self.n_rows = size if isinstance(size, int) else None
        # Some streams can be opened only once: the first pass reads this one.
        self._opened: pa.RecordBatchReader | None = self._open()
        self.parts = [Part(description, arrow_fields(self._opened.schema))]

    def _open(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        with one_line_errors(self.description):
            return pa.RecordBatchReader.from_stream(self.source)

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        stream, self._opened = self._opened or self._open(), None
        with one_line_errors(self.description):
            yield from arrow_pieces(stream, self.description)


@dataclass(frozen=True, eq=False)
class ItemsReader(Reader):
    """Reads an iterable of arrays or frames. `make` returns the iterable of the next pass."""

    make: Callable[[], Iterable[Any]]
    label: str
    again: bool
    named = False

    @property
    def repeatable(self) -> bool:
        return self.again

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        before = 0
        for number, item in enumerate(self.make(), start=1):
            reader = memory_reader(item, f"array {number}")
            if reader is None:
                what = type(item).__name__
                raise ValueError(f"array {number}: is a {what}, not a matrix or a frame")
            for piece in reader.pieces([], sys.maxsize):
                yield replace(piece, bytes_read=before + piece.bytes_read)
            before += reader.n_bytes or 0


def memory_reader(source: Any, description: str | None = None) -> Reader | None:
    """The reader of data in memory, or None if the source is something else."""
    description = description or type(source).__name__
    if isinstance(source, np.ndarray):
        return MatrixReader(source, description)
    if sparse.issparse(source):
        check_sparse(source)
        return MatrixReader(source.tocsr(), description)
    if hasattr(source, "iloc") or hasattr(source, "__arrow_c_stream__"):
        needed("pyarrow", "files", "reading data frames")
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return FrameReader(source, description)
    if hasattr(source, "__arrow_c_stream__"):
        return StreamReader(source, description)
    return None
