"""The speed targets of the project, and whether a run meets them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.contestants import OURS, PEERS
from benchmarks.memory import Memory
from benchmarks.sections import SCALED, Cell

EQUAL = {
    "float32": 1e-3,
    "float64": 1e-6,
}  # float32 runs may differ after a near-tie


@dataclass(frozen=True)
class Verdict:
    """A target and its outcome; `met` is None if the run has no figure for it."""

    target: str
    found: str
    met: bool | None


def mean(values: Iterable[float]) -> float | None:
    """The geometric mean; None if there are no values."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else None


def ratios(cells: list[Cell], section: str, peer: str) -> dict[str, float]:
    """Ratios by workload, of all sections whose name begins with `section`."""
    found = {}
    for cell in cells:
        ratio = cell.ratio(peer)
        if cell.section.startswith(section) and ratio is not None:
            found[f"{cell.section}: {cell.workload}"] = ratio
    return found


def worst(found: dict[str, float]) -> tuple[str, float] | None:
    return min(found.items(), key=lambda item: item[1]) if found else None


def _mean_at_least(cells: list[Cell], section: str, peer: str, least: float) -> Verdict:
    value = mean(ratios(cells, section, peer).values())
    target = f"{section}: geometric mean at least {least:g}x {peer}"
    return Verdict(target, f"{value:.2f}x", value >= least) if value else Verdict(target, "-", None)


def _no_cell_below(
    cells: list[Cell], section: str, least: float, peers: Sequence[str] = PEERS
) -> Verdict:
    found = {
        f"{where} ({peer})": ratio
        for peer in peers
        for where, ratio in ratios(cells, section, peer).items()
    }
    target, low = f"{section}: no cell below {least:g}x, {' or '.join(peers)}", worst(found)
    if low is None:
        return Verdict(target, "-", None)
    return Verdict(target, f"{low[1]:.2f}x at {low[0]}", low[1] >= least)


def _raw_steps(cells: list[Cell]) -> Verdict:
    """A step on the raw table against one on the same table, standardised."""
    target = "raw-lloyd: a step takes at most 1.5 times one on the standardised table"
    found = {where: 1 / ratio for where, ratio in ratios(cells, "raw-lloyd", SCALED).items()}
    if not found:
        return Verdict(target, "-", None)
    where, most = max(found.items(), key=lambda item: item[1])
    return Verdict(target, f"{most:.2f} times at {where}", most <= 1.5)


def unequal(cell: Cell, peer: str) -> bool:
    excess = cell.excess(peer)
    return excess is not None and abs(excess) > EQUAL[cell.dtype]


def _equal_inertia(cells: list[Cell], section: str, peer: str) -> Verdict:
    found = {
        cell.workload: abs(excess)
        for cell in cells
        if cell.section == section and (excess := cell.excess(peer)) is not None
    }
    target = f"{section}: inertia of {peer} (relative difference at most 1e-3 f32, 1e-6 f64)"
    if not found:
        return Verdict(target, "-", None)
    where, most = max(found.items(), key=lambda item: item[1])
    met = not any(unequal(cell, peer) for cell in cells if cell.section == section)
    return Verdict(target, f"{most:.1e} at {where}", met)


def _memory(memory: list[Memory], is_sparse: bool) -> Verdict:
    """Dense and CSR apart: for CSR, k dense centres alone can exceed the allowance."""
    kind = "CSR" if is_sparse else "dense"
    target = f"memory, {kind}: a fit needs at most 25 % of X and 64 bytes a row beyond X"
    ours = [m for m in memory if OURS in m.extra and m.is_sparse == is_sparse]
    found = {m.workload: m.extra[OURS] / m.allowed for m in ours}
    if not found:
        return Verdict(target, "-", None)
    where, most = max(found.items(), key=lambda item: item[1])
    return Verdict(target, f"{100 * most:.0f} % of the allowance at {where}", most <= 1)


def verdicts(cells: list[Cell], memory: list[Memory]) -> list[Verdict]:
    return [
        _mean_at_least(cells, "plain", "sklearn", 8),
        _mean_at_least(cells, "plain", "intelex", 3),
        _no_cell_below(cells, "plain", 1),
        _mean_at_least(cells, "greedy", "sklearn", 6),
        _no_cell_below(cells, "greedy", 1, ("intelex",)),
        _mean_at_least(cells, "lloyd", "sklearn", 3),
        _no_cell_below(cells, "lloyd", 1.3, ("sklearn",)),
        _equal_inertia(cells, "lloyd", "sklearn"),
        _mean_at_least(cells, "converge", "sklearn", 5),
        _mean_at_least(cells, "csr", "sklearn", 4),
        _mean_at_least(cells, "raw-converge", "sklearn", 4),
        _no_cell_below(cells, "raw-converge", 1.5, ("sklearn",)),
        _raw_steps(cells),
        _memory(memory, False),
        _memory(memory, True),
    ]
