"""The section about privacy: the promise, where epsilon went, what may be published, the ledger."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from .figures import Bar, share_bar
from .fit_run import FitRun
from .page import Section, number, paragraph, short, text

NUMBER = re.compile(r"\d+")
MAY = (
    "The centres and the noisy counts: centers.csv, summary.json and this page.",
    "The model, and the whole ledger below.",
    "Everything that is computed from these without looking at the rows again.",
)
MAY_NOT = (
    "Labels of the rows (what predict returns for them), scores and costs.",
    "The exact number of rows, sums, means, or any other statistic of the rows.",
    "How long the fit took, and how much memory it used.",
)
MAY_DEMAND = (
    "The medoids, their noisy counts and the labels of the public points: all files of this fit.",
    "The whole ledger below.",
    "Everything that is computed from these without looking at the demand again.",
)
MAY_NOT_DEMAND = (
    "The demand: the points of single people.",
    "The exact demand of a medoid, the exact cost, or any other statistic of the demand.",
    "How long the fit took, and how much memory it used.",
)
MAY_NOT_FIXED = (MAY_NOT[0], "Exact sums, means, or any other statistic of the rows.", MAY_NOT[2])


def privacy_section(run: FitRun) -> Section:
    """Empty if the fit is not private."""
    if not run.private:
        return Section("privacy", "Privacy", "")
    ledger = run.model.ledger_
    may, may_not = MAY, MAY_NOT
    if run.public_points:
        may, may_not = MAY_DEMAND, MAY_NOT_DEMAND
    elif ledger.adjacency == "replace-one":
        may_not = MAY_NOT_FIXED
    boxes = (
        f'<div class="two">{_box("yes", "May be published", may)}'
        f"{_box('no', 'May not be published', may_not)}</div>"
    )
    spent = f"<h3>Where the budget went</h3>{spending(ledger)}"
    return Section("privacy", "Privacy", _promise(ledger) + boxes + spent)


def ledger_section(run: FitRun) -> Section:
    """The page of the ledger, or of the ledger of every peer, word for word."""
    ledgers = getattr(run.model, "ledgers", {})
    html = "".join(
        f"<h3>{short(name)}</h3>{_lines(ledger.report())}" for name, ledger in ledgers.items()
    )
    if run.private:
        html = _lines(run.model.ledger_.report())
    return Section("ledger", "The ledgers" if len(ledgers) > 1 else "The ledger", html)


def _promise(ledger: Any) -> str:
    claim, unit = ledger.claim, getattr(ledger.facts, "unit", "one row")
    one = (
        f"if {unit} were left out or added"
        if ledger.adjacency == "add-remove"
        else f"if {unit} were replaced by another"
    )
    delta = f", with a failure probability of at most {number(claim.delta)}" if claim.delta else ""
    words = (
        f"What this page shows would be almost as likely {one}: nothing that can be seen in it "
        f"becomes more than exp({number(claim.epsilon)}) times as probable{delta} (epsilon = "
        f"{number(claim.epsilon)}, delta = {number(claim.delta)})."
    )
    condition = getattr(ledger.facts, "condition", None)
    extra = paragraph(f"Only if: {condition}.") if condition else ""
    return f'<div class="promise">{paragraph(words)}{extra}</div>'


def spending(ledger: Any) -> str:
    """A drawing of the parts of the budget that each kind of release cost."""
    costs = release_costs(ledger)
    total = sum(costs.values())
    unit = "rho" if ledger.concentrated else "epsilon"
    if not total > 0:
        return paragraph("Nothing was charged.")
    items = [
        Bar(label, cost, f"{number(cost, 3)} ({cost / total:.1%})") for label, cost in costs.items()
    ]
    note = (
        "Parts of rho, the unit in which Gaussian noise adds up."
        if ledger.concentrated
        else "Parts of epsilon."
    )
    words = f"{note} Releases about disjoint rows cost as much as the dearest of them."
    return share_bar(items) + paragraph(f"{words} In all: {unit} = {number(total, 5)}.", "note")


def release_costs(ledger: Any) -> dict[str, float]:
    """The cost of each kind of release: labels that differ in numbers are one kind.

    A group about disjoint rows has the kind and the cost of its dearest release.
    """
    dearest: dict[str, tuple[float, str]] = {}
    for i, charge in enumerate(ledger.charges):
        cost = float(charge.exact(concentrated=ledger.concentrated))
        group = f"{i}" if charge.parallel is None else f"group {charge.parallel}"
        if group not in dearest or cost > dearest[group][0]:
            dearest[group] = cost, NUMBER.sub("…", charge.label)
    costs: dict[str, float] = {}
    for cost, kind in dearest.values():
        costs[kind] = costs.get(kind, 0.0) + cost
    return costs


def _box(kind: str, title: str, items: Iterable[str]) -> str:
    rows = "".join(f"<li>{text(words)}</li>" for words in items)
    return f'<div class="box {kind}"><h3>{text(title)}</h3><ul>{rows}</ul></div>'


def _lines(page: str) -> str:
    """A text of several lines, each of them made visible."""
    return "<pre>" + "\n".join(text(line) for line in page.splitlines()) + "</pre>"
