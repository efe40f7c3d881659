"""The section about the number of clusters: cost and silhouette for each k that was tried."""

from __future__ import annotations

import math
from typing import Any

from kvariates.k_selection import WEAK, Choice
from kvariates.k_selection.confirmation import FALSE_ALARM

from .curves import Line, lines
from .fit_run import FitRun
from .option_words import as_options
from .page import MINUS, Section, number, paragraph, table

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
