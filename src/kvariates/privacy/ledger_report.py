"""The ledger as one page in words, for whoever must decide what may be published."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvariates.privacy.ledger import Ledger

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


def page(ledger: Ledger, names: Sequence[str] = (), *, scaled: bool = False) -> str:
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
