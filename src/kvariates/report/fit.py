"""Writes the four files of `kvariates fit`: labels, centres, summary and picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..sources import DataTable, Scale
from .files import write_json, write_labels, write_rows
from .picture import draw

__all__ = ["FitRun", "write_fit"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class FitRun:
    """The input and the result of one run.

    Attributes
    ----------
    table : DataTable
        The columns of the file.
    X : ndarray of shape (n_rows, n_features)
        The rows that were clustered: those of the table, or standardized ones.
    scale : Scale or None
        Converts X back to the units of the table.
    weights : ndarray of shape (n_rows,) or None
        The weight of each row.
    parameters : mapping
        The parameters of the estimator.
    labels, centers, inertia, n_iter
        The result of the estimator, in the units of X.
    seconds : float
        The duration of the fit.
    """

    table: DataTable
    X: Array
    scale: Scale | None
    weights: Array | None
    parameters: Mapping[str, Any]
    labels: Array
    centers: Array
    inertia: float
    n_iter: int
    seconds: float

    @property
    def sizes(self) -> Array:
        """Rows in each cluster."""
        return np.bincount(self.labels, minlength=len(self.centers))

    @property
    def masses(self) -> Array:
        """Weight of each cluster; the number of its rows if there are no weights."""
        masses = np.bincount(self.labels, weights=self.weights, minlength=len(self.centers))
        return masses.astype(np.float64)

    @property
    def table_centers(self) -> Array:
        """The centres in the units of the table."""
        return self.centers if self.scale is None else self.scale.undo(self.centers)


def write_fit(run: FitRun, folder: Path) -> None:
    """Write labels.csv, centers.csv, summary.json and picture.png into a directory."""
    write_labels(folder / "labels.csv", run.labels)
    rows = zip(run.sizes.tolist(), run.table_centers.tolist(), strict=True)
    write_rows(
        folder / "centers.csv",
        ["label", "rows", *run.table.names],
        ([label, size, *center] for label, (size, center) in enumerate(rows)),
    )
    write_json(folder / "summary.json", _summary(run))
    _draw(run, folder / "picture.png")


def _summary(run: FitRun) -> dict[str, Any]:
    clusters = zip(run.sizes.tolist(), run.masses.tolist(), strict=True)
    return {
        "kvariates": version("kvariates"),
        "data": {
            "path": str(run.table.path),
            "rows": len(run.X),
            "columns": run.table.names,
            "left_out": run.table.left_out,
            "weighted": run.weights is not None,
            "standardized": run.scale is not None,
        },
        "parameters": dict(run.parameters),
        "inertia": run.inertia,
        "n_iter": run.n_iter,
        "seconds": round(run.seconds, 6),
        "clusters": [
            {"label": label, "rows": size, "weight": mass}
            for label, (size, mass) in enumerate(clusters)
        ],
    }


def _draw(run: FitRun, path: Path) -> None:
    """Draw up to two features in the units of the table, anything else as it was clustered."""
    metric = run.parameters["metric"]
    X, centers = run.X, run.centers
    if metric == "cosine":
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    elif X.shape[1] <= 2:
        X, centers = run.table.X, run.table_centers
    subtitle = f"{run.table.path.name} · {metric}"
    draw(X, run.labels, centers, path, run.table.names, subtitle=subtitle)
