"""The ledger of a private fit: every release with its charge, and their exact total.

    pure:          epsilons add
    any rho:       epsilon-DP counts as rho = epsilon^2 / 2, rhos add, and the sum becomes
                   (epsilon, delta) with the delta of the claim
    same parallel: the charges of a group are about disjoint rows; the group costs its maximum

Totals are sums of rationals, rounded up once. A ledger above its claim raises BudgetError.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from kvariates.extras import pandas_for
from kvariates.file_writing import write_aside
from kvariates.notebook_html import HtmlTable, boxed, shortened
from kvariates.numerics.lattice import Adjacency
from kvariates.privacy.budget import BudgetError, Loss, check_adjacency
from kvariates.privacy.ledger_report import page, units
from kvariates.privacy.rounding import epsilon_of, up

SensitivityNorm = Literal["l1", "l2", "score"]


@dataclass(frozen=True)
class Charge:
    """One release: its label, how far one row could move it, its noise, and its cost.

    `parallel` names a group of charges that are about disjoint rows, by the reason why they are.
    Two releases about the same rows (their count and their sum) are in two groups.
    """

    label: str
    mechanism: str
    adjacency: Adjacency
    sensitivity: float
    norm: SensitivityNorm
    scale: float
    epsilon: float | None = None
    rho: float | None = None
    parallel: str | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("A charge has either an epsilon or a rho.")
        check_adjacency(self.adjacency)
        if not self.cost >= 0:
            raise ValueError(f"A charge must be a number >= 0; {self.label!r} has {self.cost}.")

    @property
    def cost(self) -> float:
        """Epsilon, or rho."""
        return self.rho if self.epsilon is None else self.epsilon  # type: ignore[return-value]

    @property
    def variance(self) -> float:
        """The variance of the noise of one released number."""
        return (2.0 if self.mechanism == "laplace" else 1.0) * self.scale**2

    def exact(self, *, concentrated: bool) -> Fraction:
        """The cost as a rational: epsilon, or (`concentrated`) rho."""
        if not concentrated or self.epsilon is None:
            return Fraction(self.cost)
        return Fraction(self.epsilon) ** 2 / 2


@dataclass(frozen=True)
class FitFacts:
    """What a reader of a ledger needs to know besides the charges. All of it is public.

    Attributes
    ----------
    method : str
    n_clusters : int
    domain : str
        Where rows may be: the bounds, or a ball.
    unit : str
        What one row stands for.
    condition : str or None
        What the claim assumes about the data; None if nothing.
    version : str
        Of kvariates.
    date : str
        Of the fit, in UTC.
    columns : tuple of str
        The names of the features x0, x1, ...; empty if they have none.
    notes : tuple of str
        What the fit warned of, computed from releases.
    errors : tuple of str
        What is known of the errors of the centres by noise; then a line for each centre.
    """

    method: str
    n_clusters: int
    domain: str
    unit: str
    condition: str | None
    version: str
    date: str
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


# proof: composition.md
@dataclass(frozen=True)
class Ledger:
    """Every charge of a fit, and the claim. Raises BudgetError if they cost more than the claim."""

    adjacency: Adjacency
    charges: tuple[Charge, ...]
    claim: Loss
    facts: FitFacts | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "charges", tuple(self.charges))
        object.__setattr__(self, "claim", Loss(*self.claim))
        check_adjacency(self.adjacency)
        if not (self.claim.epsilon >= 0 and 0 <= self.claim.delta < 1):
            raise ValueError(f"A claim has epsilon >= 0 and 0 <= delta < 1; got {self.claim}.")
        for charge in self.charges:
            if charge.adjacency != self.adjacency:
                raise BudgetError(
                    f"{charge.label!r} is charged for {charge.adjacency} neighbours, the ledger is "
                    f"for {self.adjacency}: their costs do not add up."
                )
        _check_groups(self.charges)
        total = self.total()
        if total.epsilon > self.claim.epsilon or total.delta > self.claim.delta:
            raise BudgetError(f"The charges cost {total}, more than the claim {self.claim}.")

    @property
    def concentrated(self) -> bool:
        """Whether any charge is in zCDP; then all are counted in zCDP."""
        return any(charge.rho is not None for charge in self.charges)

    def total(self) -> Loss:
        """The cost of all charges together, rounded up."""
        if any(math.isinf(charge.cost) for charge in self.charges):
            return Loss(math.inf, 0.0)
        total = self._sum(concentrated=self.concentrated)
        if not self.concentrated:
            return Loss(up(total), 0.0)
        return Loss(epsilon_of(total, self.claim.delta), self.claim.delta)

    def _sum(self, *, concentrated: bool) -> Fraction:
        """All epsilons, or all rhos; of a parallel group, the largest."""
        total, groups = Fraction(), dict[str, Fraction]()
        for charge in self.charges:
            cost = charge.exact(concentrated=concentrated)
            if charge.parallel is None:
                total += cost
            else:
                groups[charge.parallel] = max(cost, groups.get(charge.parallel, Fraction()))
        return sum(groups.values(), total)

    @property
    def rho(self) -> float | None:
        """The sum of all charges in zCDP, rounded up; None if they are counted as epsilons."""
        return up(self._sum(concentrated=True)) if self.concentrated else None

    def report(self) -> str:
        """One page in words and numbers, for whoever decides on publishing."""
        return page(self)

    def frame(self) -> Any:
        """The charges as a pandas DataFrame. Needs pandas."""
        pd = pandas_for("Ledger.frame")
        return pd.DataFrame(
            [asdict(charge) for charge in self.charges],
            columns=[field.name for field in fields(Charge)],
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ledger as JSON. The file appears when it is complete."""
        total = self.total()
        content = {
            "adjacency": self.adjacency,
            "claim": self.claim._asdict(),
            "total": total._asdict(),
            "rho": self.rho,
            "fit": None if self.facts is None else asdict(self.facts),
            "units": units(),
            "charges": [asdict(charge) for charge in self.charges],
        }
        text = json.dumps(content, indent=2, allow_nan=False)
        write_aside(Path(path), f"{text}\n".encode())

    def __str__(self) -> str:
        """One line for each release; releases that differ in a number of their labels share one."""
        columns = self._used_columns()
        padded = [[word.ljust(max(map(len, column))) for word in column] for column in columns]
        lines = ["  ".join(row).rstrip() for row in zip(*padded, strict=True)]
        claim = f"claim: {self.claim.words()} ({self.adjacency})"
        return "\n".join([*lines, claim, f"total: {self.total().words()}"])

    def __repr__(self) -> str:
        made = "" if self.facts is None else f", {shortened(self.facts.method, 150)!r}"
        count = f"{len(self.charges)} charge{'' if len(self.charges) == 1 else 's'}"
        return f"Ledger({self.claim.words()!r}, {self.adjacency!r}, {count}{made})"

    def _repr_html_(self) -> str:
        head, *rows = zip(*self._used_columns(), strict=True) if self.charges else [()]
        made = [] if self.facts is None else [f"{self.facts.method}. Protected: {self.facts.unit}."]
        if self.facts is not None and self.facts.condition is not None:
            made.append(f"Only if: {self.facts.condition}.")
        title = f"Private: {self.claim.words()}, {self.adjacency}"
        made += [] if self.facts is None else self.facts.notes
        lines = [*made, f"All releases together cost {self.total().words()}."]
        return boxed(title, lines, HtmlTable(head, rows))

    def _used_columns(self) -> list[tuple[str, ...]]:
        """The columns of the table that are not empty, each with its heading."""
        columns = zip([*COLUMNS.values(), "times"], *table(self.charges), strict=True)
        return [column for column in columns if any(word != "-" for word in column[1:])]


def _check_groups(charges: Iterable[Charge]) -> None:
    """BudgetError if a parallel group comes back after other releases.

    Two releases about the same rows with the same name of a group would cost only one of them.
    """
    seen, last = set[str](), None
    for charge in charges:
        group = charge.parallel
        if group is not None and group != last and group in seen:
            raise BudgetError(
                f"The parallel group {group!r} comes back after other releases; give each group a "
                "name of its own."
            )
        seen |= set() if group is None else {group}
        last = group


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


def table(charges: Iterable[Charge]) -> list[list[str]]:
    """The table as text. Releases that differ only in the first number of a label are one row."""
    merged: dict[tuple[str, ...], list[str]] = {}
    for charge in charges:
        values = (getattr(charge, name) for name in COLUMNS)
        label, *words = (
            "-" if value is None else value if isinstance(value, str) else f"{value:.6g}"
            for value in values
        )
        head, number, tail = (*NUMBER.split(label, maxsplit=1), "", "")[:3]
        merged.setdefault((head, tail, *words), []).append(number)
    rows = []
    for (head, tail, *words), numbers in merged.items():
        number, times = numbers[0], "-"
        if len(numbers) > 1:
            times = str(len(numbers))
            if numbers[-1] != number:
                number = f"{number} to {numbers[-1]}"
        rows.append([head + number + tail, *words, times])
    return rows


NUMBER = re.compile(r"(\d+)")
