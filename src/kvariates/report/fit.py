"""Writes the files of `kvariates fit`: centres, summary and report."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..data.exact_sums import to_float
from ..sources.parquet_writer import LABEL, name_beside
from .choice_page import choice_summary
from .colors import Array
from .files import json_text, write_rows
from .fit_page import fit_html
from .fit_run import FitRun, FittedTable, ShownRows
from .private_page import about_errors

__all__ = [
    "ClusterTotals",
    "FitRun",
    "FittedTable",
    "ShownRows",
    "cluster_masses",
    "write_fit",
]


MEDOID = "medoid"  # a column of centers.csv: the name of the row, or its number from 1


def write_fit(run: FitRun, shown: ShownRows | None, folder: Path) -> None:
    """Write centers.csv, summary.json and report.html into a directory.

    If the model is private, the files hold nothing but what its ledger charged for; see
    `FitRun.released`.
    """
    run = run.released()
    centers = [[name] for name in run.medoids] or run.centers.tolist()
    if _has_medoid_column(run):
        names = run.medoid_ids or run.medoid_rows
        centers = [[name, *center] for name, center in zip(names, centers, strict=True)]
    rows = zip(run.cluster_sizes(), centers, strict=True)
    write_rows(
        folder / "centers.csv",
        _header(run),
        ([label, size, *center] for label, ((size, _), center) in enumerate(rows)),
    )
    _write(folder / "summary.json", json_text(_summary(run)) + "\n")
    _write(folder / "report.html", fit_html(run, shown))


def _header(run: FitRun) -> list[str]:
    """The names of the columns of centers.csv: no two are alike because of ours."""
    own, names = [LABEL, _count_key(run)], list(run.table.names)
    own += [MEDOID] if _has_medoid_column(run) else []
    for name in own:
        names = [name_beside(other, names, name) for other in names]
    return own + names


def _has_medoid_column(run: FitRun) -> bool:
    """Whether centres are rows of the table; without coordinates, they are named anyway."""
    return run.has_columns and hasattr(run.model, "medoid_indices_")


def _count_key(run: FitRun) -> str:
    """The name of the sizes of clusters in files."""
    return run.counted.replace(" ", "_") if run.private else "rows"


def _write(path: Path, content: str) -> None:
    """Write UTF-8. Half of a surrogate pair (of a file's name) becomes JSON's escape of it."""
    path.write_bytes(content.encode("utf-8", "backslashreplace"))


def _summary(run: FitRun) -> dict[str, Any]:
    """What is None, such as the cost of a private fit, is left out."""
    table, certificate = run.table, getattr(run.model, "certificate_", None)
    data = {
        "path": str(table.path),
        "rows": table.rows,
        "columns": table.names,
        "left_out": table.left_out,
        "weighted": table.weighted,
        "scaled": table.scaled,
        "streamed": table.streamed,
    }
    return _known({
        "kvariates": version("kvariates"),
        "command": run.command,
        "data": _known(data),
        "notes": [*run.warnings, *run.notes],
        "parameters": dict(run.parameters),
        "inertia": run.inertia,
        "n_iter": run.n_iter,
        "seconds": None if run.seconds is None else round(run.seconds, 6),
        "certificate": None if certificate is None else str(certificate),
        "privacy": _privacy(run) if run.private else None,
        "choice": None if run.choice is None else choice_summary(run.choice),
        "clusters": _clusters(run),
    })  # fmt: skip


def _known(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if value is not None}


def _clusters(run: FitRun) -> list[dict[str, Any]]:
    return [
        {"label": label, _count_key(run): size}
        | (_noise(run, label) if run.private else {"weight": mass})
        for label, (size, mass) in enumerate(run.cluster_sizes())
    ]


def _noise(run: FitRun, label: int) -> dict[str, Any]:
    """What is known of the noise of a private centre."""
    errors = None if run.errors is None else run.errors[label]
    return {"may_be_only_noise": bool(run.doubtful[label]), "center_errors": errors}


def _privacy(run: FitRun) -> dict[str, Any]:
    ledger = run.model.ledger_
    return {
        "adjacency": ledger.adjacency,
        "claim": ledger.claim._asdict(),
        "total": ledger.total()._asdict(),
        "condition": getattr(ledger.facts, "condition", None),
        "center_errors": about_errors(run),
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
