"""The input and the result of a private method of k-median.

    task:    a public space of points, k, an adjacency, a budget; the demand is secret
    method:  an object with fixed choices, called with a task
    result:  medoids, and the charges of all releases they were computed from

The demand is a list of numbers of points, with repeats. One of its entries is what is protected. A
method gets it as a `Secret`. Everything else that it decides by is public (the space, k, the
budget, random draws that do not depend on the demand) or was released.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol

import numpy as np

from kvariates.data.capped_distances import farthest
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.rows import F64
from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.budget import Cost, Loss
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import I64, Query, count_query
from kvariates.privacy.secret import Secret
from kvariates.private_methods.noisy_counts import OF_DEMAND, NoisyCounts
from kvariates.private_methods.task import public_number, whole_cost

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
