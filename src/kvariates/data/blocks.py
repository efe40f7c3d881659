"""Rows in blocks: data that is read a block at a time, once for every pass.

| what | how many passes |
|---|---|
| `CountedBlocks` | one, which another reader may use too: the totals of all rows |
| `BlockTotals.spread` | one more; two if values differ so much that column sums lose digits |
| `take_rows` | one, which ends at the last row that is asked for |
| `assign_blocks` | one |

Sums are exact integers, so nothing here depends on how the rows are cut into blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
import scipy

from kvariates import _native
from kvariates.data.cluster_sums import SumScale
from kvariates.data.exact_sums import SMALLEST, ExactSums, exponent_of
from kvariates.data.rows import F64, Floats, Labels, Numbers, Rows, spread_around
from kvariates.numerics.draws import I64


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a source."""

    X: Any  # dense in C order, or sorted CSR; float32 or float64, finite
    weight: F64 | None  # None: all weights are one
    first: int  # how many rows come before these in the blocks
    # Of each row in the source, which may have rows that were left out. None: `first` and on.
    numbers: I64 | None = None

    @property
    def rows(self) -> Rows:
        return Rows.of(self.X)

    @property
    def row_numbers(self) -> Numbers:
        return self.first if self.numbers is None else self.numbers


def interleave(columns: list[Floats], out: Floats) -> None:
    """Write columns as those of a matrix in C order, of the same dtype: faster than NumPy."""
    _native.interleave(columns, out)


RowBlocks = Iterable[Block]
"""Rows in blocks. Every iteration reads them anew, in the same order."""


class SourceBlocks(ABC):
    """Blocks of a file, a table or an iterable. Estimators take them in place of X.

    All blocks have the same columns, layout and dtype. Either all have weights or none.
    """

    names: tuple[str, ...] | None = None  # of the columns; None if they have none
    n_rows: int | None = None  # None: not known before they are read
    repeatable: bool = True  # whether they can be read more than once
    description: str = "blocks"  # what messages call the source, as the name of its file
    rows_dropped: int = 0  # that the last pass has left out so far
    rows_read: int | None = None  # of a whole pass, without those left out

    @abstractmethod
    def __iter__(self) -> Iterator[Block]: ...


def take_rows(blocks: RowBlocks, indices: I64) -> Rows:
    """The rows with these numbers, in their layout and dtype. Pre: there are such rows."""
    order = np.argsort(indices, kind="stable")
    wanted, parts, found = indices[order], [], 0
    for block in blocks:
        stop = int(np.searchsorted(wanted, block.first + block.X.shape[0]))
        parts.append(block.X[wanted[found:stop] - block.first])
        found = stop
        if found == len(wanted):
            break
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    sparse = scipy.sparse.issparse(parts[0])
    X = scipy.sparse.vstack(parts, format="csr") if sparse else np.concatenate(parts)
    return Rows.of(X[back])


@dataclass(frozen=True, eq=False)
class AssignedBlock:
    """The nearest centres of the rows of a block, the rows' costs there, weights and numbers."""

    labels: Labels
    cost: F64
    weight: F64 | None
    numbers: I64 | None


def assign_blocks(
    blocks: RowBlocks,
    centers: F64,
    nearest: Callable[[Rows, F64], Labels] = Rows.nearest,
    costs: Callable[[Rows, F64, Labels], F64] = Rows.costs,
) -> Iterator[AssignedBlock]:
    """Assign the rows of every block; by default, squared Euclidean distances count."""
    for block in blocks:
        rows = block.rows
        labels = nearest(rows, centers)
        yield AssignedBlock(labels, costs(rows, centers, labels), block.weight, block.numbers)


@dataclass(frozen=True, eq=False)
class BlockTotals:
    """What one pass tells about all rows."""

    n: int
    d: int
    dtype: np.dtype[Any]
    scale: SumScale  # of exact sums of the weighted rows
    sums: ExactSums  # of the columns, without weights
    digits_lost: bool  # by these sums, because values differ too much

    @classmethod
    def of(cls, block: Block) -> BlockTotals:
        """Pre: the block has a row."""
        rows = block.rows
        largest = rows.magnitudes[0]
        # Zeros must not make the unit of other blocks coarser, as the exponent 0 could.
        sums = rows.column_sums(exponent_of(largest) if largest else SMALLEST)
        lost = SumScale.of(rows, None).levels > 1
        scale = SumScale.of(rows, block.weight)
        return cls(rows.n, rows.d, rows.dtype, scale, sums, lost)

    def joined(self, other: BlockTotals) -> BlockTotals:
        """The totals of the rows of both."""
        exponent = max(self.sums.exponent, other.sums.exponent)
        scale = self.scale.joined(other.scale)
        unweighted = replace(scale, heaviest=1.0, lightest=1.0)
        lost = self.digits_lost or other.digits_lost or unweighted.levels > 1
        return BlockTotals(
            self.n + other.n, self.d, np.result_type(self.dtype, other.dtype), scale,
            self.sums.at_exponent(exponent) + other.sums.at_exponent(exponent), lost,
        )  # fmt: skip

    def spread(self, blocks: RowBlocks) -> float:
        """As `Rows.spread`, of all rows."""
        sums = self.sums
        if self.digits_lost:
            # Every term is rounded to the unit of all rows, as in memory.
            again = (rows.column_sums(sums.exponent) for rows in _filled(blocks))
            sums = reduce(ExactSums.__add__, again)
        return spread_around(sums.values / self.n, _filled(blocks), self.n)


class CountedBlocks:
    """Blocks whose totals are added up while they are read, by whoever reads them.

    `check` is given the totals at the end of the pass and may raise.
    """

    totals: BlockTotals  # known when the blocks were read to their end

    def __init__(self, blocks: RowBlocks, check: Callable[[BlockTotals], None]) -> None:
        self._blocks, self._check = blocks, check

    def __iter__(self) -> Iterator[Block]:
        totals = None
        for block in self._blocks:
            if block.X.shape[0]:
                own = BlockTotals.of(block)
                totals = own if totals is None else totals.joined(own)
            yield block
        if totals is None:
            raise ValueError("There are no rows; at least one is needed.")
        self._check(totals)
        self.totals = totals


def _filled(blocks: RowBlocks) -> Iterator[Rows]:
    """The rows of every block that has some."""
    return (block.rows for block in blocks if block.X.shape[0])
