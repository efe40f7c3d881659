"""The work of `kvariates anticluster`: reads a file, divides its rows into groups, writes."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.balancing.group_balance import GroupBalance
from kvariates.cli.screen import phase, print_table
from kvariates.data.rows import Floats
from kvariates.estimators.anticlustering import AntiClustering
from kvariates.report.files import write_rows
from kvariates.sources import DataTable, read, read_values, standardize

FILES = "groups.csv, balance.csv, summary.json, picture.png"


@dataclass(frozen=True)
class GroupRequest:
    """What `anticluster` was asked to do. `choices`: the parameters of AntiClustering."""

    data: Path
    columns: list[str] | None
    balance: list[str]  # columns of categories
    standardize: bool
    choices: dict[str, Any]


@dataclass(frozen=True, eq=False)
class GroupRun:
    """The result of one run."""

    table: DataTable
    model: AntiClustering
    seconds: float


def anticluster_file(request: GroupRequest, folder: Path, progress: Progress) -> GroupRun:
    """Read the file, find the groups and write the files."""
    with phase(progress, f"reading {request.data.name}"):
        table, categories = _read(request)
        X: Floats = standardize(table.X)[0] if request.standardize else table.X
    with phase(progress, f"dividing {len(X):,} rows"):
        begin = time.perf_counter()
        model = AntiClustering(**request.choices)
        model.fit(X, categories=categories)
        seconds = time.perf_counter() - begin
    run = GroupRun(table, model, seconds)
    with phase(progress, "drawing and writing"):
        _write(request, run, folder)
    return run


def _read(request: GroupRequest) -> tuple[DataTable, Any]:
    """The columns to be alike, and those of categories, which are not among them."""
    table = read(request.data, request.columns)
    for name in request.balance:
        table = table.without(name)
    left_out = tuple(name for name in table.left_out if name not in request.balance)
    table = replace(table, left_out=left_out)
    if not request.balance:
        return table, None
    columns = [read_values(request.data, name) for name in request.balance]
    return table, np.column_stack(columns) if len(columns) > 1 else columns[0]


def _write(request: GroupRequest, run: GroupRun, folder: Path) -> None:
    balance: GroupBalance = run.model.balance_
    write_rows(folder / "groups.csv", ["group"], ([label] for label in run.model.labels_.tolist()))
    head, rows = _balance_rows(balance, run.table.names)
    write_rows(folder / "balance.csv", head, rows)
    summary = {
        "kvariates": version("kvariates"),
        "data": {
            "path": str(request.data), "rows": len(run.table.X), "columns": run.table.names,
            "left_out": run.table.left_out, "categories": request.balance,
            "standardized": request.standardize,
        },
        "parameters": request.choices,
        "objective": run.model.objective_,
        "n_sweeps": run.model.n_sweeps_,
        "seconds": round(run.seconds, 6),
        "sizes": balance.sizes.tolist(),
    }  # fmt: skip
    text = json.dumps(summary, indent=2, ensure_ascii=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    figure = balance.plot().figure
    figure.savefig(folder / "picture.png", dpi=150, bbox_inches="tight")


def _balance_rows(balance: GroupBalance, names: tuple[str, ...]) -> tuple[list[str], list[Any]]:
    """A line for each group: differences of means and ratios of spreads, then shares."""
    head = ["group", "rows", *(f"{name}: difference of means" for name in names)]
    head += [f"{name}: ratio of spreads" for name in names]
    head += [f"{name}: share" for name in balance.categories]
    rows = [
        [g, size, *balance.mean_difference[g].tolist(), *balance.spread_ratio[g].tolist(),
         *balance.category_share[g].tolist()]
        for g, size in enumerate(balance.sizes.tolist())
    ]  # fmt: skip
    return head, rows


def show_groups(run: GroupRun) -> None:
    """Print the balance of the groups."""
    balance, names = run.model.balance_, run.table.names
    worst = np.abs(balance.mean_difference).argmax(axis=1)
    rows = []
    for g, size in enumerate(balance.sizes.tolist()):
        far, spread = balance.mean_difference[g, worst[g]], balance.spread_ratio[g]
        cells = [str(g), f"{size:,}", f"{far:+.2g} ({names[worst[g]]})"]
        cells += [f"{spread.min():.3f} to {spread.max():.3f}"]
        if balance.categories:
            cells += [f"{np.abs(balance.share_difference[g]).max():.2%}"]
        rows.append(tuple(cells))
    head = [">group", ">rows", "means differ by", "ratio of spreads"]
    print_table(head + [">shares differ by"] * bool(balance.categories), rows)
