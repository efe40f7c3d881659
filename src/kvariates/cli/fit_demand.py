"""The work of `kvariates fit --objective median --epsilon`: medoids for a private demand.

The points are public, and so are their labels, which follow from the points and the medoids. Only
the file of the demand is private. Every entry of it is read by itself, so that none changes how
others are read.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import remark, remarks
from kvariates.cli.fit_median import Points, read_points, write_medoids
from kvariates.cli.fit_private import WHY
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.screen import phase, said_warnings
from kvariates.estimators.private_kmedian import PrivateKMedian
from kvariates.report import fit as report
from kvariates.sources.demand_file import demand_numbers
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
    remark(PUBLISHED)
    notes = remarks()  # none that depends on the demand
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
    table = points.fitted_table(request)
    found = report.FitRun(
        table, {name: getattr(model, name) for name in SHOWN}, points.medoids(model), counts,
        counts, model=model, command=request.command, medoids=points.medoid_names(model),
        notes=notes, medoid_ids=points.medoid_ids(model, request.reading.identifier),
    )  # fmt: skip
    with phase(progress, "writing"):
        write_medoids(found, points, labels, folder)
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
        rows = points.fitted_table(request).in_file(np.arange(points.n))
        return [str(i + 1) for i in rows.tolist()]
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
