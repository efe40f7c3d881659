"""The input and the result of a private method.

    task:    rows inside a public domain, k, an adjacency, a budget
    method:  an object with fixed choices, called with a task
    result:  centres, and the charges of all releases they were computed from

Rows are centred, clipped to the domain and rounded to its lattice, each independently, so that
their sums are exact. A method gets them as a `Secret`: it can make queries from them, and cannot
read them. Anything else that it decides by is public (k, d, the domain, the budget; the number of
rows only under replace-one) or was released.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kvariates.data.lattice_rows import quantize
from kvariates.data.rows import Rows
from kvariates.data.sparse_lattice import quantize_sparse
from kvariates.numerics.lattice import Adjacency, Lattice
from kvariates.privacy.budget import Cost, Loss
from kvariates.privacy.ledger import Charge
from kvariates.privacy.mechanisms import Accountant
from kvariates.privacy.query import I64, Query, count_query, total_query
from kvariates.privacy.rounding import rho_for
from kvariates.privacy.secret import Secret
from kvariates.private_methods.center_errors import UNKNOWN, CenterErrors
from kvariates.private_methods.noisy_counts import NoisyCounts

F64 = NDArray[np.float64]
SHOWN = 8  # features that are written out in words


@dataclass(frozen=True, eq=False)
class Domain:
    """Where rows may be: a box, or (`ball`) a ball. Public. Points are relative to its centre."""

    center: F64
    half: F64  # half the sides of the smallest box around it
    radius: float  # of the smallest ball around it
    ball: bool

    @classmethod
    def box(cls, low: F64, high: F64) -> Domain:
        half = (high - low) / 2
        radius = float(np.linalg.norm(half)) * (1 + 1e-12)  # corners stay inside
        return cls(low + half, half, radius, ball=False)

    @classmethod
    def around(cls, center: F64, radius: float) -> Domain:
        return cls(center, np.full(len(center), float(radius)), float(radius), ball=True)

    @property
    def d(self) -> int:
        return len(self.center)

    @property
    def l1(self) -> float:
        """The largest l1 norm of a centred row."""
        return math.sqrt(self.d) * self.radius if self.ball else float(self.half.sum())

    @cached_property
    def lattice(self) -> Lattice:
        return Lattice(self.radius, self.d, "l2")

    @cached_property
    def widest(self) -> int:
        """The largest l1 distance of two rows, in steps of the lattice."""
        largest = self.lattice.l1("add-remove")
        if not self.ball:
            sides = (math.floor(Fraction(side) / Fraction(self.lattice.step)) for side in self.half)
            largest = min(largest, sum(sides))
        return 2 * largest

    def words(self) -> str:
        """Where rows may be."""
        if self.ball:
            return f"a ball of radius {self.radius:g} around {_short(self.center)}"
        low, high = self.center - self.half, self.center + self.half
        if self.d > 1 and (low == low[0]).all() and (high == high[0]).all():
            return f"{low[0]:g} to {high[0]:g} in each of {self.d} features"
        sides = [f"x{j} {low[j]:g} to {high[j]:g}" for j in range(min(self.d, SHOWN))]
        return ", ".join(sides) + (", ..." if self.d > SHOWN else "")

    def rows(self, X: NDArray[np.floating]) -> Secret[F64]:
        """Rows of X centred, clipped and rounded towards the centre, each independently.

        X may be CSR if the centre of the domain is the origin; then so is the secret.
        """
        half = None if self.ball else self.half
        if sparse.issparse(X):
            return Secret(quantize_sparse(X, self.lattice, half))
        return Secret(quantize(X, self.lattice, self.center, half))

    def clip(self, points: F64) -> F64:
        """Centred points, moved into the domain."""
        if not self.ball:
            return np.clip(points, -self.half, self.half)
        norms = np.linalg.norm(points, axis=1, keepdims=True)
        return np.asarray(points * (self.radius / np.maximum(norms, self.radius)))


def _number(rows: Any) -> int:
    return int(rows.shape[0])


def _short(point: F64) -> str:
    """A point in few words: all its numbers if they are few or equal."""
    if (point == point[0]).all():
        return f"{point[0]:g} in each of {len(point)} features"
    shown = ", ".join(f"{value:g}" for value in point[:SHOWN])
    return f"({shown}{', ...' if len(point) > SHOWN else ''})"


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
