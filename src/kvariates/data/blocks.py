"""Rows in blocks: data that is read a block at a time, once for every pass.

| what | how many passes |
|---|---|
| `BlockTotals.of` | one: the number of rows, their magnitudes, their column sums |
| `BlockTotals.spread` | one more |
| `take` | one, which ends at the last row that is asked for |

Sums are exact integers, so nothing here depends on how the rows are cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Protocol

import numpy as np

from kvariates.data.cluster_sums import SumScale
from kvariates.data.exact_sums import ExactSums, exponent_of
from kvariates.data.rows import F64, Floats, Rows, spread_around
from kvariates.numerics.draws import I64


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows of a source.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d), float32 or float64
        Finite; C order or sorted CSR.
    weight : ndarray of shape (n,), float64, or None
        None: all weights are one.
    first : int
        The number of its first row among all rows of the source.
    """

    X: Any
    weight: F64 | None
    first: int

    @property
    def rows(self) -> Rows:
        return Rows.of(self.X)


class RowBlocks(Protocol):
    """Rows in blocks. Every iteration reads them anew, in the same order."""

    def __iter__(self) -> Iterator[Block]: ...


@dataclass(frozen=True, eq=False)
class MappedBlocks:
    """Blocks whose rows a function changes, for example scales to length one."""

    blocks: RowBlocks
    function: Callable[[Any], Any]

    def __iter__(self) -> Iterator[Block]:
        for block in self.blocks:
            yield Block(self.function(block.X), block.weight, block.first)


def take(blocks: RowBlocks, indices: I64) -> F64:
    """The rows with these numbers, as float64. Pre: there are such rows."""
    order = np.argsort(indices, kind="stable")
    wanted, parts, found = indices[order], [], 0
    for block in blocks:
        stop = int(np.searchsorted(wanted, block.first + block.X.shape[0]))
        parts.append(block.rows.take(wanted[found:stop] - block.first))
        found = stop
        if found == len(wanted):
            break
    taken = np.concatenate(parts)
    out = np.empty_like(taken)
    out[order] = taken
    return out


@dataclass(frozen=True, eq=False)
class BlockTotals:
    """What one pass tells about all rows.

    Attributes
    ----------
    n, d : int
    dtype : float32 or float64
        Of the rows.
    scale : SumScale
        Of exact sums of the weighted rows.
    sums : ExactSums
        Of the columns, without weights. They have all digits only if values do not differ much.
    digits_lost : bool
        Whether they do not.
    """

    n: int
    d: int
    dtype: np.dtype[Any]
    scale: SumScale
    sums: ExactSums
    digits_lost: bool

    @classmethod
    def of(cls, blocks: Iterable[Block]) -> BlockTotals:
        """Pre: there is a row."""
        return reduce(cls.joined, (cls.of_block(block) for block in blocks if block.X.shape[0]))

    @classmethod
    def of_block(cls, block: Block) -> BlockTotals:
        """Pre: the block has a row."""
        rows = block.rows
        sums = rows.column_sums(exponent_of(rows.magnitudes[0]))
        lost = SumScale.of(rows, None).levels > 1
        scale = SumScale.of(rows, block.weight)
        return cls(rows.n, rows.d, rows.dtype, scale, sums, lost)

    def joined(self, other: BlockTotals) -> BlockTotals:
        """The totals of the rows of both."""
        exponent = max(self.sums.exponent, other.sums.exponent)
        scale = self.scale.joined(other.scale)
        lost = self.digits_lost or other.digits_lost or scale.value_levels > 1
        return BlockTotals(
            self.n + other.n, self.d, np.result_type(self.dtype, other.dtype), scale,
            self.sums.at_exponent(exponent) + other.sums.at_exponent(exponent), lost,
        )  # fmt: skip

    def spread(self, blocks: RowBlocks) -> float:
        """As `joint_spread`, of all rows."""
        rows = (block.rows for block in blocks if block.X.shape[0])
        sums = self.sums
        if self.digits_lost:
            again = (block.rows for block in blocks if block.X.shape[0])
            sums = reduce(ExactSums.__add__, (r.column_sums(sums.exponent) for r in again))
        return spread_around(sums.values / self.n, rows, self.n)


def as_blocks(X: Floats, weight: F64 | None, size: int) -> Iterator[Block]:
    """Blocks of `size` rows of a matrix in memory."""
    for first in range(0, X.shape[0], size):
        part = slice(first, first + size)
        yield Block(X[part], None if weight is None else weight[part], first)
