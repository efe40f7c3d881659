"""Exact sums of the clusters on a card, and the next centres made of them there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.cuda.card import CardArray
from kvariates.cuda.filter import Changes
from kvariates.cuda.rows import BLOCK, CardRows, blocks_for, defines_of, rounded_total
from kvariates.data.cluster_sums import ExactStatistics, SumScale
from kvariates.data.exact_sums import LIMBS, ExactSums
from kvariates.data.rows import F64

FILE = "sums.cu"
EVERYTHING = 2**22  # threads, when the number of rows to move is known on the card only


class ClusterTable:
    """Sums, weights and counts of all clusters; rows are moved when their labels change.

    `rows`: some of them, or all.
    """

    def __init__(self, rows: CardRows, k: int, scale: SumScale) -> None:
        self._rows, self._k, self.scale = rows, k, scale
        card, d = rows.card, rows.d
        self._limbs = card.zeros((scale.levels, k, LIMBS, d), np.int64)
        self._weights = card.zeros((1, k, LIMBS, 1), np.int64)
        self._counts = card.zeros(k, np.int64)
        self._scale = card.put(np.array([*scale.exponents, scale.levels], dtype=np.int64))

    def move(
        self, rows: CardRows, weight: CardArray | None, labels: CardArray, changes: Changes
    ) -> None:
        """Move the rows of these changes to the clusters of their labels."""
        rows.card.run(
            FILE, "move_rows", blocks_for(rows.card, min(32 * rows.n, EVERYTHING)), BLOCK,
            rows.X, rows.d, weight, labels, changes.rows, changes.before, changes.count, self._k,
            self._scale, self._limbs, self._weights, self._counts, defines=defines_of(rows.X),
        )  # fmt: skip

    def means(self, centers: CardArray, unit: bool, out: CardArray, report: CardArray) -> None:
        """The next centres; report: how many clusters have no rows, then the squared moves."""
        rows, k = self._rows, self._k
        moves = report.part(1, 1 + k)
        rows.card.run(
            FILE, "means", blocks_for(rows.card, 32 * k), BLOCK, centers, k, rows.d, self._scale,
            self._limbs, self._weights, self._counts, int(unit), out, moves, report,
            defines=defines_of(rows.X),
        )  # fmt: skip

    def on_host(self, changed: int, cost_of: Any) -> ExactStatistics:
        """A copy of all of it."""
        of_values, of_weights = self.scale.exponents
        return ExactStatistics(
            ExactSums(self._limbs.get(), of_values), ExactSums(self._weights.get(), of_weights),
            self._counts.get(), changed, cost_of,
        )  # fmt: skip


class CostOfLabels(Protocol):
    """Whoever knows what the last labels cost."""

    def exact_cost(self) -> int: ...


@dataclass(frozen=True, eq=False)
class CardStatistics:
    """What one assignment on a card tells. Valid until the next one.

    The next centres are made with it, because the card is then asked once for an iteration.
    """

    changed: int
    next_centers: CardArray
    moves: F64  # squared, of the centres
    table: ClusterTable
    assigner: CostOfLabels

    @cached_property
    def on_host(self) -> ExactStatistics:
        return self.table.on_host(self.changed, self.assigner.exact_cost)

    @property
    def sums(self) -> F64:
        return self.on_host.sums

    @property
    def weights(self) -> F64:
        return self.on_host.weights

    @property
    def counts(self) -> NDArray[np.int64]:
        return self.on_host.counts

    @cached_property
    def cost(self) -> float:
        return rounded_total(self.assigner.exact_cost())
