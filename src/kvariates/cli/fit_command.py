"""The work of `kvariates fit` in memory: k-means of a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import check_name, remark, remarks
from kvariates.cli.fit_request import FitRequest
from kvariates.cli.reading import ReadTable, read_table, say_remarks
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import fit_with_bar, phase, said_warnings
from kvariates.data.metrics import METRICS
from kvariates.estimators.choose_k import choose_k
from kvariates.estimators.kmeans import KMeans
from kvariates.k_selection import Choice
from kvariates.objectives.objective import OBJECTIVES
from kvariates.refining.refinements import REFINEMENTS
from kvariates.report import fit as report
from kvariates.report.choice_page import how_sure
from kvariates.report.option_words import as_options
from kvariates.seeding.seedings import SEEDINGS
from kvariates.sources import Scale, scale_for
from kvariates.sources.parquet_writer import write_labels

MOST_CHOSEN = 20  # clusters that -k auto tries
MOST_SHOWN = 2 * 10**7  # numbers of a sparse matrix that the report gets
KEPT = ("n_clusters", "init", "metric", "algorithm", "n_init", "random_state")


def check_names(request: FitRequest) -> None:
    """Raise ValueError if a name is not in its table."""
    choices = request.choices
    metric = choices.get("metric")
    hint = f"; --objective median has {metric!r}" if metric in METRICS else ""
    check_name("metric", metric, OBJECTIVES, hint)
    check_name("init", choices.get("init"), SEEDINGS)
    check_name("algorithm", choices.get("algorithm"), REFINEMENTS)


def fit_in_memory(request: FitRequest, folder: Path, progress: Progress) -> report.FitRun:
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
        seconds = fit_with_bar(model, bar, X, sample_weight=w)
        del model._keep_costs
    with phase(progress, "writing"):
        run = replace(_run(request, data, model, scale, seconds), choice=choice)
        shown = shown_rows(data.table.X, X, model, run.centers, w)
        write_labels(folder / "labels.parquet", model.labels_, data.beside, data.table.kept)
        save_model(model, data.table.names, scale, folder / "model.skops", data.table.means)
        report.write_fit(run, shown, folder)
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
    if request.choices.get("metric", "euclidean") != "euclidean":
        raise ValueError("-k auto works with --metric euclidean only; give a number")
    most = min(MOST_CHOSEN, X.shape[0])
    with phase(progress, f"trying 1 to {most} clusters"), said_warnings():
        choice = choose_k(
            X, (1, most), sample_weight=w, random_state=request.choices["random_state"]
        )
    remark(f"k = {choice.k}: {as_options(choice.reason)} {how_sure(choice)}")
    return choice


def _run(
    request: FitRequest, data: ReadTable, model: KMeans, scale: Scale | None, seconds: float
) -> report.FitRun:
    table, labels, k = data.table, model.labels_, model.n_clusters
    centers = model.cluster_centers_ if scale is None else scale.undo(model.cluster_centers_)
    read = report.FittedTable(
        request.data, table.names, table.left_out, table.X.shape[0], table.weight is not None,
        scale is not None, kept=table.kept, weights=request.reading.weights or "",
    )  # fmt: skip
    return report.FitRun(
        read, parameters_of(model, request), centers, np.bincount(labels, minlength=k),
        report.cluster_masses(labels, table.weight, k), model.inertia_, model.n_iter_, seconds,
        model, request.command, model._costs, notes=remarks(),
    )  # fmt: skip


def parameters_of(model: Any, request: FitRequest) -> Mapping[str, Any]:
    """The parameters for the summary: the usual ones, and all that were given."""
    given = model.get_params(deep=False)
    names = [*KEPT, *(name for name in request.choices if name not in KEPT)]
    found = {name: given[name] for name in names if name in given}
    return found | ({"scale": request.scaling} if request.scaling != "none" else {})


def shown_rows(raw: Any, X: Any, model: Any, centers: Any, weights: Any = None) -> report.ShownRows:
    """The rows for the report: in the units of the file if they have one or two columns."""
    labels, is_sparse = model.labels_, not isinstance(X, np.ndarray)
    if is_sparse:
        step = max(1, -(-X.shape[0] * X.shape[1] // MOST_SHOWN))
        X, labels = X[::step].toarray(), labels[::step]
        raw, weights = X, None if weights is None else weights[::step]
    if model.metric == "cosine":
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        return report.ShownRows(
            unit, labels, model.cluster_centers_, weights, raw, sparse=is_sparse
        )
    if X.shape[1] <= 2:
        return report.ShownRows(raw, labels, centers, weights, sparse=is_sparse)
    return report.ShownRows(X, labels, model.cluster_centers_, weights, raw, sparse=is_sparse)
