"""The command `kvariates`: reads a table, clusters it and writes files.

Results go to standard output and to files, progress and errors to standard error. An error is one
line, ``kvariates: what, where``; the exit code is 2 for bad input and 130 for Ctrl-C.
"""

from __future__ import annotations

import math
import os
import secrets
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, cast

import numpy as np
import typer
from rich import progress as bars
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as ScreenTable
from typer.core import TyperCommand, TyperGroup

from .data.blocks import SourceBlocks
from .data.exact_sums import exact_total, to_float
from .data.rows import Floats, Rows
from .demo import Region, load_cities, name_regions, write_demo
from .estimators.kmeans import KMeans
from .estimators.streaming_kmeans import StreamingKMeans
from .objectives.objective import OBJECTIVES
from .refining.refinements import REFINEMENTS
from .report.files import moved_into_place
from .seeding.seedings import SEEDINGS
from .sources import DataTable, StandardizedBlocks, blocks, read, standardize
from .tables import Table

if TYPE_CHECKING:
    from .report.fit import FitRun

# Newer versions of Typer contain a copy of Click, so the base class is found through Typer.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
MOST_CLUSTERS, MOST_COLUMNS = 20, 5  # that fit a screen
TABLES: dict[str, Table[Any]] = {"init": SEEDINGS, "algorithm": REFINEMENTS, "metric": OBJECTIVES}


class _TableOptions(TyperCommand):
    """A command whose help lists the entries that the tables have when it is called."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for option in self.params:
            if option.name in TABLES:
                entries = (f'"{n}": {entry.help}' for n, entry in TABLES[option.name].items())
                option.help = " ".join([option.help, *entries])  # type: ignore[attr-defined]


def _listed(option: typer.CallbackParam, name: str) -> str:
    """Return the name if the table of the option has it."""
    table = TABLES[str(option.name)]
    if name not in table:
        raise typer.BadParameter(f"{name!r} is not one of {table.names}.")
    return name


class _OneLineErrors(TyperGroup):
    """A command group that prints a usage error as one line."""

    def main(self, *args: Any, **options: Any) -> Any:
        standalone = options.pop("standalone_mode", True)
        try:
            code = super().main(*args, **{**options, "standalone_mode": False})
        except UsageError as error:
            _say(error.format_message())  # type: ignore[attr-defined]
            code = 2
        return sys.exit(code or 0) if standalone else code


app = typer.Typer(
    name="kvariates",
    cls=_OneLineErrors,
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> NoReturn:
    """Run the command; the entry point of the installed script."""
    sys.exit(app())


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvariates {version('kvariates')}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)
_FILE = typer.Argument(
    help="A .csv, .csv.gz, .parquet, .npz or .npy file, or a folder of .parquet files."
)
_CLUSTERS = typer.Option("-k", "--clusters", min=1, help="Number of clusters.")
_OUT = typer.Option("-o", "--out", help="Directory for the results.")
_COLUMNS = typer.Option(help="Columns to use, as a,b,c; all numeric ones if not given.")
_WEIGHTS = typer.Option(help="Column that holds row weights.")
_SCALE = typer.Option("--standardize", help="Give each column mean 0 and deviation 1 first.")
_NAME = typer.Option(callback=_listed, help="One of these:")
_STARTS = typer.Option(min=1, help="Number of starts; the best is kept.")
_SEED = typer.Option(min=0, max=2**32 - 1, help="Seed; one is drawn if not given.")
_STREAM = typer.Option(
    help="Read the file in blocks, cluster a summary of its rows (StreamingKMeans), and read it "
    "again for the labels. By default this is done for a folder of .parquet files, and if the "
    "table would fill more than a third of the memory."
)
_QUIET = typer.Option("--quiet", "-q", help="Print nothing but errors.")


@app.callback()
def _root(context: typer.Context, _version: Annotated[bool, _VERSION] = False) -> None:
    """Cluster tables of numbers."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(cls=_TableOptions)
def fit(
    data: Annotated[Path, _FILE],
    k: Annotated[int, _CLUSTERS],
    out: Annotated[Path, _OUT] = Path("kvariates-out"),
    columns: Annotated[str | None, _COLUMNS] = None,
    weights: Annotated[str | None, _WEIGHTS] = None,
    scale: Annotated[bool, _SCALE] = False,
    metric: Annotated[str, _NAME] = "euclidean",
    init: Annotated[str, _NAME] = "k-means++",
    algorithm: Annotated[str, _NAME] = "auto",
    n_init: Annotated[int | None, _STARTS] = None,
    seed: Annotated[int | None, _SEED] = None,
    stream: Annotated[bool | None, _STREAM] = None,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Cluster a table: writes labels.csv, centers.csv, summary.json and picture.png."""
    choices: dict[str, Any] = {
        "n_clusters": k,
        "metric": metric,
        "init": init,
        "algorithm": algorithm,
        "n_init": n_init or "auto",
        # A drawn seed is written to summary.json, so that the run can be repeated.
        "random_state": secrets.randbits(32) if seed is None else seed,
    }
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    request = _Request(data, wanted, weights, scale, choices)
    with _tidy_errors(), _progress(quiet) as progress:
        if stream is None and (stream := data.is_dir() or _too_large(data)) and not quiet:
            why = "a folder" if data.is_dir() else "large beside the memory"
            _say(f"{data.name} is {why}, so it is read as a stream")
        fitted = _fit_stream if stream else _fit_in_memory
        with moved_into_place(out) as folder:
            run = fitted(request, folder, progress)
    if not quiet:
        if run.table.left_out:
            _say(f"left out, not numeric: {', '.join(run.table.left_out)}")
        _show(run, out)


@dataclass(frozen=True)
class _Request:
    """What `fit` was asked to do."""

    data: Path
    columns: list[str] | None
    weights: str | None
    standardize: bool
    choices: dict[str, Any]


def _fit_in_memory(request: _Request, folder: Path, progress: bars.Progress) -> FitRun:
    from .report import fit as report

    choices, data = request.choices, request.data
    with _phase(progress, f"reading {data.name}"):
        table, w = _read(data, request.columns, request.weights)
        X, how = standardize(table.X, w) if request.standardize else (table.X, None)
    with _phase(progress, f"clustering {len(X):,} rows") as bar:
        model = KMeans(**choices)
        seconds = _fit(model, X, w, bar)
    with _phase(progress, "drawing and writing"):
        labels, k = model.labels_, choices["n_clusters"]
        centers = model.cluster_centers_ if how is None else how.undo(model.cluster_centers_)
        run = report.FitRun(
            report.FittedTable(
                data, table.names, table.left_out, len(X), w is not None, how is not None, False
            ),
            choices, centers, np.bincount(labels, minlength=k),
            report.cluster_masses(labels, w, k), model.inertia_, model.n_iter_, seconds,
        )  # fmt: skip
        shown = report.ShownRows(X, labels, model.cluster_centers_)
        if model._objective.unit:
            lengths = np.linalg.norm(X, axis=1, keepdims=True)
            shown = report.ShownRows(X / lengths, labels, model.cluster_centers_)
        elif X.shape[1] <= 2:  # in the units of the table
            shown = report.ShownRows(table.X, labels, centers)
        report.write_labels([labels], folder / "labels.csv")
        report.write_fit(run, shown, folder)
    return run


def _fit_stream(request: _Request, folder: Path, progress: bars.Progress) -> FitRun:
    """Two passes: one for the centres, one for the labels and the cost; one more to standardize."""
    from .report import fit as report

    choices, reading = _stream_choices(request.choices), _Reading(progress)
    file = blocks(request.data, columns=request.columns, weights=request.weights, progress=reading)
    reading.total = file.n_bytes
    source: SourceBlocks = file
    scale = None
    if request.standardize:
        with reading.phase(f"measuring {request.data.name}"):
            source = standardized = StandardizedBlocks(file)
            scale = standardized.scale
    begin = time.perf_counter()
    with reading.phase(f"clustering {request.data.name}"):
        model = StreamingKMeans(**choices).fit(source)
        synopses, centers = model.synopses_, model.cluster_centers_
    seconds = time.perf_counter() - begin
    shown_labels = Rows.of(synopses).nearest(np.ascontiguousarray(centers, dtype=np.float64))
    totals = _LabelTotals(centers)
    with reading.phase("writing labels"):
        report.write_labels(totals.labels(source), folder / "labels.csv")
    if scale is not None:
        synopses, centers = scale.undo(synopses), scale.undo(centers)
    names = source.names or tuple(f"x{j}" for j in range(centers.shape[1]))
    table = report.FittedTable(
        request.data, names, file.left_out, model.n_rows_seen_,
        request.weights is not None, scale is not None, True,
    )  # fmt: skip
    run = report.FitRun(
        table, choices, centers, totals.sizes, totals.masses, totals.cost, model.n_iter_, seconds
    )
    with _phase(progress, "drawing"):
        shown = report.ShownRows(synopses, shown_labels, centers)
        report.write_fit(run, shown, folder)
    return run


def _stream_choices(choices: dict[str, Any]) -> dict[str, Any]:
    """The parameters of StreamingKMeans; ValueError for those that it does not have."""
    for name, usual in (("metric", "euclidean"), ("algorithm", "auto")):
        if choices[name] != usual:
            raise ValueError(f"--{name} {choices[name]} does not work on a stream; use --no-stream")
    kept = {name: choices[name] for name in ("n_clusters", "init", "random_state")}
    return kept | {"n_init": 1 if choices["n_init"] == "auto" else choices["n_init"]}


class _LabelTotals:
    """Labels rows; adds up the sizes, weights and cost of the clusters."""

    def __init__(self, centers: Floats) -> None:
        self._centers, k = np.ascontiguousarray(centers, dtype=np.float64), len(centers)
        self.sizes, self.masses, self._exact_cost = np.zeros(k, np.int64), np.zeros(k), 0

    @property
    def cost(self) -> float:
        return to_float(self._exact_cost)

    def labels(self, source: SourceBlocks) -> Iterator[Any]:
        k = len(self.sizes)
        for block in source:
            rows = block.rows
            labels = rows.nearest(self._centers)
            self.sizes += np.bincount(labels, minlength=k)
            self.masses += np.bincount(labels, block.weight, k)
            self._exact_cost += exact_total(rows.costs(self._centers, labels), block.weight)
            yield labels


class _Reading:
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


def _too_large(data: Path) -> bool:
    """Whether a table would fill more than a third of the memory."""
    if not data.exists() or data.stat().st_size < _memory() / 100 or data.suffix == ".npz":
        return False
    source = blocks(data)
    size = source.n_bytes or 0
    if source.n_rows is not None and source.names is not None:
        size = max(size, 8 * source.n_rows * len(source.names))
    return size > _memory() / 3


def _memory() -> float:
    """Bytes of memory that this process may use."""
    most = float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container
    words = limit.read_text().strip() if limit.exists() else ""
    return min(most, float(words)) if words.isdigit() else most


@app.command()
def demo(
    out: Annotated[Path, _OUT] = Path("demo-out"), quiet: Annotated[bool, _QUIET] = False
) -> None:
    """Divide the world's cities into twelve regions: writes regions.csv and picture.png."""
    with _tidy_errors(), _progress(quiet) as progress, moved_into_place(out) as folder:
        with _phase(progress, "reading the world's cities"):
            cities = load_cities()
        with _phase(progress, f"clustering {len(cities.names):,} cities") as bar:
            model = KMeans(n_clusters=12, metric="cosine", n_init=10, random_state=0)
            seconds = _fit(model, cities.places, cities.people, bar)
        with _phase(progress, "drawing the map"):
            regions = name_regions(cities, model.labels_, model.cluster_centers_)
            write_demo(cities, regions, model.labels_, model.cluster_centers_, folder)
    if not quiet:
        header = ["region", ">people", ">share", ">cities", "largest cities"]
        _print_table(header, [_cells(r) for r in sorted(regions, key=lambda r: -r.people)])
        _print_end(model.n_iter_, seconds, out, "regions.csv, picture.png")


def _cells(r: Region) -> tuple[str, ...]:
    people = f"{r.people / 1e6:,.0f} M"
    return r.name, people, f"{r.share:.1%}", f"{r.cities:,}", ", ".join(r.largest)


def _read(
    data: Path, columns: list[str] | None, weights: str | None
) -> tuple[DataTable, Floats | None]:
    table = read(data, columns)
    if weights is None:
        return table, None
    return table.without(weights), read(data, [weights]).X[:, 0]


def _fit(model: KMeans, X: Floats, weights: Floats | None, bar: _ProgressBar) -> float:
    """Fit with a progress bar, print warnings on standard error, return the seconds."""
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.set_callbacks(bar).fit(X, sample_weight=weights)
    for warning in caught:
        _say(f"warning: {warning.message}")
    return time.perf_counter() - start


def _progress(quiet: bool) -> bars.Progress:
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
def _phase(progress: bars.Progress, what: str) -> Iterator[_ProgressBar]:
    task = progress.add_task(what, total=None)
    yield _ProgressBar(progress, task)
    progress.update(task, total=1, completed=1)


@dataclass(frozen=True)
class _ProgressBar:
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


def _show(run: FitRun, out: Path) -> None:
    """Print the largest clusters and the first columns, as many as fit a screen."""
    masses, names = run.masses, run.table.names[:MOST_COLUMNS]
    order = np.argsort(-masses, kind="stable")
    centers = run.centers[:, : len(names)]
    rows = [
        (str(j), f"{run.sizes[j]:,}", f"{masses[j] / masses.sum():.1%}", *map(_short, centers[j]))
        for j in order[:MOST_CLUSTERS]
    ]
    _print_table([">cluster", ">rows", ">share", *(f">{name}" for name in names)], rows)
    hidden = [
        f"{len(order) - len(rows)} smaller clusters" * (len(order) > len(rows)),
        f"{run.centers.shape[1] - len(names)} columns" * (run.centers.shape[1] > len(names)),
    ]
    if any(hidden):
        typer.echo(f"not shown: {', '.join(h for h in hidden if h)} (see centers.csv)")
    typer.echo(f"inertia {run.inertia:.6g}, seed {run.parameters['random_state']}")
    files = "labels.csv, centers.csv, summary.json, picture.png"
    _print_end(run.n_iter, run.seconds, out, files)


def _short(x: float) -> str:
    return f"{x:,.0f}" if 1e3 <= abs(x) < 1e9 else f"{x:.4g}"


def _print_table(columns: list[str], rows: list[tuple[str, ...]]) -> None:
    """Print a table; a column whose name starts with > is aligned to the right."""
    table = ScreenTable(box=SIMPLE_HEAD, header_style="bold")
    for name in columns:
        table.add_column(name.lstrip(">"), justify="right" if name[0] == ">" else "left")
    for row in rows:
        table.add_row(*(escape(cell) for cell in row))
    Console().print(table)


def _print_end(steps: int, seconds: float, out: Path, files: str) -> None:
    typer.echo(f"{steps} steps in {seconds:.2f} s; wrote {files} to {out}")


@contextmanager
def _tidy_errors() -> Iterator[None]:
    """End the command with one line after bad input or Ctrl-C; other errors are not caught."""
    try:
        yield
    except KeyboardInterrupt:
        _say("interrupted; nothing was written")
        raise typer.Exit(130) from None
    except (ValueError, OSError) as error:
        _say(str(error))
        raise typer.Exit(2) from error


def _say(message: str) -> None:
    typer.echo(f"kvariates: {' '.join(message.split())}", err=True)
