"""A potential made of potentials: the rows of each shard stay where they are.

A shard is drawn by its total, then a row inside it. Totals, gains and masses are sums of the
shards' answers, added in the order of the shards, and each shard draws from a generator of its own.
So it does not matter who computes an answer, or which answer comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from kvariates.numerics.draws import F64, I64, draw_proportional
from kvariates.refining.assigners import Map
from kvariates.seeding.sampler import RowPotential, TakesRows

Answer = TypeVar("Answer")


class ShardedRows:
    """The rows of all shards, numbered one shard after the other."""

    def __init__(self, shards: Sequence[TakesRows]) -> None:
        self.shards = shards
        self.starts = np.cumsum([0, *(shard.n for shard in shards)])
        self.n, self.d = int(self.starts[-1]), shards[0].d

    def take(self, indices: I64) -> F64:
        taken = np.empty((len(indices), self.d))
        owner = np.searchsorted(self.starts, indices, side="right") - 1
        for s in np.unique(owner):
            taken[owner == s] = self.shards[s].take(indices[owner == s] - self.starts[s])
        return taken


class ShardedPotential:
    """Several potentials as one; each holds a part of the rows. `map`: as in `ShardedAssigner`.

    Pre: no shard has a centre yet; all shards have weights or none has.
    """

    def __init__(self, shards: Sequence[RowPotential], map: Map = map) -> None:  # noqa: A002
        self.points = ShardedRows([shard.points for shard in shards])
        self._shards, self._map = shards, map
        self._weights = self._totals()

    @property
    def weight(self) -> F64 | None:
        weights = [shard.weight for shard in self._shards if shard.weight is not None]
        return np.concatenate(weights) if weights else None

    @property
    def centers(self) -> F64:
        return self._shards[0].centers

    def add(self, centers: F64) -> None:
        self._answers(lambda shard: shard.add(centers))

    def add_best(self, candidates: F64) -> int:
        best = int(np.argmax(self.gains(candidates)))
        self.add(candidates[best : best + 1])
        return best

    def flush(self) -> None:
        self._answers(lambda shard: shard.flush())

    def total(self) -> float:
        return float(self._totals().sum())

    def gains(self, candidates: F64) -> F64:
        gains: F64 = np.sum(self._answers(lambda shard: shard.gains(candidates)), axis=0)
        return gains

    def masses(self) -> F64:
        masses: F64 = np.sum(self._answers(lambda shard: shard.masses()), axis=0)
        return masses

    def draw(self, rng: np.random.Generator) -> int:
        s = int(draw_proportional(self._shares(), 1, rng)[0])
        return int(self.points.starts[s]) + self._shards[s].draw(_spawn(rng))

    def draw_many(self, size: int, rng: np.random.Generator) -> I64:
        shards = draw_proportional(self._shares(), size, rng)
        sizes = np.bincount(shards, minlength=len(self._shards)).tolist()
        own = [_spawn(rng) for _ in self._shards]
        parts = self._map(lambda s, *how: s.draw_many(*how), self._shards, sizes, own)
        return np.concatenate(
            [start + part for start, part in zip(self.points.starts, parts, strict=False)]
        )

    def _answers(self, ask: Callable[[RowPotential], Answer]) -> list[Answer]:
        return list(self._map(ask, self._shards))

    def _totals(self) -> F64:
        return np.array(self._answers(lambda shard: shard.total()))

    def _shares(self) -> F64:
        totals = self._totals()
        return totals if totals.any() else self._weights


def _spawn(rng: np.random.Generator) -> np.random.Generator:
    """A new generator that one number of `rng` decides."""
    return np.random.default_rng(rng.integers(2**63))
