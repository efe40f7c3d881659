"""The rows of peers as `Data`; and Dk-means++, in which peers draw.

| seeding | rows that the coordinator sees | law |
|---|---|---|
| "d2" | k | k-means++: the rows that are drawn in memory |
| "k-means++" | the candidates | greedy k-means++: the rows that are drawn in memory |
| "k-means||" | the candidates | k-means||: the rows that are drawn in memory |
| "dk-means++" | k, each drawn by its peer | Dk-means++ (Nock et al. 2016, Algorithm 1) |

In Dk-means++ the coordinator draws a peer in proportion to its potential, and the peer draws one of
its rows by weight. This is Algorithm 0 with the density that is uniform over a peer. The paper
draws the first peer uniformly; for that reduction it has to be drawn by weight, as here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import numpy as np

from kvariates.data.assigners import DataAssigner, Labelled
from kvariates.data.exact_sums import to_float
from kvariates.data.host_data import PASSES, PEERS, ROUNDS, Offers
from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import I64, draw_proportional
from kvariates.peers.coordinator import Call, Coordinator, PeerLost, ShardMissing, call
from kvariates.peers.masked_group import GroupAssigner, MaskedGroup
from kvariates.peers.questions import Answer
from kvariates.peers.remote_costs import PeersCosts
from kvariates.peers.remote_shards import PeersAssigner, PeersRows
from kvariates.seeding.sampler import AddedCenters, sample_step

T = TypeVar("T")


class PeersData:
    """The rows of the peers that take part. Each peer shows its own sums and costs.

    `shows_rows`: whether peers show rows to fill empty clusters.
    """

    offers: ClassVar[Offers] = PASSES | ROUNDS | PEERS
    summary: ClassVar[None] = None

    def __init__(self, coordinator: Coordinator, *, shows_rows: bool = True) -> None:
        self.coordinator, self.shows_rows = coordinator, shows_rows

    def rows(self) -> PeersRows:
        """The rows of the peers that take part now."""
        return PeersRows(self.coordinator)

    @property
    def n(self) -> int:
        return sum(peer.n for peer in self.coordinator.descriptions.values())

    @property
    def d(self) -> int:
        return next(iter(self.coordinator.descriptions.values())).d

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.rows().dtype

    def spread(self) -> float:
        return of_those_left(lambda: self.rows().spread())

    def take(self, indices: I64) -> F64:
        return self.rows().take(indices)

    def subset(self, indices: I64) -> Rows:
        return self.rows().subset(indices)

    def assigner(self, k: int, scan: Any = "auto") -> DataAssigner:
        return AssignerAtPeers(self)

    def costs(self) -> PeersCosts:
        self.coordinator.everyone(call("begin_costs"))
        return PeersCosts(self.coordinator, self.rows().starts)

    def drawn_by_peers(self, k: int, rng: np.random.Generator) -> F64:
        """The centres of Dk-means++."""
        return dk_means_plusplus(self.coordinator, k, rng)

    def spread_of_peers(self) -> float:
        """Theorem 4's spread: how far the rows of each peer are from their mean."""
        return of_those_left(lambda: spread_of_peers(self.coordinator))

    def end(self) -> None:
        """Do nothing."""


class SummedPeersData(PeersData):
    """The rows of peers of whose sums and costs only the totals are known (secure sums).

    No rows are shown for empty clusters.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        super().__init__(coordinator, shows_rows=False)
        self._group = MaskedGroup(coordinator)

    def rows(self) -> PeersRows:
        return self._group.rows()

    def spread(self) -> float:
        """As above, but no sum is asked a second time if a peer vanishes between the two questions.

        The difference of the two sums would be that of the peer.
        """
        mean = of_those_left(lambda: self.rows().mean())
        return of_those_left(lambda: self.rows().spread(mean))

    def spread_of_peers(self) -> float:
        """The total of the spreads that peers show otherwise, rounded once as there."""
        limits = self._group.limits

        def read(answer: Answer) -> float:
            return limits.cost(to_float(answer["spread"]), "spread")

        return of_those_left(lambda: self._group.ask(call("spread", read)))

    def assigner(self, k: int, scan: Any = "auto") -> DataAssigner:
        return AssignerOfSums(self, self._group)

    def end(self) -> None:
        """Let peers forget their keys."""
        self._group.end()


class AssignerAtPeers(PeersAssigner):
    """Labels stay with the peers."""

    def __init__(self, data: PeersData) -> None:
        super().__init__(data.coordinator, shows_rows=data.shows_rows)
        self._data = data

    def labelled(self, centers: F64) -> Labelled:
        return Labelled(of_those_left(lambda: self._data.rows().cost_at(centers)))


class AssignerOfSums(GroupAssigner):
    """Labels stay with the peers."""

    def __init__(self, data: SummedPeersData, group: MaskedGroup) -> None:
        super().__init__(group, data.coordinator)
        self._data = data

    def labelled(self, centers: F64) -> Labelled:
        return Labelled(of_those_left(lambda: self._data.rows().cost_at(centers)))


def of_those_left(ask: Callable[[], T]) -> T:
    """A statistic of all rows; if a peer is dropped, of those that are left."""
    while True:
        try:
            return ask()
        except ShardMissing:
            continue


class PeersPotential(AddedCenters):
    """The potential of every peer: a draw is the number of a peer, not of a row.

    A peer that fails is dropped, and its potential leaves the total. A peer that joins is asked
    before the next draw. `noisy`: whether peers add noise to their potentials, which then can grow.
    """

    weight = None

    def __init__(self, coordinator: Coordinator, k: int, *, noisy: bool = False) -> None:
        d = next(iter(coordinator.descriptions.values())).d
        super().__init__(np.empty((k, d)))
        self._coordinator, self._noisy = coordinator, noisy
        self._values: dict[str, float] = {}
        self._measured: int | None = None  # centres that the values belong to
        self.points = self  # a density asks the peer that was drawn

    def peer(self, number: int) -> str:
        return list(self._values)[number]

    def total(self) -> float:
        self.flush()
        return sum(self._values.values())

    def draw(self, rng: np.random.Generator) -> int:
        self.flush()
        values = np.array(list(self._values.values()))
        if not values.any():  # all rows are centres
            known = self._coordinator.descriptions
            values = np.array([known[peer].weight for peer in self._values])
        return int(draw_proportional(values, 1, rng)[0])

    def add_best(self, candidates: F64) -> int:
        raise TypeError("peers show no candidates; Dk-means++ draws one row a centre")

    def flush(self) -> None:
        """Ask every peer for its potential, if there are new centres or peers."""
        joined = self._coordinator.refresh()
        peers = joined if self._measured == self._known else self._coordinator.peers
        asked = {
            peer: self._asked(peer, 0 if peer in joined else self._measured or 0) for peer in peers
        }
        if asked:
            self._values |= self._coordinator.ask(asked)
        left = self._coordinator.descriptions
        self._values = {peer: value for peer, value in self._values.items() if peer in left}
        self._measured = self._known

    def _asked(self, peer: str, known: int) -> Call[float]:
        before, limits = self._values.get(peer, np.inf), self._coordinator.limits(peer)

        def read(answer: Answer) -> float:
            value = float(answer["potential"])
            if not self._known:  # no centre yet
                return limits.same_weight(value)
            limits.cost(value, "potential")
            if known and not self._noisy and value > before:
                raise ValueError(f"its potential has grown from {before:g} to {value:g}")
            return value

        return call("potential", read, centers=self.centers.copy(), known=known)


class DrawnByPeer:
    """The density of Dk-means++: the drawn peer draws one of its rows, by weight."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    def sample(
        self, points: PeersPotential, picked: I64, weight: F64 | None, rng: np.random.Generator
    ) -> F64:
        step, d = len(points.centers), points.centers.shape[1]
        peer = points.peer(int(picked[0]))
        limits = self._coordinator.limits(peer)
        asked = call("draw", lambda answer: limits.points(answer["points"], (1, d)), step=step)
        return self._coordinator.one(peer, asked)


def dk_means_plusplus(
    coordinator: Coordinator, k: int, rng: np.random.Generator, *, noisy: bool = False
) -> F64:
    """Draw k centres; a peer that fails is dropped, and another one is drawn.

    `noisy`: whether peers add noise to what they say (PDk-means++).
    """
    potential = PeersPotential(coordinator, k, noisy=noisy)
    density = DrawnByPeer(coordinator)
    while len(potential.centers) < k:
        before = len(coordinator.transcript.dropped)
        try:
            sample_step(potential, density, rng)
        except PeerLost:
            if len(coordinator.transcript.dropped) == before or not coordinator.peers:
                raise
    centers: F64 = potential.centers
    return centers


def spread_of_peers(coordinator: Coordinator) -> float:
    """Theorem 4's spread: how far the rows of each peer are from their mean."""

    def asked(peer: str) -> Call[float]:
        limits = coordinator.limits(peer)
        return call("spread", lambda answer: limits.cost(float(answer["spread"]), "spread"))

    spreads = coordinator.ask({peer: asked(peer) for peer in coordinator.peers})
    return math.fsum(spreads.values())
