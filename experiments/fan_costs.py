"""Runs of Fan et al. 2023, section 5: initial and final cost of k-median, private and not.

| name | start | then |
|---|---|---|
| rand, k-median++, HST | on the demand, not private | up to 20 best swaps that save alpha / k |
| DP-rand, DP-k-median++ | on all points, which are public | 20 private swaps, and one choice |
| DP-HST | noisy counts on a tree (8 levels) | 20 private swaps, and one choice |
| cells (ours) | noisy counts of public cells | k-median on the estimated demand |
| optimum | | the best of `KMedian` with restarts on the demand, without privacy |

The private ones cost epsilon = 1 (add-remove), the corrected noise. Methods that search have all of
epsilon here: no share of it is taken for the counts of clusters.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array

from experiments.fan_data import Universe
from kvariates.data.metric_spaces import DistanceRows, Ints
from kvariates.privacy.budget import Loss
from kvariates.privacy.secret import Secret
from kvariates.private_methods.demand_counts import DemandCells, DemandHst
from kvariates.private_methods.private_swaps import DemandLocalSearch
from kvariates.private_methods.task import DemandTask, PrivateMethod
from kvariates.refining import swaps
from kvariates.refining.medoid_search import find_medoids, search_task
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS

RESULTS = Path(__file__).resolve().parent / "results"
KS = (2, 5, 10, 15, 20)
DEMANDS = ("balanced", "imbalanced")
SWAPS, ALPHA, WINDOW = 20, 1e-3, 5
EPSILON = 1.0
PLAIN = {"rand": "random", "k-median++": "k-median++", "HST": "hst"}
PRIVATE: dict[str, PrivateMethod[DemandTask]] = {
    "DP-rand": DemandLocalSearch(SWAPS, "random"),
    "DP-k-median++": DemandLocalSearch(SWAPS, "k-median++"),
    "DP-HST": DemandHst(n_swaps=SWAPS),
    "cells": DemandCells(),
}
PAPERS = ("DP-rand", "DP-k-median++", "DP-HST")


@dataclass(frozen=True)
class Line:
    """One method on one universe, demand and k: means over repetitions, and standard errors.

    initial, final : of the start and of the result. mean, best : over the sets of a private search.
    iterations : until the moving average (5 sets) of the costs of a private search is least.
    """

    universe: str
    demand: str
    k: int
    method: str
    initial: float
    final: float
    error: float
    mean: float
    best: float
    iterations: float
    repetitions: int


def run(
    universe: Universe, kind: str, k: int, rng: np.random.Generator, epsilon: float
) -> dict[str, list[float]]:
    """The costs of all methods on one demand: initial, final, mean, best, iterations."""
    demand = universe.demand(kind, rng)
    found: dict[str, list[float]] = {}
    best = optimum(universe, demand, k, rng)
    found["optimum"] = [best, best, best, best, 0.0]
    for name, seeding in PLAIN.items():
        found[name] = _plain(universe, demand, k, seeding, rng)
    loss = Loss(epsilon, 0.0)
    for name, method in PRIVATE.items():
        task = DemandTask(
            universe.space, Secret(demand), k, "add-remove", loss, rng, universe.diameter
        )
        result = method(task)
        sets = list(result.path) or [result.centers]
        costs = np.array([universe.cost(one, demand) for one in sets])
        final = universe.cost(result.centers, demand)
        found[name] = [costs[0], final, costs.mean(), costs.min(), _iterations(costs)]
    return found


def _iterations(costs: Array) -> float:
    if len(costs) < WINDOW:
        return 0.0
    averages = np.convolve(costs, np.ones(WINDOW) / WINDOW, mode="valid")
    return float(np.argmin(averages) + WINDOW - 1)


def _weight(universe: Universe, demand: Ints) -> Array:
    return np.bincount(demand, minlength=universe.space.n).astype(np.float64)


def optimum(universe: Universe, demand: Ints, k: int, rng: np.random.Generator) -> float:
    """The cost of the best medoids of `KMedian` with restarts, without privacy."""
    seed = MEDOID_SEEDINGS["k-median++"].run
    task = search_task(
        universe.space, _weight(universe, demand), k, restarts=3, max_swaps=10**9, rng=rng
    )
    medoids = find_medoids(task, lambda s, w: seed(s, k, w, rng)).medoids
    return universe.cost(medoids, demand)


def _plain(
    universe: Universe, demand: Ints, k: int, seeding: str, rng: np.random.Generator
) -> list[float]:
    """Algorithm 1 of the paper from a start."""
    space = universe.space
    start = MEDOID_SEEDINGS[seeding].run(space, k, _weight(universe, demand), rng)
    first = universe.cost(start, demand)
    if not isinstance(space, DistanceRows):  # a large graph: the best of all swaps takes too long
        return [first, *[float("nan")] * 4]
    problem = swaps.MedoidProblem(space.measured_at(demand), None, demand)
    every = swaps.AllCandidates(np.arange(space.n_candidates), space.n_candidates)
    how = swaps.SwapSearch(every, swaps.Improving(ALPHA / k), max_swaps=SWAPS)
    end = swaps.swap_medoids(swaps.MedoidState.of(problem, start), how)
    final = universe.cost(end.medoids, demand)
    return [first, final, final, final, float(end.n_swaps)]


Runs = dict[str, list[dict[str, list[float]]]]
"""From "universe, demand, k" to the costs of every repetition."""


def measure(
    stem: str, universes: Sequence[Callable[[], Universe]], repetitions: int, ks: Sequence[int]
) -> Runs:
    """One repetition after the other over all demands and k, saved as it goes.

    A saved run is continued; to start again, delete its JSON. With no repetition nothing runs.
    """
    made, begin = [make() for make in universes if repetitions], time.monotonic()
    path = (RESULTS / stem).with_suffix(".json")
    runs: Runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for number, universe, kind, k in itertools.product(range(repetitions), made, DEMANDS, ks):
        found = runs.setdefault(f"{universe.name}, {kind}, {k}", [])
        if len(found) > number:
            continue
        rng = np.random.default_rng([number, k, len(kind)])
        found.append(run(universe, kind, k, rng, EPSILON))
        path.write_text(f"{json.dumps(runs)}\n", encoding="utf-8")
        spent = time.monotonic() - begin
        told = f"{number + 1}: {universe.name}, {kind}, k={k} ({spent:.0f} s)"
        print(told, file=sys.stderr, flush=True)
    return runs


def summarized(runs: Runs) -> list[Line]:
    """Means over the repetitions."""
    lines = []
    for key, found in runs.items():
        universe, kind, k = key.split(", ")
        for name in found[0]:
            values = np.array([one[name] for one in found])
            error = values[:, 1].std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
            initial, final, mean, best, iterations = values.mean(axis=0).tolist()
            lines.append(
                Line(universe, kind, int(k), name, initial, final, float(error), mean, best,
                     iterations, len(values))
            )  # fmt: skip
    return lines


# ---- tables ----


def cost_table(lines: Sequence[Line], universe: str, kind: str, what: str) -> str:
    """One column for each k, costs divided by the optimum."""
    own = [line for line in lines if (line.universe, line.demand) == (universe, kind)]
    ks = sorted({line.k for line in own})
    base = {line.k: line.final for line in own if line.method == "optimum"}
    rows = []
    for name in [*PLAIN, *PRIVATE]:
        mine = {line.k: line for line in own if line.method == name}
        if what == "initial" and name == "cells":
            continue  # it has no start
        if any(np.isnan(getattr(line, what)) for line in mine.values()):
            continue
        cells = [f"{getattr(mine[k], what) / base[k]:.3f}" for k in ks]
        if what == "final" and min(line.repetitions for line in mine.values()) > 1:
            cells = [f"{c} ±{mine[k].error / base[k]:.3f}" for c, k in zip(cells, ks, strict=True)]
        rows.append([name, *cells])
    rows.append(["optimum", *(f"{base[k]:.5g}" for k in ks)])
    title = f"{universe}, {kind} demand: {what} cost / optimum"
    return f"{title}\n{table(['', *(f'k={k}' for k in ks)], rows)}"


def number_table(lines: Sequence[Line], universe: str, what: str) -> str:
    """Numbers of the private searches on the imbalanced demand, as they are."""
    own = [x for x in lines if (x.universe, x.demand) == (universe, "imbalanced")]
    ks = sorted({line.k for line in own})
    rows = []
    for name in PRIVATE:
        if what == "iterations" and name == "cells":
            continue
        mine = {line.k: line for line in own if line.method == name}
        rows.append([name, *(f"{getattr(mine[k], what):.4g}" for k in ks)])
    return f"{universe}: {what}\n{table(['', *(f'k={k}' for k in ks)], rows)}"


def holds(lines: Sequence[Line], better: str, worse: Sequence[str], what: str, kind: str) -> str:
    """In how many rows `better` is below all of `worse`."""
    wins, rows = 0, 0
    for universe, k in sorted({(x.universe, x.k) for x in lines if x.demand == kind}):
        own = {
            x.method: getattr(x, what)
            for x in lines
            if (x.universe, x.demand, x.k) == (universe, kind, k)
        }
        rows += 1
        wins += all(own[better] <= own[name] for name in worse)
    return f"{wins} of {rows} rows"


def save(stem: str, text: str, draw: Callable[[Path], None]) -> None:
    """Write the tables and the picture."""
    path = RESULTS / stem
    path.with_suffix(".txt").write_text(f"{text}\n", encoding="utf-8")
    draw(path.with_suffix(".png"))


def load(*stems: str) -> list[Line]:
    """The lines of the runs that were saved."""
    found: list[Line] = []
    for stem in stems:
        path = (RESULTS / stem).with_suffix(".json")
        if not path.exists():
            raise SystemExit(f"Run python -m experiments.{stem} first: it makes the runs.")
        found += summarized(json.loads(path.read_text(encoding="utf-8")))
    return found


def repetitions(name: str) -> int:
    """The number of repetitions from the command line; 10 by default, as in the paper."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.{name}")
    parser.add_argument("--repetitions", type=int, default=10)
    return int(parser.parse_args().repetitions)
