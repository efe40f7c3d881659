"""The command `kvariates`: reads a table, clusters it and writes files.

Results go to standard output and to files, progress and errors to standard error. An error is one
line, ``kvariates: what, where``; `app.py` has the exit codes. Each command is a function here that
states its options; its work is in a module of its own, which is imported when it is needed, so
that ``kvariates --help`` is quick.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kvariates.cli import options as given
from kvariates.cli.app import ARGUMENTS, app, printable, run_command, tidy_errors
from kvariates.cli.options import command
from kvariates.extras import needed
from kvariates.file_writing import written_file

main = run_command  # the entry point of the installed script


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvariates {version('kvariates')}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    _version: bool = Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Cluster tables of numbers."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@command
def fit(context: typer.Context, options: given.FitArguments) -> None:
    """Cluster a table: writes centres, labels, a model, a summary and a report."""
    with tidy_errors(options.shown.quiet) as notes:
        from kvariates.cli.fit_command import FitRequest, run_fit

        run_fit(FitRequest.of(options, tuple(context.obj), notes))


@command
def predict(
    model: Annotated[Path, Argument(help=ARGUMENTS["model"])],
    data: given.Data,
    out: Path = Option(
        Path("labels.parquet"),
        "-o",
        "--out",
        parser=given.place,
        metavar="PATH",
        help="File for the labels: .parquet or .csv; - prints them as CSV.",
    ),
    columns: given.Columns = None,
    identifier: given.Identifier = None,
    keep: given.Keep = False,
    *,
    written: given.Written,
    force: given.Force = False,
    shown: given.Shown,
) -> None:
    """Label the rows of a table by a model that fit has written."""
    with tidy_errors(shown.quiet) as notes:
        from kvariates.cli.saved_model import predict_file
        from kvariates.cli.screen import print_table, progress_display, show_json

        reading = written.request(data, columns, identifier=identifier, keep=keep, notes=notes)
        printed = str(out) == "-"
        if printed and shown.as_json:
            raise ValueError("-o - prints the labels and --json the result; leave out one")
        inputs = [reading.data, model / "model.skops" if model.is_dir() else model]
        with (
            written_file(out, inputs, force=force) as file,
            progress_display(shown.quiet) as progress,
        ):
            sizes = predict_file(model, reading, file, progress)
        notes.say()
        if shown.as_json:
            clusters = [{"label": j, "rows": n} for j, n in enumerate(sizes)]
            names = {"model": str(model), "data": str(reading.data), "labels": str(out)}
            show_json({**names, "rows": sum(sizes), "clusters": clusters})
        elif not shown.quiet and not printed:
            print_table([">cluster", ">rows"], [(str(j), f"{n:,}") for j, n in enumerate(sizes)])
            typer.echo(printable(f"wrote the labels of {sum(sizes):,} rows to {out}"))


@command
def compare(
    data: given.Data,
    k: str | None = Option(
        None,
        "-k",
        "--clusters",
        metavar="LOW:HIGH",
        callback=given.range_of_k,
        help="Compare LOW to HIGH clusters; if not given, 2 to 20 or to the number of rows.",
    ),
    init: str = Option("k-means++,d2,random", help="Seedings to compare, such as a,b."),
    scale: given.Scale = given.Scaling.none,
    columns: given.Columns = None,
    weights: given.Weights = None,
    identifier: given.Identifier = None,
    seed: given.Seed = None,
    *,
    written: given.Written,
    shown: given.Shown,
) -> None:
    """Compare seedings and numbers of clusters, and suggest one, with the reason."""
    with tidy_errors(shown.quiet) as notes:
        from kvariates.cli.measuring import compare_file, show_comparison
        from kvariates.cli.screen import progress_display, show_json

        reading = written.request(
            data, columns, weights=weights, identifier=identifier, notes=notes
        )
        low, _, high = (k or "").partition(":")
        inits = given.names_of(init)
        if not inits:
            raise ValueError("--init: give at least one seeding")
        drawn = given.drawn(seed)
        with progress_display(shown.quiet) as progress:
            found = compare_file(
                reading, (int(low), int(high)) if k else None, inits, scale.value, drawn, progress
            )
        notes.say()
        if shown.as_json:
            show_json({"seed": drawn, **found.summary()})
        elif not shown.quiet:
            show_comparison(found)
            typer.echo(f"seed {drawn}")


@command
def anticluster(options: given.GroupArguments) -> None:
    """Divide a table into groups that are alike: writes groups.csv, balance.csv and a picture."""
    with tidy_errors(options.shown.quiet) as notes:
        from kvariates.cli.anticluster_command import run_anticluster

        run_anticluster(options, notes)


@command
def audit(
    method: str = Argument("auto", help=ARGUMENTS["method"]),
    epsilon: float = Option(1.0, help="The claim to attack."),
    delta: float = Option(0.0, help="The delta of the claim."),
    seconds: float = Option(
        30.0, min=1, max=86400, callback=given.no_nan, help="About how long to attack."
    ),
    runs: int | None = Option(
        None, min=4, help="Fits on each of two data sets, instead of --seconds."
    ),
    *,
    shown: given.Shown,
) -> None:
    """Attack a private method, and compare what it reveals with what it claims."""
    with tidy_errors():
        from kvariates.cli.measuring import AttackedMethod, attack
        from kvariates.cli.screen import progress_display, show_json

        with progress_display(shown.quiet) as progress:
            found = attack(AttackedMethod(method, epsilon, delta), seconds, runs, progress)
        if shown.as_json:
            show_json(found.summary())
        elif not shown.quiet:
            typer.echo("\n".join(found.words()))
    raise typer.Exit(0 if found.audit.passed else 1)


@command
def demo(
    out: given.Out = Path("demo-out"), force: given.Force = False, quiet: given.Quiet = False
) -> None:
    """Four problems with bundled data: writes regions.csv, picture.png and report.html."""
    with tidy_errors():
        for package, extra in (("matplotlib", "plot"), ("opendp", "private")):
            needed(package, extra, "kvariates demo")
        from kvariates import demo as work
        from kvariates.cli.screen import phase, print_table, progress_display

        with progress_display(quiet) as progress:
            found = work.run_demo(out, partial(phase, progress), force=force)
        if quiet:
            return
        head = ["region", ">people", ">share", ">cities", "largest cities"]
        print_table(head, found.clusters.rows())
        print_table(["problem", "result"], found.findings())
        files = ", ".join(work.FILES)
        typer.echo(printable(f"four problems in {found.seconds:.1f} s; wrote {files} to {out}"))
        typer.echo(f"open {out / 'report.html'} in a browser")
