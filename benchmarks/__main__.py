"""`python -m benchmarks`: measures, prints the tables and saves the figures."""

from __future__ import annotations

import argparse
import datetime as dt
import sys
import time
from pathlib import Path

from benchmarks.contestants import help_faiss, present

help_faiss()  # before faiss is imported

from benchmarks import machine, memory, workloads  # noqa: E402
from benchmarks.report import Run, save, text  # noqa: E402
from benchmarks.sections import SECTIONS, Cell, applies, run_cell, warm_up  # noqa: E402
from benchmarks.timing import Patience  # noqa: E402

GROUPS = {
    "seeding": ("plain", "greedy"),
    "csr": ("csr-lloyd", "csr-converge"),
    "raw": ("raw-lloyd", "raw-converge"),
    **{name: (name,) for name in (*SECTIONS, "memory")},
}
PACKAGES = ("kvariates", "scikit-learn", "scikit-learn-intelex", "faiss-cpu", "numpy")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", default="", help=f"sections, by comma: {', '.join(GROUPS)}")
    parser.add_argument("--cells", default="", help="only workloads whose name holds this")
    parser.add_argument("--repeats", type=int, default=3, help="least number of rounds (3)")
    parser.add_argument("--quick", action="store_true", help="small shapes, one round")
    parser.add_argument("--peers", default="sklearn,intelex,faiss", help="peers, by comma")
    folder = Path(__file__).resolve().parent / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the JSON file")
    chosen = parser.parse_args()
    unknown = set(filter(None, chosen.only.split(","))) - set(GROUPS)
    if unknown:
        parser.error(f"no section named {', '.join(sorted(unknown))}; use {', '.join(GROUPS)}")
    return chosen


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def progress(cell: Cell) -> str:
    times = ", ".join(f"{name} {timing.median:.4f}" for name, timing in cell.timings.items())
    return f"  {cell.section}: {times}"


def main() -> None:
    chosen, begin = options(), time.monotonic()
    names = [name for part in chosen.only.split(",") if part for name in GROUPS[part]]
    wanted = set(names) or {*SECTIONS, "memory"}
    patience = Patience(1, 1) if chosen.quick else Patience(least=max(1, chosen.repeats))
    who, absent = present(("kvariates", *filter(None, chosen.peers.split(","))))
    say("measuring the machine")
    peak = machine.measure(chosen.quick)
    left_out = [f"contestant {name}" for name in absent]
    cells: list[Cell] = []
    used: list[memory.Memory] = []
    for work in workloads.dense(chosen.quick) + workloads.csr() + workloads.raw():
        asked = [name for name in (*SECTIONS, "memory") if name in wanted and applies(name, work)]
        if chosen.cells not in work.name or not asked:
            continue
        if work.missing:
            left_out.append(f"{work.name} (no {work.file} in the data folder, KVARIATES_DATA)")
            continue
        say(f"{work.name} ({time.monotonic() - begin:.0f} s)")
        X = work.make()
        warm_up(who, work, X)
        for name in asked:
            try:
                if name == "memory":
                    used.append(memory.measure(work, X, who))
                else:
                    cells.append(run_cell(SECTIONS[name], work, X, who, peak, patience))
                    say(progress(cells[-1]))
            except RuntimeError as error:  # the run goes on without this cell and reports it
                left_out.append(f"{name} on {work.name}: {error}")
    date = dt.datetime.now().strftime("%Y-%m-%d-%H%M")
    complete = not (chosen.quick or chosen.only or chosen.cells or left_out)
    run = Run(date, machine.versions(PACKAGES), peak, cells, used, left_out, complete)
    print(text(run))
    print(f"\n{time.monotonic() - begin:.0f} s; kept in {save(run, chosen.save).name}")


if __name__ == "__main__":
    main()
