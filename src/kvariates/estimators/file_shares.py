"""Parquet files as partitions of a cluster, and whether workers keep their rows in memory.

A `FileShare` says what to read of one file. It travels to a worker in place of rows. The worker
reads it once and keeps the rows, or it keeps none and reads the file anew, in blocks, in every
pass. All workers do the same, because a lost one is replaced by any other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kvariates.data.blocks import Block, SourceBlocks
from kvariates.data.rows import F64, SMALL, Floats
from kvariates.sources.block_source import blocks
from kvariates.sources.file_readers import FilesReader, ParquetReader
from kvariates.sources.input_file import InputFile, Source

# Of the workers' memory, for rows in memory. The rest is for Python, what a fit keeps of each row,
# copies that are made while rows are read, and files that are not spread evenly.
ROWS_SHARE = 0.4
# Bytes of a block. A thread takes the memory of about eight, and twice 1 MB for each column, which
# pyarrow decodes a page at a time.
BLOCK_BYTES = 2**22


@dataclass(frozen=True, eq=False, kw_only=True)
class FileShare(SourceBlocks):
    """A Parquet file, as blocks of rows. `in_blocks`: whether a fit reads it anew in every pass."""

    file: InputFile
    description: str  # its name
    n: int
    names: tuple[str, ...]
    weights: str | None  # the column of weights
    dtype: np.dtype[Any]
    in_blocks: bool = False

    @property
    def n_bytes(self) -> int:
        """Of its rows in memory."""
        return self.n * (len(self.names) * self.dtype.itemsize + 8 * (self.weights is not None))

    def opened(self) -> SourceBlocks:
        """Its blocks; later passes check that the file has not changed. Pre: it has rows.

        They are not read ahead: that takes twice the memory, and all threads of a worker have
        files to read.
        """
        return blocks(
            self.file.path, filesystem=self.file.files, columns=self.names, weights=self.weights,
            dtype=self.dtype, block_bytes=BLOCK_BYTES, read_ahead=False,
        )  # fmt: skip

    def __iter__(self) -> Iterator[Block]:
        if self.n:
            yield from self.opened()
        else:
            X = np.empty((0, len(self.names)), self.dtype)
            yield Block(X, None if self.weights is None else np.empty(0), 0)

    def in_memory(self) -> tuple[Floats, F64 | None]:
        """All rows, and their weights."""
        X = np.empty((self.n, len(self.names)), self.dtype)
        weight = None if self.weights is None else np.empty(self.n)
        for block in self:
            part = slice(block.first, block.first + len(block.X))
            X[part] = block.X
            if weight is not None:
                weight[part] = block.weight
        return X, weight


def is_path(X: Any) -> bool:
    """Whether X is a path, a pattern or a list of them."""
    paths = X if isinstance(X, list | tuple) else [X]
    return len(paths) > 0 and all(isinstance(path, str | os.PathLike) for path in paths)


def find_files(
    source: Source, weights: Any, columns: tuple[str, ...] | None = None
) -> list[FileShare] | Exception:
    """The Parquet files of a path, all with the same columns; by default, the numeric ones.

    It reads their footers, where it is called: on a worker. An error is returned, so that the
    worker does not write it to its log. `weights`: the name of a column, or None.
    """
    try:
        if not isinstance(weights, str | None):
            raise TypeError(
                f"sample_weight is a {type(weights).__name__}; with a path, give the name of a "
                "column."
            )
        found = blocks(source, columns=columns, weights=weights)
        layout, reader = found.layout, found.reader
        readers = reader.readers if isinstance(reader, FilesReader) else [reader]
        files = [each for each in readers if isinstance(each, ParquetReader)]
        if other := next((each for each in readers if each not in files), None):
            raise TypeError(f"{other.description}: is not a Parquet file.")
    except (OSError, ValueError, TypeError) as error:
        # There is no parameter to name columns with.
        return type(error)(str(error).partition("; name the columns")[0])
    assert layout is not None  # noqa: S101
    names, weight, dtype = layout.names, layout.weights, layout.dtype
    return [
        FileShare(
            file=each.file, description=each.description, n=each.n_rows or 0, names=names,
            weights=weight, dtype=dtype,
        )
        for each in files
    ]  # fmt: skip


def checked_files(found: list[FileShare] | Exception) -> list[FileShare]:
    """What `find_files` has found, on this machine. Raises its error."""
    if isinstance(found, Exception):
        raise found
    return found


def fitted_to(partitions: Sequence[Any], memory: Sequence[float]) -> list[Any]:
    """The partitions for workers that have so many bytes each: files perhaps in blocks.

    Few rows are always kept: they are drawn in an order of their own.
    """
    files = [part for part in partitions if isinstance(part, FileShare)]
    sizes = [file.n_bytes for file in files]
    few = sum(file.n * len(file.names) for file in files) <= SMALL
    if few or (sum(sizes) <= ROWS_SHARE * sum(memory) and max(sizes) <= ROWS_SHARE * min(memory)):
        return list(partitions)
    return [replace(file, in_blocks=True) for file in files]
