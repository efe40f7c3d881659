"""Reads files into a matrix of finite numbers with column names: one block of all rows.

A file that cannot be read so raises :class:`ValueError` (or :class:`OSError`) with a message of one
line: the file, what is wrong, and where.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from kvariates.sources.columns import ColumnChoice, check_names
from kvariates.sources.data_table import DataTable, Missing, check_weights, complete
from kvariates.sources.file_readers import FilesReader, file_reader
from kvariates.sources.input_file import (
    PathOrUrl,
    Source,
    check_size,
    input_file,
    path_or_url,
)
from kvariates.sources.memory_readers import MatrixReader
from kvariates.sources.passes import collected
from kvariates.sources.pieces import Place
from kvariates.sources.private_text import PrivateTextReader
from kvariates.sources.readers import Reader
from kvariates.sources.text_format import TextOptions


@dataclass(frozen=True, eq=False)
class OpenedTable:
    """The columns of a file, or of several files.

    Attributes
    ----------
    path : Path or Url
    names : list of str
    numeric : set of str
        The columns of numbers.
    matrix : CSR matrix or None
        All columns, if the file holds a sparse matrix.
    remarks : tuple of str
        How the file was read, in lines for the user.
    doubtful : dict
        Columns of text that look numeric: a line about each.
    """

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
        parts = self.reader.parts or []
        return {field.name for part in parts for field in part.fields if field.numeric}

    @cached_property
    def matrix(self) -> Any:
        is_sparse = isinstance(self.reader, MatrixReader) and sparse.issparse(self.reader.X)
        return self.reader.X if is_sparse else None  # type: ignore[attr-defined]

    @cached_property
    def remarks(self) -> tuple[str, ...]:
        return (*self.reader.remarks, *self.reader.remarks_after)

    @property
    def doubtful(self) -> dict[str, str]:
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
            n_bytes = 8 * (self.reader.n_rows or 0) * len(columns or self.numeric)
            check_size(max(n_bytes, self.reader.n_bytes or 0), self._place)
        block, names, left_out = collected(self.reader, choice)
        if block.weight is not None:
            check_weights(block.weight, Place(self._place), weights or "")
        if not block.X.shape[0] and missing != "keep":
            raise ValueError(f"{self._place}: no rows")
        made = DataTable(block.X, names, self.path, left_out, block.weight)
        if self.matrix is not None:
            if not np.isfinite(block.X.data).all():
                raise ValueError(f"{self._place}: the sparse matrix has missing or infinite values")
            return made
        return made if missing == "keep" else complete(made, missing, means)

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

    def _check_types(self, names: Sequence[str]) -> None:
        """Raise ValueError if the type of a column, whatever its cells are, has no numbers."""
        for part in self.reader.parts or []:
            for field in part.fields:
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
        A text table (.csv, .tsv, ..., plain or .gz), or a .parquet, .arrow, .feather, .npz, .npy or
        .mtx file; "-" is standard input. A folder of .parquet files, and a pattern such as
        ``"rows/*.parquet"``, are read in the order of their paths; a list of paths in its order.
    columns : sequence of str, optional
        The columns to read, in this order. A named column that holds no numbers is converted where
        each of its values reads as a number. By default every numeric column is read.
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
    reader = (_private_reader if private else _reader)(path, text or TextOptions(), filesystem)
    first = path if isinstance(path, str | os.PathLike) else path[0]
    opened = OpenedTable(path_or_url(first), reader, private)
    _ = opened.names, opened.remarks  # an error is raised here
    return opened


def _reader(path: Source, text: TextOptions, files: Any) -> Reader:
    return file_reader(path, text, files, whole=True)


def _private_reader(path: Source, text: TextOptions, files: Any) -> Reader:
    if isinstance(path, str | os.PathLike):
        file = input_file(path, files)
        file.check()
        if file.kind == "matrix market":
            raise ValueError(
                f"{file.name}: a Matrix Market file is not read privately; save it as .npy"
            )
        if file.kind == "text":
            file.needs()
            return PrivateTextReader(file, text)
    return file_reader(path, text, files, whole=True)
