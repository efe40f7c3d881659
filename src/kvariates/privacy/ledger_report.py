"""The ledger as one page in words, for whoever must decide what may be published."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvariates.privacy.ledger import Ledger

WIDTH = 96
NEIGHBOURS = {
    "add-remove": "data sets that differ by one row more or less; the number of rows is secret",
    "replace-one": "data sets that differ in one row; the number of rows is the same and public",
}
PUBLISH = (
    "The centres, the noisy counts, every value in the table below, and all that is computed from "
    "them without looking at the rows again. Labels, scores and costs that are computed from the "
    "rows are not covered."
)
NOT_PROMISED = (
    "The time and the memory of a fit, and what a failed fit says about the shape of the input.",
    "Bounds and parameters that were chosen by looking at the rows.",
    "A computer that others can read; a snapshot of a running process that is continued twice.",
    "Other releases about the same people: their losses add up (see Budget).",
)


def page(ledger: Ledger) -> str:
    """The report of a ledger."""
    total, lines = ledger.total(), ["PRIVACY REPORT", ""]
    lines += _facts(ledger)
    lines += ["", "What is promised", *_paragraph(_promise(ledger))]
    lines += ["", "What may be published", *_paragraph(PUBLISH)]
    lines += ["", "What is not promised", *_items(NOT_PROMISED)]
    lines += ["", "Releases", *(f"  {line}" for line in str(ledger).splitlines())]
    if ledger.rho is not None:
        lines += _paragraph(
            f"The charges add up to rho = {ledger.rho:.6g} in zCDP, which is epsilon = "
            f"{total.epsilon:.6g} at delta = {total.delta:.6g} (Canonne, Kamath, Steinke 2020, "
            "Corollary 13)."
        )
    lines += ["", "Units", *_items(f"{name}: {words}" for name, words in units().items())]
    return "\n".join(lines)


def units() -> dict[str, str]:
    """The units of the columns of a ledger."""
    return {
        "sensitivity": "how far one row moves the exact answer: rows, or units of what is summed",
        "scale": "of the noise, in units of the sensitivity (Laplace scale, Gaussian deviation)",
        "epsilon": "of pure differential privacy",
        "rho": "of zero-concentrated differential privacy (zCDP)",
    }


def _facts(ledger: Ledger) -> list[str]:
    facts = ledger.facts
    if facts is None:
        return [f"neighbours   {NEIGHBOURS[ledger.adjacency]}"]
    return [
        f"made by      kvariates {facts.version}, {facts.date}",
        f"method       {facts.method}, {facts.n_clusters} clusters",
        f"protected    {facts.unit}",
        f"neighbours   {NEIGHBOURS[ledger.adjacency]}",
        f"rows are in  {facts.domain}",
        f"condition    {facts.condition or 'none: the promise holds for all data'}",
    ]


def _promise(ledger: Ledger) -> str:
    claim = ledger.claim
    removed = ledger.adjacency == "add-remove"
    words = (
        "The probability of any event that depends on the releases is at most "
        f"exp({claim.epsilon:.6g}) times its probability "
        f"{'without any one row, or with one row more' if removed else 'with any one row replaced'}"
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
