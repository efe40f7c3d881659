"""The files about a fit, and their page: what was run, clusters, centres, cost, what is proved."""

from __future__ import annotations

import shlex
from importlib.metadata import version
from pathlib import Path

import numpy as np

from kvariates.file_writing import json_text, write_rows
from kvariates.palette import Array, Look, looks

from . import clusters, sections
from .clusters import MOST_LISTED, Contrast, View, amounts_in_words, largest_clusters
from .figures import Bar, Line, bars, facts
from .page import Section, counted, number, page_html, paragraph, short, text
from .plane import EARTH
from .run import FitRun, ShownRows, centers_table, summary

MOST_NAMES = 40  # of columns in a list
MOST_LETTERS = 600  # of a note, or of a parameter


def write_fit(run: FitRun, shown: ShownRows | None, folder: Path) -> None:
    """Write centers.csv, summary.json and report.html into a directory.

    If the model is private, the files hold nothing but what its ledger charged for; see
    `FitRun.released`.
    """
    run = run.released()
    write_rows(folder / "centers.csv", *centers_table(run))
    files = {"summary.json": json_text(summary(run)) + "\n", "report.html": fit_html(run, shown)}
    for name, words in files.items():  # half of a surrogate pair, of a name, becomes JSON's escape
        (folder / name).write_bytes(words.encode("utf-8", "backslashreplace"))


def fit_html(run: FitRun, shown: ShownRows | None) -> str:
    """The whole page. Of a private fit, only what was charged, or is public, is looked at."""
    run = run.released()
    if run.private and not run.public_points:
        shown = None
    found = clusters.contrast(run, shown)
    view = clusters.view_of(run, shown)
    look = looks(run.centers if view is None else view.flat.centers)
    n = run.table.rows
    title = counted(run.k, "clusters") + ("" if n is None else f" of {counted(n, run.unit)}")
    title += ", found privately" * run.private
    ledgers = f"The ledger{'s' * (len(run.record.ledgers) > 1)}"
    parts = [
        Section("overview", "Overview", _overview(run, view)),
        Section("privacy", "Privacy", sections.privacy_section(run)),
        Section("clusters", "Clusters", _clusters(run, view, found)),
        Section("sizes", "Sizes", _sizes(run, look)),
        Section("centres", "Centres", _centers(run, found, look, view)),
        Section("choice", "Number of clusters", sections.choice_section(run)),
        Section("cost", "Cost by iteration", _costs(run)),
        Section("guarantee", "What is proved", sections.guarantee_section(run)),
        Section("stream", "Stream", sections.stream_section(run)),
        Section("transcript", "Transcript", sections.transcript_section(run)),
        Section("ledger", ledgers, sections.ledger_section(run)),
        Section("again", "Run it again", _again(run)),
    ]
    return page_html(title, _lead(run), parts)


def _lead(run: FitRun) -> str:
    table, metric = run.table, run.parameters.get("metric", "euclidean")
    words = [run.record.method] if table.path is None else [table.path.name, run.record.method]
    words += [] if metric == "euclidean" or not isinstance(metric, str) else [f"{metric} metric"]
    words += ["columns scaled before clustering"] * table.scaled
    words += [f"after {', '.join(table.steps)}"] if table.steps else []
    return " · ".join(words)


def _overview(run: FitRun, view: View | None) -> str:
    table, record = run.table, run.record
    claim = None if record.ledger is None else record.ledger.claim
    items = {
        run.unit: None if table.rows is None else f"{table.rows:,}",
        "columns": f"{len(table.names):,}" if run.has_columns else None,
        "clusters": f"{run.k:,}",
        "epsilon": None if claim is None else number(claim.epsilon),
        "delta": None if claim is None else number(claim.delta),
        "cost (inertia)": None if run.inertia is None else number(run.inertia, 6),
        record.steps: None if run.n_iter is None else f"{run.n_iter:,}",
        "seconds": None if run.seconds is None else number(run.seconds, 3),
        "certificate": None if record.certificate is None else str(record.certificate),
    }
    degrees = view is not None and view.flat.degrees
    said = (_about_cost(run), _about_other_rows(run), *run.notes, _degrees_note(run, degrees))
    notes = "".join(f"<li>{short(words, MOST_LETTERS)}</li>" for words in said if words)
    noise = sections.box("no", "Read this first", record.notes) if record.notes else ""
    return noise + facts(items) + (f'<ul class="notes">{notes}</ul>' if notes else "")


def _clusters(run: FitRun, view: View | None, found: Contrast | None) -> str:
    if view is not None:
        return clusters.drawn(run, view, found)
    words = "There is no drawing, because the points have no coordinates."
    if not run.of_shell and not callable(run.parameters.get("metric")):
        words += " If you have some, give them to write_report as X."
    if run.of_shell and run.parameters.get("metric") == "graph":
        words += " --nodes reads them from a table."
    return paragraph(words)


def _sizes(run: FitRun, look: tuple[Look, ...]) -> str:
    if run.sizes is None or run.amounts is None:
        return ""
    amounts, words_of = run.amounts, _sizes_in_words(run, run.sizes)
    items = [Bar(str(i), float(amounts[i]), words_of[i], look[i]) for i in largest_clusters(run)]
    limits, words = _limits(run)
    if run.k > MOST_LISTED:
        words += paragraph(f"The {MOST_LISTED} largest clusters; centers.csv has all of them.")
    return words + bars(items, limits) + _weights_note(run)


def _sizes_in_words(run: FitRun, sizes: Array) -> list[str]:
    """The size of each cluster with its unit, its share, and its rows if its size is a weight."""
    found = []
    for amount, share, size in zip(amounts_in_words(run), run.shares, sizes, strict=True):
        if run.measured_in == "weight":
            found.append(f"weight {amount} · {share:.1%} · {counted(int(size), run.unit)}")
        else:
            unit = run.measured_in.removesuffix("s") if amount == "1" else run.measured_in
            found.append(f"{amount} {unit} · {share:.1%}")
    return found


def _limits(run: FitRun) -> tuple[list[float], str]:
    """Limits on sizes, and what is said about them."""
    least, most = (run.parameters.get(name) for name in ("size_min", "size_max"))
    if least is None and most is None:
        return [], ""
    words = [f"at least {number(least)}"] if least is not None else []
    words += [f"at most {number(most)}"] if most is not None else []
    best = "For these centres, no other labels within the limits cost less."
    if gap := run.record.gap:
        best = f"The labels cost at most {number(gap)} more than the best ones within the limits."
    unit = "weight" if run.table.weighted else "rows"
    said = paragraph(f"Each cluster was to have {' and '.join(words)} {unit}. {best}")
    return [float(v) for v in (least, most) if v is not None], said


def _weights_note(run: FitRun) -> str:
    if run.private:
        return paragraph("Counts are noisy: they were paid for, and may be published.", "note")
    if not run.table.weighted or run.masses is None:
        return ""
    column = f" ({'column ' * run.of_shell}{run.table.weights})" if run.table.weights else ""
    total = number(float(np.sum(run.masses)))
    words = f"{run.unit.capitalize()} have weights{column}. Bars and per cents are parts of the"
    return paragraph(f"{words} total weight, {total}.", "note")


def _centers(run: FitRun, found: Contrast | None, look: tuple[Look, ...], view: View | None) -> str:
    cities = () if view is None else view.cities
    listed = clusters.center_table(run, found, look, cities)
    if found is None:
        from_one = bool(run.medoid_rows) and not run.medoids and not run.medoid_ids
        return paragraph(f"{run.unit.capitalize()} are counted from 1.", "soft") * from_one + listed
    words = (
        f"Centres are in the units {run.table.units}. Shades show how far a value is above "
        f"(orange) or below (blue) the average, in standard deviations of {found.measured_by}."
    )
    shown, d = len(found.columns()), len(run.table.names)
    if shown < d:
        words += (
            f" The {shown} columns in which centres differ most are shown; centers.csv has all "
            f"{d:,}."
        )
    about = paragraph(run.about_errors, "soft") if run.private else ""
    return paragraph(words, "soft") + about + listed


def _costs(run: FitRun) -> str:
    costs = [float(c) for c in run.costs if np.isfinite(c)]
    if len(costs) < 2:
        return ""
    curve = Line("cost", range(1, len(costs) + 1), costs)
    drawn = sections.cost_curves([curve], "iteration", listed=True)
    return paragraph(cost_change(costs[0], costs[-1])) + drawn


def _again(run: FitRun) -> str:
    table, seed = run.table, run.parameters.get("random_state")
    weights = "no" if run.of_shell else ""  # of a fit in Python it is not known
    pairs = [
        ("data", "" if table.path is None else text(table.path.name)),
        ("columns", _names(table.names) if run.has_columns else ""),
        ("left out", _names(table.left_out)),
        ("rows left out", "" if table.kept is None else f"{np.count_nonzero(~table.kept):,}"),
        ("weights", short(table.weights) or "yes" if table.weighted else weights),
        ("kvariates", version("kvariates")),
        ("seed", "" if run.private else "none" if seed is None else str(seed)),
    ]
    parameters = [
        (n, short(str(v), MOST_LETTERS)) for n, v in run.parameters.items() if n != "random_state"
    ]
    more = f"<details><summary>All parameters</summary>{_pairs(parameters)}</details>"
    note = paragraph(_repeated(run), "note")
    return _command(run) + _pairs(pairs) + note + (more if parameters else "")


def _command(run: FitRun) -> str:
    if not run.command:
        return ""
    words = _without_folders(run.command) if run.of_shell else run.command
    note = paragraph("Folders of this computer are left out.", "note") * (words != run.command)
    return (
        f'<div class="command"><pre class="wrap"><code>{text(words)}</code></pre>'
        f'<button type="button" data-copy="{text(words)}">Copy</button></div>{note}'
    )


def _without_folders(command: str) -> str:
    """The command with names in place of absolute paths, which say who made the page."""
    words = []
    for word in shlex.split(command):
        option, sign, value = word.partition("=") if word.startswith("--") else ("", "", word)
        name = Path(value).name if value.startswith("/") else value
        words.append(f"{option}{sign}{name}")
    return command if words == shlex.split(command) else shlex.join(words)


def _repeated(run: FitRun) -> str:
    """What another run of the same command gives."""
    if run.private:
        return (
            "The noise of a private fit cannot be repeated: another run gives other centres, and "
            "costs its epsilon again."
        )
    if not isinstance(run.parameters.get("random_state"), int):
        return "No seed was given: another run may give other clusters."
    return "The same seed gives the same centres, on any number of threads."


def _pairs(pairs: list[tuple[str, str]]) -> str:
    """A list of names, which are plain texts, and of HTML."""
    rows = "".join(f"<dt>{text(name)}</dt><dd>{words}</dd>" for name, words in pairs if words)
    return f'<dl class="pairs">{rows}</dl>'


def _names(names: tuple[str, ...]) -> str:
    words = ", ".join(short(name) for name in names[:MOST_NAMES])
    more = len(names) - MOST_NAMES
    return f"{words} and {more:,} more" if more > 0 else words


def _about_cost(run: FitRun) -> str:
    """What the cost is: a sentence or two; empty if it is not known."""
    if run.inertia is None or run.private or run.parameters.get("distortion") is not None:
        return ""
    metric = run.parameters.get("metric", "euclidean")
    what = sections.DISTANCES.get(metric)
    if run.record.medoids is not None:
        what = f"distances of the {run.unit} to their medoids"
    elif what is None:
        return ""
    elif not run.of_shell and not run.table.weighted:
        what = f"(weighted) {what}"  # whether a k-means in Python had weights is not known
    words = f"The cost is the sum of the {what.format(rows=run.unit)}"
    words += ", each times its weight" * run.table.weighted
    words += ", in scaled units" * (run.table.scaled and metric != "haversine")
    words += f", after {', '.join(run.table.steps)}" if run.table.steps else ""
    words += "."
    if metric == "haversine":
        words += f" It is in radians; a radian is {EARTH} km."
        total = 0.0 if run.masses is None else float(run.masses.sum())
        mean = f"{'weighted ' * run.table.weighted}mean distance"
        words += f" The {mean} is {number(EARTH * run.inertia / total)} km." if total > 0 else ""
    return words


def _about_other_rows(run: FitRun) -> str:
    """What is said if the sizes on the page are not those of the fit; empty if they are."""
    labels, in_batches = run.record.labels, run.record.in_batches  # labels: of the last batch
    if labels is None or run.sizes is None or in_batches or run.of_shell or run.private:
        return ""
    if np.array_equal(np.bincount(labels[labels >= 0], minlength=run.k), run.sizes):
        return ""
    return (
        f"These are not the {run.unit} of the fit, which had {len(labels):,}: sizes and averages "
        "are those of X; the cost and what is proved are about the fit."
    )


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


def _degrees_note(run: FitRun, degrees: bool) -> str:
    """What a k-means of degrees does not measure, and what does; empty for other fits."""
    plain = run.parameters.get("metric", "euclidean") == "euclidean"
    if not degrees or run.private or run.record.medoids is not None or not plain:
        return ""
    python = 'kvariates.KMedian(metric="haversine")'
    return (
        "The columns look like latitude and longitude. Degrees are not distances: a degree of "
        "longitude is 111 km at the equator and 56 km at 60 degrees north. "
        f"{'--objective median --metric haversine' if run.of_shell else python} measures true "
        "distances."
    )
