"""The potential of rows in blocks, and k-means|| over them.

The cost and the nearest centre of every row are kept, with its weight if rows have weights: 12 or
20 bytes a row. Totals and draws need no pass. A pass over the blocks takes in new centres, and one
that ends at the last row that is asked for takes rows. Draws are those of `EuclideanPotential` in
memory, for the same order of the rows and the same random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kvariates.data.blocks import BlockTotals, RowBlocks, take_rows
from kvariates.data.row_costs import Proposal, RowCosts
from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.kmeans_parallel import OVERSAMPLING, ROUNDS, choose_rows

AT_ONCE = 2**20  # rows whose weights are added up at once


class BlockedRows:
    """All rows of the blocks, by their numbers."""

    def __init__(self, blocks: RowBlocks, totals: BlockTotals) -> None:
        self._blocks, self._totals = blocks, totals
        self.n, self.d = totals.n, totals.d

    def take(self, indices: I64) -> F64:
        return self.subset(indices).take(np.arange(len(indices)))

    def subset(self, indices: I64) -> Rows:
        return take_rows(self._blocks, indices)

    def spread(self) -> float:
        return self._totals.spread(self._blocks)


class BlockCosts:
    """The costs of n rows in blocks (see `Costs`)."""

    quantized = False

    def __init__(self, blocks: RowBlocks, n: int, weight: F64 | None) -> None:
        self._blocks = blocks
        cost, nearest = np.full(n, np.inf), np.full(n, -1, dtype=np.int32)
        self._kept = RowCosts(_stand_in(cost), weight, cost, nearest)
        self._exponent: int | None = None

    @property
    def weighted(self) -> bool:
        return self._kept.weighted

    def quantize(self) -> None:
        """Do nothing: there is no room for a copy of the rows."""

    def largest(self) -> float:
        return self._kept.largest()

    def set_exponent(self, exponent: int) -> None:
        self._exponent = exponent
        self._kept.set_exponent(exponent)

    def total(self) -> int:
        return self._kept.total()

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        for costs in self._of_blocks():
            costs.lower(centers, first, limit)
        self._add_up()

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> F64:
        """Bounds that leave all to exact gains, which a pass computes as fast as bounds."""
        return np.tile([0.0, np.inf], (len(candidates), 1))

    def gains(self, candidates: F64, limit: F64 | None) -> list[int]:
        parts = [costs.gains(candidates, limit) for costs in self._of_blocks(self._exponent)]
        return [sum(gains) for gains in zip(*parts, strict=True)]

    def lower_to(self, candidates: F64, best: int, name: int) -> None:
        self.lower(candidates[best : best + 1], name, None)

    def propose(self, goal: int, pending: F64, first: int) -> Proposal:
        row = int(self.rows_at([goal])[0])
        bound = float(self._kept.cost[row])
        if len(pending):
            taken = take_rows(self._blocks, np.array([row]))
            self._part(taken, row).lower(pending, first, None)
            self._add_up()
        return Proposal(row, bound, float(self._kept.cost[row]))

    def rows_at(self, goals: list[int]) -> I64:
        return self._kept.rows_at(goals)

    def masses(self, k: int, exponent: int) -> list[int]:
        cost = self._kept.cost
        firsts = range(0, len(cost), AT_ONCE)
        parts = [
            self._part(_stand_in(cost[i : i + AT_ONCE]), i).masses(k, exponent) for i in firsts
        ]
        return [sum(masses) for masses in zip(*parts, strict=True)]

    def by_weight(self) -> RowCosts:
        return self._kept.by_weight()

    def _of_blocks(self, exponent: int | None = None) -> Iterator[RowCosts]:
        """The costs of the rows of each block, in this unit: one pass."""
        for block in self._blocks:
            costs = self._part(block.rows, block.first)
            if exponent is not None:
                costs.set_exponent(exponent)
            yield costs

    def _part(self, rows: Rows, first: int) -> RowCosts:
        """A view of the kept costs, for rows from number `first` on."""
        part, kept = slice(first, first + rows.n), self._kept
        weight = None if kept.weight is None else kept.weight[part]
        return RowCosts(rows, weight, kept.cost[part], kept.nearest[part])

    def _add_up(self) -> None:
        """Add up the kept costs again, if the unit is known."""
        if self._exponent is not None:
            self._kept.set_exponent(self._exponent)


def _stand_in(cost: F64) -> Rows:
    """As many rows as there are costs. Sums and draws need the number of rows, not their values."""
    return Rows.of(cost[:, None])


def read_weights(blocks: RowBlocks) -> F64 | None:
    """The weights of all rows; None if blocks have none. One pass."""
    # Copies, because a view of a block would keep it in memory.
    parts = [block.weight.copy() for block in blocks if block.weight is not None]
    return np.concatenate(parts) if parts else None


def block_potential(
    blocks: RowBlocks, totals: BlockTotals, weight: F64 | None, k: int
) -> EuclideanPotential[BlockedRows]:
    """The potential of all rows, with room for k centres. `weight`: see `read_weights`."""
    rows, costs = BlockedRows(blocks, totals), BlockCosts(blocks, totals.n, weight)
    return EuclideanPotential(rows, None, k, costs=costs)


def kmeans_parallel_blocks(
    blocks: RowBlocks, totals: BlockTotals, weight: F64 | None, k: int, rng: np.random.Generator
) -> F64:
    """k-means|| over blocks: the rows that `kmeans_parallel` picks in memory, in this order.

    In memory, rows of few values are sorted before they are drawn. Here they are not.
    """
    sizes = rng.poisson(OVERSAMPLING * k, size=ROUNDS)
    chosen = choose_rows(lambda room: block_potential(blocks, totals, weight, room), sizes, k, rng)
    return BlockedRows(blocks, totals).take(chosen)
