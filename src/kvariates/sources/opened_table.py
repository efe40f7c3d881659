"""Reads files into a matrix of finite numbers with column names: one block of all rows.

A file that cannot be read so raises :class:`ValueError` (or :class:`OSError`) with a message of one
line: the file, what is wrong, and where.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy import sparse

from kvariates.sources.assembling import BlockOptions
from kvariates.sources.block_source import Blocks, are_paths
from kvariates.sources.columns import ColumnChoice, check_names
from kvariates.sources.file_readers import FilesReader, file_reader
from kvariates.sources.input_file import (
    InputFile,
    PathOrUrl,
    Source,
    check_size,
    input_file,
    path_or_url,
)
from kvariates.sources.pieces import MissingValuesError, Place, check_weights, is_clean
from kvariates.sources.private_text import PrivateTextReader
from kvariates.sources.readers import MatrixReader, Reader
from kvariates.sources.text_format import TextOptions

Missing = Literal["error", "drop", "mean", "keep"]


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """The columns of a file, or of several files."""

    path: PathOrUrl
    reader: Reader
    private: bool = False

    @cached_property
    def names(self) -> list[str]:
        first, *others = (part.fields for part in self.reader.parts or [])
        known = {field.name for field in first}
        more = dict.fromkeys(field.name for fields in others for field in fields)
        return [*(field.name for field in first), *(name for name in more if name not in known)]

    @cached_property
    def numeric(self) -> set[str]:
        """The columns of numbers."""
        parts = self.reader.parts or []
        return {field.name for part in parts for field in part.fields if field.numeric}

    @cached_property
    def matrix(self) -> Any:
        """All columns as a CSR matrix, if the file holds a sparse matrix."""
        X = self.reader.X if isinstance(self.reader, MatrixReader) else None
        return X if sparse.issparse(X) else None

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        """How the file was read, in lines for the user."""
        return (*self.reader.remarks, *self.reader.remarks_after)

    @property
    def doubtful(self) -> dict[str, str]:
        """Columns of text that look numeric: a line about each."""
        return self.reader.doubtful

    def table(
        self, columns: Sequence[str] | None = None, weights: str | None = None,
        missing: Missing = "error", means: npt.NDArray[np.float64] | None = None,
    ) -> DataTable:  # fmt: skip
        """The numeric columns, or the named ones, and the column of weights.

        Rows with a missing value are an error, are left out ("drop"), get the mean of the column,
        or that of `means` ("mean"), or keep NaN ("keep", for private fits: each cell is read by
        itself, text that is no number is NaN, too, and there may be no rows).
        """
        if self.private:
            self._check_types(columns or ())
        choice = ColumnChoice(None if columns is None else tuple(columns), weights)
        if isinstance(self.reader, FilesReader):
            n_bytes = 8 * (self.reader.n_rows or 0) * self._width(columns or self.numeric)
            check_size(max(n_bytes, self.reader.n_bytes or 0), self._place)
        made = self._all_rows(choice)
        if made.weight is not None:
            check_weights(made.weight, Place(self._place), weights or "")
        if not made.X.shape[0] and missing != "keep":
            raise ValueError(f"{self._place}: no rows")
        if self.matrix is not None:
            if not np.isfinite(made.X.data).all():
                raise ValueError(f"{self._place}: the sparse matrix has missing or infinite values")
            return made
        return made if missing == "keep" else complete(made, missing, means)

    def _all_rows(self, choice: ColumnChoice) -> DataTable:
        """All rows, with NaN where a value is missing."""
        options = BlockOptions(sys.maxsize, "keep", self.reader.n_rows)
        source = Blocks(self.reader, choice, options, True, None)
        assert source.layout is not None  # noqa: S101
        names, blocks = source.layout.names, list(source.unchecked())
        X = blocks[0].X if blocks else np.empty((0, len(names)), source.layout.dtype)
        weight = blocks[0].weight if blocks else np.empty(0) if choice.weights else None
        return DataTable(X, names, self.path, source.left_out, weight)

    def originals(self, names: Sequence[str], *, identifiers: bool = False) -> dict[str, Any]:
        """Columns as they are in the file, by name: numbers, words or dates, as arrays."""
        check_names(self._place, self.names, list(names))
        return self.reader.originals(list(names), identifiers=identifiers) if names else {}

    def complete_values(self, column: str) -> npt.NDArray[np.generic]:
        """One column as it is. ValueError if a value is missing."""
        found = self.originals([column], identifiers=True)[column]
        try:
            values = np.asarray(found)
        except Exception:  # an ArrowException, whose message quotes a cell
            raise ValueError(
                f"{self._place}: column {column!r} of {found.type} cannot be read"
            ) from None
        if values.dtype.kind == "f":
            bad = np.isnan(values)
        else:
            bad = np.array([value is None for value in values.tolist()])
        if count := int(bad.sum()):
            first = int(bad.argmax()) + 1
            raise ValueError(
                f"{self._place}: column {column!r} has {count} missing, first in row {first}"
            )
        return values

    @property
    def _place(self) -> str:
        return self.reader.description

    def _width(self, columns: Iterable[str]) -> int:
        """The number of features of these columns."""
        fields = self.reader.parts[0].fields if self.reader.parts else ()
        of = {field.name: len(field.features) for field in fields}
        return sum(of.get(name, 1) for name in columns)

    def _check_types(self, names: Sequence[str]) -> None:
        """Raise ValueError if the type of a column, whatever its cells are, has no numbers."""
        for part in self.reader.parts or []:
            for field in part.fields:
                if field.ragged and (not names or {field.name, *field.features} & {*names}):
                    raise ValueError(
                        f"{part.place}: column {field.name!r} holds {field.type}, not numbers: "
                        "only rows tell how long these are; write them as a fixed-size list"
                    )
                if field.name in names and not (field.numeric or field.type == "null"):
                    raise ValueError(
                        f"{part.place}: column {field.name!r} holds {field.type}, not numbers"
                    )


def read(
    path: Source,
    columns: Sequence[str] | None = None,
    *,
    missing: Missing = "error",
    text: TextOptions | None = None,
    filesystem: Any = None,
) -> DataTable:
    """Read the numeric columns of a file, or the named ones.

    Parameters
    ----------
    path : str or Path, or list of them
        A text table (.csv, .tsv, ..., plain or .gz), or a .parquet, .arrow, .feather, .npz, .npy,
        .fvecs, .bvecs, .ivecs or .mtx file; "-" is standard input. A folder of
        .parquet files, and a pattern such as ``"rows/*.parquet"``, are read in the order of their
        paths; a list of paths in its order.
    columns : sequence of str, optional
        The columns to read, in this order. A named column that holds no numbers is converted where
        each of its values reads as a number. The name of a column of vectors, as "embedding",
        stands for its features embedding_0, embedding_1, ... By default every numeric column is
        read.
    missing : {"error", "drop", "mean"}
        What is done with rows that have a missing value.
    text : TextOptions, optional
        How a text table is written; by default that is found out.
    filesystem : object, optional
        The file system of pyarrow or fsspec in which the paths are.

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
    return open_table(path, text, filesystem=filesystem).table(columns, missing=missing)


def open_table(
    path: Source, text: TextOptions | None = None, *, private: bool = False, filesystem: Any = None
) -> OpenedTable:
    """Open a file, or several that are one table.

    With `private`, nothing is found out from the rows, and no row of a text file is an error:
    `table(columns, missing="keep")` reads every row by itself.
    """
    text, reader, first = text or TextOptions(), None, path
    if not isinstance(first, str | os.PathLike):
        path = _paths(path)
        first = path[0]
    elif private:
        reader = _private_reader(input_file(first, filesystem), text)
    reader = reader or file_reader(path, text, filesystem, whole=True)
    opened = OpenedTable(path_or_url(first), reader, private)
    _ = opened.names, opened.remarks  # an error is raised here
    return opened


def _paths(given: Any) -> list[str | os.PathLike[str]]:
    paths = list(given) if isinstance(given, Iterable) and getattr(given, "ndim", 1) == 1 else []
    if are_paths(paths):
        return paths
    other = next((each for each in paths if not isinstance(each, str | os.PathLike)), None)
    what = type(given).__name__ if other is None else f"a list with {type(other).__name__}"
    raise TypeError(f"path must be a path or a list of paths, not {what}")


def _private_reader(file: InputFile, text: TextOptions) -> Reader | None:
    """The reader of a text table; None for files with types."""
    file.check()
    if file.kind == "matrix market":
        raise ValueError(
            f"{file.name}: a Matrix Market file is not read privately; save it as .npy"
        )
    if file.kind != "text":
        return None
    file.needs()
    return PrivateTextReader(file, text)


@dataclass(frozen=True, eq=False)
class DataTable:
    """A matrix of numbers with column names.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n_rows, n_columns), float32 or float64
        Finite, C-contiguous.
    names : tuple of str
        One name for each column of X.
    path : Path or Url
        The file.
    left_out : tuple of str
        Columns of the file that hold no numbers, if no columns were named.
    weight : ndarray of shape (n_rows,) or None
        The column of weights.
    kept : ndarray of bool, or None
        Which rows of the file are rows of X; None if all are.
    means : ndarray of shape (n_columns,) or None
        What missing values were replaced by; None: none were.
    filled : int
        How many values were replaced.
    """

    X: Any
    names: tuple[str, ...]
    path: PathOrUrl
    left_out: tuple[str, ...] = ()
    weight: npt.NDArray[np.float64] | None = None
    kept: npt.NDArray[np.bool_] | None = None
    means: npt.NDArray[np.float64] | None = None
    filled: int = 0

    def without(self, name: str) -> DataTable:
        """Return the table without one column, if it has it."""
        keep = [i for i, other in enumerate(self.names) if other != name]
        if not keep:
            raise ValueError(f"{self.path}: no column is left to cluster without {name!r}")
        X = np.ascontiguousarray(self.X[:, keep])
        return replace(self, X=X, names=tuple(self.names[i] for i in keep))


def complete(
    table: DataTable, missing: Missing, means: npt.NDArray[np.float64] | None = None
) -> DataTable:
    """The table without missing values, as `missing` says.

    `means` take the place of missing values; None: the means of the table.
    """
    X, weight = table.X, table.weight
    if missing == "mean" and means is None:
        means = _means(table)
    if is_clean(X, weight):
        return replace(table, means=means)
    bad = ~np.isfinite(X)
    bad_weight = np.zeros(len(X), bool) if weight is None else ~np.isfinite(weight)
    if not (bad.any() or bad_weight.any()):
        return replace(table, means=means)
    if missing == "drop":
        kept = ~(bad.any(axis=1) | bad_weight)
        if not kept.any():
            raise ValueError(f"{table.path}: no rows: all {len(X)} have a missing value")
        part = None if weight is None else weight[kept]
        return replace(table, X=np.ascontiguousarray(X[kept]), weight=part, kept=kept)
    if means is not None and not bad_weight.any() and not np.isinf(X).any():
        full = np.where(bad, means, X).astype(X.dtype)
        return replace(table, X=full, means=means, filled=int(bad.sum()))
    raise MissingValuesError(_missing_words(table, bad, bad_weight))


def _means(table: DataTable) -> npt.NDArray[np.float64]:
    """The mean of each column, without missing and infinite values."""
    finite = np.isfinite(table.X)
    number = finite.sum(axis=0)
    if not number.all():
        raise ValueError(
            f"{table.path}: column {table.names[number.argmin()]!r} has no value at all"
        )
    # A mean of shares: the sum of the values themselves could overflow.
    means: npt.NDArray[np.float64] = np.where(finite, table.X / number, 0.0).sum(axis=0)
    return means


def _missing_words(
    table: DataTable, bad: npt.NDArray[np.bool_], bad_weight: npt.NDArray[np.bool_]
) -> str:
    """The first column with missing values, their number, and the number of all of them."""
    columns = np.flatnonzero(bad.any(axis=0))
    if columns.size:
        j = int(columns[0])
        found, where = bad[:, j], f"column {table.names[j]!r} has"
        what = "missing" if np.isnan(table.X[found, j]).all() else "missing or infinite"
    else:
        found, where, what = bad_weight, "the weights have", "missing"
    count, first = int(found.sum()), int(found.argmax()) + 1
    values = "value" if count == 1 else "values"
    line = f"{table.path}: {where} {count} {what} {values}, first in row {first}"
    if len(columns) > 1:
        rows = int(bad.any(axis=1).sum())
        words = "row" if rows == 1 else "rows"
        line += f" ({int(bad.sum())} in {len(columns)} columns, {rows} {words})"
    return line
