"""What every reader of a source offers, and the readers of data in memory.

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
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from kvariates.data.rows import check_sparse
from kvariates.extras import needed
from kvariates.sources.columns import Field, arrow_field, arrow_fields, listed, matrix_fields
from kvariates.sources.input_file import InputFile
from kvariates.sources.pieces import Piece, Place, vector_lengths

if TYPE_CHECKING:
    import pyarrow as pa

PIECE_ROWS = 2**19
FIRST_ROWS = 64  # that are read to see how long vectors are
PIECE_BYTES = 2**26  # of a piece of rows with many columns


class Part(NamedTuple):
    """A file, or another part of a source, and its columns."""

    place: str
    fields: tuple[Field, ...]


class Reader(ABC):
    """Reads a source, a piece at a time."""

    description: str  # the source, for messages
    repeatable: bool = True  # whether it can be read more than once
    named: bool = True  # whether columns have names; otherwise they are called x0, x1, ...
    decodes: bool = False  # whether to make a piece takes more than to look at data in memory
    n_rows: int | None = None  # None: unknown before the source is read
    n_bytes: int | None = None

    @property
    def parts(self) -> list[Part] | None:
        """What is known before the source is read."""
        return None

    @property
    def remarks(self) -> list[str]:
        """How a text table is read, in lines for the user."""
        return []

    @property
    def remarks_after(self) -> list[str]:
        """What the last pass left out of a text table, in lines for the user."""
        return []

    @property
    def doubtful(self) -> dict[str, str]:
        """Columns of text that look numeric: a line about each."""
        return {}

    @property
    def hint(self) -> str:
        """What to try if no column holds numbers."""
        return next(iter(self.doubtful.values()), "")

    @abstractmethod
    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        """Read the wanted columns (all, if the parts are unknown) of about so many rows a piece."""

    def arrow_fields(self, schema: pa.Schema) -> tuple[Field, ...]:
        """The columns of a schema; the first rows tell how long vectors are if it does not."""
        return arrow_fields(schema, self._vector_lengths)

    def _vector_lengths(self, names: list[str]) -> dict[str, int]:
        if not self.repeatable:  # a look at the first rows would be the only one
            return {}
        with closing(self.pieces(names, FIRST_ROWS)) as pieces:
            return vector_lengths((piece.data for piece in pieces), names)

    def as_written(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows as they are, in batches; of a text table as text."""
        return (piece.data for piece in self.pieces(names, PIECE_ROWS))

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        """These columns of all rows as Arrow arrays, whatever they hold."""
        batches = list(self.as_written(names))
        return {name: self._joined(name, [b.column(name) for b in batches]) for name in names}

    def _joined(self, name: str, arrays: list[pa.Array]) -> pa.ChunkedArray:
        """One column. Its arrays, of several files, may have different types of numbers."""
        import pyarrow as pa
        from pyarrow import types

        arrays = [a.dictionary_decode() if types.is_dictionary(a.type) else a for a in arrays]
        kinds = {array.type for array in arrays}
        if len(kinds) > 1:
            if not all(arrow_field(name, kind).numeric for kind in kinds):
                words = listed(sorted(map(str, kinds)))
                raise ValueError(f"{self.description}: column {name!r} holds {words}")
            arrays = [array.cast(pa.float64(), safe=False) for array in arrays]
        column = pa.chunked_array(arrays) if arrays else pa.chunked_array([], pa.null())
        is_text = types.is_string(column.type) or types.is_large_string(column.type)
        return valid_text(column) if is_text else column


def valid_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with characters in place of bytes that are not UTF-8, as Parquet may hold them."""
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        raw = column.cast(pa.large_binary()).to_pylist()
        cells = [None if cell is None else cell.decode("utf-8", "replace") for cell in raw]
        return pa.chunked_array([pa.array(cells, pa.large_string())])
    return column


@contextmanager
def one_line_errors(place: str | Callable[[], str]) -> Iterator[None]:
    """Raise errors of a reader as ValueError with one line that names the place."""
    try:
        yield
    except (ImportError, MemoryError):
        raise
    except Exception as error:  # pyarrow, polars and DuckDB have errors of their own
        where = place if isinstance(place, str) else place()
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if reason.startswith(where):
            raise
        raise ValueError(f"{where}: cannot be read: {reason}") from error


def piece_rows(columns: int, rows: int) -> int:
    """How many rows to read at once."""
    return min(rows, PIECE_ROWS, max(1, PIECE_BYTES // (8 * max(1, columns))))


def arrow_pieces(
    batches: Iterable[pa.RecordBatch], source: str, bytes_read: Callable[[], int] = lambda: 0
) -> Generator[Piece]:
    """A piece for each batch, with the number of its first row."""
    first = 0
    for batch in batches:
        yield Piece(batch, Place(source, first), bytes_read())
        first += batch.num_rows


def pieces_in_order(readers: Iterable[Reader], wanted: list[str], rows: int) -> Generator[Piece]:
    """The pieces of one reader after the other."""
    before = 0
    for reader in readers:
        for piece in reader.pieces(wanted, rows):
            yield replace(piece, bytes_read=before + piece.bytes_read)
        before += reader.n_bytes or 0


@dataclass(eq=False)
class FileReader(Reader):
    """What readers of one file share."""

    file: InputFile
    decodes = True

    def __post_init__(self) -> None:
        self.description = self.file.name
        self.n_bytes: int = len(self.file.data) if self.file.once else self.file.size


@dataclass(eq=False)
class MatrixReader(Reader):
    """Reads a NumPy or CSR matrix."""

    X: Any
    description: str
    named = False

    def __post_init__(self) -> None:
        if self.X.ndim != 2:
            raise ValueError(f"{self.description}: has {self.X.ndim} dimensions, not 2")
        self.n_rows, self.n_bytes = int(self.X.shape[0]), int(self.X.data.nbytes)

    @cached_property
    def parts(self) -> list[Part]:
        return [Part(self.description, matrix_fields(self.X.shape[1], self.X.dtype))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        n, n_bytes = self.X.shape[0], self.X.data.nbytes
        if sparse.issparse(self.X):
            yield Piece(self.X, Place(self.description), n_bytes)
            return
        for first in range(0, n, rows):
            X = self.X[first : first + rows]
            yield Piece(X, Place(self.description, first), n_bytes * (first + len(X)) // n)

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        columns = (self.X[:, [int(name[1:])]] for name in names)
        dense = (c.toarray() if sparse.issparse(c) else c for c in columns)
        return {name: column[:, 0] for name, column in zip(names, dense, strict=True)}


@dataclass(eq=False)
class FrameReader(Reader):
    """Reads a pandas frame; the index is not read."""

    frame: Any
    description: str

    def __post_init__(self) -> None:
        self.n_rows = len(self.frame)
        self.n_bytes: int = int(self.frame.memory_usage(index=False).sum())

    @cached_property
    def parts(self) -> list[Part]:
        import pyarrow as pa

        with one_line_errors(self.description):
            schema = pa.Schema.from_pandas(self.frame, preserve_index=False)
        return [Part(self.description, self.arrow_fields(schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        import pyarrow as pa

        names = [str(name) for name in self.frame.columns]
        place = {name: j for j, name in reversed([*enumerate(names)])}
        n = len(self.frame)
        for first in range(0, n, rows):
            part = self.frame.iloc[first : first + rows]
            with one_line_errors(self.description):
                column = self._column_of(part)
                columns = (column(place[name]) for name in wanted or names)
                arrays = [pa.array(values, from_pandas=True) for values in columns]
                batch = pa.RecordBatch.from_arrays(arrays, names=wanted or names)
            done = self.n_bytes * (first + len(part)) // n
            yield Piece(batch, Place(self.description, first), done)

    def _column_of(self, part: Any) -> Callable[[int], Any]:
        """A function that returns a column of some rows by its number."""
        kinds = self.frame.dtypes.unique()
        if len(kinds) == 1 and isinstance(kinds[0], np.dtype) and kinds[0].kind in "fiu":
            X = part.to_numpy()  # ten times faster than a Series for each column
            return lambda j: X[:, j]
        return lambda j: part.iloc[:, j]


@dataclass(eq=False)
class BatchReader(Reader):
    """Reads a source that gives Arrow batches."""

    source: Any
    description: str

    @cached_property
    def parts(self) -> list[Part]:
        return [Part(self.description, self.arrow_fields(self.schema()))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        with one_line_errors(self.description):
            batches = self.batches(wanted, piece_rows(len(wanted), rows))
            yield from arrow_pieces(batches, self.description)

    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns."""

    @abstractmethod
    def batches(self, wanted: list[str], rows: int) -> Any:
        """Batches of about so many rows, at least with the columns that are wanted."""


class LazyFrameReader(BatchReader):
    """Computes a polars LazyFrame in batches."""

    decodes = True

    def schema(self) -> pa.Schema:
        return self.source.clear().collect().to_arrow().schema

    def batches(self, wanted: list[str], rows: int) -> Any:
        frames = self.source.select(wanted).collect_batches(chunk_size=rows)
        return (batch for frame in frames for batch in frame.to_arrow().to_batches())


class RelationReader(BatchReader):
    """Runs the query of a DuckDB relation, anew for every pass."""

    decodes = True

    def schema(self) -> pa.Schema:
        import pyarrow as pa

        return pa.RecordBatchReader.from_stream(self.source.limit(0)).schema

    def batches(self, wanted: list[str], rows: int) -> Any:
        quoted = ['"' + name.replace('"', '""') + '"' for name in wanted]
        query = self.source.select(*quoted)
        # The second name is that of DuckDB 1.
        run = getattr(query, "to_arrow_reader", None) or query.fetch_record_batch
        return run(rows)


@dataclass(eq=False)
class StreamReader(BatchReader):
    """Reads anything with Arrow's C stream interface."""

    def __post_init__(self) -> None:
        import pyarrow as pa

        self.repeatable = not isinstance(self.source, pa.RecordBatchReader | Iterator)
        size = getattr(self.source, "num_rows", getattr(self.source, "height", None))
        self.n_rows = size if isinstance(size, int) else None
        # Some streams can be opened only once: the first pass reads this one.
        self._opened: pa.RecordBatchReader | None = self._open()
        self._schema = self._opened.schema

    def schema(self) -> pa.Schema:
        return self._schema

    def _open(self) -> pa.RecordBatchReader:
        import pyarrow as pa

        with one_line_errors(self.description):
            return pa.RecordBatchReader.from_stream(self.source)

    def batches(self, wanted: list[str], rows: int) -> Any:
        stream, self._opened = self._opened or self._open(), None
        return stream


@dataclass(eq=False)
class ItemsReader(Reader):
    """Reads an iterable of arrays or frames, or one that a function makes for every pass."""

    items: Any
    description: str
    repeatable: bool = True
    named = False

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        return pieces_in_order(self._readers(), [], sys.maxsize)

    def _readers(self) -> Iterator[Reader]:
        items = self.items() if callable(self.items) else self.items
        if not isinstance(items, Iterable):
            what = type(items).__name__
            raise TypeError(f"{self.description}: returns {what}, not an iterable of matrices")
        for number, item in enumerate(items, start=1):
            reader = memory_reader(item, f"array {number}")
            if reader is None:
                what = type(item).__name__
                raise ValueError(f"array {number}: is a {what}, not a matrix or a frame")
            yield reader


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
