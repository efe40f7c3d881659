"""Reads Parquet files, a few rows at a time, whatever the size of their row groups."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kvariates.sources.columns import Field
from kvariates.sources.pieces import ArrowPiece, Place, arrow_fields
from kvariates.sources.readers import Part, one_line_errors, piece_rows

if TYPE_CHECKING:
    from pyarrow import parquet

BUFFER_BYTES = 2**20  # of each column; without a limit, a whole row group is read at once


class Footer(NamedTuple):
    """What the end of a Parquet file says about it."""

    rows: int
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class ParquetReader:
    """Reads Parquet files one after the other."""

    description: str
    paths: tuple[Path, ...]
    named = repeatable = decodes = True

    @classmethod
    def of_file(cls, path: Path) -> ParquetReader:
        return cls(str(path), (path,))

    @classmethod
    def of_folder(cls, folder: Path) -> ParquetReader:
        """All .parquet files of a folder and its subfolders, sorted by their paths."""
        found = (path for path in folder.rglob("*.parquet") if path.name[0] not in "._")
        paths = tuple(sorted(path for path in found if path.is_file()))
        if not paths:
            raise ValueError(f"{folder}: no .parquet file in this folder")
        return cls(str(folder), paths)

    @cached_property
    def _sizes(self) -> list[int]:
        return [path.stat().st_size for path in self.paths]

    @cached_property
    def _footers(self) -> list[Footer]:
        footers = []
        for path in self.paths:
            with one_line_errors(str(path)), _opened(path) as file:
                footers.append(Footer(file.metadata.num_rows, arrow_fields(file.schema_arrow)))
        return footers

    @property
    def n_bytes(self) -> int:
        return sum(self._sizes)

    @property
    def n_rows(self) -> int:
        return sum(footer.rows for footer in self._footers)

    @property
    def parts(self) -> list[Part]:
        pairs = zip(self.paths, self._footers, strict=True)
        return [Part(str(path), footer.fields) for path, footer in pairs]

    def pieces(self, wanted: list[str], rows: int) -> Generator[ArrowPiece]:
        before, rows = 0, piece_rows(len(wanted), rows)
        for path, size in zip(self.paths, self._sizes, strict=True):
            for piece in _pieces(path, size, wanted, rows):
                yield replace(piece, bytes_read=before + piece.bytes_read)
            before += size


def _opened(path: Path) -> parquet.ParquetFile:
    from pyarrow import parquet

    return parquet.ParquetFile(
        path, pre_buffer=False, buffer_size=BUFFER_BYTES, page_checksum_verification=True
    )


def _pieces(path: Path, size: int, wanted: list[str], rows: int) -> Iterator[ArrowPiece]:
    """The pieces of a file of `size` bytes."""
    first, ends = 0, np.zeros(0, np.int64)

    def place() -> str:
        group = int(np.searchsorted(ends, first, side="right")) + 1
        return f"{path}: row group {group}" if group <= len(ends) else str(path)

    with one_line_errors(place), _opened(path) as file:
        meta = file.metadata
        groups = (meta.row_group(g).num_rows for g in range(meta.num_row_groups))
        ends = np.cumsum(np.fromiter(groups, np.int64))
        for batch in file.iter_batches(rows, columns=wanted):
            done = size * (first + batch.num_rows) // meta.num_rows
            yield ArrowPiece(batch, Place(str(path), first, ends), done)
            first += batch.num_rows
