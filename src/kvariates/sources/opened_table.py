"""Reads a file into a matrix of finite numbers with column names.

A file that cannot be read so raises :class:`ValueError` (or :class:`OSError`) with a message of one
line: the file, what is wrong, and where.

| file | read by | columns |
|---|---|---|
| text: .csv, .tsv, .txt and others, plain or .gz | `text_reader.py` | its header, or x0, x1, ... |
| .parquet, .arrow, .feather, a folder of .parquet | `arrow_columns.py` | its schema |
| .npz, .npy, .mtx | `array_files.py` | x0, x1, ... |
| - | standard input; its first bytes tell which of these it is | |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
from scipy import sparse

from kvariates.sources.array_files import read_array
from kvariates.sources.arrow_columns import JoinedColumns
from kvariates.sources.columns import check_names, no_numbers
from kvariates.sources.data_table import DataTable, Missing, complete, numbers_of
from kvariates.sources.input_file import InputFile, TooLargeError
from kvariates.sources.missing import check_weights
from kvariates.sources.pieces import Place
from kvariates.sources.private_text import each_number, fixed_format, private_table
from kvariates.sources.text_format import HINT, TextOptions
from kvariates.sources.text_reader import TextReader

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """The columns of a file.

    Attributes
    ----------
    path : Path
    names : list of str
    numeric : set of str
        The columns of numbers.
    get : callable
        From a name to the values of its column.
    matrix : CSR matrix or None
        All columns, if the file holds a sparse matrix.
    remarks : tuple of str
        How the file was read, in lines for the user.
    doubtful : dict
        Columns of text that look numeric: a line about each.
    hint : str
        What to try if no column holds numbers.
    get_each : callable or None
        From a name to its numbers, each cell read by itself, NaN for text that is none.
    get_original : callable or None
        From names, and whether they are identifiers, to Arrow arrays of the columns as they are in
        the file.
    """

    path: Path
    names: list[str]
    numeric: set[str]
    get: Callable[[str], npt.NDArray[np.generic]]
    matrix: Any = None
    remarks: tuple[str, ...] = ()
    doubtful: dict[str, str] = field(default_factory=dict)
    hint: str = ""
    get_each: Callable[[str], npt.NDArray[np.generic]] | None = None
    get_original: Callable[[Sequence[str], bool], dict[str, Any]] | None = None

    def table(
        self, columns: Sequence[str] | None = None, weights: str | None = None,
        missing: Missing = "error", means: npt.NDArray[np.float64] | None = None,
    ) -> DataTable:  # fmt: skip
        """The numeric columns, or the named ones, and the column of weights.

        Rows with a missing value are an error, are left out ("drop"), get the mean of the column,
        or that of `means` ("mean"), or keep NaN ("keep", for private fits: each cell is read by
        itself, text that is no number is NaN, too, and there may be no rows).
        """
        names, left_out = self._chosen(columns, weights)
        check_names(self.path, self.names, [*names, *([weights] if weights is not None else [])])
        weight = None
        if weights is not None:
            weight = numbers_of(self.path, weights, self.get(weights), missing).astype(np.float64)
            check_weights(weight, Place(str(self.path)), weights)
        if self.matrix is not None:
            return self._sparse_table(names, left_out, weight)
        get = self.get_each if missing == "keep" and self.get_each else self.get
        arrays = [numbers_of(self.path, name, get(name), missing) for name in names]
        if not len(arrays[0]) and missing != "keep":
            raise ValueError(f"{self.path}: no rows")
        X = np.empty((len(arrays[0]), len(names)), np.result_type(*arrays))
        for j, array in enumerate(arrays):
            X[:, j] = array
        made = DataTable(X, tuple(names), self.path, left_out, weight)
        return made if missing == "keep" else complete(made, missing, means)

    def originals(self, names: Sequence[str], *, identifiers: bool = False) -> dict[str, Any]:
        """Columns as they are in the file, by name: numbers, words or dates, as arrays."""
        check_names(self.path, self.names, list(names))
        if self.get_original is None:
            return {name: self.get(name) for name in names}
        return self.get_original(names, identifiers) if names else {}

    def _chosen(
        self, columns: Sequence[str] | None, weights: str | None
    ) -> tuple[list[str], tuple[str, ...]]:
        names = self.names if columns is None else list(columns)
        if not names:
            raise ValueError(f"{self.path}: no columns")
        left_out: tuple[str, ...] = ()
        if columns is None:
            left_out = tuple(name for name in names if name not in self.numeric)
            if len(left_out) == len(names):
                why = next(iter(self.doubtful.values()), self.hint)
                raise ValueError(no_numbers(self.path, self.names, why))
            names = [name for name in names if name in self.numeric]
        if columns is not None and weights in names:
            raise ValueError(
                f"{self.path}: column {weights!r} holds the weights; do not cluster it as well"
            )
        if weights in names:
            names = [name for name in names if name != weights]
            if not names:
                raise ValueError(f"{self.path}: no column is left to cluster without {weights!r}")
        return names, left_out

    def _sparse_table(
        self, names: list[str], left_out: tuple[str, ...], weight: Any
    ) -> DataTable:  # fmt: skip
        index = [int(name[1:]) for name in names]
        X = self.matrix if names == self.names else self.matrix[:, index]
        if not X.shape[0]:
            raise ValueError(f"{self.path}: no rows")
        X = X.astype(X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
        if not np.isfinite(X.data).all():
            raise ValueError(f"{self.path}: the sparse matrix has missing or infinite values")
        return DataTable(X, tuple(names), self.path, left_out, weight)


def read(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    missing: Missing = "error",
    text: TextOptions | None = None,
) -> DataTable:
    """Read the numeric columns of a file, or the named ones.

    Parameters
    ----------
    path : str or Path
        A text table (.csv, .tsv, ..., plain or .gz), or a .parquet, .arrow, .feather, .npz, .npy or
        .mtx file, or a folder of .parquet files, which are read in the order of their paths; "-" is
        standard input.
    columns : sequence of str, optional
        The columns to read, in this order. A named column that holds no numbers is converted where
        each of its values reads as a number. By default every numeric column is read.
    missing : {"error", "drop", "mean"}
        What is done with rows that have a missing value.
    text : TextOptions, optional
        How a text table is written; by default that is found out.

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
    return open_table(path, text).table(columns, missing=missing)


def complete_values(opened: OpenedTable, column: str) -> npt.NDArray[np.generic]:
    """One column as it is. ValueError if a value is missing."""
    values = np.asarray(opened.originals([column], identifiers=True)[column])
    if values.dtype.kind == "f":
        bad = np.isnan(values)
    else:
        bad = np.array([value is None for value in values.tolist()])
    if count := int(bad.sum()):
        first = int(bad.argmax()) + 1
        raise ValueError(
            f"{opened.path}: column {column!r} has {count} missing, first in row {first}"
        )
    return values


def open_table(
    path: str | Path, text: TextOptions | None = None, *, private: bool = False
) -> OpenedTable:
    """Open a file, or all Parquet files of a folder.

    With `private`, nothing is found out from the rows, and no row of a text file is an error:
    `table(columns, missing="keep")` reads every row by itself.
    """
    file = InputFile(Path(path))
    file.check()
    file.needs()
    where, errors = file.name, (ValueError, OSError, EOFError, BadZipFile, NotImplementedError)
    try:
        if file.kind == "folder":
            return _of_columns(file.path, JoinedColumns.of_folder(file.path))
        text_opener = _private_text if private else _text
        opener = {"text": text_opener, "parquet": _parquet, "arrow": _ipc}.get(file.kind, _array)
        if private and file.kind == "matrix market":
            raise ValueError("a Matrix Market file is not read privately; save it as .npy")
        return opener(file, text or TextOptions())
    except TooLargeError:
        raise
    except errors as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if reason.startswith(where):
            raise ValueError(reason) from None
        known = getattr(error, "args", ()) and type(error) is ValueError
        raise ValueError(f"{where}: {'' if known else 'cannot be read: '}{reason}") from error


def _text(file: InputFile, text: TextOptions) -> OpenedTable:
    reader = TextReader(file, text, whole=True)
    made = _of_arrow(file, reader.table)

    def originals(names: Sequence[str], identifiers: bool) -> dict[str, Any]:
        changed = [name for name in names if name in made.numeric]
        read = reader.originals(changed, identifiers=identifiers) if changed else {}
        return {name: read.get(name, reader.table.column(name)) for name in names}

    remarks = (*reader.remarks, *reader.remarks_after)
    return replace(
        made, remarks=remarks, doubtful=reader.doubtful, hint=HINT, get_original=originals
    )


def _private_text(file: InputFile, text: TextOptions) -> OpenedTable:
    options = fixed_format(file.path, text)
    table = private_table(file.data, options)

    def numbers(name: str) -> npt.NDArray[np.generic]:
        return each_number(table.column(name), options)

    return replace(_of_arrow(file, table), get_each=numbers)


def _parquet(file: InputFile, _text: object) -> OpenedTable:
    from pyarrow import parquet

    return _of_arrow(file, parquet.read_table(file.arrow()))


def _ipc(file: InputFile, _text: object) -> OpenedTable:
    import pyarrow as pa
    from pyarrow import ipc

    stream = pa.BufferReader(file.data)
    opened = ipc.open_file if file.data.startswith(b"ARROW1") else ipc.open_stream
    return _of_arrow(file, opened(stream).read_all())


def _of_arrow(file: InputFile, table: pa.Table) -> OpenedTable:
    return _of_columns(file.path, JoinedColumns({file.name: table}))


def _of_columns(path: Path, columns: JoinedColumns) -> OpenedTable:
    return OpenedTable(
        path, columns.names, columns.numeric, columns.values, get_each=columns.numbers,
        get_original=lambda names, _: {name: columns.column(name) for name in names},
    )  # fmt: skip


def _array(file: InputFile, _text: object) -> OpenedTable:
    X = read_array(file)
    if X.ndim != 2:
        raise ValueError(f"{file.name}: the array has {X.ndim} dimensions, not 2")
    names = [f"x{j}" for j in range(X.shape[1])]
    numeric = set(names) if X.dtype.kind in "biuf" else set()
    if sparse.issparse(X):
        return OpenedTable(
            file.path, names, numeric, lambda name: X[:, [int(name[1:])]].toarray()[:, 0], X
        )
    return OpenedTable(file.path, names, numeric, lambda name: X[:, int(name[1:])])
