"""The work of `kvariates fit --objective median --epsilon`: medoids for a private demand.

The points are public, and so are their labels, which follow from the points and the medoids. Only
the file of the demand is private. Every entry of it is read by itself, so that none changes how
others are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from kvariates.cli.app import remark
from kvariates.cli.fit_median import Points, read_points, write_medoids
from kvariates.cli.fit_private import WHY
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.screen import phase, said_warnings
from kvariates.estimators.private_kmedian import PrivateKMedian
from kvariates.report import fit as report
from kvariates.sources import TextOptions
from kvariates.sources.opened_table import complete_values

PUBLISHED = (
    "the points are public, so labels.parquet may be published, too: it follows from the points "
    "and the medoids; the file of the demand may not"
)
SHOWN = ("n_clusters", "epsilon", "delta", "metric", "method", "adjacency", "missing")


def fit_demand(request: FitRequest, folder: Path, progress: Progress) -> report.FitRun:
    """Read the points and the demand, find private medoids and write the files."""
    budget = request.budget
    assert budget is not None  # noqa: S101
    assert budget.demand is not None  # noqa: S101
    _check(request)
    points = read_points(request, progress)
    with phase(progress, f"reading {budget.demand.name}"):
        column = request.reading.identifier or ("node" if points.is_graph else "row")
        demand = demand_numbers(
            budget.demand, _names(request, points), column, request.reading.text
        )
    metric = request.choices.get("metric", "euclidean")
    model = PrivateKMedian(
        request.k or 1, epsilon=budget.epsilon, delta=budget.delta, metric=metric
    )
    with phase(progress, "clustering privately"), said_warnings():
        labels = model.fit_predict(points.X, demand=demand)
    counts = np.asarray(model.cluster_counts_)
    none: Any = None  # neither the cost nor the time was paid for
    found = report.FitRun(
        points.fitted_table(request), {name: getattr(model, name) for name in SHOWN},
        points.medoids(model), np.rint(counts).astype(np.int64), counts, none, 0, 0.0, model,
        request.command, medoids=points.medoid_names(model),
    )  # fmt: skip
    with phase(progress, "writing"):
        write_medoids(found, points, labels, folder)
    if not request.quiet:
        remark(PUBLISHED)
    return found


def _check(request: FitRequest) -> None:
    """Raise ValueError for options that a private fit does not have."""
    request.refuse(WHY, "init", "n_init", "certify")
    if "random_state" in request.choices:
        raise ValueError(f"--seed {WHY}: noise that can be repeated is not private")
    if request.reading.weights is not None:
        raise ValueError(f"--weights {WHY}; the demand says how many people are at a point")


def _names(request: FitRequest, points: Points) -> list[str]:
    """What the demand calls each point."""
    identifier, opened = request.reading.identifier, points.data.opened
    if points.is_graph:
        names = points.data.beside["node"]
    elif identifier is None or opened is None:
        return [str(i) for i in range(points.n)]
    else:
        names = complete_values(opened, identifier)
        kept = points.data.table.kept
        names = names if kept is None else names[kept]
        if names.dtype.kind == "f":
            raise ValueError(f"--id {identifier}: holds numbers with decimals, not names of points")
    found = [str(name) for name in names]
    if len(set(found)) < len(found):
        raise ValueError(f"--id {identifier}: names several points alike")
    return found


def demand_numbers(
    path: Path, names: Iterable[str], column: str, text: TextOptions
) -> NDArray[np.int64]:
    """The number of the point of every entry of a demand; -1 for what is no point."""
    number = {name: i for i, name in enumerate(names)}
    entries = _parquet_entries(path, column) if _is_parquet(path) else _lines(path, column, text)
    return np.fromiter((number.get(entry, -1) for entry in entries), np.int64)


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() == ".parquet"


def _lines(path: Path, column: str, text: TextOptions) -> Iterator[str]:
    """One cell of each line after the line of names. A quote does not join two lines."""
    delimiter = text.delimiter or ("\t" if path.suffix.lower() == ".tsv" else ",")
    encoding = text.encoding or "utf-8-sig"
    with path.open(encoding=encoding, errors="replace") as file:
        place = 0
        if text.header is not False:
            header = [_cell(cell) for cell in file.readline().split(delimiter)]
            place = _place(path, header, column)
        for line in file:
            cells = line.split(delimiter)
            yield _cell(cells[place]) if place < len(cells) else ""


def _cell(words: str) -> str:
    """A cell without spaces and quotes around it."""
    return words.strip().strip('"').strip()


def _place(path: Path, names: list[str], column: str) -> int:
    """Which column holds the points: the one of this name, or the only one."""
    if column in names:
        return names.index(column)
    if len(names) == 1:
        return 0
    raise ValueError(
        f"{path}: the demand has {len(names)} columns, and none is called {column!r}; give that "
        "name to the column of points, or leave the others out"
    )


def _parquet_entries(path: Path, column: str) -> Iterator[str]:
    import pyarrow as pa
    from pyarrow import parquet

    schema = parquet.read_schema(path)
    name = schema.names[_place(path, schema.names, column)]
    kind = schema.field(name).type
    known = (pa.types.is_integer, pa.types.is_string, pa.types.is_large_string)
    if not any(is_known(kind) for is_known in known):
        raise ValueError(f"{path}: column {name!r} holds {kind}, not names or numbers of points")
    values = parquet.read_table(path, columns=[name]).column(0)
    return (str(value) for value in values.to_pylist())
