"""What an algorithm may ask of rows, wherever they are (`Data`); and rows in memory.

| rows | class |
|---|---|
| in memory | `HostData` |
| in blocks of a source | `data.block_data.BlockData` |
| of peers: Dask partitions, clients of Flower | `peers.peers_data.PeersData` |
| on a GPU | `cuda.data.CudaData` |
| in blocks that pass through a GPU | `cuda.block_data.CardBlockData` |

Arrays with an entry for each row do not cross this border: answers are centres, sums, costs and
counts. Weights are inside.

| offer | what it means |
|---|---|
| "passes" | the rows may be asked once for every centre |
| "rounds" | the rows may be asked in a few rounds |
| "host rows" | `rows` and `weight` are arrays in memory: `HostData` |
| "peers" | who holds the rows draws one of them: `PeersData` |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from kvariates.data.assigners import ExactAssigner, InMemoryAssigner
from kvariates.data.cluster_sums import SumScale
from kvariates.data.row_costs import Costs, RowCosts
from kvariates.data.rows import F64, Rows
from kvariates.data.scans import Scan
from kvariates.numerics.draws import I64

Offers = frozenset[str]

PASSES, ROUNDS, HOST_ROWS, PEERS = (
    frozenset({name}) for name in ("passes", "rounds", "host rows", "peers")
)


class Data(Protocol):
    """Rows with their weights."""

    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def offers(self) -> Offers: ...
    @property
    def summary(self) -> Any:
        """Weighted points in memory (`HostData`) from which a fit starts; None: from the rows."""

    def spread(self) -> float:
        """Mean variance of the features; ValueError if float64 cannot hold squares."""

    def take(self, indices: I64) -> F64:
        """The rows at `indices` as centres."""

    def subset(self, indices: I64) -> Rows:
        """The rows at `indices` in memory, in their layout and dtype."""

    def canonical(self) -> tuple[Data, I64] | None:
        """The rows in an order of their values alone, and this order; None for large data.

        Draws made in this order do not change when the rows are shuffled. None, too, if the rows
        are not at one place.
        """

    def assigner(self, k: int, scan: Any = "auto") -> ExactAssigner:
        """For one run of Lloyd."""

    def costs(self) -> Costs:
        """The state of D² sampling, without a centre."""


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

    def canonical(self) -> tuple[HostData, I64] | None:
        order = self.rows.canonical_order()
        return None if order is None else (self.part(order), order)

    @property
    def scale(self) -> SumScale:
        return SumScale.of(self.rows, self.weight)

    def parts(self) -> Iterator[HostData]:
        """All rows a part at a time: here at once."""
        yield self

    def assigner(self, k: int, scan: str | Scan = "auto") -> InMemoryAssigner:
        return InMemoryAssigner(self.rows, self.weight, k, scan)

    def costs(self) -> RowCosts:
        return RowCosts(self.rows, self.weight)
