"""Readers of files, and the choice of a reader.

| extension | read by | pieces in blocks |
|---|---|---|
| text: .csv, .tsv and others, plain or .gz | `text_reader.py` | 4 MB of text |
| .parquet | `ParquetReader` | at most 65,536 rows, whatever the size of row groups |
| .arrow, .feather, .ipc: file or stream format | `IpcReader` | record batches |
| .npy | `NpyReader` | a memory map of a block; a part of a file that is elsewhere |
| .fvecs, .bvecs, .ivecs | `vector_files.py` | the same |
| .npy, .npz, .mtx | `array_files.py`, in memory only | |
| a folder, a pattern, a list | `FilesReader`: one file after the other | those of the files |
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kvariates.sources.array_files import NpyReader, read_array
from kvariates.sources.columns import arrow_fields, listed
from kvariates.sources.input_file import InputFile, Source, input_file, input_files
from kvariates.sources.pieces import Piece, Place
from kvariates.sources.readers import (
    FileReader,
    MatrixReader,
    Part,
    Reader,
    arrow_pieces,
    one_line_errors,
    piece_rows,
    pieces_in_order,
)
from kvariates.sources.text_format import TextOptions
from kvariates.sources.text_reader import TextReader
from kvariates.sources.vector_files import VALUES, VectorsReader, read_vectors

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import parquet

IPC_MAGIC = b"ARROW1"  # the first bytes of the file format; the stream format has none
COLUMN_BYTES = 2**20  # of each column; without a limit, a whole row group is read at once
STREAMED = (
    ".parquet", ".csv", ".tsv", ".txt", ".arrow", ".feather", ".ipc", ".npy", ".fvecs",
    ".bvecs", ".ivecs",
)  # fmt: skip


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
            X = read_vectors(file) if file.kind in VALUES else read_array(file)
        if X.ndim != 2:
            raise ValueError(f"{file.name}: the array has {X.ndim} dimensions, not 2")
        return MatrixReader(X, file.name)
    if file.path.name.lower().endswith(".npy") and not file.gzipped:
        return NpyReader(file)
    if file.kind in VALUES and not file.gzipped:
        return VectorsReader(file)
    raise ValueError(f"{file.name}: cannot be read in blocks; known are {listed(STREAMED, 20)}")


@dataclass(eq=False)
class FilesReader(Reader):
    """Reads files one after the other, as one table."""

    description: str
    readers: Sequence[Reader]
    decodes = True

    def __post_init__(self) -> None:
        self.named = self.readers[0].named
        self.n_bytes = sum(reader.n_bytes or 0 for reader in self.readers)
        numbers = [reader.n_rows for reader in self.readers]
        self.n_rows = None if None in numbers else sum(n or 0 for n in numbers)

    @cached_property
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
        names = [Path(reader.description).name for reader in self.readers]
        return [f"{name}: {line}" for name, each in zip(names, lines, strict=True) for line in each]

    @property
    def doubtful(self) -> dict[str, str]:
        return {name: line for reader in self.readers for name, line in reader.doubtful.items()}

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        return pieces_in_order(self.readers, wanted, rows)

    def as_written(self, names: list[str]) -> Iterator[pa.RecordBatch]:
        return (batch for reader in self.readers for batch in reader.as_written(names))

    def originals(self, names: list[str], *, identifiers: bool) -> dict[str, Any]:
        found = [reader.originals(names, identifiers=identifiers) for reader in self.readers]
        if not self.named:  # matrices
            return {name: np.concatenate([each[name] for each in found]) for name in names}
        return {
            name: self._joined(name, [chunk for each in found for chunk in each[name].chunks])
            for name in names
        }


@dataclass(eq=False)
class ParquetReader(FileReader):
    """Reads a Parquet file, a few rows at a time."""

    def __post_init__(self) -> None:
        super().__post_init__()
        with one_line_errors(self.description), self._opened() as file:
            self.n_rows = file.metadata.num_rows
            schema = file.schema_arrow
        self._fields = arrow_fields(schema)
        self._fields = self.arrow_fields(schema)

    @property
    def parts(self) -> list[Part]:
        return [Part(self.description, self._fields)]

    def _opened(self, column_bytes: int = COLUMN_BYTES) -> parquet.ParquetFile:
        from pyarrow import parquet

        return parquet.ParquetFile(
            self.file.arrow(), pre_buffer=False, buffer_size=column_bytes,
            page_checksum_verification=True,
        )  # fmt: skip

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        width = sum(len(field.features) for field in self._fields if field.name in wanted)
        first, ends, rows = 0, np.zeros(0, np.int64), piece_rows(width, rows)

        def place() -> str:
            group = int(np.searchsorted(ends, first, side="right")) + 1
            return f"{self.description}{f': row group {group}' if group <= len(ends) else ''}"

        with one_line_errors(place), self._opened(min(COLUMN_BYTES, 8 * rows)) as file:
            meta = file.metadata
            groups = (meta.row_group(g).num_rows for g in range(meta.num_row_groups))
            ends = np.cumsum(np.fromiter(groups, np.int64))
            for batch in file.iter_batches(rows, columns=wanted):
                done = self.n_bytes * (first + batch.num_rows) // meta.num_rows
                yield Piece(batch, Place(self.description, first, ends), done)
                first += batch.num_rows
        _release_memory()


@dataclass(eq=False)
class IpcReader(FileReader):
    """Reads an Arrow IPC file, in the file format (Feather) or in the stream format."""

    @cached_property
    def parts(self) -> list[Part]:
        return [Part(self.description, self.arrow_fields(self._schema))]

    @cached_property
    def _schema(self) -> pa.Schema:
        with one_line_errors(self.description), self.file.arrow() as file:
            return _ipc_stream(file, None).schema

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        index = [i for i, name in enumerate(self._schema.names) if name in wanted]
        with one_line_errors(self.description), self.file.arrow() as file:
            batches = _ipc_stream(file, index)
            if hasattr(batches, "get_batch"):  # the file format
                batches = map(batches.get_batch, range(batches.num_record_batches))
            yield from arrow_pieces(batches, self.description, file.tell)


def _release_memory() -> None:
    """Give memory back that pyarrow keeps: hundreds of megabytes after a file of many columns."""
    import pyarrow as pa

    pa.default_memory_pool().release_unused()


def _ipc_stream(file: pa.NativeFile, index: list[int] | None) -> Any:
    """The reader of a file of either format, of the columns with these numbers."""
    from pyarrow import ipc

    options = None if index is None else ipc.IpcReadOptions(included_fields=index)
    magic = file.read(len(IPC_MAGIC))
    file.seek(0)
    opened = ipc.open_file if magic == IPC_MAGIC else ipc.open_stream
    return opened(file, options=options)
