"""What the command prints: messages and progress on standard error, tables on standard output."""

from __future__ import annotations

import math
import threading
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
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as ScreenTable
from rich.text import Text

from kvariates.cli.app import DROP, WARNING, Notes, printable
from kvariates.estimators.choose_k import ScaleWarning
from kvariates.estimators.validation import TooFewRowsError
from kvariates.file_writing import json_text
from kvariates.report.page import as_options
from kvariates.sources import MissingValuesError
from kvariates.sources.input_file import PathOrUrl

if TYPE_CHECKING:
    from kvariates.report.run import FitRun

MOST_CLUSTERS, MOST_COLUMNS = 20, 5  # that fit a screen
NARROW, LONGEST_NAME = 14, 42  # letters in a line, and in all, of a column's name
DELAY = 1.0  # seconds of work before bars appear


@contextmanager
def progress_display(quiet: bool) -> Iterator[bars.Progress]:
    """Progress bars on standard error, after a second; none if that is not a terminal."""
    console = Console(stderr=True)
    shown = not quiet and console.is_terminal
    progress = bars.Progress(
        bars.SpinnerColumn(finished_text="[green]✓"),
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(bar_width=24),
        bars.TimeElapsedColumn(),
        console=console,
        disable=not shown,
    )
    timer = threading.Timer(DELAY, progress.start)
    timer.daemon = True
    if shown:
        timer.start()
    try:
        yield progress
    finally:
        timer.cancel()
        if timer.is_alive():
            timer.join()
        progress.stop()


@contextmanager
def phase(progress: bars.Progress, what: str) -> Iterator[ProgressBar]:
    """Show a bar for a part of the work."""
    bar = ProgressBar(progress, progress.add_task(printable(what), total=None))
    yield bar
    bar.show(1)


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
        self.show(done)

    def show(self, done: float) -> None:
        """Show that this part, of 1, is done."""
        self.progress.update(self.task, total=1, completed=done)


class ReadingProgress:
    """Shows how many rows and bytes of a source were read, one pass after the other."""

    def __init__(self, progress: bars.Progress) -> None:
        self._progress, self._what = progress, ""
        self.total: int | None = None
        self._bar: ProgressBar | None = None

    @contextmanager
    def phase(self, what: str) -> Iterator[None]:
        self._what = printable(what)
        with phase(self._progress, what) as self._bar:
            self._progress.update(self._bar.task, total=self.total)
            yield

    def __call__(self, rows: int, n_bytes: int) -> None:
        if self._bar is not None:
            words = f"{self._what}, {rows:,} rows, {n_bytes / 1e6:,.0f} MB"
            self._progress.update(self._bar.task, completed=n_bytes, description=words)


@contextmanager
def said_warnings(notes: Notes) -> Iterator[None]:
    """Say warnings of an estimator later, and name options in them and in its errors.

    Messages about the data are not to pass here: they have names of columns, which would be taken
    for parameters.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", ScaleWarning)  # `reading` says it, with names
        try:
            yield
        except (MissingValuesError, TooFewRowsError):
            raise  # see `command_words`
        except ValueError as error:
            raise ValueError(as_options(str(error))) from error
    for words in dict.fromkeys(str(warning.message) for warning in caught):
        notes.add(f"{WARNING}{as_options(words)}")


@contextmanager
def command_words(data: PathOrUrl, unit: str = "rows") -> Iterator[None]:
    """Errors in the words of the command, with the name of the file."""
    try:
        yield
    except MissingValuesError as error:
        raise ValueError(f"{error.where}; {DROP}") from None
    except TooFewRowsError as error:
        option = "-g" if error.parameter == "n_groups" else "-k"
        words = f"{option} {error.asked} is above the {error.rows:,} {unit} of {data}"
        raise ValueError(words) from None


def fit_with_bar(model: Any, bar: ProgressBar, notes: Notes, X: Any, **options: Any) -> float:
    """Fit with a progress bar, say warnings later, return the seconds. `options`: of `fit`."""
    start = time.perf_counter()
    with said_warnings(notes):
        model.set_callbacks(bar).fit(X, **options)
    model.set_callbacks()  # the saved model has no bar
    return time.perf_counter() - start


def show_fit(run: FitRun, out: Path, files: list[str]) -> None:
    """Print the largest clusters and the first columns, as many as fit a screen."""
    shares, names = run.shares, run.table.names[:MOST_COLUMNS]
    cells = [[name] for name in run.medoids] or run.centers[:, : len(names)].tolist()
    order = np.argsort(-shares, kind="stable")
    sizes = [f"{round(size):,}" for size in run.known_sizes]
    rows = [
        (str(j), sizes[j], f"{shares[j]:.1%}", *map(_short, cells[j]))
        for j in order[:MOST_CLUSTERS].tolist()
    ]
    counted = run.counted if run.private else "rows"
    head = [">cluster", f">{counted}", ">share"]
    shown = print_table([*head, *(f">{name}" for name in names)], rows, len(head) + 1)
    columns = run.centers.shape[1] - (shown - len(head))
    hidden = [
        f"{len(order) - len(rows)} smaller clusters" * (len(order) > len(rows)),
        f"{columns} {'column' if columns == 1 else 'columns'}" * (columns > 0),
    ]
    if any(hidden):
        typer.echo(f"not shown: {', '.join(h for h in hidden if h)} (see centers.csv)")
    if run.inertia is not None:
        seed = run.parameters.get("random_state")
        typer.echo(f"inertia {run.inertia:.6g}, seed {seed}")
    if run.record.certificate is not None:
        typer.echo(str(run.record.certificate))
    if run.record.ledger is not None:
        loss = run.record.ledger.total()
        typer.echo(f"private: epsilon {loss.epsilon:g}, delta {loss.delta:g}; counts are noisy")
    end = ", ".join(files)
    if run.seconds is None:
        typer.echo(printable(f"wrote {end} to {out}"))
    else:
        print_end(run.n_iter or 0, run.seconds, out, end, run.record.steps)


def show_json(content: Any) -> None:
    """Print a result for programs. NaN and infinity become null."""
    typer.echo(json_text(content, ascii_only=True))


def _short(x: Any) -> str:
    if isinstance(x, str):
        return x
    return f"{x:,.0f}" if 1e3 <= abs(x) < 1e9 else f"{x:.4g}"


def print_table(
    columns: list[str], rows: Iterable[tuple[str, ...]], least: int | None = None
) -> int:
    """Print a table; a column whose name starts with > has numbers, which are never cut.

    If not all columns fit the screen, the last ones are left out, but for the first `least` (all if
    None). Returns how many are shown.
    """
    console, cells = Console(), [[printable(cell) for cell in row] for row in rows]
    names = [printable(name.removeprefix(">"))[:LONGEST_NAME] for name in columns]
    right = [name[:1] == ">" for name in columns]
    widths = [_width(name, [row[j] for row in cells], right[j]) for j, name in enumerate(names)]
    shown, least = len(columns), least or len(columns)
    while (total := sum(widths[:shown]) + 3 * shown + 1) > console.width and shown > least:
        shown -= 1
    console.width = max(console.width, total)
    table = ScreenTable(box=SIMPLE_HEAD, header_style="bold")
    for name, width, numbers in zip(names[:shown], widths, right, strict=False):
        side: Any = "right" if numbers else "left"
        fixed = width if numbers else None
        table.add_column(Text(name, overflow="fold"), justify=side, width=fixed)
    for row in cells:
        table.add_row(*map(Text, row[:shown]))
    console.print(table)
    return shown


def _width(name: str, cells: list[str], numbers: bool) -> int:
    """The width that a column needs: names, and cells that are words, can have several lines."""
    longest = max(map(cell_len, cells), default=0)
    return max(min(cell_len(name), NARROW), longest if numbers else min(longest, NARROW))


def print_end(number: int, seconds: float, out: Path, files: str, what: str = "iterations") -> None:
    """Print the last line of a command."""
    what = what[:-1] if number == 1 else what
    typer.echo(printable(f"{number} {what} in {seconds:.2f} s; wrote {files} to {out}"))
