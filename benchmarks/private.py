"""`make bench-private`: private k-means compared with k-means without privacy and with peers.

| section | what |
|---|---|
| auto | method="auto" on the sets with peers' figures and targets |
| methods | every other method on the same sets |
| others | "auto", "lloyd" and "grid" on sets that were not used to choose constants |
| scale | large data: seconds, memory, and the share of noise, each in a process of its own |

A figure is the mean cost of several runs of PrivateKMeans(radius=1.0), add-remove, divided by the
cost of scikit-learn's KMeans(n_init=3, random_state=0). The JSON file is written after every
method, so that little is lost if a run is stopped.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import machine, private_data, private_timing
from benchmarks.private_data import Problem
from benchmarks.private_report import (
    EPSILONS,
    Cell,
    Large,
    Run,
    scale_table,
    shown,
    utility_table,
    verdicts,
)
from benchmarks.workloads import ROOT, Array, inertia
from kvariates import PrivateKMeans
from kvariates.private_methods.methods import PRIVATE_METHODS
from kvariates.private_methods.noisy_kvariates import Conditional

PACKAGES = ("kvariates", "opendp", "scikit-learn", "numpy")
BESIDE_AUTO = ("auto", "lloyd", "grid")  # on the other sets
# Asserted of every set for `kvariates-conditional`; the report names sets where it is false. For
# any k - 1 rows as centres, the squared distances of the others add up to at least 200 squared
# radii (as those of 20,000 rows at a tenth of a radius do): 4 / 200.
DELTA_W = 0.02
LARGE = {  # seconds allowed
    "1,000,000 x 10, k = 20": 10.0,
    "MNIST 70,000 x 784, k = 10": 30.0,
    "10,000,000 x 2, k = 8": 60.0,
}


@dataclass(frozen=True)
class Chosen:
    """What to measure."""

    sets: list[str]  # empty: all
    methods: list[str]
    deltas: list[float]
    runs: int
    limit: float  # seconds a fit may take
    save: Path

    def of(self, problems: Sequence[Problem]) -> list[Problem]:
        return [one for one in problems if not self.sets or one.name in self.sets]


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


# --- utility ---------------------------------------------------------------------------------


def measure(
    run: Run, chosen: Chosen, section: str, problems: Sequence[Problem], methods: Sequence[str]
) -> None:
    for problem in chosen.of(problems):
        X = private_data.load(problem.name)
        base = private_data.cost_without_privacy(problem.name, problem.k)
        say(f"{section}: {problem.name}, {len(X):,} x {X.shape[1]}, k = {problem.k}")
        for name in methods:
            if name in chosen.methods:
                for delta in chosen.deltas:
                    run.cells += figures(chosen, (section, problem, name, delta), X, base)
                    run.save(chosen.save)
                    last = ", ".join(shown(cell) for cell in run.cells[-len(EPSILONS) :])
                    say(f"  {name}, delta = {delta:g}: {last}")


def figures(
    chosen: Chosen, of: tuple[str, Problem, str, float], X: Array, base: float
) -> list[Cell]:
    """One cell for each epsilon. A method that failed is not run again."""
    section, problem, name, delta = of
    cells: list[Cell] = []
    for epsilon in EPSILONS:
        reason = cells[-1].reason if cells else ""
        ratios, seconds, in_noise = [], [], []
        for _ in range(0 if reason else chosen.runs):
            model = PrivateKMeans(
                problem.k, epsilon=epsilon, delta=delta, radius=1.0, method=_method(name)
            )
            try:
                took = private_timing.timed(model, X, chosen.limit)
            except (TimeoutError, ValueError, MemoryError) as error:
                reason = str(error) or type(error).__name__
                break
            ratios.append(inertia(X, model.cluster_centers_) / base)
            seconds.append(took.seconds)
            in_noise.append(took.in_noise)
        key = (section, problem.name, problem.k, name, epsilon, delta)
        cells.append(Cell(*key, ratios, seconds, in_noise, reason))
    return cells


def _method(name: str) -> Any:
    return Conditional(delta_w=DELTA_W) if name == "kvariates-conditional" else name


def compared(run: Run, chosen: Chosen, section: str) -> None:
    """Sections `auto` and `methods`."""
    methods = [name for name in PRIVATE_METHODS if (name == "auto") == (section == "auto")]
    measure(run, chosen, section, private_data.compared(), methods)


def others(run: Run, chosen: Chosen, section: str) -> None:
    measure(run, chosen, section, private_data.others(), BESIDE_AUTO)


def asserted(cells: Sequence[Cell]) -> list[str]:
    """Names the sets for which the constant of `kvariates-conditional` is false."""
    sets = dict.fromkeys((c.set, c.k) for c in cells if c.method == "kvariates-conditional")
    if not sets:
        return []
    # Centres that are rows cost at least the best cost; the farthest row may be left out.
    least = 4 / DELTA_W + 4
    costs = {which: private_data.cost_without_privacy(*which) for which in sets}
    false = [f"{name} k = {k}" for (name, k), cost in costs.items() if cost < least]
    end = f"false, and nothing promised, for {', '.join(false)}." if false else "true for all sets."
    return [f"kvariates-conditional: delta_w = {DELTA_W:g} is asserted; {end}"]


# --- scale -----------------------------------------------------------------------------------


def alone(what: str, delta: float) -> None:
    """Runs one fit, after a small one that loads the libraries. Called in a process of its own."""
    X, k = private_data.large_rows(what), int(what.split("=")[1])
    model = PrivateKMeans(k, epsilon=1.0, delta=delta, radius=1.0)
    model.fit(X[:1000])
    private_timing.reset_peak()
    took = private_timing.timed(model, X, 3600.0)
    print(json.dumps(asdict(took) | {"peak_gb": private_timing.peak_gb()}))


def scale(run: Run, chosen: Chosen, section: str) -> None:
    for what, allowed in LARGE.items():
        for delta in chosen.deltas:
            command = [sys.executable, "-m", "benchmarks.private", "--alone", what, str(delta)]
            done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
            if done.returncode:
                why = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
                run.left_out.append(f"{what}, delta = {delta:g}: {why[0]}")
                continue
            got = json.loads(done.stdout.splitlines()[-1])
            run.large.append(Large(what, delta, **got, allowed=allowed))
            run.save(chosen.save)
            say(f"{section}: {what}, delta = {delta:g}: {got['seconds']:.1f} s")


# --- the run ---------------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[Run, Chosen, str], None]] = {
    "auto": compared,
    "methods": compared,
    "others": others,
    "scale": scale,
}


def options() -> tuple[list[str], Chosen]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.private", description=__doc__)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma")
    parser.add_argument("--sets", default="", help="sets, by comma; all of them by default")
    parser.add_argument("--methods", default=",".join(PRIVATE_METHODS), help="methods, by comma")
    parser.add_argument("--deltas", default="1e-6,0", help="deltas, by comma (1e-6,0)")
    parser.add_argument("--runs", type=int, default=5, help="fits for each figure (5)")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a fit may take (60)")
    folder = ROOT / "benchmarks" / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the JSON file")
    said = parser.parse_args()
    sections, methods = said.only.split(","), said.methods.split(",")
    sets = [name for name in said.sets.split(",") if name]
    every = {name for name, _ in private_data.TARGETS} | set(private_data.OTHERS)
    for names, known in ((sections, SECTIONS), (methods, PRIVATE_METHODS), (sets, every)):
        if unknown := set(names) - set(known):
            parser.error(f"no {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    deltas = [float(delta) for delta in said.deltas.split(",")]
    return sections, Chosen(sets, methods, deltas, max(1, said.runs), said.limit, said.save)


def text(run: Run) -> str:
    """All tables of a run."""
    title = f"True cost over the cost without privacy, mean of runs: {run.runs}, add-remove."
    parts = [title] if run.cells else []
    tuned = [cell for cell in run.cells if cell.section != "others"]
    rest = [cell for cell in run.cells if cell.section == "others"]
    if tuned:
        problems = private_data.compared()
        lines = verdicts(tuned, problems) + asserted(tuned)
        parts += [utility_table(tuned, problems), "\n".join(lines)]
    if rest:
        problems = private_data.others()
        parts += ["Other sets", utility_table(rest, problems), "\n".join(verdicts(rest, problems))]
    if run.large:
        parts.append(scale_table(run.large))
    parts += [f"Left out: {what}" for what in run.left_out]
    return "\n\n".join(parts)


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        alone(sys.argv[2], float(sys.argv[3]))
        return
    sections, chosen = options()
    begin, date = time.monotonic(), dt.datetime.now().strftime("%Y-%m-%d-%H%M")
    run = Run(date, chosen.runs, machine.versions(PACKAGES), asdict(machine.measure(quick=True)))
    PrivateKMeans(2, epsilon=1.0, radius=1.0).fit(np.zeros((9, 2)))  # loads the libraries
    for name in sections:
        try:
            SECTIONS[name](run, chosen, name)
        except (RuntimeError, FileNotFoundError) as error:
            run.left_out.append(f"{name}: {error}")
    print(text(run))
    print(f"\n{time.monotonic() - begin:.0f} s; kept in {run.save(chosen.save).name}")


if __name__ == "__main__":
    main()
