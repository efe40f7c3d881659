"""Dk-means++ and distributed coresets among peers, with every message counted.

Peers and the coordinator are objects of one process. Every two of them have a link of their own, so
a message crosses one link. A number takes 8 bytes, and headers are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.workloads import Array

from experiments.distributed_coreset import distributed_coreset
from kvariates.data.rows import F64, Rows
from kvariates.numerics.draws import draw_proportional
from kvariates.seeding.sampler import EuclideanPotential, SeedingProblem, sample_rows
from kvariates.summaries.weighted_points import SummaryOptions, WeightedPoints

BYTES = 8  # of a number


@dataclass(frozen=True)
class Traffic:
    """What was sent. `points`: the data points that left their peer, each counted once."""

    rounds: int = 0
    messages: int = 0
    numbers: int = 0
    points: int = 0

    @property
    def bytes(self) -> int:
        return BYTES * self.numbers

    def round(self, messages: int, numbers: int, points: int = 0) -> Traffic:
        """One more round, of messages that can all be on their way at the same time."""
        return Traffic(
            self.rounds + 1,
            self.messages + messages,
            self.numbers + numbers,
            self.points + points,
        )


@dataclass(frozen=True, eq=False)
class PeerRun:
    """The centres of one run, and what was sent for them; at the end every peer has the centres.

    `coreset`: the weighted points that the coordinator clustered, if there were any.
    """

    centers: F64
    traffic: Traffic
    coreset: WeightedPoints | None = None


def dk_means_plusplus(shards: Sequence[Array], k: int, rng: np.random.Generator) -> PeerRun:
    """Algorithm 1 of Nock et al. 2016; the first peer is drawn by its number of rows.

    The paper draws the first peer uniformly. But Algorithm 0, and so Theorem 4, draws it by rows.
    """
    n, d = len(shards), shards[0].shape[1]
    held = [Rows.of(shard) for shard in shards]
    potentials = [EuclideanPotential(rows, None, k) for rows in held]
    sent = Traffic().round(n, n)  # the numbers of rows
    for _ in range(k):
        totals = np.array([potential.total() for potential in potentials])
        chosen = int(draw_proportional(totals, 1, rng)[0])
        center = held[chosen].take(rng.integers(held[chosen].n, size=1))
        for potential in potentials:
            potential.add(center)
        sent = sent.round(1, 0).round(n - 1, (n - 1) * d, points=1).round(n, n)
    return PeerRun(potentials[0].centers, sent)


def clustered_coreset(
    shards: Sequence[Array], options: SummaryOptions, rng: np.random.Generator
) -> PeerRun:
    """Balcan et al. 2013: plain k-means++ on the coreset of all peers; all get the centres."""
    peers = [WeightedPoints.of(shard, None) for shard in shards]
    n, d, k = len(peers), shards[0].shape[1], options.k
    coreset = distributed_coreset(peers, options, rng)
    points = coreset.positive()
    centers = sample_rows(SeedingProblem(points.data, k, rng=rng)).centers
    sent = sum(peer.sent for peer in coreset.traffic) - n  # less the costs of the first round
    received = sum(peer.received for peer in coreset.traffic)
    shared = sum(peer.points for peer in coreset.traffic)
    traffic = Traffic().round(n, n).round(n, received).round(n, sent, shared).round(n, n * k * d)
    return PeerRun(centers, traffic, points)
