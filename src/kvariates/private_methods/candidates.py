"""Balcan et al. 2017: private candidates in few dimensions, private swaps, private recovery.

    rows are projected at random into the unit ball of few dimensions (`private_partition`)
    repeats times: cubes with a random shift, tested with noise (`summaries.candidate_tree`)
    k of their centres by swaps that are drawn by their cost (`private_swaps`)
    noisy means of the k clusters among all features (`recovery`)
    trials times all of this; the best result is drawn by its cost
    noisy Lloyd steps from there

`candidate_choices` has a table of the numbers. With `theory=True` means are not shrunken, and there
are no Lloyd steps.

Budgets, sensitivities and tests of empty cubes are corrected: see `privacy/proofs/candidates.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from kvariates.data.lattice_rows import FARTHEST, on_unit_lattice, squared_distances
from kvariates.data.rows import F64, Labels, Rows, nearest_centers
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import Query, Scores, score_query
from kvariates.private_methods.candidate_choices import CandidateChoices, SearchPlan
from kvariates.private_methods.domain import solve, spread_out
from kvariates.private_methods.noisy_centers import CenterErrors, NoisyCounts
from kvariates.private_methods.noisy_lloyd import NoisyAssigner, ShrunkenMean
from kvariates.private_methods.noisy_tree import ResidualRadii, step_costs
from kvariates.private_methods.private_partition import (
    Projection,
    RemainingCost,
    find_candidates,
    unit_ball,
)
from kvariates.private_methods.private_swaps import PrivateChooser, draw_swaps
from kvariates.private_methods.recovery import Recovery
from kvariates.private_methods.run import PrivateResult, Traits
from kvariates.private_methods.task import PrivateTask, check_number
from kvariates.refining.swaps import MedoidProblem
from kvariates.summaries.candidate_tree import CandidatePoints

STEPS, PURE_STEPS = 5, 2  # of noisy Lloyd
LONG = 60.0  # seconds for 10,000 rows, of which theory=True warns
SWAP_SECONDS, PAIR_SECONDS = 1.5e-3, 3e-9  # of a swap; of a candidate and a row in it; two cores
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
    labels = rows.map(lambda of: nearest_centers(of, centers))
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


# proof: candidates.md
@dataclass(frozen=True)
class Candidates(CandidateChoices[PrivateTask]):
    """The method of Balcan et al.; the fields of `CandidateChoices`, and these.

    recovery : "dense", "threshold" or "picks" (see `recovery`); "auto": "dense" for dense rows.
    max_nonzeros : of sparse rows only the so many largest values are kept.
    max_value : the values of sparse rows are clipped to it; None: the radius of the domain.
    picks : features of a cluster, for recovery="picks".
    steps : of noisy Lloyd at the end; for sparse rows, more recoveries.
    step_share : of the budget, for the steps.
    """

    least = CandidateChoices.least | {"max_nonzeros": 1, "picks": 1, "steps": 0}

    recovery: Literal["auto", "dense", "threshold", "picks"] = "auto"
    max_nonzeros: int = 50
    max_value: float | None = None
    picks: int = 20
    steps: int | None = None
    step_share: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_value is not None:
            check_number("Candidates: max_value", self.max_value, 0.0, math.inf)
        if self.recovery not in (known := ("auto", "dense", "threshold", "picks")):
            raise ValueError(
                f"Candidates: recovery must be one of {', '.join(known)}; got {self.recovery!r}."
            )

    @property
    def traits(self) -> Traits:
        return Traits(counts=True, sparse=True, least_features=self.dimension or 0)

    def notice(self, k: int, n: int | None = None) -> str | None:
        """How long the printed numbers take, from public numbers alone; None if not long."""
        if not self.theory or self._seconds(10**4, k) < LONG:
            return None
        times = [f"{self._seconds(n, k):,.0f} s for {n:,} rows" for n in (10**3, 10**4, 10**5)]
        return (
            f"Candidates(theory=True) with {k} clusters takes about {', '.join(times)}; more with "
            "a huge epsilon. Give fewer swaps, repeats or trials, or use the defaults."
        )

    def _seconds(self, n: int, k: int) -> float:
        """About the time of theory=True, if the candidates are about as many as the repeats."""
        many = k * math.log(n / self.failure)
        swaps = 100 * many if self.swaps is None else self.swaps
        repeats = 27 * many if self.repeats is None else self.repeats
        trials = math.ceil(2 * math.log(1 / self.failure)) if self.trials is None else self.trials
        return trials * swaps * (SWAP_SECONDS + PAIR_SECONDS * repeats * n)

    def __call__(self, task: PrivateTask) -> PrivateResult:
        self.check_features(task.domain.d)
        return super().__call__(task)

    @property
    def _last(self) -> Fraction:
        return Fraction(self.step_share) * bool(self.steps)

    def _shape(self, task: PrivateTask, n: int) -> tuple[int, int]:
        return n, task.domain.d

    def _own(self, task: PrivateTask, cost: Cost) -> dict[str, Any]:
        usual = 1 if task.sparse else (PURE_STEPS if cost.pure else STEPS)
        return {"steps": 0 if self.theory else usual}

    def _run(
        self, task: PrivateTask, plan: TrialPlan, remaining: RemainingCost, accountant: Accountant
    ) -> KMeansTrials:
        few = replace(task, rows=task.rows.map(plan.recovery.few_values))
        return KMeansTrials(few, plan, self.steps or 0, remaining, accountant)

    def _plan(self, task: PrivateTask, n: int) -> TrialPlan:
        """Pre: all numbers are filled in."""
        kind: Any = self.recovery
        if kind == "auto":
            kind = "threshold" if task.sparse and not self.theory else "dense"
            kind = "picks" if task.sparse and self.theory else kind
        largest, step = task.domain.radius, task.domain.lattice.step
        if task.sparse and self.max_value is not None and self.max_value < largest:
            largest = max(1, math.floor(self.max_value / step)) * step  # rows stay on the lattice
        nonzeros = self.max_nonzeros if task.sparse else None
        recovery = Recovery(kind, nonzeros, largest, self.picks)
        return TrialPlan(**self._search(task, n), recovery=recovery, shrunken=not self.theory)


class KMeansTrials:
    """The trials of a fit, and `steps` noisy Lloyd steps after them."""

    def __init__(
        self, task: PrivateTask, plan: TrialPlan, steps: int, remaining: RemainingCost,
        accountant: Accountant,
    ) -> None:  # fmt: skip
        self._task, self._plan, self._steps = task, plan, steps
        self._remaining, self._accountant = remaining, accountant
        self._rng = np.random.default_rng()

    def trial(self) -> Trial:
        return run_trial(self._task, self._plan, self._remaining, self._accountant, self._rng)

    def best(self, found: list[Trial], cost: Cost) -> int:
        return best_trial(self._task, found, cost, self._accountant)

    def result(self, end: Trial, notes: tuple[str, ...]) -> PrivateResult:
        if self._steps:
            costs = self._remaining.rest.split([1.0] * self._steps)
            end = _refine(self._task, self._plan, end, costs, self._accountant)
        charges = tuple(self._accountant.charges)
        return PrivateResult(end.centers, charges, end.counts, notes, end.errors)


def _refine(
    task: PrivateTask, plan: TrialPlan, start: Trial, costs: list[Cost], accountant: Accountant
) -> Trial:
    """Noisy Lloyd steps on residuals; for sparse rows, labels by the centres and a recovery."""
    if plan.recovery.nonzeros is not None:
        for cost in costs:
            start = _recover_again(task, plan, start, cost, accountant)
        return start
    radii = ResidualRadii(task, start.counts.values, start.spreads)
    parts = [step_costs(cost, 1, task.domain.d)[0] for cost in costs]
    assigner = NoisyAssigner(task, parts, accountant, radii)
    centers = assigner.refine(start.centers, ShrunkenMean(assigner))
    return Trial(centers, assigner.cluster_counts, assigner.errors(centers), start.spreads)


def _recover_again(
    task: PrivateTask, plan: TrialPlan, start: Trial, cost: Cost, accountant: Accountant
) -> Trial:
    labels = task.rows.map(lambda rows: nearest_centers(rows, start.centers))
    clusters = plan.recovery(task, labels, cost, accountant)
    centers = task.domain.clip(clusters.shrunken_means(lambda _: start.centers))
    errors = clusters.errors(centers, task.domain)
    return Trial(centers, clusters.noisy_counts(), errors, start.spreads)
