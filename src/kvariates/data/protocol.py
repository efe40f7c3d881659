"""What an algorithm may ask of rows, wherever they are.

| rows | class |
|---|---|
| in memory | `data.host_data.HostData` |
| in blocks of a source | `data.block_data.BlockData` |
| in shards of this process | `data.shard_data.ShardData` |
| of peers: Dask partitions, clients of Flower | `peers.peers_data.PeersData` |

Arrays with an entry for each row do not cross this border: answers are centres, sums, costs and
counts. Weights are inside. Rows on another device would be another class with the same methods.

| offer | what it means |
|---|---|
| "passes" | the rows may be asked once for every centre |
| "rounds" | the rows may be asked in a few rounds |
| "host rows" | `rows` and `weight` are arrays in memory: `HostData` |
| "peers" | who holds the rows draws one of them: `PeersData` |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.data.assigners import DataAssigner
from kvariates.data.cluster_sums import SumScale
from kvariates.data.row_costs import Costs
from kvariates.data.rows import F64, Rows

I64 = NDArray[np.int64]
Offers = frozenset[str]

PASSES, ROUNDS, HOST_ROWS, PEERS = (
    frozenset({name}) for name in ("passes", "rounds", "host rows", "peers")
)


class CostsOfRows(Costs, Protocol):
    @property
    def cost(self) -> F64:
        """Of each row."""


class HostPart(NamedTuple):
    """Some of the rows, in memory, and their weights; None: all weights are one."""

    rows: Rows
    weight: F64 | None


class PartedData(Protocol):
    """Rows that are read a part at a time: what a peer holds. In memory, all are one part."""

    @property
    def n(self) -> int: ...
    @property
    def d(self) -> int: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def weight(self) -> F64 | None: ...
    @property
    def scale(self) -> SumScale: ...
    def parts(self) -> Iterator[HostPart]:
        """All rows with their weights, in their order: one pass."""

    def take(self, indices: I64) -> F64: ...
    def assigner(self, k: int, scan: Any = "auto") -> DataAssigner: ...
    def costs(self) -> CostsOfRows: ...


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

    def assigner(self, k: int, scan: Any = "auto") -> DataAssigner:
        """For one run of Lloyd."""

    def costs(self) -> Costs:
        """The state of D² sampling, without a centre."""
