"""The input and the result of a private method, and the run of one.

    task:    a secret (rows in a domain, or the demand of public points), k, an adjacency, a budget
    method:  an object with fixed choices, called with a task
    result:  centres or medoids, and the charges of all releases they were computed from

Rows are centred, clipped to the domain and rounded to its lattice, each independently, so that
their sums are exact. The demand is a list of numbers of public points, with repeats, and one of its
entries is what is protected. A method gets either as a `Secret`: it can make queries from it, and
cannot read it. Anything else that it decides by is public (k, d, the domain, the space, the budget,
random draws without the data; the number of rows only under replace-one) or was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np

from kvariates.data.capped_distances import farthest
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64, Rows
from kvariates.numerics.lattice import Adjacency, Lattice
from kvariates.privacy.budget import Cost, Loss
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import I64, Query, count_query, total_query
from kvariates.privacy.rounding import rho_for
from kvariates.privacy.secret import Secret
from kvariates.private_methods.domain import Domain
from kvariates.private_methods.noisy_centers import OF_DEMAND, UNKNOWN, CenterErrors, NoisyCounts


def _number(rows: Any) -> int:
    return int(rows.shape[0])


def whole_cost(loss: Loss) -> Cost:
    """All of a loss as one cost: an epsilon, or a rho if delta > 0."""
    return Cost(epsilon=loss.epsilon) if loss.delta == 0 else Cost(rho=rho_for(*loss))


@dataclass(frozen=True, eq=False)
class PrivateTask:
    """The input of a private method."""

    number_label: ClassVar[str] = "number of rows"

    rows: Secret[F64]
    domain: Domain
    k: int
    adjacency: Adjacency
    loss: Loss
    part: Cost | None = None  # what may be spent here, if not the whole loss
    sparse: bool = False  # whether the rows are CSR; only methods with `accepts_sparse` get them

    @cached_property
    def public_n(self) -> int | None:
        """The number of rows if it is public."""
        return public_number(self.rows, self.adjacency)

    @property
    def pure(self) -> bool:
        return self.cost.pure

    @cached_property
    def cost(self) -> Cost:
        """What may be spent: an epsilon, or a rho if delta > 0."""
        return whole_cost(self.loss) if self.part is None else self.part

    @property
    def narrowest_lattice(self) -> Lattice:
        """The lattice with the least sensitivity: in l1 for Laplace noise, in l2 for Gaussian."""
        if not self.pure or self.domain.ball:
            return self.domain.lattice
        # The l1 norm of a box is smaller than that of the ball around it, unless it is a cube.
        return Lattice(self.domain.l1 * (1 + 1e-12), self.domain.d, "l1")


def public_number(rows: Secret[Any], adjacency: Adjacency) -> int | None:
    """The number of rows if it is public, under replace-one."""
    if adjacency == "add-remove":
        return None
    return rows.map(_number).reveal("the number of rows is public under replace-one")


class CountedTask(Protocol):
    """A task with a budget and rows whose number may be secret."""

    @property
    def rows(self) -> Secret[Any]: ...

    @property
    def adjacency(self) -> Adjacency: ...

    @property
    def public_n(self) -> int | None: ...

    @property
    def number_label(self) -> str:
        """The label of a release of the number of rows."""

    @property
    def cost(self) -> Cost: ...


@dataclass(frozen=True)
class RowCount:
    """A number of rows, at least 1, that may decide anything; and the rest of the budget."""

    n: int
    costs: list[Cost]


def row_count(
    task: CountedTask, share: float, accountant: Accountant, shares: Sequence[float] = (1.0,)
) -> RowCount:
    """The number of rows. A noisy one, for `share` of the budget, if the exact one is secret.

    The rest of the budget is split by `shares`.
    """
    if task.public_n is not None:
        return RowCount(max(1, task.public_n), task.cost.split(shares))
    whole = sum(shares)
    first, *costs = task.cost.split([share, *((1.0 - share) * part / whole for part in shares)])
    query = number_of_rows(task)
    return RowCount(max(1, accountant.release(query, first).value), costs)


def number_of_rows(task: CountedTask) -> Secret[Query[int]]:
    """The query of the number of rows."""
    label = task.number_label
    return task.rows.map(lambda rows: total_query(rows.shape[0], task.adjacency, label))


@dataclass(frozen=True, eq=False)
class PrivateResult:
    """Centred centres, and the charges of the releases they were computed from.

    `counts`: noisy numbers of rows of the centres; None if the method releases none. `condition`
    says what the privacy claim assumes about the data; None if nothing. `notes`: what the caller
    should be told about the result, from public or released numbers. `errors`: of the centres.
    """

    centers: F64
    charges: tuple[Charge, ...]
    counts: NoisyCounts | None = None
    condition: str | None = None
    notes: tuple[str, ...] = ()
    errors: CenterErrors = UNKNOWN


def count_clusters(
    task: PrivateTask, centers: F64, cost: Cost, accountant: Accountant
) -> NoisyCounts:
    """Noisy numbers of the rows that are nearest to each centre."""

    def query(rows: F64) -> Query[I64]:
        labels = Rows.of(rows).nearest(centers)
        counts = np.bincount(labels, minlength=len(centers))
        return count_query(counts, task.adjacency, "rows of each centre")

    noisy = accountant.release(task.rows.map(query), cost)
    return NoisyCounts.of(noisy.value.astype(np.float64), math.sqrt(noisy.charge.variance))


class Method(Protocol):
    def __call__(self, task: PrivateTask) -> PrivateResult:
        """The centres of the task's rows. Randomness that privacy needs comes from `privacy`."""


COUNTS_SHARE = 0.05  # of the budget, for the counts of clusters of methods that release none


@dataclass(frozen=True, eq=False)
class DemandTask:
    """The input of a private method. `diameter`: no distance counts more; None: computed."""

    number_label: ClassVar[str] = "size of the demand"

    space: MetricSpace
    demand: Secret[Ints]
    k: int
    adjacency: Adjacency
    loss: Loss
    rng: np.random.Generator  # for public draws only
    diameter: float | None = None
    part: Cost | None = None  # what may be spent here, if not the whole loss

    @cached_property
    def cost(self) -> Cost:
        """What may be spent: an epsilon, or a rho if delta > 0."""
        return whole_cost(self.loss) if self.part is None else self.part

    @property
    def rows(self) -> Secret[Ints]:
        """The entries of the demand."""
        return self.demand

    @cached_property
    def public_n(self) -> int | None:
        """The size of the demand if it is public."""
        return public_number(self.demand, self.adjacency)

    @cached_property
    def cap(self) -> float:
        """The largest loss of one point of the demand: a positive bound on distances."""
        given = farthest(self.space, self.rng) if self.diameter is None else self.diameter
        return given or 1.0

    def count(
        self, cells: Ints, number: int, label: str, cost: Cost, accountant: Accountant
    ) -> Counted:
        """Noisy demand of disjoint cells 0 .. number - 1, empty ones too.

        `cells`: the cell of each point of the space; -1 for none.
        """

        def query(demand: Ints) -> Query[I64]:
            counts = np.bincount(cells[demand] + 1, minlength=number + 1)[1:]
            return count_query(counts, self.adjacency, label)

        made = accountant.release(self.demand.map(query), cost)
        return Counted(made.value.astype(np.float64), float(np.sqrt(made.charge.variance)))


@dataclass(frozen=True, eq=False)
class Counted:
    """Noisy counts, and the standard deviation of the noise of each."""

    counts: F64
    deviation: float


@dataclass(frozen=True, eq=False)
class DemandResult:
    """Medoids, and the charges of the releases they were computed from.

    path : the sets of medoids of a private search, from its start on; all are released.
    counts : noisy numbers of demand points of each medoid; None if the method releases none.
    reach : how many far points of the demand weigh as much as the noise of a swap.
    warning : what noise made of the answer, judged by releases; None if nothing was seen.
    """

    medoids: Ints
    charges: tuple[Charge, ...]
    path: Sequence[Ints] = ()
    counts: NoisyCounts | None = None
    reach: float = 0.0
    warning: str | None = None

    def notes(self, *, pure: bool) -> tuple[str, ...]:
        """What the caller should be told about the result."""
        about_counts = () if self.counts is None else self.counts.notes(pure=pure, kind=OF_DEMAND)
        return (*filter(None, [self.warning]), *about_counts)


class DemandMethod(Protocol):
    def __call__(self, task: DemandTask) -> DemandResult:
        """The medoids of the task's demand."""


def run_demand_method(method: DemandMethod, task: DemandTask) -> DemandResult:
    """The result of a method, with noisy counts of its clusters.

    A method that does not release them (`releases_counts`) gets less of the budget.
    """
    counting, result = task.cost, DemandResult(np.arange(task.k), ())
    if task.space.n > task.k:  # otherwise all points are medoids
        if getattr(method, "releases_counts", False):
            return method(task)
        counting, rest = task.cost.split([COUNTS_SHARE, 1 - COUNTS_SHARE])
        result = method(replace(task, part=rest))
    accountant = Accountant()
    nearest = task.space.two_nearest(result.medoids).labels.astype(np.int64)
    label = "demand of each medoid"
    counted = task.count(nearest, task.k, label, counting, accountant)
    counts = NoisyCounts.of(counted.counts, counted.deviation)
    charges = (*result.charges, *accountant.charges)
    total, warning = float(counted.counts.sum()), result.warning
    if warning is None and result.reach > max(total, 1.0):
        warning = (
            f"The noise of a swap weighs as much as {result.reach:.3g} far points of the demand, "
            f"which has about {max(total, 0.0):.3g}: the swaps were drawn almost at random. Use a "
            "larger epsilon or fewer swaps, or method='cells'."
        )
    return replace(result, counts=counts, charges=charges, warning=warning)


def check_count(name: str, value: Any, least: int) -> None:
    """ValueError unless it is None or an integer, at least `least`."""
    if value is not None and (not isinstance(value, Integral) or int(value) < least):
        raise ValueError(f"{name} must be an integer >= {least}; got {value!r}.")


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """ValueError unless it is a number between the two."""
    if not isinstance(value, Real) or not low < float(value) < high:
        raise ValueError(
            f"{name} must be a number above {low:g} and below {high:g}; got {value!r}."
        )
