"""Lloyd's loop: assign rows to centres, update the centres, repeat until told to stop.

The loop is the only one. What varies is given to it: the assigner (where the rows are and how they
are assigned), the update (how statistics become centres) and the rule when to stop. Besides those
of this room, `objectives.objective`, `private_methods.noisy_lloyd` and `peers.vertical`
have assigners and updates. The loop does not look into centres: they need not be an array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np

from kvariates.data.assigners import (
    Assigner,
    ExactAssigner,
    InMemoryAssigner,
    MakesCenters,
    fill_empty_clusters,
    squared_moves,
)
from kvariates.data.cluster_sums import ExactStatistics, Statistics, mean_centers
from kvariates.data.host_data import Data
from kvariates.data.rows import F64, Floats
from kvariates.data.scans import Scan
from kvariates.numerics.draws import I64

Centers = TypeVar("Centers")


@dataclass(frozen=True, eq=False)
class Step:
    """What is known after one iteration."""

    iteration: int
    centers: Any  # that the rows were assigned to; with `OverwritingUpdate`, those after
    statistics: Statistics
    shift: float  # sum of the squared movements of the centres


Stop = Callable[[Step], bool]


@dataclass(frozen=True, eq=False)
class LloydEnd(Generic[Centers]):
    centers: Centers
    n_iter: int
    converged: bool  # no label changed in the last iteration
    costs: tuple[float, ...] = ()  # before each iteration, if the stop rule keeps them


def lloyd(
    assigner: Assigner[Centers],
    centers: Centers,
    update: Callable[[Centers, Statistics], Centers],
    stop: Stop,
    moves_of: Callable[[Any, Any], F64] = squared_moves,
) -> LloydEnd[Centers]:
    """Iterate until `stop` says so. `centers` are not changed, unless `update` changes them.

    `moves_of` returns how far each centre moved, squared, from the centres before and after.
    """
    keep_costs = isinstance(stop, StopRule) and stop.keep_costs
    costs: tuple[float, ...] = ()
    iteration, moves = 0, None
    while True:
        statistics = assigner.assign(centers, moves)
        updated = update(centers, statistics)
        moves = moves_of(centers, updated)
        done = stop(Step(iteration, centers, statistics, float(moves.sum())))
        centers, iteration = updated, iteration + 1
        if keep_costs:
            costs = (*costs, statistics.cost)
        if done:
            return LloydEnd(centers, iteration, statistics.changed == 0, costs)


@dataclass(frozen=True)
class StopRule:
    """Stop when no label changes, the shift is at most `tol`, or after `max_iter` iterations.

    `callback` is called once an iteration and may stop as well, by returning True. With
    `keep_costs` the result has the cost before each iteration, which can take a pass over the rows.
    """

    max_iter: int
    tol: float
    callback: Callable[[Step], bool] | None = None
    keep_costs: bool = False

    def __call__(self, step: Step) -> bool:
        asked = self.callback is not None and self.callback(step)
        done = step.statistics.changed == 0 or step.iteration + 1 >= self.max_iter
        return done or asked or step.shift <= self.tol


@dataclass(frozen=True)
class MeanUpdate:
    """Move each centre to its rows' mean; with `unit`, to the mean's direction on the sphere.

    Empty clusters get far rows first. A centre that stays without rows goes to the heaviest
    cluster, as in scikit-learn.
    """

    assigner: ExactAssigner
    unit: bool = False

    def __call__(self, centers: F64, statistics: Statistics) -> F64:
        if statistics.changed == 0:
            return centers
        own = isinstance(statistics, ExactStatistics)
        if isinstance(statistics, ExactStatistics) and not statistics.counts.all():
            statistics = fill_empty_clusters(statistics, self.assigner)
        return mean_centers(centers, statistics, self.unit, own=own)


AT_ONCE = 2**15  # values of the centres that are overwritten together


@dataclass
class OverwritingUpdate:
    """`MeanUpdate` for rows in memory that writes means into the array of the centres.

    A second array is made only when empty clusters are filled. `moves`: how far each centre moved
    in the last update, squared.
    """

    assigner: InMemoryAssigner
    unit: bool
    moves: F64

    def __call__(self, centers: F64, statistics: Any) -> F64:
        self.moves = np.zeros(len(centers))
        if statistics.changed == 0:
            return centers
        if statistics.counts.all():
            for some in parts_of(centers):
                part = statistics.part(some)
                self._move(centers, some, mean_centers(centers[some], part, self.unit, own=True))
        else:
            filled = fill_empty_clusters(statistics, self.assigner)
            means = mean_centers(centers, filled, self.unit, own=True)
            self._move(centers, slice(len(centers)), means)
        self.assigner.overwritten(self.moves)
        return centers

    def round(self, centers: F64, dtype: np.dtype[Any]) -> Floats:
        """Move each centre to itself rounded to this dtype, and return it in this dtype."""
        rounded: Floats = centers.astype(dtype, copy=False)
        if rounded is not centers:
            for some in parts_of(centers):
                self._move(centers, some, rounded[some].astype(np.float64))
            self.assigner.overwritten(self.moves)
        return rounded

    def _move(self, centers: F64, some: slice, to: F64) -> None:
        self.moves[some] = squared_moves(centers[some], to)
        centers[some] = to


def parts_of(centers: F64) -> Iterator[slice]:
    """Of about AT_ONCE values."""
    size = max(1, AT_ONCE // centers.shape[1])
    return (slice(first, first + size) for first in range(0, len(centers), size))


@dataclass(frozen=True)
class LloydResult:
    """Centres in the rows' dtype, with the labels and the cost of these rounded centres."""

    centers: Floats
    labels: Any  # Labels; None if they stay where the rows are
    inertia: float
    n_iter: int
    converged: bool
    counts: I64 | None = None  # the rows of each cluster; None if the data does not tell
    assignment_gap: float = 0.0  # the labels cost at most so much more than the best ones
    costs: tuple[float, ...] = ()  # before each iteration, if the stop rule keeps them


@dataclass(frozen=True, eq=False)
class RefineProblem:
    """Centres to improve. `lloyd` is the objective's, with a scan given by name."""

    data: Any  # `Data`; HostData where a refinement needs "host rows"
    centers: F64
    stop: StopRule
    lloyd: Callable[[Any, F64, Stop, str], LloydResult]
    rng: np.random.Generator
    unit: bool = False  # whether centres stay on the unit sphere, as rows are


def refine(
    data: Data, centers: F64, stop: Stop, scan: str | Scan = "auto", unit: bool = False,
    overwrite: bool = False,
) -> LloydResult:  # fmt: skip
    """Exact Lloyd. Steps are taken in float64.

    `overwrite`: `centers` may be changed, which saves memory.
    """
    assigner = data.assigner(len(centers), scan)
    # Who is told of an iteration may ask for the cost of its centres.
    silent = isinstance(stop, StopRule) and stop.callback is None and not stop.keep_costs
    if isinstance(assigner, MakesCenters):
        steps = assigner.steps(unit)
        end = lloyd(steps, steps.start(centers), steps.next_centers, stop, steps.moves)
        end = replace(end, centers=steps.end(end.centers))
    elif overwrite and silent and isinstance(assigner, InMemoryAssigner) and assigner.has_table:
        in_place = OverwritingUpdate(assigner, unit, np.zeros(len(centers)))
        start = np.asarray(centers, dtype=np.float64)  # a step in float32 would round
        end = lloyd(assigner, start, in_place, stop, lambda *_: in_place.moves)
        assigner.forget_sums()
        rounded = in_place.round(end.centers, data.dtype)
        return _labelled(assigner, rounded, end.centers, end.n_iter, end.converged)
    else:
        end = lloyd(assigner, centers, MeanUpdate(assigner, unit), stop)
    rounded = end.centers.astype(data.dtype, copy=False)
    n_iter, converged, costs = end.n_iter, end.converged, end.costs
    del end  # its centres take as much memory as the next line needs
    wide = rounded.astype(np.float64, copy=False)
    return replace(_labelled(assigner, rounded, wide, n_iter, converged), costs=costs)


def evaluated(data: Data, centers: Floats, n_iter: int, converged: bool) -> LloydResult:
    """These centres rounded to the rows' dtype, with their labels and cost."""
    rounded = centers.astype(data.dtype, copy=False)
    wide = rounded.astype(np.float64, copy=False)
    return _labelled(data.assigner(len(centers), "lloyd"), rounded, wide, n_iter, converged)


def _labelled(
    assigner: ExactAssigner, rounded: Floats, wide: F64, n_iter: int, converged: bool
) -> LloydResult:
    """`wide`: the rounded centres in float64."""
    found = assigner.labelled(wide)
    return LloydResult(rounded, found.labels, found.inertia, n_iter, converged, found.counts)
