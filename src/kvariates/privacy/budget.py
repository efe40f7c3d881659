"""The loss of a fit, the cost of a release, and a budget that several private fits share."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, get_args

from kvariates.data.lattice_rows import Adjacency
from kvariates.privacy.rounding import (
    Exact,
    as_written,
    at_most,
    epsilon_of,
    rho_for,
    split,
    up,
    written,
)

Accounting = Literal["basic", "zcdp"]


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

    def split(self, shares: Sequence[Exact]) -> list[Cost]:
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


@dataclass(frozen=True)
class Spending:
    """What one fit took from a budget.

    `rho`: its cost in zCDP, if that is known. `condition`: what its claim assumes about the data.
    """

    label: str
    loss: Loss
    adjacency: Adjacency
    rho: float | None = None
    condition: str | None = None

    def __str__(self) -> str:
        zcdp = "" if self.rho is None else f", rho = {self.rho:.6g}"
        assumed = "" if self.condition is None else f" ({self.condition})"
        return f"{self.label or '-'}: {self.loss.words()}{zcdp}{assumed}"


# proof: composition.md
class Budget:
    """(epsilon, delta) shared by several fits, for one kind of neighbours.

    A fit calls `spend` before it reads any data, which raises BudgetError if too little is left.
    Numbers count as they are written: ten times 0.1 is 1. Threads may share a budget. A copy is the
    same object. An unpickled budget, or a budget in a forked process, has nothing left: two
    processes could otherwise spend it twice.

    Parameters
    ----------
    epsilon : float
    delta : float, default=0.0
    adjacency : {"add-remove", "replace-one"}, default="add-remove"
        Fits for other neighbours are refused: their losses do not add up.
    accountant : {"basic", "zcdp"}, default="basic"
        "basic": epsilons add, and deltas add. "zcdp": rhos add, and their sum is converted to
        epsilon at `delta` once; with many fits this is far less. It needs delta > 0.
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        adjacency: Adjacency = "add-remove",
        accountant: Accounting = "basic",
    ) -> None:
        check_loss(epsilon, delta)
        check_adjacency(adjacency)
        if accountant not in get_args(Accounting):
            raise ValueError(f"accountant must be 'basic' or 'zcdp'; got {accountant!r}.")
        if accountant == "zcdp" and delta == 0:
            raise ValueError("accountant='zcdp' needs delta > 0, for example delta=1e-6.")
        self._epsilon, self._delta = float(epsilon), float(delta)
        self._adjacency: Adjacency = adjacency
        self._accountant: Accounting = accountant
        self._lines: list[Spending] = []
        self._total = _Totals()
        self._open = True
        self._lock = threading.Lock()
        _budgets.add(self)

    # Without setters: a budget that can be raised later is no limit.
    @property
    def epsilon(self) -> float:
        return self._epsilon

    @property
    def delta(self) -> float:
        return self._delta

    @property
    def adjacency(self) -> Adjacency:
        return self._adjacency

    @property
    def accountant(self) -> Accounting:
        return self._accountant

    def spend(
        self,
        epsilon: float,
        delta: float = 0.0,
        label: str = "",
        *,
        adjacency: Adjacency = "add-remove",
        rho: float | None = None,
        condition: str | None = None,
    ) -> None:
        """Take (epsilon, delta) from what is left, or raise BudgetError and take nothing.

        `rho` : the cost in zCDP; by default epsilon^2 / 2 if delta is 0.
        `condition` : what the claim assumes about the data; kept with the line.
        """
        check_loss(epsilon, delta)
        if rho is not None and not 0 <= rho < math.inf:
            raise ValueError(f"rho must be a number >= 0; got {rho!r}.")
        if rho is None and delta == 0:
            rho = up(as_written(epsilon) ** 2 / 2)
        line = Spending(label, Loss(float(epsilon), float(delta)), adjacency, rho, condition)
        with self._lock:
            self._total = self._after(line)
            self._lines.append(line)

    def _after(self, line: Spending) -> _Totals:
        """The totals with one more fit. Raise BudgetError if it may not be added."""
        name = line.label or "This"
        if not self._open:
            raise BudgetError(
                "This budget was pickled, or its process forked. Only the original can be spent: a "
                "copy in another process would spend it a second time."
            )
        if line.adjacency != self.adjacency:
            raise BudgetError(
                f"{name} is for {line.adjacency} neighbours, the budget for {self.adjacency}; "
                f"such losses do not add up. Use Budget(..., adjacency={line.adjacency!r})."
            )
        if self.accountant == "zcdp" and line.rho is None:
            raise BudgetError(f"{name} has no rho, which a budget with accountant='zcdp' adds up.")
        after, limit = self._total.plus(line), self._limit()
        over = (
            after.rho > limit.rho
            if self.accountant == "zcdp"
            else after.epsilon > limit.epsilon or after.delta > limit.delta
        )
        if over:
            raise BudgetError(f"{name} needs {self._refusal(line, limit)}.")
        return after

    def _refusal(self, line: Spending, limit: _Totals) -> str:
        """What a fit needs and what is left. Under zCDP, only their rhos can be compared."""
        asked = line.loss.words()
        if self.accountant == "basic":
            return f"{asked}; what is left is {self._left().words()}"
        need, left = line.rho or 0.0, max(limit.rho - self._total.rho, Fraction())
        shown = [f"{float(rho):.6g}" for rho in (need, left)]
        if shown[0] == shown[1]:
            shown = [f"{float(rho):.17g}" for rho in (need, left)]
        return f"rho = {shown[0]} ({asked}); what is left is rho = {shown[1]}"

    def _limit(self) -> _Totals:
        rho = Fraction()
        if self.accountant == "zcdp":
            rho = Fraction(rho_for(at_most(self.epsilon), at_most(self.delta)))
        return _Totals(as_written(self.epsilon), as_written(self.delta), rho)

    @property
    def left(self) -> Loss:
        """The loss that can still be spent, rounded down."""
        with self._lock:
            return self._left()

    @property
    def spent(self) -> Loss:
        """The loss that was spent, rounded up."""
        with self._lock:
            total = self._total
        if self.accountant == "zcdp":
            return Loss(epsilon_of(total.rho, self.delta), self.delta if self._lines else 0.0)
        return Loss(up(total.epsilon), up(total.delta))

    @property
    def lines(self) -> tuple[Spending, ...]:
        """What each fit took, in order."""
        with self._lock:
            return tuple(self._lines)

    def _left(self) -> Loss:
        if not self._open:
            return Loss(0.0, 0.0)
        total, limit = self._total, self._limit()
        if self.accountant == "zcdp":
            return Loss(min(self.epsilon, self._largest(limit.rho - total.rho)), self.delta)
        return Loss(written(limit.epsilon - total.epsilon), written(limit.delta - total.delta))

    def _largest(self, rho: Fraction) -> float:
        """About the largest epsilon of a fit with the budget's delta that costs at most rho."""
        delta = at_most(self.delta)
        epsilon = epsilon_of(rho, delta)
        step = math.ulp(epsilon)
        while epsilon > 0 and Fraction(rho_for(at_most(epsilon), delta)) > rho:
            epsilon, step = max(epsilon - step, 0.0), 2 * step
        return epsilon if epsilon >= SMALLEST_EPSILON else 0.0

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Budget:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        with self._lock:
            return _closed, (tuple(self._lines), self._options)

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "epsilon": self.epsilon, "delta": self.delta, "adjacency": self.adjacency,
            "accountant": self.accountant,
        }  # fmt: skip

    def __repr__(self) -> str:
        usual = {"adjacency": "add-remove", "accountant": "basic"}
        shown = {name: v for name, v in self._options.items() if usual.get(name) != v}
        return f"Budget({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def __str__(self) -> str:
        whole = Loss(self.epsilon, self.delta).words()
        return "\n".join(
            [
                f"budget: {whole} ({self.adjacency}, {self.accountant})",
                *(f"  {line}" for line in self.lines),
                f"spent: {self.spent.words()}",
                f"left: {self.left.words() if self._open else 'nothing; this is only a copy'}",
            ]
        )


_budgets: weakref.WeakSet[Budget] = weakref.WeakSet()


def _close_in_child() -> None:
    """A forked process has no part of any budget; the lock may be held by a thread it lacks."""
    for budget in _budgets:
        budget._lock, budget._open = threading.Lock(), False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class _Totals(NamedTuple):
    epsilon: Fraction = Fraction()
    delta: Fraction = Fraction()
    rho: Fraction = Fraction()

    def plus(self, line: Spending) -> _Totals:
        return _Totals(
            self.epsilon + as_written(line.loss.epsilon),
            self.delta + as_written(line.loss.delta),
            self.rho + Fraction(line.rho or 0.0),
        )


def _closed(lines: Iterable[Spending], options: dict[str, Any]) -> Budget:
    budget = Budget(**options)
    budget._lines, budget._open = list(lines), False
    for line in budget._lines:
        budget._total = budget._total.plus(line)
    return budget


SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 1e6


def check_loss(epsilon: float, delta: float) -> None:
    """Raise unless epsilon is in the usable range and 0 <= delta < 1."""
    if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
        raise ValueError(
            f"epsilon must be a number from {SMALLEST_EPSILON:g} to {LARGEST_EPSILON:g}; got "
            f"{epsilon!r}. Usual values are 0.1 to 3."
        )
    if not 0 <= delta < 1:
        raise ValueError(f"delta must be in [0, 1); got {delta!r}.")


def check_adjacency(adjacency: Any, name: str = "adjacency") -> None:
    """Raise unless it is one of the two."""
    if adjacency not in get_args(Adjacency):
        names = " or ".join(map(repr, get_args(Adjacency)))
        raise ValueError(f"{name} must be {names}; got {adjacency!r}.")
