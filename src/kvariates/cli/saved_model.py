"""Fitted models as files: model.skops, which cannot run code when it is loaded.

A model of scaled columns, or of columns whose missing values were filled in, is a pipeline of
scikit-learn: the means, the scale, then the model. So ``predict`` takes rows in the units of the
file.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress
from scipy import sparse
from sklearn.pipeline import Pipeline

from kvariates.cli.reading import ReadRequest, read_table
from kvariates.cli.screen import phase
from kvariates.estimators.fit_record import fit_record_of
from kvariates.estimators.saving import first_line, model_bytes, model_of
from kvariates.sources import Scale
from kvariates.sources.parquet_writer import write_labels
from kvariates.sources.scaling import radians_scale

LIMITS = (
    "the model has limits on the sizes of clusters, which hold for the rows of the fit only; here "
    "each row gets its nearest centre"
)
SUFFIXES = (".parquet", ".csv")
NOT_PRIVATE = (
    "the model is private, the labels and numbers of rows here are not: they are computed from "
    "these rows without noise; do not publish them"
)


def save_model(
    model: Any, names: tuple[str, ...], scale: Scale | None, path: Path, means: Any = None
) -> None:
    """Write a model whose features have these names. `means`: of missing values, if filled in."""
    columns = np.array(names, dtype=object)
    if scale is not None or means is not None:
        model = _pipeline(model, columns, scale, means)
    elif vars(model).get("n_features_in_") == len(names):  # a model of words has none
        model.feature_names_in_ = columns
    path.write_bytes(model_bytes(model))


def _pipeline(model: Any, columns: Any, scale: Scale | None, means: Any) -> Any:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    steps: list[tuple[str, Any]] = []
    if means is not None:
        steps.append(("fill", SimpleImputer().fit(means[None, :])))
    if scale is not None:
        scaler = StandardScaler()
        scaler.mean_, scaler.scale_, scaler.var_ = scale.mean, scale.spread, scale.spread**2
        scaler.n_features_in_ = len(columns)
        steps.append(("scale", scaler))
    steps[0][1].feature_names_in_ = columns
    return Pipeline([*steps, ("cluster", model)])


def _last(model: Any) -> Any:
    """The model itself, without the steps before it."""
    return model[-1] if isinstance(model, Pipeline) else model


def load_model(path: Path) -> Any:
    """The model of a file. ValueError if it is none, or holds anything but parts of kvariates."""
    if path.is_dir():
        path = path / "model.skops"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no such file")
    model = model_of(path.read_bytes(), str(path))
    last = _last(model)
    if not type(last).__module__.startswith("kvariates."):
        raise ValueError(f"{path}: holds a {type(last).__name__}, not a model of kvariates")
    _check_centers(model, last, path)
    return model


def _check_centers(model: Any, last: Any, path: Path) -> None:
    """Raise ValueError unless the model labels its own first centre.

    Models of graphs and of distances have no coordinates, and no labels for new rows.
    """
    try:
        record = fit_record_of(last)
        if record.metric in ("graph", "precomputed"):
            return
        centers = record.centers
        values = centers.data if sparse.issparse(centers) else np.asarray(centers)
        whole = np.shape(centers) == (record.n_clusters, last.n_features_in_)
        if not whole or values.dtype.kind != "f":
            raise ValueError("its centres are no table of numbers")
        if not np.isfinite(values).all():
            raise ValueError("a centre has a missing or infinite value")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row has no names
            model.predict(centers[:1])
    except Exception as error:  # a damaged model can raise anything
        raise ValueError(f"{path}: is damaged: {first_line(error)}") from None


def predict_file(path: Path, reading: ReadRequest, out: Path, progress: Progress) -> list[int]:
    """Read the model and the rows, write their labels to `out`. Returns how many rows have each."""
    if out.suffix.lower() not in SUFFIXES:
        ending = f"not {out.suffix}" if out.suffix else f"and {out.name} ends with neither"
        raise ValueError(f"-o: the labels are written as .parquet or .csv, {ending}")
    model = load_model(path)
    last = _last(model)
    record = fit_record_of(last)
    metric = record.metric
    if record.limited:
        reading.notes.add(LIMITS)
    if record.private:
        reading.notes.add(NOT_PRIVATE)
    if metric in ("graph", "precomputed"):
        raise ValueError(
            f"{path}: the model was fitted with --metric {metric}, so it has no labels for new "
            "rows; its own are in labels.parquet"
        )
    means = None
    if reading.missing == "mean":
        steps = model.named_steps if isinstance(model, Pipeline) else {}
        if "fill" not in steps:
            raise ValueError(
                f"{path}: was fitted without --missing mean, so there are no means to fill in; use "
                "--missing drop"
            )
        means = steps["fill"].statistics_
    columns, names = reading.columns, [str(n) for n in getattr(model, "feature_names_in_", ())]
    if names and (columns is None or set(columns) == set(names)):
        columns = names  # in the order of the fit
    with phase(progress, f"reading {reading.data.name}"):
        data = read_table(replace(reading, columns=columns, means=means))
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
    found: list[int] = np.bincount(labels, minlength=record.n_clusters).tolist()
    return found
