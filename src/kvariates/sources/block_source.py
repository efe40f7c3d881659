"""Reads data that does not fit into memory, a block of rows at a time: a thread reads the next."""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from kvariates.data.blocks import Block, SourceBlocks
from kvariates.data.rows import F64
from kvariates.sources.assembling import Assembler, BlockOptions, Read, assembler_of, rows_of_block
from kvariates.sources.columns import ColumnChoice, Layout, check_names, listed
from kvariates.sources.file_readers import file_reader
from kvariates.sources.pieces import Piece
from kvariates.sources.readers import (
    ItemsReader,
    LazyFrameReader,
    Reader,
    RelationReader,
    memory_reader,
    piece_rows,
)
from kvariates.sources.text_format import TextOptions

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_BYTES = 2**26
SECONDS_TO_END = 5.0  # a source that waits for data may not end; it must not block its caller

Progress = Callable[[int, int], object]
T = TypeVar("T")


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
          .feather, .ipc, .npy, .fvecs, .bvecs or .ivecs file. A folder of .parquet
          files, and a pattern such as ``"rows/*.parquet"``, are read in the order of their paths;
          a list of paths in its order.
        - A URL that pyarrow or fsspec opens, such as "s3://bucket/rows.parquet".
        - A DuckDB relation, a pandas or polars frame, a polars LazyFrame, or anything with Arrow's
          C stream interface.
        - A NumPy matrix or a sparse matrix.
        - An iterable of matrices or frames. A list can be read again, a generator only once.
        - A function without arguments that returns such an iterable, a new one for every pass.
    columns : sequence of str, optional
        The columns to read, in this order; x0, x1, ... are the columns of a matrix. By default
        every numeric column is read; truth values are 0 and 1. A named column may also hold text
        that reads as numbers. The name of a column of vectors, as "embedding", stands for its
        features embedding_0, embedding_1, ...
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
    options = BlockOptions(block_bytes, missing, reader.n_rows, row_weights, copies)
    return Blocks(reader, choice, options, read_ahead, progress)


def _reader(source: Any, text: TextOptions, files: Any) -> Reader:
    if isinstance(source, str | os.PathLike) or are_paths(source):
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
        return ItemsReader(source, getattr(source, "__name__", "function"))
    if isinstance(source, Iterable):
        return ItemsReader(source, type(source).__name__, not isinstance(source, Iterator))
    raise TypeError(f"source must be a path, a frame, a matrix or an iterable, not {source!r}")


def are_paths(source: Any) -> bool:
    """Whether it is a list of paths."""
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


class Blocks(SourceBlocks):
    """Rows of a source in blocks. Every iteration reads them anew, in the same order.

    It is made by :func:`blocks`.

    Attributes
    ----------
    description : str
        The source, for messages.
    names : tuple of str or None
        The columns of the matrix; None if they have no names.
    n_rows : int or None
        The rows of the source, incomplete ones included; None if it must be read to know it.
    n_bytes : int or None
        The size of the files, or of the data in memory, if known.
    left_out : tuple of str
        Columns of files that hold no numbers, if no columns were named.
    repeatable : bool
        Whether it can be read more than once.
    rows_dropped : int
        The rows that the last pass left out so far.
    rows_read : int or None
        The rows of a whole pass, without those left out; None before there was one.
    """

    def __init__(
        self, reader: Reader, choice: ColumnChoice, options: BlockOptions,
        read_ahead: bool, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.reader, self._choice, self._options = reader, choice, options
        self._read_ahead, self._progress = read_ahead, progress
        self._given = _layout_of(reader, choice)  # what is known before the first pass
        self.layout = self._given
        self.names = self._given.names if self._given and reader.named else None
        self.description, self.repeatable = reader.description, reader.repeatable
        self.n_rows, self.n_bytes = reader.n_rows, reader.n_bytes
        self.left_out: tuple[str, ...] = ()
        if choice.columns is None and reader.parts:
            fields = reader.parts[0].fields
            self.left_out = tuple(field.name for field in fields if not field.numeric)
        self._digests: list[int] = []  # of the blocks that any pass has read
        self._started = False
        if reader.n_rows == 0 and options.missing != "keep":
            raise ValueError(f"{reader.description}: no rows")

    def __repr__(self) -> str:
        names, columns = listed(self.left_out), ""
        if self.layout is not None:
            d = len(self.layout.names)
            columns = f": {d} {'column' if d == 1 else 'columns'}"
        return f"Blocks({self.description}{columns}{names and f', left out: {names}'})"

    @property
    def remarks(self) -> list[str]:
        """How a text table is read, in lines for the user; none for other sources."""
        return self.reader.remarks

    @property
    def remarks_after(self) -> list[str]:
        """What the last pass left out of a text table, in lines for the user."""
        return self.reader.remarks_after

    @property
    def doubtful(self) -> dict[str, str]:
        """Columns of a text table that are left out and look numeric: a line about each."""
        found = self.reader.doubtful.items() if self.left_out else ()
        return {name: line for name, line in found if name in self.left_out}

    @property
    def all_names(self) -> tuple[str, ...]:
        """All columns of the source, numeric or not; none if they have no names."""
        parts = self.reader.parts if self.reader.named else None
        return tuple(field.name for field in parts[0].fields) if parts else ()

    def columns(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows as they are, whatever they hold; of a text table as text.

        Rows that the blocks leave out are among them.
        """
        check_names(self.description, list(self.all_names), list(names))
        return self.reader.as_written(list(names))

    def __iter__(self) -> Generator[Block]:
        self._start()
        reads = read_in_thread(self._reads()) if self._read_ahead else self._reads()
        rows = 0
        with closing(reads):
            for number, read in enumerate(reads):
                self.rows_dropped, n_bytes = read.dropped, read.n_bytes
                if read.block is None:
                    break
                self._check_same(number, read.digest, read.block)
                rows += read.block.X.shape[0]
                yield read.block
                del read  # the memory of the block can be used again
                if self._progress is not None:
                    self._progress(rows, n_bytes)
        self._end(rows)

    def unchecked(self) -> Iterator[Block]:
        """The blocks, without a look at whether they are those of an earlier pass."""
        return (read.block for read in self._reads() if read.block is not None)

    def _start(self) -> None:
        if self._started and not self.repeatable:
            raise ValueError(
                f"{self.description}: was already read, and can be read only once; "
                "give a list, or a function that returns a new iterator"
            )
        self._started, self.rows_dropped = True, 0

    def _check_same(self, number: int, digest: int, block: Block) -> None:
        """ValueError if an earlier pass has read other rows in the place of this block."""
        if number == len(self._digests):
            self._digests.append(digest)
        elif digest != self._digests[number]:
            last = block.first + block.X.shape[0]
            raise ValueError(
                f"{self.description}: rows {block.first + 1} to {last} are not those that were "
                "read before; every pass must give the same rows in the same order. Write them to "
                "a file first, or sort by a unique column; after a change make new blocks(...)"
            )

    def _end(self, rows: int) -> None:
        if not rows:
            why = f": all {self.rows_dropped} have a missing value" if self.rows_dropped else ""
            raise ValueError(f"{self.description}: no rows{why}")
        known, read = self.n_rows, rows + self.rows_dropped
        if known is not None and known != read:
            raise ValueError(
                f"{self.description}: {read} rows were read, but it had {known} when it was "
                "opened; it must not change"
            )
        if self.rows_read not in (None, rows):
            raise ValueError(
                f"{self.description}: has {rows} rows, but had {self.rows_read} when it was read "
                "before; it must not change between passes"
            )
        self.rows_read = rows

    def _pieces(self) -> Generator[Piece]:
        """Read the source, in a thread of its own if that takes time."""
        wanted, rows = [], sys.maxsize
        if self._given is not None:
            wanted, rows = self._given.wanted, rows_of_block(self._given, self._options.n_bytes)
            if self._given.vectors:
                rows = piece_rows(len(self._given.names), rows)
        pieces = self.reader.pieces(wanted, rows)
        return read_in_thread(pieces) if self._read_ahead and self.reader.decodes else pieces

    def _reads(self) -> Generator[Read]:
        """Read the source and make blocks."""
        assembler: Assembler | None = None
        schema = None
        with closing(self._pieces()) as pieces:
            for piece in pieces:
                if assembler is None or piece.schema != schema:
                    layout, schema = self._layout_of(piece), piece.schema
                if assembler is None:
                    assembler = assembler_of(piece, layout, self._options, self._digests)
                yield from assembler.add(piece)
        if assembler is None:
            yield Read(None, 0, 0, 0)
        else:
            yield from assembler.rest()

    def _layout_of(self, piece: Piece) -> Layout:
        """The layout of the first piece, which all others must have too."""
        choice, fields = self._choice, piece.fields(self.layout.lengths if self.layout else {})
        if self._given is not None:  # only its columns were read
            choice = replace(choice, columns=self._given.names, dtype=self._given.dtype)
        layout = Layout.of(piece.place.source, fields, choice)
        if self.layout is None:
            self.layout = layout
        self.layout.check_later(piece.place.source, layout)
        return self.layout


def _layout_of(reader: Reader, choice: ColumnChoice) -> Layout | None:
    """The columns to read, which all parts must have; None if they are not known yet."""
    parts = reader.parts
    if parts is None:
        return None
    layouts = [Layout.of(part.place, part.fields, choice, reader.hint) for part in parts]
    dtype = np.result_type(*(layout.dtype for layout in layouts))
    first = replace(layouts[0], dtype=dtype)
    for part, layout in zip(parts, layouts, strict=True):
        first.check_later(part.place, replace(layout, dtype=dtype))
    return first


@dataclass(frozen=True)
class _End:
    error: BaseException | None


def read_in_thread(items: Generator[T]) -> Generator[T]:
    """Yield the items; a thread computes the next one while the caller works on this one.

    An error of the items is raised here. The thread ends with the items, or when this generator is
    closed, or when it is deleted, as after an error of the caller.
    """
    ready: queue.Queue[T | _End] = queue.Queue(maxsize=1)
    closed = threading.Event()
    thread = threading.Thread(
        target=_produce, args=(items, ready, closed), name="kvariates-read-ahead", daemon=True
    )
    thread.start()
    try:
        while not isinstance(item := ready.get(), _End):
            yield item
            del item  # the caller may have freed it while the next one is computed
        if item.error is not None:
            raise item.error
    finally:
        closed.set()
        with suppress(queue.Empty):
            ready.get_nowait()  # a thread that waits for room continues and sees that it is closed
        thread.join(SECONDS_TO_END)


def _produce(items: Generator[T], ready: queue.Queue[T | _End], closed: threading.Event) -> None:
    error: BaseException | None = None
    try:
        for item in items:
            ready.put(item)
            del item
            if closed.is_set():
                break
    except BaseException as caught:
        error = caught
    finally:
        items.close()
    if not closed.is_set():
        ready.put(_End(error))
