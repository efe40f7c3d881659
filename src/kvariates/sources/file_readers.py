"""Readers of files, and the choice of a reader.

| extension | read by | pieces in blocks |
|---|---|---|
| text: .csv, .tsv and others, plain or .gz | `text_reader.py` | 4 MB of text |
| .parquet | `ParquetReader` | at most 65,536 rows, whatever the size of row groups |
| .arrow, .feather, .ipc: file or stream format | `IpcReader` | record batches |
| .npy | `NpyReader` | a memory map of a block; a part of a file that is elsewhere |
| .npy, .npz, .mtx | `array_files.py`, in memory only | |
| a folder, a pattern, a list | `FilesReader`: one file after the other | those of the files |
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvariates.sources.array_files import NpyReader, read_array
from kvariates.sources.columns import listed
from kvariates.sources.input_file import InputFile, Source, input_file, input_files
from kvariates.sources.memory_readers import MatrixReader
from kvariates.sources.pieces import (
    ArrowPiece,
    Piece,
    Place,
    arrow_fields,
)
from kvariates.sources.readers import (
    FileReader,
    Part,
    Reader,
    arrow_pieces,
    one_line_errors,
    piece_rows,
)
from kvariates.sources.text_format import TextOptions
from kvariates.sources.text_reader import TextReader

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

IPC_MAGIC = b"ARROW1"  # the first bytes of the file format; the stream format has none
COLUMN_BYTES = 2**20  # of each column; without a limit, a whole row group is read at once
STREAMED = (".parquet", ".csv", ".tsv", ".txt", ".arrow", ".feather", ".ipc", ".npy")


def file_reader(
    source: Source, text: TextOptions, files: Any = None, *, whole: bool = False
) -> Reader:
    """The reader of a path, a folder, a pattern or a list; `whole`: to read it into memory."""
    found = input_files(source, files)
    readers = [_reader(file, text, whole) for file in found]
    if not isinstance(source, str | os.PathLike):
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return FilesReader(f"{found[0].name}{more}", readers)
    one = len(found) == 1 and found[0] == input_file(source, files)
    return readers[0] if one else FilesReader(str(source), readers)


def _reader(file: InputFile, text: TextOptions, whole: bool) -> Reader:
    if file.once and not whole:
        raise ValueError(
            f"{file.name}: is a pipe, which can be read only once, and blocks are read more often; "
            "save it to a file"
        )
    file.needs()
    if file.kind == "text":
        return TextReader(file, text, whole)
    if file.kind == "parquet":
        return ParquetReader(file)
    if file.kind == "arrow":
        return IpcReader(file)
    if whole:
        with one_line_errors(file.name):
            X = read_array(file)
        if X.ndim != 2:
            raise ValueError(f"{file.name}: the array has {X.ndim} dimensions, not 2")
        return MatrixReader(X, file.name)
    if file.path.name.lower().endswith(".npy") and not file.gzipped:
        return NpyReader(file)
    raise ValueError(f"{file.name}: cannot be read in blocks; known are {listed(STREAMED, 20)}")


@dataclass(frozen=True)
class FilesReader(Reader):
    """Reads files one after the other, as one table."""

    label: str
    readers: Sequence[Reader]
    decodes = True

    @cached_property
    def n_bytes(self) -> int:
        return sum(reader.n_bytes or 0 for reader in self.readers)

    @cached_property
    def n_rows(self) -> int | None:
        numbers = [reader.n_rows for reader in self.readers]
        return None if None in numbers else sum(n or 0 for n in numbers)

    @property
    def named(self) -> bool:
        return self.readers[0].named

    @property
    def parts(self) -> list[Part]:
        return [part for reader in self.readers for part in reader.parts or []]

    @property
    def remarks(self) -> list[str]:
        return self._said([reader.remarks for reader in self.readers])

    @property
    def remarks_after(self) -> list[str]:
        return self._said([reader.remarks_after for reader in self.readers])

    def _said(self, lines: list[list[str]]) -> list[str]:
        """Lines that are said of all files, or with the name of the file."""
        if all(each == lines[0] for each in lines):
            return lines[0]
        pairs = zip(self.readers, lines, strict=True)
        return [
            f"{Path(reader.description).name}: {line}" for reader, each in pairs for line in each
        ]

    @property
    def doubtful(self) -> dict[str, str]:
        return {name: line for reader in self.readers for name, line in reader.doubtful.items()}

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        before = 0
        for reader in self.readers:
            for piece in reader.pieces(wanted, rows):
                yield replace(piece, bytes_read=before + piece.bytes_read)
            before += reader.n_bytes or 0

    def as_written(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        return (batch for reader in self.readers for batch in reader.as_written(names))

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        found = [reader.originals(names, identifiers=identifiers) for reader in self.readers]
        return {
            name: self._joined(name, [chunk for each in found for chunk in each[name].chunks])
            for name in names
        }


@dataclass(frozen=True)
class ParquetReader(FileReader):
    """Reads a Parquet file, a few rows at a time."""

    @cached_property
    def n_bytes(self) -> int:
        return super().n_bytes

    @cached_property
    def _footer(self) -> tuple[int, Part]:
        with one_line_errors(self.description), self._opened() as file:
            fields = arrow_fields(file.schema_arrow)
            return file.metadata.num_rows, Part(self.description, fields)

    @property
    def n_rows(self) -> int:
        return self._footer[0]

    @property
    def parts(self) -> list[Part]:
        return [self._footer[1]]

    def _opened(self) -> parquet.ParquetFile:
        from pyarrow import parquet

        return parquet.ParquetFile(
            self.file.arrow(), pre_buffer=False, buffer_size=COLUMN_BYTES,
            page_checksum_verification=True,
        )  # fmt: skip

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        first, ends, rows = 0, np.zeros(0, np.int64), piece_rows(len(wanted), rows)

        def place() -> str:
            group = int(np.searchsorted(ends, first, side="right")) + 1
            return (
                f"{self.description}: row group {group}" if group <= len(ends) else self.description
            )

        with one_line_errors(place), self._opened() as file:
            meta = file.metadata
            groups = (meta.row_group(g).num_rows for g in range(meta.num_row_groups))
            ends = np.cumsum(np.fromiter(groups, np.int64))
            for batch in file.iter_batches(rows, columns=wanted):
                done = self.n_bytes * (first + batch.num_rows) // meta.num_rows
                yield ArrowPiece(batch, Place(self.description, first, ends), done)
                first += batch.num_rows


@dataclass(frozen=True)
class IpcReader(FileReader):
    """Reads an Arrow IPC file, in the file format (Feather) or in the stream format."""

    @cached_property
    def _schema(self) -> pa.Schema:
        with one_line_errors(self.description), self.file.arrow() as file:
            return _ipc_stream(file, None).schema

    @property
    def parts(self) -> list[Part]:
        return [Part(self.description, arrow_fields(self._schema))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        index = [i for i, name in enumerate(self._schema.names) if name in wanted]
        with one_line_errors(self.description), self.file.arrow() as file:
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
    from pyarrow import ipc

    if isinstance(stream, ipc.RecordBatchFileReader):
        return (stream.get_batch(i) for i in range(stream.num_record_batches))
    return iter(stream)
