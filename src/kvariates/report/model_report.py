"""The report of a model that was fitted in Python: the page that `kvariates fit` writes.

And its rows and centres in two dimensions, for `kvariates.plot.clusters`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from kvariates.data.rows import nearest_centers
from kvariates.estimators.fit_record import FitRecord, fit_record_of
from kvariates.palette import Array, one_line
from kvariates.report.plane import Plane, plane, shown_rows
from kvariates.report.run import FitRun, FittedTable, ShownRows
from kvariates.sources.graph_files import edge_list

MOST_LETTERS = 80  # of a parameter in the line of Python
NAMES_OF_X = {"graph": "graph", "precomputed": "distances"}  # in the line of Python, by metric


def run_of(given: Any, X: Any) -> tuple[FitRun, ShownRows | None]:
    """What the page is made from."""
    parts = ModelAfterSteps.of(given)
    model, record = parts.model, parts.record
    if X is not None and (record.private or record.ledgers) and not record.public_points:
        raise ValueError("the rows of a private model are not drawn in its report; leave X out")
    rows = X if X is None or parts.before is None else parts.before.transform(X)
    drawn = None if rows is None else drawable(record, rows)
    objects: tuple[str, ...] = ()  # medoids that only a callable metric understands, such as words
    if not record.has_coordinates and record.centers is not None:
        objects = tuple(map(one_line, record.centers))
    found, labels = None, record.labels
    if drawn is not None:
        found = labelled_rows(model, record, drawn)
        labels, centers = found.labels, found.centers
    elif record.has_coordinates or record.medoids is None:
        centers = centers_of(record)
    else:  # the numbers of points without coordinates
        labels = model.predict(rows) if rows is not None and objects else labels
        centers = np.asarray(record.medoids)[:, None] + 1
    first, sizes, demand = parts.in_first_units(centers), record.counts, None
    if labels is not None:
        sizes = np.bincount(labels[labels >= 0], minlength=len(centers)) if sizes is None else sizes
        # The demand is that of the points of the fit.
        demand = record.demand if np.array_equal(labels, record.labels) else None
    table = replace(
        _columns(parts, first, centers, X),
        rows=record.rows_seen if labels is None else len(labels),
        weighted=demand is not None, weights="demand" if demand is not None else "",
        streamed=record.synopses is not None and X is None,
    )  # fmt: skip
    given = model.get_params(deep=False) if isinstance(model, BaseEstimator) else {}
    run = FitRun(
        table, {name: given[name] for name in given if name not in ("client", "verbose")},
        centers if first is None else first, sizes,
        demand if demand is not None or sizes is None else np.asarray(sizes, float),
        record.inertia, record.n_iter, record=record, command=_code(parts), medoids=objects,
        notes=_about_units(parts, first),
        errors=record.errors,  # private rows have no steps before
    )  # fmt: skip
    return run, _shown(parts, found, first, X)


def _columns(parts: ModelAfterSteps, first: Array | None, centers: Array, X: Any) -> FittedTable:
    """The names and the units of the columns."""
    if first is not None:
        return FittedTable(
            None, names_of(parts.before or parts.model, first.shape[1], X), (), steps=parts.names
        )
    names = parts.columns() or names_of(parts.model, centers.shape[1])
    return FittedTable(None, names, (), steps=parts.names, units=f"after {', '.join(parts.names)}")


def _about_units(parts: ModelAfterSteps, first: Array | None) -> tuple[str, ...]:
    """Which units the centres of a pipeline are in, and why."""
    steps = ", ".join(parts.names)
    if not steps or not parts.record.has_coordinates:
        return ()
    if first is None:
        return (f"The units are those after {steps}: not every step can be undone.",)
    return (f"Centres are in the units before {steps}, by inverse_transform.",)


def _shown(
    parts: ModelAfterSteps, found: ShownRows | None, first: Array | None, X: Any
) -> ShownRows | None:
    """Two columns are drawn before the steps of a pipeline, more after them.

    Without rows, the weighted points are drawn that stand for the rows of a stream.
    """
    record = parts.record
    if found is None:
        if record.synopses is None:
            return None
        points, centers = as_rows(record, record.synopses), centers_of(record)
        labels = nearest_centers(points, centers)
        return ShownRows(points, labels, centers, record.synopsis_weights)
    rows, centers = (directions(record, x) for x in (found.X, found.centers))
    if not parts.steps:
        values = None if rows is found.X else found.X
        edges = None if record.graph is None else edge_list(record.graph)
        return ShownRows(rows, found.labels, centers, values=values, edges=edges)
    before = None
    if first is not None:
        with suppress(ValueError):  # the rows before the steps may not be numbers
            before = as_rows(record, X)
        before = None if before is None or before.shape[1] != first.shape[1] else before
        if before is not None and first.shape[1] <= 2:
            return ShownRows(before, found.labels, first)
    return ShownRows(rows, found.labels, centers, values=before, names=parts.columns())


def _code(parts: ModelAfterSteps) -> str:
    """The line of Python that repeats the fit; empty if there is none."""
    model, record = parts.model, parts.record
    if not isinstance(model, BaseEstimator):
        return ""
    made = ", ".join(map(_constructor, [*parts.steps, model]))
    made = f"make_pipeline({made})" if parts.steps else made
    X = "X" if callable(record.metric) else NAMES_OF_X.get(record.metric, "X")
    if record.public_points or record.demand is not None:
        step = f"{type(model).__name__.lower()}__" if parts.steps else ""
        X += f", {step}demand=demand"
    return f"{made}.fit({X})"


def _constructor(model: Any) -> str:
    """The call that makes a model or a step.

    Parameters that are no short texts or numbers, such as arrays, are written by their names.
    """
    usual = {name: p.default for name, p in signature(type(model)).parameters.items()}
    values = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in model.get_params(deep=False).items()
    }
    words = [
        f"{name}={value!r}" if _is_plain(value) else f"{name}={name}"
        for name, value in values.items()
        if not (_is_plain(value) and value == usual.get(name, ...))
    ]
    return f"{type(model).__name__}({', '.join(words)})"


def _is_plain(value: Any) -> bool:
    """Whether Python reads the value as it is written, and it is short."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value)) and len(repr(value)) <= MOST_LETTERS
    return value is None or type(value) in (str, int, float, bool)


@dataclass(frozen=True, eq=False)
class ModelAfterSteps:
    """A fitted model, and the steps of a pipeline that change rows before it."""

    model: Any
    record: FitRecord
    before: Any = None  # a pipeline; None: no steps

    @classmethod
    def of(cls, model: Any) -> ModelAfterSteps:
        """The parts of a pipeline; of any other model, the model itself."""
        if not isinstance(model, Pipeline):
            return cls(model, fit_record_of(model))
        found = cls(model[-1], fit_record_of(model[-1]), model[:-1])
        if found.record.private and not found.record.public_points:
            raise ValueError(
                f"the ledger of {type(found.model).__name__} has no line for the steps before it: "
                "if they learned nothing from the rows, give the last step alone, model[-1]"
            )
        return found if found.steps else cls(found.model, found.record)

    @property
    def steps(self) -> list[Any]:
        """The transformers before the model."""
        steps = [] if self.before is None else [step for _, step in self.before.steps]
        return [step for step in steps if step not in (None, "passthrough")]

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the steps."""
        return tuple(type(step).__name__ for step in self.steps)

    def columns(self) -> tuple[str, ...]:
        """The names of the columns after the steps; empty if they do not tell."""
        try:
            return tuple(map(str, self.before.get_feature_names_out()))
        except (AttributeError, ValueError):
            return ()

    def in_first_units(self, centers: Array) -> Array | None:
        """Centres in the units before the steps; None if a step cannot be undone."""
        if self.before is None:
            return centers
        if not all(map(_can_be_undone, self.steps)):
            return None
        try:
            found = np.asarray(self.before.inverse_transform(centers), dtype=np.float64)
        except (TypeError, ValueError):  # such as names of categories
            return None
        return found if found.ndim == 2 and np.isfinite(found).all() else None


def _can_be_undone(step: Any) -> bool:
    """Without a function for it, the inverse of a FunctionTransformer changes nothing."""
    if isinstance(step, FunctionTransformer):
        return step.func is None or step.inverse_func is not None
    return callable(getattr(step, "inverse_transform", None))  # as scikit-learn asks


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
    rows, labels, k = found.X, found.labels, len(found.centers)
    shown = shown_rows(labels + 1, k + 1)
    names = tuple(map(one_line, names_of(model, rows.shape[1], X)))
    flat = plane(directions(record, rows[shown]), directions(record, found.centers), names)
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    return ModelView(flat, labels[shown], sizes, rows.shape[0], record.private)


def labelled_rows(model: Any, record: FitRecord, X: Any) -> ShownRows:
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
    return ShownRows(rows, labels, centers)


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
