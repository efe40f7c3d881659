"""The potential of rows in shards: the rows of each shard stay where they are.

A draw is an integer below the exact total. The shard and the row at which the running sum passes it
do not depend on how the rows are cut: any shards pick the rows that `EuclideanPotential` picks in
memory, for the same order of the rows and the same random numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from kvariates.data.row_costs import RowCosts, ShardedCosts
from kvariates.data.rows import Rows, joint_spread
from kvariates.numerics.draws import F64, I64
from kvariates.seeding.euclidean_potential import EuclideanPotential


class ShardedRows:
    """The rows of all shards, numbered one shard after the other."""

    def __init__(self, shards: Sequence[Rows]) -> None:
        self.shards = shards
        self.starts = list(accumulate((shard.n for shard in shards), initial=0))
        self.n, self.d = self.starts.pop(), shards[0].d

    def take(self, indices: I64) -> F64:
        taken = np.empty((len(indices), self.d))
        owner = np.searchsorted(self.starts, indices, side="right") - 1
        for s in np.unique(owner):
            taken[owner == s] = self.shards[s].take(indices[owner == s] - self.starts[s])
        return taken

    def spread(self) -> float:
        return joint_spread([shard for shard in self.shards if shard.n])


def sharded_potential(
    shards: Sequence[RowCosts],
    k: int,
    map: Callable[..., Iterable[Any]] = map,  # noqa: A002
) -> EuclideanPotential[ShardedRows]:
    """The potential of all shards, with room for k centres. `map`: see `ShardedCosts`."""
    rows = ShardedRows([shard.rows for shard in shards])
    return EuclideanPotential(rows, None, k, costs=ShardedCosts(shards, rows.starts, map))
