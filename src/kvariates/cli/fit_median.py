"""The work of `kvariates fit --objective median`: k medoids of rows or of a graph.

With `--demand` the points are public, and how many people are at each of them is private.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import check_name
from kvariates.cli.fit_command import NO_SEED, WITH_EPSILON, FitRequest, Fitted
from kvariates.cli.reading import ReadTable, read_table, say_remarks, scaled_rows
from kvariates.cli.screen import fit_with_bar, phase, said_warnings
from kvariates.data.metrics import DISTANCES, EDGES, METRICS, PLACES, ROWS
from kvariates.data.rows import Labels
from kvariates.estimators.fit_record import FitRecord, fit_record_of
from kvariates.estimators.kmedian import KMedian
from kvariates.estimators.private_kmedian import PrivateKMedian
from kvariates.report.plane import LONGITUDE
from kvariates.report.run import FittedTable, ShownRows, cluster_masses
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
from kvariates.sources import DataTable, Scale
from kvariates.sources.graph_files import edge_list, read_graph, read_places
from kvariates.sources.parquet_writer import write_labels
from kvariates.sources.private_text import demand_numbers
from kvariates.sources.scaling import radians_scale

PUBLISHED = (
    "the points are public, so labels.parquet may be published, too: it follows from the points "
    "and the medoids; the file of the demand may not"
)
SHOWN = ("n_clusters", "epsilon", "delta", "metric", "method", "adjacency", "missing")


@dataclass(frozen=True, eq=False)
class Points:
    """The points among which medoids are chosen."""

    request: FitRequest
    data: ReadTable
    X: Any  # scaled rows, distances or the edges of a graph, as the metric wants them
    scale: Scale | None = None
    places: DataTable | None = None  # where the nodes of a graph are, if a file says so

    @property
    def needs(self) -> Any:
        """What the metric needs."""
        return METRICS[self.request.metric].needs

    @property
    def table(self) -> FittedTable:
        table, request = self.data.table, self.request
        return request.table(
            ("row",) if self.needs == DISTANCES else table.names, table.left_out, self.X.shape[0],
            kept=table.kept, weights=request.reading.weights or "",
        )  # fmt: skip

    def fitted(self, model: Any, labels: Labels, folder: Path, **fields: Any) -> Fitted:
        """What is written about a fit of these points. `fields`: of the run."""
        table, record = self.data.table, fit_record_of(model)
        write_labels(folder / "labels.parquet", labels, self.data.beside, table.kept)
        run = self.request.run(model, table=self.table, **self._medoids(record), **fields)
        shown = self._shown(run.centers, record, labels)
        return Fitted(run, shown, model, self.scale, table.means, table.names)

    def _medoids(self, record: FitRecord) -> dict[str, Any]:
        """The medoids in the units of the file, or their numbers from 1, and their names."""
        rows, beside = record.medoids, self.data.beside
        if self.needs == EDGES:
            return {"centers": rows[:, None] + 1, "medoids": tuple(map(str, beside["node"][rows]))}
        found: dict[str, Any] = {"centers": rows[:, None] + 1}
        if self.needs != DISTANCES:
            centers = self.data.table.X[rows]
            found["centers"] = centers if isinstance(centers, np.ndarray) else centers.toarray()
        if (identifier := self.request.reading.identifier) is not None:
            names = [beside[identifier][int(i)] for i in self.table.in_file(rows)]
            # Of NumPy or of Arrow.
            names = [name.as_py() if hasattr(name, "as_py") else name for name in names]
            found["medoid_ids"] = tuple(map(str, names))
        return found

    def _shown(self, medoids: Any, record: FitRecord, labels: Labels) -> ShownRows | None:
        """The points for the drawing; None if they have no coordinates."""
        table = self.data.table
        if self.places is not None:
            X = self.places.X
            return ShownRows(
                X, labels, X[record.medoids], edges=edge_list(self.X), names=self.places.names,
                points=tuple(map(str, self.data.beside["node"])),
            )  # fmt: skip
        if self.needs in (EDGES, DISTANCES):
            return None
        raw = self.X.shape[1] <= 2
        X, centers = (table.X, medoids) if raw else (self.X, record.centers)
        return ShownRows(X, labels, centers, table.weight, table.X)


def read_points(request: FitRequest, progress: Progress) -> Points:
    """Check what was asked for, and read the points."""
    metric, reading = request.metric, request.reading
    check_name("metric", metric, METRICS)
    request.refuse(
        "is for --objective means", "algorithm", "size_min", "size_max", k="; give a number"
    )
    needs = METRICS[metric].needs
    if needs != ROWS:
        request.refuse(f"does not work with --metric {metric}", "scale")
    with phase(progress, f"reading {request.data.name}"):
        if needs == EDGES:
            return _graph(request)
        data = read_table(reading)
        if needs == PLACES:
            radians = radians_scale(data.table.X, data.table.names)
            if LONGITUDE.match(data.table.names[0]):
                swapped = ",".join(data.table.names[::-1])
                raise ValueError(f"places are latitude, then longitude; give --columns {swapped}")
            return Points(request, data, radians.apply(data.table.X), radians)
        X, scale = scaled_rows(data.table.X, data.table.weight, request.scaling)
        if scale is None:
            say_remarks(data.table, metric not in ("euclidean", "manhattan"), reading)
        return Points(request, data, X, scale)


def _graph(request: FitRequest) -> Points:
    reading, text, nodes = request.reading, request.reading.text, request.options.nodes
    request.refuse("does not work on a graph", "columns", "weights", "id", "keep", "missing")
    graph = read_graph(reading.data, text)
    n = graph.lengths.shape[0]
    for line in (*graph.remarks, f"{n:,} nodes and {graph.lengths.nnz // 2:,} edges"):
        request.notes.add(f"{reading.data.name}: {line}")
    table = DataTable(graph.lengths, ("node",), reading.data)
    places = None if nodes is None else read_places(nodes, graph.nodes, text)
    return Points(request, ReadTable(table, {"node": graph.nodes}), table.X, None, places)


def fit_median(request: FitRequest, folder: Path, progress: Progress) -> Fitted:
    """Read the file, and find medoids."""
    check_name("init", request.choices.get("init"), MEDOID_SEEDINGS)
    points = read_points(request, progress)
    w = points.data.table.weight
    unit = "nodes" if points.needs == EDGES else "rows"
    with phase(progress, f"clustering {points.X.shape[0]:,} {unit}") as bar:
        model = KMedian(request.k or 1, **request.choices)
        seconds = fit_with_bar(model, bar, request.notes, points.X, sample_weight=w)
    reached, k = model.labels_ >= 0, model.n_clusters
    labels = model.labels_[reached]
    return points.fitted(
        model, model.labels_, folder, sizes=np.bincount(labels, minlength=k),
        masses=cluster_masses(labels, None if w is None else w[reached], k), seconds=seconds,
    )  # fmt: skip


def fit_demand(request: FitRequest, folder: Path, progress: Progress) -> Fitted:
    """Read the points and the demand, and find private medoids."""
    options, reading = request.options, request.reading
    assert options.demand is not None  # noqa: S101
    request.refuse(
        WITH_EPSILON, "init", "n_init", "certify", seed=NO_SEED,
        weights="; the demand says how many people are at a point",
    )  # fmt: skip
    points = read_points(request, progress)
    request.notes.add(PUBLISHED)
    notes = request.notes.lines  # none that depends on the demand
    with phase(progress, f"reading {options.demand.name}"):
        column = reading.identifier or ("node" if points.needs == EDGES else "row")
        demand = demand_numbers(options.demand, _names(points), column, reading.text)
    model = PrivateKMedian(request.k or 1, **request.budget, metric=request.metric)
    with phase(progress, "clustering privately"), said_warnings(request.notes):
        labels = model.fit_predict(points.X, demand=demand)
    counts, parameters = fit_record_of(model).counts, model.get_params()
    return points.fitted(
        model, labels, folder, sizes=counts, masses=counts, notes=notes,
        parameters={name: parameters[name] for name in SHOWN},
    )  # fmt: skip


def _names(points: Points) -> list[str]:
    """What the demand calls each point."""
    identifier, opened = points.request.reading.identifier, points.data.opened
    if points.needs == EDGES:
        names = points.data.beside["node"]
    elif identifier is None or opened is None:
        return [str(i + 1) for i in points.table.in_file(np.arange(points.X.shape[0])).tolist()]
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
