"""What a private method is given, what it declares, what it gives back, and its run.

    PrivateTask     rows in a public domain, for k-means
    DemandTask      the demand of public points, for k-median
    PrivateMethod   an object with fixed choices, called with a task; `traits` say what it is
    PrivateResult   centres or medoids, and the charges of all releases they were computed from

Rows are centred, clipped to the domain and rounded to its lattice, each independently, so that
their sums are exact. The demand is a list of numbers of public points, with repeats, and one of its
entries is what is protected. A method gets either as a `Secret`: it can make queries from it, and
cannot read it. Anything else that it decides by is public (k, d, the domain, the space, the budget,
random draws without the data; the number of rows only under replace-one) or was released.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvariates.data.lattice_rows import Adjacency, Lattice, farthest
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, nearest_centers
from kvariates.numerics.draws import I64
from kvariates.privacy.budget import Cost, Loss
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import Accountant, Release
from kvariates.privacy.query import Scores, count_query, score_query, sum_query, total_query
from kvariates.privacy.rounding import rho_for
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import Domain
from kvariates.private_methods.noisy_centers import (
    OF_DEMAND,
    OF_ROWS,
    UNKNOWN,
    CenterErrors,
    Kind,
    NoisyCounts,
    about_swaps,
)

S = TypeVar("S", bound=NDArray[Any])


@dataclass(frozen=True)
class RowCount:
    """A number of rows, at least 1, that may decide anything; and the rest of the budget."""

    n: int
    costs: list[Cost]


class Task(ABC, Generic[S]):
    """The input of a private method; `rows` are secret: points, or entries of a demand.

    kind : what is counted, in words.
    count_label : of a release of the number of rows.
    part : what may be spent here, if not the whole loss.
    accountant : makes the releases, and keeps their charges.
    """

    kind: ClassVar[Kind]
    count_label: ClassVar[str]
    rows: Secret[S]
    k: int
    adjacency: Adjacency
    loss: Loss
    part: Cost | None
    accountant: Accountant

    @cached_property
    def cost(self) -> Cost:
        """What may be spent: an epsilon, or a rho if delta > 0."""
        if self.part is not None:
            return self.part
        pure = self.loss.delta == 0
        return Cost(epsilon=self.loss.epsilon) if pure else Cost(rho=rho_for(*self.loss))

    def with_part(self, part: Cost) -> Self:
        """The same task, with less to spend."""
        return replace(self, part=part)  # type: ignore[type-var]

    def without_charges(self) -> Self:
        """The same task, of which nothing was released yet."""
        return replace(self, accountant=Accountant())  # type: ignore[type-var]

    @property
    def charges(self) -> list[Charge]:
        return self.accountant.charges

    @property
    def pure(self) -> bool:
        return self.cost.pure

    @cached_property
    def public_n(self) -> int | None:
        """The number of rows if it is public, under replace-one."""
        if self.adjacency == "add-remove":
            return None
        return self.rows.map(_number).reveal("the number of rows is public under replace-one")

    def number_of_rows(self, cost: Cost) -> int:
        """A noisy one."""
        adjacency, label = self.adjacency, self.count_label
        query = self.rows.map(lambda rows: total_query(_number(rows), adjacency, label))
        return self.accountant.release(query, cost).value

    def counts(self, exact: Secret[I64], label: str, cost: Cost) -> Release[I64]:
        """Noisy counts of disjoint cells."""
        adjacency = self.adjacency
        return self.accountant.release(
            exact.map(lambda of: count_query(of, adjacency, label)), cost
        )

    def sums(
        self, exact: Secret[F64], lattice: Lattice, label: str, cost: Cost,
        change: Adjacency | None = None,
    ) -> Release[F64]:  # fmt: skip
        """Noisy sums of rows on the lattice."""
        adjacency = self.adjacency
        query = exact.map(lambda of: sum_query(of, lattice, adjacency, label, change))
        return self.accountant.release(query, cost)

    def choose(
        self, scores: Secret[F64], moved: Scores, label: str, cost: Cost,
        change: Adjacency | None = None, parallel: str | None = None,
    ) -> int:  # fmt: skip
        """The index of a high score."""
        adjacency = self.adjacency
        query = scores.map(lambda of: score_query(of, moved, adjacency, label, change, parallel))
        return self.accountant.release(query, cost).value

    def row_count(self, share: float, shares: Sequence[float] = (1.0,)) -> RowCount:
        """The number of rows. A noisy one, for `share` of the budget, if the exact one is secret.

        The rest of the budget is split by `shares`.
        """
        if self.public_n is not None:
            return RowCount(max(1, self.public_n), self.cost.split(shares))
        whole = sum(shares)
        first, *costs = self.cost.split([share, *((1.0 - share) * part / whole for part in shares)])
        return RowCount(max(1, self.number_of_rows(first)), costs)

    def count_cells(
        self, cell_of: Callable[[S], NDArray[Any]], number: int, label: str, cost: Cost
    ) -> Release[I64]:
        """Noisy numbers of the rows in disjoint cells 0 .. number - 1; a row in cell -1 is in none.

        Empty cells have noise, too.
        """
        exact = self.rows.map(lambda of: np.bincount(cell_of(of) + 1, minlength=number + 1)[1:])
        return self.counts(exact, label, cost)

    @abstractmethod
    def count_clusters(self, centers: Any, cost: Cost) -> Release[I64]:
        """Noisy numbers of the rows of each centre."""

    def only_centers(self) -> Any:
        """The centres that any method would find; None if there is a choice."""
        return None


def _number(rows: NDArray[Any]) -> int:
    return int(rows.shape[0])


@dataclass(frozen=True, eq=False)
class PrivateTask(Task[F64]):
    """The input of a private method of k-means. `sparse`: whether the rows are CSR."""

    kind = OF_ROWS
    count_label = "number of rows"

    rows: Secret[F64]
    domain: Domain
    k: int
    adjacency: Adjacency
    loss: Loss
    part: Cost | None = None
    sparse: bool = False
    accountant: Accountant = field(default_factory=Accountant)

    @property
    def narrowest_lattice(self) -> Lattice:
        """The lattice with the least sensitivity: in l1 for Laplace noise, in l2 for Gaussian."""
        if not self.pure or self.domain.ball:
            return self.domain.lattice
        # The l1 norm of a box is smaller than that of the ball around it, unless it is a cube.
        return self.domain.l1_lattice

    def count_clusters(self, centers: F64, cost: Cost) -> Release[I64]:
        def nearest(rows: F64) -> NDArray[np.int32]:
            return nearest_centers(rows, centers)

        return self.count_cells(nearest, self.k, "rows of each centre", cost)


@dataclass(frozen=True, eq=False)
class DemandTask(Task[Ints]):
    """The input of a private method of k-median: public points; the rows are numbers of points.

    rng : for public draws only.
    diameter : no distance counts more; None: computed.
    """

    kind = OF_DEMAND
    count_label = "size of the demand"

    space: MetricSpace
    rows: Secret[Ints]
    k: int
    adjacency: Adjacency
    loss: Loss
    rng: np.random.Generator
    diameter: float | None = None
    part: Cost | None = None
    accountant: Accountant = field(default_factory=Accountant)

    @cached_property
    def cap(self) -> float:
        """The largest loss of one point of the demand: a positive bound on distances."""
        given = farthest(self.space, self.rng) if self.diameter is None else self.diameter
        return given or 1.0

    def count(self, cells: Ints, number: int, label: str, cost: Cost) -> Release[I64]:
        """Noisy demand of cells; `cells`: the cell of each point of the space, -1 for none."""

        def cell_of(demand: Ints) -> Ints:
            return np.asarray(cells[demand])

        return self.count_cells(cell_of, number, label, cost)

    def count_clusters(self, centers: Ints, cost: Cost) -> Release[I64]:
        nearest = self.space.two_nearest(centers).labels.astype(np.int64)
        return self.count(nearest, self.k, "demand of each medoid", cost)

    def only_centers(self) -> Any:
        return np.arange(self.k) if self.space.n == self.k else None


T = TypeVar("T", bound=Task[Any])

COUNTS_SHARE = 0.05  # of the budget, for counts of clusters, if a method releases none


@dataclass(frozen=True, eq=False)
class PrivateResult:
    """Centred centres, or numbers of medoids, and the charges of what they were computed from.

    counts : noisy numbers of rows of the centres; None if the method releases none.
    notes : what the caller should be told about the result, from public or released numbers.
    errors : of the centres.
    path : the sets of medoids of a private search, from its start on; all are released.
    reach : how many far points weigh as much as the noise of a swap of that search.
    """

    centers: NDArray[Any]
    charges: Sequence[Charge]
    counts: NoisyCounts | None = None
    notes: tuple[str, ...] = ()
    errors: CenterErrors = UNKNOWN
    path: Sequence[NDArray[np.int64]] = ()
    reach: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "charges", tuple(self.charges))


@dataclass(frozen=True)
class Traits:
    """What a private method is; known before a budget is spent.

    counts : it releases the numbers of rows of its clusters. For another method, a part of the
        budget is kept for them.
    pure : it spends an epsilon and no delta, also if there is a delta.
    sparse : it takes CSR rows.
    euclidean : of k-median: it needs rows and Euclidean distances.
    swaps : of k-median: `n_swaps` is its number of private swaps.
    least_features : rows must have so many features, for a `dimension` that was given.
    condition : what its claim assumes about the data; None if nothing.
    missing : why it cannot run, if it needs a choice that was not made.
    """

    counts: bool = False
    pure: bool = False
    sparse: bool = False
    euclidean: bool = False
    swaps: bool = False
    least_features: int = 0
    condition: str | None = None
    missing: str | None = None


class PrivateMethod(Generic[T]):
    """Base of the private methods, which are frozen dataclasses of their choices."""

    @property
    def traits(self) -> Traits:
        return Traits()

    def notice(self, k: int, n: int | None = None) -> str | None:
        """What to say before a budget is spent, from k and the number of public points."""
        return None

    def with_theory(self, n: int, k: int) -> PrivateMethod[T] | None:
        """With the values that its paper prints for n public points; None if there are none."""
        return None

    def __call__(self, task: T) -> PrivateResult:
        """The centres of the task. Randomness that privacy needs comes from `privacy`."""
        raise NotImplementedError

    def check_features(self, d: int | None) -> None:
        """ValueError if rows have too few features; None: the number is not known yet."""
        if d is not None and (least := self.traits.least_features) > d:
            raise ValueError(
                f"{type(self).__name__}: dimension={least} is above the number of features, {d}; "
                "give a smaller one, or None."
            )

    @staticmethod
    def check_count(name: str, value: Any, least: int, *, optional: bool = True) -> None:
        """ValueError unless it is an integer, at least `least`, or None where that is allowed."""
        if optional and value is None:
            return
        if not isinstance(value, Integral) or int(value) < least:
            raise ValueError(f"{name} must be an integer >= {least}; got {value!r}.")

    @staticmethod
    def check_number(name: str, value: Any, low: float, high: float) -> None:
        """ValueError unless it is a number between the two."""
        if not isinstance(value, Real) or not low < float(value) < high:
            raise ValueError(
                f"{name} must be a number above {low:g} and below {high:g}; got {value!r}."
            )


@dataclass(frozen=True)
class FunctionMethod(PrivateMethod[T]):
    """A plain function as a method, without traits."""

    function: Callable[[T], PrivateResult]

    def __call__(self, task: T) -> PrivateResult:
        return self.function(task)


def as_method(method: PrivateMethod[T] | Callable[[T], PrivateResult]) -> PrivateMethod[T]:
    """A method; a plain function becomes one."""
    return method if isinstance(method, PrivateMethod) else FunctionMethod(method)


def run_method(method: PrivateMethod[T] | Callable[[T], PrivateResult], task: T) -> PrivateResult:
    """The result of a method with noisy counts of its clusters, and what noise made of them.

    A method that does not release counts gets less of the budget.
    """
    method = as_method(method)
    counting = Cost(epsilon=task.loss.epsilon) if method.traits.pure else task.cost
    if (only := task.only_centers()) is not None:
        result = PrivateResult(only, ())
    elif method.traits.counts:
        return _with_notes(method(task), task)
    else:
        counting, rest = counting.split([COUNTS_SHARE, 1 - COUNTS_SHARE])
        result = method(task.with_part(rest))
    task = task.without_charges()
    counted = task.count_clusters(result.centers, counting)
    notes = result.notes or about_swaps(result.reach, float(counted.value.sum()))
    counts = NoisyCounts.of(counted.value, counted.charge.deviation)
    charges = (*result.charges, *task.charges)
    return _with_notes(replace(result, counts=counts, charges=charges, notes=notes), task)


def _with_notes(result: PrivateResult, task: Task[Any]) -> PrivateResult:
    """The result, with a note if counts may be noise alone, and no error bars there."""
    if result.counts is None:
        return result
    notes = (*result.notes, *result.counts.notes(pure=task.loss.delta == 0, kind=task.kind))
    errors = result.errors.without(result.counts.doubtful[:, None])
    return replace(result, notes=notes, errors=errors)
