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

from .colors import Array
from .fit_page import fit_html
from .fit_run import FitRun, FittedTable, ShownRows
from .model_view import LabelledRows, as_rows, centers_of, coordinates_of, labelled_rows, names_of

READABLE = 0o644
MOST_LETTERS = 80  # of a parameter in the line of Python


def write_report(model: Any, path: str | PathLike[str], X: Any = None) -> None:
    """Write a report of a fitted model: one HTML file that works without a network.

    The page has the clusters, their centres and sizes, what is proved about the cost, and, if there
    are some, the ledger of a private fit, the synopses of a stream or the transcript of peers. The
    file appears when it is complete, and replaces an older one.

    Parameters
    ----------
    model : estimator or FederatedResult
        Fitted.
    path : str or path
        The file, as "report.html".
    X : array-like or CSR matrix of shape (n_samples, n_features), default=None
        The rows, which are drawn and counted. For `VerticalKMeans`, the columns of each party; for
        ``metric="graph"`` and "precomputed", coordinates of the points. None: only centres are
        drawn, and synopses of a stream. A model of private rows takes none.

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

    def predict(self, X: Any) -> Array:
        """The nearest centre of every row."""
        centers = np.ascontiguousarray(self.cluster_centers_, dtype=np.float64)
        return Rows.of(np.ascontiguousarray(X, dtype=np.float64)).nearest(centers)


def _as_model(model: Any) -> Any:
    if not hasattr(model, "transcript") or not hasattr(model, "ledgers"):
        return model
    return FederatedModel(
        model.centers, model.inertia, model.n_iter, model.guarantee, model.guarantee_lost,
        model.transcript, model.ledgers,
    )  # fmt: skip


def _run_of(model: Any, X: Any) -> tuple[FitRun, ShownRows | None]:
    """What the page is made from."""
    if X is not None and _has_private_rows(model):
        raise ValueError("the rows of a private model are not drawn in its report; leave X out")
    found = None if X is None else labelled_rows(model, X)
    centers = _numbers_of_points(model) if found is None else found.centers
    if centers is None:
        centers = centers_of(model)
    labels = _labels(model, found)
    n = getattr(model, "n_rows_seen_", None) if labels is None else len(labels)
    names = names_of(model, centers.shape[1], X)
    sizes = _sizes(model, labels, len(centers))
    steps = getattr(model, "n_swaps_", getattr(model, "n_iter_", None))
    run = FitRun(
        FittedTable(None, names, (), n, streamed=hasattr(model, "synopses_") and X is None),
        _parameters(model), centers, sizes, None if sizes is None else sizes.astype(float),
        getattr(model, "inertia_", None), steps, model=model, command=_code(model),
    )  # fmt: skip
    return run, _synopses(model) if found is None else _shown(model, found)


def _has_private_rows(model: Any) -> bool:
    """Whether there is a ledger about rows; the points of PrivateKMedian are public."""
    ledger = hasattr(model, "ledger_") or bool(getattr(model, "ledgers", None))
    return ledger and not hasattr(model, "medoid_indices_")


def _numbers_of_points(model: Any) -> Array | None:
    """The numbers of medoids without coordinates, from 1, as a column; None if they have some."""
    if hasattr(model, "cluster_centers_") or not hasattr(model, "medoid_indices_"):
        return None
    numbers: Array = np.asarray(model.medoid_indices_)[:, None] + 1
    return numbers


def _labels(model: Any, found: LabelledRows | None) -> Array | None:
    """The labels of X, or of the fit; None if they are not known."""
    labels = getattr(model, "labels_", None) if found is None else found.labels
    return labels if isinstance(labels, np.ndarray) else None  # Dask would compute them


def _sizes(model: Any, labels: Array | None, k: int) -> Array | None:
    """The sizes of the clusters, or their noisy counts; None if they are not known."""
    if hasattr(model, "cluster_counts_"):
        return np.asarray(model.cluster_counts_)
    return None if labels is None else np.bincount(labels[labels >= 0], minlength=k)


def _shown(model: Any, found: LabelledRows) -> ShownRows:
    rows = coordinates_of(model, found.rows)
    values = None if rows is found.rows else found.rows
    return ShownRows(rows, found.labels, coordinates_of(model, found.centers), values=values)


def _synopses(model: Any) -> ShownRows | None:
    """The weighted points that stand for the rows of a stream."""
    if not hasattr(model, "synopses_"):
        return None
    points, centers = as_rows(model, model.synopses_), centers_of(model)
    return ShownRows(points, Rows.of(points).nearest(centers), centers, model.synopsis_weights_)


def _parameters(model: Any) -> dict[str, Any]:
    given: dict[str, Any] = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    return {name: value for name, value in given.items() if name not in ("client", "verbose")}


def _code(model: Any) -> str:
    """The line of Python that repeats the fit; empty if there is none.

    Parameters that are no short texts or numbers, such as arrays, are written by their names.
    """
    if not hasattr(model, "get_params"):
        return ""
    usual = {name: p.default for name, p in signature(type(model)).parameters.items()}
    values = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in model.get_params(deep=False).items()
    }
    words = [
        f"{name}={value!r}" if _is_plain(value) else f"{name}={name}"
        for name, value in values.items()
        if not (_is_plain(value) and value == usual[name])
    ]
    private_demand = hasattr(model, "ledger_") and hasattr(model, "medoid_indices_")
    given = "X, demand=demand" if private_demand else "X"
    return f"{type(model).__name__}({', '.join(words)}).fit({given})"


def _is_plain(value: Any) -> bool:
    """Whether Python reads the value as it is written, and it is short."""
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value)) and len(repr(value)) <= MOST_LETTERS
    return value is None or type(value) in (str, int, float, bool)
