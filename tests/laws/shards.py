"""Rows in shards of this process: shards as the assigner and as the `Data` of a fit.

Sums, costs and draws are exact integers, so shards must give what rows in memory give.
"""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from api import (
    FarRows,
    HostData,
    Labelled,
    Rows,
    ShardedCosts,
    SumScale,
    exact_total,
    exponent_of,
    spread_around,
    to_float,
)
from scipy import sparse


class ShardedAssigner:
    """Several assigners as one; each holds a part of the rows.

    `map` applies a function to each shard and returns the answers in the order of the shards, as
    the built-in does; the shards may compute at the same time and finish in any order.
    """

    def __init__(self, shards, map=map):  # noqa: A002
        self._shards, self._map = shards, map
        self.set_scale(reduce(SumScale.joined, map(lambda s: s.scale, shards)))

    def set_scale(self, scale):
        self.scale = scale
        list(self._map(lambda s: s.set_scale(scale), self._shards))

    def assign(self, centers, moves=None):
        parts = self._map(lambda s: s.assign(centers, moves), self._shards)
        return reduce(operator.add, parts)

    def farthest(self, count):
        parts = self._map(lambda s: s.farthest(count), self._shards)
        return FarRows.joined(parts).first(count)


@dataclass(frozen=True, eq=False)
class ShardData:
    """The rows of all shards, numbered one shard after the other.

    `map` applies a function to each shard and returns the answers in their order.
    """

    shards: Sequence[HostData]
    map: Callable[..., Any] = map
    offers: ClassVar = HostData.offers - {"host rows"}
    summary: ClassVar = None

    @cached_property
    def starts(self):
        """The number of the first row of each shard."""
        return list(accumulate((shard.n for shard in self.shards[:-1]), initial=0))

    @property
    def n(self):
        return sum(shard.n for shard in self.shards)

    @property
    def d(self):
        return self.shards[0].d

    @property
    def dtype(self):
        return np.result_type(*(shard.dtype for shard in self.shards))

    def take(self, indices):
        return self.subset(indices).take(np.arange(len(indices)))

    def subset(self, indices):
        parts = [shard.rows.X for shard in self.shards]
        X = sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.vstack(parts)
        return Rows.of(X[indices])

    def spread(self):
        parts = [shard.rows for shard in self.shards if shard.n]
        exponent = exponent_of(max(part.magnitudes[0] for part in parts))
        sums = reduce(operator.add, (part.column_sums(exponent) for part in parts))
        return spread_around(sums.values / self.n, parts, self.n)

    def assigner(self, k, scan="auto"):
        return LabellingShards([shard.assigner(k, scan) for shard in self.shards], self)

    def canonical(self):
        return None

    def costs(self):
        return LocalCosts([shard.costs() for shard in self.shards], self.starts, self.map)


class LabellingShards(ShardedAssigner):
    """The assigners of all shards as one; the final labels are those of all rows."""

    def __init__(self, shards, data):
        super().__init__(shards, data.map)
        self._data = data

    def labelled(self, centers):
        found = [shard.labelled(centers) for shard in self._shards]
        labels = np.concatenate([each.labels for each in found])
        pairs = zip(self._data.shards, found, strict=True)
        total = sum(
            exact_total(shard.rows.costs(centers, each.labels), shard.weight)
            for shard, each in pairs
        )
        return Labelled(to_float(total), np.bincount(labels, minlength=len(centers)), labels)


class LocalCosts(ShardedCosts):
    """The costs of the shards of this process."""

    @property
    def weighted(self):
        return any(shard.weighted for shard in self._shards)

    @property
    def has_filter(self):
        return all(shard.has_filter for shard in self._shards)

    def make_filter(self):
        for shard in self._shards:
            shard.make_filter()

    def set_exponent(self, exponent):
        self._totals = None
        for shard in self._shards:
            shard.set_exponent(exponent)

    def by_weight(self):
        return LocalCosts([shard.by_weight() for shard in self._shards], self.starts, self._map)
