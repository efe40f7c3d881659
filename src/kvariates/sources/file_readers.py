"""Readers of CSV, Arrow and NumPy files, and the choice of a reader for a path.

| extension | read by | pieces |
|---|---|---|
| .parquet, or a folder of such files | `parquet_reader.py` | at most 65,536 rows |
| .csv, .csv.gz | pyarrow | 4 MB of text |
| .arrow, .feather, .ipc: file or stream format | pyarrow | record batches |
| .npy | numpy | a memory map of a block |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvariates.sources.columns import is_number, listed, matrix_fields
from kvariates.sources.parquet_reader import ParquetReader
from kvariates.sources.pieces import ArrowPiece, MatrixPiece, Place, Values, arrow_fields
from kvariates.sources.readers import Part, Reader, arrow_pieces, one_line_errors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv

CSV_BYTES = 2**22
IPC_MAGIC = b"ARROW1"  # the first bytes of the file format; the stream format has none


def file_reader(path: Path) -> Reader:
    """The reader of a file, by its extension, or of a folder of Parquet files."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if path.is_dir():
        return ParquetReader.of_folder(path)
    name = path.name.lower()
    make = next((make for end, make in FILE_READERS.items() if name.endswith(end)), None)
    if make is None:
        raise ValueError(f"{path}: unknown extension; known are {listed(list(FILE_READERS))}")
    return make(path)


@dataclass(frozen=True)
class _File:
    """What readers of one file share."""

    path: Path
    repeatable = decodes = True

    @property
    def description(self) -> str:
        return str(self.path)

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size


@dataclass(frozen=True)
class CsvReader(_File):
    """Reads a CSV file, plain or compressed."""

    n_rows = None
    named = True

    @cached_property
    def _schema(self) -> pa.Schema:
        """The names of the columns, and their types in the first lines."""
        with self._errors(), self._input() as (_, text):
            schema = _csv_stream(text, None).schema
        # pyarrow reads the first line as names; a file without names would lose a row.
        if all(is_number(name) for name in schema.names):
            raise ValueError(f"{self.path}: the first line holds numbers; add a line of names")
        return schema

    @property
    def parts(self) -> list[Part]:
        return [Part(self.description, arrow_fields(self._schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        import pyarrow as pa

        # A column of integers may have decimals in later lines, so all numbers are float64.
        found = {name: self._schema.field(name).type for name in wanted}
        types = {n: t if pa.types.is_boolean(t) else pa.float64() for n, t in found.items()}
        with self._errors(), self._input() as (file, text):
            yield from arrow_pieces(_csv_stream(text, types), self.description, file.tell)

    @contextmanager
    def _input(self) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
        """The file, and its text."""
        import pyarrow as pa

        with pa.OSFile(self.description) as file:
            if self.path.name.lower().endswith(".gz"):
                yield file, pa.CompressedInputStream(file, "gzip")
            else:
                yield file, file

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import pyarrow as pa

        with one_line_errors(self.description):
            try:
                yield
            except pa.ArrowInvalid as error:
                raise ValueError(self._with_row(str(error))) from error

    def _with_row(self, message: str) -> str:
        """A message of pyarrow, with the column's name and the row as `Place` counts it.

        pyarrow counts columns from 0, and lines from 1 with the line of names.
        """
        if found := re.match(r"In CSV column #(\d+): Row #(\d+): .* value '(.*)'", message):
            column, index = self._schema.names[int(found[1])], int(found[2]) - 2
            where = Place(self.description).row(index, column)
            return f"{where}: {found[3]!r} is not a number"
        if found := re.match(r"CSV parse error: Row #(\d+): (.*)", message):
            return f"{self.path}: row {int(found[1]) - 1}: {found[2]}"
        return message


def _csv_stream(text: pa.NativeFile, types: dict[str, Any] | None) -> csv.CSVStreamingReader:
    from pyarrow import csv

    columns = {} if types is None else {"column_types": types, "include_columns": list(types)}
    return csv.open_csv(
        text,
        # Messages have row numbers only without threads, and a stream is read by one thread anyway.
        read_options=csv.ReadOptions(block_size=CSV_BYTES, use_threads=False),
        convert_options=csv.ConvertOptions(**columns),
    )


@dataclass(frozen=True)
class IpcReader(_File):
    """Reads an Arrow IPC file, in the file format (Feather) or in the stream format."""

    n_rows = None
    named = True

    @cached_property
    def _schema(self) -> pa.Schema:
        import pyarrow as pa

        with one_line_errors(self.description), pa.OSFile(self.description) as file:
            return _ipc_stream(file, None).schema

    @property
    def parts(self) -> list[Part]:
        return [Part(self.description, arrow_fields(self._schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        import pyarrow as pa

        index = [i for i, name in enumerate(self._schema.names) if name in wanted]
        with one_line_errors(self.description), pa.OSFile(self.description) as file:
            batches = _batches(_ipc_stream(file, index))
            yield from arrow_pieces(batches, self.description, file.tell)


def _ipc_stream(file: pa.NativeFile, index: list[int] | None) -> Any:
    """The reader of a file of either format, of the columns with these numbers."""
    from pyarrow import ipc

    options = None if index is None else ipc.IpcReadOptions(included_fields=index)
    magic = file.read(len(IPC_MAGIC))
    file.seek(0)
    opened = ipc.open_file if magic == IPC_MAGIC else ipc.open_stream
    return opened(file, options=options)


def _batches(stream: Any) -> Iterator[pa.RecordBatch]:
    if hasattr(stream, "num_record_batches"):
        return (stream.get_batch(i) for i in range(stream.num_record_batches))
    return iter(stream)


@dataclass(frozen=True)
class NpyReader(_File):
    """Reads a .npy file. Every piece has a memory map of its own, which is freed with it."""

    named = decodes = False

    @cached_property
    def _shape(self) -> tuple[int, ...]:
        return self._map().shape

    @property
    def n_rows(self) -> int:
        return self._shape[0]

    @property
    def parts(self) -> list[Part]:
        X = self._map()
        if X.ndim != 2:
            raise ValueError(f"{self.path}: the array has {X.ndim} dimensions, not 2")
        return [Part(self.description, matrix_fields(X.shape[1], X.dtype))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[MatrixPiece]:
        for first in range(0, self.n_rows, rows):
            X = self._map()[first : first + rows]
            done = self.n_bytes * (first + len(X)) // self.n_rows
            yield MatrixPiece(X, Place(self.description, first), done)

    def _map(self) -> Values:
        with one_line_errors(self.description):
            return np.asarray(np.lib.format.open_memmap(self.path, mode="r"))


FILE_READERS: dict[str, Callable[[Path], Reader]] = {
    ".parquet": ParquetReader.of_file,
    ".csv": CsvReader,
    ".csv.gz": CsvReader,
    ".arrow": IpcReader,
    ".feather": IpcReader,
    ".ipc": IpcReader,
    ".npy": NpyReader,
}
