"""Rows in host memory or of a file pass through a card: some are copied while others are worked on.

Rows are copied in parts of one size, however the blocks are cut. If all blocks are parts of one
array in memory, that array is copied from; otherwise each block is first copied to pinned memory.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates.cuda.card import CardArray
from kvariates.cuda.filter import SAMPLE
from kvariates.cuda.rows import CardRows
from kvariates.data.blocks import Block, SourceBlocks
from kvariates.data.rows import F64, Floats, unit_rows

PART_BYTES, PART_ROWS = 2**26, 2**22  # that are copied at once, at most
BUFFERS = 2  # on the card, and in pinned memory


class InspectedBlocks(SourceBlocks):
    """Dense blocks of a source: TypeError for sparse ones. The first pass looks at all rows.

    weight : of all rows; None: all are one.
    sample : rows at equal distances.
    """

    weight: F64 | None = None
    sample: F64

    def __init__(self, source: SourceBlocks) -> None:
        self._source, self.description = source, source.description
        self._found: _Neighbours | None = None  # by the first pass

    @property
    def array(self) -> Floats | None:
        """All rows, if the first pass has shown that they lie in memory one after the other.

        Ask when nobody holds the last block any more, because it keeps its memory.
        """
        return None if self._found is None else self._found.joined()

    def __iter__(self) -> Iterator[Block]:
        found, some, weights = _Neighbours(), _SomeRows(), []
        for block in self._source:
            if sparse.issparse(block.X):
                raise TypeError(
                    f"{self.description}: the rows are sparse, and kernels for a GPU read dense "
                    "rows. Set device='cpu'."
                )
            if self._found is None:
                found.add(block.X)
                some.add(block.X)
                if block.weight is not None:
                    weights.append(block.weight.copy())  # a view would keep the block in memory
            yield block
        if self._found is None and some.rows:
            self._found, self.sample = found, np.concatenate(some.rows)
            self.weight = np.concatenate(weights) if weights else None


class _SomeRows:
    """The rows whose numbers are multiples of a step, which grows with the number of rows."""

    def __init__(self) -> None:
        self.rows: list[F64] = []  # a few of them in each
        self._seen, self._step = 0, 1

    def add(self, X: Floats) -> None:
        some = X[-self._seen % self._step :: self._step].astype(np.float64)
        self._seen += len(X)
        if not len(some):
            return
        self.rows.append(some)
        if sum(map(len, self.rows)) > 2 * SAMPLE:
            kept = np.concatenate(self.rows)
            while len(kept) > SAMPLE:
                kept, self._step = kept[::2], 2 * self._step
            self.rows = [kept.copy()]


class _Neighbours:
    """Whether arrays lie one after the other in the memory of one array. Keeps none of them."""

    def __init__(self) -> None:
        self._owner: Any = None  # a weak reference
        self._start = self._end = self._n = 0
        self._shape: tuple[int, ...] = ()
        self._dtype: Any = None

    def add(self, X: Floats) -> None:
        if not len(X):
            return
        owner, address = _owner_of(X), X.ctypes.data
        if self._owner is None:
            self._owner, self._start, self._end = weakref.ref(owner), address, address
            self._dtype, self._shape = X.dtype, X.shape[1:]
        same = self._owner() is owner and (X.dtype, X.shape[1:]) == (self._dtype, self._shape)
        if same and address == self._end and X.flags.c_contiguous:
            self._n, self._end = self._n + len(X), address + X.nbytes
        else:
            self._end = -1  # no array is there

    def joined(self) -> Floats | None:
        """All of them as one array; None if they are not neighbours, or in a file."""
        owner = None if self._owner is None else self._owner()
        if owner is None or self._end < 0 or not owner.flags.c_contiguous or _is_file(owner):
            return None
        offset = self._start - owner.ctypes.data
        return np.ndarray((self._n, *self._shape), self._dtype, owner, offset)


def _owner_of(X: NDArray[Any]) -> NDArray[Any]:
    """The array whose memory X uses."""
    while isinstance(X.base, np.ndarray):
        X = X.base
    return X


def _is_file(owner: Any) -> bool:
    """Whether its memory is a file, which may be larger than all memory."""
    while owner is not None and not isinstance(owner, mmap.mmap):
        owner = owner.obj if isinstance(owner, memoryview) else getattr(owner, "base", None)
    return owner is not None


@dataclass(frozen=True, eq=False)
class CopiedPart:
    """Rows that are on the card now, and the number of the first of them."""

    first: int
    rows: CardRows

    def of(self, values: CardArray) -> CardArray:
        """Theirs, of an array with an entry for each of all rows."""
        return values.part(self.first, self.first + self.rows.n)


class RowStream:
    """All rows, part by part. Every iteration copies them to the card anew.

    A part is valid until the next one is asked for. `unit`: rows are scaled to length one.
    Pre: a pass over the blocks has ended, and no row is zero if `unit`.
    """

    def __init__(
        self, card: Any, blocks: InspectedBlocks, n: int, d: int, dtype: np.dtype[Any], *,
        unit: bool,
    ) -> None:  # fmt: skip
        self.card, self.n, self._blocks, self._unit = card, n, blocks, unit
        self.size = min(n, PART_ROWS, max(1, PART_BYTES // (d * dtype.itemsize)))
        self.parts = -(-n // self.size)
        shape, count = (self.size, d), min(BUFFERS, self.parts)
        self._buffers = [card.empty(shape, dtype) for _ in range(count)]
        self.sample = unit_rows(blocks.sample) if unit else blocks.sample
        self._array = blocks.array
        if self._array is None:
            self._pinned = [card.pinned(shape, dtype) for _ in range(count)]
        else:
            self._locked = card.lock(self._array)
        self._copier = card.copier()
        self._copies: list[Any] = [None] * count  # the last one to each buffer
        self._zero = card.zeros(1, np.uint64)
        self.kind = CardRows(card, self._buffers[0])  # rows of the type of all of them

    def no_labels(self, n: int) -> CardArray:
        """Labels that are -1, of so many rows."""
        labels: CardArray = self.card.empty(n, np.int32)
        self.kind.run("no_labels", n, labels, n)
        return labels

    def __iter__(self) -> Iterator[CopiedPart]:
        number, first, before = 0, 0, None
        try:
            for values in self._host_parts():
                at = number % len(self._buffers)
                out = self._buffers[at].part(0, len(values))
                # It waits for what reads this buffer, and not for what the part before it needs.
                self._copies[at] = self._copier.start(values, out)
                if before is not None:
                    yield self._arrived(*before)
                before = first, out, self._copies[at]
                number, first = number + 1, first + len(values)
            if before is not None:
                yield self._arrived(*before)
        finally:
            for copy in filter(None, self._copies):
                copy.wait()  # no buffer may be freed before

    def _arrived(self, first: int, X: CardArray, copy: Any) -> CopiedPart:
        copy.join()
        rows = CardRows(self.card, X)
        if self._unit:
            rows.run("unit_rows", 16 * rows.n, X, rows.n, rows.d, X, self._zero)
        return CopiedPart(first, rows)

    def _host_parts(self) -> Iterator[Floats]:
        """Rows of one copy each. The memory of a part is used again for the next but one."""
        if self._array is not None:
            for first in range(0, self.n, self.size):
                yield self._array[first : first + self.size]
            return
        filled = number = seen = 0
        for block in self._blocks:
            done, X = 0, block.X
            seen += len(X)
            self._check_count(max(seen, self.n))
            while done < len(X):
                into = self._pinned[number % len(self._pinned)]
                if not filled and (copy := self._copies[number % len(self._pinned)]) is not None:
                    copy.wait()
                take = min(self.size - filled, len(X) - done)
                into[filled : filled + take] = X[done : done + take]
                filled, done = filled + take, done + take
                if filled == self.size:
                    yield into
                    filled, number = 0, number + 1
            del X
        self._check_count(seen)
        if filled:
            yield self._pinned[number % len(self._pinned)][:filled]

    def _check_count(self, n: int) -> None:
        """ValueError if there are not as many rows as there were: labels have room for these."""
        if n != self.n:
            raise ValueError(
                f"{self._blocks.description}: has {'more' if n > self.n else 'fewer'} rows than "
                f"the {self.n} that were read before; it must not change between passes"
            )
