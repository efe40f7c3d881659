"""What a private method declares, the result of one, and the run of one.

method:  an object with fixed choices, called with a task; `traits` say what it is
result:  centres or medoids, and the charges of all releases they were computed from
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvariates.privacy.budget import Cost
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import Accountant
from kvariates.private_methods.noisy_centers import UNKNOWN, CenterErrors, NoisyCounts, about_swaps
from kvariates.private_methods.task import Task

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
    charges: tuple[Charge, ...]
    counts: NoisyCounts | None = None
    notes: tuple[str, ...] = ()
    errors: CenterErrors = UNKNOWN
    path: Sequence[NDArray[np.int64]] = ()
    reach: float = 0.0


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


@dataclass(frozen=True)
class FunctionMethod(PrivateMethod[T]):
    """A plain function as a method, without traits."""

    function: Callable[[T], PrivateResult]

    def __call__(self, task: T) -> PrivateResult:
        return self.function(task)


def as_method(
    method: PrivateMethod[T] | Callable[[T], PrivateResult],
) -> PrivateMethod[T]:
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
    accountant = Accountant()
    counted = task.count_clusters(result.centers, counting, accountant)
    notes = result.notes or about_swaps(result.reach, float(counted.counts.sum()))
    counts = NoisyCounts.of(counted.counts, counted.deviation)
    charges = (*result.charges, *accountant.charges)
    return _with_notes(replace(result, counts=counts, charges=charges, notes=notes), task)


def _with_notes(result: PrivateResult, task: Task[Any]) -> PrivateResult:
    """The result, with a note if counts may be noise alone, and no error bars there."""
    if result.counts is None:
        return result
    notes = (*result.notes, *result.counts.notes(pure=task.loss.delta == 0, kind=task.kind))
    errors = result.errors.without(result.counts.doubtful[:, None])
    return replace(result, notes=notes, errors=errors)
