"""Reads .fvecs, .bvecs and .ivecs files, the vectors of benchmarks of nearest neighbours.

Each row is its number of values as an int32, and then the values: float32, bytes or int32, all
little-endian. All rows must have the same number.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from kvariates.sources.columns import matrix_fields
from kvariates.sources.input_file import InputFile, check_size
from kvariates.sources.pieces import Piece, Place, Values
from kvariates.sources.readers import FileReader, Part, one_line_errors

HEAD = np.dtype("<i4")
VALUES: dict[str, np.dtype[Any]] = {
    "fvecs": np.dtype("<f4"), "bvecs": np.dtype("u1"), "ivecs": np.dtype("<i4"),
}  # fmt: skip
MOST = 2**24  # values of a row: more shows that the file is something else


def read_vectors(file: InputFile) -> Values:
    """All rows of a file as a matrix."""
    raw = np.frombuffer(file.data, np.uint8)
    form = _Form.of(file, raw[: HEAD.itemsize], len(raw))
    check_size(form.n * form.d * form.dtype.itemsize, file.name)
    return form.values(raw, 0, form.n)


@dataclass(frozen=True)
class _Form:
    """The shape of the rows of a file, whose first row says how many values it has."""

    name: str
    dtype: np.dtype[Any]
    n: int
    d: int

    @classmethod
    def of(cls, file: InputFile, start: Values, size: int) -> _Form:
        """ValueError if a file of this size does not end with a whole row."""
        if size == 0:
            raise ValueError(f"{file.name}: the file is empty")
        if len(start) < HEAD.itemsize:
            raise ValueError(f"{file.name}: is cut off: it has {size} bytes")
        dtype, d = VALUES[file.kind], int(start.view(HEAD)[0])
        if not 0 < d <= MOST:
            raise ValueError(
                f"{file.name}: is no .{file.kind} file: its first row says that it has {d} values"
            )
        n, rest = divmod(size, HEAD.itemsize + d * dtype.itemsize)
        if rest:
            raise ValueError(
                f"{file.name}: is cut off, or its rows have different lengths: after {n:,} rows of "
                f"{d} values, {rest:,} bytes are left"
            )
        return cls(file.name, dtype, n, d)

    @property
    def row_bytes(self) -> int:
        return HEAD.itemsize + self.d * self.dtype.itemsize

    def values(self, raw: Values, first: int, last: int) -> Values:
        """The values of the rows from `first` to `last`, of which `raw` has all bytes."""
        rows = raw.reshape(last - first, self.row_bytes)
        lengths = rows[:, : HEAD.itemsize].view(HEAD)[:, 0]
        if (other := lengths != self.d).any():
            row = int(other.argmax())
            raise ValueError(
                f"{self.name}: row {first + row + 1} says that it has {lengths[row]} values, but "
                f"those before have {self.d}"
            )
        return rows[:, HEAD.itemsize :].view(self.dtype)


@dataclass(eq=False)
class VectorsReader(FileReader):
    """Reads such a file in blocks: a memory map of its bytes, or a part of a file elsewhere."""

    named = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.decodes = self.file.files is not None
        with one_line_errors(self.description), self.file.opened() as raw:
            start = np.frombuffer(bytes(raw.read(HEAD.itemsize)), np.uint8)
            self._form = _Form.of(self.file, start, self.n_bytes)
        self.n_rows = self._form.n

    @cached_property
    def parts(self) -> list[Part]:
        return [Part(self.description, matrix_fields(self._form.d, self._form.dtype))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        n = self._form.n
        for first in range(0, n, rows):
            last = min(first + rows, n)
            with one_line_errors(self.description):
                X = self._form.values(self._bytes(first, last), first, last)
            yield Piece(X, Place(self.description, first), self.n_bytes * last // n)

    def _bytes(self, first: int, last: int) -> Values:
        start, stop = first * self._form.row_bytes, last * self._form.row_bytes
        if self.file.files is None:
            mapped = np.memmap(self.file.path, np.uint8, "r")
            return np.asarray(mapped)[start:stop]
        with self.file.opened() as raw:
            raw.seek(start)
            return np.frombuffer(bytes(raw.read(stop - start)), np.uint8)
