"""Makes blocks of one size of pieces of any size.

Columns are copied into the matrix a few rows at a time, so that these rows stay in the cache while
every column is written and the result is checked. A digest of each block shows whether a later pass
reads the same rows again.
"""

from __future__ import annotations

import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.data.blocks import Block
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.sources.columns import Layout
from kvariates.sources.pieces import CACHE_LINE, Chunk, Columns, Piece, Place, Values, is_clean

SUMS = 1021  # a prime, so that the number of columns divides it only if it is a multiple
CHUNK_BYTES = 2**20  # of rows that are copied and checked together: they fit into the cache
FIRST_BYTES = 2**26  # a block that may be larger begins with this much memory, and doubles it


@dataclass(frozen=True, eq=False)
class BlockOptions:
    """How blocks are made."""

    n_bytes: int  # the size of a block
    missing: str  # rows with a missing value are an error, are left out ("drop") or are kept
    n_rows: int | None  # the rows of the source, if known: no block needs room for more
    weights: F64 | None = None  # of all rows of the source, if no column holds them
    copies: bool = False  # whether matrices are always copied: an iterable may fill one again

    @property
    def drop(self) -> bool:
        return self.missing == "drop"

    def accepts(self, X: Values, weight: F64 | None) -> bool:
        """Whether rows are taken as they are. False if they need a closer look."""
        return self.missing == "keep" or is_clean(X, weight)


def rows_of_block(layout: Layout, n_bytes: int) -> int:
    """How many rows of a matrix have about this size."""
    return max(1, n_bytes // (len(layout.names) * layout.dtype.itemsize))


@dataclass(frozen=True, eq=False)
class Read:
    """A block and its digest, or None at the end; bytes that were read so far; rows left out."""

    block: Block | None
    digest: int
    n_bytes: int
    dropped: int


class Assembler(ABC):
    """Makes blocks of rows.

    `first` counts the rows of all blocks before, `dropped` the rows that were left out, and `seen`
    all rows of the pieces before. If rows may be left out, blocks have the numbers of their rows.
    """

    def __init__(self, layout: Layout, options: BlockOptions) -> None:
        self.layout, self.options = layout, options
        self.first = self.dropped = self.seen = self.n_bytes = 0
        self._start_block()

    def add(self, piece: Piece) -> Iterator[Read]:
        """Add the rows of a piece. Return the blocks that are full."""
        if piece.is_sparse != isinstance(self, SparseAssembler):
            now, before = ("sparse", "dense") if piece.is_sparse else ("dense", "sparse")
            raise ValueError(f"{piece.place.source}: is {now}, but the rows before are {before}")
        columns = piece.chosen(self.layout)
        if self.options.weights is not None:
            part = slice(self.seen, self.seen + columns.n)
            columns = replace(columns, weight=self.options.weights[part])
        self.n_bytes = piece.bytes_read
        yield from self._add(columns, piece.place)
        self.seen += columns.n

    def rest(self) -> Iterator[Read]:
        """The last block, if rows are left, and the end."""
        if self.filled:
            yield self._end_block()
        yield Read(None, 0, self.n_bytes, self.dropped)

    def _start_block(self) -> None:
        self.filled, self.digest = 0, RowDigest()
        self.weights: list[F64] = []  # of some rows each
        self.numbers: list[I64] = []

    def _took(self, rows: I64, weight: F64 | None) -> None:
        """Note rows of the piece that are in the block now."""
        self.filled += len(rows)
        if weight is not None:
            self.weights.append(weight)
        if self.options.drop:
            self.numbers.append(self.seen + rows)

    def _end_block(self) -> Read:
        weight = np.concatenate(self.weights) if self.weights else None
        numbers = np.concatenate(self.numbers) if self.numbers else None
        block = Block(self._rows(weight), weight, self.first, numbers)
        read = Read(block, self.digest.value, self.n_bytes, self.dropped)
        self.first += self.filled
        self._start_block()
        return read

    @abstractmethod
    def _add(self, columns: Columns, place: Place) -> Iterator[Read]: ...

    @abstractmethod
    def _rows(self, weight: F64 | None) -> Any:
        """The rows of the block, which ends. `digest` has them and their weights then."""


class DenseAssembler(Assembler):
    """Makes blocks of dense rows. `known`: digests of blocks that earlier passes checked."""

    def __init__(self, layout: Layout, options: BlockOptions, known: Sequence[int]) -> None:
        super().__init__(layout, options)
        self.known, self.ended = known, 0
        d, dtype = len(layout.names), layout.dtype
        self.size = rows_of_block(layout, options.n_bytes)
        if options.n_rows is not None:
            self.size = min(self.size, options.n_rows)
        self.chunk = rows_of_block(layout, CHUNK_BYTES)
        # Here columns are collected. They are a cache line longer than needed: with a power of two,
        # the values of a row would compete for the same lines of the cache.
        self.scratch = np.empty((d, self.chunk + CACHE_LINE // dtype.itemsize), dtype)
        self.room = min(self.size, max(self.chunk, rows_of_block(layout, FIRST_BYTES)))
        self.memory = BlockMemory((self.room, d), dtype)

    def _add(self, columns: Columns, place: Place) -> Iterator[Read]:
        start = 0
        while start < columns.n:
            stop = min(columns.n, start + self.size - self.filled)
            last = self.seen + stop == self.options.n_rows and not self.filled
            whole = (last or stop - start == self.size) and not self.options.copies
            if not (whole and self._view(columns, start, stop)):
                for low in range(start, stop, self.chunk):
                    self._copy(columns, low, min(stop, low + self.chunk), place)
            start = stop
            if self.filled == self.size:
                yield self._end_block()

    def _start_block(self) -> None:
        super()._start_block()
        self.X: Values | None = None

    def _rows(self, weight: F64 | None) -> Any:
        """The rows; a copy of them if they are few, so that the rest of the memory can be freed."""
        assert self.X is not None  # noqa: S101
        self.ended += 1
        X = self.X[: self.filled]
        return X.copy() if 2 * self.filled < len(self.X) else X

    def _view(self, columns: Columns, start: int, stop: int) -> bool:
        """Take the rows as they are, if they are a clean matrix of the right type already."""
        X, weight = columns.values, columns.weight
        if isinstance(X, list) or X.dtype != self.layout.dtype:
            return False
        if not (X.flags.c_contiguous and X.flags.aligned):
            return False
        X = X[start:stop]
        part = None if weight is None else np.array(weight[start:stop], dtype=np.float64)
        if part is not None and not self.options.accepts(X[:0], part):
            return False
        # Rows of a digest that an earlier pass has seen were checked then.
        known = self.known[self.ended] if self.ended < len(self.known) else None
        digest = RowDigest()
        for low in range(0, len(X), self.chunk):
            chunk = X[low : low + self.chunk]
            digest.add(chunk, low * X.shape[1])
            if known is None and not self.options.accepts(chunk, None):
                return False
        if part is not None:
            digest.add(part, 0)
        if known not in (None, digest.value):
            return False
        self.X, self.digest = X, digest
        self._took(np.arange(start, stop), part)
        return True

    def _room_for(self, n: int) -> Values:
        """The matrix of the block, with room for n rows: no more than the source may have."""
        if self.X is not None and n <= self.room:
            return self.X
        if n > self.room:
            self.room = min(self.size, 2 * self.room)
            self.memory = BlockMemory((self.room, len(self.layout.names)), self.layout.dtype)
        before, self.X = self.X, self.memory.take()
        if before is not None:
            self.X[: self.filled] = before[: self.filled]
        return self.X

    def _copy(self, columns: Columns, low: int, high: int, place: Place) -> None:
        """Copy rows into the block. Incomplete rows are an error, or are left out."""
        rows, weight = np.arange(low, high), columns.weight
        end = self.filled + len(rows)
        X = self._room_for(end)[self.filled : end]
        with np.errstate(over="ignore", invalid="ignore"):
            columns.copy(low, high, X, self.scratch)
        if weight is not None:
            weight = np.array(weight[low:high], dtype=np.float64)
        if not self.options.accepts(X, weight):
            chunk = Chunk(X, weight, rows, columns, place, self.layout)
            keep = chunk.complete_rows(self.options.drop)
            rows, weight = rows[keep], None if weight is None else weight[keep]
            X[: len(rows)] = X[keep]
            self.dropped += high - low - len(rows)
        self.digest.add(X[: len(rows)], self.filled * X.shape[1])
        if weight is not None:
            self.digest.add(weight, self.filled)
        self._took(rows, weight)


class SparseAssembler(Assembler):
    """Makes blocks of CSR rows."""

    def _add(self, columns: Columns, place: Place) -> Iterator[Read]:
        X, weight, rows = self._complete(columns, place)
        entry_bytes = X.dtype.itemsize + X.indices.itemsize
        ends = X.indptr.astype(np.int64) * entry_bytes + 8 * np.arange(X.shape[0] + 1)
        start = 0
        while start < X.shape[0]:
            stop = int(np.searchsorted(ends, ends[start] + self.room, side="right")) - 1
            if stop <= start and self.parts:
                yield self._end_block()
                continue
            stop = max(stop, start + 1)  # a row larger than a block is a block
            self.parts.append(X[start:stop])
            self._took(rows[start:stop], None if weight is None else weight[start:stop])
            self.room -= int(ends[stop] - ends[start])
            start = stop

    def _start_block(self) -> None:
        super()._start_block()
        self.parts: list[Any] = []
        self.room = self.options.n_bytes

    def _rows(self, weight: F64 | None) -> Any:
        X = self.parts[0] if len(self.parts) == 1 else sparse.vstack(self.parts, format="csr")
        for place, values in enumerate((X.data, X.indices, X.indptr, weight)):
            if values is not None:
                whole = values if values.dtype.kind == "f" else values.astype(np.int64)
                self.digest.add(whole, place)
        return X

    def _complete(self, columns: Columns, place: Place) -> tuple[Any, F64 | None, I64]:
        """The complete rows, in the right type and order, their weights, and their index."""
        X: Any = columns.values
        with np.errstate(over="ignore", invalid="ignore"):
            X = X.astype(self.layout.dtype)  # a copy: the next line changes it
        X.sum_duplicates()
        weight = None if columns.weight is None else np.array(columns.weight, dtype=np.float64)
        if self.options.accepts(X.data, weight):
            return X, weight, np.arange(columns.n)
        suspect = np.diff(X.indptr) < 0
        entries = np.flatnonzero(~np.isfinite(X.data))
        suspect[np.searchsorted(X.indptr, entries, side="right") - 1] = True
        if weight is not None:
            suspect |= ~(np.isfinite(weight) & (weight >= 0))
        rows = np.flatnonzero(suspect)
        part = None if weight is None else weight[rows]
        chunk = Chunk(X[rows].toarray(), part, rows, columns, place, self.layout)
        keep = ~suspect
        keep[rows] = chunk.complete_rows(self.options.drop)
        self.dropped += int(np.count_nonzero(~keep))
        return X[keep], None if weight is None else weight[keep], np.flatnonzero(keep)


def assembler_of(
    piece: Piece, layout: Layout, options: BlockOptions, known: Sequence[int]
) -> Assembler:
    """What makes blocks of pieces such as the first one."""
    if piece.is_sparse:
        return SparseAssembler(layout, options)
    return DenseAssembler(layout, options, known)


class RowDigest:
    """The digest of one block, which shows whether a later pass reads the same rows again.

    The bits of the values are added up as integers, in `SUMS` sums: the place of a value in its
    block says in which. This takes about as long as the test for NaN, and a fraction of the time of
    CRC-32. One changed value changes its sum. Two rows can change places unnoticed only if a
    multiple of `SUMS` rows lies between them. The parts in which a block is read do not matter.
    """

    def __init__(self) -> None:
        # Values of 4 bytes have sums of their own, of 4 bytes: so sums of parts overflow alike.
        self._sums = {size: np.zeros(SUMS, dtype=f"u{size}") for size in (4, 8)}

    def add(self, values: Any, place: int) -> None:
        """Add an array of 4 or 8 bytes a value, in C order. `place`: that of its first value."""
        bits = values.reshape(-1).view(f"u{values.itemsize}")
        whole = len(bits) - len(bits) % SUMS
        sums = np.add.reduce(bits[:whole].reshape(-1, SUMS), axis=0, dtype=bits.dtype)
        sums[: len(bits) - whole] += bits[whole:]
        self._sums[values.itemsize] += np.roll(sums, place % SUMS)

    @property
    def value(self) -> int:
        return zlib.crc32(b"".join(sums.tobytes() for sums in self._sums.values()))


class BlockMemory:
    """Gives out matrices of one shape and type, in memory of blocks that the caller has freed.

    New memory costs a page fault for every few kilobytes, about as much as the copy of a block.
    """

    def __init__(self, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.shape, self.dtype = shape, dtype
        self._free: list[Values] = []

    def take(self) -> Values:
        """An empty matrix, in memory that no array uses."""
        memory = self._free.pop() if self._free else self._new()
        # Every view of `flat` refers to `flat`, because `flat` itself refers to no array. So its
        # end is the end of all of them.
        flat = np.frombuffer(memory.data, self.dtype)
        weakref.finalize(flat, self._free.append, memory).atexit = False
        return flat.reshape(self.shape)

    def _new(self) -> Values:
        try:
            return np.empty(self.shape, self.dtype)
        except MemoryError:
            size = self.shape[0] * self.shape[1] * self.dtype.itemsize
            raise MemoryError(
                f"there is no memory for a block of {size:,} bytes; give a smaller block_bytes"
            ) from None
