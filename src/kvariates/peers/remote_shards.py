"""The rows of peers, as the loops want them: `ExactAssigner`, `ShardedRows`.

A method of a remote shard makes a call; `Coordinator.map` makes the calls of all shards and asks
them at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Protocol, TypeVar

import numpy as np

from kvariates.data.assigners import FarRows
from kvariates.data.cluster_sums import ExactStatistics, SumScale
from kvariates.data.exact_sums import LIMBS, ExactSums, exponent_of, to_float
from kvariates.data.rows import F64, OVERFLOW, WIDEST, Rows
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits, checked_array
from kvariates.peers.coordinator import AtPeer, Call, Coordinator, call
from kvariates.peers.questions import Answer, scale_numbers

S = TypeVar("S", bound=AtPeer)
T = TypeVar("T")


class Gather(Protocol):
    """Asks shards, all at the same time. ShardMissing if one of them cannot answer."""

    def __call__(self, function: Callable[[S], Call[T]], shards: Sequence[S]) -> list[T]: ...


class RemoteRows:
    """The rows of one peer. `take` shows rows to the coordinator."""

    def __init__(self, peer: str, limits: PeerLimits, d: int) -> None:
        self.peer, self.n, self._limits, self._d = peer, limits.n, limits, d

    def take(self, indices: I64) -> Call[F64]:
        def read(answer: Answer) -> F64:
            return self._limits.points(answer["points"], (len(indices), self._d))

        return call("take", read, indices=indices)

    def column_sums(self, exponent: int) -> Call[ExactSums]:
        def read(answer: Answer) -> ExactSums:
            limbs = checked_array(answer["limbs"], "sums", (1, 1, LIMBS, self._d))
            found = ExactSums(self._limits.limbs(limbs, "sums"), exponent)
            limits = PeerLimits(self.n, self.n, self._limits.bounds)  # rows count, not weights
            limits.sums(found.values, np.array([float(self.n)]))
            return found

        return call("column_sums", read, exponent=exponent)

    def cost_at(self, centers: F64, weighted: bool) -> Call[int]:
        limits = self._limits
        if not weighted:
            limits = PeerLimits(self.n, self.n, limits.bounds)
        return call(
            "evaluate", lambda answer: limits.exact_cost(answer["cost"]),
            centers=centers, weighted=weighted,
        )  # fmt: skip


class PeersRows:
    """The rows of all peers, numbered one peer after the other.

    `together`: all peers as one shard, whose rows cannot be taken, and how it is asked. None: each
    peer is a shard.
    """

    def __init__(
        self, coordinator: Coordinator, together: tuple[RemoteRows, Gather] | None = None
    ) -> None:
        known = coordinator.descriptions
        self._gather: Gather = coordinator.map_all
        self.shards = [RemoteRows(p, coordinator.limits(p), known[p].d) for p in known]
        if together is not None:
            self.shards, self._gather = [together[0]], together[1]
        self.starts = list(accumulate((shard.n for shard in self.shards), initial=0))
        self.n = self.starts.pop()
        self.d = next(iter(known.values())).d
        self.dtype = np.result_type(*(peer.dtype for peer in known.values()))
        self.largest = max(peer.scale.largest for peer in known.values())

    def take(self, indices: I64) -> F64:
        """Show rows to the coordinator."""
        owner = np.searchsorted(self.starts, indices, side="right") - 1
        owners = np.unique(owner).tolist()
        wanted = {self.shards[s].peer: indices[owner == s] - self.starts[s] for s in owners}
        parts = self._gather(
            lambda shard: shard.take(wanted[shard.peer]), [self.shards[s] for s in owners]
        )
        taken = np.empty((len(indices), self.d))
        for s, part in zip(owners, parts, strict=True):
            taken[owner == s] = part
        return taken

    def subset(self, indices: I64) -> Rows:
        return Rows.of(self.take(indices).astype(self.dtype))

    def mean(self) -> F64:
        """Of all rows; weights do not count."""
        exponent = exponent_of(self.largest)
        sums = reduce(add, self._gather(lambda shard: shard.column_sums(exponent), self.shards))
        return np.asarray(sums.values / self.n)

    def spread(self, mean: F64 | None = None) -> float:
        """As `Rows.spread`, of the rows of all peers; around another point than their mean."""
        center = self.mean() if mean is None else mean
        spread = self.cost_at(center, weighted=False) / (self.n * self.d)
        if not spread < WIDEST:
            raise ValueError(OVERFLOW)
        return spread

    def cost_at(self, centers: F64, *, weighted: bool = True) -> float:
        """The cost of all rows at their nearest centres."""
        costs = self._gather(lambda shard: shard.cost_at(centers, weighted), self.shards)
        return to_float(sum(costs))


class RemoteAssigner:
    """Assigns the rows of one peer (see `ExactAssigner`)."""

    def __init__(self, peer: str, scale: SumScale, limits: PeerLimits) -> None:
        self.peer, self.scale, self._limits = peer, scale, limits
        self._assigned: ExactStatistics
        self._far_costs: F64

    def assign(self, centers: F64) -> Call[ExactStatistics]:
        shape = (self.scale.levels, len(centers), LIMBS, centers.shape[1])
        of_sums, of_weights = self.scale.exponents

        def read(answer: Answer) -> ExactStatistics:
            counts = checked_array(answer["counts"], "counts", shape[1:2])
            of_limbs, limits = self._limits.limbs, self._limits
            limbs = of_limbs(checked_array(answer["sums"], "sums", shape), "sums")
            heavy = of_limbs(
                checked_array(answer["weights"], "weights", (1, *shape[1:3], 1)), "weights"
            )
            sums, weights = ExactSums(limbs, of_sums), ExactSums(heavy, of_weights)
            limits.counts(counts, answer["changed"])
            limits.sums(sums.values, weights.values[:, 0], of_weights)
            found = ExactStatistics(sums, weights, counts, answer["changed"], cost_of=_not_asked)
            self._assigned = found
            return found

        return call("assign", read, centers=centers, scale=scale_numbers(self.scale))

    def far_costs(self, count: int) -> Call[F64]:
        def read(answer: Answer) -> F64:
            shape = (min(count, self._limits.n),)
            costs: F64 = checked_array(answer["costs"], "its far costs", shape, np.float64)
            self._limits.row_costs(costs)
            self._far_costs = costs
            return costs

        return call("far_costs", read, count=count)

    def far_rows(self, count: int, least: float) -> Call[FarRows]:
        """Those of the last `far_costs` that cost at least so much."""

        def read(answer: Answer) -> FarRows:
            costs = self._far_costs[self._far_costs >= least]
            return _checked_far_rows(answer, costs, self._assigned, self._limits)

        return call("far_rows", read, count=count, least=least)


def _checked_far_rows(
    answer: Answer, costs: F64, assigned: ExactStatistics, limits: PeerLimits
) -> FarRows:
    """Far rows of these costs, which the clusters of the last assignment can hold."""
    (k, d), m = assigned.exact_sums.limbs.shape[1::2], len(costs)
    points = limits.points(answer["points"], (m, d))
    labels = checked_array(answer["labels"], "its labels", (m,), np.int32)
    weights = checked_array(answer["weights"], "its weights", (m,), np.float64)
    said = checked_array(answer["costs"], "its far costs", (m,), np.float64)
    if not np.array_equal(said, costs):
        raise ValueError("the costs of its far rows are not those that it said before")
    if labels.min(initial=0) < 0 or labels.max(initial=0) >= k:
        raise ValueError(f"its labels should be from 0 to {k - 1}")
    limits.row_weights(weights)
    if (np.bincount(labels[weights > 0], minlength=k) > assigned.counts).any():
        raise ValueError("it has more far rows than rows in a cluster")
    return FarRows(points, weights, labels, said)


def no_rows(d: int) -> FarRows:
    """What peers show that show no rows."""
    return FarRows(np.empty((0, d)), np.empty(0), np.empty(0, np.int32), np.empty(0))


def _not_asked() -> int:
    raise ValueError("costs are not part of an assignment; ask for them with 'evaluate'")


class PeersAssigner:
    """The rows of all peers as one assigner.

    `shows_rows`: whether peers show rows to fill empty clusters. Costs are asked for first, so that
    only rows that become centres are shown, or rows of the same cost.
    """

    def __init__(self, coordinator: Coordinator, *, shows_rows: bool = True) -> None:
        self._coordinator, self._shows_rows = coordinator, shows_rows
        self._remote: list[RemoteAssigner] = []
        self._add_peers(coordinator.peers)

    def _add_peers(self, peers: list[str]) -> None:
        known, limits = self._coordinator.descriptions, self._coordinator.limits
        self._remote += [RemoteAssigner(p, known[p].scale, limits(p)) for p in peers]
        self.set_scale(reduce(SumScale.joined, (shard.scale for shard in self._remote)))

    def set_scale(self, scale: SumScale) -> None:
        self.scale = scale
        for shard in self._remote:
            shard.scale = scale

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        """Assign the rows of all peers that take part now, also those that have joined."""
        if joined := self._coordinator.refresh():
            self._add_peers(joined)
        return reduce(add, self._coordinator.map(lambda shard: shard.assign(centers), self._remote))

    def farthest(self, count: int) -> FarRows:
        if not self._shows_rows:
            return no_rows(next(iter(self._coordinator.descriptions.values())).d)
        ask = self._coordinator.map
        costs = np.concatenate(ask(lambda shard: shard.far_costs(count), self._remote))
        least = float(np.sort(costs)[::-1][:count][-1])
        return FarRows.joined(ask(lambda shard: shard.far_rows(count, least), self._remote)).first(
            count
        )
