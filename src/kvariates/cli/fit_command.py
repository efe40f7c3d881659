"""Chooses how a fit is run, writes its files together, and shows the result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import check_name
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.output_folder import moved_into_place, refuse_inputs
from kvariates.cli.reading import ReadTable, read_table, say_remarks, shown_name
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import (
    command_words,
    fit_with_bar,
    phase,
    progress_display,
    said_warnings,
    show_fit,
    show_json,
)
from kvariates.data.metrics import METRICS
from kvariates.estimators.choose_k import choose_k
from kvariates.estimators.fit_record import fit_record_of
from kvariates.estimators.kmeans import KMeans
from kvariates.extras import needed
from kvariates.k_selection import Choice
from kvariates.objectives.objective import OBJECTIVES
from kvariates.refining.refinements import REFINEMENTS
from kvariates.report.fit_page import write_fit
from kvariates.report.page import as_options
from kvariates.report.run import FitRun, FittedTable, ShownRows, cluster_masses
from kvariates.report.sections import how_sure
from kvariates.seeding.seedings import HOST_SEEDINGS
from kvariates.sources import Scale, input_file, scale_for
from kvariates.sources.parquet_writer import write_labels

STREAMED = "so it is read as a stream"
NOT_STREAMED = (".npz", ".mtx")  # files of these endings are small, or sparse
FILES = ("centers.csv", "labels.parquet", "model.skops", "report.html", "summary.json")
MOST_CHOSEN = 20  # clusters that -k auto tries
MOST_SHOWN = 2 * 10**7  # numbers of a sparse matrix that the report gets
KEPT = ("n_clusters", "init", "metric", "algorithm", "n_init", "random_state")


def run_fit(
    request: FitRequest, out: Path, *, stream: bool | None, dask: str | None, force: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Fit, write the files to `out` and print the result."""
    needed("skops.io", "cli", "writing model.skops")  # before the work
    work = _work(request, stream, dask)
    files = [name for name in FILES if name != "labels.parquet" or _labels(request)]
    demand = None if request.budget is None else request.budget.demand
    refuse_inputs(out, FILES, [request.data, request.nodes, demand])
    with (
        progress_display(request.quiet) as progress,
        moved_into_place(out, files, force=force) as folder,
        command_words(request.data, _unit(request)),
    ):
        run = work(request, folder, progress)
        written = sorted(path.name for path in folder.iterdir())
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    if force and not _labels(request):
        (out / "labels.parquet").unlink(missing_ok=True)  # of an earlier fit
    request.notes.say(quiet=request.quiet)
    if as_json:
        show_json({**summary, "out": str(out), "files": written})
    elif not request.quiet:
        show_fit(run, out, written)


def _unit(request: FitRequest) -> str:
    """What is clustered."""
    return "nodes" if request.choices.get("metric") == "graph" else "rows"


def _labels(request: FitRequest) -> bool:
    """Whether labels are written: of private rows only if they are asked for."""
    budget = request.budget
    return budget is None or budget.demand is not None or request.labels


def _work(request: FitRequest, stream: bool | None, dask: str | None) -> Any:
    """The function that does the fit."""
    if request.nodes is not None and request.choices.get("metric") != "graph":
        raise ValueError("--nodes is for --objective median --metric graph")
    if request.labels and (request.budget is None or request.budget.demand is not None):
        raise ValueError("--labels is for private rows; otherwise labels.parquet is always written")
    if request.budget is not None:
        if stream or dask is not None:
            raise ValueError(f"--{'stream' if stream else 'dask'} does not work with --epsilon")
        if request.budget.demand is not None:
            from kvariates.cli.fit_median import fit_demand

            return fit_demand
        from kvariates.cli.fit_private import fit_private

        return fit_private
    if request.objective == "median":
        if stream or dask is not None:
            given = "stream" if stream else "dask"
            raise ValueError(f"--{given} does not work with --objective median")
        from kvariates.cli.fit_median import fit_median

        return fit_median
    if dask is not None:
        if stream:
            raise ValueError("--stream does not work with --dask; leave out one of them")
        from kvariates.cli.fit_dask import fit_on_cluster

        return partial(fit_on_cluster, dask)
    return _means(request, stream)


def _means(request: FitRequest, stream: bool | None) -> Any:
    data = request.data
    if str(data) == "-":
        if stream:
            raise ValueError("--stream reads a file twice; standard input can be read only once")
        return _in_memory
    if stream is None and data.is_dir():
        request.notes.add(f"{shown_name(data)} is a folder, {STREAMED}")
        stream = True
    elif stream is None and data.is_file() and data.suffix not in NOT_STREAMED:
        return partial(_in_memory, large=_is_large(request), may_stream=True)
    if stream:
        from kvariates.cli.fit_stream import fit_stream

        return fit_stream
    return _in_memory


def _in_memory(
    request: FitRequest, folder: Path, progress: Any, large: bool = False, may_stream: bool = False
) -> Any:
    """Read the file into the memory if it fits. A compressed file can be larger than it looks."""
    try:
        if not large:
            return fit_in_memory(request, folder, progress)
    except input_file.TooLargeError as error:
        if not may_stream:
            raise ValueError(f"{error}; --stream reads a table in blocks") from None
    from kvariates.cli.fit_stream import fit_stream

    request.notes.add(f"{request.data.name} is large compared with the memory, {STREAMED}")
    return fit_stream(request, folder, progress)


def _is_large(request: FitRequest) -> bool:
    """Whether a file is large compared with the memory. Nothing is read of a small file."""
    if input_file.input_file(request.data).size < input_file.memory() / 100:
        return False
    from kvariates.cli.fit_stream import too_large

    return too_large(request)


def check_names(request: FitRequest) -> None:
    """Raise ValueError if a name is not in its table."""
    choices = request.choices
    metric = choices.get("metric")
    hint = f"; --objective median has {metric!r}" if metric in METRICS else ""
    check_name("metric", metric, OBJECTIVES, hint)
    check_name("init", choices.get("init"), HOST_SEEDINGS)
    check_name("algorithm", choices.get("algorithm"), REFINEMENTS)


def fit_in_memory(request: FitRequest, folder: Path, progress: Progress) -> FitRun:
    """Read the whole file, cluster its rows and write the files."""
    check_names(request)
    with phase(progress, f"reading {request.data.name}"):
        data = read_table(request.reading)
        X, w, scale = _scaled(request, data)
    k, choice = request.k, None
    if k is None:
        choice = _choice(request, X, w, progress)
        k = choice.k
    with phase(progress, f"clustering {X.shape[0]:,} rows") as bar:
        model = KMeans(k, **request.choices)
        model._keep_costs = True
        seconds = fit_with_bar(model, bar, request.notes, X, sample_weight=w)
        del model._keep_costs
    with phase(progress, "writing"):
        run = replace(_run(request, data, model, scale, seconds), choice=choice)
        shown = shown_rows(data.table.X, X, model, run.centers, w)
        write_labels(folder / "labels.parquet", model.labels_, data.beside, data.table.kept)
        save_model(model, data.table.names, scale, folder / "model.skops", data.table.means)
        write_fit(run, shown, folder)
    return run


def _scaled(request: FitRequest, data: ReadTable) -> tuple[Any, Any, Scale | None]:
    """The rows to cluster, their weights and the scale."""
    w, metric = data.table.weight, request.choices.get("metric", "euclidean")
    scaled = request.scaling != "none" or metric != "euclidean"
    say_remarks(data.table, scaled, request.reading)
    X, scale = scaled_rows(data.table.X, w, request.scaling)
    return X, w, scale


def scaled_rows(X: Any, w: Any, scaling: Any) -> tuple[Any, Scale | None]:
    """Rows in the units of a scale of `sources.scaling`, and the scale."""
    if scaling == "none":
        return X, None
    if not isinstance(X, np.ndarray):
        raise ValueError(
            f"--scale {scaling} would turn the zeros of a sparse matrix into other numbers; use "
            "--scale none"
        )
    scale = scale_for(X, w, scaling)
    return (X if scale is None else scale.apply(X)), scale


def _choice(request: FitRequest, X: Any, w: Any, progress: Progress) -> Choice:
    """The number of clusters that `choose_k` suggests."""
    most = min(MOST_CHOSEN, X.shape[0])
    with phase(progress, f"trying 1 to {most} clusters"), said_warnings(request.notes):
        choice = choose_k(
            X, (1, most), sample_weight=w, metric=request.choices.get("metric", "euclidean"),
            random_state=request.choices["random_state"],
        )  # fmt: skip
    request.notes.add(f"k = {choice.k}: {as_options(choice.reason)} {how_sure(choice)}")
    return choice


def _run(
    request: FitRequest, data: ReadTable, model: KMeans, scale: Scale | None, seconds: float
) -> FitRun:
    table, labels, k = data.table, model.labels_, model.n_clusters
    centers = model.cluster_centers_ if scale is None else scale.undo(model.cluster_centers_)
    read = FittedTable(
        request.data, table.names, table.left_out, table.X.shape[0], table.weight is not None,
        scale is not None, kept=table.kept, weights=request.reading.weights or "",
    )  # fmt: skip
    return FitRun(
        read, parameters_of(model, request), centers, np.bincount(labels, minlength=k),
        cluster_masses(labels, table.weight, k), model.inertia_, model.n_iter_, seconds,
        fit_record_of(model), request.command, model._costs, notes=request.notes.lines,
    )  # fmt: skip


def parameters_of(model: Any, request: FitRequest) -> Mapping[str, Any]:
    """The parameters for the summary: the usual ones, and all that were given."""
    given = model.get_params(deep=False)
    names = [*KEPT, *(name for name in request.choices if name not in KEPT)]
    found = {name: given[name] for name in names if name in given}
    return found | ({"scale": request.scaling} if request.scaling != "none" else {})


def shown_rows(raw: Any, X: Any, model: Any, centers: Any, weights: Any = None) -> ShownRows:
    """The rows for the report: in the units of the file if they have one or two columns."""
    labels, is_sparse = model.labels_, not isinstance(X, np.ndarray)
    if is_sparse:
        step = max(1, -(-X.shape[0] * X.shape[1] // MOST_SHOWN))
        X, labels = X[::step].toarray(), labels[::step]
        raw, weights = X, None if weights is None else weights[::step]
    if model.metric == "cosine":
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        return ShownRows(unit, labels, model.cluster_centers_, weights, raw, sparse=is_sparse)
    if X.shape[1] <= 2:
        return ShownRows(raw, labels, centers, weights, sparse=is_sparse)
    return ShownRows(X, labels, model.cluster_centers_, weights, raw, sparse=is_sparse)
