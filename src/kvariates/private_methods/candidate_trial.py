"""One trial of the method of Balcan et al.: candidates, swaps, recovery (see `candidates`).

`TrialPlan` has all numbers of it. They are public, or follow from a noisy number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kvariates.data.lattice_distances import FARTHEST, on_unit_lattice, squared_distances
from kvariates.data.rows import Labels, Rows
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import (
    Query,
    Scores,
    score_query,
)
from kvariates.private_methods.center_errors import CenterErrors
from kvariates.private_methods.noisy_counts import NoisyCounts
from kvariates.private_methods.private_partition import (
    RemainingCost,
    SearchPlan,
    find_candidates,
    unit_ball,
)
from kvariates.private_methods.private_swaps import PrivateChooser, draw_swaps
from kvariates.private_methods.projection import Projection
from kvariates.private_methods.recovery import Recovery
from kvariates.private_methods.task import F64, PrivateTask
from kvariates.private_methods.weighted_kmeans import solve, spread_out
from kvariates.refining.swaps import MedoidProblem
from kvariates.summaries.candidate_tree import CandidatePoints

COST_STEPS = 2**20  # of the largest cost of a row, in the choice of a trial


@dataclass(frozen=True)
class TrialPlan(SearchPlan):
    """The numbers of a trial, and the weights of its releases in the budget."""

    recovery: Recovery
    shrunken: bool


@dataclass(frozen=True, eq=False)
class Trial:
    """Centres and noisy counts, and what was released about the clusters' sizes in few dimensions.

    spreads : about the root mean squared distance of the rows of each centre.
    """

    centers: F64
    counts: NoisyCounts
    errors: CenterErrors
    spreads: F64


def run_trial(
    task: PrivateTask, plan: TrialPlan, remaining: RemainingCost, accountant: Accountant,
    rng: np.random.Generator,
) -> Trial:  # fmt: skip
    """Centres of the task's rows, dense or CSR."""
    domain, k = task.domain, task.k
    project = Projection.draw(domain.d, plan.partition.dimension, domain.radius, rng)
    rows = task.rows.map(project)
    found = find_candidates(rows, task.adjacency, plan.partition, remaining, accountant, rng)
    start = np.empty((0, plan.partition.dimension)) if plan.uniform else _by_counts(found, k, rng)
    points = _with_others(start, found.points, k, rng)
    chosen = rng.choice(len(points), k, replace=False) if plan.uniform else np.arange(k)
    if plan.swaps:
        costs = [remaining.take(plan.swap) for _ in range(plan.swaps + 1)]
        choose = PrivateChooser(FARTHEST, 1.0, task.adjacency, costs, accountant)
        problem = rows.map(partial(_problem, points))
        chosen = draw_swaps(problem, chosen, len(points), plan.swaps, choose).medoids
    centers = points[chosen]
    labels = rows.map(lambda of: Rows.of(of).nearest(centers))
    clusters = plan.recovery(task, labels, remaining.take(plan.recover), accountant)
    if plan.shrunken:
        lifted = clusters.shrunken_means(partial(project.lift, centers))
    else:
        lifted = clusters.means()
    lifted, counts = domain.clip(lifted), clusters.noisy_counts()
    spreads = domain.radius * _spreads(found, centers)
    return Trial(lifted, counts, clusters.errors(lifted, domain), spreads)


def best_trial(
    task: PrivateTask, trials: Sequence[Trial], cost: Cost, accountant: Accountant
) -> int:
    """The number of a trial of low cost among all features, by the exponential mechanism."""
    unit = (2 * task.domain.radius) ** 2 * (1 + 1e-9) / COST_STEPS

    def query(rows: Any) -> Query[int]:
        costs = [_whole_cost(Rows.of(rows), trial.centers, unit) for trial in trials]
        scores = Scores(float(COST_STEPS), monotone=True)
        return score_query(-np.array(costs), scores, task.adjacency, "the best trial")

    return accountant.release(task.rows.map(query), cost).value


def _whole_cost(rows: Rows, centers: F64, unit: float) -> float:
    """The sum of every row's cost in whole units, at most COST_STEPS: exact below 2^53."""
    costs = rows.costs(centers, rows.nearest(centers)) / unit
    return float(np.minimum(np.floor(costs), COST_STEPS).astype(np.int64).sum())


def _problem(points: F64, rows: F64) -> MedoidProblem:
    return MedoidProblem(squared_distances(points, rows), None, np.arange(len(rows)))


def _by_counts(found: CandidatePoints, k: int, rng: np.random.Generator) -> F64:
    """k-means on the candidates by their noisy counts, on the unit lattice."""
    heavy = found.weights > 0
    points, ball = found.points[heavy], unit_ball(found.points.shape[1])
    return on_unit_lattice(solve(ball, points, found.weights[heavy], k, rng))


def _with_others(first: F64, others: F64, k: int, rng: np.random.Generator) -> F64:
    """The candidates, `first` first; random points are added if there are not more than k."""
    points = np.concatenate([first, np.unique(others, axis=0)])
    if len(points) <= k:
        more = spread_out(unit_ball(points.shape[1]), k + 1 - len(points), rng)
        points = np.concatenate([points, on_unit_lattice(more)])
    return np.ascontiguousarray(points)


def _spreads(found: CandidatePoints, centers: F64) -> F64:
    """The root mean squared distance of the rows of each centre, by cubes and their counts."""
    p = centers.shape[1]
    rows = Rows.of(np.ascontiguousarray(found.points))
    labels: Labels = rows.nearest(np.ascontiguousarray(centers))
    squared = rows.costs(np.ascontiguousarray(centers), labels) + p * found.sides**2 / 12
    k, weights = len(centers), found.weights
    whole = float(weights @ squared / weights.sum()) if weights.any() else 1.0
    mass = np.bincount(labels, weights, minlength=k)
    sums = np.bincount(labels, weights * squared, minlength=k)
    mean = np.where(mass > 0, sums / np.maximum(mass, 1e-300), whole)
    return np.asarray(np.sqrt(np.clip(mean, 1e-3 * whole, 1.0)))
