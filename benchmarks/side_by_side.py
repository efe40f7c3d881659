"""`python -m benchmarks.side_by_side OLD NEW`: the times of two versions of kvariates, interleaved.

A version is a source root (a folder with src/kvariates and its native module), a Python interpreter
that has kvariates installed, or INTERPRETER:ROOT. Each version runs in a process of its own. For
every cell both make the same data and then take turns: old, new, new, old, ... A ratio is the
median time of the old version over that of the new one: above 1, the new one is faster. The
processor time of all threads gives a second ratio, which other processes change less.

A cell is disturbed if the quartiles of its times are more than 10 % of the median apart, or if
other processes used more than a tenth of a core. Cells that are disturbed or below the least ratio
are measured again, in new processes. A median is that of all rounds that were not disturbed, or of
all rounds if each of them was.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from benchmarks.processes import Run
from benchmarks.report import BUSY, table
from benchmarks.side_by_side_cells import SUITES, cells
from benchmarks.side_by_side_worker import Version
from benchmarks.workloads import ROOT, data_folder

SPREAD = 0.1  # of the median, between the quartiles, before a round counts as disturbed
LOWEST = 8  # cells that are listed again
SHORT, LONG = 0.1, 1.0  # seconds of a run: short tasks are called often; long ones need no warm-up


@dataclass(frozen=True)
class Round:
    old: list[Run]
    new: list[Run]

    @property
    def spread(self) -> float:
        return max(_quartile_range([run.wall for run in runs]) for runs in (self.old, self.new))

    @property
    def others(self) -> float:
        return statistics.mean(run.others for run in self.old + self.new)

    @property
    def disturbed(self) -> bool:
        return self.spread > SPREAD or self.others > BUSY


def _quartile_range(values: Sequence[float]) -> float:
    low, middle, high = statistics.quantiles(values, method="inclusive")
    return (high - low) / middle


def _geometric_mean(found: Sequence[Compared], clock: str) -> float:
    return math.exp(statistics.mean(math.log(one.ratio(clock)) for one in found))


@dataclass
class Compared:
    """A cell and what was measured of it."""

    name: str
    rounds: list[Round] = field(default_factory=list)
    error: str = ""

    @property
    def section(self) -> str:
        return self.name.split()[0].removesuffix(":")

    @property
    def disturbed(self) -> bool:
        return all(one.disturbed for one in self.rounds)

    def median(self, version: str, clock: str) -> float:
        rounds = [one for one in self.rounds if not one.disturbed] or self.rounds
        runs = [run for one in rounds for run in getattr(one, version)]
        return float(statistics.median(getattr(run, clock) for run in runs))

    def ratio(self, clock: str = "wall") -> float:
        return self.median("old", clock) / max(self.median("new", clock), 1e-9)


def measure(name: str, old: Version, new: Version, repeats: int) -> Round:
    for version in (old, new):  # both make the data at the same time
        version.send(cell=name)
    for version in (old, new):
        version.receive()
    done = Round([old.run(1)], [new.run(1)])
    first = min(done.old[0].wall, done.new[0].wall)
    if first < LONG:
        done = Round([], [])
    while len(done.old) < repeats:
        pairs = [(done.old, old), (done.new, new)]
        for runs, version in pairs if len(done.old) % 2 == 0 else reversed(pairs):
            runs.append(version.run(math.ceil(SHORT / first)))
    return done


def compare(chosen: argparse.Namespace, names: Sequence[str], file: Path) -> list[Compared]:
    """Compare all cells. The file is written again after each, so that a stopped run is kept."""
    found, begin = [Compared(name) for name in names], time.monotonic()
    for number in range(chosen.rounds):
        low = chosen.min_ratio
        todo = [one for one in found if not one.error and (one.disturbed or one.ratio() < low)]
        pair: list[Version] = []
        for one in todo:
            pair = pair or start(chosen)
            try:
                one.rounds.append(measure(one.name, pair[0], pair[1], chosen.repeats))
                _say(f"{time.monotonic() - begin:4.0f} s, round {number + 1}: {' '.join(row(one))}")
            except RuntimeError as error:
                one.error = str(error)
                _stop(pair)
            save(chosen.suite, found, file)
        _stop(pair)
    return found


def start(chosen: argparse.Namespace) -> list[Version]:
    pair = [Version(where, chosen.suite, chosen.quick) for where in (chosen.old, chosen.new)]
    for name, version in zip(("old", "new"), pair, strict=True):
        _say(f"{name}: {version.wait()}")
    return pair


def _stop(pair: list[Version]) -> None:
    while pair:
        pair.pop().stop()


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


HEAD = ("cell", "old ms", "new ms", "ratio", "CPU ratio", "spread", "others", "rounds", "")


def row(one: Compared, least: float = 0.0) -> list[str]:
    last = one.rounds[-1]
    marks = ["LOW"] * (one.ratio() < least) + ["disturbed"] * one.disturbed
    return [
        one.name,
        *(f"{1e3 * one.median(version, 'wall'):.2f}" for version in ("old", "new")),
        *(f"{one.ratio(clock):.3f}" for clock in ("wall", "cpu")),
        f"{last.spread:.0%}",
        f"{last.others:.2f}",
        str(len(one.rounds)),
        ", ".join(marks),
    ]


def text(found: Sequence[Compared], least: float) -> str:
    measured = [one for one in found if one.rounds]
    failed = [f"failed: {one.name}: {one.error}" for one in found if one.error]
    if not measured:
        return "\n".join([*failed, "nothing was measured"])
    sections = {one.section: [o for o in measured if o.section == one.section] for one in measured}
    means = [
        [name, str(len(ones)), *(f"{_geometric_mean(ones, c):.3f}" for c in ("wall", "cpu"))]
        for name, ones in {**sections, "all": measured}.items()
    ]
    lowest = sorted(measured, key=lambda one: min(one.ratio(), one.ratio("cpu")))[:LOWEST]
    parts = [
        table(HEAD, [row(one, least) for one in measured]),
        table(("geometric means", "cells", "ratio", "CPU ratio"), means),
        f"{sum(one.ratio() < least for one in measured)} cells below {least:g}; the lowest cells:",
        table(HEAD, [row(one, least) for one in lowest]),
        *failed,
    ]
    return "\n\n".join(parts)


def save(suite: str, found: Sequence[Compared], file: Path) -> None:
    ratios = {one.name: [one.ratio(), one.ratio("cpu")] for one in found if one.rounds}
    content = {"suite": suite, "ratios": ratios, "cells": [asdict(one) for one in found]}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n")


def options(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.side_by_side",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD")
    parser.add_argument("new", metavar="NEW")
    parser.add_argument("--suite", choices=SUITES, default="main", help="which cells (main)")
    parser.add_argument("--only", default="", help="only cells whose name holds this")
    parser.add_argument("--repeats", type=int, default=5, help="runs of a version in a round (5)")
    parser.add_argument("--rounds", type=int, default=3, help="most rounds of a cell (3)")
    parser.add_argument("--min-ratio", type=float, default=0.95, help="the least ratio (0.95)")
    parser.add_argument("--quick", action="store_true", help="small data")
    parser.add_argument("--full", action="store_true", help="also the cells that take minutes")
    folder = ROOT / "benchmarks" / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the JSON file")
    chosen = parser.parse_args(given)
    if chosen.repeats < 2 or chosen.rounds < 1:
        parser.error("at least two repeats and one round")
    return chosen


def main(given: Sequence[str] | None = None) -> int:
    """Exit status: 1 if a cell failed or is below the least ratio."""
    chosen = options(given)
    if not (data_folder() / "mnist").exists():
        _say("cells of real data are left out: no data folder (KVARIATES_DATA)")
    names = [cell.name for cell in cells(chosen.suite, quick=chosen.quick, full=chosen.full)]
    date = dt.datetime.now().strftime("%Y-%m-%d-%H%M")
    file = chosen.save / f"side-by-side-{chosen.suite}-{date}.json"
    found = compare(chosen, [name for name in names if chosen.only in name], file)
    print(text(found, chosen.min_ratio))
    print(f"\nkept in {file.name}")
    return int(any(one.error or one.ratio() < chosen.min_ratio for one in found))


if __name__ == "__main__":
    sys.exit(main())
