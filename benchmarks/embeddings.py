"""`python -m benchmarks.embeddings`: k-means of embeddings beside other libraries.

Each library runs in a process of its own, so that one's threads do not disturb another's, with the
same number of threads. Within a cell the processes take turns, and the median of their times
counts. A library that takes over half a minute runs once. Costs are computed by us, in float64,
from the centres of each library. `benchmarks/embedding_tasks.py` lists sections and cells.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.contestants import OURS, help_faiss
from benchmarks.embedding_tasks import DEFAULTS, Cell, cells, command
from benchmarks.machine import Machine, cores, measure, versions
from benchmarks.memory import extra_of
from benchmarks.processes import Child, Run
from benchmarks.report import BUSY, table
from benchmarks.targets import Verdict

PACKAGES = (
    "kvariates", "scikit-learn", "scikit-learn-intelex", "faiss-cpu", "superkmeans", "clostera",
    "numpy",
)  # fmt: skip
OTHER_STARTS = "superkmeans", DEFAULTS
SHORT, SLOW = 0.1, 30.0  # seconds: shorter tasks are called often, longer ones once
REST = 0.3  # seconds between two libraries: idle threads of the last one stop spinning


@dataclass
class Figures:
    """Of one library in one cell."""

    runs: list[Run] = field(default_factory=list)
    cost: float | None = None
    extra: int | None = None  # bytes of memory beside X

    @property
    def seconds(self) -> float:
        return statistics.median(run.wall for run in self.runs)


@dataclass
class Measured:
    name: str
    section: str
    data: int  # bytes of X
    libraries: dict[str, Figures] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def ratio(self, library: str) -> float:
        """Their time over ours."""
        return self.libraries[library].seconds / self.libraries[OURS].seconds

    def has(self, *names: str) -> bool:
        return all(name in self.libraries for name in (OURS, *names))


# --- measuring ------------------------------------------------------------------------------------


def run_cell(cell: Cell, libraries: Iterable[str], repeats: int, file: Path, size: int) -> Measured:
    done = Measured(cell.name, cell.section, size)
    if cell.section == "memory":
        for library in libraries:
            with _noted(done, library):
                done.libraries[library] = Figures(extra=extra_of(library, file, cell.k))
        return done
    children = {library: Child(command(cell, library, file), {}) for library in libraries}
    try:
        for library, child in children.items():
            with _noted(done, library):
                child.receive()  # it is ready
                done.libraries[library] = Figures()
        for turn in range(repeats):
            _a_round(done, children, turn)
        for library in list(done.libraries) if cell.has_cost else ():
            with _noted(done, library):
                children[library].send(cost=True)
                done.libraries[library].cost = children[library].receive()["cost"]
    finally:
        for child in children.values():
            child.stop()
    return done


@contextmanager
def _noted(done: Measured, library: str) -> Iterator[None]:
    """A library that fails is left out of the cell, with the reason."""
    try:
        yield
    except RuntimeError as error:
        done.left_out[library] = str(error)
        done.libraries.pop(library, None)


def _a_round(done: Measured, children: dict[str, Child], turn: int) -> None:
    names = list(done.libraries)
    at = turn % max(len(names), 1)
    for library in names[at:] + names[:at]:
        runs = done.libraries[library].runs
        if runs and runs[0].wall > SLOW:
            continue
        time.sleep(REST)
        with _noted(done, library):
            first = children[library].run(1)
            calls = math.ceil(SHORT / first.wall)
            runs.append(children[library].run(calls) if calls > 1 else first)


# --- what is told ---------------------------------------------------------------------------------


def text(found: Sequence[Measured]) -> str:
    parts = [f"{one.name}\n{_table(one)}" for one in found]
    words = {True: "met", False: "NOT MET", None: "not run"}
    rows = [[v.target, words[v.met], v.found] for v in verdicts(found)]
    return "\n\n".join([*parts, table(["target", "", "found"], rows)])


def _table(one: Measured) -> str:
    left_out = "".join(f"\nleft out: {name}: {why}" for name, why in one.left_out.items())
    if one.section == "memory":
        rows = [
            [name, f"{(f.extra or 0) / 1e6:.0f}", f"{(f.extra or 0) / one.data:.0%}"]
            for name, f in one.libraries.items()
        ]
        return table(["", "MB beside X", "of X"], rows) + left_out
    ours = one.libraries.get(OURS)
    rows = []
    for name, f in one.libraries.items():
        times = f"{one.ratio(name):.2f}" if ours else "-"
        cost = f"{100 * (f.cost / ours.cost - 1):+.3f} %" if ours and ours.cost and f.cost else "-"
        cpu = statistics.median(run.cpu for run in f.runs)
        busy = max(run.others for run in f.runs)
        mark = "disturbed" if busy > BUSY else ""
        seconds = f"{f.seconds:.6f}" if f.seconds < 0.1 else f"{f.seconds:.3f}"
        rows.append([name, seconds, times, f"{cpu:.4f}", cost, str(len(f.runs)), mark])
    head = ["", "seconds", "times ours", "CPU s", "cost beside ours", "runs", ""]
    return table(head, rows) + left_out


def verdicts(found: Sequence[Measured]) -> list[Verdict]:
    """The targets for embeddings; uniform rows have none here."""
    told = [one for one in found if "uniform" not in one.name]
    steps = [one for one in told if one.section == "lloyd-25"]
    fits = [one for one in told if one.section == "fit"]
    return [
        *(_least_ratio("25 iterations", steps, who, 3) for who in ("sklearn", "faiss")),
        _least_ratio("25 iterations", steps, "superkmeans", 1.2),
        _least_ratio("fit", fits, "sklearn", 12),
        *(_cheaper([o for o in fits if "k=1000" not in o.name], who, 2) for who in OTHER_STARTS),
        _below("predict of one row", [o for o in told if o.section == "predict-1"], 5e-4),
        _least_ratio("predict", [o for o in told if o.section == "predict-1000"], "sklearn", 1),
        _least_ratio("transform", [o for o in told if o.section == "transform-1000"], "sklearn", 1),
        _small([one for one in told if one.section == "memory"], 0.4),
    ]


def _verdict(target: str, found: Sequence[tuple[float, str]], least: float) -> Verdict:
    """Of the worst of the values, which should be at least `least`."""
    if not found:
        return Verdict(target, "-", None)
    value, where = min(found)
    return Verdict(target, f"{value:.3g} at {where}", value >= least)


def _least_ratio(task: str, found: Sequence[Measured], who: str, least: float) -> Verdict:
    values = [(one.ratio(who), one.name) for one in found if one.has(who)]
    return _verdict(f"{task}: {who} takes at least {least:g} times our time", values, least)


def _cheaper(found: Sequence[Measured], who: str, least: float) -> Verdict:
    """Where the other library ends at a lower cost than ours, our speed does not count."""
    values = []
    for one in found:
        if one.has(who):
            ours, theirs = (one.libraries[name].cost or math.nan for name in (OURS, who))
            values.append((one.ratio(who) if ours <= theirs else 0.0, one.name))
    target = f"fit, k=4000: {who} takes at least {least:g} times our time, at no lower cost"
    return _verdict(target, values, least)


def _below(task: str, found: Sequence[Measured], most: float) -> Verdict:
    values = [(-one.libraries[OURS].seconds, one.name) for one in found if one.has()]
    told = _verdict(f"{task}: below {1e3 * most:g} ms", values, -most)
    return Verdict(told.target, told.found.lstrip("-").replace(" at", " s at"), told.met)


def _small(found: Sequence[Measured], most: float) -> Verdict:
    values = [
        (-(one.libraries[OURS].extra or 0) / one.data, one.name) for one in found if one.has()
    ]
    told = _verdict(f"memory: at most {most:.0%} of X beside it", values, -most)
    return Verdict(told.target, told.found.lstrip("-").replace(" at", " of X at"), told.met)


def save(found: Sequence[Measured], machine: Machine, complete: bool, file: Path) -> None:
    content = {
        "versions": versions(PACKAGES),
        "machine": asdict(machine),
        "complete": complete,
        "cells": [asdict(one) for one in found],
        "verdicts": [asdict(verdict) for verdict in verdicts(found)],
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")


# --- the command ----------------------------------------------------------------------------------


def options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.embeddings", description=__doc__)
    parser.add_argument("--only", default="", help="sections, by comma, as lloyd-25,fit")
    parser.add_argument("--cells", default="", help="only cells whose name holds this")
    parser.add_argument("--libraries", default="", help="only these, by comma")
    parser.add_argument("--repeats", type=int, default=3, help="rounds (3)")
    parser.add_argument("--threads", type=int, default=2, help="of every library (2)")
    parser.add_argument("--quick", action="store_true", help="small data, one round")
    folder = Path(__file__).resolve().parent / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the JSON file")
    return parser.parse_args(given)


def limit_threads(count: int) -> None:
    """For this process and its children."""
    for name in ("OMP", "OPENBLAS", "MKL", "RAYON"):
        os.environ[f"{name}_NUM_THREADS"] = str(count)
    if hasattr(os, "sched_setaffinity") and count < cores():
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def run_all(chosen: argparse.Namespace, keep: Callable[[list[Measured]], None]) -> list[Measured]:
    found: list[Measured] = []
    begin, sections = time.monotonic(), set(filter(None, chosen.only.split(",")))
    with tempfile.TemporaryDirectory() as folder:
        file, made = Path(folder, "X.npy"), None
        for cell in cells(chosen.quick):
            if (sections and cell.section not in sections) or chosen.cells not in cell.name:
                continue
            if cell.rows.missing:
                say(f"{cell.name}: left out, no data folder (KVARIATES_DATA)")
                continue
            if cell.rows != made:
                np.save(file, cell.rows.make())
                made = cell.rows
            only = list(filter(None, chosen.libraries.split(","))) or cell.libraries
            libraries = [name for name in cell.libraries if name in only]
            repeats = 1 if chosen.quick else chosen.repeats
            size = 4 * cell.rows.n * cell.rows.d
            found.append(run_cell(cell, libraries, repeats, file, size))
            say(f"{time.monotonic() - begin:.0f} s, {cell.name}\n{_table(found[-1])}")
            keep(found)
    return found


def main(given: Sequence[str] | None = None) -> None:
    chosen = options(given)
    help_faiss()
    limit_threads(chosen.threads)
    machine = measure(chosen.quick)
    date = dt.datetime.now().strftime("%Y-%m-%d-%H%M")
    file = chosen.save / f"embeddings-{date}.json"
    partial = chosen.quick or chosen.only or chosen.cells or chosen.libraries
    found = run_all(chosen, lambda done: save(done, machine, False, file))
    save(found, machine, not partial and len(found) == len(cells()), file)
    print(f"{text(found)}\n\nkept in {file.name}")


if __name__ == "__main__":
    main()
