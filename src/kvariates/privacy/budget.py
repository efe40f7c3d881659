"""The loss of a fit, the cost of a release, and a budget that several private fits share."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple, get_args

from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.rounding import down, split, up


class BudgetError(ValueError):
    """A release would cost more than what is left, or than what was claimed."""


class Loss(NamedTuple):
    """(epsilon, delta), as in differential privacy."""

    epsilon: float
    delta: float

    def words(self) -> str:
        return f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.6g}"


@dataclass(frozen=True)
class Cost:
    """What a release may cost: either an epsilon (pure privacy) or a rho (zCDP)."""

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("Give either epsilon or rho.")

    @property
    def pure(self) -> bool:
        return self.rho is None

    @property
    def value(self) -> float:
        """The epsilon, or the rho."""
        return self.epsilon if self.rho is None else self.rho  # type: ignore[return-value]

    def split(self, shares: Sequence[float]) -> list[Cost]:
        """The cost in parts proportional to `shares`. Together they never cost more."""
        parts = split(self.value, shares)
        return [Cost(epsilon=part) if self.pure else Cost(rho=part) for part in parts]

    def deviation(self, adjacency: Adjacency, *, l1: float = 1.0, l2: float = 1.0) -> float:
        """About the standard deviation of the noise of one number.

        l1, l2 : how far one row more moves all numbers of the release.
        """
        twice = 1.0 if adjacency == "add-remove" else 2.0
        if self.pure:
            return twice * math.sqrt(2) * l1 / self.value
        return twice * l2 / math.sqrt(2 * self.value)


class Budget:
    """(epsilon, delta) shared by several fits; what they spend adds up (basic composition).

    A fit calls `spend` before it reads any data, which raises BudgetError if too little is left.
    Threads may share a budget. A copy is the same object. An unpickled budget, or a budget in a
    forked process, has nothing left: two processes could otherwise spend it twice.
    """

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        check_loss(epsilon, delta)
        self.epsilon, self.delta = float(epsilon), float(delta)
        self._spent = (Fraction(), Fraction())
        self._lines: list[tuple[str, Loss]] = []
        self._owner: int | None = os.getpid()
        self._lock = threading.Lock()

    def spend(self, epsilon: float, delta: float = 0.0, label: str = "") -> None:
        """Take (epsilon, delta) from what is left, or raise BudgetError and take nothing."""
        check_loss(epsilon, delta)
        with self._lock:
            after = self._spent[0] + Fraction(epsilon), self._spent[1] + Fraction(delta)
            if not self._open:
                raise BudgetError(
                    "This budget was pickled, or its process forked. Only the original can be "
                    "spent: a copy in another process would spend it a second time."
                )
            if after[0] > Fraction(self.epsilon) or after[1] > Fraction(self.delta):
                asked, left = Loss(epsilon, delta).words(), self._left().words()
                raise BudgetError(f"{label or 'This'} needs {asked}; what is left is {left}.")
            self._spent = after
            self._lines.append((label, Loss(float(epsilon), float(delta))))

    @property
    def left(self) -> Loss:
        """The loss that can still be spent, rounded down."""
        with self._lock:
            return self._left()

    @property
    def spent(self) -> Loss:
        """The loss that was spent, rounded up."""
        with self._lock:
            return Loss(up(self._spent[0]), up(self._spent[1]))

    @property
    def lines(self) -> tuple[tuple[str, Loss], ...]:
        """The label and the loss of each fit, in order."""
        with self._lock:
            return tuple(self._lines)

    @property
    def _open(self) -> bool:
        """Whether this is the original object, in the process that made it."""
        return self._owner == os.getpid()

    def _left(self) -> Loss:
        if not self._open:
            return Loss(0.0, 0.0)
        return Loss(
            down(Fraction(self.epsilon) - self._spent[0]),
            down(Fraction(self.delta) - self._spent[1]),
        )

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Budget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            return _closed, (self.epsilon, self.delta, self._spent, tuple(self._lines))

    def __repr__(self) -> str:
        return f"Budget(epsilon={self.epsilon!r}, delta={self.delta!r})"

    def __str__(self) -> str:
        lines = [f"  {label or '-'}: {loss.words()}" for label, loss in self.lines]
        return "\n".join(
            [
                f"budget: {Loss(self.epsilon, self.delta).words()}",
                *lines,
                f"spent: {self.spent.words()}",
                f"left: {self.left.words()}",
            ]
        )


def _closed(
    epsilon: float, delta: float, spent: tuple[Fraction, Fraction], lines: Iterable[Any]
) -> Budget:
    budget = Budget(epsilon, delta)
    budget._spent, budget._lines, budget._owner = spent, list(lines), None
    return budget


def check_loss(epsilon: float, delta: float) -> None:
    """Raise unless epsilon > 0 and 0 <= delta < 1."""
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be a number > 0; got {epsilon!r}.")
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1); got {delta!r}.")


def check_adjacency(adjacency: Any) -> None:
    """Raise unless it is one of the two."""
    if adjacency not in get_args(Adjacency):
        names = " or ".join(map(repr, get_args(Adjacency)))
        raise ValueError(f"adjacency must be {names}; got {adjacency!r}.")
