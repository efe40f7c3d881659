"""Reads .npy, .npz and Matrix Market files. A header that lies, or a zip bomb, is a ValueError."""

from __future__ import annotations

import io
import math
import zipfile
from typing import IO, Any

import numpy as np
from scipy import sparse

from kvariates.sources.columns import listed
from kvariates.sources.input_file import InputFile, check_size

MAGIC = b"\x93NUMPY"


def read_array(file: InputFile) -> Any:
    """The matrix of a .npy, .npz or .mtx file: a NumPy array or a CSR matrix."""
    if file.kind == "matrix market":
        return _matrix_market(file)
    size = len(file.data) if file.in_memory else file.size
    with io.BytesIO(file.data) if file.in_memory else file.opened() as raw:
        if raw.read(len(MAGIC)) == MAGIC:
            raw.seek(0)
            return _npy(raw, size, file.name)
        raw.seek(0)
        if not zipfile.is_zipfile(raw):
            raise ValueError(f"{file.name}: is neither a .npy nor a .npz file")
        with zipfile.ZipFile(raw) as archive:
            return _npz(archive, file.name)


def _npy(raw: IO[bytes], size: int, name: str) -> Any:
    """An array whose header agrees with the size of its file."""
    try:
        version = np.lib.format.read_magic(raw)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else (
            np.lib.format.read_array_header_2_0
        )  # fmt: skip
        shape, _, dtype = header(raw)
    except ValueError:
        raise ValueError(f"{name}: is damaged: the header of the array cannot be read") from None
    needed, rest = math.prod(shape) * dtype.itemsize, size - raw.tell()
    if needed > rest and not dtype.hasobject:
        words = " x ".join(f"{n:,}" for n in shape)
        raise ValueError(
            f"{name}: the header says {words} values of {dtype}, but only {rest:,} bytes follow"
        )
    check_size(needed, name)
    raw.seek(0)
    return np.load(raw, allow_pickle=False)


def _npz(archive: zipfile.ZipFile, name: str) -> Any:
    """The array X, the only 2-D array, or a sparse matrix of SciPy."""
    infos = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    check_size(sum(info.file_size for info in infos.values()), name)
    if {"format", "shape", "data"} <= infos.keys():
        arrays = {key: _member(archive, info, name) for key, info in infos.items()}
        return _sparse(arrays, name)
    if "X" in infos:
        return _member(archive, infos["X"], name)
    arrays = {key: _member(archive, info, name) for key, info in infos.items()}
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
