"""What was released, and what it cost: charges are frozen records, and their total is exact.

    pure:          epsilons add
    any rho:       epsilon-DP counts as rho = epsilon^2 / 2, rhos add, and the sum becomes
                   (epsilon, delta) with the delta of the claim
    same parallel: the charges of a group are about disjoint rows; the group costs its maximum

Totals are sums of rationals, rounded up once. A ledger that exceeds its claim cannot be made.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple

from kvariates.data.lattice import Adjacency
from kvariates.privacy.rounding import down, epsilon_of, rho_for, split, up

__all__ = [
    "Adjacency",
    "Budget",
    "BudgetError",
    "Charge",
    "Ledger",
    "Loss",
    "Norm",
    "epsilon_of",
    "rho_for",
    "split",
]

Norm = Literal["l1", "l2", "linf", "score"]


class BudgetError(ValueError):
    """A release would cost more than what is left, or than what was claimed."""


class Loss(NamedTuple):
    """(epsilon, delta), as in differential privacy."""

    epsilon: float
    delta: float

    def words(self) -> str:
        return f"epsilon = {self.epsilon:.6g}, delta = {self.delta:.6g}"


@dataclass(frozen=True)
class Charge:
    """One release: what it was, how far one row could move it, the noise, and the cost.

    `parallel` names a group of charges that are about disjoint rows, by the reason why they are.
    Two releases about the same rows (their count and their sum) belong to two groups.
    """

    label: str
    mechanism: str
    sensitivity: float
    norm: Norm
    scale: float
    epsilon: float | None = None
    rho: float | None = None
    parallel: str | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("A charge has either an epsilon or a rho.")
        if not self.cost >= 0:
            raise ValueError(f"A charge must be a number >= 0; {self.label!r} has {self.cost}.")

    @property
    def cost(self) -> float:
        """Epsilon, or rho."""
        return self.rho if self.epsilon is None else self.epsilon  # type: ignore[return-value]

    def exact(self, *, concentrated: bool) -> Fraction:
        """The cost as a rational: epsilon, or (`concentrated`) rho."""
        if not concentrated or self.epsilon is None:
            return Fraction(self.cost)
        return Fraction(self.epsilon) ** 2 / 2


@dataclass(frozen=True)
class Ledger:
    """Every charge of a fit beside what was claimed. Raises BudgetError if they do not agree."""

    adjacency: Adjacency
    charges: tuple[Charge, ...]
    claim: Loss

    def __post_init__(self) -> None:
        object.__setattr__(self, "charges", tuple(self.charges))
        object.__setattr__(self, "claim", Loss(*self.claim))
        total = self.total()
        if total.epsilon > self.claim.epsilon or total.delta > self.claim.delta:
            raise BudgetError(f"The charges cost {total}, more than the claim {self.claim}.")

    @property
    def concentrated(self) -> bool:
        """Whether any charge is in zCDP, and so all are counted there."""
        return any(charge.rho is not None for charge in self.charges)

    def total(self) -> Loss:
        """What all charges cost together, rounded up."""
        if any(math.isinf(charge.cost) for charge in self.charges):
            return Loss(math.inf, 0.0)
        concentrated = self.concentrated
        total, groups = Fraction(), dict[str, Fraction]()
        for charge in self.charges:
            cost = charge.exact(concentrated=concentrated)
            if charge.parallel is None:
                total += cost
            else:
                groups[charge.parallel] = max(cost, groups.get(charge.parallel, Fraction()))
        total = sum(groups.values(), total)
        if not concentrated:
            return Loss(up(total), 0.0)
        return Loss(epsilon_of(total, self.claim.delta), self.claim.delta)

    def frame(self) -> Any:
        """The charges as a pandas DataFrame. Needs pandas."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Ledger.frame needs pandas: pip install pandas.") from error
        return pd.DataFrame([asdict(charge) for charge in self.charges], columns=list(COLUMNS))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger as JSON, aside first, so that a half-written one is never seen."""
        total = self.total()
        page = {
            "adjacency": self.adjacency,
            "claim": self.claim._asdict(),
            "total": total._asdict(),
            "charges": [asdict(charge) for charge in self.charges],
        }
        target = Path(path)
        handle, aside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(page, file, indent=2, allow_nan=False)
                file.write("\n")
            Path(aside).replace(target)
        except BaseException:
            Path(aside).unlink(missing_ok=True)
            raise

    def __str__(self) -> str:
        """A line for each release; those that differ in a number of their labels share one."""
        columns = zip([*COLUMNS.values(), "times"], *_rows(self.charges), strict=True)
        told = [column for column in columns if any(word != "-" for word in column[1:])]
        wide = [[word.ljust(max(map(len, column))) for word in column] for column in told]
        lines = ["  ".join(row).rstrip() for row in zip(*wide, strict=True)]
        claim = f"claim: {self.claim.words()} ({self.adjacency})"
        return "\n".join([*lines, claim, f"total: {self.total().words()}"])


COLUMNS = {
    "label": "released",
    "mechanism": "mechanism",
    "sensitivity": "sensitivity",
    "norm": "norm",
    "scale": "scale",
    "epsilon": "epsilon",
    "rho": "rho",
    "parallel": "disjoint rows",
}


def _rows(charges: Iterable[Charge]) -> list[list[str]]:
    """In words. Releases that differ in the first number of their labels only are one row."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for charge in charges:
        label, *words = _words(charge)
        head, number, tail = (*NUMBER.split(label, maxsplit=1), "", "")[:3]
        alike.setdefault((head, tail, *words), []).append(number)
    rows = []
    for (head, tail, *words), numbers in alike.items():
        number, times = numbers[0], "-"
        if len(numbers) > 1:
            number, times = f"{number} to {numbers[-1]}" if number else "", str(len(numbers))
        rows.append([head + number + tail, *words, times])
    return rows


NUMBER = re.compile(r"(\d+)")


def _words(charge: Charge) -> list[str]:
    values = (getattr(charge, name) for name in COLUMNS)
    return [
        "-" if value is None else value if isinstance(value, str) else f"{value:.6g}"
        for value in values
    ]


class Budget:
    """(epsilon, delta) shared by several fits; what they spend adds up (basic composition).

    A fit asks first: `spend` raises BudgetError before any data is read. Safe to share between
    threads. A copy is the budget itself; a pickled one comes back with nothing left, and so does
    one in a forked process: two processes that spent the same budget would spend it twice.
    """

    def __init__(self, epsilon: float, delta: float = 0.0) -> None:
        check_loss(epsilon, delta)
        self.epsilon, self.delta = float(epsilon), float(delta)
        self._spent = (Fraction(), Fraction())
        self._lines: list[tuple[str, Loss]] = []
        self._owner: int | None = os.getpid()
        self._lock = threading.Lock()

    def spend(self, epsilon: float, delta: float = 0.0, label: str = "") -> None:
        """Take (epsilon, delta) out of what is left, or raise and take nothing."""
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
        """What can still be spent, rounded down."""
        with self._lock:
            return self._left()

    @property
    def spent(self) -> Loss:
        """What was spent, rounded up."""
        with self._lock:
            return Loss(up(self._spent[0]), up(self._spent[1]))

    @property
    def lines(self) -> tuple[tuple[str, Loss], ...]:
        """What was spent on what, in order."""
        with self._lock:
            return tuple(self._lines)

    @property
    def _open(self) -> bool:
        """Whether this is the original, in the process that made it."""
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
