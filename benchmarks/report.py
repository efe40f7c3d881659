"""Writes a run as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.contestants import OURS, PEERS
from benchmarks.machine import Machine
from benchmarks.memory import Memory
from benchmarks.sections import SECTIONS, Cell
from benchmarks.targets import Verdict, mean, ratios, unequal, verdicts, worst

BUSY = 0.1  # a run is disturbed if other processes use more cores than this


@dataclass(frozen=True)
class Run:
    """All results of one call of the benchmarks."""

    date: str
    versions: dict[str, str]
    machine: Machine
    cells: list[Cell]
    memory: list[Memory]
    left_out: list[str]
    complete: bool  # every section, workload and library, as the targets require

    @property
    def verdicts(self) -> list[Verdict]:
        return verdicts(self.cells, self.memory)


def text(run: Run) -> str:
    parts = [_head(run)]
    parts += [_section(name, run.cells) for name in SECTIONS]
    parts += [_memory(run.memory), _verdicts(run), _remarks(run)]
    return "\n\n".join(part for part in parts if part)


def save(run: Run, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{run.date}.json"
    content = asdict(run) | {"verdicts": [asdict(verdict) for verdict in run.verdicts]}
    file.write_text(json.dumps(content, indent=1) + "\n")
    return file


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A text table: the first column is aligned left, the others right."""
    lines = [head, *rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _head(run: Run) -> str:
    machine = run.machine
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return (
        f"{machine.processor}, {machine.cores} cores: "
        f"{machine.flops['float32'] / 1e9:.0f} GFLOP/s float32, "
        f"{machine.flops['float64'] / 1e9:.0f} float64, {machine.bytes / 1e9:.1f} GB/s\n"
        f"{versions}\n"
        "Seconds are medians of interleaved runs; 2.0x means that the peer takes twice our time."
    )


def _section(name: str, every: list[Cell]) -> str:
    cells = [cell for cell in every if cell.section == name]
    if not cells:
        return ""
    peak = "of GB/s" if name in ("plain", "greedy") else "of FLOP/s"
    head = ["", OURS, peak]
    for peer in PEERS:
        head += [peer, "ratio"]
    head += ["steps", "cost to sklearn", "runs"]
    lines = table(head, [_row(cell) for cell in cells])
    return f"{SECTIONS[name].title}\n{lines}\n{_summary(name, cells)}".rstrip()


def _row(cell: Cell) -> list[str]:
    row = [cell.workload, _seconds(cell, OURS)]
    row.append(f"{100 * cell.share[OURS]:.0f}%" if OURS in cell.share else "-")
    for peer in PEERS:
        ratio = cell.ratio(peer)
        row += [_seconds(cell, peer), f"{ratio:.1f}x" if ratio is not None else "-"]
    excess = cell.excess("sklearn")
    seeding = cell.section in ("plain", "greedy")
    flag = " !" if not seeding and unequal(cell, "sklearn") else ""
    row.append("/".join(str(steps) for steps in cell.steps.values()))
    row.append("-" if excess is None else f"{excess:+.1e}{flag}")
    row.append(str(min(len(timing.seconds) for timing in cell.timings.values())))
    return row


def _seconds(cell: Cell, name: str) -> str:
    return f"{cell.timings[name].median:.4f}" if name in cell.timings else "-"


def _summary(section: str, cells: list[Cell]) -> str:
    lines = []
    for peer in PEERS:
        found = {where.split(": ", 1)[1]: r for where, r in ratios(cells, section, peer).items()}
        average, low = mean(found.values()), worst(found)
        if average is not None and low is not None:
            lines.append(f"  {peer}: geometric mean {average:.2f}x, worst {low[1]:.2f}x ({low[0]})")
    return "\n".join(lines)


def _memory(memory: list[Memory]) -> str:
    if not memory:
        return ""
    names = list(dict.fromkeys(name for m in memory for name in m.extra))
    rows = [
        [m.workload, _megabytes(m.data), _megabytes(m.allowed)]
        + [_megabytes(m.extra[name]) if name in m.extra else "-" for name in names]
        + ["-" if OURS not in m.extra else "yes" if m.extra[OURS] <= m.allowed else "NO"]
        for m in memory
    ]
    title = "Memory of a fit beyond X, in MB (k-means++ and at most 20 steps)"
    return f"{title}\n{table(['', 'X', 'allowed', *names, 'within'], rows)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f}"


def _verdicts(run: Run) -> str:
    words = {True: "met", False: "NOT MET", None: "not run"}
    rows = [[words[v.met], v.target, v.found] for v in run.verdicts]
    width = max(len(row[1]) for row in rows)
    title = "Targets" if run.complete else "Targets (of a full run; this one was partial)"
    return f"{title}\n" + "\n".join(f"{a:8} {b:{width}}  {c}" for a, b, c in rows)


def _remarks(run: Run) -> str:
    lines = [f"Left out: {what}" for what in run.left_out]
    disturbed = [c for c in run.cells if any(t.others > BUSY for t in c.timings.values())]
    if disturbed:
        lines.append(
            f"Disturbed: other processes used the machine during {len(disturbed)} of "
            f"{len(run.cells)} cells; repeat the run on a quiet machine before quoting it."
        )
    return "\n".join(lines)
