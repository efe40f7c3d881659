"""Balcan et al. 2017, section 6.2: private k-median by candidates in few dimensions.

    the public points are projected at random into the unit ball of few dimensions
    repeats times: cubes with a random shift, tested with noise (`candidate_trials`)
    k of the points nearest to their centres, by counts or by private swaps (`private_swaps`)
    a private 1-median of each of the k cells among all features
    trials times all of this; the best result is drawn by its cost

The paper's n is the number of rows. Here that is the size of the demand, which may be secret; the
printed numbers (`candidate_trials`) are made for the number of public points. In each cell the
exponential mechanism draws one of the cell's points, by the sum of its distances to the demand of
the cell. The paper draws a point of a ball, from a log-concave density, by a Markov chain that
comes near to it. Here medoids are points of a finite public set, so the law itself is drawn from.
Budgets, sensitivities and what differs from the paper: `privacy/proofs/demand_candidates.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from kvariates.data.lattice_rows import CappedDistances
from kvariates.data.metric_spaces import Ints
from kvariates.data.metrics import Vectors
from kvariates.data.rows import F64, nearest_centers
from kvariates.privacy.budget import Cost
from kvariates.privacy.query import Scores
from kvariates.private_methods.candidate_trials import (
    CandidateChoices,
    Projection,
    Trials,
    printed_numbers,
)
from kvariates.private_methods.demand_counts import weighted_medoids
from kvariates.private_methods.private_swaps import PrivateChooser, private_search
from kvariates.private_methods.task import DemandTask, PrivateResult, Traits
from kvariates.summaries.candidate_tree import CandidatePoints

DIAMETER = 2.0  # of the unit ball
RECOVERIES = 2
STEPS = 20  # bits: the largest loss has between 2^20 and 2^21 steps


@dataclass(frozen=True, eq=False)
class Cell:
    """A cell of public points. All of it is public.

    points : of the cell.
    candidates : those of them that may become its medoid.
    losses : (points, candidates) in steps, whole numbers from 0 to `largest` / `step`: how much
        farther a candidate is than the candidate nearest to the point.
    """

    points: Ints
    candidates: Ints
    losses: F64
    largest: float
    step: float

    @classmethod
    def of(cls, space: Vectors, points: Ints, candidates: Ints) -> Cell:
        far = space.distances(candidates, points).T.astype(np.float64)
        far -= far.min(axis=1, keepdims=True)
        largest = float(far.max()) or 1.0
        step = math.ldexp(1.0, math.frexp(largest)[1] - 1 - STEPS)
        np.floor(far / step, out=far)
        return cls(points, candidates, far, largest, step)

    def scores(self, demand: F64) -> F64:
        """High for a candidate of low cost. `demand`: of every point of the space."""
        return np.asarray(-self.step * (demand[self.points] @ self.losses))


def recover_medoids(
    task: DemandTask, space: Vectors, labels: Ints, centers: Ints, most: int, cost: Cost,
    name: str,
) -> Ints:  # fmt: skip
    """A private medoid of each cell, among the `most` points nearest to the cell's centre.

    `labels`: the cell of every point; `centers`: a point of every cell. Both public or released.
    """
    medoids, group = centers.copy(), f"{name}: cells"
    counts = task.rows.map(partial(_counts, task.space.n))
    for j, center in enumerate(centers):
        points = np.flatnonzero(labels == j)
        if len(points) > 1:
            cell = Cell.of(space, points, _nearest(space, center, points, most))
            label = f"{name}: medoid of cell {j + 1}"
            scores, moved = counts.map(cell.scores), Scores(cell.largest, monotone=True)
            chosen = task.choose(scores, moved, label, cost, parallel=group)
            medoids[j] = cell.candidates[chosen]
    return medoids


def _nearest(space: Vectors, center: int, points: Ints, most: int) -> Ints:
    """The points nearest to a centre, ascending."""
    if len(points) <= most:
        return points
    far = space.distances(np.array([center]), points)[0]
    return np.sort(points[np.argsort(far, kind="stable")[:most]])


def _counts(n: int, demand: Ints) -> F64:
    return np.bincount(demand, minlength=n).astype(np.float64)


def _vectors(task: DemandTask) -> Vectors:
    assert isinstance(task.space, Vectors)  # noqa: S101
    return task.space


def projected(space: Vectors, dimension: int, rng: np.random.Generator) -> Vectors:
    """The points in few dimensions, moved and scaled to the unit ball. Public."""
    centred = space.X - space.X.mean(axis=0)
    matrix = Projection.draw(space.X.shape[1], dimension, 1.0, rng).matrix
    few = (centred if matrix is None else centred @ matrix).astype(np.float64)
    largest = float(np.linalg.norm(few, axis=1).max())
    return Vectors(np.ascontiguousarray(few / (largest or 1.0)), "euclidean")


@dataclass(eq=False)
class MedoidTrials(Trials[DemandTask]):
    """The trials of a fit. `recoveries`: how many there were."""

    reach: float = 0.0
    recoveries: int = 0

    def result(self, end: Ints, notes: tuple[str, ...]) -> PrivateResult:
        return PrivateResult(end, self.task.charges, notes=notes, reach=self.reach)

    def trial(self) -> Ints:
        task, plan, many = self.task, self.plan, self.choices.recoveries
        flat = projected(_vectors(task), plan.dimension, task.rng)
        found = self.candidates(task.rows.map(lambda demand: flat.X[demand]), task.rng)
        centers = self._centers(replace(task, space=flat, diameter=DIAMETER), found)
        space = flat
        for _ in range(many):
            self.recoveries += 1
            labels = space.two_nearest(centers).labels.astype(np.int64)
            labels[centers] = np.arange(task.k)  # of points at the same place, too
            space = _vectors(task)
            centers = recover_medoids(
                task, space, labels, centers, self.choices.n_candidates,
                self.remaining.take(plan.recover / many),
                f"recovery {self.recoveries}",
            )  # fmt: skip
        return centers

    def _centers(self, flat: DemandTask, found: CandidatePoints) -> Ints:
        """Different points, by the candidates and their counts or by swaps."""
        n, k = flat.space.n, flat.k
        nearest = nearest_centers(found.points, _vectors(flat).X)
        candidates = np.unique(nearest).astype(np.int64)
        if len(candidates) <= k:
            others = np.setdiff1d(np.arange(n), candidates)
            more = flat.rng.choice(others, k + 1 - len(candidates), replace=False)
            candidates = np.union1d(candidates, more)
        if self.plan.uniform:
            centers = flat.rng.choice(candidates, k, replace=False)
        else:
            weight: F64 = np.bincount(nearest, found.weights, minlength=n).astype(np.float64)
            centers = weighted_medoids(flat, weight if weight.any() else np.ones(n), k, 1)
        if self.plan.swaps:
            candidates, costs = np.union1d(candidates, centers), self.swap_costs()
            path = private_search(flat, centers, candidates, costs)
            centers, self.reach = path.medoids, max(self.reach, path.reach)
        return centers

    def best(self, found: list[Ints], cost: Cost) -> int:
        """Among all features."""
        task, every = self.task, np.arange(self.task.space.n)
        far = CappedDistances(task.space, task.cap)
        costs = np.array([far.matrix(m, every).D.min(axis=0) for m in found], dtype=np.float64)
        choose = PrivateChooser(task, far.cap, far.step, [cost])
        return choose.draw(task.rows.map(lambda d: costs[:, d].sum(axis=1)), "the best trial")


# proof: demand_candidates.md
@dataclass(frozen=True)
class DemandCandidates(CandidateChoices[DemandTask]):
    """Candidates of cubes in few dimensions, and private 1-medians of their cells.

    For vectors with Euclidean distances. The fields of `CandidateChoices`, and these:

    recoveries : how often a medoid is drawn in each cell; None: 2, the second in the cells of the
        first's medoids; 1 as printed.
    n_candidates : points of a cell that may become its medoid, those nearest to its centre.
    """

    trials_class = MedoidTrials
    least = CandidateChoices.least | {"recoveries": 1, "n_candidates": 1}

    partition_share: float = 0.5
    recovery_share: float = 0.5
    recoveries: int | None = None
    n_candidates: int = 256

    def notice(self, k: int, n: int | None = None) -> str | None:
        """How many releases the printed numbers mean, from public numbers alone."""
        if not self.theory or n is None:
            return None
        printed = printed_numbers(n, 1, k, self.failure)
        given = (self.trials or printed["trials"], self.repeats or printed["repeats"],
                 self.levels or printed["levels"])  # fmt: skip
        swaps = printed["swaps"] if self.swaps is None else self.swaps
        releases = given[0] * (given[1] * given[2] + swaps + k)
        return (
            f"theory=True with {k} medoids and {n:,} points means up to {releases:,} releases, of "
            "which a thousand take seconds to minutes. Use the defaults, or fewer points."
        )

    @property
    def traits(self) -> Traits:
        return Traits(euclidean=True, least_features=self.dimension or 0)

    def _shape(self, task: DemandTask, n: int) -> tuple[int, int]:
        points, features = _vectors(task).X.shape
        return int(points), int(features)

    def _own(self, task: DemandTask, cost: Cost) -> dict[str, Any]:
        return {"recoveries": 1 if self.theory else RECOVERIES}
