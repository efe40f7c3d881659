"""The methods of PrivateKMedian at epsilon = 0.5, 1 and 2, on vectors with Euclidean distances.

`python -m experiments.demand_epsilons` makes the runs and saves the figure, the table and the JSON.
A demand has 2,000 different points, or all of its groups if they have fewer; k = 10. Each method
has all of epsilon (add-remove, pure). Costs are divided by that of `KMedian` with restarts, without
privacy.
"""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import numpy as np
from benchmarks.report import table

from experiments.fan_costs import DEMANDS, RESULTS, SWAPS, optimum, repetitions, save
from experiments.fan_data import clusters, mnist_rows
from kvariates.palette import PALETTE
from kvariates.privacy.budget import Loss
from kvariates.privacy.secret import Secret
from kvariates.private_methods.demand_candidates import DemandCandidates
from kvariates.private_methods.demand_counts import DemandCells, DemandHst
from kvariates.private_methods.private_swaps import DemandLocalSearch
from kvariates.private_methods.task import DemandTask, PrivateMethod
from kvariates.report.pictures import FAINT, INK, picture

STEM, K, SIZE, EPSILONS = "demand_epsilons", 10, 2_000, (0.5, 1.0, 2.0)
METHODS: dict[str, PrivateMethod[DemandTask]] = {
    "candidates": DemandCandidates(),
    "candidates, 20 swaps": DemandCandidates(swaps=SWAPS),
    "cells": DemandCells(),
    "hst": DemandHst(n_swaps=SWAPS),
    "local-search": DemandLocalSearch(SWAPS),
}

Runs = dict[str, dict[str, list[list[float]]]]
"""From "universe, demand, epsilon" and a method to [cost / optimum, seconds] of every run."""


def measure(runs: int) -> Runs:
    """One repetition after the other, each with a demand of its own, saved as it goes.

    A saved run is continued; to start again, delete its JSON.
    """
    path = (RESULTS / STEM).with_suffix(".json")
    found: Runs = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for number, universe, kind in itertools.product(
        range(runs), (clusters(), mnist_rows("euclidean")), DEMANDS
    ):
        keys = {f"{universe.name}, {kind}, {epsilon:g}": epsilon for epsilon in EPSILONS}
        if all(len(found.get(key, {}).get(name, [])) > number for key in keys for name in METHODS):
            continue
        rng = np.random.default_rng([number, len(kind)])
        demand = universe.demand(kind, rng, SIZE)
        best = optimum(universe, demand, K, rng)
        for (key, epsilon), (name, method) in itertools.product(keys.items(), METHODS.items()):
            task = DemandTask(
                universe.space, Secret(demand), K, "add-remove", Loss(epsilon, 0.0), rng,
                universe.diameter,
            )  # fmt: skip
            begin = time.monotonic()
            medoids = method(task).centers
            seconds = time.monotonic() - begin
            line = found.setdefault(key, {}).setdefault(name, [])
            line.append([universe.cost(medoids, demand) / best, seconds])
        path.write_text(f"{json.dumps(found)}\n", encoding="utf-8")
        print(f"{number + 1} of {runs}: {universe.name}, {kind}", flush=True)
    return found


def words(found: Runs, runs: int) -> str:
    """The table, seconds, and verdicts."""
    rows, ranks = [], {"cells": 0, "hst": 0, "local-search": 0}
    for key, line in found.items():
        costs = {name: np.array(values)[:, 0] for name, values in line.items()}
        error = {name: each.std(ddof=1) / np.sqrt(runs) if runs > 1 else 0.0
                 for name, each in costs.items()}  # fmt: skip
        cells = [f"{costs[name].mean():.3f} ±{error[name]:.3f}" for name in METHODS]
        rows.append([key, *cells])
        for name in ranks:
            ranks[name] += costs["candidates"].mean() <= costs[name].mean()
    seconds = {
        name: np.mean([one[1] for line in found.values() for one in line[name]]) for name in METHODS
    }
    head = (
        f"python -m experiments.{STEM}: k = {K}, demand of {SIZE:,}, {runs} repetitions (± is a "
        "standard error). Cost / optimum."
    )
    took = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
    verdicts = [
        f"candidates cost at most as much as {name}: {wins} of {len(found)} rows"
        for name, wins in ranks.items()
    ]
    parts = [head, table(["set, demand, epsilon", *METHODS], rows), f"Mean seconds: {took}."]
    return "\n\n".join([*parts, "\n".join(verdicts)])


def draw(path: Path, found: Runs) -> None:
    """A line for each method, a panel for each set and demand."""
    panels = list(dict.fromkeys(key.rsplit(", ", 1)[0] for key in found))
    with picture(path, (4.5 * len(panels), 4.5), columns=len(panels)) as (_, every):
        for axes, panel in zip(every, panels, strict=True):
            for color, name in zip(PALETTE, METHODS, strict=False):
                means = [
                    np.mean([one[0] for one in found[f"{panel}, {e:g}"][name]]) for e in EPSILONS
                ]
                axes.plot(EPSILONS, means, marker="o", color=color, label=name)
            axes.axhline(1.0, color=FAINT)
            axes.set_title(panel, color=INK)
            axes.set_xlabel("epsilon")
            axes.set_ylabel("cost / optimum")
        every[2].legend(frameon=False, fontsize=8)


def main() -> None:
    """Measure, print and save."""
    runs = repetitions(STEM)
    found = measure(runs)
    text = words(found, runs)
    print(text)
    save(STEM, text, lambda path: draw(path, found))


if __name__ == "__main__":
    main()
