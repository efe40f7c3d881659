"""One trial of the method of Balcan et al.: candidates, swaps, recovery (see `candidates`).

`TrialPlan` has all numbers of it. They are public, or follow from a noisy number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from kvariates.data.lattice_distances import FARTHEST, on_unit_lattice, squared_distances
from kvariates.data.rows import Labels, Rows
from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.budget import Cost
from kvariates.privacy.empty_cells import Passing
from kvariates.privacy.mechanisms import Accountant, charge_of
from kvariates.privacy.query import (
    Histogram,
    Query,
    Scores,
    count_query,
    histogram_query,
    score_query,
)
from kvariates.privacy.rounding import down
from kvariates.privacy.secret import Secret
from kvariates.private_methods.private_swaps import PrivateChooser, draw_swaps
from kvariates.private_methods.projection import Projection
from kvariates.private_methods.recovery import Recovery
from kvariates.private_methods.task import F64, Domain, PrivateTask
from kvariates.private_methods.weighted_kmeans import solve, spread_out
from kvariates.refining.swaps import MedoidProblem
from kvariates.summaries.candidate_tree import CandidatePoints, Shifted, candidate_tree

FALSE_CUBES = 1.0  # expected number of empty cubes of a level that pass
COST_STEPS = 2**20  # of the largest cost of a row, in the choice of a trial


class Purse:
    """A cost of which weighted parts are taken.

    Parts of equal weights are equal. What was skipped goes to later parts by `share_skipped`.
    """

    def __init__(self, cost: Cost, weight: Fraction) -> None:
        self._pure, self._rest, self._left = cost.pure, Fraction(cost.value), weight
        self._unit = self._rest / weight

    def take(self, weight: Fraction) -> Cost:
        """A part of this weight."""
        part = down(self._unit * weight)
        self._rest -= Fraction(part)
        self._left -= weight
        return self._cost(part)

    def skip(self, weight: Fraction) -> None:
        """Leave out a part of this weight."""
        self._left -= weight

    def share_skipped(self) -> None:
        """Parts that are taken from now on become larger by what was skipped."""
        self._unit = self._rest / self._left

    @property
    def rest(self) -> Cost:
        """All that is left."""
        return self._cost(down(self._rest))

    def _cost(self, value: float) -> Cost:
        return Cost(epsilon=value) if self._pure else Cost(rho=value)


@dataclass(frozen=True)
class TrialPlan:
    """The numbers of a trial, and the weights of its releases in the budget."""

    dimension: int
    repeats: int
    halvings: tuple[int, ...]  # of the levels of a partition
    threshold: float | None  # rows; None: what noise alone passes in about one cube of a level
    widths: float | None  # the threshold in scales of the noise, if it is not given in rows
    most: int
    uniform: bool  # the first centres are drawn uniformly
    swaps: int
    recovery: Recovery
    shrunken: bool
    level: Fraction
    swap: Fraction
    recover: Fraction

    @property
    def weight(self) -> Fraction:
        """Of all releases of the trial."""
        levels = self.level * self.repeats * len(self.halvings)
        return levels + self.swap * bool(self.swaps) * (self.swaps + 1) + self.recover

    def cut_above(self, adjacency: Adjacency, cost: Cost, children: int) -> float:
        """The threshold for a level with so many children and such a cost."""
        if self.threshold is not None:
            return self.threshold
        scale = charge_of(count_query([], adjacency, ""), cost).scale
        if self.widths is not None:
            return self.widths * scale
        # P(noise > t) is at most exp(-t / scale) / 2, or exp(-(t / scale)^2 / 2) / 2.
        far = max(0.0, math.log(children) - math.log(2 * FALSE_CUBES))
        return scale * (far if cost.pure else math.sqrt(2 * far))


@dataclass(frozen=True, eq=False)
class Trial:
    """Centres and noisy counts, and what was released about the clusters' sizes in few dimensions.

    spreads : about the root mean squared distance of the rows of each centre.
    """

    centers: F64
    counts: F64
    spreads: F64


def run_trial(
    task: PrivateTask, plan: TrialPlan, purse: Purse, accountant: Accountant,
    rng: np.random.Generator,
) -> Trial:  # fmt: skip
    """Centres of the task's rows, dense or CSR."""
    domain, k = task.domain, task.k
    project = Projection.draw(domain.d, plan.dimension, domain.radius, rng)
    rows = task.rows.map(project)
    found = find_candidates(rows, task.adjacency, plan, purse, accountant, rng)
    start = np.empty((0, plan.dimension)) if plan.uniform else _by_counts(found, k, rng)
    points = _with_others(start, found.points, k, rng)
    chosen = rng.choice(len(points), k, replace=False) if plan.uniform else np.arange(k)
    if plan.swaps:
        costs = [purse.take(plan.swap) for _ in range(plan.swaps + 1)]
        choose = PrivateChooser(FARTHEST, 1.0, task.adjacency, costs, accountant)
        problem = rows.map(partial(_problem, points))
        chosen = draw_swaps(problem, chosen, len(points), plan.swaps, choose).medoids
    centers = points[chosen]
    labels = rows.map(lambda of: Rows.of(of).nearest(centers))
    clusters = plan.recovery(task, labels, purse.take(plan.recover), accountant)
    if plan.shrunken:
        lifted = clusters.shrunken_means(partial(project.lift, centers))
    else:
        lifted = clusters.means()
    counts = np.maximum(clusters.counts, 0.0)
    return Trial(domain.clip(lifted), counts, domain.radius * _spreads(found, centers))


def find_candidates(
    rows: Secret[F64], adjacency: Adjacency, plan: TrialPlan, purse: Purse, accountant: Accountant,
    rng: np.random.Generator,
) -> CandidatePoints:  # fmt: skip
    """Candidates of all repeats (Algorithm 2), on the unit lattice."""
    found: list[CandidatePoints] = []
    for repeat in range(1, plan.repeats + 1):

        def measure(counted: Secret[Histogram], level: int, active: int) -> Passing:
            cost = purse.take(plan.level)
            children = active << (plan.dimension * plan.halvings[level])
            above = plan.cut_above(adjacency, cost, children)
            label = f"partition {repeat}, level {level + 1}: cubes"  # noqa: B023
            query = counted.map(lambda of: histogram_query(of, above, adjacency, label))
            return accountant.release(query, cost).value

        grid = Shifted.draw(plan.dimension, plan.halvings, rng)
        one = candidate_tree(rows, grid, plan.most, measure)
        purse.skip(plan.level * (len(plan.halvings) - one.levels))
        found.append(one)
    purse.share_skipped()
    points, sides = (
        np.concatenate([getattr(f, name) for f in found]) for name in ("points", "sides")
    )
    weights = np.concatenate([f.weights for f in found]) / plan.repeats
    return CandidatePoints(on_unit_lattice(points), sides, weights, max(f.levels for f in found))


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


def unit_ball(p: int) -> Domain:
    """The unit ball of p dimensions."""
    return Domain.around(np.zeros(p), 1.0)
