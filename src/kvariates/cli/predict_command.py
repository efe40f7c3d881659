"""The work of `kvariates predict`: the labels of new rows by a saved model."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from kvariates.cli.app import remark
from kvariates.cli.reading import ReadRequest, read_table
from kvariates.cli.saved_model import filled_means, load_model
from kvariates.cli.screen import phase
from kvariates.sources.parquet_writer import write_labels
from kvariates.sources.scaling import radians_scale

SUFFIXES = (".parquet", ".csv")
NOT_PRIVATE = (
    "the model is private, the labels and numbers of rows here are not: they are computed from "
    "these rows without noise; do not publish them"
)


@dataclass(frozen=True, eq=False)
class Prediction:
    """How many rows got each label."""

    sizes: Any
    rows: int

    def summary(self, model: Path, data: Path, out: Path) -> dict[str, Any]:
        clusters = [{"label": j, "rows": n} for j, n in enumerate(self.sizes.tolist())]
        names = {"model": str(model), "data": str(data), "labels": str(out)}
        return names | {"rows": self.rows, "clusters": clusters}


def predict_file(
    path: Path, reading: ReadRequest, out: Path, progress: Progress, *, quiet: bool
) -> Prediction:
    """Read the model and the rows, and write their labels to `out`."""
    if out.suffix.lower() not in SUFFIXES:
        ending = f"not {out.suffix}" if out.suffix else f"and {out.name} ends with neither"
        raise ValueError(f"-o: the labels are written as .parquet or .csv, {ending}")
    model = load_model(path)
    last = model[-1] if hasattr(model, "steps") else model
    if hasattr(last, "ledger_"):
        remark(NOT_PRIVATE)
    metric = getattr(last, "metric", "euclidean")
    if metric in ("graph", "precomputed"):
        raise ValueError(
            f"{path}: the model was fitted with --metric {metric}, so it has no labels for new "
            "rows; its own are in labels.parquet"
        )
    means = None
    if reading.missing == "mean" and (means := filled_means(model)) is None:
        raise ValueError(
            f"{path}: was fitted without --missing mean, so there are no means to fill in; use "
            "--missing drop"
        )
    columns, names = reading.columns, [str(n) for n in getattr(model, "feature_names_in_", ())]
    if names and (columns is None or set(columns) == set(names)):
        columns = names  # in the order of the fit
    with phase(progress, f"reading {reading.data.name}"):
        data = read_table(replace(reading, columns=columns, means=means), quiet=quiet)
    X = data.table.X
    if metric == "haversine" and model is not last:
        radians_scale(X, data.table.names)  # an error is in the units of the file
    if X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"{reading.data}: has {X.shape[1]} columns to use, and the model has "
            f"{model.n_features_in_} features; name them with --columns"
        )
    with phase(progress, f"labelling {X.shape[0]:,} rows"), warnings.catch_warnings():
        # The columns were chosen by their names; the matrix itself has none.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        labels = np.asarray(model.predict(X))
    write_labels(out, labels, data.beside, data.table.kept)
    k = int(getattr(last, "n_clusters", labels.max() + 1))
    return Prediction(np.bincount(labels, minlength=k), X.shape[0])
