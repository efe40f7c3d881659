"""The rows of peers, as the loops want them: `ExactAssigner`, `ShardedRows`.

A method of a remote shard asks its peer one question. `recording()` gives the same shard whose
methods return the question instead; `Coordinator.map` collects those of all shards and asks them at
the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from itertools import accumulate
from operator import add
from typing import Any

import numpy as np

from kvariates.data.assigners import ExactStatistics, FarRows, Map, ShardedAssigner
from kvariates.data.cluster_sums import SumScale
from kvariates.data.exact_sums import LIMBS, ExactSums, exponent_of, to_float
from kvariates.data.rows import F64, OVERFLOW, WIDEST, Rows
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits, checked_array
from kvariates.peers.coordinator import Call, Coordinator, call
from kvariates.peers.questions import Answer, scale_numbers

Ask = Callable[[Call], Any]


class RemoteShard:
    """The rows of one peer."""

    def __init__(self, peer: str, ask: Ask) -> None:
        self.peer, self._ask = peer, ask
        self._shared: dict[str, Any] = {}  # with `recording`

    def recording(self) -> Any:
        """The same shard, whose methods return questions instead of asking them."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _ask=lambda asked: asked)
        return copy


class RemoteRows(RemoteShard):
    """The rows of one peer. `take` shows rows to the coordinator."""

    def __init__(self, peer: str, ask: Ask, limits: PeerLimits, d: int) -> None:
        super().__init__(peer, ask)
        self.n, self._limits, self._d = limits.n, limits, d

    def take(self, indices: I64) -> F64:
        def read(answer: Answer) -> F64:
            return self._limits.points(answer["points"], (len(indices), self._d))

        found: F64 = self._ask(call("take", read, indices=indices))
        return found

    def column_sums(self, exponent: int) -> ExactSums:
        def read(answer: Answer) -> ExactSums:
            limbs = checked_array(answer["limbs"], "sums", (1, 1, LIMBS, self._d))
            found = ExactSums(self._limits.limbs(limbs, "sums"), exponent)
            limits = PeerLimits(self.n, self.n, self._limits.bounds)  # rows count, not weights
            limits.sums(found.values, np.array([float(self.n)]))
            return found

        found: ExactSums = self._ask(call("column_sums", read, exponent=exponent))
        return found

    def cost_at(self, centers: F64, weighted: bool) -> int:
        limits = self._limits
        if not weighted:
            limits = PeerLimits(self.n, self.n, limits.bounds)

        def read(answer: Answer) -> int:
            return limits.exact_cost(answer["cost"])

        asked = call("evaluate", read, centers=centers, weighted=weighted)
        found: int = self._ask(asked)
        return found


class PeersRows:
    """The rows of all peers, numbered one peer after the other.

    `together`: all peers as one shard, whose rows cannot be taken. None: each peer is one.
    """

    def __init__(self, coordinator: Coordinator, together: RemoteRows | None = None) -> None:
        known = coordinator.descriptions
        self._map: Map = coordinator.map_all if together is None else map
        self.shards = [together] if together is not None else [
            RemoteRows(
                peer, partial(coordinator.one, peer), coordinator.limits(peer), known[peer].d
            )
            for peer in known
        ]  # fmt: skip
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
        parts = self._map(
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
        sums: ExactSums = reduce(
            add, self._map(lambda shard: shard.column_sums(exponent), self.shards)
        )
        return np.asarray(sums.values / self.n)

    def spread(self, mean: F64 | None = None) -> float:
        """As `joint_spread`, of the rows of all peers; around another point than their mean."""
        center = self.mean() if mean is None else mean
        spread = self.cost_at(center, weighted=False) / (self.n * self.d)
        if not spread < WIDEST:
            raise ValueError(OVERFLOW)
        return spread

    def cost_at(self, centers: F64, *, weighted: bool = True) -> float:
        """The cost of all rows at their nearest centres."""
        return to_float(sum(self._map(lambda shard: shard.cost_at(centers, weighted), self.shards)))


class RemoteAssigner(RemoteShard):
    """Assigns the rows of one peer (see `ExactAssigner`)."""

    def __init__(self, peer: str, ask: Ask, scale: SumScale, limits: PeerLimits) -> None:
        super().__init__(peer, ask)
        self._limits = limits
        self.set_scale(scale)

    @property
    def scale(self) -> SumScale:
        scale: SumScale = self._shared["scale"]
        return scale

    def set_scale(self, scale: SumScale) -> None:
        self._shared["scale"] = scale

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
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
            self._shared["assigned"] = found
            return found

        asked = call("assign", read, centers=centers, scale=scale_numbers(self.scale))
        found: ExactStatistics = self._ask(asked)
        return found

    def far_costs(self, count: int) -> F64:
        def read(answer: Answer) -> F64:
            shape = (min(count, self._limits.n),)
            costs: F64 = checked_array(answer["costs"], "its far costs", shape, np.float64)
            self._limits.row_costs(costs)
            self._shared["far_costs"] = costs
            return costs

        found: F64 = self._ask(call("far_costs", read, count=count))
        return found

    def far_rows(self, count: int, least: float) -> FarRows:
        """Those of the last `far_costs` that cost at least so much."""

        def read(answer: Answer) -> FarRows:
            costs = self._shared["far_costs"]
            return _checked_far_rows(
                answer, costs[costs >= least], self._shared["assigned"], self._limits
            )

        found: FarRows = self._ask(call("far_rows", read, count=count, least=least))
        return found


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


class PeersAssigner(ShardedAssigner):
    """The rows of all peers as one assigner.

    `shows_rows`: whether peers show rows to fill empty clusters. Costs are asked for first, so that
    only rows that become centres are shown, or rows of the same cost.
    """

    def __init__(self, coordinator: Coordinator, *, shows_rows: bool = True) -> None:
        self._coordinator, self._shows_rows = coordinator, shows_rows
        self._remote: list[RemoteAssigner] = []
        self._add_peers(coordinator.peers)
        shards: Any = self._remote  # `farthest` is asked in two questions, of all peers
        super().__init__(shards, coordinator.map)

    def _add_peers(self, peers: list[str]) -> None:
        known, one = self._coordinator.descriptions, self._coordinator.one
        self._remote += [
            RemoteAssigner(p, partial(one, p), known[p].scale, self._coordinator.limits(p))
            for p in peers
        ]

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        """Assign the rows of all peers that take part now, also those that have joined."""
        if joined := self._coordinator.refresh():
            self._add_peers(joined)
            self.set_scale(reduce(SumScale.joined, (shard.scale for shard in self._remote)))
        return super().assign(centers, moves)

    def farthest(self, count: int) -> FarRows:
        if not self._shows_rows:
            return no_rows(next(iter(self._coordinator.descriptions.values())).d)
        costs = np.concatenate(list(self._map(lambda shard: shard.far_costs(count), self._remote)))
        least = float(np.sort(costs)[::-1][:count][-1])
        parts = self._map(lambda shard: shard.far_rows(count, least), self._remote)
        return FarRows.joined(parts).first(count)
