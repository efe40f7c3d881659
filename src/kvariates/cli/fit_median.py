"""The work of `kvariates fit --objective median`: k medoids of rows or of a graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import Progress

from kvariates.cli.app import check_name
from kvariates.cli.fit_command import parameters_of, scaled_rows
from kvariates.cli.fit_private import WHY
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.reading import ReadTable, read_table, say_remarks
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import fit_with_bar, phase, said_warnings
from kvariates.data.metrics import DISTANCES, EDGES, METRICS, PLACES, ROWS
from kvariates.estimators.fit_record import FitRecord, fit_record_of
from kvariates.estimators.kmedian import KMedian
from kvariates.estimators.private_kmedian import PrivateKMedian
from kvariates.report.fit_page import write_fit
from kvariates.report.plane import LONGITUDE
from kvariates.report.run import FitRun, FittedTable, ShownRows, cluster_masses
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
from kvariates.sources import DataTable, Scale
from kvariates.sources.graph_files import NodePlaces, edge_list, read_graph, read_places
from kvariates.sources.parquet_writer import write_labels
from kvariates.sources.private_text import demand_numbers
from kvariates.sources.scaling import radians_scale

PUBLISHED = (
    "the points are public, so labels.parquet may be published, too: it follows from the points "
    "and the medoids; the file of the demand may not"
)
SHOWN = ("n_clusters", "epsilon", "delta", "metric", "method", "adjacency", "missing")


def fit_median(request: FitRequest, folder: Path, progress: Progress) -> FitRun:
    """Read the file, find medoids and write the files."""
    check_name("init", request.choices.get("init"), MEDOID_SEEDINGS)
    points = read_points(request, progress)
    with phase(progress, f"clustering {points.n:,} {points.unit}") as bar:
        model = KMedian(request.k or 1, **request.choices)
        seconds = fit_with_bar(
            model, bar, request.notes, points.X, sample_weight=points.data.table.weight
        )
    record = fit_record_of(model)
    found = FitRun(
        points.fitted_table(request), parameters_of(model, request), points.medoids(record),
        *_sizes(points, model), record.inertia, record.n_iter, seconds, record, request.command,
        medoids=points.medoid_names(record), notes=request.notes.lines,
        medoid_ids=points.medoid_ids(record, request.reading.identifier),
    )  # fmt: skip
    with phase(progress, "writing"):
        write_medoids(found, points, model, model.labels_, folder)
    return found


@dataclass(frozen=True, eq=False)
class Points:
    """The points among which medoids are chosen.

    Attributes
    ----------
    data : ReadTable
    X : matrix
        Scaled rows, distances or the edges of a graph, as the metric wants them.
    scale : Scale or None
    metric : str
    places : NodePlaces or None
        Where the nodes of a graph are, if a file says so.
    """

    data: ReadTable
    X: Any
    scale: Scale | None
    metric: str
    places: NodePlaces | None = None

    @property
    def is_graph(self) -> bool:
        return METRICS[self.metric].needs == EDGES

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def has_columns(self) -> bool:
        return METRICS[self.metric].needs in (ROWS, PLACES)

    @property
    def unit(self) -> str:
        return "nodes" if self.is_graph else "rows"

    def medoids(self, record: FitRecord) -> NDArray[Any]:
        """The medoids in the units of the file; their numbers from 1 if they have no columns."""
        numbers = record.medoids
        if not self.has_columns:
            return np.asarray(numbers[:, None] + 1)
        rows = self.data.table.X[numbers]
        return np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray())

    def medoid_names(self, record: FitRecord) -> tuple[str, ...]:
        """The names of medoids that are nodes of a graph."""
        if not self.is_graph:
            return ()
        return tuple(map(str, self.data.beside["node"][record.medoids]))

    def medoid_ids(self, record: FitRecord, identifier: str | None) -> tuple[str, ...]:
        """The names of medoids that are rows, by the column of names; empty without one."""
        if identifier is None or self.is_graph:
            return ()
        names, kept, rows = self.data.beside[identifier], self.data.table.kept, record.medoids
        rows = rows if kept is None else np.flatnonzero(kept)[rows]
        found = [names[int(i)] for i in rows]  # of NumPy or of Arrow
        return tuple(str(name.as_py() if hasattr(name, "as_py") else name) for name in found)

    def fitted_table(self, request: FitRequest) -> FittedTable:
        table = self.data.table
        names = ("row",) if METRICS[self.metric].needs == DISTANCES else table.names
        return FittedTable(
            request.data, tuple(names), table.left_out, self.n, table.weight is not None,
            request.scaling != "none", kept=table.kept, weights=request.reading.weights or "",
        )  # fmt: skip


def read_points(request: FitRequest, progress: Progress) -> Points:
    """Check what was asked for, and read the points."""
    metric = request.choices.get("metric", "euclidean")
    check_name("metric", metric, METRICS)
    request.refuse("is for --objective means", "algorithm", "size_min", "size_max")
    if request.k is None:
        raise ValueError("-k auto is for --objective means; give a number")
    needs = METRICS[metric].needs
    if needs != ROWS and request.scaling != "none":
        raise ValueError(f"--scale {request.scaling} does not work with --metric {metric}")
    with phase(progress, f"reading {request.data.name}"):
        if needs == EDGES:
            data = _graph(request)
            return Points(data, data.table.X, None, metric, _places(request, data))
        data = read_table(request.reading)
        X, scale = scaled_rows(data.table.X, data.table.weight, request.scaling)
        if needs == PLACES:
            scale = _from_degrees(data.table)
            X = scale.apply(X)
        elif scale is None:
            say_remarks(data.table, metric not in ("euclidean", "manhattan"), request.reading)
        return Points(data, X, scale, metric)


def _from_degrees(table: DataTable) -> Scale:
    scale = radians_scale(table.X, table.names)
    if LONGITUDE.match(table.names[0]):
        swapped = ",".join(table.names[::-1])
        raise ValueError(f"places are latitude, then longitude; give --columns {swapped}")
    return scale


def _graph(request: FitRequest) -> ReadTable:
    reading = request.reading
    missing = None if reading.missing == "error" else reading.missing
    for name, given in (
        ("columns", reading.columns), ("weights", reading.weights), ("id", reading.identifier),
        ("keep", reading.keep or None), (f"missing {missing}", missing),
    ):  # fmt: skip
        if given is not None:
            raise ValueError(f"--{name} does not work on a graph")
    graph = read_graph(reading.data, reading.text)
    n = graph.lengths.shape[0]
    for line in (*graph.remarks, f"{n:,} nodes and {graph.lengths.nnz // 2:,} edges"):
        request.notes.add(f"{reading.data.name}: {line}")
    table = DataTable(graph.lengths, ("node",), reading.data)
    return ReadTable(table, {"node": graph.nodes})


def _places(request: FitRequest, data: ReadTable) -> NodePlaces | None:
    if request.nodes is None:
        return None
    return read_places(request.nodes, data.beside["node"], request.reading.text)


def _sizes(points: Points, model: KMedian) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rows and the weight of each cluster."""
    reached, weight = model.labels_ >= 0, points.data.table.weight
    labels = model.labels_[reached]
    masses = cluster_masses(labels, None if weight is None else weight[reached], model.n_clusters)
    return np.bincount(labels, minlength=model.n_clusters), masses


def write_medoids(
    run: FitRun, points: Points, model: Any, labels: NDArray[np.int32], folder: Path
) -> None:
    """Write the labels of the points, the model, the centres, the summary and the report."""
    table = points.data.table
    write_labels(folder / "labels.parquet", labels, points.data.beside, table.kept)
    save_model(model, table.names, points.scale, folder / "model.skops", table.means)
    write_fit(run, _shown(run, points, labels), folder)


def _shown(run: FitRun, points: Points, labels: NDArray[np.int32]) -> ShownRows | None:
    """The points for the drawing; None if they have no coordinates."""
    table, record = points.data.table, run.record
    if points.places is not None:
        X = points.places.X
        return ShownRows(
            X, labels, X[record.medoids], edges=edge_list(points.X),
            names=points.places.names, points=tuple(map(str, points.data.beside["node"])),
        )  # fmt: skip
    if not points.has_columns:
        return None
    raw = points.X.shape[1] <= 2
    X, centers = (table.X, run.centers) if raw else (points.X, record.centers)
    return ShownRows(X, labels, centers, table.weight, table.X)


def fit_demand(request: FitRequest, folder: Path, progress: Progress) -> FitRun:
    """Read the points and the demand, find private medoids and write the files."""
    budget = request.budget
    assert budget is not None  # noqa: S101
    assert budget.demand is not None  # noqa: S101
    _check(request)
    points = read_points(request, progress)
    request.notes.add(PUBLISHED)
    notes = request.notes.lines  # none that depends on the demand
    with phase(progress, f"reading {budget.demand.name}"):
        column = request.reading.identifier or ("node" if points.is_graph else "row")
        demand = demand_numbers(
            budget.demand, _names(request, points), column, request.reading.text
        )
    metric = request.choices.get("metric", "euclidean")
    model = PrivateKMedian(
        request.k or 1, epsilon=budget.epsilon, delta=budget.delta, metric=metric
    )
    with phase(progress, "clustering privately"), said_warnings(request.notes):
        labels = model.fit_predict(points.X, demand=demand)
    record, parameters = fit_record_of(model), model.get_params()
    found = FitRun(
        points.fitted_table(request), {name: parameters[name] for name in SHOWN},
        points.medoids(record), record.counts, record.counts, record=record,
        command=request.command, medoids=points.medoid_names(record), notes=notes,
        medoid_ids=points.medoid_ids(record, request.reading.identifier),
    )  # fmt: skip
    with phase(progress, "writing"):
        write_medoids(found, points, model, labels, folder)
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
        names = opened.complete_values(identifier)
        kept = points.data.table.kept
        names = names if kept is None else names[kept]
        if names.dtype.kind == "f":
            raise ValueError(f"--id {identifier}: holds numbers with decimals, not names of points")
    found = [str(name) for name in names]
    if len(set(found)) < len(found):
        raise ValueError(f"--id {identifier}: names several points alike")
    return found
