"""The costs of the rows of peers, for exact seedings (see `Costs`)."""

from __future__ import annotations

import numpy as np

from kvariates.data.row_costs import Proposal
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64
from kvariates.peers.bounds import PeerLimits, checked_array, checked_integers
from kvariates.peers.coordinator import call
from kvariates.peers.questions import Answer
from kvariates.peers.remote_shards import Ask, RemoteShard


class RemoteCosts(RemoteShard):
    """The costs of the rows of one peer.

    With `by_weight` all costs are one. That changes nothing at the peer: the exponent is part of
    the questions.
    """

    quantized = False  # copies of the rows would have to be made anew after a loss

    def __init__(
        self, peer: str, ask: Ask, limits: PeerLimits, weighted: bool, by_weight: bool = False
    ) -> None:
        super().__init__(peer, ask)
        self._limits, self.weighted = limits, weighted
        self._real_ask, self._by_weight = ask, by_weight

    def quantize(self) -> None:
        """Do nothing."""

    def largest(self) -> float:
        def read(answer: Answer) -> float:
            return self._limits.largest_term(answer["largest"], by_weight=self._by_weight)

        found: float = self._ask(call("largest", read, by_weight=self._by_weight))
        return found

    def set_exponent(self, exponent: int) -> None:
        self._shared.clear()
        self._shared["exponent"] = exponent
        if self._by_weight:
            return None
        asked: None = self._ask(call("set_exponent", exponent=exponent))
        return asked

    def _exponent_of_weights(self) -> int | None:
        return self._shared["exponent"] if self._by_weight else None

    def _most(self) -> int:
        """The last total: costs only fall. Before it is known, the largest possible one."""
        found: int = self._shared.get("total", self._limits.most_units)
        return found

    def total(self) -> int:
        def read(answer: Answer) -> int:
            (total,) = checked_integers([answer["total"]], "its total", 1, self._most())
            exponent = self._shared["exponent"]
            if self._by_weight:
                self._limits.total_weight(total, exponent)
            else:
                self._limits.total_cost(total, exponent)
            self._shared["total"] = total
            return total

        asked = call("total", read, exponent=self._exponent_of_weights())
        found: int = self._ask(asked)
        return found

    def lower(self, centers: F64, first: int, limit: F64 | None) -> None:
        asked: None = self._ask(call("lower", centers=centers, first=first, limit=limit))
        return asked

    def gain_bounds(self, candidates: F64, limit: F64 | None) -> F64:
        def read(answer: Answer) -> F64:
            shape = (len(candidates), 2)
            bounds: F64 = checked_array(answer["bounds"], "its bounds of gains", shape, np.float64)
            self._limits.gain_bounds(bounds, self._most(), self._shared["exponent"])
            return bounds

        found: F64 = self._ask(call("gain_bounds", read, candidates=candidates, limit=limit))
        return found

    def gains(self, candidates: F64, limit: F64 | None) -> list[int]:
        def read(answer: Answer) -> list[int]:
            return checked_integers(answer["gains"], "its gains", len(candidates), self._most())

        found: list[int] = self._ask(call("gains", read, candidates=candidates, limit=limit))
        return found

    def lower_to(self, candidates: F64, best: int, name: int) -> None:
        asked: None = self._ask(call("lower_to", candidates=candidates, best=best, name=name))
        return asked

    def propose(self, goal: int, pending: F64, first: int) -> Proposal:
        def read(answer: Answer) -> Proposal:
            (row,) = checked_integers([answer["row"]], "its row number", 1, self._limits.n - 1)
            bound, cost = float(answer["bound"]), float(answer["cost"])
            self._limits.row_costs(np.array([bound, cost]))
            if not 0 < bound >= cost or (cost < bound and not len(pending)):
                raise ValueError(f"its row had the cost {bound:g}, and now has {cost:g}")
            return Proposal(row, bound, cost)

        found: Proposal = self._ask(call("propose", read, goal=goal, pending=pending, first=first))
        return found

    def rows_at(self, goals: list[int]) -> I64:
        def read(answer: Answer) -> I64:
            rows: I64 = checked_array(answer["rows"], "its row numbers", (len(goals),))
            self._limits.row_numbers(rows)
            return rows

        exponent = self._exponent_of_weights()
        found: I64 = self._ask(call("rows_at", read, goals=goals, exponent=exponent))
        return found

    def masses(self, k: int, exponent: int) -> list[int]:
        def read(answer: Answer) -> list[int]:
            masses = checked_integers(answer["masses"], "its masses", k, self._limits.most_units)
            self._limits.total_weight(sum(masses), exponent)
            return masses

        found: list[int] = self._ask(call("masses", read, k=k, exponent=exponent))
        return found

    def by_weight(self) -> RemoteCosts:
        return RemoteCosts(self.peer, self._real_ask, self._limits, self.weighted, by_weight=True)
