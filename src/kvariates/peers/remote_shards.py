"""What a coordinator asks each peer about its rows, and how it checks the answers.

A method makes a call; `Coordinator.map` makes the calls of all peers and asks them at the same
time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kvariates.data.assigners import FarRows
from kvariates.data.cluster_sums import ExactStatistics, SumScale
from kvariates.data.exact_sums import LIMBS, ExactSums
from kvariates.data.row_costs import Proposal, ShardedCosts
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits, checked_array, checked_integers
from kvariates.peers.coordinator import Call, Coordinator, call, told
from kvariates.peers.questions import Answer, scale_numbers


class RemoteRows:
    """The rows of one peer. `take` shows rows to the coordinator."""

    def __init__(self, peer: str, limits: PeerLimits, d: int) -> None:
        self.peer, self.n, self._limits, self._d = peer, limits.n, limits, d

    def take(self, indices: I64) -> Call[F64]:
        shape = len(indices), self._d
        return call(
            "take", lambda answer: self._limits.points(answer["points"], shape), indices=indices
        )

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

    def spread(self) -> Call[float]:
        return call("spread", lambda answer: self._limits.cost(float(answer["spread"]), "spread"))


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
            costs, assigned = self._far_costs[self._far_costs >= least], self._assigned
            (k, d), m = assigned.exact_sums.limbs.shape[1::2], len(costs)
            points = self._limits.points(answer["points"], (m, d))
            labels = checked_array(answer["labels"], "its labels", (m,), np.int32)
            weights = checked_array(answer["weights"], "its weights", (m,), np.float64)
            said = checked_array(answer["costs"], "its far costs", (m,), np.float64)
            if not np.array_equal(said, costs):
                raise ValueError("the costs of its far rows are not those that it said before")
            if labels.min(initial=0) < 0 or labels.max(initial=0) >= k:
                raise ValueError(f"its labels should be from 0 to {k - 1}")
            self._limits.row_weights(weights)
            if (np.bincount(labels[weights > 0], minlength=k) > assigned.counts).any():
                raise ValueError("it has more far rows than rows in a cluster")
            return FarRows(points, weights, labels, said)

        return call("far_rows", read, count=count, least=least)


def _not_asked() -> int:
    raise ValueError("costs are not part of an assignment; ask for them with 'evaluate'")


# -- costs, for exact seedings: see `Costs` -------------------------------------------------------


class PeersCosts(ShardedCosts):
    """The costs of the rows of all peers that take part now.

    With `by_weight` all costs are one. That changes nothing at the peers: the exponent is part of
    the questions.
    """

    def __init__(
        self, coordinator: Coordinator, starts: list[int], *, by_weight: bool = False
    ) -> None:
        self._coordinator, self._by_weight = coordinator, by_weight
        peers, limits = coordinator.peers, coordinator.limits
        self._remote = [RemoteCosts(peer, limits(peer), by_weight) for peer in peers]
        shards: Any = self._remote
        super().__init__(shards, starts, coordinator.map_all)

    @property
    def has_filter(self) -> bool:
        return False  # copies of the rows would have to be made anew after a loss

    @property
    def weighted(self) -> bool:
        return any(peer.weighted for peer in self._coordinator.descriptions.values())

    def make_filter(self) -> None:
        """Do nothing."""

    def set_exponent(self, exponent: int) -> None:
        for shard in self._remote:
            shard.exponent, shard.last_total = exponent, None
        self._totals = None
        if not self._by_weight:
            self._coordinator.map_all(lambda shard: shard.set_exponent(), self._remote)

    def by_weight(self) -> PeersCosts:
        return PeersCosts(self._coordinator, self.starts, by_weight=True)


class RemoteCosts:
    """The costs of the rows of one peer."""

    def __init__(self, peer: str, limits: PeerLimits, by_weight: bool = False) -> None:
        self.peer, self._limits, self._by_weight = peer, limits, by_weight
        self.exponent = 0  # of the unit of sums
        self.last_total: int | None = None  # in this unit

    def largest(self) -> Call[float]:
        def read(answer: Answer) -> float:
            return self._limits.largest_term(answer["largest"], by_weight=self._by_weight)

        return call("largest", read, by_weight=self._by_weight)

    def set_exponent(self) -> Call[None]:
        return told("set_exponent", exponent=self.exponent)

    def _exponent_of_weights(self) -> int | None:
        return self.exponent if self._by_weight else None

    def _most(self) -> int:
        """The last total: costs only fall. Before it is known, the largest possible one."""
        return self._limits.most_units if self.last_total is None else self.last_total

    def total(self) -> Call[int]:
        return call("total", self._read_total, exponent=self._exponent_of_weights())

    def _read_total(self, answer: Answer) -> int:
        (total,) = checked_integers([answer["total"]], "its total", 1, self._most())
        exponent = self.exponent
        if self._by_weight:
            self._limits.total_weight(total, exponent)
        else:
            self._limits.total_cost(total, exponent)
        self.last_total = total
        return total

    def lower(self, centers: F64, first: int, limit: F64 | None) -> Call[None]:
        return told("lower", centers=centers, first=first, limit=limit)

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> Call[F64]:
        def read(answer: Answer) -> F64:
            shape = (len(candidates), 2)
            bounds: F64 = checked_array(answer["bounds"], "its bounds of gains", shape, np.float64)
            self._limits.gain_bounds(bounds, self._most(), self.exponent)
            return bounds

        return call("gain_bounds", read, candidates=candidates, limit=limit)

    def gains(self, candidates: F64, limit: F64 | None) -> Call[list[int]]:
        def read(answer: Answer) -> list[int]:
            return checked_integers(answer["gains"], "its gains", len(candidates), self._most())

        return call("gains", read, candidates=candidates, limit=limit)

    def lower_to(self, candidates: F64, best: int, name: int) -> Call[int]:
        asked = {"candidates": candidates, "best": best, "name": name}
        return call("lower_to", self._read_total, **asked)

    def propose(self, goal: int, pending: F64, first: int) -> Call[Proposal]:
        def read(answer: Answer) -> Proposal:
            (row,) = checked_integers([answer["row"]], "its row number", 1, self._limits.n - 1)
            bound, cost = float(answer["bound"]), float(answer["cost"])
            self._limits.row_costs(np.array([bound, cost]))
            if not 0 < bound >= cost or (cost < bound and not len(pending)):
                raise ValueError(f"its row had the cost {bound:g}, and now has {cost:g}")
            return Proposal(row, bound, cost)

        return call("propose", read, goal=goal, pending=pending, first=first)

    def rows_at(self, goals: list[int]) -> Call[I64]:
        def read(answer: Answer) -> I64:
            rows: I64 = checked_array(answer["rows"], "its row numbers", (len(goals),))
            self._limits.row_numbers(rows)
            return rows

        exponent = self._exponent_of_weights()
        return call("rows_at", read, goals=goals, exponent=exponent)

    def masses(self, k: int, exponent: int) -> Call[list[int]]:
        def read(answer: Answer) -> list[int]:
            masses = checked_integers(answer["masses"], "its masses", k, self._limits.most_units)
            self._limits.total_weight(sum(masses), exponent)
            return masses

        return call("masses", read, k=k, exponent=exponent)
