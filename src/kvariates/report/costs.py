"""The cost of a fit in words: what it adds up, its unit, and how it changed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kvariates.k_selection import WEAK, Choice
from kvariates.k_selection.confirmation import FALSE_ALARM
from kvariates.report.figures import Line, lines
from kvariates.report.page import MINUS, Section, as_options, number, paragraph, table
from kvariates.report.plane import EARTH
from kvariates.report.run import FitRun

DISTANCES = {  # of k-means, by metric
    "euclidean": "squared distances of the {rows} to their centres",
    "cosine": "1 - cos of the angles between the {rows} and their centres",
}
NOT_DISTANCES = (
    "The columns look like latitude and longitude. Degrees are not distances: a degree of "
    "longitude is 111 km at the equator and 56 km at 60 degrees north. {how} measures true "
    "distances."
)
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


def about_cost(run: FitRun) -> list[str]:
    """What the cost is: a sentence or two; none if it is not known."""
    if run.inertia is None or run.private or run.parameters.get("distortion") is not None:
        return []
    metric = run.parameters.get("metric", "euclidean")
    what = DISTANCES.get(metric)
    if run.record.medoids is not None:
        what = f"distances of the {run.unit} to their medoids"
    if what is None:
        return []
    known = run.of_shell or run.table.weighted or run.record.medoids is not None
    if not known:
        what = f"(weighted) {what}"  # whether a k-means in Python had weights
    words = f"The cost is the sum of the {what.format(rows=run.unit)}"
    words += ", each times its weight" * run.table.weighted
    words += ", in scaled units" * (run.table.scaled and metric != "haversine")
    words += f", after {', '.join(run.table.steps)}" if run.table.steps else ""
    return [f"{words}.{_in_km(run) if metric == 'haversine' else ''}"]


def about_other_rows(run: FitRun) -> list[str]:
    """What is said if the sizes on the page are not those of the fit; empty if they are."""
    labels, in_batches = run.record.labels, run.record.in_batches  # labels: of the last batch
    if labels is None or run.sizes is None or in_batches or run.of_shell or run.private:
        return []
    if np.array_equal(np.bincount(labels[labels >= 0], minlength=run.k), run.sizes):
        return []
    words = f"These are not the {run.unit} of the fit, which had {len(labels):,}: sizes and"
    words += " averages are those of X; the cost and what is proved are about the fit."
    return [words]


def _in_km(run: FitRun) -> str:
    """The mean distance on the globe; distances are added in radians."""
    total = float(run.masses.sum()) if run.masses is not None else 0.0
    if run.inertia is None or not total > 0:
        return f" It is in radians; a radian is {EARTH} km."
    mean = f"{'weighted ' * run.table.weighted}mean distance"
    far = number(EARTH * run.inertia / total)
    return f" It is in radians; a radian is {EARTH} km. The {mean} is {far} km."


def cost_change(first: float, last: float) -> str:
    """How the cost changed from the first iteration to the last."""
    if last == first:
        return f"After the first iteration the cost was {number(first, 6)}, and it did not change."
    part = abs(last - first) / first if first > 0 else 0.0
    size = f"{part:.1%}" if part >= 0.001 else "less than 0.1%"
    how = "less" if last < first else "more"
    digits = next((d for d in range(5, 16) if number(first, d) != number(last, d)), 16)
    return (
        f"From {number(first, digits)} after the first iteration to {number(last, digits)} after "
        f"the last: {size} {how}."
    )


def degrees_note(run: FitRun, degrees: bool) -> list[str]:
    """What a k-means of degrees does not measure, and what does; empty for other fits."""
    plain = run.parameters.get("metric", "euclidean") == "euclidean"
    if not degrees or run.private or run.record.medoids is not None or not plain:
        return []
    python = 'kvariates.KMedian(metric="haversine")'
    how = "--objective median --metric haversine" if run.of_shell else python
    return [NOT_DISTANCES.format(how=how)]


def choice_section(run: FitRun) -> Section:
    """Empty if the number of clusters was given."""
    choice = run.choice
    if choice is None:
        return Section("choice", "Number of clusters", "")
    reason = as_options(choice.reason) if run.of_shell else choice.reason
    html = paragraph(f"k = {choice.k}: {reason}") + paragraph(how_sure(choice))
    html += _costs(choice) + _silhouettes(choice) + _criteria(choice)
    what = "weighted synopses of the rows" if run.table.streamed else "all rows"
    note = f"Costs are those of {what} in this search; the fit above was made anew with this k."
    return Section("choice", "Number of clusters", html + paragraph(note, "note"))


def how_sure(choice: Choice) -> str:
    """One sentence: how sure the answer is."""
    if choice.clear:
        return "The answer is clear."
    if choice.k != choice.guess:
        return (
            f"The answer is not clear: all rows stay one cluster, and k = {choice.guess} is only a "
            "guess."
        )
    return f"The answer is not clear: k = {choice.k} is only a guess."


def choice_summary(choice: Choice) -> dict[str, Any]:
    """The choice for programs."""
    return {
        "k": choice.k,
        "clear": choice.clear,
        "guess": choice.guess,
        "reason": choice.reason,
        "tried": choice.ks,
        "costs": choice.inertia,
        "silhouettes": choice.silhouette,
        "elbows": choice.elbow,
        "dividing": choice.dividing,
    }


def _costs(choice: Choice) -> str:
    costs = choice.inertia.tolist()
    if len(costs) < 2:
        return ""
    log = min(costs) > 0 and max(costs) > 10 * min(costs)
    return lines(_marked("cost", choice, costs), "clusters", "cost", log_y=log)


def _silhouettes(choice: Choice) -> str:
    """Two lines, at 0 and at the value that shows nothing, keep small differences small."""
    values = choice.silhouette.tolist()
    curve = _marked("mean silhouette", choice, values)
    if not curve or len(curve[0].x) < 2:
        return ""
    ends = [curve[0].x[0], curve[0].x[-1]]
    weak = [Line(f"weak below {WEAK:g}", ends, [WEAK, WEAK]), Line("0", ends, [0.0, 0.0])]
    return lines([*curve, *weak], "clusters", "mean silhouette")


def _marked(name: str, choice: Choice, values: list[float]) -> list[Line]:
    """The curve where its values are known, and the points of the chosen k and of a guess."""
    known = [p for p in zip(choice.ks.tolist(), values, strict=True) if not math.isnan(p[1])]
    if not known:
        return []
    x, y = zip(*known, strict=True)
    marks = [(mark_of(choice, k), k, value) for k, value in known]
    return [Line(name, x, y), *(Line(f"{m}: {k}", [k], [value]) for m, k, value in marks if m)]


def mark_of(choice: Choice, k: int) -> str:
    """What is said about this k."""
    if k == choice.guess and not choice.clear:
        return "guess"
    return "chosen" if k == choice.k else ""


def _criteria(choice: Choice) -> str:
    rows = [
        (
            str(choice.ks[i]), number(choice.inertia[i], 6), str(choice.dividing[i]),
            _known(choice.silhouette[i]), _known(choice.elbow[i]),
            mark_of(choice, choice.ks[i]),
        )
        for i in range(len(choice.ks))
    ]  # fmt: skip
    return table(HEADINGS, rows) + paragraph(CRITERIA, "soft")


def _known(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}".replace("-", MINUS)
