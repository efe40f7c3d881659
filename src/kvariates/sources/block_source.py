"""Reads data that does not fit into memory, a block of rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kvariates.data.rows import F64
from kvariates.sources.assembling import (
    BlockOptions,
)
from kvariates.sources.columns import ColumnChoice
from kvariates.sources.file_readers import file_reader
from kvariates.sources.memory_readers import (
    ItemsReader,
    LazyFrameReader,
    RelationReader,
    memory_reader,
)
from kvariates.sources.passes import Blocks, Progress
from kvariates.sources.readers import Reader
from kvariates.sources.text_format import TextOptions

BLOCK_BYTES = 2**26


def blocks(
    source: Any,
    *,
    columns: Sequence[str] | None = None,
    weights: str | ArrayLike | None = None,
    block_bytes: int = BLOCK_BYTES,
    missing: Literal["error", "drop"] = "error",
    dtype: DTypeLike | None = None,
    read_ahead: bool = True,
    progress: Progress | None = None,
    text: TextOptions | None = None,
    filesystem: Any = None,
) -> Blocks:
    """Read a source in blocks of rows.

    Parameters
    ----------
    source : path or object
        - The path of a text table (.csv, .tsv and others, plain or .gz), or of a .parquet, .arrow,
          .feather, .ipc or .npy file. A folder of .parquet files, and a pattern such as
          ``"rows/*.parquet"``, are read in the order of their paths; a list of paths in its order.
        - A URL that pyarrow or fsspec opens, such as "s3://bucket/rows.parquet".
        - A DuckDB relation, a pandas or polars frame, a polars LazyFrame, or anything with Arrow's
          C stream interface.
        - A NumPy matrix or a sparse matrix.
        - An iterable of matrices or frames. A list can be read again, a generator only once.
        - A function without arguments that returns such an iterable, a new one for every pass.
    columns : sequence of str, optional
        The columns to read, in this order; x0, x1, ... are the columns of a matrix. By default
        every numeric column is read; truth values are 0 and 1. A named column may also hold text
        that reads as numbers.
    weights : str or array-like of shape (n_rows,), optional
        The column of the rows' weights, which is not a column of the matrix, or the weights.
    block_bytes : int
        The size of a block in memory. About four blocks are in memory at a time.
    missing : "error" or "drop"
        Whether a row with a missing or infinite value is an error, or is left out and counted.
    dtype : float32 or float64, optional
        The type of the matrix. By default it is float32 if all columns are float16 or float32.
    read_ahead : bool
        Whether threads read the next block while the caller works on this one.
    progress : callable, optional
        Is called as ``progress(rows, n_bytes)`` after each block, with the rows that the caller has
        worked on, and the bytes of the source that they come from (0 if unknown).
    text : TextOptions, optional
        How a text table is written; by default its beginning shows that.
    filesystem : object, optional
        The file system of pyarrow or fsspec in which the paths are.

    Returns
    -------
    Blocks

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The source cannot be read as a table of numbers. The message says where and what is wrong;
        row groups and rows are counted from 1.

    Examples
    --------
    >>> import numpy as np
    >>> from kvariates.sources import blocks
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> [block.X.shape for block in blocks(X, block_bytes=64)]
    [(4, 2), (2, 2)]
    """
    choice = _column_choice(columns, weights, dtype)
    if missing not in ("error", "drop"):
        raise ValueError(f"missing must be 'error' or 'drop', not {missing!r}")
    if not hasattr(block_bytes, "__index__"):
        raise TypeError(f"block_bytes must be an integer, such as 2**26, not {block_bytes!r}")
    if block_bytes < 1:
        raise ValueError(f"block_bytes must be at least 1, not {block_bytes}")
    reader = _reader(source, text or TextOptions(), filesystem)
    row_weights = None
    if weights is not None and not isinstance(weights, str):
        row_weights = _row_weights(reader, weights)
    copies = isinstance(reader, ItemsReader)
    options = BlockOptions(block_bytes, missing, row_weights, copies, reader.n_rows)
    return Blocks(reader, choice, options, read_ahead, progress)


@dataclass(frozen=True, eq=False)
class _SameItems:
    """A function that returns an iterable; unlike a lambda, it can be pickled."""

    items: Iterable[Any]

    def __call__(self) -> Iterable[Any]:
        return self.items


def _reader(source: Any, text: TextOptions, files: Any) -> Reader:
    if isinstance(source, str | os.PathLike) or _are_paths(source):
        return file_reader(source, text, files)
    if files is not None:
        raise TypeError(f"filesystem is for paths, not for {type(source).__name__}")
    if hasattr(source, "collect_batches"):
        return LazyFrameReader(source, type(source).__name__)
    if hasattr(source, "fetch_record_batch"):
        return RelationReader(source, type(source).__name__)
    if reader := memory_reader(source):
        return reader
    if callable(source):
        return ItemsReader(source, getattr(source, "__name__", "function"), again=True)
    if isinstance(source, Iterable):
        again = not isinstance(source, Iterator)
        return ItemsReader(_SameItems(source), type(source).__name__, again=again)
    raise TypeError(f"source must be a path, a frame, a matrix or an iterable, not {source!r}")


def _are_paths(source: Any) -> bool:
    some = isinstance(source, list | tuple) and len(source) > 0
    return some and all(isinstance(path, str | os.PathLike) for path in source)


def _column_choice(
    columns: Sequence[str] | None, weights: str | ArrayLike | None, dtype: DTypeLike | None
) -> ColumnChoice:
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names: columns=[{columns!r}]")
    chosen = None if columns is None else tuple(columns)
    for name in chosen or ():
        if not isinstance(name, str):
            raise TypeError(f"columns must be names, such as 'x0' for a matrix, not {name!r}")
    number = None if dtype is None else np.dtype(dtype)
    if number is not None and number not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, not {number}")
    return ColumnChoice(chosen, weights if isinstance(weights, str) else None, number)


def _row_weights(reader: Reader, weights: ArrayLike) -> F64:
    array = np.array(weights, dtype=np.float64)
    if reader.n_rows is None:
        raise ValueError(
            f"{reader.description}: the number of rows is not known, so weights cannot be an "
            "array; give the name of the column of weights"
        )
    if array.shape != (reader.n_rows,):
        raise ValueError(
            f"{reader.description}: has {reader.n_rows} rows, but weights has shape {array.shape}"
        )
    return array
