"""Costs of streaming and on-line k-means on a stream of which all rows are at hand.

varsigma of Theorem 6 is the largest number for which two inequalities hold for every set of at most
k centres. Its exact value would need all such sets. `varsigma_limit` tests the inequalities with
the best known centres only and with a diameter that is too small at most, which gives an upper
limit. So the true bound is at least the one that is printed with it.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from benchmarks.workloads import Array

from experiments.liberty import fully_online, semi_online
from kvariates import KMeans
from kvariates.data.rows import Rows, total_cost
from kvariates.estimators.online_kmeans import OnlineKMeans
from kvariates.seeding.sampler import SeedingProblem, sample_rows
from kvariates.summaries.merge_reduce import SYNOPSES
from kvariates.summaries.weighted_points import SummaryOptions, WeightedPoints, draws_per_round

BATCH = 5000  # rows that arrive together at a summary


@dataclass(frozen=True, eq=False)
class BestKnown:
    """The best centres found, and their cost."""

    centers: Array
    cost: float


@dataclass(frozen=True, eq=False)
class KnownStream:
    """Rows in the order in which they arrive, and the best k centres known for them."""

    name: str
    X: Array
    k: int
    opt: BestKnown


@dataclass(frozen=True)
class SynopsisCosts:
    """Sk-means++ on one kind of synopses.

    `nearest`: whether a synopsis is weighed by the rows nearest to it, as in Theorem 5, and not as
    its summary says; `points`: how many there were; `spread`: of Theorem 5; `outer_seconds`: of
    k-means++ on them, the least over the seeds; `costs`: of the seeded centres on the whole stream,
    one for each seed.
    """

    synopsis: str
    nearest: bool
    points: int
    spread: float
    outer_seconds: float
    costs: list[float]


@dataclass(frozen=True)
class OnlineCosts:
    """OLk-means++: costs for each seed, with centres in place and moved; an upper limit."""

    costs: list[float]
    moved: list[float]
    varsigma: float


@dataclass(frozen=True)
class LibertyCosts:
    """Costs and numbers of centres of the fully on-line variant, and of the semi on-line one."""

    costs: list[float]
    fully: list[int]
    knowing: list[int]  # given opt as the lower bound
    guessing: list[int]  # given opt / 1000
    found_bound: float  # of the fully on-line variant


def cost_of(X: Array, centers: Array) -> float:
    """The cost of all rows at their nearest centres."""
    rows, known = Rows.of(X), np.ascontiguousarray(centers, dtype=np.float64)
    return total_cost(rows.costs(known, rows.nearest(known)), None)


def lowest_cost(X: Array, k: int, runs: int = 3) -> BestKnown:
    """The best of several fits."""
    fits = [KMeans(k, init=init, random_state=s).fit(X)
            for s in range(runs) for init in ("k-means++", "ls++")]  # fmt: skip
    best = min(fits, key=lambda fit: fit.inertia_)
    return BestKnown(best.cluster_centers_, float(best.inertia_))


def synopsis_costs(
    stream: KnownStream, synopsis: str, seeds: int, *, nearest: bool = False
) -> SynopsisCosts:
    """Summarise the stream, seed k centres on the summary and measure them on all rows."""
    costs, seconds, spreads, points = [], [], [], 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        kept = _summarised(stream, synopsis, rng)
        if nearest:
            kept = _weighed_by_nearest(stream.X, kept)
        problem = SeedingProblem(kept.data, stream.k, rng=rng)
        begin = time.perf_counter()
        centers = sample_rows(problem).centers
        seconds.append(time.perf_counter() - begin)
        costs.append(cost_of(stream.X, centers))
        points = max(points, kept.n)
        if seed == 0:
            spreads.append(cost_of(stream.X, kept.points))
    return SynopsisCosts(synopsis, nearest, points, spreads[0], min(seconds), costs)


def _summarised(stream: KnownStream, name: str, rng: np.random.Generator) -> WeightedPoints:
    # As many synopses as k-means# makes, so that all have the same memory.
    options = SummaryOptions(stream.k * draws_per_round(stream.k), stream.k)
    summary = SYNOPSES[name].run(options)
    for first in range(0, len(stream.X), BATCH):
        summary.add(WeightedPoints.of(stream.X[first : first + BATCH], None), rng)
    points: WeightedPoints = summary.points(rng)
    return points


def _weighed_by_nearest(X: Array, kept: WeightedPoints) -> WeightedPoints:
    labels = Rows.of(X).nearest(np.ascontiguousarray(kept.points))
    return WeightedPoints.of(kept.points, np.bincount(labels, minlength=kept.n).astype(np.float64))


def online_costs(stream: KnownStream, seeds: int) -> OnlineCosts:
    """OLk-means++ with k batches, and with k more batches that move the centres."""
    costs = {update: [
        cost_of(stream.X, _online(stream, update, seed)) for seed in range(seeds)
    ] for update in (False, True)}  # fmt: skip
    return OnlineCosts(costs[False], costs[True], varsigma_limit(stream))


def _online(stream: KnownStream, update: bool, seed: int) -> Array:
    model = OnlineKMeans(stream.k, update=update, random_state=seed).fit(stream.X)
    return model.cluster_centers_


def varsigma_limit(stream: KnownStream) -> float:
    """An upper limit of varsigma, for k batches of consecutive rows."""
    X, k = stream.X, stream.k
    rows, centers = Rows.of(X), np.ascontiguousarray(stream.opt.centers, dtype=np.float64)
    labels = rows.nearest(centers)
    cost = rows.costs(centers, labels)
    sizes, costs = np.bincount(labels, minlength=k), np.bincount(labels, cost, minlength=k)
    # The pairs of a cluster have squared distances whose sum is its size times its cost.
    many = sizes > 1
    pairs = 2 * costs[many] / ((sizes[many] - 1) * _diameter(rows) ** 2)
    batch = np.minimum(np.arange(len(X)) * k // len(X), k - 1)
    shares = np.bincount(labels * k + batch, cost, minlength=k * k).reshape(k, k)
    parts = shares[costs > 0] / costs[costs > 0, None]
    return float(min(pairs.min(initial=1.0), parts.min(initial=1.0), 1.0))


def _diameter(rows: Rows) -> float:
    """The largest distance found by going to the farthest row, twice: at most the diameter."""
    at = rows.take(np.zeros(1, dtype=np.int64))
    for _ in range(2):
        far = rows.costs(at, np.zeros(rows.n, dtype=np.int32))
        at = rows.take(np.array([far.argmax()]))
    return math.sqrt(far.max())


def liberty_costs(stream: KnownStream, seeds: int) -> LibertyCosts:
    """Both variants; the semi on-line one with a sharp lower bound and with a poor one."""
    X, k, opt = stream.X, stream.k, stream.opt.cost
    rngs = [np.random.default_rng(seed) for seed in range(seeds)]
    runs = [fully_online(X, k, rng) for rng in rngs]
    semi = [[len(semi_online(X, k, opt / by, rng).centers) for rng in rngs] for by in (1, 1000)]
    return LibertyCosts(
        [run.cost for run in runs], [len(run.centers) for run in runs], *semi, runs[0].lower_bound
    )
