"""Reads the runs that are kept in `benchmarks/results`."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent.parent / "benchmarks" / "results"
SECTIONS = {
    "plain": "seeding: plain k-means++",
    "greedy": "seeding: greedy k-means++",
    "lloyd": "20 Lloyd iterations",
    "converge": "Lloyd to convergence",
    "raw-converge": "raw tables, to convergence",
    "csr-lloyd": "sparse text, 20 iterations",
    "csr-converge": "sparse text, to convergence",
}
LIBRARIES = {"sklearn": "scikit-learn", "intelex": "scikit-learn-intelex", "faiss": "faiss-cpu"}


@dataclass(frozen=True)
class Ratios:
    """Their time over ours, over all workloads of a section."""

    section: str
    library: str
    mean: float
    least: float
    most: float
    workloads: int


@dataclass(frozen=True)
class PrivateCost:
    """Cost of private centres over the cost without privacy, of all runs of one setting."""

    name: str
    k: int
    epsilon: float
    delta: float
    ratios: tuple[float, ...]
    date: str


def speed_run() -> dict[str, Any]:
    """The newest complete run of `make bench`."""
    runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("20*.json"))]
    return next(run for run in reversed(runs) if run["complete"])


def embeddings_run() -> dict[str, Any] | None:
    """The newest complete run of `make bench-embeddings`."""
    runs = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("embeddings-*.json"))]
    return next((run for run in reversed(runs) if run["complete"]), None)


def speed_ratios(run: dict[str, Any]) -> list[Ratios]:
    found = []
    for section in SECTIONS:
        cells = [cell["timings"] for cell in run["cells"] if cell["section"] == section]
        for library in LIBRARIES:
            values = [median(c[library]) / median(c["kvariates"]) for c in cells if library in c]
            if values:
                mean = math.exp(statistics.fmean(map(math.log, values)))
                found.append(Ratios(section, library, mean, min(values), max(values), len(values)))
    return found


def median(timing: dict[str, Any]) -> float:
    return statistics.median(timing["seconds"])


def private_costs() -> list[PrivateCost]:
    """Of method "auto"; of a setting that was measured several times, the newest run counts."""
    newest: dict[tuple[Any, ...], PrivateCost] = {}
    for path in sorted(RESULTS.glob("private-*.json")):
        run = json.loads(path.read_text())
        for cell in run["cells"]:
            if cell["section"] == "auto" and cell["ratios"]:
                key = (cell["set"], cell["k"], cell["delta"], cell["epsilon"])
                newest[key] = PrivateCost(
                    *key[:2], cell["epsilon"], cell["delta"], tuple(cell["ratios"]), run["date"]
                )
    return list(newest.values())
