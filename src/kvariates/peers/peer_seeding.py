"""Seedings over peers.

| name | rows that the coordinator sees | law |
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
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kvariates.data.row_costs import ShardedCosts
from kvariates.data.rows import F64
from kvariates.numerics.draws import I64, draw_proportional
from kvariates.peers.coordinator import Call, Coordinator, PeerLost, call
from kvariates.peers.questions import Answer
from kvariates.peers.remote_costs import RemoteCosts
from kvariates.peers.remote_shards import PeersRows
from kvariates.seeding.densities import Dirac
from kvariates.seeding.euclidean_potential import EuclideanPotential
from kvariates.seeding.kmeans_parallel import OVERSAMPLING, ROUNDS, choose_rows
from kvariates.seeding.sampler import AddedCenters, greedy_trials, sample, sample_step
from kvariates.seeding.seedings import SEEDINGS
from kvariates.tables import Entry, Table


def peers_potential(coordinator: Coordinator, k: int) -> EuclideanPotential[PeersRows]:
    """The exact potential of the rows of all peers, with room for k centres."""
    rows = PeersRows(coordinator)
    weighted = any(peer.weighted for peer in coordinator.descriptions.values())
    shards = [
        RemoteCosts(peer, partial(coordinator.one, peer), coordinator.limits(peer), weighted)
        for peer in coordinator.peers
    ]
    coordinator.everyone(call("begin_costs"))
    costs = ShardedCosts(shards, rows.starts, coordinator.map_all)
    return EuclideanPotential(rows, None, k, costs=costs)


def exact_plusplus(
    coordinator: Coordinator, k: int, rng: np.random.Generator, *, greedy: bool
) -> F64:
    """The rows that k-means++ draws in memory, for the same order of the rows."""
    trials = greedy_trials(k) if greedy else 1
    centers: F64 = sample(peers_potential(coordinator, k), Dirac(), k, rng, trials=trials).centers
    return centers


def kmeans_parallel_peers(coordinator: Coordinator, k: int, rng: np.random.Generator) -> F64:
    """The rows that k-means|| draws in memory, for the same order of the rows."""
    sizes = rng.poisson(OVERSAMPLING * k, size=ROUNDS)
    chosen = choose_rows(lambda room: peers_potential(coordinator, room), sizes, k, rng)
    return PeersRows(coordinator).take(chosen)


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

    def _asked(self, peer: str, known: int) -> Any:
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
        found: F64 = self._coordinator.one(peer, asked)
        return found


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

    def asked(peer: str) -> Call:
        limits = coordinator.limits(peer)
        return call("spread", lambda answer: limits.cost(float(answer["spread"]), "spread"))

    spreads: dict[str, float] = coordinator.ask({peer: asked(peer) for peer in coordinator.peers})
    return math.fsum(spreads.values())


@dataclass(frozen=True, eq=False)
class PeersSeeding:
    """What a seeding over peers is given."""

    coordinator: Coordinator
    k: int
    rng: np.random.Generator


PEER_SEEDINGS: Table[Callable[[PeersSeeding], F64]] = Table(
    "init",
    {
        "d2": Entry(
            lambda s: exact_plusplus(s.coordinator, s.k, s.rng, greedy=False),
            "Plain k-means++ over the rows of all peers: one draw for each centre.",
            theorem="Theorem 2",
        ),
        "k-means++": Entry(
            lambda s: exact_plusplus(s.coordinator, s.k, s.rng, greedy=True),
            "Greedy k-means++ over the rows of all peers. The coordinator sees all candidates.",
            lost=SEEDINGS["k-means++"].lost,
        ),
        "k-means||": Entry(
            lambda s: kmeans_parallel_peers(s.coordinator, s.k, s.rng),
            "Draws many rows in few rounds, and then k of them. The coordinator sees all "
            "candidates.",
            lost=SEEDINGS["k-means||"].lost,
        ),
        "dk-means++": Entry(
            lambda s: dk_means_plusplus(s.coordinator, s.k, s.rng),
            "Draws a peer by its potential, and a row of this peer uniformly. Peers show k rows "
            "in all, and their potentials.",
            theorem="Theorem 4",
        ),
    },
)
