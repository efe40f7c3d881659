"""Writes the four files of `kvariates fit`: labels, centres, summary and picture."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..data.exact_sums import to_float
from .files import write_rows
from .picture import Array, draw


@dataclass(frozen=True, eq=False)
class FittedTable:
    """What was read, and how."""

    path: Path
    names: tuple[str, ...]  # of the columns that were clustered
    left_out: tuple[str, ...]
    rows: int
    weighted: bool
    standardized: bool
    streamed: bool


@dataclass(frozen=True, eq=False)
class FitRun:
    """The result of one run."""

    table: FittedTable
    parameters: Mapping[str, Any]  # of the estimator
    centers: Array  # in the units of the table
    sizes: Array  # rows in each cluster
    masses: Array  # weight of each cluster; the number of its rows if there are no weights
    inertia: float
    n_iter: int
    seconds: float  # of the fit


@dataclass(frozen=True, eq=False)
class ShownRows:
    """Labelled rows and centres for the picture, in the same units."""

    X: Array
    labels: Array
    centers: Array


def write_labels(labels: Iterable[Array], path: Path) -> None:
    """Write one label a line, from arrays of labels."""
    with path.open("w", encoding="utf-8") as file:
        file.write("label\n")
        for part in labels:
            file.write("".join(f"{label}\n" for label in part.tolist()))


def write_fit(run: FitRun, drawn: ShownRows, folder: Path) -> None:
    """Write centers.csv, summary.json and picture.png into a directory."""
    rows = zip(run.sizes.tolist(), run.centers.tolist(), strict=True)
    write_rows(
        folder / "centers.csv",
        ["label", "rows", *run.table.names],
        ([label, size, *center] for label, (size, center) in enumerate(rows)),
    )
    summary = json.dumps(_summary(run), indent=2, ensure_ascii=False)
    (folder / "summary.json").write_text(summary + "\n", encoding="utf-8")
    metric = run.parameters.get("metric", "euclidean")
    subtitle = f"{run.table.path.name} · {metric}"
    if run.table.streamed:
        subtitle += f" · synopses of {run.table.rows:,} rows"
    draw(
        drawn.X, drawn.labels, drawn.centers, folder / "picture.png", run.table.names,
        subtitle=subtitle,
    )  # fmt: skip


def _summary(run: FitRun) -> dict[str, Any]:
    table = run.table
    clusters = zip(run.sizes.tolist(), run.masses.tolist(), strict=True)
    return {
        "kvariates": version("kvariates"),
        "data": {
            "path": str(table.path),
            "rows": table.rows,
            "columns": table.names,
            "left_out": table.left_out,
            "weighted": table.weighted,
            "standardized": table.standardized,
            "streamed": table.streamed,
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


class ClusterTotals:
    """The sizes and weights of k clusters, and their cost, added up block by block."""

    def __init__(self, k: int) -> None:
        self.sizes, self.masses, self._exact_cost = np.zeros(k, np.int64), np.zeros(k), 0

    @property
    def k(self) -> int:
        return len(self.sizes)

    @property
    def cost(self) -> float:
        return to_float(self._exact_cost)

    def add(self, labels: Array, masses: Array, exact_cost: int = 0) -> None:
        """Add a block of rows. `masses`: see `cluster_masses`."""
        self.sizes += np.bincount(labels, minlength=self.k)
        self.masses += masses
        self._exact_cost += exact_cost


def cluster_masses(labels: Array, weights: Array | None, k: int) -> Array:
    """The weight of each cluster; the number of its rows if there are no weights."""
    return np.bincount(labels, weights, minlength=k).astype(np.float64)
