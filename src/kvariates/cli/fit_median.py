"""The work of `kvariates fit --objective median`: k medoids of rows or of a graph."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import check_name, remark
from kvariates.cli.fit_command import parameters_of
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.reading import ReadTable, read_table, say_remarks
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import phase, said_warnings
from kvariates.data.metrics import DISTANCES, EDGES, METRICS
from kvariates.estimators.kmedian import KMedian
from kvariates.report import fit as report
from kvariates.report.files import write_rows
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS
from kvariates.sources import DataTable, scale_for
from kvariates.sources.graph_files import read_graph
from kvariates.sources.parquet_writer import write_labels


def fit_median(request: FitRequest, folder: Path, progress: Progress) -> report.FitRun:
    """Read the file, find medoids and write the files."""
    _check(request)
    metric = request.choices.get("metric", "euclidean")
    is_graph = METRICS[metric].needs == EDGES
    with phase(progress, f"reading {request.data.name}"):
        data = _graph(request) if is_graph else read_table(request.reading, quiet=request.quiet)
        X, scale = data.table.X, None
        if request.scaling != "none":
            scale = scale_for(X, data.table.weight, request.scaling)  # type: ignore[arg-type]
            X = X if scale is None else scale.apply(X)
        elif not request.quiet and not is_graph:
            say_remarks(data.table, metric not in ("euclidean", "manhattan"), request.reading)
    with phase(progress, f"clustering {X.shape[0]:,} {'nodes' if is_graph else 'rows'}"):
        begin = time.perf_counter()
        model = KMedian(request.k or 1, **request.choices)
        with said_warnings():
            model.fit(X, sample_weight=data.table.weight)
        seconds = time.perf_counter() - begin
    with phase(progress, "writing"):
        run = _run(request, data, model, seconds)
        write_labels(folder / "labels.parquet", model.labels_, data.beside, data.table.kept)
        save_model(model, data.table.names, scale, folder / "model.skops")
        shown = None
        if hasattr(model, "cluster_centers_"):
            both = X.shape[1] <= 2
            shown = report.ShownRows(
                data.table.X if both else X,
                model.labels_,
                run.centers if both else model.cluster_centers_,
            )
        report.write_fit(run, shown, folder)
        if is_graph:
            _write_nodes(run, data.beside["node"], folder / "centers.csv")
            run = _with_names(run, data.beside["node"])
    return run


def _check(request: FitRequest) -> None:
    choices = request.choices
    check_name("metric", choices.get("metric"), METRICS)
    check_name("init", choices.get("init"), MEDOID_SEEDINGS)
    request.refuse("is for --objective means", "algorithm", "size_min", "size_max")
    if request.k is None:
        raise ValueError("-k auto is for --objective means; give a number")
    needs = METRICS[choices.get("metric", "euclidean")].needs
    if needs in (EDGES, DISTANCES) and request.scaling != "none":
        raise ValueError(f"--scale {request.scaling} is for rows, not for distances")


def _graph(request: FitRequest) -> ReadTable:
    reading = request.reading
    for name, given in (("columns", reading.columns), ("weights", reading.weights),
                        ("id", reading.identifier)):  # fmt: skip
        if given is not None:
            raise ValueError(f"--{name} does not work on a graph")
    graph = read_graph(reading.data, reading.text)
    if not request.quiet:
        n = graph.lengths.shape[0]
        for line in (*graph.remarks, f"{n:,} nodes and {graph.lengths.nnz // 2:,} edges"):
            remark(f"{reading.data.name}: {line}")
    table = DataTable(graph.lengths, ("node",), reading.data)
    return ReadTable(table, {"node": graph.nodes})


def _run(request: FitRequest, data: ReadTable, model: Any, seconds: float) -> report.FitRun:
    table, labels, k = data.table, model.labels_, model.n_clusters
    names, centers = table.names, data.table.X
    if hasattr(model, "cluster_centers_"):
        centers = table.X[model.medoid_indices_]  # in the units of the file
    else:
        names = ("node" if "node" in table.names else "row",)
        centers = model.medoid_indices_[:, None]
    reached = labels >= 0
    weight = None if table.weight is None else table.weight[reached]
    read = report.FittedTable(
        request.data, tuple(names), table.left_out, table.X.shape[0], table.weight is not None,
        request.scaling != "none", False,
    )  # fmt: skip
    return report.FitRun(
        read, parameters_of(model, request), np.asarray(centers),
        np.bincount(labels[reached], minlength=k),
        report.cluster_masses(labels[reached], weight, k), model.inertia_, model.n_swaps_, seconds,
        model, request.command,
    )  # fmt: skip


def _write_nodes(run: report.FitRun, nodes: Any, path: Path) -> None:
    """centers.csv with the names of the nodes."""
    medoids = nodes[run.model.medoid_indices_].tolist()
    rows = ([j, size, medoids[j]] for j, size in enumerate(run.sizes.tolist()))
    write_rows(path, ["label", "rows", "node"], rows)


def _with_names(run: report.FitRun, nodes: Any) -> report.FitRun:
    """The run with the names of nodes as centres, for the screen."""
    names = np.array([[str(node)] for node in nodes[run.model.medoid_indices_]], dtype=object)
    return replace(run, centers=names)
