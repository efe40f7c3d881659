"""The command `kvariates`: reads a table, clusters it and writes files.

Results go to standard output and to files, progress and errors to standard error. An error is one
line, ``kvariates: what, where``; `app.py` has the exit codes. Each command is a function here that
gathers its options; its work is in a module of its own, which is imported when it is needed, so
that ``kvariates --help`` is quick.
"""

from __future__ import annotations

import secrets
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from kvariates.cli import options as given
from kvariates.cli.app import (
    TableOptions,
    app,
    printable,
    run_command,
    tidy_errors,
    words_of,
)
from kvariates.cli.options import gathered
from kvariates.cli.output_folder import printed_file, written_file
from kvariates.extras import needed


def main() -> NoReturn:
    """Run the command; the entry point of the installed script."""
    run_command()


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kvariates {version('kvariates')}")
        raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_print_version, is_eager=True, help="Print the version."
)


@app.callback()
def _root(context: typer.Context, _version: Annotated[bool, _VERSION] = False) -> None:
    """Cluster tables of numbers."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command(cls=TableOptions)
def fit(
    context: typer.Context,
    data: given.Data,
    k: given.Clusters,
    out: given.Out = Path("kvariates-out"),
    objective: given.FitObjective = given.Objective.means,
    metric: given.FitMetric = None,
    init: given.Name = None,
    algorithm: given.Name = None,
    n_init: given.Starts = None,
    seed: given.Seed = None,
    columns: given.Columns = None,
    weights: given.Weights = None,
    identifier: given.Identifier = None,
    keep: given.Keep = False,
    nodes: given.Nodes = None,
    scale: given.Scale = given.Scaling.none,
    standardize: given.Standardize = False,
    size_min: given.SizeMin = None,
    size_max: given.SizeMax = None,
    certify: given.Certify = False,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    bounds: given.Bounds = None,
    demand: given.Demand = None,
    labels: given.Labels = False,
    stream: given.Stream = None,
    dask: given.Dask = None,
    missing: given.MissingValues = None,
    delimiter: given.Delimiter = None,
    decimal: given.Decimal = None,
    encoding: given.Encoding = None,
    header: given.Header = None,
    na: given.NaWords = None,
    skip: given.SkippedLines = 0,
    force: given.Force = False,
    as_json: given.Json = False,
    quiet: given.Quiet = False,
) -> None:
    """Cluster a table: writes centres, labels, a model, a summary and a report."""
    choices: dict[str, Any] = {
        "metric": metric, "init": init, "algorithm": algorithm, "n_init": n_init,
        "size_min": size_min, "size_max": size_max, "certify": certify or None,
        # A drawn seed is written to summary.json, so that the run can be repeated.
        "random_state": secrets.randbits(32) if seed is None and epsilon is None else seed,
    }  # fmt: skip
    choices = {name: value for name, value in choices.items() if value is not None}
    with tidy_errors() as notes:
        from kvariates.cli.fit_command import run_fit
        from kvariates.cli.fit_request import FitRequest, private_budget

        # All that were given: the last alone would be a fit of other columns.
        every = ",".join(bounds) if bounds else None
        budget = private_budget(epsilon, delta, every, demand, objective.value)
        private_rows = budget is not None and budget.demand is None
        reading = gathered(data, columns, missing or ("keep" if private_rows else None),
                           (delimiter, decimal, encoding, header, na, skip),
                           weights=weights, identifier=identifier, keep=keep,
                           notes=notes)  # fmt: skip
        request = FitRequest(
            reading, None if k == "auto" else int(k), choices, objective.value,
            _scaling(scale, standardize), budget, labels, nodes, words_of(context), quiet,
        )  # fmt: skip
        run_fit(request, out, stream=stream, dask=dask, force=force, as_json=as_json)


def _scaling(scale: given.Scaling, standardize: bool) -> str:
    if standardize and scale not in (given.Scaling.none, given.Scaling.standard):
        raise ValueError(f"--standardize is --scale standard; leave it out with --scale {scale}")
    return "standard" if standardize else scale.value


@app.command(cls=TableOptions)
def predict(
    model: given.Model,
    data: given.Data,
    out: given.LabelsOut = Path("labels.parquet"),
    columns: given.Columns = None,
    identifier: given.Identifier = None,
    keep: given.Keep = False,
    missing: given.MissingValues = None,
    delimiter: given.Delimiter = None,
    decimal: given.Decimal = None,
    encoding: given.Encoding = None,
    header: given.Header = None,
    na: given.NaWords = None,
    skip: given.SkippedLines = 0,
    force: given.Force = False,
    as_json: given.Json = False,
    quiet: given.Quiet = False,
) -> None:
    """Label the rows of a table by a model that fit has written."""
    with tidy_errors() as notes:
        from kvariates.cli.saved_model import predict_file
        from kvariates.cli.screen import print_table, progress_display, show_json

        reading = gathered(data, columns, missing, (delimiter, decimal, encoding, header, na, skip),
                           identifier=identifier, keep=keep, notes=notes)  # fmt: skip
        printed = str(out) == "-"
        if printed and as_json:
            raise ValueError("-o - prints the labels and --json the result; leave out one")
        inputs = [reading.data, model / "model.skops" if model.is_dir() else model]
        written = printed_file() if printed else written_file(out, inputs, force=force)
        with written as file, progress_display(quiet) as progress:
            found = predict_file(model, reading, file, progress, quiet=quiet)
        notes.say(quiet=quiet)
        if as_json:
            show_json(found.summary(model, reading.data, out))
        elif not quiet and not printed:
            rows = [(str(j), f"{n:,}") for j, n in enumerate(found.sizes.tolist())]
            print_table([">cluster", ">rows"], rows)
            typer.echo(printable(f"wrote the labels of {found.rows:,} rows to {out}"))


from kvariates.cli import more_commands  # noqa: E402, F401 (after fit and predict, as in the help)


@app.command()
def demo(
    out: given.Out = Path("demo-out"), force: given.Force = False, quiet: given.Quiet = False
) -> None:
    """Four problems with bundled data: writes regions.csv, picture.png and report.html."""
    with tidy_errors():
        for package, extra in (("matplotlib", "plot"), ("opendp", "private")):
            needed(package, extra, "kvariates demo")
        from kvariates.cli import demo_command
        from kvariates.cli.screen import progress_display

        with progress_display(quiet) as progress:
            run = demo_command.run_demo(out, progress, force=force)
    if not quiet:
        demo_command.show_demo(run, out)
