"""Distributed coresets for k-means (Balcan, Ehrlich and Liang 2013): two rounds among peers.

    round 1  each peer draws k of its rows by D^2 and reports the cost of its rows at them
    round 2  the coordinator divides `size` draws among the peers in proportion to their costs
             each peer draws rows in proportion to weight * cost, and sends them and its centres
             a drawn row has the weight  (cost of all peers) / (size * its own cost)
             a centre has what is left of the weight of its cluster

A drawn row has its true weight on average, and a centre that of the rows equal to it. So the cost
of any centres is estimated without bias, and the total weight is exact. A peer gets the whole part
of its share of the draws, or one more, so that it gets its share on average.

The weight left for a centre is negative in about half of all clusters. The paper does not say how
to cluster such points. `DistributedCoreset.positive` scales the draws of such a cluster down to the
weight of the cluster, which costs a small bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kvariates.data.rows import F64
from kvariates.numerics.draws import I64, draw_proportional
from kvariates.seeding.sampler import Dirac, euclidean_potential, sample
from kvariates.summaries.weighted_points import SummaryOptions, WeightedPoints


@dataclass(frozen=True, eq=False)
class LocalSolution:
    """What a peer keeps between the rounds: its centres, and the cluster and cost of each row."""

    rows: WeightedPoints
    centers: I64  # the numbers of the rows drawn as centres, all different
    labels: I64
    costs: F64  # weight * squared distance

    @property
    def cost(self) -> float:
        """The number that the peer reports."""
        return float(self.costs.sum())


@dataclass(frozen=True, eq=False)
class LocalCoreset:
    """What a peer sends: its draws, then its centres.

    `clusters`: the cluster that each point belongs to. The last point of a cluster is its centre,
    whose weight may be negative.
    """

    points: F64
    weights: F64
    clusters: I64


@dataclass(frozen=True)
class PeerTraffic:
    """The points that a peer sent, and all numbers that it sent and received."""

    points: int
    sent: int
    received: int


@dataclass(frozen=True, eq=False)
class DistributedCoreset:
    """The weighted points of all peers, and what each peer sent for them.

    Attributes
    ----------
    points, weights : ndarrays of shape (m, d) and (m,)
        Weights of centres may be negative.
    clusters : ndarray of shape (m,)
        Which local cluster each point belongs to.
    traffic : tuple of PeerTraffic
        In the order of the peers.
    """

    points: F64
    weights: F64
    clusters: I64
    traffic: tuple[PeerTraffic, ...]

    def positive(self) -> WeightedPoints:
        """The points with positive weights, and the same weight of every local cluster."""
        kept = np.maximum(self.weights, 0)
        factor = np.bincount(self.clusters, self.weights) / np.bincount(self.clusters, kept)
        return WeightedPoints(self.points, kept * factor[self.clusters]).positive()


def distributed_coreset(
    peers: Sequence[WeightedPoints], options: SummaryOptions, rng: np.random.Generator
) -> DistributedCoreset:
    """Draw `options.size` rows of all peers, and `options.k` centres of each.

    A row that a peer draws twice is sent once. Pre: every peer has a row.
    """
    own = rng.spawn(len(peers))  # a peer's draws do not depend on the other peers
    pairs = zip(peers, own, strict=True)
    solutions = [solve_locally(rows, options.k, generator) for rows, generator in pairs]
    costs = np.array([solution.cost for solution in solutions])
    draws = divide_draws(costs, options.size, rng)
    unit = float(costs.sum()) / options.size
    shares = zip(solutions, draws.tolist(), own, strict=True)
    return _union([draw_locally(solved, n, unit, generator) for solved, n, generator in shares])


def solve_locally(rows: WeightedPoints, k: int, rng: np.random.Generator) -> LocalSolution:
    """Round 1 at a peer: k centres drawn by D^2; fewer if the peer has fewer different rows."""
    held = rows.data.rows
    k = min(k, held.n)
    potential = euclidean_potential(rows.data, k)
    picked = sample(potential, Dirac(), k, rng).indices
    used = picked[np.flatnonzero(potential.masses())]  # a centre that repeats another has no rows
    labels = held.nearest(held.take(used))
    costs = rows.weights * held.costs(held.take(used), labels)
    return LocalSolution(rows, used, labels.astype(np.int64), costs)


def divide_draws(costs: F64, size: int, rng: np.random.Generator) -> I64:
    """How many of `size` draws each peer gets: its share by cost, rounded up or down at random.

    The expectation of each number is its exact share, and the sum is `size`; all are zero if there
    is no cost.
    """
    total = costs.sum()
    if total == 0:
        return np.zeros(len(costs), dtype=np.int64)
    ends = np.cumsum(costs) / total * size
    ends[np.flatnonzero(costs)[-1] :] = size  # rounding must not lose the last draw
    passed = np.ceil(ends - rng.random())  # how many of u, u + 1, u + 2, ... are below each end
    draws: I64 = np.diff(passed, prepend=0.0).astype(np.int64)
    return draws


def draw_locally(
    solution: LocalSolution, draws: int, unit: float, rng: np.random.Generator
) -> LocalCoreset:
    """Round 2 at a peer. unit: the cost that one draw stands for."""
    rows, k = solution.rows, len(solution.centers)
    drawn, times = np.unique(
        draw_proportional(solution.costs, draws, rng) if draws else np.empty(0, dtype=np.int64),
        return_counts=True,
    )
    weights = times * unit * rows.weights[drawn] / solution.costs[drawn]
    labels = solution.labels
    left = np.bincount(labels, rows.weights, k) - np.bincount(labels[drawn], weights, k)
    taken = np.concatenate([drawn, solution.centers])
    return LocalCoreset(
        rows.data.take(taken),
        np.concatenate([weights, left]),
        np.concatenate([labels[drawn], np.arange(k)]),
    )


def _union(parts: Sequence[LocalCoreset]) -> DistributedCoreset:
    firsts = np.cumsum([0, *(int(part.clusters[-1]) + 1 for part in parts[:-1])])
    clusters = [part.clusters + first for part, first in zip(parts, firsts, strict=True)]
    return DistributedCoreset(
        np.concatenate([part.points for part in parts]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate(clusters),
        tuple(_traffic(part) for part in parts),
    )


def _traffic(part: LocalCoreset) -> PeerTraffic:
    """The cost and the weighted points go out; the number of draws and the unit come in."""
    n, d = part.points.shape
    return PeerTraffic(points=n, sent=1 + n * (d + 1), received=2)
