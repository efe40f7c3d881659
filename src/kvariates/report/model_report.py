"""The report of a model that was fitted in Python: the page that `kvariates fit` writes."""

from __future__ import annotations

from dataclasses import dataclass
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
    public_points = hasattr(model, "medoid_indices_")
    if hasattr(model, "ledger_") and not public_points and X is not None:
        raise ValueError("the rows of a private model are not drawn in its report; leave X out")
    found = None if X is None else labelled_rows(model, X)
    if found is not None:
        centers = found.centers
    elif public_points and not hasattr(model, "cluster_centers_"):
        centers = np.asarray(model.medoid_indices_)[:, None] + 1  # numbers of points
    else:
        centers = centers_of(model)
    sizes, n = _sizes(model, found, len(centers))
    names = names_of(model, centers.shape[1], X)
    steps = getattr(model, "n_swaps_", getattr(model, "n_iter_", None))
    run = FitRun(
        FittedTable(None, names, (), n, streamed=hasattr(model, "synopses_") and X is None),
        _parameters(model), centers, sizes, None if sizes is None else sizes.astype(float),
        getattr(model, "inertia_", None), steps, model=model, command=_code(model),
    )  # fmt: skip
    return run, _synopses(model) if found is None else _shown(model, found)


def _sizes(model: Any, found: LabelledRows | None, k: int) -> tuple[Array | None, int | None]:
    """The sizes of the clusters and the number of rows; None if they are not known."""
    if hasattr(model, "cluster_counts_"):  # noisy
        return np.asarray(model.cluster_counts_), None
    labels = getattr(model, "labels_", None) if found is None else found.labels
    if not isinstance(labels, np.ndarray):  # labels of Dask are computed when asked for
        return None, getattr(model, "n_rows_seen_", None)
    return np.bincount(labels[labels >= 0], minlength=k), len(labels)


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
    """The line of Python that repeats the fit; empty if there is none."""
    if not hasattr(model, "get_params"):
        return ""
    private_demand = hasattr(model, "ledger_") and hasattr(model, "medoid_indices_")
    given = "X, demand=demand" if private_demand else "X"
    return f"{' '.join(repr(model).split())}.fit({given})"
