"""The report of a model that was fitted in Python: the page that `kvariates fit` writes."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from kvariates.data.rows import Rows
from kvariates.file_writing import write_aside
from kvariates.palette import Array
from kvariates.report.fit_page import fit_html
from kvariates.report.model_view import (
    LabelledRows,
    as_rows,
    centers_of,
    coordinates_of,
    drawable,
    has_coordinates,
    labelled_rows,
    names_of,
    short_name,
)
from kvariates.report.run import FitRun, FittedTable, ShownRows
from kvariates.sources.graph_files import edge_list

READABLE = 0o644
MOST_LETTERS = 80  # of a parameter in the line of Python
NAMES_OF_X = {"graph": "graph", "precomputed": "distances"}  # in the line of Python, by metric


def write_report(model: Any, path: str | PathLike[str], X: Any = None) -> None:
    """Write a report of a fitted model: one HTML file that works without a network.

    The page has the clusters, their centres and sizes, what is proved about the cost, and, if there
    are some, the ledger of a private fit, the synopses of a stream or the transcript of peers. The
    file appears when it is complete, and replaces an older one.

    Parameters
    ----------
    model : estimator, Pipeline or FederatedResult
        Fitted. Centres of a pipeline are written in the units before its steps, if each step has an
        ``inverse_transform``; otherwise in those after them, and the page says so.
    path : str or path
        The file, as "report.html".
    X : array-like or CSR matrix of shape (n_samples, n_features), default=None
        The rows, which are drawn and counted. For `VerticalKMeans`, the columns of each party; for
        ``metric="graph"`` and "precomputed", coordinates of the points: a graph is then drawn as
        a map with its edges. (The graph or the distances themselves are taken, too, and not
        drawn.) None: only centres are drawn, and synopses of a stream. A model of private rows
        takes none.

    Examples
    --------
    >>> from kvariates import KMeans
    >>> from kvariates.report import write_report
    >>> X = [[0, 0], [0, 1], [5, 5], [5, 6]]
    >>> write_report(KMeans(2, random_state=0).fit(X), "report.html", X)
    """
    run, shown = _run_of(_as_model(model), X)
    write_aside(Path(path), fit_html(run, shown).encode("utf-8", "backslashreplace"), READABLE)


@dataclass(frozen=True, eq=False)
class FederatedModel:
    """The result of a federated fit, with the attributes of an estimator."""

    cluster_centers_: Array
    inertia_: float | None
    n_iter_: int
    guarantee_: Any
    guarantee_lost_: str | None
    transcript_: Any
    ledgers: Any
    doubtful_: Array | None
    notes_: tuple[str, ...]

    def predict(self, X: Any) -> Array:
        """The nearest centre of every row."""
        centers = np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)
        return Rows.of(np.ascontiguousarray(X, dtype=np.float64)).nearest(centers)


def _as_model(model: Any) -> Any:
    if not hasattr(model, "transcript") or not hasattr(model, "ledgers"):
        return model
    return FederatedModel(
        model.centers, model.inertia, model.n_iter, model.guarantee, model.guarantee_lost,
        model.transcript, model.ledgers, model.doubtful, model.notes,
    )  # fmt: skip


def _run_of(given: Any, X: Any) -> tuple[FitRun, ShownRows | None]:
    """What the page is made from."""
    parts = ModelAfterSteps.of(given)
    model = parts.model
    if X is not None and _has_private_rows(model):
        raise ValueError("the rows of a private model are not drawn in its report; leave X out")
    rows = parts.transformed(X)
    drawn = None if rows is None else drawable(model, rows)
    found = None if drawn is None else labelled_rows(model, drawn)
    centers = _numbers_of_points(model) if found is None else found.centers
    if centers is None:
        centers = centers_of(model)
    first = parts.in_first_units(centers)
    labels = _labels(model, rows, found)
    sizes, demand = _sizes(model, labels, len(centers)), _demand(model, labels)
    run = FitRun(
        _table(parts, first, centers, X, labels), _parameters(model),
        centers if first is None else first, sizes,
        demand if demand is not None or sizes is None else sizes.astype(float),
        getattr(model, "inertia_", None),
        getattr(model, "n_swaps_", getattr(model, "n_iter_", None)),
        model=model, command=_code(parts), medoids=_objects(model),
        notes=_about_units(parts, first),
        errors=getattr(model, "center_errors_", None),  # private rows have no steps before
    )  # fmt: skip
    return run, _synopses(model) if found is None else _shown(parts, found, first, X)


def _table(
    parts: ModelAfterSteps, first: Array | None, centers: Array, X: Any, labels: Array | None
) -> FittedTable:
    model = parts.model
    n = getattr(model, "n_rows_seen_", None) if labels is None else len(labels)
    if first is None:
        names = parts.columns() or names_of(model, centers.shape[1])
    else:
        names = names_of(parts.before or model, first.shape[1], X)
    weighted = _demand(model, labels) is not None
    return FittedTable(
        None, names, (), n, weighted, streamed=hasattr(model, "synopses_") and X is None,
        weights="demand" * weighted, steps=parts.names,
        units="of the data" if first is not None else f"after {', '.join(parts.names)}",
    )  # fmt: skip


def _about_units(parts: ModelAfterSteps, first: Array | None) -> tuple[str, ...]:
    """Which units the centres of a pipeline are in, and why."""
    if not parts.names or not has_coordinates(parts.model):
        return ()
    steps = ", ".join(parts.names)
    if first is None:
        return (f"The units are those after {steps}: not every step can be undone.",)
    return (f"Centres are in the units before {steps}, by inverse_transform.",)


def _has_private_rows(model: Any) -> bool:
    """Whether there is a ledger about rows; the points of PrivateKMedian are public."""
    ledger = hasattr(model, "ledger_") or bool(getattr(model, "ledgers", None))
    return ledger and not hasattr(model, "medoid_indices_")


def _numbers_of_points(model: Any) -> Array | None:
    """The numbers of medoids without coordinates, from 1, as a column; None if they have some."""
    if has_coordinates(model) or not hasattr(model, "medoid_indices_"):
        return None
    numbers: Array = np.asarray(model.medoid_indices_)[:, None] + 1
    return numbers


def _objects(model: Any) -> tuple[str, ...]:
    """Medoids that only a callable metric understands, such as words; empty for others."""
    if has_coordinates(model) or not hasattr(model, "cluster_centers_"):
        return ()
    return tuple(map(short_name, model.cluster_centers_))


def _labels(model: Any, rows: Any, found: LabelledRows | None) -> Array | None:
    """The labels of X, or of the fit; None if they are not known."""
    if found is not None:
        return found.labels
    ask = rows is not None and _objects(model)
    labels = model.predict(rows) if ask else getattr(model, "labels_", None)
    return labels if isinstance(labels, np.ndarray) else None  # Dask would compute them


def _sizes(model: Any, labels: Array | None, k: int) -> Array | None:
    """The sizes of the clusters, or their noisy counts; None if they are not known."""
    if hasattr(model, "cluster_counts_"):
        return np.asarray(model.cluster_counts_)
    return None if labels is None else np.bincount(labels[labels >= 0], minlength=k)


def _demand(model: Any, labels: Array | None) -> Array | None:
    """The demand of each cluster, if points have some and are those of the fit."""
    demand: Array | None = getattr(model, "cluster_demand_", None)
    if demand is None or labels is None or not np.array_equal(labels, model.labels_):
        return None
    return demand


def _shown(parts: ModelAfterSteps, found: LabelledRows, first: Array | None, X: Any) -> ShownRows:
    """Two columns are drawn before the steps of a pipeline, more after them."""
    model = parts.model
    rows, centers = (coordinates_of(model, x) for x in (found.rows, found.centers))
    values = None if rows is found.rows else found.rows
    if not parts.steps:
        graph = getattr(model, "_graph", None)
        edges = None if graph is None else edge_list(graph)
        return ShownRows(rows, found.labels, centers, values=values, edges=edges)
    before = None if first is None else _numbers(model, X, first.shape[1])
    if before is not None and first is not None and first.shape[1] <= 2:
        return ShownRows(before, found.labels, first)
    return ShownRows(rows, found.labels, centers, values=before, names=parts.columns())


def _numbers(model: Any, X: Any, d: int) -> Any:
    """The rows before the steps; None if they are not d complete columns of numbers."""
    try:
        rows = as_rows(model, X)
    except ValueError:
        return None
    return rows if rows.shape[1] == d else None


def _synopses(model: Any) -> ShownRows | None:
    """The weighted points that stand for the rows of a stream."""
    if not hasattr(model, "synopses_"):
        return None
    points, centers = as_rows(model, model.synopses_), centers_of(model)
    return ShownRows(points, Rows.of(points).nearest(centers), centers, model.synopsis_weights_)


def _parameters(model: Any) -> dict[str, Any]:
    given: dict[str, Any] = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    return {name: value for name, value in given.items() if name not in ("client", "verbose")}


def _code(parts: ModelAfterSteps) -> str:
    """The line of Python that repeats the fit; empty if there is none."""
    model = parts.model
    if not hasattr(model, "get_params"):
        return ""
    made = ", ".join(map(_constructor, [*parts.steps, model]))
    made = f"make_pipeline({made})" if parts.steps else made
    metric = getattr(model, "metric", None)
    X = NAMES_OF_X.get(metric, "X") if isinstance(metric, str) else "X"
    private_demand = hasattr(model, "ledger_") and hasattr(model, "medoid_indices_")
    if private_demand or getattr(model, "cluster_demand_", None) is not None:
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
    before: Any = None  # a pipeline; None: no steps

    @classmethod
    def of(cls, model: Any) -> ModelAfterSteps:
        """The parts of a pipeline; of any other model, the model itself."""
        if not hasattr(model, "named_steps"):
            return cls(model)
        found = cls(model[-1], model[:-1])
        if hasattr(found.model, "ledger_") and not hasattr(found.model, "medoid_indices_"):
            raise ValueError(
                f"the ledger of {type(found.model).__name__} has no line for the steps before it: "
                "if they learned nothing from the rows, give the last step alone, model[-1]"
            )
        return found if found.steps else cls(found.model)

    @property
    def steps(self) -> list[Any]:
        """The transformers before the model."""
        steps = [] if self.before is None else [step for _, step in self.before.steps]
        return [step for step in steps if step not in (None, "passthrough")]

    @property
    def names(self) -> tuple[str, ...]:
        """The classes of the steps."""
        return tuple(type(step).__name__ for step in self.steps)

    def transformed(self, X: Any) -> Any:
        """The rows that the model saw."""
        return X if self.before is None or X is None else self.before.transform(X)

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
    if hasattr(step, "inverse_func"):
        return step.func is None or step.inverse_func is not None
    return hasattr(step, "inverse_transform")
