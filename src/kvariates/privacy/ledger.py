"""The ledger of a private fit: every release with its charge, their total, and a page in words.

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
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from kvariates.data.lattice_rows import Adjacency
from kvariates.extras import pandas_for
from kvariates.file_writing import write_aside
from kvariates.notebook_html import boxed, shortened
from kvariates.privacy.budget import BudgetError, Loss, check_adjacency
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

    @property
    def deviation(self) -> float:
        return math.sqrt(self.variance)

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
        return ledger_page(self)

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
        return boxed(title, lines, head, rows)

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


WIDTH = 96
FEATURE = re.compile(r"\bx(\d+)(?= )")  # in the words of a domain: x0 0 to 120
NEIGHBOURS = {
    "add-remove": "data sets that differ by one row more or less; the number of rows is secret",
    "replace-one": "data sets that differ in one row; the number of rows is the same and public",
}
DEMAND_NEIGHBOURS = {
    "add-remove": "demands that differ by one entry more or less; the number of people is secret",
    "replace-one": "demands that differ in one entry; the number of people is the same and public",
}
PUBLISH = (
    "The centres, the noisy counts, every value in the table below, and all that is computed from "
    "them without looking at the rows again. Labels, scores and costs that are computed from the "
    "rows are not covered."
)
PUBLISH_DEMAND = (
    "The medoids, their noisy counts, every value in the table below, the labels of the public "
    "points, and all that is computed from them without looking at the demand again. Costs and "
    "other numbers that are computed from the demand are not covered."
)
NOT_PROMISED = (
    "The time and the memory of a fit, and what a failed fit says about the shape of the input.",
    "Bounds and parameters that were chosen by looking at the {data}.",
    "A computer that others can read; a snapshot of a running process that is continued twice.",
    "Other releases about the same people: losses add up (kvariates.privacy.Budget adds them).",
)


def ledger_page(ledger: Ledger, names: Sequence[str] = (), *, scaled: bool = False) -> str:
    """The report of a ledger.

    `names` are those of the columns; by default those of the fit, or x0, x1, ... `scaled`: the
    domain is that of columns that were scaled.
    """
    total, lines = ledger.total(), ["PRIVACY REPORT", ""]
    facts = ledger.facts
    names = names or (() if facts is None else facts.columns)
    if facts is not None and facts.notes:
        lines += [*_items(facts.notes), ""]
    demand = _about_demand(ledger)
    limits = [line.format(data="demand" if demand else "rows") for line in NOT_PROMISED]
    unit = " (in scaled units)" * scaled
    lines += _facts(ledger, names, unit)
    lines += ["", "What is promised", *_paragraph(_promise(ledger))]
    publish = PUBLISH_DEMAND if demand else PUBLISH
    lines += ["", "What may be published", *_paragraph(publish)]
    lines += ["", "What is not promised", *_items(limits)]
    about, *errors = error_lines(ledger, names) or [""]
    if about:
        lines += ["", f"How far noise moved the centres{unit}", *_paragraph(about), *_items(errors)]
    lines += ["", "Releases", *(f"  {line}" for line in str(ledger).splitlines())]
    if ledger.rho is not None:
        lines += _paragraph(
            f"The charges add up to rho = {ledger.rho:.6g} in zCDP, which is epsilon = "
            f"{total.epsilon:.6g} at delta = {total.delta:.6g} (Canonne, Kamath, Steinke 2020, "
            "Corollary 13)."
        )
    words = units(demand=demand).items()
    lines += ["", "Units", *_items(f"{name}: {line}" for name, line in words)]
    return "\n".join(lines)


def error_lines(ledger: Ledger, names: Sequence[str] = ()) -> list[str]:
    """What is known of the errors of the centres by noise, and a line for each centre."""
    facts = ledger.facts
    return [] if facts is None else [_named(line, names or facts.columns) for line in facts.errors]


def _about_demand(ledger: Ledger) -> bool:
    """Whether the points are public and their demand is protected."""
    return ledger.facts is not None and "demand" in ledger.facts.unit


def units(*, demand: bool = False) -> dict[str, str]:
    """The units of the columns of a ledger."""
    rows = "how far one row moves the exact answer: rows, or units of what is summed"
    entries = "how far one entry of the demand moves the exact answer"
    return {
        "sensitivity": entries if demand else rows,
        "scale": "of the noise, in units of the sensitivity (Laplace scale, Gaussian deviation)",
        "epsilon": "of pure differential privacy",
        "rho": "of zero-concentrated differential privacy (zCDP)",
    }


def _facts(ledger: Ledger, names: Sequence[str], unit: str) -> list[str]:
    facts = ledger.facts
    if facts is None:
        return [f"neighbours   {NEIGHBOURS[ledger.adjacency]}"]
    demand = _about_demand(ledger)
    neighbours = (DEMAND_NEIGHBOURS if demand else NEIGHBOURS)[ledger.adjacency]
    domain = facts.domain if demand else _named(facts.domain, names) + unit
    columns = "" if demand else ", ".join(_one_line(name) for name in names)
    return [
        f"made by      kvariates {facts.version}, {facts.date}",
        f"method       {facts.method}, {facts.n_clusters} clusters",
        f"protected    {facts.unit}",
        f"neighbours   {neighbours}",
        *[f"columns      {textwrap.shorten(columns, 6 * WIDTH)}"] * bool(columns),
        f"{'demand is at' if demand else 'rows are in '} {domain}",
        f"condition    {facts.condition or 'none: the promise holds for all data'}",
    ]


def _named(domain: str, names: Sequence[str]) -> str:
    """The words of a domain with names of columns, instead of x0, x1, ..."""

    def name(found: re.Match[str]) -> str:
        j = int(found[1])
        return _one_line(names[j]) if j < len(names) else found[0]

    return FEATURE.sub(name, domain)


def _one_line(name: str) -> str:
    return " ".join(str(name).split())


def _promise(ledger: Ledger) -> str:
    claim = ledger.claim
    removed = ledger.adjacency == "add-remove"
    one = "entry of the demand" if _about_demand(ledger) else "row"
    other = (
        f"without any one {one}, or with one more" if removed else f"with any one {one} replaced"
    )
    words = (
        "The probability of any event that depends on the releases is at most "
        f"exp({claim.epsilon:.6g}) times its probability {other}"
    )
    rest = f", plus {claim.delta:.6g}" if claim.delta else ""
    facts = ledger.facts
    condition = "" if facts is None or facts.condition is None else f" Only if: {facts.condition}."
    return f"{words}{rest} ({claim.words()}).{condition}"


def _paragraph(words: str) -> list[str]:
    return textwrap.wrap(words, WIDTH, initial_indent="  ", subsequent_indent="  ")


def _items(items: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for item in items:
        lines += textwrap.wrap(item, WIDTH, initial_indent="  - ", subsequent_indent="    ")
    return lines
