"""The work of `kvariates anticluster`: reads a file, divides its rows into groups, writes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.progress import Progress

from kvariates.balancing.group_balance import GroupBalance, save_picture
from kvariates.balancing.group_objectives import GROUP_OBJECTIVES
from kvariates.cli import screen
from kvariates.cli.app import Notes, check_name
from kvariates.cli.options import GroupArguments, drawn, names_of
from kvariates.cli.reading import ReadRequest, ReadTable, read_table, say_remarks
from kvariates.estimators.anticlustering import AntiClustering
from kvariates.file_writing import json_text, moved_into_place, refuse_inputs, write_rows
from kvariates.sources import standardize
from kvariates.sources.parquet_writer import write_labels

FILES = ("groups.csv", "balance.csv", "summary.json", "picture.png")


def run_anticluster(options: GroupArguments, notes: Notes) -> None:
    """Read the file, find the groups, write the files and print the result."""
    out, shown = options.out, options.shown
    reading = options.written.request(
        options.data, options.columns, identifier=options.identifier, notes=notes
    )
    refuse_inputs(out, FILES, [reading.data])
    with (
        screen.progress_display(shown.quiet) as progress,
        moved_into_place(out, FILES, force=options.force) as folder,
    ):
        model, summary = _divided(options, reading, folder, progress)
    notes.say()
    if shown.as_json:
        screen.show_json({**summary, "out": str(out)})
    elif not shown.quiet:
        _show_groups(model.balance_)
        typer.echo(f"seed {summary['parameters']['random_state']}")
        screen.print_end(model.n_sweeps_, summary["seconds"], out, ", ".join(FILES), "sweeps")


def _divided(
    options: GroupArguments, reading: ReadRequest, folder: Path, progress: Progress
) -> tuple[AntiClustering, dict[str, Any]]:
    """The fitted model, and the result for programs. Writes the files."""
    parameters: dict[str, Any] = {
        "n_groups": options.groups, "objective": options.objective,
        "random_state": drawn(options.seed),
    }  # fmt: skip
    if options.group_sizes is not None:
        parameters["group_sizes"] = [int(size) for size in options.group_sizes.split(",")]
    check_name("objective", options.objective, GROUP_OBJECTIVES)
    with screen.phase(progress, f"reading {reading.data.name}"):
        data, constraints = _read(options, reading)
        table = data.table
        X = standardize(table.X)[0] if options.standardize else table.X
    with screen.phase(progress, f"dividing {len(X):,} rows") as bar:
        model = AntiClustering(**parameters)
        with screen.command_words(reading.data):
            seconds = screen.fit_with_bar(model, bar, reading.notes, X, **constraints)
    balance = model.balance_ = replace(model.balance_, features=table.names)
    summary = {
        "kvariates": version("kvariates"),
        "data": {
            "path": str(table.path), "rows": len(X), "columns": table.names,
            "left_out": table.left_out, "categories": names_of(options.balance) or [],
            "must_link": options.must_link, "cannot_link": options.cannot_link,
            "standardized": options.standardize,
        },
        "parameters": parameters, "objective": model.objective_, "n_sweeps": model.n_sweeps_,
        "seconds": round(seconds, 6), "sizes": balance.sizes.tolist(),
    }  # fmt: skip
    with screen.phase(progress, "drawing and writing"):
        write_labels(folder / "groups.csv", model.labels_, data.beside, table.kept, name="group")
        write_rows(folder / "balance.csv", *_balance_rows(balance))
        (folder / "summary.json").write_text(json_text(summary) + "\n", encoding="utf-8")
        save_picture(balance, folder / "picture.png")
    return model, summary


def _read(options: GroupArguments, reading: ReadRequest) -> tuple[ReadTable, dict[str, Any]]:
    """The columns to be alike, and the constraints by other columns, which are not among them."""
    categories, links = names_of(options.balance) or [], (options.must_link, options.cannot_link)
    reading = replace(reading, aside=(*categories, *(name for name in links if name is not None)))
    data = read_table(reading)
    assert data.opened is not None  # noqa: S101
    say_remarks(data.table, True, reading, "balanced")
    if not isinstance(data.table.X, np.ndarray):
        raise ValueError(f"{reading.data}: is sparse; anticluster takes dense tables")
    table, constraints = data.table, dict[str, Any]()
    kept = slice(None) if table.kept is None else table.kept
    for name in reading.aside:
        table = table.without(name)
    if categories:
        columns = [data.opened.complete_values(name)[kept] for name in categories]
        constraints["categories"] = np.column_stack(columns) if len(columns) > 1 else columns[0]
    if options.must_link is not None:
        constraints["must_link"] = _numbered(data, options.must_link, reading.text.missing)
    if options.cannot_link is not None:
        numbers = _numbered(data, options.cannot_link, reading.text.missing)
        constraints["cannot_link"] = _pairs_apart(options, numbers)
    return replace(data, table=table), constraints


def _pairs_apart(options: GroupArguments, numbers: Any) -> list[tuple[int, int]]:
    """All pairs of rows with the same number; numbers below 0 do not count."""
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(numbers.max(initial=-1) + 1))
    alike = np.split(order, starts)[1:]
    most, groups = max(map(len, alike), default=0), options.groups
    if most > groups:
        raise ValueError(
            f"--cannot-link {options.cannot_link}: {most:,} rows have the same value, and "
            f"there are {groups:,} groups"
        )
    return [pair for rows in alike for pair in combinations(rows.tolist(), 2)]


def _numbered(data: ReadTable, name: str, missing: AbstractSet[str]) -> Any:
    """A number for each different value of a column, in the rows that are kept; -1 if missing."""
    assert data.opened is not None  # noqa: S101
    values = np.asarray(data.opened.originals([name], identifiers=True)[name]).tolist()
    kept, numbers = data.table.kept, dict[Any, int]()
    found = [
        -1 if value is None or value != value or str(value).strip() in missing
        else numbers.setdefault(value, len(numbers)) for value in values
    ]  # fmt: skip
    return np.array(found) if kept is None else np.array(found)[kept]


def _balance_rows(balance: GroupBalance) -> tuple[list[str], list[Any]]:
    """A line for each group: differences of means and ratios of spreads, then shares."""
    head = ["group", "rows", *(f"{name}: difference of means" for name in balance.features)]
    head += [f"{name}: ratio of spreads" for name in balance.features]
    head += [f"{name}: share" for name in balance.categories]
    rows = [
        [g, size, *balance.mean_difference[g].tolist(), *balance.spread_ratio[g].tolist(),
         *balance.category_share[g].tolist()]
        for g, size in enumerate(balance.sizes.tolist())
    ]  # fmt: skip
    return head, rows


def _show_groups(balance: GroupBalance) -> None:
    """Print the balance of the groups."""
    worst = np.abs(balance.mean_difference).argmax(axis=1)
    rows = []
    for g, size in enumerate(balance.sizes.tolist()):
        far, spread = balance.mean_difference[g, worst[g]], balance.spread_ratio[g]
        cells = [str(g), f"{size:,}", f"{far:+.2g} ({balance.features[worst[g]]})"]
        cells += [f"{spread.min():.3f} to {spread.max():.3f}"]
        if balance.categories:
            cells += [f"{np.abs(balance.share_difference[g]).max():.2%}"]
        rows.append(tuple(cells))
    head = [">group", ">rows", "means differ by", "ratio of spreads"]
    screen.print_table(head + [">shares differ by"] * bool(balance.categories), rows)
