"""The commands `compare`, `anticluster` and `audit`: their options."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any

import typer

from kvariates.cli import options as given
from kvariates.cli.app import TableOptions, app, tidy_errors
from kvariates.cli.options import gathered
from kvariates.cli.output_folder import moved_into_place, refuse_inputs


@app.command(cls=TableOptions)
def compare(
    data: given.Data,
    k: given.ClusterRange = None,
    init: given.Seedings = "k-means++,d2,random",
    scale: given.Scale = given.Scaling.none,
    columns: given.Columns = None,
    weights: given.Weights = None,
    identifier: given.Identifier = None,
    seed: given.Seed = None,
    missing: given.MissingValues = None,
    delimiter: given.Delimiter = None,
    decimal: given.Decimal = None,
    encoding: given.Encoding = None,
    header: given.Header = None,
    na: given.NaWords = None,
    skip: given.SkippedLines = 0,
    as_json: given.Json = False,
    quiet: given.Quiet = False,
) -> None:
    """Compare seedings and numbers of clusters, and suggest one, with the reason."""
    with tidy_errors() as notes:
        from kvariates.cli import compare_command as command
        from kvariates.cli.screen import progress_display, show_json
        from kvariates.report.page import as_options
        from kvariates.report.sections import how_sure

        reading = gathered(data, columns, missing, (delimiter, decimal, encoding, header, na, skip),
                           weights=weights, identifier=identifier, notes=notes)  # fmt: skip
        low, _, high = (k or "").partition(":")
        ks = (int(low), int(high)) if k else None
        drawn = secrets.randbits(32) if seed is None else seed
        inits = tuple(given.names_of(init) or ())
        if not inits:
            raise ValueError("--init: give at least one seeding")
        request = command.CompareRequest(reading, ks, inits, scale.value, drawn, quiet)
        with progress_display(quiet) as progress:
            found = command.compare_file(request, progress)
        notes.say()
        if as_json:
            show_json({"seed": drawn, **found.summary()})
        elif not quiet:
            command.show_comparison(found)
            tried = f"{found.choice.ks.min()} to {found.choice.ks.max()} were tried"
            typer.echo(f"k = {found.choice.k} ({tried}): {as_options(found.choice.reason)}")
            typer.echo(how_sure(found.choice))
            typer.echo(command.LEGEND)
            typer.echo(f"seed {drawn}")


@app.command(cls=TableOptions)
def anticluster(
    data: given.Data,
    groups: given.Groups,
    out: given.Out = Path("kvariates-groups"),
    columns: given.Columns = None,
    identifier: given.Identifier = None,
    balance: given.Balance = None,
    group_sizes: given.GroupSizes = None,
    must_link: given.MustLink = None,
    cannot_link: given.CannotLink = None,
    objective: given.GroupObjective = "variance",
    standardize: given.Alike = True,
    seed: given.Seed = None,
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
    """Divide a table into groups that are alike: writes groups.csv, balance.csv and a picture."""
    choices: dict[str, Any] = {
        "n_groups": groups,
        "objective": objective,
        "random_state": secrets.randbits(32) if seed is None else seed,
    }
    if group_sizes is not None:
        choices["group_sizes"] = [int(size) for size in group_sizes.split(",")]
    with tidy_errors() as notes:
        from kvariates.cli import anticluster_command as command
        from kvariates.cli.screen import print_end, progress_display, show_json

        reading = gathered(data, columns, missing, (delimiter, decimal, encoding, header, na, skip),
                           identifier=identifier, notes=notes)  # fmt: skip
        names, links = given.names_of(balance) or [], (must_link, cannot_link)
        request = command.GroupRequest(reading, names, standardize, choices, quiet, *links)
        refuse_inputs(out, command.FILES, [reading.data])
        with (
            progress_display(quiet) as progress,
            moved_into_place(out, command.FILES, force=force) as folder,
        ):
            run = command.anticluster_file(request, folder, progress)
        notes.say()
        if as_json:
            show_json({**command.summary_of(request, run), "out": str(out)})
        elif not quiet:
            command.show_groups(run)
            typer.echo(f"seed {choices['random_state']}")
            print_end(run.model.n_sweeps_, run.seconds, out, ", ".join(command.FILES), "sweeps")


@app.command(cls=TableOptions)
def audit(
    method: given.Method = "auto",
    epsilon: given.Claim = 1.0,
    delta: given.ClaimDelta = 0.0,
    seconds: given.Seconds = 30.0,
    runs: given.Runs = None,
    as_json: given.Json = False,
    quiet: given.Quiet = False,
) -> None:
    """Attack a private method, and compare what it reveals with what it claims."""
    with tidy_errors():
        from kvariates.cli.audit_command import AuditRequest, attack
        from kvariates.cli.screen import progress_display, show_json

        request = AuditRequest(method, epsilon, delta, seconds, runs)
        with progress_display(quiet) as progress:
            found = attack(request, progress)
        if as_json:
            show_json(found.summary())
        elif not quiet:
            typer.echo("\n".join(found.words()))
    raise typer.Exit(0 if found.audit.passed else 1)
