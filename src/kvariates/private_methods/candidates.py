"""Balcan et al. 2017: private candidates in few dimensions, private swaps, private recovery.

    rows are projected at random into the unit ball of few dimensions (`private_partition`)
    repeats times: cubes with a random shift, tested with noise (`summaries.candidate_tree`)
    k of their centres by swaps that are drawn by their cost (`private_swaps`)
    noisy means of the k clusters among all features (`recovery`)
    trials times all of this; the best result is drawn by its cost
    noisy Lloyd steps from there

| what | `theory=True`, as printed (n rows, failure f) | default |
|---|---|---|
| dimension | 8 ln n | ln(n) / 2; all features if they are few |
| repeats | 27 k ln(n / f) | 1; 2 if rows are projected |
| levels | floor(ln n) + 1, one halving each | by n and the budget; three halvings first |
| threshold of a cube | 20 ln(n / f) / epsilon of a level | what noise alone passes once a level |
| first centres | uniform candidates | k-means on the candidates, by their noisy counts |
| swaps | 100 k ln(n / f) | 0 |
| trials | 2 ln(1 / f) | 1 |
| recovery | noisy means | shrunken noisy means |
| Lloyd steps | 0 | a few |

Budgets, sensitivities and tests of empty cubes are corrected: see `privacy/proofs/candidates.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from numbers import Integral, Real
from typing import Any, Literal

import numpy as np

from kvariates.data.lattice_distances import FARTHEST, on_unit_lattice, squared_distances
from kvariates.data.rows import F64, Labels, Rows
from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import (
    Query,
    Scores,
    score_query,
)
from kvariates.private_methods.domain import solve, spread_out
from kvariates.private_methods.noisy_centers import CenterErrors, NoisyCounts
from kvariates.private_methods.noisy_lloyd import NoisyAssigner, ShrunkenMean
from kvariates.private_methods.noisy_tree import ResidualRadii, step_costs
from kvariates.private_methods.private_partition import (
    COUNT_SHARE,
    SHARES,
    PrintedNumbers,
    Projection,
    RemainingCost,
    SearchPlan,
    default_dimension,
    default_levels,
    default_repeats,
    find_candidates,
    partition_plan,
    unit_ball,
)
from kvariates.private_methods.private_swaps import PrivateChooser, draw_swaps
from kvariates.private_methods.recovery import Recovery
from kvariates.private_methods.run import PrivateMethod, PrivateResult, Traits
from kvariates.private_methods.task import PrivateTask, row_count
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


MOST_GIVEN_LEVELS, MOST_THRESHOLD = 40, 1e12
SWAPS = 0
STEPS, PURE_STEPS = 5, 2  # of noisy Lloyd
LONG = 60.0  # seconds for 10,000 rows, of which theory=True warns
SWAP_SECONDS, PAIR_SECONDS = 1.5e-3, 3e-9  # of a swap; of a candidate and a row in it; two cores


# proof: candidates.md
@dataclass(frozen=True)
class Candidates(PrivateMethod[PrivateTask]):
    """The method of Balcan et al. None: a value that follows from n, d, k and the budget.

    dimension : of the projection, at most the number of features.
    repeats : partitions with fresh shifts.
    levels : of a partition.
    threshold : the number of rows above which a cube is cut; raised if noise alone would cut more
        than about 100,000 empty cubes.
    max_candidates : cubes of a level that are kept, those with the largest noisy counts.
    start : "counts" or "uniform", the first centres among the candidates.
    swaps : drawn one after the other.
    trials : of all of the above.
    recovery : "dense", "threshold" or "picks" (see `recovery`); "auto": "dense" for dense rows.
    max_nonzeros : of sparse rows only the so many largest values are kept.
    max_value : the values of sparse rows are clipped to it; None: the radius of the domain.
    picks : features of a cluster, for recovery="picks".
    steps : of noisy Lloyd at the end; for sparse rows, more recoveries.
    partition_share, swap_share, recovery_share, step_share, choice_share : of the budget. Shares of
        parts that are left out go to the others.
    theory : use the values that the paper prints, where no other is given.
    failure : the probability of failure that these values are for.
    """

    dimension: int | None = None
    repeats: int | None = None
    levels: int | None = None
    threshold: float | None = None
    max_candidates: int = 1000
    start: Literal["counts", "uniform"] | None = None
    swaps: int | None = None
    trials: int | None = None
    recovery: Literal["auto", "dense", "threshold", "picks"] = "auto"
    max_nonzeros: int = 50
    max_value: float | None = None
    picks: int = 20
    steps: int | None = None
    partition_share: float = 0.3
    swap_share: float = 0.15
    recovery_share: float = 0.2
    step_share: float = 0.5
    choice_share: float = 0.05
    theory: bool = False
    failure: float = 0.1

    def __post_init__(self) -> None:
        least = {"dimension": 1, "repeats": 1, "levels": 1, "max_candidates": 1, "swaps": 0,
                 "trials": 1, "max_nonzeros": 1, "picks": 1, "steps": 0}  # fmt: skip
        if self.levels is not None and self.levels > MOST_GIVEN_LEVELS:
            raise ValueError(
                f"Candidates: levels must be at most {MOST_GIVEN_LEVELS}; got {self.levels!r}."
            )
        if self.threshold is not None and self.threshold > MOST_THRESHOLD:
            raise ValueError(
                f"Candidates: threshold must be at most {MOST_THRESHOLD:g}; got {self.threshold!r}."
            )
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, Integral) or value < low):
                raise ValueError(f"Candidates: {name} must be an integer >= {low}; got {value!r}.")
        shares = [name for name in vars(self) if name.endswith("_share")]
        least_share, most_share = SHARES
        for name in shares:
            value = getattr(self, name)
            if not (isinstance(value, Real) and least_share < float(value) < most_share):
                raise ValueError(
                    f"Candidates: {name} must be a number above {least_share:g} and below "
                    f"{most_share:g}; got {value!r}."
                )
        for name in ("threshold", "max_value"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, Real) and 0 < float(value) < math.inf):
                raise ValueError(f"Candidates: {name} must be a number > 0; got {value!r}.")
        if not 0 < self.failure < 1:
            raise ValueError(f"Candidates: failure must be in (0, 1); got {self.failure!r}.")
        words = {"start": ("counts", "uniform", None),
                 "recovery": ("auto", "dense", "threshold", "picks")}  # fmt: skip
        for name, known in words.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"Candidates: {name} must be one of {', '.join(filter(None, known))}; got "
                    f"{getattr(self, name)!r}."
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
        accountant, rng = Accountant(), np.random.default_rng()
        count = row_count(task, COUNT_SHARE, accountant)
        cost = count.costs[0]
        filled = self._filled(task, count.n, cost)
        plan = filled._plan(task, count.n)
        task = replace(task, rows=task.rows.map(plan.recovery.few_values))
        choice, last = Fraction(self.choice_share), Fraction(self.step_share)
        trials, steps = filled.trials or 1, filled.steps or 0
        weight = plan.weight * trials + choice * (trials > 1) + last * bool(steps)
        level = plan.partition.level
        part = cost.split([level, weight - level])[0]
        error = 3 * sum(math.sqrt(charge.variance) for charge in accountant.charges)
        warning = plan.partition.warning(task.adjacency, count.n - error, part)
        remaining = RemainingCost(cost, weight)
        found = [run_trial(task, plan, remaining, accountant, rng) for _ in range(trials)]
        number = best_trial(task, found, remaining.take(choice), accountant) if trials > 1 else 0
        end = found[number]
        if steps:
            end = _refine(task, plan, end, remaining.rest.split([1.0] * steps), accountant)
        notes, charges = () if warning is None else (warning,), tuple(accountant.charges)
        return PrivateResult(end.centers, charges, end.counts, notes=notes, errors=end.errors)

    def _filled(self, task: PrivateTask, n: int, cost: Cost) -> Candidates:
        """The same choices, with numbers in the place of None. The threshold may stay None."""
        d, k = task.domain.d, task.k
        if self.theory:
            printed = PrintedNumbers.of(n, d, k, self.failure)
            values: dict[str, Any] = {
                "dimension": printed.dimension,
                "repeats": printed.repeats,
                "levels": printed.levels,
                "start": "uniform",
                "swaps": printed.swaps,
                "trials": printed.trials,
                "steps": 0,
            }
        else:
            values = {
                "dimension": default_dimension(d, n),
                "repeats": default_repeats(d),
                "start": "counts",
                "swaps": SWAPS,
                "trials": 1,
                "steps": 1 if task.sparse else (PURE_STEPS if cost.pure else STEPS),
            }
        given = {name: value for name in values if (value := getattr(self, name)) is not None}
        filled = replace(self, **values | given)
        if filled.levels is None:
            filled = replace(filled, levels=filled._levels(task, n, cost))
        return filled

    def _levels(self, task: PrivateTask, n: int, cost: Cost) -> int:
        """As many as the budget is enough for."""

        def plan(levels: int) -> TrialPlan:
            return replace(self, levels=levels)._plan(task, n)

        return default_levels(plan, task.k, n, task.adjacency, cost)

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
        swaps = self.swaps or 0
        printed = PrintedNumbers.of(n, task.domain.d, task.k, self.failure)
        return TrialPlan(
            partition=partition_plan(self, printed if self.theory else None),
            uniform=self.start == "uniform",
            swaps=swaps,
            recovery=Recovery(kind, nonzeros, largest, self.picks),
            shrunken=not self.theory,
            swap=Fraction(self.swap_share) / (swaps + 1),
            recover=Fraction(self.recovery_share),
        )


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
    labels = task.rows.map(lambda rows: Rows.of(rows).nearest(start.centers))
    clusters = plan.recovery(task, labels, cost, accountant)
    centers = task.domain.clip(clusters.shrunken_means(lambda _: start.centers))
    errors = clusters.errors(centers, task.domain)
    return Trial(centers, clusters.noisy_counts(), errors, start.spreads)
