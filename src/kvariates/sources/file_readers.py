"""Readers of CSV, Arrow and NumPy files, and the choice of a reader for a path.

| extension | read by | pieces |
|---|---|---|
| .parquet, or a folder of such files | `parquet_reader.py` | at most 65,536 rows |
| text: .csv, .tsv and others, plain or .gz | pyarrow | 4 MB of text |
| .arrow, .feather, .ipc: file or stream format | pyarrow | record batches |
| .npy | numpy | a memory map of a block |
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvariates.extras import needed
from kvariates.sources.columns import listed, matrix_fields
from kvariates.sources.input_file import InputFile
from kvariates.sources.parquet_reader import ParquetReader
from kvariates.sources.pieces import ArrowPiece, MatrixPiece, Place, Values, arrow_fields
from kvariates.sources.readers import Part, Reader, arrow_pieces, one_line_errors
from kvariates.sources.text_check import TextCheck
from kvariates.sources.text_format import TextFormat, TextOptions
from kvariates.sources.text_numbers import find_numbers
from kvariates.sources.text_sniffing import SAMPLE_BYTES, find_format, has_enough_lines
from kvariates.sources.text_table import CommentFilter, convert_options, parse_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import csv

CSV_BYTES = 2**22
IPC_MAGIC = b"ARROW1"  # the first bytes of the file format; the stream format has none


def file_reader(path: Path, text: TextOptions) -> Reader:
    """The reader of a file, by its extension, or of a folder of Parquet files."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file or folder")
    if path.is_dir():
        needed("pyarrow", "files", f"reading {path}")
        return ParquetReader.of_folder(path)
    if not path.is_file():
        raise ValueError(
            f"{path}: is a pipe, which can be read only once, and blocks are read more often; "
            "save it to a file"
        )
    file = InputFile(path)
    file.needs()
    kind = file.kind
    if kind == "text":
        return CsvReader(path, text)
    if kind == "parquet":
        return ParquetReader.of_file(path)
    if kind == "arrow":
        return IpcReader(path)
    if path.name.lower().endswith(".npy"):
        return NpyReader(path)
    raise ValueError(f"{path}: cannot be read in blocks; known are {listed(STREAMED, 20)}")


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
    """Reads a text table, plain or compressed."""

    text: TextOptions
    n_rows = None
    named = True

    @cached_property
    def format(self) -> TextFormat:
        """How the table is written, by its beginning."""
        with one_line_errors(self.description), self._input() as (_, text):
            sample, size = text.read(SAMPLE_BYTES), SAMPLE_BYTES
            while len(sample) == size and not has_enough_lines(sample):
                size *= 2
                sample += text.read(size - len(sample))
            try:
                return find_format(sample, self.text, len(sample) < size)
            except ValueError as error:
                raise ValueError(f"{self.path}: {error}") from None

    @cached_property
    def comments(self) -> CommentFilter:
        """The comments between the rows that the last pass left out."""
        return CommentFilter()

    @cached_property
    def _first_types(self) -> dict[str, Any]:
        """The types of the columns in the first lines; None for text that holds numbers."""
        import pyarrow as pa

        with self._errors(), self._input() as (_, text):
            stream = self._stream(text, None, self.comments)
            fields = list(stream.schema)
            batch = next(iter(stream), None)
        if batch is None:
            raise ValueError(f"{self.path}: no rows")
        types = {}
        for field, column in zip(fields, batch.columns, strict=True):
            text = pa.types.is_string(field.type)
            marked = text and find_numbers(column, self.format.decimal).numbers is not None
            types[field.name] = None if marked else field.type
        return types

    @property
    def parts(self) -> list[Part]:
        import pyarrow as pa

        names = self.format.names
        types = self._first_types
        schema = pa.schema([(name, types[name] or pa.float64()) for name in names])
        return [Part(self.description, arrow_fields(schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:

        # A column of integers may have decimals in later lines, so all numbers are float64.
        found = {name: self._first_types[name] for name in wanted}
        types = {n: _read_as(kind) for n, kind in found.items()}
        marked = [name for name, kind in found.items() if kind is None]
        self.comments.forget()
        with self._errors(), self._input() as (file, text):
            batches: Any = self._stream(text, types, self.comments)
            if marked:
                batches = self._without_marks(batches, marked)
            yield from arrow_pieces(batches, self.description, file.tell)

    def as_written(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        """These columns as text, in batches."""
        import pyarrow as pa

        with self._errors(), self._input() as (_, text):
            yield from self._stream(text, dict.fromkeys(names, pa.string()))

    def _without_marks(self, batches: Any, marked: list[str]) -> Iterator[pa.RecordBatch]:
        """The batches with numbers in place of text with thousands separators and per cents."""
        first = 0
        for batch in batches:
            for name in marked:
                at = batch.schema.get_field_index(name)
                column = find_numbers(batch.column(at), self.format.decimal)
                if column.bad >= 0:
                    where = Place(self.description, first).row(column.bad, name)
                    cell = batch.column(at)[column.bad].as_py()
                    raise ValueError(f"{where}: {cell!r} is not a number")
                numbers = column.numbers
                if numbers is None:  # all are missing
                    numbers = batch.column(at).cast("float64", safe=False)
                batch = batch.set_column(at, name, numbers)
            first += batch.num_rows
            yield batch

    @contextmanager
    def _input(self) -> Iterator[tuple[pa.NativeFile, pa.NativeFile]]:
        """The file, and its bytes without compression."""
        import pyarrow as pa

        with pa.OSFile(self.description) as file:
            if InputFile(self.path).gzipped:
                yield file, pa.CompressedInputStream(file, "gzip")
            else:
                yield file, file

    def _stream(
        self, text: pa.NativeFile, types: dict[str, Any] | None,
        comments: CommentFilter | None = None,
    ) -> csv.CSVStreamingReader:  # fmt: skip
        """The rows in batches; of the columns with these types, if they are given."""
        import pyarrow as pa
        from pyarrow import csv

        how = self.format
        if how.encoding != "utf-8":
            text = pa.transcoding_input_stream(text, how.encoding, "utf-8")
        check = TextCheck(how.delimiter, place=f"{self.description}: ", skip=how.skip)
        columns = {} if types is None else {"column_types": types, "include_columns": list(types)}
        # Messages have row numbers only without threads, and a stream is read by one thread anyway.
        reading = {"block_size": CSV_BYTES, "use_threads": False, "skip_rows": how.skip}
        return csv.open_csv(
            pa.lib.TransformInputStream(text, check),
            convert_options=convert_options(how, **columns),
            **parse_options(how, comments or CommentFilter(), **reading),
        )

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

        pyarrow counts columns from 0, and lines from 1 with those that are skipped, and comments.
        """
        if found := re.match(r"In CSV column #(\d+): Row #(\d+): .* value '(.*)'", message):
            column = self.format.names[int(found[1])]
            where = Place(self.description).row(self._row(int(found[2])) - 1, column)
            return f"{where}: {found[3]!r} is not a number"
        if found := re.match(r"CSV parse error: Row #(\d+): (.*)", message):
            return f"{self.path}: row {self._row(int(found[1]))}: {found[2]}"
        return message

    def _row(self, line: int) -> int:
        return line - self.format.skip - self.comments.before(line)


def _read_as(kind: Any) -> Any:
    import pyarrow as pa

    if kind is None:
        return pa.string()
    return kind if pa.types.is_boolean(kind) else pa.float64()


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


STREAMED = (".parquet", ".csv", ".tsv", ".txt", ".arrow", ".feather", ".ipc", ".npy")
