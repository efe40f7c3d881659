"""Sections about what is proved: privacy and its ledger, guarantee, stream, transcript of peers."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from kvariates.guarantees import how_to_measure
from kvariates.privacy import ledger_report
from kvariates.report.costs import DISTANCES
from kvariates.report.figures import Bar, Fact, facts, share_bar
from kvariates.report.page import (
    Section,
    as_options,
    number,
    paragraph,
    preformatted,
    promise_box,
    short,
    table,
    text,
)
from kvariates.report.run import FitRun

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
UNITS = ("bytes", "kB", "MB", "GB", "TB")


def noise_warning(run: FitRun) -> str:
    """What a private fit noticed about its result, for the top of the page; empty if nothing."""
    return _box("no", "Read this first", run.record.notes) if run.record.notes else ""


def about_errors(run: FitRun) -> str:
    """What the error bars of private centres mean, or why there are none."""
    if run.errors is not None and run.doubtful.all() and np.isnan(run.errors).all():
        return "No centre has an error bar: all of them may be only noise."
    return run.record.errors_about


def privacy_section(run: FitRun) -> Section:
    """Empty if the fit is not private."""
    ledger = run.record.ledger
    if ledger is None:
        return Section("privacy", "Privacy", "")
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
    ledgers = run.record.ledgers
    html = "".join(
        f"<h3>{short(name)}</h3>{_report(ledger, run)}" for name, ledger in ledgers.items()
    )
    if run.record.ledger is not None:
        html = _report(run.record.ledger, run)
    return Section("ledger", "The ledgers" if len(ledgers) > 1 else "The ledger", html)


def _report(ledger: Any, run: FitRun) -> str:
    """The page of a ledger, with the names of the columns."""
    return preformatted(ledger_report.page(ledger, run.table.names, scaled=run.table.scaled))


def times_as_likely(epsilon: float) -> str:
    """How much likelier a result can be because of one row: exp(epsilon), rounded up."""
    if epsilon > 20:
        return f"exp({number(epsilon)})"
    factor = math.exp(epsilon)
    unit = 10.0 ** (math.floor(math.log10(factor)) - 2)
    return number(math.ceil(factor / unit - 1e-9) * unit, 3)


def _promise(ledger: Any) -> str:
    claim, unit = ledger.claim, "one row" if ledger.facts is None else ledger.facts.unit
    one = (
        f"if {unit} were left out or added"
        if ledger.adjacency == "add-remove"
        else f"if {unit} were replaced by another"
    )
    delta = f", plus a probability of {number(claim.delta)}" if claim.delta else ""
    words = (
        f"What this page shows is at most {times_as_likely(claim.epsilon)} times as likely as it "
        f"would be {one}{delta} (epsilon = {number(claim.epsilon)}, delta = "
        f"{number(claim.delta)})."
    )
    condition = None if ledger.facts is None else ledger.facts.condition
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
    kind_of = _kinds([charge.label for charge in ledger.charges])
    dearest: dict[str, tuple[float, str]] = {}
    for i, charge in enumerate(ledger.charges):
        cost = float(charge.exact(concentrated=ledger.concentrated))
        group = f"{i}" if charge.parallel is None else f"group {charge.parallel}"
        if group not in dearest or cost > dearest[group][0]:
            dearest[group] = cost, kind_of[charge.label]
    costs: dict[str, float] = {}
    for cost, kind in dearest.values():
        costs[kind] = costs.get(kind, 0.0) + cost
    return costs


def _kinds(labels: list[str]) -> dict[str, str]:
    """The kind of each label: labels that differ in numbers are one, as "tree, level …: rows"."""
    shapes = {label: NUMBER.sub("…", label) for label in labels}
    alike = Counter(shapes.values())
    return {label: label if alike[shape] == 1 else shape for label, shape in shapes.items()}


def _box(kind: str, title: str, items: Iterable[str]) -> str:
    rows = "".join(f"<li>{text(words)}</li>" for words in items)
    return f'<div class="box {kind}"><h3>{text(title)}</h3><ul>{rows}</ul></div>'


def guarantee_section(run: FitRun) -> Section:
    """The theorem that holds for the fit, or why none does, and the certificate."""
    record, parts = run.record, []
    certificate = record.certificate
    if certificate is not None:
        words = _spoken(run, certificate.explain())
        parts.append(f"<h3>Certificate: {text(certificate)}</h3>{promise_box(words)}")
    if record.guarantee is not None:
        parts.append(f"<h3>Guarantee</h3>{promise_box(_spoken(run, record.guarantee.explain()))}")
    elif record.lost is not None:
        if certificate is None and record.certifiable:
            parts.append(paragraph(_spoken(run, how_to_measure(certifiable=True))))
        words = f"No theorem bounds the cost of this fit in numbers: {record.lost}"
        parts.append(paragraph(_spoken(run, words)))
    return Section("guarantee", "What is proved", "".join(parts))


def _spoken(run: FitRun, words: str) -> str:
    """A text of the library; in the words of the command if that made the page."""
    return as_options(words) if run.of_shell else words


def stream_section(run: FitRun) -> Section:
    """Rows seen, synopses kept, and what they lose."""
    record, synopses = run.record, run.record.synopses
    if synopses is None:
        return Section("stream", "Stream", "")
    items = [
        Fact("rows seen", f"{record.rows_seen or 0:,}"),
        Fact("synopses", f"{len(synopses):,}"),
        Fact("memory of the synopses", n_bytes(synopses.nbytes + record.synopsis_weights.nbytes)),
    ]
    if record.rows_dropped:
        items.append(Fact("rows dropped", f"{record.rows_dropped:,}"))
    words = (
        "The rows were read once for the centres: k-means ran on weighted points, the synopses, "
        "that stand for them."
    )
    words += " They were read again for the labels, the sizes and the cost." * run.of_shell
    spread = record.spread
    if spread is not None:
        error = f" ± {number(spread.standard_error, 3)}" if spread.standard_error else ""
        items.append(Fact("spread", f"{number(spread.value)}{error}"))
        what = DISTANCES[record.metric].format(rows="rows").replace("centres", "nearest synopses")
        words += f" The spread is the sum of the {what}"
        words += "; what follows ± is the standard error of its estimate." if error else "."
    return Section("stream", "Stream", facts(items) + paragraph(words))


def n_bytes(value: float) -> str:
    """A number of bytes in words."""
    for unit in UNITS[:-1]:
        if value < 1000:
            return f"{number(value, 3)} {unit}"
        value /= 1000
    return f"{number(value, 3)} {UNITS[-1]}"


def transcript_section(run: FitRun) -> Section:
    """What a coordinator and its peers, or parties, sent to each other."""
    transcript = run.record.transcript
    if transcript is None:
        return Section("transcript", "Transcript", "")
    items = [
        Fact("rounds", f"{transcript.rounds:,}"),
        Fact("messages", f"{transcript.messages:,}"),
        Fact("sent to peers", n_bytes(transcript.bytes_sent)),
        Fact("received", n_bytes(transcript.bytes_received)),
        Fact("rows revealed", f"{transcript.points_revealed:,}"),
    ]
    words = paragraph("What was sent between the coordinator and those who hold the data.")
    return Section("transcript", "Transcript", words + facts(items) + _peers(transcript))


def _peers(transcript: Any) -> str:
    parts = []
    if transcript.dropped:
        rows = [(d.peer, str(d.round), d.reason) for d in transcript.dropped]
        parts.append("<h3>Peers that left</h3>" + table(["peer", "round", "reason"], rows))
    if transcript.joined:
        parts.append(paragraph("Joined later: " + ", ".join(map(str, transcript.joined)) + "."))
    if transcript.fingerprints:
        parts.append("<h3>Fingerprints of the public keys</h3>")
        parts += [f"<pre>{text(words)}</pre>" for words in transcript.fingerprints]
    if traffic := transcript.by_question:
        names = [name.replace("_", " ") for name in next(iter(traffic.values()))._fields]
        rows = [(name, *(f"{value:,}" for value in one)) for name, one in traffic.items()]
        parts.append(table(["question", *names], rows))
    for side, learned in transcript.revealed.items():
        items = "".join(f"<li>{text(words)}</li>" for words in learned)
        parts.append(f'<div class="box"><h3>What {text(side)} learns</h3><ul>{items}</ul></div>')
    return "".join(parts)
