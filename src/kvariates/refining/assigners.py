"""Assigners: assign rows to their nearest centres and return statistics of the clusters.

An assigner is all that Lloyd's loop knows of the data. Rows in memory, shards of other assigners
and private data (`private_methods`) are assigners; so are divergences (`objectives`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kvariates.data.cluster_sums import ClusterSums
from kvariates.data.rows import F64, Labels, Rows, total_cost
from kvariates.data.scans import SCANS

Map = Callable[..., Iterable[Any]]


@dataclass(frozen=True, eq=False)
class Statistics:
    """What one assignment tells about each cluster. Valid until the next assignment.

    The value of a sum is ``sums + sums_rest``: the rest is its rounding error. `counts`
    are rows of positive weight; `changed` is the number of labels that changed, None if unknown.
    """

    sums: F64  # (k, d), weighted
    weights: F64  # (k,)
    counts: NDArray[np.int64]  # (k,)
    changed: int | None
    cost_of: Callable[[], float] = lambda: np.nan
    sums_rest: F64 | float = 0.0
    weights_rest: F64 | float = 0.0

    @cached_property
    def cost(self) -> float:
        """Weighted cost of all rows at the centres they were assigned to. Computed when read."""
        return self.cost_of()

    def __getstate__(self) -> dict[str, object]:
        """For another process: the cost as a number."""
        return {**self.__dict__, "cost": self.cost, "cost_of": None}

    @property
    def total_sums(self) -> F64:
        return np.asarray(self.sums + self.sums_rest)

    @property
    def total_weights(self) -> F64:
        return np.asarray(self.weights + self.weights_rest)


class FarRows(NamedTuple):
    """Rows far from their centres, farthest first."""

    points: F64
    weights: F64
    labels: Labels
    costs: F64


class Assigner(Protocol):
    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        """Assign every row to its nearest centre, ties to the lowest index.

        `moves`: the `squared_moves` since the last call, if the caller knows them.
        """


class ExactAssigner(Assigner, Protocol):
    """An assigner that may show rows, as moving empty clusters needs."""

    def farthest(self, count: int) -> FarRows:
        """The `count` rows (or all) that cost most at the last assignment."""


class InMemoryAssigner:
    """Rows in memory. Labels, bounds and running sums are kept between calls."""

    def __init__(self, rows: Rows, weight: F64 | None, k: int, algorithm: str = "auto") -> None:
        self._rows, self._weight = rows, weight
        self.labels: Labels = np.full(rows.n, -1, dtype=np.int32)
        self._scan = SCANS[algorithm](rows, k)
        self._sums = ClusterSums(rows, weight, k)
        self._centers: F64 | None = None  # of the last assignment

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        changed = self.relabel(centers, moves)
        sums = self._sums
        if changed:
            sums.update(self.labels, changed)
        return Statistics(
            sums.sums[0], sums.weights[0], sums.counts, changed, self.cost,
            sums.sums[1], sums.weights[1],
        )  # fmt: skip

    def relabel(self, centers: F64, moves: F64 | None = None) -> int:
        """Only bring the labels up to date; return how many changed."""
        if moves is None and self._centers is not None:
            moves = squared_moves(self._centers, centers)
        moved = None if self._centers is None or moves is None else upper_bounds(moves)
        self._centers = centers
        return self._scan.assign(centers, moved, self.labels, self._sums.changes)

    def cost(self) -> float:
        return total_cost(self._costs(), self._weight)

    def farthest(self, count: int) -> FarRows:
        cost = self._costs()
        if self._weight is not None:
            cost[self._weight == 0] = 0
        count = min(count, len(cost))
        far = np.argpartition(cost, -count)[-count:]
        far = far[np.argsort(-cost[far], kind="stable")]
        weights = np.ones(count) if self._weight is None else self._weight[far]
        self._sums.recompute_next()
        return FarRows(self._rows.take(far), weights, self.labels[far], cost[far])

    def _costs(self) -> F64:
        assert self._centers is not None  # noqa: S101
        return self._rows.costs(self._centers, self.labels)


class ShardedAssigner:
    """Several assigners as one; each holds a part of the rows.

    `map` applies a function to each shard and returns the answers in the order of the shards, as
    the built-in does; the shards may compute at the same time and finish in any order.
    """

    def __init__(self, shards: Sequence[ExactAssigner], map: Map = map) -> None:  # noqa: A002
        self._shards, self._map = shards, map

    def assign(self, centers: F64, moves: F64 | None = None) -> Statistics:
        parts: Iterable[Statistics] = self._map(lambda s: s.assign(centers, moves), self._shards)
        return reduce(_added, parts)

    def farthest(self, count: int) -> FarRows:
        parts: Iterable[FarRows] = self._map(lambda s: s.farthest(count), self._shards)
        whole: Any = FarRows(*map(np.concatenate, zip(*parts, strict=True)))
        far = np.argsort(-whole.costs, kind="stable")[:count]
        return FarRows(*(values[far] for values in whole))


def _added(a: Statistics, b: Statistics) -> Statistics:
    """The statistics of the rows of both."""
    sums, sums_error = _two_sum(a.sums, b.sums)
    weights, weights_error = _two_sum(a.weights, b.weights)
    changed = None if a.changed is None or b.changed is None else a.changed + b.changed
    return Statistics(
        sums, weights, a.counts + b.counts, changed,
        lambda: a.cost + b.cost,
        a.sums_rest + b.sums_rest + sums_error, a.weights_rest + b.weights_rest + weights_error,
    )  # fmt: skip


def _two_sum(a: F64, b: F64) -> tuple[F64, F64]:
    """The float sum of a and b, and its rounding error (Knuth)."""
    total = a + b
    rest = total - a
    return total, (a - (total - rest)) + (b - rest)


def fill_empty_clusters(statistics: Statistics, assigner: ExactAssigner) -> Statistics:
    """Give every empty cluster one of the rows that are farthest from their centres."""
    empty = np.flatnonzero(statistics.counts == 0)
    far = assigner.farthest(len(empty))
    sums, weights = statistics.sums.copy(), statistics.weights.copy()
    counts = statistics.counts.copy()
    for i, cluster in enumerate(empty[: len(far.costs)]):
        if far.costs[i] == 0:
            break  # only duplicates of centres are left
        x = far.points[i] * far.weights[i]
        for j, sign in ((far.labels[i], -1), (cluster, 1)):
            sums[j] += sign * x
            weights[j] += sign * far.weights[i]
            counts[j] += sign
    return replace(statistics, sums=sums, weights=weights, counts=counts)


def squared_moves(before: F64, after: F64) -> F64:
    """How far each centre moved, squared."""
    step = after - before
    squares: F64 = np.einsum("ij,ij->i", step, step)
    return squares


def upper_bounds(squares: F64) -> NDArray[np.float32]:
    """The roots of squared distances, rounded up to float32."""
    with np.errstate(over="ignore"):  # an infinite distance is a bound too
        roots = np.sqrt(squares).astype(np.float32)
    return np.nextafter(roots, np.float32(np.inf))
