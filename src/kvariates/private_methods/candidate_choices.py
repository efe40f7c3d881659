"""The choices of the methods of Balcan et al. 2017, and their run: trials, and the best of them.

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
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

from kvariates.privacy.budget import Cost
from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods.private_partition import CubesPlan, RemainingCost
from kvariates.private_methods.run import PrivateMethod, PrivateResult, T
from kvariates.private_methods.task import check_count, check_number, row_count

SHARES = (1e-6, 1e6)  # limits of given shares of the budget
COUNT_SHARE = 0.01  # of the budget, if the number of rows is secret
MOST_GIVEN_LEVELS, MOST_THRESHOLD = 40, 1e12
FEW_FEATURES = 6  # up to so many are not projected
FIRST_HALVINGS = 3  # at once: larger cubes say little
MOST_LEVELS = 6
WORTH = 8.0  # levels are added while a threshold is below 1 / (8 k) of the rows

R = TypeVar("R")


@dataclass(frozen=True)
class SearchPlan:
    """The numbers of a partition and of what follows it, and the weights of their releases."""

    partition: CubesPlan
    uniform: bool  # the first centres are drawn uniformly
    swaps: int
    swap: Fraction  # of one swap, and of the choice after all
    recover: Fraction

    @property
    def weight(self) -> Fraction:
        """Of all releases."""
        swaps = self.swap * bool(self.swaps) * (self.swaps + 1)
        return self.partition.weight + swaps + self.recover


class Trials(Protocol[R]):
    """The trials of a fit."""

    def trial(self) -> R:
        """The result of one more trial."""

    def best(self, found: list[R], cost: Cost) -> int:
        """The number of a result of low cost, by the exponential mechanism."""

    def result(self, end: R, notes: tuple[str, ...]) -> PrivateResult:
        """The result of the fit, with what is left of the budget."""


@dataclass(frozen=True)
class PrintedNumbers:
    """What the paper fixes for n rows of d features and a probability of failure."""

    dimension: int
    repeats: int
    levels: int
    widths: float  # of the threshold, in scales of the noise
    swaps: int
    trials: int

    @classmethod
    def of(cls, n: int, d: int, k: int, failure: float) -> PrintedNumbers:
        n = max(n, 2)
        many = math.log(n / failure)
        return cls(
            dimension=min(d, math.ceil(8 * math.log(n))),
            repeats=math.ceil(27 * k * many),
            levels=math.floor(math.log(n)) + 1,
            widths=20 * many,
            swaps=math.ceil(100 * k * many),
            trials=math.ceil(2 * math.log(1 / failure)),
        )


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
            check_count(f"{name}: {field}", values[field], least)
        for field in values:
            if field.endswith("_share"):
                check_number(f"{name}: {field}", values[field], *SHARES)
        if self.levels is not None and self.levels > MOST_GIVEN_LEVELS:
            raise ValueError(
                f"{name}: levels must be at most {MOST_GIVEN_LEVELS}; got {self.levels!r}."
            )
        if self.threshold is not None:
            check_number(f"{name}: threshold", self.threshold, 0.0, MOST_THRESHOLD)
        if not 0 < self.failure < 1:
            raise ValueError(f"{name}: failure must be in (0, 1); got {self.failure!r}.")
        if self.start not in (None, "counts", "uniform"):
            raise ValueError(f"{name}: start must be 'counts' or 'uniform'; got {self.start!r}.")

    def with_theory(self, n: int, k: int) -> Self:
        """With the values that the paper prints, which are made in a fit."""
        return replace(self, theory=True)

    def __call__(self, task: T) -> PrivateResult:
        accountant = Accountant()
        count = row_count(task, COUNT_SHARE, accountant)
        cost, filled = count.costs[0], self._filled(task, count.n, count.costs[0])
        plan, trials = filled._plan(task, count.n), filled.trials or 1
        choice, level = Fraction(self.choice_share), plan.partition.level
        weight = plan.weight * trials + choice * (trials > 1) + filled._last
        part = cost.split([level, weight - level])[0]
        error = 3 * sum(math.sqrt(charge.variance) for charge in accountant.charges)
        notes = plan.partition.notes(task.adjacency, count.n - error, part, task.kind.data)
        remaining = RemainingCost(cost, weight)
        run = filled._run(task, plan, remaining, accountant)
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

    @abstractmethod
    def _plan(self, task: T, n: int) -> SearchPlan:
        """The numbers of a trial. Pre: those of the choices are filled in."""

    @abstractmethod
    def _run(
        self, task: T, plan: Any, remaining: RemainingCost, accountant: Accountant
    ) -> Trials[Any]:
        """What makes the trials."""

    def _filled(self, task: T, n: int, cost: Cost) -> Self:
        """The same choices, with numbers in the place of None. The threshold may stay None."""
        paper_n, d = self._shape(task, n)
        if self.theory:
            printed = PrintedNumbers.of(paper_n, d, task.k, self.failure)
            names = ("dimension", "repeats", "levels", "swaps", "trials")
            values = {name: vars(printed)[name] for name in names} | {"start": "uniform"}
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
            cubes = plan.partition
            part = cost.split([cubes.level, plan.weight - cubes.level])[0]
            above = cubes.cut_above(task.adjacency, part, task.k << cubes.dimension)
            if above * WORTH * task.k > n:
                break
            levels += 1
        return levels

    def _search(self, task: T, n: int) -> dict[str, Any]:
        """The fields of `SearchPlan`."""
        dimension, repeats, levels = self.dimension, self.repeats, self.levels
        assert dimension and repeats and levels  # noqa: PT018, S101
        printed = PrintedNumbers.of(*self._shape(task, n), task.k, self.failure)
        partition = CubesPlan(
            dimension=dimension,
            repeats=repeats,
            halvings=(1 if self.theory else FIRST_HALVINGS, *(1 for _ in range(levels - 1))),
            threshold=self.threshold,
            widths=printed.widths if self.theory else None,
            most=self.max_candidates,
            level=Fraction(self.partition_share) / (repeats * levels),
        )
        swaps = self.swaps or 0
        return {
            "partition": partition, "uniform": self.start == "uniform", "swaps": swaps,
            "swap": Fraction(self.swap_share) / (swaps + 1),
            "recover": Fraction(self.recovery_share),
        }  # fmt: skip
