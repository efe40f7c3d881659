"""The work of `kvariates anticluster`: reads a file, divides its rows into groups, writes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.balancing.group_balance import GroupBalance, save_picture
from kvariates.balancing.group_objectives import GROUP_OBJECTIVES
from kvariates.cli.app import check_name
from kvariates.cli.reading import ReadRequest, ReadTable, read_table, say_remarks
from kvariates.cli.screen import command_words, fit_with_bar, phase, print_table
from kvariates.data.rows import Floats
from kvariates.estimators.anticlustering import AntiClustering
from kvariates.file_writing import json_text, write_rows
from kvariates.sources import DataTable, standardize
from kvariates.sources.parquet_writer import write_labels

FILES = ("groups.csv", "balance.csv", "summary.json", "picture.png")


@dataclass(frozen=True)
class GroupRequest:
    """What `anticluster` was asked to do. `choices`: the parameters of AntiClustering."""

    reading: ReadRequest
    balance: list[str]  # columns of categories
    standardize: bool
    choices: dict[str, Any]
    must_link: str | None = None  # columns: rows with the same value
    cannot_link: str | None = None


@dataclass(frozen=True, eq=False)
class GroupRun:
    """The result of one run."""

    request: GroupRequest
    table: DataTable
    model: AntiClustering
    seconds: float

    def summary(self) -> dict[str, Any]:
        """The result for programs."""
        request, table = self.request, self.table
        return {
            "kvariates": version("kvariates"),
            "data": {
                "path": str(request.reading.data), "rows": len(table.X), "columns": table.names,
                "left_out": table.left_out, "categories": request.balance,
                "must_link": request.must_link, "cannot_link": request.cannot_link,
                "standardized": request.standardize,
            },
            "parameters": request.choices,
            "objective": self.model.objective_,
            "n_sweeps": self.model.n_sweeps_,
            "seconds": round(self.seconds, 6),
            "sizes": self.model.balance_.sizes.tolist(),
        }  # fmt: skip


def anticluster_file(request: GroupRequest, folder: Path, progress: Progress) -> GroupRun:
    """Read the file, find the groups and write the files."""
    reading = request.reading
    check_name("objective", request.choices["objective"], GROUP_OBJECTIVES)
    with phase(progress, f"reading {reading.data.name}"):
        data = _read(request)
        constraints = _constraints(request, data)
        X: Floats = standardize(data.table.X)[0] if request.standardize else data.table.X
    with phase(progress, f"dividing {len(X):,} rows") as bar:
        model = AntiClustering(**request.choices)
        with command_words(reading.data):
            seconds = fit_with_bar(model, bar, reading.notes, X, **constraints)
    model.balance_ = replace(model.balance_, features=data.table.names)
    run = GroupRun(request, data.table, model, seconds)
    with phase(progress, "drawing and writing"):
        table, balance = data.table, model.balance_
        write_labels(folder / "groups.csv", model.labels_, data.beside, table.kept, name="group")
        write_rows(folder / "balance.csv", *_balance_rows(balance))
        text = json_text(run.summary()) + "\n"
        (folder / "summary.json").write_text(text, encoding="utf-8")
        save_picture(balance, folder / "picture.png")
    return run


def _read(request: GroupRequest) -> ReadTable:
    """The columns to be alike; those of the constraints are not among them."""
    links = [name for name in (request.must_link, request.cannot_link) if name is not None]
    reading = replace(request.reading, aside=(*request.balance, *links))
    data = read_table(reading)
    say_remarks(data.table, True, reading, "balanced")
    if not isinstance(data.table.X, np.ndarray):
        raise ValueError(f"{reading.data}: is sparse; anticluster takes dense tables")
    table = data.table
    for name in reading.aside:
        table = table.without(name)
    return replace(data, table=table)


def _constraints(request: GroupRequest, data: ReadTable) -> dict[str, Any]:
    """The categories and links of the rows, for `AntiClustering.fit`."""
    assert data.opened is not None  # noqa: S101
    kept, found = data.table.kept, dict[str, Any]()
    if request.balance:
        columns = [data.opened.complete_values(name) for name in request.balance]
        columns = [column if kept is None else column[kept] for column in columns]
        found["categories"] = np.column_stack(columns) if len(columns) > 1 else columns[0]
    missing = request.reading.text.missing
    if request.must_link is not None:
        found["must_link"] = _numbered(data, request.must_link, missing)
    if request.cannot_link is not None:
        found["cannot_link"] = _pairs_apart(request, _numbered(data, request.cannot_link, missing))
    return found


def _pairs_apart(request: GroupRequest, numbers: Any) -> list[tuple[int, int]]:
    """All pairs of rows with the same number; numbers below 0 do not count."""
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(numbers.max(initial=-1) + 1))
    alike = np.split(order, starts)[1:]
    most, groups = max(map(len, alike), default=0), request.choices["n_groups"]
    if most > groups:
        raise ValueError(
            f"--cannot-link {request.cannot_link}: {most:,} rows have the same value, and "
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


def show_groups(run: GroupRun) -> None:
    """Print the balance of the groups."""
    balance = run.model.balance_
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
    print_table(head + [">shares differ by"] * bool(balance.categories), rows)
