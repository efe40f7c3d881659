"""Rows on a card as the data of a fit (`Data`), with the bits of the same rows in memory."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kvariates.cuda.card import CardArray
from kvariates.cuda.costs import CardCosts
from kvariates.cuda.filter import Changes, Filter
from kvariates.cuda.rows import CardRows, upload
from kvariates.cuda.sums import CardStatistics, ClusterTable
from kvariates.data.assigners import (
    FarRows,
    Labelled,
    MakesCenters,
    fill_empty_clusters,
    squared_moves,
)
from kvariates.data.cluster_sums import SumScale, mean_centers
from kvariates.data.host_data import PASSES, ROUNDS, Offers
from kvariates.data.rows import F64, OVERFLOW, SMALL, Floats, Rows
from kvariates.numerics.draws import I64


@dataclass(frozen=True, eq=False)
class CudaData:
    """Dense rows. `host_weight` is `weight`, in host memory."""

    rows: CardRows
    weight: CardArray | None = None
    host_weight: F64 | None = None
    offers: ClassVar[Offers] = PASSES | ROUNDS
    summary: ClassVar[None] = None

    @classmethod
    def of(cls, rows: CardRows, weight: F64 | None = None) -> CudaData:
        """Pre: rows are finite; weight is None (all ones) or float64, not negative, not all 0."""
        return cls(rows, upload(rows.card, weight), weight)

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def d(self) -> int:
        return self.rows.d

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    @property
    def scale(self) -> SumScale:
        return SumScale.of(self.rows, self.host_weight)

    def spread(self) -> float:
        return self.rows.spread()

    def take(self, indices: I64) -> F64:
        return self.rows.take(indices).get()

    def subset(self, indices: I64) -> Rows:
        return Rows.of(self.take(indices).astype(self.rows.X.dtype))

    def canonical(self) -> tuple[CudaData, I64] | None:
        if self.n * self.d > SMALL:
            return None
        X = self.rows.X.get()
        order = Rows.of(X).canonical_order()
        assert order is not None  # noqa: S101
        card = self.rows.card
        weight = None if self.host_weight is None else self.host_weight[order]
        return CudaData.of(CardRows(card, card.put(X[order])), weight), order

    def assigner(self, k: int, scan: Any = "auto") -> CardAssigner:
        return CardAssigner(self, k)

    def costs(self) -> CardCosts:
        return CardCosts(self.rows, self.weight)


class LloydOnCard(MakesCenters):
    """Lloyd's iterations of an assigner on a card. Centres stay there from one to the next.

    `parts`: how many numbers of changed labels an assignment tells.
    """

    def __init__(self, card: Any, k: int, scale: SumScale, parts: int = 1) -> None:
        self._card, self._k, self._parts, self.scale = card, k, parts, scale
        self._centers: CardArray | None = None  # of the last assignment

    @abstractmethod
    def _assign(
        self, centers: CardArray, moves: CardArray | None, changed: CardArray
    ) -> ClusterTable:
        """The sums of the clusters. `changed`: gets how many labels of each part have changed."""

    @abstractmethod
    def exact_cost(self) -> int: ...

    @abstractmethod
    def farthest(self, count: int) -> FarRows: ...

    # -- what Lloyd asks ---------------------------------------------------------------------------

    def steps(self, unit: bool) -> CardSteps:
        return CardSteps(self, unit)

    def put(self, centers: F64) -> CardArray:
        given: CardArray = self._card.put(centers)
        return given

    def assign_and_update(
        self, centers: CardArray, moves: CardArray | None, unit: bool
    ) -> tuple[CardStatistics, CardArray]:
        """One iteration, for which the card is waited for once; and the moves, on the card."""
        card, k, parts = self._card, self._k, self._parts
        after = card.empty(centers.shape, np.float64)
        report = card.zeros(parts + 1 + k, np.float64)  # changed labels, empty clusters, moves
        table = self._assign(centers, moves, report.part(0, parts))
        self._centers = centers
        table.means(centers, unit, after, report.part(parts, parts + 1 + k))
        told, moved = report.get(), report.part(parts + 1, parts + 1 + k)
        *each, empty = told[: parts + 1].view(np.int64).tolist()
        if not any(each):
            return CardStatistics(0, centers, np.zeros(k), table, self), moved
        statistics = CardStatistics(sum(each), after, told[parts + 1 :], table, self)
        if empty:
            return self._filled(statistics, centers, unit)
        return statistics, moved

    def _filled(
        self, statistics: CardStatistics, centers: CardArray, unit: bool
    ) -> tuple[CardStatistics, CardArray]:
        """Give far rows to empty clusters, in host memory: that is rare."""
        filled = fill_empty_clusters(statistics.on_host, self)
        before: F64 = centers.get()
        after = mean_centers(before, filled, unit)
        moves = squared_moves(before, after)
        table = statistics.table
        made = CardStatistics(statistics.changed, self._card.put(after), moves, table, self)
        return made, self._card.put(moves)

    # -- what is asked beside and after it ---------------------------------------------------------

    def assign(self, centers: F64, moves: F64 | None = None) -> Any:
        """Of centres in host memory."""
        given = self._card.put(centers)
        return self.assign_and_update(given, None, False)[0].on_host

    @abstractmethod
    def labelled(self, centers: F64) -> Labelled: ...


class CardAssigner(LloydOnCard):
    """Labels, bounds and exact sums stay on the card."""

    def __init__(self, data: CudaData, k: int) -> None:
        super().__init__(data.rows.card, k, data.scale)
        self._data, self._rows = data, data.rows
        self._filter = Filter(self._card, data.rows.X, k)
        self.labels = data.rows.no_labels()
        self._changes = Changes.for_rows(self._card, data.n)
        self._table: ClusterTable | None = None

    def _assign(
        self, centers: CardArray, moves: CardArray | None, changed: CardArray
    ) -> ClusterTable:
        if self._table is None:
            self._table = ClusterTable(self._rows, self._k, self.scale)
        self._filter.nearest(centers, self.labels, self._changes, moves)
        self._table.move(self._rows, self._data.weight, self.labels, self._changes)
        self._card.copy(self._changes.count, changed)
        return self._table

    def exact_cost(self) -> int:
        total = self._rows.exact_total(self._costs(), self._data.weight)
        if total is None:
            raise ValueError(OVERFLOW)
        return total

    def _costs(self) -> CardArray:
        assert self._centers is not None  # noqa: S101
        return self._rows.costs(self._centers, self.labels)

    def farthest(self, count: int) -> FarRows:
        return far_rows(self._rows, self._costs(), self._data.host_weight, self.labels, count)

    def labelled(self, centers: F64) -> Labelled:
        self._centers = self._card.put(centers)
        self._filter.nearest(self._centers, self.labels, self._changes, None)
        counts = self._rows.counts(self.labels, self._k)
        return Labelled(
            self._rows.total_cost(self._costs(), self._data.weight), counts, self.labels
        )


def far_rows(
    rows: CardRows, costs: CardArray, weight: F64 | None, labels: CardArray, count: int
) -> FarRows:
    """The `count` rows (or all) of the largest costs; those of no weight cost nothing."""
    cost: F64 = costs.get()
    if weight is not None:
        cost[weight == 0] = 0
    count = min(count, len(cost))
    least = np.partition(cost, -count)[-count] if count else np.inf
    far = np.flatnonzero(cost >= least)
    weights = np.ones(len(far)) if weight is None else weight[far]
    return FarRows(rows.take(far).get(), weights, labels.get()[far], cost[far]).first(count)


class CardSteps:
    """Lloyd's steps on a card: centres are arrays there."""

    def __init__(self, assigner: LloydOnCard, unit: bool) -> None:
        self._assigner, self._unit = assigner, unit
        self._moves: CardArray | None = None  # of the last step, on the card
        self._told: F64 = np.empty(0)  # the same, in host memory

    def start(self, centers: Floats) -> CardArray:
        return self._assigner.put(centers.astype(np.float64))

    def assign(self, centers: CardArray, moves: Any = None) -> CardStatistics:
        found, self._moves = self._assigner.assign_and_update(centers, self._moves, self._unit)
        self._told = found.moves
        return found

    def next_centers(self, centers: CardArray, statistics: CardStatistics) -> CardArray:
        return statistics.next_centers

    def moves(self, before: CardArray, after: CardArray) -> F64:
        return self._told

    def end(self, centers: CardArray) -> F64:
        return centers.get()


def labels_of(rows: CardRows, centers: F64) -> CardArray:
    """The nearest centre of every row."""
    labels = rows.no_labels()
    given = rows.card.put(centers)
    changes = Changes.for_rows(rows.card, rows.n)
    Filter(rows.card, rows.X, len(centers)).nearest(given, labels, changes, None)
    return labels
