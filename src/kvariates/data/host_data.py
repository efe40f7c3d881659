"""Rows in memory with their weights, as `Data`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from kvariates.data.assigners import InMemoryAssigner
from kvariates.data.protocol import HOST_ROWS, I64, PASSES, ROUNDS, Offers
from kvariates.data.row_costs import RowCosts
from kvariates.data.rows import F64, Rows
from kvariates.data.scans import Scan


@dataclass(frozen=True, eq=False)
class HostData:
    """Dense or CSR rows. Pre: weight is None (all ones) or float64, non-negative, not all zero."""

    rows: Rows
    weight: F64 | None = None
    offers: ClassVar[Offers] = HOST_ROWS | PASSES | ROUNDS
    summary: ClassVar[None] = None

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def d(self) -> int:
        return self.rows.d

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows.dtype

    def spread(self) -> float:
        return self.rows.spread()

    def take(self, indices: I64) -> F64:
        return self.rows.take(indices)

    def subset(self, indices: I64) -> Rows:
        return self.rows.subset(indices)

    def part(self, indices: I64) -> HostData:
        """The rows at `indices` with their weights."""
        weight = None if self.weight is None else self.weight[indices]
        return HostData(self.rows.subset(indices), weight)

    def assigner(self, k: int, scan: str | Scan = "auto") -> InMemoryAssigner:
        return InMemoryAssigner(self.rows, self.weight, k, scan)

    def costs(self) -> RowCosts:
        return RowCosts(self.rows, self.weight)
