"""`python -m benchmarks.gpu`: k-means on a card, beside other libraries and beside our CPU.

| section | what is timed |
|---|---|
| ceilings | the card: copies in its memory, matrix products, copies from and to host memory |
| lloyd | 25 iterations from the same start, rows on the card: flash-kmeans, FlashLib, torch |
| fit | greedy seeding and Lloyd: beside the CPU, and flash-kmeans started anew until as low |
| small | the same of few rows in host memory: when a card pays |
| seeding | the first centres alone |
| streamed | rows in blocks of host memory that pass through the card |

Times are by the clock of the host around calls after which the card was waited for, interleaved;
their median counts. The first call, which compiles, is not timed. An operation count is 2 n d k for
each iteration, and bytes are those of the rows once for each iteration, whatever a library does:
one that skips work can exceed a ceiling. Costs and wrong labels are computed by us, in float64; a
label is wrong if another centre is nearer than its own to the row as the library was given it.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpu_data import Cell, cells, torch
from benchmarks.gpu_peers import add_wheels
from benchmarks.gpu_sections import (
    CPU,
    FLASH,
    OURS,
    Ceilings,
    Figures,
    Measured,
    device,
    measure,
    run_cell,
)
from benchmarks.machine import cores, versions
from benchmarks.report import table
from benchmarks.targets import Verdict, mean

PACKAGES = "torch", "triton", "cupy-cuda13x", "cuda-core", "cuda-bindings", "numpy", "scikit-learn"
LARGE = 1e12  # n k d from which the card has to take a twentieth of the CPU's time
OF_BUS = 0.7  # the share of the bus that counts as bound by it
SECTIONS = "ceilings", "lloyd", "fit", "small", "seeding", "streamed"


# --- what is told ---------------------------------------------------------------------------------


def text(found: Sequence[Measured], ceilings: Ceilings) -> str:
    words = {True: "met", False: "NOT MET", None: "not run"}
    rows = [[v.target, words[v.met], v.found] for v in verdicts(found, ceilings)]
    parts = [_ceilings(ceilings), *(f"{one.name}\n{_table(one, ceilings)}" for one in found)]
    return "\n\n".join([*parts, table(["target", "", "found"], rows)])


def _ceilings(c: Ceilings) -> str:
    rows = [
        [name.replace("_", " "), f"{value / 1e12:.3f}", "T" + unit]
        for name, value in asdict(c).items()
        for unit in ["FLOP/s" if name in ("bf16", "fp16", "float32") else "byte/s"]
    ]
    return "ceilings\n" + table(["", "", ""], rows)


def _table(one: Measured, c: Ceilings) -> str:
    head = ["", "ms", "times ours", "iterations", "TFLOP/s", "of fp16", "GB/s", "of copy"]
    head += ["wrong labels", "cost beside ours", "parts"]
    rows = [_row(one, name, c) for name in one.libraries]
    lines = [table(head, rows)] if rows else []
    if one.section in ("lloyd", "streamed") and one.has():
        lines.append(f"nearest ceiling: {nearest_ceiling(one, c)}")
    if one.section == "streamed" and one.has():
        speed = rates(one, OURS)[1]
        lines.append(
            f"{speed / 1e9:.1f} GB/s of the bus: {speed / c.to_card:.0%} of the "
            f"{c.to_card / 1e9:.1f} GB/s that copies from locked memory reach"
        )
    if one.same_bits is not None:
        lines.append(f"the CPU's result is {'' if one.same_bits else 'NOT '}the same in every bit")
    return "\n".join([*lines, *(f"left out: {who}: {why}" for who, why in one.left_out.items())])


def _row(one: Measured, name: str, c: Ceilings) -> list[str]:
    f, ours = one.libraries[name], one.libraries.get(OURS)
    more = "> " if f.stopped else ""
    row = [name, f"{more}{1e3 * f.median:.3f}"]
    row += [f"{more}{one.ratio(name):.2f}" if ours else "-", str(f.n_iter or "-")]
    shown = one.section in ("lloyd", "streamed")
    flops, speed = rates(one, name)
    row += [f"{flops / 1e12:.0f}", f"{flops / c.fp16:.0%}"] if shown else ["-", "-"]
    row += [f"{speed / 1e9:.0f}", f"{speed / c.copy:.0%}"] if shown else ["-", "-"]
    row.append("-" if f.wrong is None else f"{f.wrong:.2e}" if f.wrong else "0")
    known = ours and ours.cost and f.cost
    row.append(f"{100 * (f.cost / ours.cost - 1):+.3f} %" if known else "-")
    said = [f"{k} {v:.0f}" if k == "tries" else f"{k} {1e3 * v:.1f} ms" for k, v in f.parts.items()]
    return [*row, ", ".join(said)]


def rates(one: Measured, name: str) -> tuple[float, float]:
    """Operations and bytes a second, of an iteration that computes all distances."""
    f = one.libraries[name]
    times = 1 if one.section == "streamed" else f.n_iter or 1
    size = 2 if "float16" in name else 4
    return tuple(v * times / f.median for v in (2 * one.n * one.d * one.k, size * one.n * one.d))


def nearest_ceiling(one: Measured, c: Ceilings) -> str:
    """What our time is nearest to. A small share says that something else bounds it, not what."""
    flops, speed = rates(one, OURS)
    shares = {"matrix products": flops / c.fp16, "the card's memory": speed / c.copy}
    if one.section == "streamed":
        shares["the bus"] = speed / c.to_card
    name, most = max(shares.items(), key=lambda item: item[1])
    return f"{name}, of which {most:.0%} are reached"


def verdicts(found: Sequence[Measured], c: Ceilings) -> list[Verdict]:
    lloyd = [one for one in found if one.section == "lloyd"]
    beside = [(one.ratio(FLASH), one.name) for one in lloyd if one.has(FLASH)]
    average = mean(ratio for ratio, _ in beside)
    large = [one for one in found if one.section == "fit" and one.n * one.k * one.d >= LARGE]
    return [
        _at_least(
            "25 iterations: flash takes at least 2 times our time on average",
            [(average, f"the mean of {len(beside)} cells")] if average else [],
            2.0,
        ),
        _at_least(
            "25 iterations: flash takes at least 1.2 times our time in each cell", beside, 1.2
        ),
        _exact(lloyd),
        _at_least(
            f"fits with n k d of at least {LARGE:g}: the CPU takes at least 20 times our time",
            [(one.ratio(CPU), one.name) for one in large if one.has(CPU)],
            20,
        ),
        _same([one for one in found if one.same_bits is not None]),
        _greedy([one for one in found if one.section == "seeding" and one.has()]),
        _at_least(
            f"streamed rows pass at {OF_BUS:g} or more of the bus",
            [
                (rates(one, OURS)[1] / c.to_card, one.name)
                for one in found
                if one.section == "streamed" and one.has()
            ],
            OF_BUS,
        ),
    ]


def _at_least(target: str, values: Sequence[tuple[float, str]], least: float) -> Verdict:
    """Of the worst of the values."""
    if not values:
        return Verdict(target, "-", None)
    value, where = min(values)
    return Verdict(target, f"{value:.2f}: {where}", value >= least)


def _exact(found: Sequence[Measured]) -> Verdict:
    target = "25 iterations: none of our labels is wrong"
    values = [
        (f.wrong, f"{name}, {one.name}")
        for one in found
        for name, f in one.libraries.items()
        if name.startswith(OURS) and f.wrong is not None
    ]
    if not values:
        return Verdict(target, "-", None)
    worst, where = max(values)
    return Verdict(target, f"at most {worst:.3g}: {where}", worst == 0)


def _same(found: Sequence[Measured]) -> Verdict:
    target = "fits: the card's result is the CPU's in every bit"
    if not found:
        return Verdict(target, "-", None)
    others = [one.name for one in found if not one.same_bits]
    said = f"{len(others)} of {len(found)} differ"
    return Verdict(target, f"{said}: {others[0]}" if others else said, not others)


def _greedy(found: Sequence[Measured]) -> Verdict:
    target = "greedy k-means++ of 1,000,000x128, k=1,024: below 1 s"
    values = [
        (one.libraries[OURS].median, one.name)
        for one in found
        if one.name.endswith("k-means++") and (one.n, one.d, one.k) == (1_000_000, 128, 1_024)
    ]
    if not values:
        return Verdict(target, "-", None)
    most, where = max(values)
    return Verdict(target, f"{most:.3f} s: {where}", most < 1)


# --- files ----------------------------------------------------------------------------------------


@dataclass
class Kept:
    """All that a file has."""

    machine: dict[str, Any]
    ceilings: Ceilings
    found: list[Measured]

    def save(self, file: Path) -> None:
        names = {one.name for one in self.found}
        content = {
            "machine": self.machine,
            "ceilings": asdict(self.ceilings),
            "complete": names >= {cell.name for cell in cells()},
            "cells": [asdict(one) for one in self.found],
            "verdicts": [asdict(verdict) for verdict in verdicts(self.found, self.ceilings)],
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def read(cls, file: Path) -> Kept:
        content = json.loads(file.read_text())
        found = []
        for one in content["cells"]:
            one["libraries"] = {name: Figures(**f) for name, f in one["libraries"].items()}
            found.append(Measured(**one))
        return cls(content["machine"], Ceilings(**content["ceilings"]), found)


def merged(files: Sequence[Path]) -> Kept:
    """Runs of one machine; of a cell that is in several, the last one counts."""
    runs = [Kept.read(file) for file in files]
    found = {one.name: one for run in runs for one in run.found}
    return Kept(runs[-1].machine, runs[-1].ceilings, list(found.values()))


def machine() -> dict[str, Any]:
    import kvariates

    t = torch()
    card = t.cuda.get_device_name() if t.cuda.is_available() else "none"
    known = versions(PACKAGES) | {"kvariates": kvariates.__version__}
    return {"card": card, "cuda": t.version.cuda, "cores": cores(), "versions": known}


# --- the command ----------------------------------------------------------------------------------


def options(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", help="sections, by comma, as lloyd,fit")
    parser.add_argument("--cells", default="", help="only cells whose name holds this")
    parser.add_argument("--rounds", type=int, default=5, help="(5)")
    parser.add_argument("--quick", action="store_true", help="small data, one round")
    parser.add_argument("--peers", type=Path, help="folder with wheels of other libraries")
    parser.add_argument("--merge", type=Path, nargs="+", help="join these files; nothing is run")
    parser.add_argument("--profile", action="store_true", help="times of kernels, in place of all")
    folder = Path(__file__).resolve().parent / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the JSON file")
    chosen = parser.parse_args(given)
    wrong = set(filter(None, chosen.only.split(","))) - set(SECTIONS)
    if wrong:
        parser.error(f"no section {', '.join(sorted(wrong))}; there are {', '.join(SECTIONS)}")
    return chosen


def chosen_cells(chosen: argparse.Namespace) -> list[Cell]:
    sections = set(filter(None, chosen.only.split(","))) or set(SECTIONS)
    every = cells(chosen.quick)
    return [one for one in every if one.section in sections and chosen.cells in one.name]


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def run_all(chosen: argparse.Namespace, kept: Kept, file: Path) -> None:
    begin, made, X = time.monotonic(), None, None
    for cell in chosen_cells(chosen):
        if cell.rows != made:
            X = None  # frees it first
            X, made = cell.rows.make(device()), cell.rows
        kept.found.append(run_cell(cell, X, 1 if chosen.quick else chosen.rounds))
        last = kept.found[-1]
        say(f"{time.monotonic() - begin:.0f} s, {last.name}\n{_table(last, kept.ceilings)}\n")
        kept.save(file)


def main(given: Sequence[str] | None = None) -> None:
    chosen = options(given)
    file = chosen.save / f"gpu-{dt.datetime.now():%Y-%m-%d-%H%M%S}.json"
    if chosen.merge:
        kept = merged(chosen.merge)
    else:
        add_wheels(chosen.peers)
        if device() == "cpu" and not chosen.quick:
            sys.exit("There is no card here. `--quick` tries the command on a processor.")
        if chosen.profile:
            from benchmarks.gpu_profile import profile

            profile(chosen_cells(chosen), chosen.save)
            return
        kept = Kept(machine(), measure(chosen.quick), [])
        run_all(chosen, kept, file)
    kept.save(file)
    print(f"{text(kept.found, kept.ceilings)}\n\nkept in {file.name}")


if __name__ == "__main__":
    main()
