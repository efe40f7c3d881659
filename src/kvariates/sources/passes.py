"""Passes over a source: its rows in blocks, or in one block; a thread reads the next one."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from kvariates.data.blocks import Block, SourceBlocks
from kvariates.sources.assembling import (
    BlockOptions,
    DenseAssembler,
    SparseAssembler,
    rows_of_block,
)
from kvariates.sources.columns import ColumnChoice, Layout, check_names, listed
from kvariates.sources.pieces import Piece, SparsePiece
from kvariates.sources.readers import Reader

if TYPE_CHECKING:
    import pyarrow as pa

Progress = Callable[[int, int], object]
T = TypeVar("T")
SECONDS_TO_END = 5.0  # a source that waits for data may not end; it must not block its caller


@dataclass(frozen=True, eq=False)
class _Read:
    """A block and its digest, or None at the end; bytes that were read so far; rows left out."""

    block: Block | None
    n_bytes: int
    dropped: int
    digest: int = 0


class Blocks(SourceBlocks):
    """Rows of a source in blocks. Every iteration reads them anew, in the same order.

    It is made by :func:`blocks`.

    Attributes
    ----------
    description : str
        The source, for messages.
    names : tuple of str or None
        The columns of the matrix; None if they have no names, or if these are not known yet.
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
        self._reader, self._choice, self._options = reader, choice, options
        self._read_ahead, self._progress = read_ahead, progress
        self._layout = _layout_of(reader, choice)
        self._known = self._layout is not None  # before the first pass
        self.left_out = _left_out(reader, choice)
        self._digests: list[int] = []  # of the blocks that any pass has read
        self._started = False
        self.rows_dropped = 0
        if reader.n_rows == 0 and options.missing != "keep":
            raise ValueError(f"{reader.description}: no rows")

    def __repr__(self) -> str:
        names, layout = listed(self.left_out), self._layout
        d = None if layout is None else len(layout.names)
        columns = "" if d is None else f": {d} {'column' if d == 1 else 'columns'}"
        return f"Blocks({self.description}{columns}{names and f', left out: {names}'})"

    @property
    def description(self) -> str:
        return self._reader.description

    @property
    def names(self) -> tuple[str, ...] | None:
        return self._layout.names if self._reader.named and self._layout else None

    @property
    def remarks(self) -> list[str]:
        """How a text table is read, in lines for the user; none for other sources."""
        return self._reader.remarks

    @property
    def remarks_after(self) -> list[str]:
        """What the last pass left out of a text table, in lines for the user."""
        return self._reader.remarks_after

    @property
    def doubtful(self) -> dict[str, str]:
        """Columns of a text table that are left out and look numeric: a line about each."""
        found = self._reader.doubtful.items() if self.left_out else ()
        return {name: line for name, line in found if name in self.left_out}

    @property
    def n_rows(self) -> int | None:
        return self._reader.n_rows

    @property
    def n_bytes(self) -> int | None:
        return self._reader.n_bytes

    @property
    def repeatable(self) -> bool:
        return self._reader.repeatable

    @property
    def all_names(self) -> tuple[str, ...]:
        """All columns of the source, numeric or not; none if they have no names."""
        parts = self._reader.parts if self._reader.named else None
        return tuple(field.name for field in parts[0].fields) if parts else ()

    def columns(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """These columns of all rows as they are, whatever they hold; of a text table as text.

        Rows that the blocks leave out are among them.
        """
        check_names(self.description, list(self.all_names), list(names))
        return self._reader.as_written(list(names))

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
        if self._known and self._layout is not None:
            wanted = self._layout.wanted
            rows = rows_of_block(self._layout, self._options.n_bytes)
        pieces = self._reader.pieces(wanted, rows)
        return read_in_thread(pieces) if self._read_ahead and self._reader.decodes else pieces

    def _reads(self) -> Generator[_Read]:
        """Read the source and make blocks."""
        assembler: DenseAssembler | SparseAssembler | None = None
        schema, n_bytes = None, 0
        with closing(self._pieces()) as pieces:
            for piece in pieces:
                if assembler is None or piece.schema != schema:
                    layout, schema = self._layout_of(piece), piece.schema
                if assembler is None:
                    kind = SparseAssembler if isinstance(piece, SparsePiece) else DenseAssembler
                    assembler = kind(layout, self._options, self._digests)
                n_bytes = piece.bytes_read
                for block in assembler.add(piece):
                    yield _Read(block, n_bytes, assembler.dropped, assembler.digest)
                    del block
        if assembler is not None:
            for block in assembler.rest():
                yield _Read(block, n_bytes, assembler.dropped, assembler.digest)
                del block
        yield _Read(None, n_bytes, 0 if assembler is None else assembler.dropped)

    def _layout_of(self, piece: Piece) -> Layout:
        """The layout of the first piece, which all others must have too."""
        choice, first = self._choice, self._layout
        if self._known and first is not None:  # only its columns were read
            choice = replace(choice, columns=first.names, dtype=first.dtype)
        layout = Layout.of(piece.place.source, piece.fields, choice)
        if first is None:
            self._layout = first = layout
        first.check_later(piece.place.source, layout)
        return first


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


class Collected(NamedTuple):
    """All rows of a source in one block, its columns, and columns that hold no numbers."""

    block: Block
    names: tuple[str, ...]
    left_out: tuple[str, ...]


def collected(reader: Reader, choice: ColumnChoice) -> Collected:
    """All rows in one block; NaN where a value is missing. Pre: the columns are known."""
    options = BlockOptions(sys.maxsize, "keep", None, copies=False, n_rows=reader.n_rows)
    layout = _layout_of(reader, choice)
    assert layout is not None  # noqa: S101
    found = list(Blocks(reader, choice, options, True, None).unchecked())
    if not found:
        X = np.empty((0, len(layout.names)), layout.dtype)
        found = [Block(X, np.empty(0) if layout.weights else None, 0)]
    return Collected(found[0], layout.names, _left_out(reader, choice))


def _left_out(reader: Reader, choice: ColumnChoice) -> tuple[str, ...]:
    if choice.columns is not None or not reader.parts:
        return ()
    return tuple(field.name for field in reader.parts[0].fields if not field.numeric)


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
