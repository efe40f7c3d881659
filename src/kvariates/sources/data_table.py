"""Reads a file into a matrix of finite numbers with column names.

A file that cannot be read so raises :class:`ValueError` (or :class:`OSError`) with a message of one
line: the file, what is wrong, and where.

| extension | read by | columns |
|---|---|---|
| .csv, .csv.gz | pyarrow | its header |
| .parquet | pyarrow | its schema |
| .npz | numpy | the array X, or the only 2-D array: x0, x1, ... |
| .npy | numpy | x0, x1, ... |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from kvariates.sources.columns import check_names, is_number, listed

if TYPE_CHECKING:
    import pyarrow as pa

Matrix = npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class DataTable:
    """A matrix of numbers with column names.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_columns), float32 or float64
        Finite, C-contiguous.
    names : tuple of str
        One name for each column of X.
    path : Path
        The file.
    left_out : tuple of str
        Columns of the file that hold no numbers, if no columns were named.
    """

    X: Matrix
    names: tuple[str, ...]
    path: Path
    left_out: tuple[str, ...] = ()

    def without(self, name: str) -> DataTable:
        """Return the table without one column, if it has it."""
        keep = [i for i, other in enumerate(self.names) if other != name]
        if not keep:
            raise ValueError(f"{self.path}: no column is left to cluster without {name!r}")
        X = np.ascontiguousarray(self.X[:, keep])
        return DataTable(X, tuple(self.names[i] for i in keep), self.path, self.left_out)


@dataclass(frozen=True, eq=False)
class Scale:
    """The result of :func:`standardize` and its inverse: ``X = (raw - mean) / spread``."""

    mean: npt.NDArray[np.float64]
    spread: npt.NDArray[np.float64]

    def undo(self, X: Matrix) -> npt.NDArray[np.float64]:
        """Return standardized rows in the units of the file."""
        return X * self.spread + self.mean


@dataclass(frozen=True)
class _Columns:
    """The columns of a file: all names, those that are numeric, and a function to get one."""

    names: list[str]
    numeric: set[str]
    get: Callable[[str], npt.NDArray[np.generic]]


def read(path: str | Path, columns: Sequence[str] | None = None) -> DataTable:
    """Read the numeric columns of a file, or the named ones.

    Parameters
    ----------
    path : str or Path
        A .csv, .csv.gz, .parquet, .npz or .npy file.
    columns : sequence of str, optional
        The columns to read, in this order. A named column that holds no numbers is converted where
        each of its values reads as a number. By default every numeric column is read.

    Returns
    -------
    DataTable

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file cannot be read as a table of finite numbers; the message says where.
    """
    path = Path(path)
    file = _open(path, columns)
    names = file.names if columns is None else list(columns)
    if not names:
        raise ValueError(f"{path}: no columns")
    check_names(path, file.names, names)
    left_out = () if columns else tuple(name for name in names if name not in file.numeric)
    names = [name for name in names if name not in left_out]
    if not names:
        raise ValueError(f"{path}: no numeric column (found {listed(file.names)})")
    arrays = [_numbers(path, name, file.get(name)) for name in names]
    if not len(arrays[0]):
        raise ValueError(f"{path}: no rows")
    X = np.ascontiguousarray(np.column_stack(arrays))  # float32 if all columns are
    return DataTable(X, tuple(names), path, left_out)


def read_values(path: str | Path, column: str) -> npt.NDArray[np.generic]:
    """Read one column of a file as it is: numbers, words or dates; none may be missing."""
    path = Path(path)
    file = _open(path, [column])
    check_names(path, file.names, [column])
    values = file.get(column)
    if values.dtype.kind == "f":
        bad = np.isnan(values)
    else:
        bad = np.array([value is None for value in values.tolist()])
    if count := int(bad.sum()):
        first = int(bad.argmax()) + 1
        raise ValueError(f"{path}: column {column!r} has {count} missing, first in row {first}")
    return values


def standardize(X: Matrix, weights: Matrix | None = None) -> tuple[Matrix, Scale]:
    """Centre each column on its (weighted) mean and divide it by its standard deviation.

    A constant column is centred only. Weights count as repeats of a row.
    """
    mean = np.average(X, axis=0, weights=weights).astype(np.float64)
    spread = np.sqrt(np.average((X - mean) ** 2, axis=0, weights=weights))
    scale = scale_of(mean, spread)
    return ((X - mean) / scale.spread).astype(X.dtype), scale


def scale_of(mean: npt.NDArray[np.float64], spread: npt.NDArray[np.float64]) -> Scale:
    """The scale of columns with this mean and deviation; constant columns are not divided."""
    # A spread below the rounding error is noise; division by it would enlarge the noise.
    floor = 8 * np.finfo(np.float64).eps * np.maximum(1.0, np.abs(mean))
    return Scale(mean, np.where(spread > floor, spread, 1.0))


def _open(path: Path, columns: Sequence[str] | None) -> _Columns:
    import pyarrow as pa

    name = path.name.lower()
    reader = next((read for end, read in _READERS.items() if name.endswith(end)), None)
    if reader is None:
        raise ValueError(f"{path}: unknown extension; known are {listed(list(_READERS))}")
    if path.is_dir():
        raise ValueError(f"{path}: is a directory, not a file")
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    try:
        return reader(path, columns)
    except (ValueError, OSError, EOFError, BadZipFile, pa.ArrowException) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if reason.startswith(str(path)):
            raise ValueError(reason) from None
        raise ValueError(f"{path}: cannot be read: {reason}") from error


def _read_csv(path: Path, _columns: Sequence[str] | None) -> _Columns:
    from pyarrow import csv

    file = _arrow(csv.read_csv(path))
    # pyarrow reads the first line as names; a file without names would lose a row.
    if all(is_number(name) for name in file.names):
        raise ValueError(f"{path}: the first line holds numbers; add a line of column names")
    return file


def _read_parquet(path: Path, columns: Sequence[str] | None) -> _Columns:
    from pyarrow import parquet

    names = parquet.read_schema(path).names
    wanted = None if columns is None else [n for n in names if n in set(columns)]
    file = _arrow(parquet.read_table(path, columns=wanted))
    # An error about an unknown name lists all names of the file.
    return file if columns is None else _Columns(names, set(), file.get)


def _arrow(table: pa.Table) -> _Columns:
    import pyarrow as pa

    types = pa.types

    def get(name: str) -> npt.NDArray[np.generic]:
        column = table.column(name)
        if types.is_decimal(column.type):
            column = column.cast(pa.float64())
        values: npt.NDArray[np.generic] = column.to_numpy()
        return values

    def numeric(kind: pa.DataType) -> bool:
        return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))

    return _Columns(table.column_names, {f.name for f in table.schema if numeric(f.type)}, get)


def _read_numpy(path: Path, _columns: Sequence[str] | None) -> _Columns:
    with path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return _array(path, loaded)
        if "X" in loaded:
            return _array(path, loaded["X"])
        arrays = {key: loaded[key] for key in loaded.files}
    tables = {key: array for key, array in arrays.items() if array.ndim == 2}
    if len(tables) != 1:
        found = f"several 2-D arrays ({listed(list(tables))})" if tables else "no 2-D array"
        raise ValueError(f"{path}: {found}; name the one to read X")
    return _array(path, next(iter(tables.values())))


def _array(path: Path, X: npt.NDArray[np.generic]) -> _Columns:
    if X.ndim != 2:
        raise ValueError(f"{path}: the array has {X.ndim} dimensions, not 2")
    names = [f"x{j}" for j in range(X.shape[1])]
    numeric = set(names) if X.dtype.kind in "iuf" else set()
    return _Columns(names, numeric, lambda name: X[:, int(name[1:])])


_READERS: dict[str, Callable[[Path, Sequence[str] | None], _Columns]] = {
    ".csv": _read_csv,
    ".csv.gz": _read_csv,
    ".parquet": _read_parquet,
    ".npz": _read_numpy,
    ".npy": _read_numpy,
}


def _numbers(path: Path, name: str, values: npt.NDArray[np.generic]) -> Matrix:
    """Return one column as finite floats, or raise ValueError."""
    array: Matrix
    if values.dtype in (np.float32, np.float64):
        array = values.astype(values.dtype, copy=False)
    elif values.dtype.kind in "biu":
        array = values.astype(np.float64)
    elif values.dtype.kind in "fOU":
        array = _parsed(path, name, values)
    else:
        raise ValueError(f"{path}: column {name!r} holds {values.dtype}, not numbers")
    bad = ~np.isfinite(array)
    if count := int(bad.sum()):
        what = "missing" if np.isnan(array[bad]).all() else "missing or infinite"
        rows = "value" if count == 1 else "values"
        first = int(bad.argmax()) + 1
        raise ValueError(f"{path}: column {name!r} has {count} {what} {rows}, first in row {first}")
    return array


def _parsed(path: Path, name: str, values: npt.NDArray[np.generic]) -> Matrix:
    cells = [np.nan if value is None else value for value in values.tolist()]
    try:
        return np.array(cells, dtype=np.float64)
    except (ValueError, TypeError):
        row, cell = next((i, cell) for i, cell in enumerate(cells, 1) if not is_number(cell))
        raise ValueError(
            f"{path}: column {name!r} holds {cell!r} in row {row}, not a number"
        ) from None
