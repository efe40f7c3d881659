"""What the methods of Balcan et al. 2017 share: numbers, a private partition, and trials.

Rows are projected at random into the unit ball of few dimensions, row by row. Rows are on a lattice
of 22 bits and the matrix has 12 bits after the point, so products and their sums are exact in
float64: a row's projection depends on that row alone, dense or sparse. Cubes with a random shift
are cut where their noisy counts are large, and their centres are the candidates (Algorithms 1, 2).

| what | `theory=True`, as printed (n rows, failure f) | default |
|---|---|---|
| dimension | 8 ln n | ln(n) / 2; all features if they are few |
| repeats | 27 k ln(n / f) | 1; 2 if rows are projected |
| levels | floor(ln n) + 1, one halving each | by n and the budget; three halvings first |
| threshold of a cube | 20 ln(n / f) / epsilon of a level | what noise alone passes once a level |
| first centres | uniform candidates | the best on the candidates, by their noisy counts |
| swaps | 100 k ln(n / f) | 0 |
| trials | 2 ln(1 / f) | 1 |

The paper's n is the number of rows. Where the rows are the demand of public points, the numbers are
made for the number of points.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Generic, Literal, Self

import numpy as np

from kvariates.data.lattice_rows import Adjacency, on_unit_lattice
from kvariates.data.rows import F64
from kvariates.privacy.budget import Cost
from kvariates.privacy.empty_cells import Passing
from kvariates.privacy.mechanisms import charge_of
from kvariates.privacy.query import Histogram, count_query, histogram_query
from kvariates.privacy.rounding import down
from kvariates.privacy.secret import Secret
from kvariates.private_methods.noisy_centers import passed_by_few
from kvariates.private_methods.noisy_tree import coarse
from kvariates.private_methods.task import PrivateMethod, PrivateResult, T
from kvariates.summaries.candidate_tree import CandidatePoints, Shifted, candidate_tree

SHARES = (1e-6, 1e6)  # limits of given shares of the budget
COUNT_SHARE = 0.01  # of the budget, if the number of rows is secret
MOST_GIVEN_LEVELS, MOST_THRESHOLD = 40, 1e12
FEW_FEATURES = 6  # up to so many are not projected
FIRST_HALVINGS = 3  # at once: larger cubes say little
MOST_LEVELS = 6
WORTH = 8.0  # levels are added while a threshold is below 1 / (8 k) of the rows
BLOCK = 1 << 22  # values
FALSE_CUBES = 1.0  # expected number of empty cubes of a level that pass
MOST_FALSE_CUBES = 1e5  # for any threshold that is given: a smaller one is raised
FEW_ROWS = 100  # a threshold above this and above the number of rows is warned of


def printed_numbers(n: int, d: int, k: int, failure: float) -> dict[str, int]:
    """What the paper fixes for n rows of d features and a probability of failure."""
    n = max(n, 2)
    many = math.log(n / failure)
    return {
        "dimension": min(d, math.ceil(8 * math.log(n))),
        "repeats": math.ceil(27 * k * many),
        "levels": math.floor(math.log(n)) + 1,
        "swaps": math.ceil(100 * k * many),
        "trials": math.ceil(2 * math.log(1 / failure)),
    }


@dataclass(frozen=True, eq=False)
class Projection:
    """x -> G'x / radius, clipped to the unit ball. Public. None: the rows themselves."""

    matrix: F64 | None  # (d, p)
    radius: float

    @classmethod
    def draw(cls, d: int, p: int, radius: float, rng: np.random.Generator) -> Projection:
        """A Gaussian matrix that keeps squared lengths on average."""
        if p == d:
            return cls(None, radius)
        return cls(coarse(rng.normal(size=(d, p)) / np.sqrt(p)), radius)

    def __call__(self, rows: Any) -> F64:
        """The projected rows on the unit lattice. `rows` may be CSR."""
        n, d = rows.shape
        p = d if self.matrix is None else self.matrix.shape[1]
        out, step = np.empty((n, p)), max(1, BLOCK // d)
        if not isinstance(rows, np.ndarray):
            step = max(1, n)
        for start in range(0, n, step):
            part = rows[start : start + step]
            if self.matrix is not None:
                part = part @ self.matrix
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            out[start : start + step] = on_unit_lattice(dense / self.radius)
        return out

    def lift(self, points: F64, mean: F64) -> F64:
        """The rows nearest to `mean` that have these projections, before clipping."""
        if self.matrix is None:
            return points * self.radius
        back = np.linalg.pinv(self.matrix.T)
        return np.asarray(mean + (points * self.radius - mean @ self.matrix) @ back.T)


class RemainingCost:
    """A cost of which weighted parts are taken.

    Parts of equal weights are equal. What was skipped goes to later parts by `share_skipped`.
    """

    def __init__(self, cost: Cost, weight: Fraction) -> None:
        self._pure, self._rest, self._left = cost.pure, Fraction(cost.value), weight
        self._unit = self._rest / weight

    def take(self, weight: Fraction) -> Cost:
        part = down(self._unit * weight)
        self._rest -= Fraction(part)
        self._left -= weight
        return self._cost(part)

    def skip(self, weight: Fraction) -> None:
        self._left -= weight

    def share_skipped(self) -> None:
        """Parts that are taken from now on become larger by what was skipped."""
        self._unit = self._rest / self._left

    @property
    def rest(self) -> Cost:
        return self._cost(down(self._rest))

    def _cost(self, value: float) -> Cost:
        return Cost(epsilon=value) if self._pure else Cost(rho=value)


@dataclass(frozen=True)
class SearchPlan:
    """The numbers of a trial, and the weights of its releases in the budget. Public or released."""

    dimension: int
    repeats: int
    halvings: tuple[int, ...]  # of the levels of a partition
    threshold: float | None  # rows; None: what noise alone passes in about one cube of a level
    widths: float | None  # the threshold in scales of the noise, if it is not given in rows
    most: int
    uniform: bool  # the first centres are drawn uniformly
    swaps: int
    level: Fraction
    swap: Fraction  # of one swap, and of the choice after all
    recover: Fraction

    @property
    def weight(self) -> Fraction:
        """Of all releases."""
        levels = self.level * self.repeats * len(self.halvings)
        return levels + self.swap * bool(self.swaps) * (self.swaps + 1) + self.recover

    def cut_above(self, adjacency: Adjacency, cost: Cost, children: int) -> float:
        """The threshold for a level with so many children and such a cost."""
        scale = charge_of(count_query([], adjacency, ""), cost).scale
        if self.threshold is not None:
            few = passed_by_few(MOST_FALSE_CUBES, children, laplace=cost.pure)
            return max(self.threshold, scale * few)
        if self.widths is not None:
            return self.widths * scale
        return scale * passed_by_few(FALSE_CUBES, children, laplace=cost.pure)

    def notes(self, adjacency: Adjacency, least: float, cost: Cost, rows: str) -> tuple[str, ...]:
        """What to say if no cube can be told from noise; `least`: how many rows there are.

        `rows`: what they are called.
        """
        above = self.cut_above(adjacency, cost, 1 << (self.dimension * self.halvings[0]))
        if above <= max(least, FEW_ROWS):
            return ()
        many = f"a cube is cut if it has more than {above:,.0f} {rows}. If all of them have fewer, "
        many += "there are no candidates, and the answer is close to a random one."
        if above == self.threshold:
            words = f"The threshold may be too large: {many} Give a smaller threshold, or None."
            return (words,)
        words = f"The budget may be too small for the partition: {many} Use a larger epsilon, or "
        return (f"{words}fewer repeats, levels, trials or swaps.",)


@dataclass(eq=False)
class Trials(Generic[T]):
    """The trials of a fit. `choices` are filled in: see `CandidateChoices`."""

    task: T
    choices: Any
    plan: SearchPlan
    remaining: RemainingCost

    @abstractmethod
    def trial(self) -> Any:
        """The result of one more trial."""

    @abstractmethod
    def best(self, found: list[Any], cost: Cost) -> int:
        """The number of a result of low cost, by the exponential mechanism."""

    @abstractmethod
    def result(self, end: Any, notes: tuple[str, ...]) -> PrivateResult:
        """The result of the fit, with what is left of the budget."""

    def candidates(self, rows: Secret[F64], rng: np.random.Generator) -> CandidatePoints:
        """Candidates of all repeats (Algorithm 2), on the unit lattice."""
        plan, remaining, found = self.plan, self.remaining, list[CandidatePoints]()
        adjacency, release = self.task.adjacency, self.task.accountant.release
        for repeat in range(1, plan.repeats + 1):

            def measure(counted: Secret[Histogram], level: int, active: int) -> Passing:
                cost = remaining.take(plan.level)
                children = active << (plan.dimension * plan.halvings[level])
                above = plan.cut_above(adjacency, cost, children)
                label = f"partition {repeat}, level {level + 1}: cubes"  # noqa: B023
                query = counted.map(lambda of: histogram_query(of, above, adjacency, label))
                return release(query, cost).value

            grid = Shifted.draw(plan.dimension, plan.halvings, rng)
            one = candidate_tree(rows, grid, plan.most, measure)
            remaining.skip(plan.level * (len(plan.halvings) - one.levels))
            found.append(one)
        remaining.share_skipped()
        points = on_unit_lattice(np.concatenate([f.points for f in found]))
        sides = np.concatenate([f.sides for f in found])
        weights = np.concatenate([f.weights for f in found]) / plan.repeats
        return CandidatePoints(points, sides, weights, max(f.levels for f in found))

    def swap_costs(self) -> list[Cost]:
        """Of the swaps, and of the choice after them."""
        return [self.remaining.take(self.plan.swap) for _ in range(self.plan.swaps + 1)]


@dataclass(frozen=True)
class CandidateChoices(PrivateMethod[T], Generic[T]):
    """Base of `Candidates` and `DemandCandidates`. None: a value by n, d, k and the budget.

    dimension : of the projection, at most the number of features.
    repeats : partitions with fresh shifts.
    levels : of a partition.
    threshold : the number of rows above which a cube is cut; raised if noise alone would cut more
        than about 100,000 empty cubes.
    max_candidates : cubes of a level that are kept, those with the largest noisy counts.
    start : "counts" or "uniform", the first centres among the candidates.
    swaps : drawn one after the other.
    trials : of all of the above and a recovery.
    partition_share, swap_share, recovery_share, choice_share : of the budget. Shares of parts that
        are left out go to the others.
    theory : use the values that the paper prints, where no other is given.
    failure : the probability of failure that these values are for.
    """

    trials_class: ClassVar[type[Trials[Any]]]
    least: ClassVar[dict[str, int]] = {
        "dimension": 1, "repeats": 1, "levels": 1, "max_candidates": 1, "swaps": 0, "trials": 1,
    }  # fmt: skip

    dimension: int | None = None
    repeats: int | None = None
    levels: int | None = None
    threshold: float | None = None
    max_candidates: int = 1000
    start: Literal["counts", "uniform"] | None = None
    swaps: int | None = None
    trials: int | None = None
    partition_share: float = 0.3
    swap_share: float = 0.15
    recovery_share: float = 0.2
    choice_share: float = 0.05
    theory: bool = False
    failure: float = 0.1

    def __post_init__(self) -> None:
        name, values = type(self).__name__, vars(self)
        for field, least in self.least.items():
            self.check_count(f"{name}: {field}", values[field], least)
        for field in values:
            if field.endswith("_share"):
                self.check_number(f"{name}: {field}", values[field], *SHARES)
        if self.levels is not None and self.levels > MOST_GIVEN_LEVELS:
            raise ValueError(
                f"{name}: levels must be at most {MOST_GIVEN_LEVELS}; got {self.levels!r}."
            )
        if self.threshold is not None:
            self.check_number(f"{name}: threshold", self.threshold, 0.0, MOST_THRESHOLD)
        if not 0 < self.failure < 1:
            raise ValueError(f"{name}: failure must be in (0, 1); got {self.failure!r}.")
        if self.start not in (None, "counts", "uniform"):
            raise ValueError(f"{name}: start must be 'counts' or 'uniform'; got {self.start!r}.")

    def with_theory(self, n: int, k: int) -> Self:
        """With the values that the paper prints, which are made in a fit."""
        return replace(self, theory=True)

    def __call__(self, task: T) -> PrivateResult:
        task = task.without_charges()
        count = task.row_count(COUNT_SHARE)
        cost, filled = count.costs[0], self._filled(task, count.n, count.costs[0])
        plan, trials = filled._plan(task, count.n), filled.trials or 1
        choice = Fraction(self.choice_share)
        weight = plan.weight * trials + choice * (trials > 1) + filled._last
        part = cost.split([plan.level, weight - plan.level])[0]
        error = 3 * sum(charge.deviation for charge in task.charges)
        notes = plan.notes(task.adjacency, count.n - error, part, task.kind.data)
        remaining = RemainingCost(cost, weight)
        run = self.trials_class(task, filled, plan, remaining)
        found = [run.trial() for _ in range(trials)]
        best = run.best(found, remaining.take(choice)) if trials > 1 else 0
        return run.result(found[best], notes)

    @property
    def _last(self) -> Fraction:
        """The weight of what follows after the trials."""
        return Fraction(0)

    @abstractmethod
    def _shape(self, task: T, n: int) -> tuple[int, int]:
        """The number of rows and of features that the numbers are made for."""

    @abstractmethod
    def _own(self, task: T, cost: Cost) -> dict[str, Any]:
        """Values of fields that only this method has."""

    def _filled(self, task: T, n: int, cost: Cost) -> Self:
        """The same choices, with numbers in the place of None. The threshold may stay None."""
        paper_n, d = self._shape(task, n)
        if self.theory:
            values = printed_numbers(paper_n, d, task.k, self.failure) | {"start": "uniform"}
        else:
            few = max(2, round(math.log(max(paper_n, 2)) / 2))
            projected = d > FEW_FEATURES
            values = {"dimension": min(d, few) if projected else d, "repeats": 1 + projected,
                      "start": "counts", "swaps": 0, "trials": 1}  # fmt: skip
        values |= self._own(task, cost)
        given = {name: value for name in values if (value := vars(self)[name]) is not None}
        filled = replace(self, **values | given)
        if filled.levels is not None:
            return filled
        return replace(filled, levels=filled._default_levels(task, n, cost))

    def _default_levels(self, task: T, n: int, cost: Cost) -> int:
        """As many as have thresholds far below the number of rows of a cluster."""
        levels = 1
        while levels < MOST_LEVELS:
            plan = replace(self, levels=levels + 1)._plan(task, n)
            part = cost.split([plan.level, plan.weight - plan.level])[0]
            above = plan.cut_above(task.adjacency, part, task.k << plan.dimension)
            if above * WORTH * task.k > n:
                break
            levels += 1
        return levels

    def _plan(self, task: T, n: int) -> SearchPlan:
        """The numbers of a trial. Pre: those of the choices are filled in."""
        dimension, repeats, levels = self.dimension, self.repeats, self.levels
        assert dimension and repeats and levels  # noqa: PT018, S101
        paper_n, swaps = max(self._shape(task, n)[0], 2), self.swaps
        return SearchPlan(
            dimension=dimension,
            repeats=repeats,
            halvings=(1 if self.theory else FIRST_HALVINGS, *(1 for _ in range(levels - 1))),
            threshold=self.threshold,
            widths=20 * math.log(paper_n / self.failure) if self.theory else None,
            most=self.max_candidates,
            uniform=self.start == "uniform",
            swaps=swaps or 0,
            level=Fraction(self.partition_share) / (repeats * levels),
            swap=Fraction(self.swap_share) / ((swaps or 0) + 1),
            recover=Fraction(self.recovery_share),
        )
