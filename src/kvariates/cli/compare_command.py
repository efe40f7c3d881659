"""The work of `kvariates compare`: seedings and numbers of clusters side by side."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import typer
from rich.progress import Progress

from kvariates.cli.app import check_name
from kvariates.cli.fit_command import scaled_rows
from kvariates.cli.reading import ReadRequest, read_table, say_remarks
from kvariates.cli.screen import phase, print_table, said_warnings
from kvariates.estimators.choose_k import choose_k
from kvariates.estimators.kmeans import KMeans
from kvariates.k_selection import Choice
from kvariates.report.sections import mark_of
from kvariates.seeding.seedings import HOST_SEEDINGS

FEWEST, MOST = 2, 20  # clusters, if -k is not given
LEGEND = (
    "silhouette and elbow: higher is better; the first and the last k have no elbow; a gap of -: "
    "no bound was found"
)
CHEAP_ROWS = 500  # up to which a lower bound on the cost is computed
CHEAP_SECONDS = 10.0  # for all bounds together


@dataclass(frozen=True)
class CompareRequest:
    """What to compare."""

    reading: ReadRequest
    ks: tuple[int, int] | None  # from, to; None: from FEWEST to MOST, or to the number of rows
    inits: tuple[str, ...]
    scaling: str
    seed: int
    quiet: bool


@dataclass(frozen=True)
class ComparedRun:
    """One seeding with one number of clusters. `gap`: to the lower bound; None if unknown."""

    k: int
    init: str
    cost: float
    seconds: float
    gap: float | None
    silhouette: float
    elbow: float


@dataclass(frozen=True, eq=False)
class Comparison:
    """All lines, and the suggested number of clusters."""

    lines: list[ComparedRun]
    choice: Choice
    rows: int

    def summary(self) -> dict[str, Any]:
        choice = self.choice
        suggestion = {
            "k": int(choice.k), "clear": bool(choice.clear), "guess": int(choice.guess),
            "reason": choice.reason,
        }  # fmt: skip
        return {
            "rows": self.rows,
            "suggestion": suggestion,
            "runs": [asdict(line) for line in self.lines],
        }


def compare_file(request: CompareRequest, progress: Progress) -> Comparison:
    """Read the file and run every seeding for every k."""
    for name in request.inits:
        check_name("init", name, HOST_SEEDINGS)
    with phase(progress, f"reading {request.reading.data.name}"):
        data = read_table(request.reading, quiet=request.quiet)
        X, w = data.table.X, data.table.weight
        if not request.quiet:
            say_remarks(data.table, request.scaling != "none", request.reading)
        X, _ = scaled_rows(X, w, request.scaling)
    low, high = _range(request, X.shape[0])
    with phase(progress, f"trying {low} to {high} clusters"), said_warnings(request.reading.notes):
        choice = choose_k(X, (low, high), sample_weight=w, random_state=request.seed)
    lines = _lines(request, choice, X, w, progress)
    return Comparison(lines, choice, X.shape[0])


def _range(request: CompareRequest, rows: int) -> tuple[int, int]:
    """The least and the largest number of clusters."""
    if request.ks is None:
        return min(FEWEST, rows), min(MOST, rows)
    low, high = request.ks
    if high > rows:
        raise ValueError(
            f"{request.reading.data}: has {rows:,} rows, so -k can go up to {rows}, not {high}"
        )
    return low, high


def _lines(
    request: CompareRequest, choice: Choice, X: Any, w: Any, progress: Progress
) -> list[ComparedRun]:
    lines, spent = [], 0.0
    task = progress.add_task("comparing seedings", total=len(choice.ks))
    for at, k in enumerate(choice.ks.tolist()):
        bound, begin = None, time.perf_counter()
        if X.shape[0] <= CHEAP_ROWS and spent < CHEAP_SECONDS:
            bound = _fitted(k, request, X, w, certify=True).certificate_.lower_bound
            spent += time.perf_counter() - begin
        for init in request.inits:
            begin = time.perf_counter()
            cost = float(_fitted(k, request, X, w, init=init, n_init=1).inertia_)
            seconds = time.perf_counter() - begin
            gap = max(cost / bound - 1, 0.0) if bound else None
            silhouette, elbow = float(choice.silhouette[at]), float(choice.elbow[at])
            lines.append(ComparedRun(k, init, cost, seconds, gap, silhouette, elbow))
        progress.advance(task)
    return lines


def _fitted(k: int, request: CompareRequest, X: Any, w: Any, **choices: Any) -> KMeans:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `choose_k` has said it
        model = KMeans(k, random_state=request.seed, **choices)
        model.fit(X, sample_weight=w)
    return model


def show_comparison(found: Comparison) -> None:
    """Print a line for each number of clusters."""
    inits = list(dict.fromkeys(line.init for line in found.lines))
    certified = any(line.gap is not None for line in found.lines)
    head = [">k", ">best cost", *(f">{init}" for init in inits), ">seconds"]
    head += [">gap"] * certified + [">silhouette", ">elbow", ""]
    rows = []
    for k in dict.fromkeys(line.k for line in found.lines):
        lines = {line.init: line for line in found.lines if line.k == k}
        first = lines[inits[0]]
        best = min(line.cost for line in lines.values())
        gaps = [line.gap for line in lines.values() if line.gap is not None]
        cells = [str(k), f"{best:.5g}", *(_more(lines[init].cost, best) for init in inits)]
        cells += [f"{sum(line.seconds for line in lines.values()):.2f}"]
        cells += ["-" if not gaps else f"{min(gaps):.1%}"] * certified
        cells += [_number(first.silhouette), _number(first.elbow)]
        rows.append((*cells, mark_of(found.choice, k)))
    print_table(head, rows)
    end = "; the gap is how far the best cost can be above the optimum" if certified else ""
    typer.echo(f"under each seeding: how much more it costs than the best{end}")


def _more(cost: float, best: float) -> str:
    if cost <= best * (1 + 1e-9) or best <= 0:
        return "best"
    ratio = cost / best
    return f"x {ratio:.3g}" if ratio >= 2 else f"+{ratio - 1:.1%}"


def _number(x: float) -> str:
    return "-" if not np.isfinite(x) else f"{x:.3f}"
