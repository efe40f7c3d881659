"""The rows of peers as `Data`, the fit on them, and Dk-means++, in which peers draw.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import accumulate
from operator import add
from typing import Any, ClassVar, TypeVar

import numpy as np

from kvariates import guarantees
from kvariates.data.assigners import ExactAssigner, FarRows, Labelled
from kvariates.data.cluster_sums import ExactStatistics, SumScale
from kvariates.data.exact_sums import exponent_of, to_float
from kvariates.data.host_data import PASSES, PEERS, ROUNDS, Offers
from kvariates.data.rows import F64, OVERFLOW, WIDEST, Floats, Rows
from kvariates.fitting import NOBODY, FitOptions, Watch, fit_kmeans
from kvariates.guarantees import Guarantee
from kvariates.numerics.draws import I64, draw_proportional
from kvariates.objectives.objective import SquaredEuclidean
from kvariates.peers.coordinator import (
    AtPeer,
    Call,
    Coordinator,
    PeerLost,
    ShardMissing,
    call,
    told,
)
from kvariates.peers.questions import Answer
from kvariates.peers.remote_shards import PeersCosts, RemoteAssigner, RemoteRows
from kvariates.peers.transport import Transcript
from kvariates.seeding.sampler import Potential, sample_step
from kvariates.seeding.seedings import SEEDINGS

T = TypeVar("T")


class PeersData:
    """The rows of the peers that take part now, numbered one peer after the other.

    Each peer shows its own sums and costs. `shows_rows`: whether peers show rows to fill empty
    clusters.
    """

    offers: ClassVar[Offers] = PASSES | ROUNDS | PEERS
    summary: ClassVar[None] = None

    def __init__(self, coordinator: Coordinator, *, shows_rows: bool = True) -> None:
        self.coordinator, self.shows_rows = coordinator, shows_rows

    def _shards(self) -> list[RemoteRows]:
        known, limits = self.coordinator.descriptions, self.coordinator.limits
        return [RemoteRows(name, limits(name), peer.d) for name, peer in known.items()]

    def _gather(
        self, function: Callable[..., Call[T]], shards: Sequence[AtPeer], *more: Sequence[Any]
    ) -> list[T]:
        """Ask shards, all at the same time. ShardMissing if one of them cannot answer."""
        return self.coordinator.map_all(function, shards, *more)

    @property
    def n(self) -> int:
        return sum(peer.n for peer in self.coordinator.descriptions.values())

    @property
    def d(self) -> int:
        return next(iter(self.coordinator.descriptions.values())).d

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.result_type(*(peer.dtype for peer in self.coordinator.descriptions.values()))

    def canonical(self) -> None:
        """None: the rows are not at one place."""

    def spread(self) -> float:
        return of_those_left(lambda: self._spread_around(self._mean()))

    def _mean(self) -> F64:
        """Of all rows; weights do not count."""
        known = self.coordinator.descriptions.values()
        exponent = exponent_of(max(peer.scale.largest for peer in known))
        sums = self._gather(lambda shard: shard.column_sums(exponent), self._shards())
        return np.asarray(reduce(add, sums).values / self.n)

    def _spread_around(self, center: F64) -> float:
        spread = self.cost_at(center, weighted=False) / (self.n * self.d)
        if not spread < WIDEST:
            raise ValueError(OVERFLOW)
        return spread

    def cost_at(self, centers: F64, *, weighted: bool = True) -> float:
        """The cost of all rows at their nearest centres."""
        costs = self._gather(lambda shard: shard.cost_at(centers, weighted), self._shards())
        return to_float(sum(costs))

    def take(self, indices: I64) -> F64:
        """Show rows to the coordinator."""
        shards, starts = self._shards(), self._starts()
        owner = np.searchsorted(starts, indices, side="right") - 1
        owners = np.unique(owner).tolist()
        wanted = [indices[owner == s] - starts[s] for s in owners]
        parts = self._gather(RemoteRows.take, [shards[s] for s in owners], wanted)
        taken = np.empty((len(indices), self.d))
        for s, part in zip(owners, parts, strict=True):
            taken[owner == s] = part
        return taken

    def _starts(self) -> list[int]:
        """The number of the first row of each peer."""
        return list(accumulate((shard.n for shard in self._shards()), initial=0))[:-1]

    def subset(self, indices: I64) -> Rows:
        return Rows.of(self.take(indices).astype(self.dtype))

    def assigner(self, k: int, scan: Any = "auto") -> ExactAssigner:
        return PeersAssigner(self)

    def costs(self) -> PeersCosts:
        self.coordinator.everyone(told("begin_costs"))
        return PeersCosts(self.coordinator, self._starts())

    def drawn_by_peers(self, k: int, rng: np.random.Generator) -> F64:
        """The centres of Dk-means++."""
        return dk_means_plusplus(self.coordinator, k, rng)

    def spread_of_peers(self) -> float:
        """Theorem 4's spread: how far the rows of each peer are from their mean."""
        spreads: list[float] = self.coordinator.map(lambda shard: shard.spread(), self._shards())
        return math.fsum(spreads)

    def end(self) -> None:
        """Do nothing."""


class PeersAssigner:
    """The rows of all peers as one assigner. Labels stay with the peers.

    To fill empty clusters, costs are asked for first, so that only rows that become centres are
    shown, or rows of the same cost.
    """

    def __init__(self, data: PeersData) -> None:
        self._data, self._coordinator = data, data.coordinator
        self._remote: list[RemoteAssigner] = []
        self._add_peers(self._coordinator.peers)

    def _add_peers(self, peers: list[str]) -> None:
        known, limits = self._coordinator.descriptions, self._coordinator.limits
        self._remote += [RemoteAssigner(p, known[p].scale, limits(p)) for p in peers]
        self.scale = reduce(SumScale.joined, (shard.scale for shard in self._remote))
        for shard in self._remote:
            shard.scale = self.scale

    def assign(self, centers: F64, moves: F64 | None = None) -> ExactStatistics:
        """Assign the rows of all peers that take part now, also those that have joined."""
        if joined := self._coordinator.refresh():
            self._add_peers(joined)
        found: list[ExactStatistics]
        found = self._coordinator.map(lambda shard: shard.assign(centers), self._remote)
        return reduce(add, found)

    def farthest(self, count: int) -> FarRows:
        if not self._data.shows_rows:
            return no_rows(self._data.d)
        ask = self._coordinator.map
        costs = np.concatenate(ask(lambda shard: shard.far_costs(count), self._remote))
        least = float(np.sort(costs)[::-1][:count][-1])
        far = ask(lambda shard: shard.far_rows(count, least), self._remote)
        return FarRows.joined(far).first(count)

    def labelled(self, centers: F64) -> Labelled:
        return Labelled(of_those_left(lambda: self._data.cost_at(centers)))


def no_rows(d: int) -> FarRows:
    """What peers show that show no rows."""
    return FarRows(np.empty((0, d)), np.empty(0), np.empty(0, np.int32), np.empty(0))


def of_those_left(ask: Callable[[], T]) -> T:
    """A statistic of all rows; if a peer is dropped, of those that are left."""
    while True:
        try:
            return ask()
        except ShardMissing:
            continue


# -- the fit ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PeersResult:
    """Centres in the rows' dtype, the cost of these rounded centres, and what was sent.

    `spread`: that of Theorem 4; None if the seeding was another one.
    """

    centers: Floats
    inertia: float
    n_iter: int
    converged: bool
    spread: float | None
    transcript: Transcript


def fit_peers(
    data: PeersData, objective: SquaredEuclidean, options: FitOptions, rng: np.random.Generator,
    watch: Watch = NOBODY,
) -> PeersResult:  # fmt: skip
    """Seed and refine. Pre: the rows of the peers are in the objective's coordinates."""
    by_peers = isinstance(options.init, str) and options.init == "dk-means++"
    spread = data.spread_of_peers() if by_peers else None
    end = fit_kmeans(data, objective, options, rng, watch)
    data.end()
    sent = data.coordinator.transcript
    return PeersResult(end.centers, end.inertia, end.n_iter, end.converged, spread, sent)


def guarantee_of(init: object, k: int, result: PeersResult) -> Guarantee | str:
    """The guarantee of the seeding, or why it is lost."""
    if not isinstance(init, str):
        return "the first centres were given."
    if result.transcript.dropped:
        names = ", ".join(dropped.peer for dropped in result.transcript.dropped)
        return f"peers were dropped, and their rows are not in the result: {names}."
    if result.transcript.joined:
        names = ", ".join(result.transcript.joined)
        return f"peers joined after the beginning, and were not part of all draws: {names}."
    entry = SEEDINGS[init]
    if entry.lost is not None:
        return entry.lost
    if init == "dk-means++":
        return guarantees.theorem_4(k, opt=None, spread=result.spread)
    return guarantees.plain_seeding(k, certifiable=False)


# -- Dk-means++ ------------------------------------------------------------------------------------


class PeersPotential(Potential):
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
