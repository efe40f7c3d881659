"""Writes the files of `kvariates fit`: centres, summary and report."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from kvariates.privacy.ledger import Ledger
from kvariates.report.costs import choice_summary
from kvariates.report.fit_page import fit_html
from kvariates.report.proof_sections import about_errors
from kvariates.report.run import FitRun, ShownRows
from kvariates.sources.parquet_writer import LABEL, name_beside

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
    return run.has_columns and run.record.medoids is not None


def _count_key(run: FitRun) -> str:
    """The name of the sizes of clusters in files."""
    return run.counted.replace(" ", "_") if run.private else "rows"


def _write(path: Path, content: str) -> None:
    """Write UTF-8. Half of a surrogate pair (of a file's name) becomes JSON's escape of it."""
    path.write_bytes(content.encode("utf-8", "backslashreplace"))


def _summary(run: FitRun) -> dict[str, Any]:
    """What is None, such as the cost of a private fit, is left out."""
    table, certificate = run.table, run.record.certificate
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
        "notes": [*run.record.notes, *run.notes],
        "parameters": dict(run.parameters),
        "inertia": run.inertia,
        "n_iter": run.n_iter,
        "seconds": None if run.seconds is None else round(run.seconds, 6),
        "certificate": None if certificate is None else str(certificate),
        "privacy": None if run.record.ledger is None else _privacy(run, run.record.ledger),
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


def _privacy(run: FitRun, ledger: Ledger) -> dict[str, Any]:
    return {
        "adjacency": ledger.adjacency,
        "claim": ledger.claim._asdict(),
        "total": ledger.total()._asdict(),
        "condition": run.record.condition,
        "center_errors": about_errors(run),
    }


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a small table as CSV."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def json_text(content: Any, *, ascii_only: bool = False) -> str:
    """A result as JSON. NaN and infinity become null; an object that JSON does not know, a text."""
    return json.dumps(_plain(content), indent=2, ensure_ascii=ascii_only, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, str | int | float) else str(value)
