"""Writes the files of `kvariates fit`: labels, centres, summary and report."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..data.exact_sums import to_float
from .colors import Array
from .files import write_rows
from .fit_page import fit_html
from .fit_run import FitRun, FittedTable, ShownRows

__all__ = [
    "ClusterTotals",
    "FitRun",
    "FittedTable",
    "ShownRows",
    "cluster_masses",
    "write_fit",
]


def write_fit(run: FitRun, shown: ShownRows | None, folder: Path) -> None:
    """Write centers.csv, summary.json and report.html into a directory.

    If the model is private, the files hold nothing but what its ledger charged for: not `shown`
    (unless the points are public), nor the sizes, the cost, the time and the number of rows of
    `run`.
    """
    centers = [[name] for name in run.medoids] or run.centers.tolist()
    rows = zip(run.counts.tolist(), centers, strict=True)
    write_rows(
        folder / "centers.csv",
        ["label", _count_key(run), *run.table.names],
        ([label, size, *center] for label, (size, center) in enumerate(rows)),
    )
    summary = json.dumps(_summary(run), indent=2, ensure_ascii=False, default=_plain)
    _write(folder / "summary.json", summary + "\n")
    _write(folder / "report.html", fit_html(run, shown))


def _count_key(run: FitRun) -> str:
    """The name of the sizes of clusters in files."""
    return run.counted.replace(" ", "_") if run.private else "rows"


def _write(path: Path, content: str) -> None:
    """Write UTF-8. Half of a surrogate pair (of a file's name) becomes JSON's escape of it."""
    path.write_bytes(content.encode("utf-8", "backslashreplace"))


def _plain(value: Any) -> Any:
    """A parameter that JSON does not know: an array, a NumPy number, an object."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def _summary(run: FitRun) -> dict[str, Any]:
    table = run.table
    data = {
        "path": str(table.path),
        "rows": table.rows,
        "columns": table.names,
        "left_out": table.left_out,
        "weighted": table.weighted,
        "standardized": table.standardized,
        "streamed": table.streamed,
    }
    found = {
        "kvariates": version("kvariates"),
        "command": run.command,
        "data": data,
        "parameters": dict(run.parameters),
    }
    return found | (_private_results(run, data) if run.private else _results(run))


def _results(run: FitRun) -> dict[str, Any]:
    clusters = zip(run.sizes.tolist(), run.masses.tolist(), strict=True)
    certificate = getattr(run.model, "certificate_", None)
    return {
        "inertia": run.inertia,
        "n_iter": run.n_iter,
        "seconds": round(run.seconds, 6),
        **({} if certificate is None else {"certificate": str(certificate)}),
        "clusters": [
            {"label": label, "rows": size, "weight": mass}
            for label, (size, mass) in enumerate(clusters)
        ],
    }


def _private_results(run: FitRun, data: dict[str, Any]) -> dict[str, Any]:
    """What was charged; the exact number of rows is taken out of `data`."""
    del data["rows"]
    ledger = run.model.ledger_
    return {
        "privacy": {
            "adjacency": ledger.adjacency,
            "claim": ledger.claim._asdict(),
            "total": ledger.total()._asdict(),
            "condition": getattr(ledger.facts, "condition", None),
        },
        "clusters": [
            {"label": label, _count_key(run): count}
            for label, count in enumerate(run.counts.tolist())
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
