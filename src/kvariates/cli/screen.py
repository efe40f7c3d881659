"""What the command prints: messages and progress on standard error, tables on standard output."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import typer
from rich import progress as bars
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as ScreenTable

from kvariates.data.rows import Floats
from kvariates.demo import Region
from kvariates.estimators.kmeans import KMeans

if TYPE_CHECKING:
    from kvariates.report.fit import FitRun

MOST_CLUSTERS, MOST_COLUMNS = 20, 5  # that fit a screen


def say(message: str) -> None:
    """Print a message as one line on standard error."""
    typer.echo(f"kvariates: {' '.join(message.split())}", err=True)


def progress_display(quiet: bool) -> bars.Progress:
    """Return a progress display on standard error; it is off if that is not a terminal."""
    console = Console(stderr=True)
    return bars.Progress(
        bars.SpinnerColumn(finished_text="[green]✓"),
        bars.TextColumn("{task.description}"),
        bars.BarColumn(bar_width=24),
        bars.TimeElapsedColumn(),
        console=console,
        disable=quiet or not console.is_terminal,
    )


@contextmanager
def phase(progress: bars.Progress, what: str) -> Iterator[ProgressBar]:
    """Show a bar for a part of the work."""
    task = progress.add_task(what, total=None)
    yield ProgressBar(progress, task)
    progress.update(task, total=1, completed=1)


@dataclass(frozen=True)
class ProgressBar:
    """A scikit-learn callback that moves a progress bar."""

    progress: bars.Progress
    task: bars.TaskID

    def setup(self, estimator: Any, context: Any) -> None: ...
    def teardown(self, estimator: Any, context: Any) -> None: ...
    def on_fit_task_begin(self, estimator: Any, context: Any) -> None: ...

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        # Tasks form a tree; `done` is the share of it that is complete when this task ends.
        done = 1.0
        while context.parent is not None:
            done = (context.task_id + done) / (context.parent.max_subtasks or math.inf)
            context = context.parent
        self.progress.update(self.task, total=1, completed=done)


class ReadingProgress:
    """Shows how many rows and bytes of a source were read, one pass after the other."""

    def __init__(self, progress: bars.Progress) -> None:
        self._progress = progress
        self.total: int | None = None
        self._task: bars.TaskID | None = None
        self._what = ""

    @contextmanager
    def phase(self, what: str) -> Iterator[None]:
        self._what, self._task = what, self._progress.add_task(what, total=self.total)
        yield
        self._progress.update(self._task, total=1, completed=1)

    def __call__(self, rows: int, n_bytes: int) -> None:
        if self._task is not None:
            words = f"{self._what}, {rows:,} rows, {n_bytes / 1e6:,.0f} MB"
            self._progress.update(self._task, completed=n_bytes, description=words)


def fit_with_bar(model: KMeans, X: Floats, weights: Floats | None, bar: ProgressBar) -> float:
    """Fit with a progress bar, print warnings on standard error, return the seconds."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_callbacks(bar).fit(X, sample_weight=weights)
    for warning in caught:
        say(f"warning: {warning.message}")
    return time.perf_counter() - start


def show_fit(run: FitRun, out: Path) -> None:
    """Print the largest clusters and the first columns, as many as fit a screen."""
    masses, names = run.masses, run.table.names[:MOST_COLUMNS]
    order = np.argsort(-masses, kind="stable")
    centers = run.centers[:, : len(names)]
    rows = [
        (str(j), f"{run.sizes[j]:,}", f"{masses[j] / masses.sum():.1%}", *map(_short, centers[j]))
        for j in order[:MOST_CLUSTERS]
    ]
    print_table([">cluster", ">rows", ">share", *(f">{name}" for name in names)], rows)
    hidden = [
        f"{len(order) - len(rows)} smaller clusters" * (len(order) > len(rows)),
        f"{run.centers.shape[1] - len(names)} columns" * (run.centers.shape[1] > len(names)),
    ]
    if any(hidden):
        typer.echo(f"not shown: {', '.join(h for h in hidden if h)} (see centers.csv)")
    typer.echo(f"inertia {run.inertia:.6g}, seed {run.parameters['random_state']}")
    files = "labels.csv, centers.csv, summary.json, picture.png"
    print_end(run.n_iter, run.seconds, out, files)


def _short(x: float) -> str:
    return f"{x:,.0f}" if 1e3 <= abs(x) < 1e9 else f"{x:.4g}"


def print_table(columns: list[str], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table; a column whose name starts with > is aligned to the right."""
    table = ScreenTable(box=SIMPLE_HEAD, header_style="bold")
    for name in columns:
        table.add_column(name.lstrip(">"), justify="right" if name[0] == ">" else "left")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console().print(table)


def print_end(number: int, seconds: float, out: Path, files: str, what: str = "iterations") -> None:
    """Print the last line of a command."""
    typer.echo(f"{number} {what} in {seconds:.2f} s; wrote {files} to {out}")


def show_regions(regions: list[Region]) -> None:
    """Print the regions of the demo, the largest first."""
    ordered = sorted(regions, key=lambda r: -r.people)
    print_table(["region", ">people", ">share", ">cities", "largest cities"], map(_cells, ordered))


def _cells(r: Region) -> tuple[str, ...]:
    people = f"{r.people / 1e6:,.0f} M"
    return r.name, people, f"{r.share:.1%}", f"{r.cities:,}", ", ".join(r.largest)
