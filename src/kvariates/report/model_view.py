"""What `kvariates.plot.clusters` draws of a model: its rows and centres in two dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator

from kvariates.data.rows import nearest_centers
from kvariates.estimators.fit_record import FitRecord, fit_record_of
from kvariates.palette import Array, one_line
from kvariates.report.plane import Plane, plane, shown_rows


@dataclass(frozen=True, eq=False)
class ModelView:
    """Rows and centres in the plane, and the sizes of all clusters."""

    plane: Plane
    labels: Array  # of the rows that are drawn; -1: a node of a graph that no medoid reaches
    sizes: Array | None  # of the clusters: rows, or noisy counts
    rows: int  # all of them, drawn or not
    private: bool


def model_view(model: Any, X: Any) -> ModelView:
    """The view of a fitted model; X None: its centres only."""
    record = fit_record_of(model)
    if X is None:
        centers = directions(record, centers_of(record))
        flat = plane(None, centers, tuple(map(one_line, names_of(model, centers.shape[1]))))
        return ModelView(flat, np.empty(0, np.intp), record.counts, 0, record.private)
    found = labelled_rows(model, record, X)
    rows, labels, k = found.rows, found.labels, len(found.centers)
    shown = shown_rows(labels + 1, k + 1)
    names = tuple(map(one_line, names_of(model, rows.shape[1], X)))
    flat = plane(directions(record, rows[shown]), directions(record, found.centers), names)
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    return ModelView(flat, labels[shown], sizes, rows.shape[0], record.private)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows, their labels, and centres with the same columns."""

    rows: Any
    labels: Array
    centers: Array


def labelled_rows(model: Any, record: FitRecord, X: Any) -> LabelledRows:
    """What a fitted model says about rows. ValueError if they have other columns."""
    if drawable(record, X) is None:
        raise _no_coordinates(record)
    rows = as_rows(record, X)
    labels, centers = _labels_of(model, record, X, rows), centers_of(record, rows)
    if centers.shape[1] != rows.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} columns, the centres have {centers.shape[1]}: give the rows "
            "with the columns of the fit"
        )
    return LabelledRows(rows, labels, centers)


def drawable(record: FitRecord, X: Any) -> Any:
    """X if its rows have coordinates; None if X is a graph, distances, or a list of anything."""
    if record.has_coordinates or record.medoids is None:
        return X
    if record.centers is not None:
        return None
    n = len(record.labels)
    square = np.shape(X) == (n, n)
    return None if square and (sparse.issparse(X) or not np.diagonal(X).any()) else X


def directions(record: FitRecord, rows: Any) -> Any:
    """Only directions count for the cosine: rows of length 1. Others stay as they are."""
    if record.metric != "cosine":
        return rows
    if sparse.issparse(rows):
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        return sparse.diags_array(1 / np.where(length > 0, length, 1)).tocsr() @ rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)


def centers_of(record: FitRecord, rows: Any = None) -> Array:
    """The centres; medoids without coordinates are taken from `rows`."""
    if record.has_coordinates:
        return np.hstack(record.centers) if record.parties else _dense(record.centers)
    if rows is None:
        raise _no_coordinates(record)
    return _dense(rows[np.asarray(record.medoids)])


def _no_coordinates(record: FitRecord) -> ValueError:
    given = callable(record.metric)
    how = "" if given else ": give X, the coordinates of all points"
    metric = "a callable" if given else repr(record.metric)
    return ValueError(f"the medoids of metric={metric} have no coordinates{how}")


def _labels_of(model: Any, record: FitRecord, X: Any, rows: Any) -> Array:
    """Labels of all rows; those of the fit where `predict` cannot tell them."""
    points = record.centers is None
    all_of_fit = record.labels is not None and len(record.labels) == rows.shape[0]
    if points and not all_of_fit:
        raise ValueError(
            "X must have coordinates of all points of the fit, because "
            f"metric={record.metric!r} has none; X has {rows.shape[0]} rows"
        )
    if points or (record.limited and all_of_fit):
        return np.asarray(record.labels)
    if isinstance(model, BaseEstimator):
        return np.asarray(model.predict(X))
    return nearest_centers(rows, centers_of(record))  # of peers


def as_rows(record: FitRecord, X: Any) -> Any:
    """A float64 array or a CSR matrix of finite numbers; the columns of all parties as one."""
    if record.parties:
        X = _joined(X)
    if sparse.issparse(X):
        return sparse.csr_array(X, dtype=np.float64)
    try:
        rows = np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError("X must be a table of numbers to be drawn") from None
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"X must have rows and columns, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError("X has missing or infinite values, which cannot be drawn: leave them out")
    return rows


def _joined(X: Any) -> Array:
    """The columns of all parties as one table."""
    if not isinstance(X, list | tuple):
        raise ValueError("X must be a list of the columns of each party, as in fit")
    parts = [np.asarray(part) for part in X]
    if len({part.shape[:1] for part in parts}) != 1 or any(part.ndim != 2 for part in parts):
        shapes = ", ".join(str(part.shape) for part in parts)
        raise ValueError(f"the columns of the parties must have as many rows; shapes: {shapes}")
    return np.hstack(parts)


def names_of(model: Any, d: int, X: Any = None) -> tuple[str, ...]:
    """Names of the columns: of the fit, of a data frame (or of several), or x0, x1, ..."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        parts = X if isinstance(X, list | tuple) else [X]
        names = [name for part in parts for name in getattr(part, "columns", ())]
    if len(names) != d:
        names = [f"x{j}" for j in range(d)]
    return tuple(map(str, names))


def _dense(rows: Any) -> Array:
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
