"""Writes the four files of `kvariates fit`: labels, centres, summary and picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..estimators.kmeans import KMeans
from ..sources import DataTable, Scale
from .files import write_rows
from .picture import Array, draw


@dataclass(frozen=True, eq=False)
class FitRun:
    """The input and the result of one run."""

    table: DataTable  # the columns of the file
    X: Array  # the rows that were clustered: those of the table, or standardized ones
    scale: Scale | None  # converts X back to the units of the table
    weights: Array | None
    parameters: Mapping[str, Any]  # of the estimator
    model: KMeans  # fitted to X
    seconds: float  # of the fit

    @property
    def sizes(self) -> Array:
        """Rows in each cluster."""
        return np.bincount(self.model.labels_, minlength=self.model.n_clusters)

    @property
    def masses(self) -> Array:
        """Weight of each cluster; the number of its rows if there are no weights."""
        if self.weights is None:
            return self.sizes.astype(np.float64)
        return np.bincount(self.model.labels_, self.weights, self.model.n_clusters)

    @property
    def table_centers(self) -> Array:
        """The centres in the units of the table."""
        centers: Array = self.model.cluster_centers_
        return centers if self.scale is None else self.scale.undo(centers)


def write_fit(run: FitRun, folder: Path) -> None:
    """Write labels.csv, centers.csv, summary.json and picture.png into a directory."""
    labels = "\n".join(["label", *map(str, run.model.labels_.tolist())])
    (folder / "labels.csv").write_text(labels + "\n", encoding="utf-8")
    rows = zip(run.sizes.tolist(), run.table_centers.tolist(), strict=True)
    write_rows(
        folder / "centers.csv",
        ["label", "rows", *run.table.names],
        ([label, size, *center] for label, (size, center) in enumerate(rows)),
    )
    summary = json.dumps(_summary(run), indent=2, ensure_ascii=False)
    (folder / "summary.json").write_text(summary + "\n", encoding="utf-8")
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
        "inertia": run.model.inertia_,
        "n_iter": run.model.n_iter_,
        "seconds": round(run.seconds, 6),
        "clusters": [
            {"label": label, "rows": size, "weight": mass}
            for label, (size, mass) in enumerate(clusters)
        ],
    }


def _draw(run: FitRun, path: Path) -> None:
    """Draw up to two features in the units of the table, anything else as it was clustered."""
    metric = run.parameters["metric"]
    X, centers = run.X, run.model.cluster_centers_
    if run.model._objective.unit:
        X = X / np.linalg.norm(X, axis=1, keepdims=True)
    elif X.shape[1] <= 2:
        X, centers = run.table.X, run.table_centers
    subtitle = f"{run.table.path.name} · {metric}"
    draw(X, run.model.labels_, centers, path, run.table.names, subtitle=subtitle)
