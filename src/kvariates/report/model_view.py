"""What `kvariates.plot.clusters` draws of a model: its rows and centres in two dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from kvariates.palette import Array
from kvariates.report.page import cut
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
    private = hasattr(model, "ledger_")
    if X is None:
        centers = coordinates_of(model, centers_of(model))
        sizes = getattr(model, "cluster_counts_", None)
        flat = plane(None, centers, _short_names(model, centers.shape[1]))
        return ModelView(flat, np.empty(0, np.intp), sizes, 0, private)
    found = labelled_rows(model, X)
    rows, labels, k = found.rows, found.labels, len(found.centers)
    shown = shown_rows(labels + 1, k + 1)
    names = _short_names(model, rows.shape[1], X)
    flat = plane(coordinates_of(model, rows[shown]), coordinates_of(model, found.centers), names)
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    return ModelView(flat, labels[shown], sizes, rows.shape[0], private)


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows, their labels, and centres with the same columns."""

    rows: Any
    labels: Array
    centers: Array


def labelled_rows(model: Any, X: Any) -> LabelledRows:
    """What a fitted model says about rows. ValueError if they have other columns."""
    if drawable(model, X) is None:
        raise _no_coordinates(model)
    rows = as_rows(model, X)
    labels, centers = labels_of(model, X, rows), centers_of(model, rows)
    if centers.shape[1] != rows.shape[1]:
        raise ValueError(
            f"X has {rows.shape[1]} columns, the centres have {centers.shape[1]}: give the rows "
            "with the columns of the fit"
        )
    return LabelledRows(rows, labels, centers)


def has_coordinates(model: Any) -> bool:
    """Whether the centres are rows of numbers; medoids that are nodes, or words, are not."""
    centers = getattr(model, "cluster_centers_", None)
    if centers is None or not hasattr(model, "medoid_indices_"):
        return centers is not None
    try:
        return np.asarray(centers, dtype=np.float64).ndim == 2
    except (TypeError, ValueError):
        return False


def drawable(model: Any, X: Any) -> Any:
    """X if its rows have coordinates; None if X is a graph, distances, or a list of anything."""
    if has_coordinates(model) or not hasattr(model, "medoid_indices_"):
        return X
    if hasattr(model, "cluster_centers_"):
        return None
    n = len(model._labels_of_points)
    square = getattr(X, "shape", None) == (n, n)
    return None if square and (sparse.issparse(X) or not np.diagonal(X).any()) else X


def coordinates_of(model: Any, rows: Any) -> Any:
    """Only directions count for the cosine: rows of length 1."""
    if getattr(model, "metric", None) != "cosine":
        return rows
    if sparse.issparse(rows):
        length = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
        return sparse.diags_array(1 / np.where(length > 0, length, 1)).tocsr() @ rows
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(length > 0, length, 1)


def centers_of(model: Any, rows: Any = None) -> Array:
    """The centres; medoids without coordinates are taken from `rows`."""
    if has_coordinates(model):
        centers = model.cluster_centers_
        return np.hstack(centers) if _is_vertical(model) else _dense(centers)
    if not hasattr(model, "medoid_indices_"):
        raise _no_centers(model)
    if rows is None:
        raise _no_coordinates(model)
    return _dense(rows[np.asarray(model.medoid_indices_)])


def _no_coordinates(model: Any) -> ValueError:
    metric = "a callable" if callable(model.metric) else repr(model.metric)
    how = "" if callable(model.metric) else ": give X, the coordinates of all points"
    return ValueError(f"the medoids of metric={metric} have no coordinates{how}")


def _is_vertical(model: Any) -> bool:
    """Whether the centres are a list of the columns of each party."""
    centers = getattr(model, "cluster_centers_", None)
    return isinstance(centers, list) and not hasattr(model, "medoid_indices_")


def _no_centers(model: Any) -> TypeError:
    if hasattr(model, "balance_"):
        return TypeError(
            f"{type(model).__name__} has groups and no centres; plot.balance(model.balance_) draws "
            "them"
        )
    return TypeError(f"{type(model).__name__} has no centres to draw; is it fitted?")


def labels_of(model: Any, X: Any, rows: Any) -> Array:
    """Labels of all rows; those of the fit where `predict` cannot tell them."""
    of_fit = getattr(model, "labels_", getattr(model, "_labels_of_points", None))
    n, points = rows.shape[0], not hasattr(model, "cluster_centers_")
    if points and not hasattr(model, "medoid_indices_"):
        raise _no_centers(model)
    if points and (of_fit is None or len(of_fit) != n):
        raise ValueError(
            f"X must have coordinates of all points of the fit, because metric={model.metric!r} "
            f"has none; X has {n} rows"
        )
    limits = [getattr(model, name, None) for name in ("size_min", "size_max")]
    limited = limits != [None, None] and of_fit is not None and len(of_fit) == n
    return np.asarray(of_fit if points or limited else model.predict(X))


def as_rows(model: Any, X: Any) -> Any:
    """A float64 array or a CSR matrix of finite numbers; the columns of all parties as one."""
    if _is_vertical(model):
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


def _short_names(model: Any, d: int, X: Any = None) -> tuple[str, ...]:
    return tuple(map(short_name, names_of(model, d, X)))


def short_name(name: Any) -> str:
    """A name of at most 60 characters on one line."""
    words = " ".join("".join(c if c.isprintable() else " " for c in str(name)).split())
    return cut(words)


def _dense(rows: Any) -> Array:
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)
