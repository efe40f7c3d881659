"""Rows in blocks as the data of a fit on a card, with the bits of `BlockData`.

Rows pass through the card, once for an assignment. There stay, of each row, its label and its
weight: 4 or 12 bytes. In a seeding by rounds the card finds the nearest of the new centres; costs
and draws are in host memory, as is the summary from which other fits start.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from kvariates.cuda.card import CardArray
from kvariates.cuda.data import LloydOnCard, far_rows
from kvariates.cuda.filter import Changes, Filter, frame_of
from kvariates.cuda.row_stream import CopiedPart, InspectedBlocks, RowStream
from kvariates.cuda.rows import CardRows, ExactTotal, rounded_total, upload
from kvariates.cuda.sums import ClusterTable
from kvariates.data.assigners import FarRows, Labelled
from kvariates.data.block_data import BlockCosts, BlockData
from kvariates.data.rows import F64, NARROWEST, OVERFLOW, WIDEST


@dataclass(frozen=True, eq=False, kw_only=True)
class CardBlockData(BlockData):
    """All rows of the blocks. `card_weight`: of all rows, on the card; None: all are one."""

    stream: RowStream
    card_weight: CardArray | None

    @classmethod
    def of(
        cls, card: Any, data: BlockData, blocks: InspectedBlocks, *, unit: bool
    ) -> CardBlockData:
        """The same rows. `blocks`: those of the user, if `data` has them scaled to length one."""
        known = {field.name: getattr(data, field.name) for field in fields(BlockData)}
        weight, blocks.weight = upload(card, blocks.weight), None
        stream = RowStream(card, blocks, data.n, data.d, data.dtype, unit=unit)
        return cls(**known, stream=stream, card_weight=weight)

    def spread(self) -> float:
        if self.totals.digits_lost:
            return super().spread()
        mean = self.stream.card.put(self.totals.sums.values / self.n)
        total = ExactTotal(self.stream.card)
        for part in self.stream:
            total.add(part.rows, part.rows.costs(mean, None), None)
        spread = rounded_total(total.value) / (self.n * self.d)
        if NARROWEST <= spread < WIDEST:
            return spread
        return super().spread()  # it says what is wrong, if something is

    def assigner(self, k: int, scan: Any = "auto") -> CardBlockAssigner:  # type: ignore[override]
        return CardBlockAssigner(self, k)

    def costs(self) -> CardBlockCosts:
        return CardBlockCosts(self)


class PartFilter:
    """Labels of one part after the other: the halves of all of them take the same memory."""

    def __init__(self, stream: RowStream, k: int) -> None:
        self._card, self._k, self._frame = stream.card, k, frame_of(stream.sample)
        self._changes = Changes.for_rows(stream.card, stream.size)
        self._filter: Filter | None = None

    def nearest(
        self, rows: CardRows, centers: CardArray, labels: CardArray, count: CardArray | None = None
    ) -> Changes:
        """Bring labels up to date; the changes. `count`: where their number is to be."""
        known = self._changes
        changes = known if count is None else Changes(known.rows, known.before, count)
        if self._filter is None:
            self._filter = Filter(self._card, rows.X, self._k, frame=self._frame)
        else:
            self._filter.read(rows.X)
        self._filter.nearest(centers, labels, changes, None)
        return changes


class CardBlockAssigner(LloydOnCard):
    """Labels, exact sums and centres stay on the card, and rows pass through it."""

    def __init__(self, data: CardBlockData, k: int) -> None:
        card = data.stream.card
        super().__init__(card, k, data.scale, data.stream.parts)
        self._data, self._stream = data, data.stream
        self._labels = data.stream.no_labels(data.n)
        self._table = ClusterTable(data.stream.kind, k, data.scale)
        self._filter = PartFilter(data.stream, k)
        self._cost: ExactTotal | None = None  # of the last assignment, if the data keeps costs

    def _assign(
        self, centers: CardArray, moves: CardArray | None, changed: CardArray
    ) -> ClusterTable:
        self._cost = ExactTotal(self._card) if self._data.keep_costs else None
        for number, part in enumerate(self._stream):
            labels, weight = part.of(self._labels), self._weight_of(part)
            count = changed.part(number, number + 1)
            changes = self._filter.nearest(part.rows, centers, labels, count)
            self._table.move(part.rows, weight, labels, changes)
            if self._cost is not None:
                self._cost.add(part.rows, part.rows.costs(centers, labels), weight)
        return self._table

    def _weight_of(self, part: CopiedPart) -> CardArray | None:
        weight = self._data.card_weight
        return None if weight is None else part.of(weight)

    def _costs(self, part: CopiedPart) -> CardArray:
        assert self._centers is not None  # noqa: S101
        return part.rows.costs(self._centers, part.of(self._labels))

    def exact_cost(self) -> int:
        """It takes a pass, if the data does not keep costs."""
        if self._cost is None:
            self._cost = ExactTotal(self._card)
            for part in self._stream:
                self._cost.add(part.rows, self._costs(part), self._weight_of(part))
        total = self._cost.value
        if total is None:
            raise ValueError(OVERFLOW)
        return total

    def farthest(self, count: int) -> FarRows:
        far: list[FarRows] = []
        for part in self._stream:
            weight = self._weight_of(part)
            of_rows = None if weight is None else weight.get()
            labels = part.of(self._labels)
            some = far_rows(part.rows, self._costs(part), of_rows, labels, count)
            far = [FarRows.joined([*far, some]).first(count)]
        return far[0]

    def labelled(self, centers: F64) -> Labelled:
        """One pass; labels stay with the blocks."""
        given, total = self._card.put(centers), ExactTotal(self._card)
        counts = self._card.zeros(self._k, np.int64)
        for part in self._stream:
            rows, labels = part.rows, part.of(self._labels)
            self._filter.nearest(rows, given, labels)
            rows.add_counts(labels, counts)
            total.add(rows, rows.costs(given, labels), self._weight_of(part))
        self._centers = given
        return Labelled(rounded_total(total.value), counts.get())


class CardBlockCosts(BlockCosts):
    """The costs of all rows, in host memory. The card compares rows with new centres."""

    def __init__(self, data: CardBlockData) -> None:
        super().__init__(data.blocks, data.n, data.weight)
        self._stream = data.stream

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        stream, given = self._stream, self._stream.card.put(centers)
        nearest, labels = PartFilter(stream, len(centers)), stream.no_labels(stream.size)
        for part in stream:
            own = labels.part(0, part.rows.n)
            nearest.nearest(part.rows, given, own)
            found = part.rows.costs(given, own).get()
            some = slice(part.first, part.first + part.rows.n)
            less = found < self.cost[some]
            self.cost[some][less] = found[less]
            self.nearest[some][less] = first + own.get()[less]
        self._add_up()
