"""Readers of Arrow and NumPy files, and the choice of a reader for a path.

| extension | read by | pieces |
|---|---|---|
| .parquet, or a folder of such files | `parquet_reader.py` | at most 65,536 rows |
| text: .csv, .tsv and others, plain or .gz | `text_reader.py` | 4 MB of text |
| .arrow, .feather, .ipc: file or stream format | pyarrow | record batches |
| .npy | numpy | a memory map of a block |
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
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
from kvariates.sources.readers import OneFile, Part, Reader, arrow_pieces, one_line_errors
from kvariates.sources.text_format import TextOptions
from kvariates.sources.text_reader import TextReader

if TYPE_CHECKING:
    import pyarrow as pa

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
        return TextReader(file, text)
    if kind == "parquet":
        return ParquetReader.of_file(path)
    if kind == "arrow":
        return IpcReader(file)
    if path.name.lower().endswith(".npy"):
        return NpyReader(file)
    raise ValueError(f"{path}: cannot be read in blocks; known are {listed(STREAMED, 20)}")


@dataclass(frozen=True)
class IpcReader(OneFile):
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
class NpyReader(OneFile):
    """Reads a .npy file. Every piece has a memory map of its own, which is freed with it."""

    named = decodes = False

    @cached_property
    def n_rows(self) -> int:
        return len(self._map())

    @property
    def parts(self) -> list[Part]:
        X = self._map()
        return [Part(self.description, matrix_fields(X.shape[1], X.dtype))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[MatrixPiece]:
        for first in range(0, self.n_rows, rows):
            X = self._map()[first : first + rows]
            done = self.n_bytes * (first + len(X)) // self.n_rows
            yield MatrixPiece(X, Place(self.description, first), done)

    def _map(self) -> Values:
        with one_line_errors(self.description):
            X = np.asarray(np.lib.format.open_memmap(self.file.path, mode="r"))
        if X.ndim != 2:
            raise ValueError(f"{self.description}: the array has {X.ndim} dimensions, not 2")
        return X


STREAMED = (".parquet", ".csv", ".tsv", ".txt", ".arrow", ".feather", ".ipc", ".npy")
