"""Rows in blocks of a source, as `Data`.

Statistics are exact, so it does not matter how the rows are cut.

| what | passes over the blocks | what is kept of a row |
|---|---|---|
| an assignment | one | nothing |
| far rows, for empty clusters | one more | nothing |
| the cost of the final centres | one | nothing |
| new centres in a seeding by rounds | one | its cost, centre and weight: 12 or 20 bytes |
| rows that were drawn | one, which ends at the last of them | nothing |

Draws are those of the rows in memory, in this order and for the same random numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np

from kvariates.data.assigners import FarRows, InMemoryAssigner, Labelled
from kvariates.data.blocks import Block, BlockTotals, RowBlocks, assign_blocks, take_rows
from kvariates.data.cluster_sums import ExactStatistics, SumScale
from kvariates.data.exact_sums import exact_total, unscaled
from kvariates.data.host_data import ROUNDS, HostData, Offers
from kvariates.data.row_costs import Proposal, RowCosts
from kvariates.data.rows import F64, Rows, joint_cost
from kvariates.numerics.draws import I64

AT_ONCE = 2**20  # rows whose weights are added up at once


@dataclass(frozen=True, eq=False)
class BlockData:
    """All rows of the blocks, by their numbers."""

    blocks: RowBlocks
    totals: BlockTotals
    weight: F64 | None = None  # of all rows, for `costs`; see `read_weights`
    summary: HostData | None = None  # that a fit starts from; None: rows can be asked in rounds
    keep_costs: bool = False  # measure the cost while assigning, not in a pass of its own

    @property
    def n(self) -> int:
        return self.totals.n

    @property
    def d(self) -> int:
        return self.totals.d

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.totals.dtype

    @property
    def offers(self) -> Offers:
        return ROUNDS if self.summary is None else self.summary.offers

    @property
    def scale(self) -> SumScale:
        return self.totals.scale

    def parts(self) -> Iterator[HostData]:
        """All rows with their weights, in their order: one pass."""
        for block in self.blocks:
            if block.X.shape[0]:
                yield HostData(block.rows, block.weight)

    def take(self, indices: I64) -> F64:
        return self.subset(indices).take(np.arange(len(indices)))

    def subset(self, indices: I64) -> Rows:
        return take_rows(self.blocks, indices)

    def canonical(self) -> None:
        """None: the rows are not at one place."""

    def spread(self) -> float:
        return self.totals.spread(self.blocks)

    def assigner(self, k: int, scan: Any = "auto") -> BlockAssigner:
        return BlockAssigner(self.blocks, k, self.totals.scale, costs=self.keep_costs)

    def costs(self) -> BlockCosts:
        return BlockCosts(self.blocks, self.totals.n, self.weight)


class BlockAssigner:
    """Rows in blocks. Pre: there is a block.

    Labels are not kept. A hash of all labels says whether any has changed; how many is not known.
    To show far rows, the blocks are read again. The cost is measured in the same pass as the
    assignment with `costs=True`, and in a pass of its own otherwise, if it is read.
    """

    def __init__(self, blocks: RowBlocks, k: int, scale: SumScale, *, costs: bool = False) -> None:
        self._blocks, self._k, self._costs = blocks, k, costs
        self.scale = scale
        self._centers: F64 | None = None  # of the last assignment
        self._hash = b""  # of its labels

    def set_scale(self, scale: SumScale) -> None:
        self.scale = scale

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        self._centers = centers
        labels, cost = sha256(), 0
        whole: ExactStatistics | None = None
        for block in self._blocks:
            assigner = self._in_memory(block)
            part = assigner.assign(centers)
            labels.update(assigner.labels.data)
            cost += part.exact_cost if self._costs else 0
            # The function that computes the cost would keep the block in memory.
            whole = replace(part if whole is None else whole + part, cost_of=self._exact_cost)
        assert whole is not None  # noqa: S101
        same, self._hash = labels.digest() == self._hash, labels.digest()
        measured = (lambda: cost) if self._costs else self._exact_cost
        return replace(whole, changed=0 if same else None, cost_of=measured)

    def farthest(self, count: int) -> FarRows:
        assert self._centers is not None  # noqa: S101
        far: list[FarRows] = []
        for block in self._blocks:
            assigner = self._in_memory(block)
            assigner.relabel(self._centers)
            far = [FarRows.joined([*far, assigner.farthest(count)]).first(count)]
        return far[0]

    def labelled(self, centers: F64) -> Labelled:
        """One pass; labels stay with the blocks."""
        counts = np.zeros(len(centers), dtype=np.int64)

        def parts() -> Iterator[tuple[F64, F64 | None]]:
            for part in assign_blocks(self._blocks, centers):
                counts[:] += np.bincount(part.labels, minlength=len(centers))
                yield part.cost, part.weight

        return Labelled(joint_cost(parts()), counts)

    def _in_memory(self, block: Block) -> InMemoryAssigner:
        return InMemoryAssigner(block.rows, block.weight, self._k, "lloyd", self.scale)

    def _exact_cost(self) -> int:
        assert self._centers is not None  # noqa: S101
        parts = assign_blocks(self._blocks, self._centers)
        return sum(exact_total(part.cost, part.weight) for part in parts)


class BlockCosts(RowCosts):
    """The costs of n rows in blocks: kept costs, without the rows. Sums and draws need no more."""

    def __init__(self, blocks: RowBlocks, n: int, weight: F64 | None) -> None:
        cost = np.full(n, np.inf)
        super().__init__(_stand_in(cost), weight, cost)
        self._blocks = blocks

    def make_filter(self) -> None:
        """Do nothing: there is no room for a copy of the rows."""

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        for costs in self._of_blocks():
            costs.lower(centers, first, limit)
        self._add_up()

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> F64:
        """Bounds that leave all to exact gains, which a pass computes as fast as bounds."""
        most = np.nextafter(unscaled(self.total(), self._exponent), np.inf)
        return np.tile([0.0, most], (len(candidates), 1))

    def gains(self, candidates: F64, limit: F64 | None) -> list[int]:
        parts = [costs.gains(candidates, limit) for costs in self._of_blocks(self._exponent)]
        return [sum(gains) for gains in zip(*parts, strict=True)]

    def lower_to(self, candidates: F64, best: int, name: int) -> int:
        self.lower(candidates[best : best + 1], name, None)
        return self.total()

    def propose(self, goal: int, pending: F64, first: int) -> Proposal:
        row = int(self.rows_at([goal])[0])
        bound = float(self.cost[row])
        if len(pending):
            taken = take_rows(self._blocks, np.array([row]))
            self._part(taken, row).lower(pending, first, None)
            self._add_up()
        return Proposal(row, bound, float(self.cost[row]))

    def masses(self, k: int, exponent: int) -> list[int]:
        firsts = range(0, len(self.cost), AT_ONCE)
        parts = [
            self._part(_stand_in(self.cost[i : i + AT_ONCE]), i).masses(k, exponent) for i in firsts
        ]
        return [sum(masses) for masses in zip(*parts, strict=True)]

    def _of_blocks(self, exponent: int | None = None) -> Iterator[RowCosts]:
        """The costs of the rows of each block, in this unit: one pass."""
        for block in self._blocks:
            costs = self._part(block.rows, block.first)
            if exponent is not None:
                costs.set_exponent(exponent)
            yield costs

    def _part(self, rows: Rows, first: int) -> RowCosts:
        """A view of the kept costs, for rows from number `first` on."""
        part = slice(first, first + rows.n)
        weight = None if self.weight is None else self.weight[part]
        return RowCosts(rows, weight, self.cost[part], self.nearest[part])

    def _add_up(self) -> None:
        """Add up the kept costs again, if the unit is known."""
        if self._sums is not None:
            self.set_exponent(self._exponent)


# Rows that are read a part at a time, in memory all at once: what a peer holds.
PartedData = HostData | BlockData


def _stand_in(cost: F64) -> Rows:
    """As many rows as there are costs. Sums and draws need the number of rows, not their values."""
    return Rows.of(cost[:, None])


def read_weights(blocks: RowBlocks) -> F64 | None:
    """The weights of all rows; None if blocks have none. One pass."""
    # Copies, because a view of a block would keep it in memory.
    parts = [block.weight.copy() for block in blocks if block.weight is not None]
    return np.concatenate(parts) if parts else None
