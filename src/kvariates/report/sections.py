"""Sections of the page: choice of k, privacy and ledger, what is proved, stream, transcript."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from kvariates.guarantees import how_to_measure
from kvariates.k_selection import WEAK, Choice
from kvariates.k_selection.confirmation import FALSE_ALARM
from kvariates.palette import Array
from kvariates.privacy.ledger import ledger_page
from kvariates.report.figures import Bar, Line, facts, lines, share_bar
from kvariates.report.page import (
    MINUS,
    number,
    paragraph,
    preformatted,
    promise_box,
    short,
    table,
    text,
)
from kvariates.report.run import FitRun

DISTANCES = {  # of k-means, by metric
    "euclidean": "squared distances of the {rows} to their centres",
    "cosine": "1 - cos of the angles between the {rows} and their centres",
}
HEADINGS = ("clusters", "cost", "clusters that split", "mean silhouette", "elbow", "")
CRITERIA = (
    "A cluster splits if it has two groups with few rows between them. The search looks for the "
    "smallest number from which on no cluster splits. This number is clear if two halves of the "
    "rows lead to the same clusters and not to more, and if there is a gap "
    f"between any two neighbours (false-alarm rate {FALSE_ALARM:g} for all pairs together). "
    "Distinct rows with many copies each can be clear clusters too. Otherwise there is only a "
    f"guess: the largest silhouette or, if all are below {WEAK:g}, which is weak, the elbow, the "
    "depth of the bend in the cost."
)
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


def privacy_section(run: FitRun) -> str:
    """Empty if the fit is not private."""
    if (ledger := run.record.ledger) is None:
        return ""
    may, may_not = MAY, MAY_NOT
    if run.public_points:
        may, may_not = MAY_DEMAND, MAY_NOT_DEMAND
    elif ledger.adjacency == "replace-one":
        may_not = MAY_NOT_FIXED
    boxes = box("yes", "May be published", may) + box("no", "May not be published", may_not)
    spent = f"<h3>Where the budget went</h3>{spending(ledger)}"
    return f'{_promise(ledger)}<div class="two">{boxes}</div>{spent}'


def ledger_section(run: FitRun) -> str:
    """The page of the ledger, or of the ledger of every peer, word for word."""
    record, table, parts = run.record, run.table, []
    own = {} if record.ledger is None else {"": record.ledger}
    for name, ledger in (own or record.ledgers).items():
        words = preformatted(ledger_page(ledger, table.names, scaled=table.scaled))
        parts.append(f"<h3>{short(name)}</h3>{words}" if name else words)
    return "".join(parts)


def times_as_likely(epsilon: float) -> str:
    """How much likelier a result can be because of one row: exp(epsilon), rounded up."""
    if epsilon > 20:
        return f"exp({number(epsilon)})"
    factor = math.exp(epsilon)
    unit = 10.0 ** (math.floor(math.log10(factor)) - 2)
    return number(math.ceil(factor / unit - 1e-9) * unit, 3)


def _promise(ledger: Any) -> str:
    claim, unit = ledger.claim, "one row" if ledger.facts is None else ledger.facts.unit
    changed = "left out or added" if ledger.adjacency == "add-remove" else "replaced by another"
    delta = f", plus a probability of {number(claim.delta)}" if claim.delta else ""
    words = (
        f"What this page shows is at most {times_as_likely(claim.epsilon)} times as likely as it "
        f"would be if {unit} were {changed}{delta} (epsilon = {number(claim.epsilon)}, delta = "
        f"{number(claim.delta)})."
    )
    condition = None if ledger.facts is None else ledger.facts.condition
    extra = paragraph(f"Only if: {condition}.") if condition else ""
    return f'<div class="promise">{paragraph(words)}{extra}</div>'


def spending(ledger: Any) -> str:
    """A drawing of the parts of the budget that each kind of release cost."""
    costs = release_costs(ledger)
    total = sum(costs.values())
    if not total > 0:
        return paragraph("Nothing was charged.")
    items = [
        Bar(label, cost, f"{number(cost, 3)} ({cost / total:.1%})") for label, cost in costs.items()
    ]
    unit, note = "epsilon", "Parts of epsilon."
    if ledger.concentrated:
        unit, note = "rho", "Parts of rho, the unit in which Gaussian noise adds up."
    words = f"{note} Releases about disjoint rows cost as much as the dearest of them."
    return share_bar(items) + paragraph(f"{words} In all: {unit} = {number(total, 5)}.", "note")


def release_costs(ledger: Any) -> dict[str, float]:
    """The cost of each kind of release: labels that differ in numbers are one kind.

    A group about disjoint rows has the kind and the cost of its dearest release.
    """
    shapes = {charge.label: NUMBER.sub("…", charge.label) for charge in ledger.charges}
    alike = Counter(shapes.values())  # such as "tree, level …: rows"
    dearest: dict[str, tuple[float, str]] = {}
    for i, charge in enumerate(ledger.charges):
        cost = float(charge.exact(concentrated=ledger.concentrated))
        group = f"{i}" if charge.parallel is None else f"group {charge.parallel}"
        if group not in dearest or cost > dearest[group][0]:
            shape = shapes[charge.label]
            dearest[group] = cost, charge.label if alike[shape] == 1 else shape
    costs: dict[str, float] = {}
    for cost, kind in dearest.values():
        costs[kind] = costs.get(kind, 0.0) + cost
    return costs


def box(kind: str, title: str, items: Iterable[str]) -> str:
    """A title and a list. `kind`: "yes" and "no" have colours of their own."""
    rows = "".join(f"<li>{text(words)}</li>" for words in items)
    return f'<div class="{f"box {kind}".strip()}"><h3>{text(title)}</h3><ul>{rows}</ul></div>'


def guarantee_section(run: FitRun) -> str:
    """The theorem that holds for the fit, or why none does, and the certificate."""
    record, parts = run.record, []
    if (certificate := record.certificate) is not None:
        words = run.spoken(certificate.explain())
        parts.append(f"<h3>Certificate: {text(certificate)}</h3>{promise_box(words)}")
    if record.guarantee is not None:
        parts.append(f"<h3>Guarantee</h3>{promise_box(run.spoken(record.guarantee.explain()))}")
    elif record.lost is not None:
        if certificate is None and record.certifiable:
            parts.append(paragraph(run.spoken(how_to_measure(certifiable=True))))
        words = f"No theorem bounds the cost of this fit in numbers: {record.lost}"
        parts.append(paragraph(run.spoken(words)))
    return "".join(parts)


def stream_section(run: FitRun) -> str:
    """Rows seen, synopses kept, and what they lose."""
    record, synopses = run.record, run.record.synopses
    if synopses is None:
        return ""
    items = {
        "rows seen": f"{record.rows_seen or 0:,}",
        "synopses": f"{len(synopses):,}",
        "memory of the synopses": n_bytes(synopses.nbytes + record.synopsis_weights.nbytes),
        "rows dropped": f"{record.rows_dropped:,}" if record.rows_dropped else None,
    }
    words = (
        "The rows were read once for the centres: k-means ran on weighted points, the synopses, "
        "that stand for them."
    )
    words += " They were read again for the labels, the sizes and the cost." * run.of_shell
    if (spread := record.spread) is not None:
        error = f" ± {number(spread.standard_error, 3)}" if spread.standard_error else ""
        items["spread"] = f"{number(spread.value)}{error}"
        what = DISTANCES[record.metric].format(rows="rows").replace("centres", "nearest synopses")
        words += f" The spread is the sum of the {what}"
        words += "; what follows ± is the standard error of its estimate." if error else "."
    return facts(items) + paragraph(words)


def n_bytes(value: float) -> str:
    """A number of bytes in words."""
    power = next((i for i in range(len(UNITS)) if value < 1000 ** (i + 1)), len(UNITS) - 1)
    return f"{number(value / 1000**power, 3)} {UNITS[power]}"


def transcript_section(run: FitRun) -> str:
    """What a coordinator and its peers, or parties, sent to each other."""
    if (transcript := run.record.transcript) is None:
        return ""
    items = {
        "rounds": f"{transcript.rounds:,}",
        "messages": f"{transcript.messages:,}",
        "sent to peers": n_bytes(transcript.bytes_sent),
        "received": n_bytes(transcript.bytes_received),
        "rows revealed": f"{transcript.points_revealed:,}",
    }
    words = "What was sent between the coordinator and those who hold the data."
    parts = [paragraph(words), facts(items)]
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
        parts.append(box("", f"What {side} learns", learned))
    return "".join(parts)


def choice_section(run: FitRun) -> str:
    """Empty if the number of clusters was given."""
    if (choice := run.choice) is None:
        return ""
    html = paragraph(f"k = {choice.k}: {run.spoken(choice.reason)}") + paragraph(how_sure(choice))
    if len(choice.ks) > 1:
        html += cost_curves(_marked("cost", choice, choice.inertia), "clusters")
    html += _silhouettes(choice) + _criteria(choice)
    what = "weighted synopses of the rows" if run.table.streamed else "all rows"
    began = isinstance(run.parameters.get("init"), list)
    fit = "began with the centres of this search" if began else "was made anew with this k"
    note = f"Costs are those of {what} in this search; the fit above {fit}."
    return html + paragraph(note, "note")


def how_sure(choice: Choice) -> str:
    """One sentence: how sure the answer is."""
    if choice.clear:
        return "The answer is clear."
    alone = "all rows stay one cluster, and " * (choice.k != choice.guess)
    return f"The answer is not clear: {alone}k = {choice.guess} is only a guess."


def cost_curves(curves: list[Line], over: str, *, listed: bool = False) -> str:
    """Costs (the first curve has all of them), on a logarithmic scale if they differ much."""
    least, most = min(curves[0].y), max(curves[0].y)
    return lines(curves, over, "cost", log_y=0 < 10 * least < most, listed=listed)


def _silhouettes(choice: Choice) -> str:
    """Two lines, at 0 and at the value that shows nothing, keep small differences small."""
    curve = _marked("mean silhouette", choice, choice.silhouette)
    if not curve or len(curve[0].x) < 2:
        return ""
    ends = [curve[0].x[0], curve[0].x[-1]]
    weak = [Line(f"weak below {WEAK:g}", ends, [WEAK, WEAK]), Line("0", ends, [0.0, 0.0])]
    return lines([*curve, *weak], "clusters", "mean silhouette")


def _marked(name: str, choice: Choice, values: Array) -> list[Line]:
    """The curve where its values are known, and the points of the chosen k and of a guess."""
    known = ~np.isnan(values)
    x, y = choice.ks[known].tolist(), values[known].tolist()
    marks = [(mark_of(choice, k), k, value) for k, value in zip(x, y, strict=True)]
    points = [Line(f"{words}: {k}", [k], [value]) for words, k, value in marks if words]
    return [Line(name, x, y), *points] if x else []


def mark_of(choice: Choice, k: int) -> str:
    """What is said about this k."""
    if k == choice.guess and not choice.clear:
        return "guess"
    return "chosen" if k == choice.k else ""


def _criteria(choice: Choice) -> str:
    columns = choice.ks, choice.inertia, choice.dividing, choice.silhouette, choice.elbow
    rows = [
        (str(k), number(cost, 6), str(split), _known(width), _known(elbow), mark_of(choice, k))
        for k, cost, split, width, elbow in zip(*columns, strict=True)
    ]
    return table(HEADINGS, rows) + paragraph(CRITERIA, "soft")


def _known(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}".replace("-", MINUS)
