"""The command `kvariates`: reads a table, clusters it and writes files.

Results go to standard output and to files, progress and errors to standard error. An error is one
line, ``kvariates: what, where``; the exit code is 2 for bad input and 130 for Ctrl-C.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn, cast

import typer
from typer.core import TyperCommand, TyperGroup

from kvariates.balancing.group_objectives import GROUP_OBJECTIVES
from kvariates.cli.screen import (
    fit_with_bar,
    phase,
    print_end,
    progress_display,
    say,
    show_fit,
    show_regions,
)
from kvariates.demo import load_cities, name_regions, write_demo
from kvariates.estimators.kmeans import KMeans
from kvariates.objectives.objective import OBJECTIVES
from kvariates.refining.refinements import REFINEMENTS
from kvariates.report.files import moved_into_place
from kvariates.seeding.seedings import SEEDINGS
from kvariates.tables import Table

# Newer versions of Typer contain a copy of Click, so the base class is found through Typer.
UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
TABLES: dict[str, Table[Any]] = {
    "init": SEEDINGS, "algorithm": REFINEMENTS, "metric": OBJECTIVES,
    "objective": GROUP_OBJECTIVES,
}  # fmt: skip


class _TableOptions(TyperCommand):
    """A command whose help lists the entries that the tables have when it is called."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        listed: list[Any] = list(self.params)  # their type depends on the version of Typer
        for option in listed:
            if option.name in TABLES:
                entries = (f'"{n}": {entry.help}' for n, entry in TABLES[option.name].items())
                option.help = " ".join([option.help, *entries])


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
            say(error.format_message())  # type: ignore[attr-defined]
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
_DASK = typer.Option(
    metavar="ADDRESS",
    help="Cluster .parquet files on the Dask cluster with this scheduler, as tcp://10.0.0.1:8786. "
    "Its workers must see the files under the same path.",
)
_SIZE_MIN = typer.Option(min=0, help="No cluster has fewer rows (or less weight).")
_SIZE_MAX = typer.Option(min=0, help="No cluster has more rows (or more weight).")
_GROUPS = typer.Option("-g", "--groups", min=1, help="Number of groups.")
_BALANCE = typer.Option(help="Columns of categories, as a,b: all groups get the same shares.")
_ALIKE = typer.Option(help="Give each column mean 0 and deviation 1 first.")
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
    size_min: Annotated[float | None, _SIZE_MIN] = None,
    size_max: Annotated[float | None, _SIZE_MAX] = None,
    stream: Annotated[bool | None, _STREAM] = None,
    dask: Annotated[str | None, _DASK] = None,
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
    limits = {"size_min": size_min, "size_max": size_max}
    choices |= {name: value for name, value in limits.items() if value is not None}
    wanted = _names(columns)
    with _tidy_errors(), progress_display(quiet) as progress:
        from kvariates.cli import fit_command  # slow: it imports matplotlib

        request = fit_command.FitRequest(data, wanted, weights, scale, choices)
        fit_file: Any = fit_command.fit_in_memory
        if dask is not None and stream:
            raise ValueError("--stream does not work with --dask; leave out one of them")
        if dask is not None:
            from kvariates.cli.dask_fitting import fit_on_cluster

            stream, fit_file = False, partial(fit_on_cluster, dask)
        if stream is None:
            stream = data.is_dir() or fit_command.too_large(data)
            if stream and not quiet:
                why = "a folder" if data.is_dir() else "large beside the memory"
                say(f"{data.name} is {why}, so it is read as a stream")
        if stream:
            fit_file = fit_command.fit_stream
        with moved_into_place(out) as folder:
            run = fit_file(request, folder, progress)
    if not quiet:
        if run.table.left_out:
            say(f"left out, not numeric: {', '.join(run.table.left_out)}")
        show_fit(run, out)


@app.command(cls=_TableOptions)
def anticluster(
    data: Annotated[Path, _FILE],
    groups: Annotated[int, _GROUPS],
    out: Annotated[Path, _OUT] = Path("kvariates-groups"),
    columns: Annotated[str | None, _COLUMNS] = None,
    balance: Annotated[str | None, _BALANCE] = None,
    objective: Annotated[str, _NAME] = "variance",
    standardize: Annotated[bool, _ALIKE] = True,
    seed: Annotated[int | None, _SEED] = None,
    quiet: Annotated[bool, _QUIET] = False,
) -> None:
    """Divide a table into groups that are alike: writes groups.csv, balance.csv and a picture."""
    choices: dict[str, Any] = {
        "n_groups": groups,
        "objective": objective,
        "random_state": secrets.randbits(32) if seed is None else seed,
    }
    with _tidy_errors(), progress_display(quiet) as progress, moved_into_place(out) as folder:
        from kvariates.cli import anticluster_command as command

        request = command.GroupRequest(
            data, _names(columns), _names(balance) or [], standardize, choices
        )
        run = command.anticluster_file(request, folder, progress)
    if not quiet:
        if run.table.left_out:
            say(f"left out, not numeric: {', '.join(run.table.left_out)}")
        command.show_groups(run)
        typer.echo(f"seed {choices['random_state']}")
        print_end(run.model.n_sweeps_, run.seconds, out, command.FILES, "sweeps")


def _names(by_comma: str | None) -> list[str] | None:
    return None if by_comma is None else [name.strip() for name in by_comma.split(",")]


@app.command()
def demo(
    out: Annotated[Path, _OUT] = Path("demo-out"), quiet: Annotated[bool, _QUIET] = False
) -> None:
    """Divide the world's cities into twelve regions: writes regions.csv and picture.png."""
    with _tidy_errors(), progress_display(quiet) as progress, moved_into_place(out) as folder:
        with phase(progress, "reading the world's cities"):
            cities = load_cities()
        with phase(progress, f"clustering {len(cities.names):,} cities") as bar:
            model = KMeans(n_clusters=12, metric="cosine", n_init=10, random_state=0)
            seconds = fit_with_bar(model, cities.places, cities.people, bar)
        with phase(progress, "drawing the map"):
            regions = name_regions(cities, model.labels_, model.cluster_centers_)
            write_demo(cities, regions, model.labels_, model.cluster_centers_, folder)
    if not quiet:
        show_regions(regions)
        print_end(model.n_iter_, seconds, out, "regions.csv, picture.png")


@contextmanager
def _tidy_errors() -> Iterator[None]:
    """End the command with one line after bad input or Ctrl-C; other errors are not caught."""
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted; nothing was written")
        raise typer.Exit(130) from None
    except (ValueError, OSError) as error:
        say(str(error))
        raise typer.Exit(2) from error
