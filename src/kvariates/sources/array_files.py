"""Reads .npy, .npz and Matrix Market files. A header that lies, or a zip bomb, is a ValueError.

`NpyReader` reads a .npy file in blocks.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse

from kvariates.sources.columns import listed, matrix_fields
from kvariates.sources.input_file import InputFile, check_size
from kvariates.sources.pieces import Piece, Place, Values
from kvariates.sources.readers import FileReader, Part, one_line_errors

MAGIC = b"\x93NUMPY"


def read_array(file: InputFile) -> Any:
    """The matrix of a .npy, .npz or .mtx file: a NumPy array or a CSR matrix."""
    if file.kind == "matrix market":
        return _matrix_market(file)
    size = len(file.data) if file.in_memory else file.size
    with io.BytesIO(file.data) if file.in_memory else file.opened() as raw:
        is_npy = raw.read(len(MAGIC)) == MAGIC
        raw.seek(0)
        if is_npy:
            return _npy(raw, size, file.name)
        if not zipfile.is_zipfile(raw):
            raise ValueError(f"{file.name}: is neither a .npy nor a .npz file")
        with zipfile.ZipFile(raw) as archive:
            return _npz(archive, file.name)


class _Header(NamedTuple):
    """What the beginning of a .npy file says of its array, which begins at the byte `start`."""

    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]
    start: int


def _header(raw: IO[bytes], size: int, name: str) -> _Header:
    """The header of an array, which agrees with the size of its file."""
    try:
        version = np.lib.format.read_magic(raw)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else (
            np.lib.format.read_array_header_2_0
        )  # fmt: skip
        found = _Header(*header(raw), raw.tell())
    except ValueError:
        raise ValueError(f"{name}: is damaged: the header of the array cannot be read") from None
    rest = size - found.start
    if math.prod(found.shape) * found.dtype.itemsize > rest and not found.dtype.hasobject:
        words = " x ".join(f"{n:,}" for n in found.shape)
        raise ValueError(
            f"{name}: the header says {words} values of {found.dtype}, but only {rest:,} bytes "
            "follow"
        )
    return found


def _npy(raw: IO[bytes], size: int, name: str) -> Any:
    header = _header(raw, size, name)
    check_size(math.prod(header.shape) * header.dtype.itemsize, name)
    raw.seek(0)
    return np.load(raw, allow_pickle=False)


@dataclass(eq=False)
class NpyReader(FileReader):
    """Reads a .npy file in blocks.

    Every piece has a memory map of its own, which is freed with it, or is read from a remote file.
    """

    named = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.decodes = self.file.files is not None
        name = self.description
        with one_line_errors(name), self.file.opened() as raw:
            header = _header(raw, self.n_bytes, name)
        if len(header.shape) != 2:
            raise ValueError(f"{name}: the array has {len(header.shape)} dimensions, not 2")
        if header.dtype.hasobject:
            raise ValueError(f"{name}: holds Python objects, not numbers")
        if header.by_columns and self.decodes:
            raise ValueError(
                f"{name}: is stored column by column, so a remote file of it cannot be read in "
                "blocks; save it with numpy.ascontiguousarray(X), or download it first"
            )
        self._array, self.n_rows = header, header.shape[0]

    @cached_property
    def parts(self) -> list[Part]:
        return [Part(self.description, matrix_fields(self._array.shape[1], self._array.dtype))]

    def pieces(self, wanted: list[str], rows: int) -> Generator[Piece]:
        n = self._array.shape[0]
        for first in range(0, n, rows):
            with one_line_errors(self.description):
                X = self._rows(first, min(first + rows, n))
            done = self.n_bytes * (first + len(X)) // n
            yield Piece(X, Place(self.description, first), done)

    def _rows(self, first: int, last: int) -> Values:
        if self.file.files is None:
            return np.asarray(np.lib.format.open_memmap(self.file.path, mode="r"))[first:last]
        shape, _, dtype, start = self._array
        with self.file.opened() as raw:
            raw.seek(start + first * shape[1] * dtype.itemsize)
            part = raw.read((last - first) * shape[1] * dtype.itemsize)
        return np.frombuffer(part, dtype).reshape(last - first, shape[1])


def _npz(archive: zipfile.ZipFile, name: str) -> Any:
    """The array X, the only 2-D array, or a sparse matrix of SciPy."""
    infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    check_size(sum(info.file_size for info in infos.values()), name)
    is_sparse = {"format", "shape", "data"} <= infos.keys()
    wanted = ["X"] if "X" in infos and not is_sparse else [*infos]
    arrays = {key: _member(archive, infos[key], name) for key in wanted}
    if is_sparse:
        return _sparse(arrays, name)
    if "X" in arrays:
        return arrays["X"]
    tables = {key: array for key, array in arrays.items() if array.ndim == 2}
    if len(tables) != 1:
        found = f"{len(tables)} 2-D arrays ({listed(list(tables))})" if tables else "no 2-D array"
        raise ValueError(
            f"{name}: has {found}; save the table under the name X: np.savez(file, X=...)"
        )
    return next(iter(tables.values()))


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str) -> Any:
    with archive.open(info) as file:
        raw = io.BytesIO(file.read(info.file_size))
    return _npy(raw, len(raw.getbuffer()), f"{name}: {info.filename}")


def _sparse(arrays: dict[str, Any], name: str) -> Any:
    """A matrix that `scipy.sparse.save_npz` wrote."""
    kind = arrays["format"].item()
    kind = kind.decode() if isinstance(kind, bytes) else str(kind)
    needed = ("data", "indices", "indptr") if kind in ("csr", "csc") else ("data", "row", "col")
    if absent := [part for part in ("shape", *needed) if part not in arrays]:
        raise ValueError(f"{name}: is a sparse matrix without its {absent[0]}")
    shape = tuple(int(n) for n in arrays["shape"])
    if kind in ("csr", "csc"):
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        made = (sparse.csr_matrix if kind == "csr" else sparse.csc_matrix)(parts, shape=shape)
        made.check_format(full_check=True)
    elif kind == "coo":
        made = sparse.coo_matrix((arrays["data"], (arrays["row"], arrays["col"])), shape=shape)
    else:
        raise ValueError(f"{name}: is a sparse matrix of the format {kind}; save it as CSR")
    return made.tocsr()


def _matrix_market(file: InputFile) -> Any:
    from scipy import io as scipy_io

    _check_lines(file)
    found = scipy_io.mmread(io.BytesIO(file.data))
    if found.dtype.kind == "c":
        raise ValueError(f"{file.name}: holds complex numbers")
    return found.tocsr() if sparse.issparse(found) else np.asarray(found)


def _check_lines(file: InputFile) -> None:
    """Raise ValueError if the file is shorter than its line of sizes says."""
    lines = (line for line in io.BytesIO(file.data) if not line.startswith(b"%") and line.strip())
    words = next(lines, b"").split()
    coordinate = b"coordinate" in file.data[:200]
    if len(words) != (3 if coordinate else 2) or not all(map(bytes.isdigit, words)):
        raise ValueError(f"{file.name}: is no Matrix Market file")
    sizes = [int(word) for word in words]
    values = sizes[2] if coordinate else math.prod(sizes)
    if values > len(file.data):  # each value takes a line
        raise ValueError(f"{file.name}: says that it has {values:,} values, but is shorter")
    check_size(8 * sum(sizes[:2]), file.name)
