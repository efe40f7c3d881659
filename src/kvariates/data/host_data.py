"""Rows in memory with their weights, as `Data`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
import scipy

from kvariates.data.assigners import InMemoryAssigner, Labelled, ShardedAssigner
from kvariates.data.cluster_sums import SumScale
from kvariates.data.exact_sums import exact_total, to_float
from kvariates.data.protocol import HOST_ROWS, I64, PASSES, ROUNDS, HostPart, Offers
from kvariates.data.row_costs import RowCosts, ShardedCosts
from kvariates.data.rows import F64, Rows, joint_spread
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

    @property
    def scale(self) -> SumScale:
        return SumScale.of(self.rows, self.weight)

    def parts(self) -> Iterator[HostPart]:
        yield HostPart(self.rows, self.weight)

    def assigner(self, k: int, scan: str | Scan = "auto") -> InMemoryAssigner:
        return InMemoryAssigner(self.rows, self.weight, k, scan)

    def costs(self) -> RowCosts:
        return RowCosts(self.rows, self.weight)


# ---- Rows in shards of this process, as `Data`: the rows of each shard stay where they are -------
#
# A draw is an integer below the exact total. The shard and the row at which the running sum
# passes it do not depend on how the rows are cut: any shards pick the rows that are picked in
# memory, for the same order of the rows and the same random numbers.


@dataclass(frozen=True, eq=False)
class ShardData:
    """The rows of all shards, numbered one shard after the other.

    `map` applies a function to each shard and returns the answers in their order.
    """

    shards: Sequence[HostData]
    map: Callable[..., Iterable[Any]] = map
    offers: ClassVar[Offers] = PASSES | ROUNDS
    summary: ClassVar[None] = None

    @cached_property
    def starts(self) -> list[int]:
        """The number of the first row of each shard."""
        return list(accumulate((shard.n for shard in self.shards[:-1]), initial=0))

    @property
    def n(self) -> int:
        return sum(shard.n for shard in self.shards)

    @property
    def d(self) -> int:
        return self.shards[0].d

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(shard.dtype for shard in self.shards))

    def take(self, indices: I64) -> F64:
        return self.subset(indices).take(np.arange(len(indices)))

    def subset(self, indices: I64) -> Rows:
        owner = np.searchsorted(self.starts, indices, side="right") - 1
        owners = np.unique(owner) if len(owner) else np.zeros(1, dtype=np.int64)
        parts = [
            self.shards[s].subset(indices[owner == s] - self.starts[s]).X for s in owners.tolist()
        ]
        order = np.argsort(np.argsort(owner, kind="stable"), kind="stable")
        sparse = scipy.sparse.issparse(parts[0])
        X = scipy.sparse.vstack(parts, format="csr") if sparse else np.concatenate(parts)
        return Rows.of(X[order])

    def spread(self) -> float:
        return joint_spread([shard.rows for shard in self.shards if shard.n])

    def assigner(self, k: int, scan: Any = "auto") -> LabellingShards:
        return LabellingShards([shard.assigner(k, scan) for shard in self.shards], self)

    def costs(self) -> ShardedCosts:
        return ShardedCosts([shard.costs() for shard in self.shards], self.starts, self.map)


class LabellingShards(ShardedAssigner):
    """The assigners of all shards as one; the final labels are those of all rows."""

    def __init__(self, shards: Sequence[Any], data: ShardData) -> None:
        super().__init__(shards, data.map)
        self._parts, self._data = shards, data

    def labelled(self, centers: F64) -> Labelled:
        found = [part.labelled(centers) for part in self._parts]
        labels = np.concatenate([each.labels for each in found])
        pairs = zip(self._data.shards, found, strict=True)
        total = sum(
            exact_total(shard.rows.costs(centers, each.labels), shard.weight)
            for shard, each in pairs
        )
        return Labelled(to_float(total), np.bincount(labels, minlength=len(centers)), labels)
