"""The costs of the rows of peers, for exact seedings (see `Costs`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvariates.data.row_costs import Proposal, ShardedCosts
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits, checked_array, checked_integers
from kvariates.peers.coordinator import Call, Coordinator, call
from kvariates.peers.questions import Answer


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
    def quantized(self) -> bool:
        return False  # copies of the rows would have to be made anew after a loss

    @property
    def weighted(self) -> bool:
        return any(peer.weighted for peer in self._coordinator.descriptions.values())

    def quantize(self) -> None:
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
        return call("set_exponent", exponent=self.exponent)

    def _exponent_of_weights(self) -> int | None:
        return self.exponent if self._by_weight else None

    def _most(self) -> int:
        """The last total: costs only fall. Before it is known, the largest possible one."""
        return self._limits.most_units if self.last_total is None else self.last_total

    def total(self) -> Call[int]:
        def read(answer: Answer) -> int:
            (total,) = checked_integers([answer["total"]], "its total", 1, self._most())
            exponent = self.exponent
            if self._by_weight:
                self._limits.total_weight(total, exponent)
            else:
                self._limits.total_cost(total, exponent)
            self.last_total = total
            return total

        return call("total", read, exponent=self._exponent_of_weights())

    def lower(self, centers: F64, first: int, limit: F64 | None) -> Call[None]:
        return call("lower", centers=centers, first=first, limit=limit)

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

    def lower_to(self, candidates: F64, best: int, name: int) -> Call[None]:
        return call("lower_to", candidates=candidates, best=best, name=name)

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
