"""Vertical k-means: the columns are split over parties, and an aggregator clusters the rows.

The aggregator is given the sums of the parties' squared distances, and no distance of a single
party (`masks`). It asks the parties by `VerticalSession`. The loops are those of other settings:
`sample` with a potential that knows rows by their costs only, and `lloyd` with centres that only
the parties hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvariates.data.cluster_sums import FloatStatistics, Statistics
from kvariates.data.exact_sums import share_of
from kvariates.numerics.draws import F64, I64
from kvariates.peers.masks import exact_sum, row_at
from kvariates.peers.vertical_session import VerticalSession
from kvariates.refining.lloyd import Step, StopRule, lloyd
from kvariates.seeding.medoid_seedings import PointIndex
from kvariates.seeding.sampler import AddedCenters, sample

Labels = NDArray[np.int32]


class MaskedPotential(AddedCenters):
    """The potential of rows that are known by the sums of the parties' distances only.

    Centres are numbers of rows. Costs are exact integers, and so are the draws.
    """

    def __init__(self, session: VerticalSession, k: int) -> None:
        super().__init__(np.empty(k, dtype=np.int64))
        self.points, self.weight = range(session.rows), None
        self._session = session
        self._costs = np.full(session.rows, np.iinfo(np.int64).max)

    def add(self, centers: I64) -> None:
        super().add(centers)
        for block, sums in self._distances(centers):
            np.minimum(self._costs[block], sums.min(axis=1), out=self._costs[block])

    def add_best(self, candidates: I64) -> int:
        left = [0] * len(candidates)
        for block, sums in self._distances(candidates):
            lowered = np.minimum(self._costs[block, None], sums)
            left = [
                total + exact_sum(column) for total, column in zip(left, lowered.T, strict=True)
            ]
        best = left.index(min(left))
        self.add(candidates[best : best + 1])
        return best

    def total(self) -> float:
        if len(self.centers) == 0:
            return float(self._session.rows)
        return self._session.unit.decode_total(exact_sum(self._costs))

    def draw(self, rng: np.random.Generator) -> int:
        total = exact_sum(self._costs) if len(self.centers) else 0
        if total == 0:
            return share_of(self._session.rows, rng.random())
        return row_at(self._costs, share_of(total, rng.random()))

    def flush(self) -> None:
        """`add` puts off no work."""

    def _distances(self, rows: I64) -> Iterator[tuple[slice, I64]]:
        self._session.ask("start", rows=rows)
        return self._session.distances(len(rows))


@dataclass(frozen=True, eq=False)
class HiddenCenters:
    """Centres that only the parties hold.

    `moves`: how far each moved in the last update, squared; the sum over the parties.
    """

    moves: F64


class MaskedAssigner:
    """Assigns rows by the sums of the parties' distances. It keeps labels and costs of the rows.

    Its statistics have no sums of rows: each party adds up its own columns.
    """

    def __init__(self, session: VerticalSession, k: int) -> None:
        self.session, self.k = session, k
        self.labels: Labels = np.full(session.rows, -1, dtype=np.int32)
        self.costs: I64 = np.zeros(session.rows, dtype=np.int64)  # in units

    def assign(self, centers: HiddenCenters, moves: F64 | None = None) -> Statistics:
        changed = 0
        for block, sums in self.session.distances(self.k):
            labels = sums.argmin(axis=1).astype(np.int32)
            changed += int(np.count_nonzero(labels != self.labels[block]))
            self.labels[block] = labels
            self.costs[block] = np.take_along_axis(sums, labels[:, None], axis=1)[:, 0]
        counts = np.bincount(self.labels, minlength=self.k)
        none = np.empty((self.k, 0))
        return FloatStatistics(none, counts.astype(np.float64), counts, changed, self.cost)

    def cost(self) -> float:
        return self.session.unit.decode_total(exact_sum(self.costs))

    def filled_labels(self, counts: I64) -> Labels:
        """The labels, but every empty cluster has one of the rows that cost most."""
        empty = np.flatnonzero(counts == 0)
        if len(empty) == 0:
            return self.labels
        far = np.argsort(-self.costs, kind="stable")[: len(empty)]
        far = far[self.costs[far] > 0]  # rows of no cost are only duplicates of centres
        labels = self.labels.copy()
        labels[far] = empty[: len(far)]
        return labels


@dataclass(frozen=True, eq=False)
class HiddenMeans:
    """The update: every party moves its part of each centre to the mean of the cluster's rows."""

    assigner: MaskedAssigner

    def __call__(self, centers: HiddenCenters, statistics: Statistics) -> HiddenCenters:
        session, k = self.assigner.session, self.assigner.k
        if statistics.changed == 0:
            return HiddenCenters(np.zeros(k))
        labels = short(self.assigner.filled_labels(statistics.counts), k)
        moves = session.masked_sum("update", (k,), labels=labels)
        return HiddenCenters(session.unit.decode(moves))


@dataclass(frozen=True, eq=False)
class VerticalResult:
    """The best run. `seeds`: the rows that its first centres were."""

    labels: Labels
    inertia: float
    n_iter: int
    converged: bool
    seeds: I64


@dataclass(frozen=True)
class VerticalOptions:
    """What a fit is asked for.

    `tol` is relative to the mean variance of the columns of all parties. `callback` is called after
    every iteration and ends the run by returning True.
    """

    k: int
    n_init: int
    max_iter: int
    tol: float
    callback: Callable[[Step], bool] | None = None


@dataclass(frozen=True, eq=False)
class Aggregator:
    """Clusters rows whose columns are held by parties. It learns sums over the parties only."""

    # Not `fit_kmeans`: only parties have the centres, and must be told which run to keep. As `Data`
    # they would answer `spread` only, and an objective that repeats the rest of this class.
    session: VerticalSession

    def fit(self, options: VerticalOptions, rng: np.random.Generator) -> VerticalResult:
        """Run k-means; in the end the parties hold labels and their parts of the centres."""
        session = self.session
        if session.rows < options.k:
            raise ValueError(f"n_samples={session.rows} should be >= n_clusters={options.k}.")
        variance, columns = session.masked_sum("spread", (2,))
        spread = session.unit.decode_total(int(variance)) / int(columns)
        stop = StopRule(options.max_iter, spread * options.tol, options.callback)
        best: VerticalResult | None = None
        for _ in range(options.n_init):
            run = self._run(options.k, stop, rng)
            if best is None or run.inertia < best.inertia:
                best = run
                session.ask("keep")
        assert best is not None  # noqa: S101
        session.ask("finish", labels=short(best.labels, options.k))
        return best

    def _run(self, k: int, stop: StopRule, rng: np.random.Generator) -> VerticalResult:
        session = self.session
        seeds = sample(MaskedPotential(session, k), PointIndex(), k, rng).indices
        session.ask("start", rows=seeds)
        assigner = MaskedAssigner(session, k)
        end = lloyd(
            assigner, HiddenCenters(np.zeros(k)), HiddenMeans(assigner), stop,
            moves_of=lambda _, after: after.moves,
        )  # fmt: skip
        if not end.converged:  # the labels are those of the centres before the last update
            assigner.assign(end.centers)
        return VerticalResult(assigner.labels, assigner.cost(), end.n_iter, end.converged, seeds)

    def predict(self, k: int) -> Labels:
        """The nearest centre of every row. Pre: the parties were made with fitted centres."""
        assigner = MaskedAssigner(self.session, k)
        assigner.assign(HiddenCenters(np.zeros(k)))
        return assigner.labels


def short(labels: Labels, k: int) -> NDArray[np.unsignedinteger]:
    """Labels in the smallest type, for messages."""
    return labels.astype(np.min_scalar_type(k - 1))
