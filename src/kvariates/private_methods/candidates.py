"""Balcan et al. 2017: private candidates in few dimensions, private swaps, private recovery.

    rows are projected at random into the unit ball of few dimensions (`candidate_trials`)
    repeats times: cubes with a random shift, tested with noise (`summaries.candidate_tree`)
    k of their centres by swaps that are drawn by their cost (`private_swaps`)
    noisy means of the k clusters among all features (`recovery`)
    trials times all of this; the best result is drawn by its cost
    noisy Lloyd steps from there

`candidate_trials` has a table of the numbers. With `theory=True` means are not shrunken, and there
are no Lloyd steps.

Budgets, sensitivities and tests of empty cubes are corrected: see `privacy/proofs/candidates.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Literal

import numpy as np

from kvariates.data.lattice_rows import FARTHEST, on_unit_lattice, squared_distances
from kvariates.data.rows import F64, Rows, nearest_centers
from kvariates.privacy.budget import Cost
from kvariates.privacy.query import Scores
from kvariates.privacy.secret import Secret
from kvariates.private_methods.candidate_trials import CandidateChoices, Projection, Trials
from kvariates.private_methods.domain import Domain, solve, spread_out
from kvariates.private_methods.noisy_centers import CenterErrors, NoisyCounts, mean_costs
from kvariates.private_methods.noisy_lloyd import NoisyAssigner
from kvariates.private_methods.noisy_tree import ResidualRadii, step_costs
from kvariates.private_methods.private_swaps import PrivateChooser, draw_swaps
from kvariates.private_methods.recovery import Recovery
from kvariates.private_methods.task import PrivateResult, PrivateTask, Traits
from kvariates.refining.swaps import MedoidProblem
from kvariates.summaries.candidate_tree import CandidatePoints

STEPS, PURE_STEPS = 5, 2  # of noisy Lloyd
LONG = 60.0  # seconds for 10,000 rows, of which theory=True warns
SWAP_SECONDS, PAIR_SECONDS = 1.5e-3, 3e-9  # of a swap; of a candidate and a row in it; two cores
COST_STEPS = 2**20  # of the largest cost of a row, in the choice of a trial


@dataclass(frozen=True, eq=False)
class Trial:
    """Centres and noisy counts, and what was released about the clusters' sizes in few dimensions.

    spreads : about the root mean squared distance of the rows of each centre.
    """

    centers: F64
    counts: NoisyCounts
    errors: CenterErrors
    spreads: F64


@dataclass(eq=False)
class KMeansTrials(Trials[PrivateTask]):
    """The trials of a fit, dense or CSR, and noisy Lloyd steps after them."""

    def __post_init__(self) -> None:
        self.recovery: Recovery = self.choices.recovery_of(self.task)
        self.task = replace(self.task, rows=self.task.rows.map(self.recovery.few_values))
        self.rng = np.random.default_rng()

    def trial(self) -> Trial:
        domain, plan, rng, k = self.task.domain, self.plan, self.rng, self.task.k
        project = Projection.draw(domain.d, plan.dimension, domain.radius, rng)
        rows = self.task.rows.map(project)
        found = self.candidates(rows, rng)
        start = np.empty((0, plan.dimension)) if plan.uniform else _by_counts(found, k, rng)
        points = _with_others(start, found.points, k, rng)
        chosen = rng.choice(len(points), k, replace=False) if plan.uniform else np.arange(k)
        if plan.swaps:
            choose = PrivateChooser(self.task, FARTHEST, 1.0, self.swap_costs())
            problem = rows.map(partial(_problem, points))
            chosen = draw_swaps(problem, chosen, len(points), plan.swaps, choose).medoids
        centers = points[chosen]
        guess = None if self.choices.theory else partial(project.lift, centers)
        spreads = domain.radius * _spreads(found, centers)
        return self._recovered(rows, centers, self.remaining.take(plan.recover), guess, spreads)

    def _recovered(
        self, rows: Secret[F64], centers: F64, cost: Cost, guess: Callable[[F64], F64] | None,
        spreads: F64,
    ) -> Trial:  # fmt: skip
        """The clusters of these centres of rows, among all features; shrunken with a guess."""
        domain, labels = self.task.domain, rows.map(lambda of: nearest_centers(of, centers))
        clusters = self.recovery(self.task, labels, cost)
        means = clusters.means() if guess is None else clusters.shrunken_means(guess)
        counts = NoisyCounts.of(clusters.counts, clusters.counted.deviation)
        lifted = domain.clip(means)
        return Trial(lifted, counts, clusters.errors(lifted, domain), spreads)

    def best(self, found: list[Trial], cost: Cost) -> int:
        """Among all features."""
        task, unit = self.task, (2 * self.task.domain.radius) ** 2 * (1 + 1e-9) / COST_STEPS

        def scores(rows: Any) -> F64:
            return -np.array([_whole_cost(Rows.of(rows), trial.centers, unit) for trial in found])

        moved = Scores(float(COST_STEPS), monotone=True)
        return task.choose(task.rows.map(scores), moved, "the best trial", cost)

    def result(self, end: Trial, notes: tuple[str, ...]) -> PrivateResult:
        if steps := self.choices.steps:
            end = self._refined(end, self.remaining.rest.split([1.0] * steps))
        return PrivateResult(end.centers, self.task.charges, end.counts, notes, end.errors)

    def _refined(self, end: Trial, costs: list[Cost]) -> Trial:
        """Noisy Lloyd steps on residuals; for sparse rows, labels by the centres and a recovery."""
        task = self.task
        if self.recovery.nonzeros is not None:
            for cost in costs:
                at = end.centers
                end = self._recovered(task.rows, at, cost, lambda _: at, end.spreads)  # noqa: B023
            return end
        radii = ResidualRadii(task, end.counts.values, end.spreads)
        parts = [step_costs(cost, 1, task.domain.d)[0] for cost in costs]
        assigner = NoisyAssigner(task, parts, radii)
        centers = assigner.refine(end.centers)
        return Trial(centers, assigner.cluster_counts, assigner.errors(centers), end.spreads)


def _whole_cost(rows: Rows, centers: F64, unit: float) -> float:
    """The sum of every row's cost in whole units, at most COST_STEPS: exact below 2^53."""
    costs = rows.costs(centers, rows.nearest(centers)) / unit
    return float(np.minimum(np.floor(costs), COST_STEPS).astype(np.int64).sum())


def _problem(points: F64, rows: F64) -> MedoidProblem:
    return MedoidProblem(squared_distances(points, rows), None, np.arange(len(rows)))


def _by_counts(found: CandidatePoints, k: int, rng: np.random.Generator) -> F64:
    """k-means on the candidates by their noisy counts, on the unit lattice."""
    heavy = found.weights > 0
    ball = Domain.around(np.zeros(found.points.shape[1]), 1.0)
    return on_unit_lattice(solve(ball, found.points[heavy], found.weights[heavy], k, rng))


def _with_others(first: F64, others: F64, k: int, rng: np.random.Generator) -> F64:
    """The candidates, `first` first; random points are added if there are not more than k."""
    points = np.concatenate([first, np.unique(others, axis=0)])
    if len(points) <= k:
        ball = Domain.around(np.zeros(points.shape[1]), 1.0)
        more = spread_out(ball, k + 1 - len(points), rng)
        points = np.concatenate([points, on_unit_lattice(more)])
    return np.ascontiguousarray(points)


def _spreads(found: CandidatePoints, centers: F64) -> F64:
    """The root mean squared distance of the rows of each centre, by cubes and their counts."""
    p = centers.shape[1]
    rows, centers = Rows.of(np.ascontiguousarray(found.points)), np.ascontiguousarray(centers)
    labels = rows.nearest(centers)
    squared = rows.costs(centers, labels) + p * found.sides**2 / 12
    weights = found.weights
    whole = float(weights @ squared / weights.sum()) if weights.any() else 1.0
    mean = mean_costs(labels, squared, weights, len(centers), whole)
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

    trials_class = KMeansTrials
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
            self.check_number("Candidates: max_value", self.max_value, 0.0, math.inf)
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

    def recovery_of(self, task: PrivateTask) -> Recovery:
        kind: Any = self.recovery
        if kind == "auto":
            kind = "threshold" if task.sparse and not self.theory else "dense"
            kind = "picks" if task.sparse and self.theory else kind
        largest, step = task.domain.radius, task.domain.lattice.step
        if task.sparse and self.max_value is not None and self.max_value < largest:
            largest = max(1, math.floor(self.max_value / step)) * step  # rows stay on the lattice
        nonzeros = self.max_nonzeros if task.sparse else None
        return Recovery(kind, nonzeros, largest, self.picks)
