"""The work of `kvariates fit --epsilon`: private k-means.

Nothing that is written, and nothing that is printed, is computed from the rows without noise: the
bounds come from the user, the sizes are noisy counts, and there are no inertia, no picture of rows,
no number of rows and no time of the fit. Labels are written only if they are asked for. Every row
of the file is read by itself (`sources/private_text.py`), and none of them is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.fit_request import FitRequest, PrivateBudget
from kvariates.cli.reading import beside_columns
from kvariates.cli.saved_model import save_model
from kvariates.cli.screen import fit_with_bar, phase
from kvariates.estimators.fit_record import fit_record_of
from kvariates.estimators.private_kmeans import PrivateKMeans
from kvariates.privacy.secret import silent
from kvariates.report.fit_page import write_fit
from kvariates.report.run import FitRun, FittedTable
from kvariates.sources import DataTable, OpenedTable, Scale, open_table
from kvariates.sources.parquet_writer import write_labels
from kvariates.sources.scaling import within_box

WHY = "does not work with --epsilon"
NO_COLUMNS = (
    "--epsilon needs --columns a,b, or --bounds that name the columns: which columns are numbers "
    "must not be found out from the rows"
)
NOT_GUESSED = (
    "a private fit does not guess the format of a text file; if it is not comma-separated UTF-8 "
    "with decimal points and names in its first line, give --delimiter, --decimal, --encoding or "
    "--no-header"
)
NO_LABELS = (
    "no labels.parquet: the label of a row reveals information about it, whatever the noise; "
    "--labels writes it all the same, for your own use"
)
LABELS = "labels.parquet is not private: it reveals information about every row; do not publish it"
FARTHEST = 1e100  # of scaled rows that get a label: larger ones could be infinite


def fit_private(request: FitRequest, folder: Path, progress: Progress) -> FitRun:
    """Read the file, find private centres and write the files."""
    budget = request.budget
    assert budget is not None  # noqa: S101
    _check(request)
    with phase(progress, f"reading {request.data.name}"), silent():
        opened, table = _read(request, budget)
        low, high = _ends(budget, table.names)
        X, bounds, scale = table.X, (low, high), None
        if request.scaling == "minmax":
            scale = Scale(low, high - low)
            X = scale.apply(within_box(X, low, high))
            bounds = (np.zeros(len(low)), np.ones(len(low)))
    with phase(progress, "clustering privately") as bar:
        model = _model(request, budget, bounds)
        fit_with_bar(model, bar, request.notes, X)
    with phase(progress, "writing"):
        run = _run(request, table.names, table.left_out, model, scale)
        if request.labels:
            kept = np.isfinite(table.X).all(axis=1)
            labels = _labels(model, table.X[kept], scale)
            beside = beside_columns(opened, request.reading)
            write_labels(folder / "labels.parquet", labels, beside, kept)
        save_model(model, table.names, scale, folder / "model.skops")
        write_fit(run, None, folder)
    request.notes.add(LABELS if request.labels else NO_LABELS)
    return run


def _read(request: FitRequest, budget: PrivateBudget) -> tuple[OpenedTable, DataTable]:
    """The file and its columns of numbers. ValueError if a column is missing."""
    columns = request.reading.columns or [name for name in budget.bounds if name]
    if not columns:
        raise ValueError(NO_COLUMNS)
    opened = open_table(request.data, request.reading.text, private=True)
    if opened.matrix is not None:
        raise ValueError(f"{request.data}: is sparse, and --epsilon takes dense tables")
    for name in columns:
        if name not in opened.names:
            shown = repr(name) if request.reading.columns else budget.bounds[name].named(name)
            raise ValueError(f"{request.data}: has no column {shown}; {NOT_GUESSED}")
    return opened, opened.table(columns, None, "keep")


def _check(request: FitRequest) -> None:
    """Raise ValueError for options that a private fit does not have."""
    reading = request.reading
    if request.k is None:
        raise ValueError(f"-k auto {WHY}: the choice would depend on the rows; give a number")
    request.refuse(WHY, "metric", "init", "algorithm", "n_init", "size_min", "size_max", "certify")
    if "random_state" in request.choices:
        raise ValueError(f"--seed {WHY}: noise that can be repeated is not private")
    if reading.weights is not None:
        raise ValueError(f"--weights {WHY}")
    if reading.missing == "mean":
        raise ValueError(f"--missing mean {WHY}: the mean would be taken from the data")
    if request.scaling not in ("none", "minmax"):
        raise ValueError(
            f"--scale {request.scaling} {WHY}: it is measured on the data; --scale minmax uses the "
            "bounds"
        )
    for name, given in (("--id", reading.identifier), ("--keep", reading.keep or None)):
        if given is not None and not request.labels:
            raise ValueError(f"{name} needs --labels in a private fit")


def _ends(budget: PrivateBudget, names: Sequence[str]) -> tuple[Any, Any]:
    """The lower and the upper bound of each column."""
    bounds = budget.bounds
    for name in bounds:
        if name and name not in names:
            shown = bounds[name].named(name)
            raise ValueError(f"--bounds: the column {shown} is not one of {', '.join(names)}")
    missing = [name for name in names if name not in bounds and "" not in bounds]
    if missing:
        raise ValueError(f"--bounds: none for {', '.join(missing)}")
    found = [bounds[name] if name in bounds else bounds[""] for name in names]
    return np.array([each.low for each in found]), np.array([each.high for each in found])


def _model(request: FitRequest, budget: PrivateBudget, bounds: Any) -> PrivateKMeans:
    return PrivateKMeans(
        request.k or 1, epsilon=budget.epsilon, delta=budget.delta,
        bounds=tuple(end.tolist() for end in bounds),
        missing="error" if request.reading.missing == "error" else "drop",
    )  # fmt: skip


def _run(
    request: FitRequest, names: tuple[str, ...], left_out: tuple[str, ...], model: PrivateKMeans,
    scale: Scale | None,
) -> FitRun:  # fmt: skip
    centers, errors = model.cluster_centers_, model.center_errors_
    if scale is not None:
        centers, errors = scale.undo(centers), None if errors is None else errors * scale.spread
    counts = np.asarray(model.cluster_counts_)
    parameters = {
        name: model.get_params()[name]
        for name in ("n_clusters", "epsilon", "delta", "bounds", "adjacency", "method", "missing")
    }
    if scale is not None:
        parameters["scale"] = request.scaling
    table = FittedTable(request.data, names, left_out, scaled=scale is not None)
    return FitRun(
        table, parameters, centers, counts, counts, record=fit_record_of(model),
        command=request.command, errors=errors,
    )  # fmt: skip


def _labels(model: PrivateKMeans, X: Any, scale: Scale | None) -> Any:
    """The labels of complete rows, of which there may be none."""
    if not len(X):
        return np.empty(0, np.int32)
    with silent():
        if scale is not None:
            X = np.clip(scale.apply(X.astype(np.float64)), -FARTHEST, FARTHEST)
        return model.predict(np.ascontiguousarray(X))
