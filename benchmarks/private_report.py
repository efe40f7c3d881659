"""The results of `benchmarks.private` as Markdown tables and as JSON.

If something could not be measured, the table shows the reason.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.private_data import Problem

EPSILONS = (0.5, 1.0, 2.0)
PEERS_DELTA = 1e-6
ROUNDING = 0.005  # the peers' figures have two decimals
MOST_GB = 2.0
MOST_NOISE = 1 / 3  # of a fit's seconds


@dataclass(frozen=True)
class Cell:
    """One figure: the runs' costs over the cost without privacy, and why any are missing."""

    section: str
    set: str
    k: int
    method: str
    epsilon: float
    delta: float
    ratios: list[float]
    seconds: list[float]
    in_noise: list[float]  # of the seconds
    reason: str = ""

    @property
    def mean(self) -> float:
        """NaN if there are no runs."""
        return float(np.mean(self.ratios)) if self.ratios else float("nan")

    @property
    def noise(self) -> float:
        """The share of time spent in noise."""
        return sum(self.in_noise) / max(sum(self.seconds), 1e-300)


@dataclass(frozen=True)
class Large:
    """One large fit."""

    what: str
    delta: float
    seconds: float
    in_noise: float
    peak_gb: float
    allowed: float  # seconds

    @property
    def noise(self) -> float:
        return self.in_noise / self.seconds

    @property
    def met(self) -> bool:
        fast = self.seconds < self.allowed and self.noise <= MOST_NOISE
        return fast and self.peak_gb <= MOST_GB


@dataclass
class Run:
    """What was asked for, and what was found so far."""

    date: str
    runs: int
    versions: dict[str, str]
    machine: dict[str, Any]
    cells: list[Cell] = field(default_factory=list)
    large: list[Large] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / f"private-{self.date}.json"
        file.write_text(json.dumps(asdict(self), indent=1) + "\n")
        return file


def shown(cell: Cell, peer: float = np.inf) -> str:
    """The mean, marked where the best peer's is lower; or why there is none."""
    if not cell.ratios:
        return cell.reason
    mark = "!" if cell.mean > peer + ROUNDING else ""
    return f"{cell.mean:.3f}{mark}" if cell.mean < 10 else f"{cell.mean:.1f}{mark}"


def utility_table(cells: Sequence[Cell], problems: Sequence[Problem]) -> str:
    """A row for each set, k and method; each delta's figures by epsilon, then the best peer's."""
    deltas = sorted({cell.delta for cell in cells}, reverse=True)
    with_peers = any(problem.peer for problem in problems)
    head = ["set", "k", "method"]
    head += [f"δ = {delta:g}, ε = {e:g}" for delta in deltas for e in EPSILONS]
    rows = []
    for problem in problems:
        own = [cell for cell in cells if (cell.set, cell.k) == (problem.name, problem.k)]
        for name in dict.fromkeys(cell.method for cell in own):
            found = {(c.delta, c.epsilon): c for c in own if c.method == name}
            row = [problem.name, str(problem.k), name]
            row += [
                shown(found[delta, e], _peer(problem, e, delta)) if (delta, e) in found else "-"
                for delta in deltas
                for e in EPSILONS
            ]
            judged = _target(problem, found.get((PEERS_DELTA, 1.0)))
            rows.append(row + (["/".join(map("{:.2f}".format, problem.peer)), judged] * with_peers))
    extra = [f"best peer, δ = {PEERS_DELTA:g}", "target of auto at ε = 1"]
    return markdown(head + extra * with_peers, rows)


def _peer(problem: Problem, epsilon: float, delta: float) -> float:
    """The best peer's figure; infinity where it has none."""
    if not problem.peer or delta != PEERS_DELTA:
        return np.inf
    return problem.peer[EPSILONS.index(epsilon)]


def _target(problem: Problem, cell: Cell | None) -> str:
    if problem.target is None or cell is None or cell.method != "auto" or not cell.ratios:
        return ""
    return f"≤ {problem.target:.2f}: {'met' if cell.mean <= problem.target else 'NOT MET'}"


def verdicts(cells: Sequence[Cell], problems: Sequence[Problem]) -> list[str]:
    """How many targets "auto" meets, where it is worse than the best peer, and the most noise."""
    known = {(problem.name, problem.k): problem for problem in problems if problem.peer}
    auto = [
        (cell, known[cell.set, cell.k])
        for cell in cells
        if cell.method == "auto" and cell.delta == PEERS_DELTA and (cell.set, cell.k) in known
    ]
    lines = []
    if auto:
        goals = [cell.mean <= p.target for cell, p in auto if p.target and cell.epsilon == 1.0]
        worse = [
            f"{cell.set} k = {cell.k} ε = {cell.epsilon:g}"
            for cell, p in auto
            if not cell.mean <= _peer(p, cell.epsilon, cell.delta) + ROUNDING
        ]
        where = f" ({', '.join(worse)})" if worse else ""
        lines.append(f"auto: {sum(goals)} of {len(goals)} targets met; worse than the best peer in "
                     f"{len(worse)} of {len(auto)} figures{where}. ! marks such.")  # fmt: skip
    timed = [cell for cell in cells if cell.seconds]
    if timed:
        most = max(timed, key=lambda cell: cell.noise)
        slowest = max(timed, key=lambda cell: max(cell.seconds))
        lines.append(
            f"Noise: at most {most.noise:.0%} of a fit's time ({most.method} on {most.set}). "
            f"The longest fit: {max(slowest.seconds):.1f} s ({slowest.method} on {slowest.set})."
        )
    fewer = [c for c in cells if c.reason and c.ratios]
    lines += [f"{c.set} k = {c.k}, {c.method}: {len(c.ratios)} runs, {c.reason}" for c in fewer]
    return lines


def scale_table(large: Sequence[Large]) -> str:
    head = ["data", "δ", "seconds", "allowed", "peak GB, data included", "share of noise", ""]
    return markdown(
        head,
        [
            [
                one.what,
                f"{one.delta:g}",
                f"{one.seconds:.1f}",
                f"{one.allowed:g}",
                f"{one.peak_gb:.2f}",
                f"{one.noise:.0%}",
                "met" if one.met else "NOT MET",
            ]
            for one in large
        ],
    )


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    padded = ["| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in lines]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([padded[0], rule, *padded[1:]])
