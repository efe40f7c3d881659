"""What a private method is given, and what it hands out.

    task:      rows inside a public domain, k, an adjacency, a budget
    method:    frozen choices, called with a task
    released:  centres, and a charge for everything they were computed from

Rows are centred, clipped into the domain and on its grid, each by itself, so that whatever adds
them up is exact. A method may look at `task.rows` only through `privacy`'s noise; anything it
decides on otherwise must be public (k, d, the domain, the budget; the number of rows only under
replace-one).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvariates.privacy import mechanisms
from kvariates.privacy.ledger import Adjacency, Charge, Loss, rho_for, split

F64 = NDArray[np.float64]
T = TypeVar("T")


class Cost(TypedDict, total=False):
    """What a release may cost: one of the two, by the name that `privacy.noise` has for it."""

    epsilon: float
    rho: float


@dataclass(frozen=True, eq=False)
class Domain:
    """Where rows may be: a box around its middle, or (`ball`) a ball around its centre. Public."""

    center: F64
    half: F64  # half the sides of the smallest box around it
    radius: float  # of the smallest ball around it
    ball: bool

    @classmethod
    def box(cls, low: F64, high: F64) -> Domain:
        half = (high - low) / 2
        radius = float(np.linalg.norm(half)) * (1 + 1e-12)  # a corner is not pulled in
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
    def grid(self) -> mechanisms.Lattice:
        return mechanisms.Lattice(self.radius, self.d, "l2")

    def rows(self, X: NDArray[np.floating]) -> F64:
        """Rows of X centred, clipped and rounded towards the centre, each by itself."""
        return mechanisms.quantize(X, self.grid, self.center, None if self.ball else self.half)

    def inside(self, centers: F64) -> F64:
        """Centred points pulled into the domain."""
        if not self.ball:
            return np.clip(centers, -self.half, self.half)
        norms = np.linalg.norm(centers, axis=1, keepdims=True)
        return np.asarray(centers * (self.radius / np.maximum(norms, self.radius)))


@dataclass(frozen=True, eq=False)
class PrivateTask:
    rows: F64 = field(repr=False)  # a traceback with locals shows none
    domain: Domain
    k: int
    adjacency: Adjacency
    loss: Loss

    @property
    def pure(self) -> bool:
        return self.loss.delta == 0

    @cached_property
    def _whole(self) -> float:
        return self.loss.epsilon if self.pure else rho_for(*self.loss)

    @property
    def narrowest_grid(self) -> mechanisms.Lattice:
        """In which a row's largest norm is least: l1 for Laplace noise, l2 for Gaussian noise."""
        if not self.pure or self.domain.ball:
            return self.domain.grid
        # A box is narrower in l1 than the ball around it, unless it is a cube.
        return mechanisms.Lattice(self.domain.l1 * (1 + 1e-12), self.domain.d, "l1")

    def costs(self, shares: Sequence[float]) -> list[Cost]:
        """The whole budget in parts: epsilons, or rhos where delta > 0. Never more than it."""
        whole = Cost(epsilon=self._whole) if self.pure else Cost(rho=self._whole)
        return parts(whole, shares)


def parts(cost: Cost, shares: Sequence[float]) -> list[Cost]:
    """A cost in parts, never more than it together."""
    if "rho" in cost:
        return [Cost(rho=part) for part in split(cost["rho"], shares)]
    return [Cost(epsilon=part) for part in split(cost["epsilon"], shares)]


def deviation(cost: Cost, adjacency: Adjacency, *, l1: float = 1.0, l2: float = 1.0) -> float:
    """About the standard deviation of one number's noise, for rows that move it so far."""
    twice = 1.0 if adjacency == "add-remove" else 2.0
    if "rho" in cost:
        return twice * l2 / math.sqrt(2 * cost["rho"])
    return twice * math.sqrt(2) * l1 / cost["epsilon"]


@dataclass
class Accountant:
    """What was released so far."""

    charges: list[Charge] = field(default_factory=list)

    def record(self, release: tuple[T, Charge]) -> T:
        """The value of a release; its charge is recorded."""
        value, charge = release
        self.charges.append(charge)
        return value


@dataclass(frozen=True, eq=False)
class PrivateResult:
    """Centres, centred as the rows were, and what they cost.

    `condition` says what the claim rests on besides the mechanism; None for an unconditional one.
    """

    centers: F64
    charges: tuple[Charge, ...]
    condition: str | None = None


class Method(Protocol):
    def __call__(self, task: PrivateTask) -> PrivateResult:
        """Centres of the task's rows. Randomness that privacy rests on comes from `privacy`."""
