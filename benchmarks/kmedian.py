"""`make bench-kmedian`: k-median beside FasterPAM (kmedoids), and at sizes too large for it.

| section | what |
|---|---|
| pmed | thirty OR-Library networks with known optima: gaps, times, certified bounds |
| mnist | 10,000 x 784 under L2, distances included |
| scale | a million points, a road network, a grid of a million nodes: time and memory, each in a \
process of its own |
| growth | time over n, and the exponent it grows with |
| crossing | HST seeding beside k-median++ over k |
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import kmedian_data
from benchmarks.kmedian_data import Instance, grid, instances, plane, road
from benchmarks.timing import Patience, race
from benchmarks.workloads import data_folder
from kvariates import KMedian, hst_seeding, kmedian_plusplus
from kvariates.data.hst_tree import hst_seed
from kvariates.data.metric_spaces import DistanceMatrix
from kvariates.refining.medoid_search import find_medoids, search_task

SEEDS = 10
RESTARTS = 2000


def pmed(say: Callable[[str], None]) -> None:
    all_instances = instances()
    got = [pmed_race(one) for one in all_instances]
    say("pmed1 to pmed30, single runs, ten seeds   mean gap  best of ten  optimal  ms a run  ratio")
    for name, title in (
        ("FasterPAM", "kmedoids.fasterpam, random start"),
        ("quick", "our search alone, from HST, one restart"),
        ("search", "our search alone, from HST, three"),
        ("kvariates", "KMedian.fit, with all checks of D"),
    ):
        gap, best, ms = (float(np.mean([row[name][i] for row in got])) for i in range(3))
        hits = sum(row[name][1] < 1e-9 for row in got)
        ratio = np.exp(np.mean([np.log(row["FasterPAM"][2] / row[name][2]) for row in got]))
        say(f"{title:41} {gap:8.3%} {best:12.3%} {hits:5}/30 {ms:9.2f} {ratio:6.2f}")
    plain = [
        gap_of(one, KMedian(one.k, metric="precomputed", n_restarts=0)) for one in all_instances
    ]
    say(f"without restarts: mean gap {np.mean(plain):.3%}")
    pmed_optima(all_instances, say)


def gap_of(one: Instance, model: KMedian) -> float:
    costs = [model.set_params(random_state=seed).fit(one.D).inertia_ for seed in range(SEEDS)]
    return float(np.mean(costs) / one.optimum - 1)


def pmed_race(one: Instance) -> dict[str, tuple[float, float, float]]:
    import kmedoids

    costs: dict[str, list[float]] = {}

    def searched(seed: int, restarts: int) -> float:
        rng = np.random.default_rng(seed)
        space, most = DistanceMatrix(one.D), 10**9
        task = search_task(space, None, one.k, restarts=restarts, max_swaps=most, rng=rng)
        return find_medoids(task, lambda space, weight: hst_seed(space, one.k, weight, 1, rng)).cost

    def bare(_: int) -> None:
        costs["search"] = [searched(seed, 3) for seed in range(SEEDS)]

    def quick(_: int) -> None:
        costs["quick"] = [searched(seed, 1) for seed in range(SEEDS)]

    def ours(_: int) -> None:
        models = [KMedian(one.k, metric="precomputed", random_state=seed) for seed in range(SEEDS)]
        costs["kvariates"] = [model.fit(one.D).inertia_ for model in models]

    def theirs(_: int) -> None:
        costs["FasterPAM"] = [
            kmedoids.fasterpam(one.D, one.k, max_iter=100, random_state=seed).loss
            for seed in range(SEEDS)
        ]

    tasks = {"quick": quick, "search": bare, "kvariates": ours, "FasterPAM": theirs}
    timings = race(tasks, Patience(5, 5)).timings
    return {
        name: (
            float(np.mean(made)) / one.optimum - 1,
            min(made) / one.optimum - 1,
            1e3 * timings[name].median / SEEDS,
        )
        for name, made in costs.items()
    }


def pmed_optima(all_instances: list[Instance], say: Callable[[str], None]) -> None:
    hits, gaps, seconds, bound_seconds = 0, [], [], []
    for one in all_instances:
        begin = time.perf_counter()
        model = KMedian(one.k, metric="precomputed", n_restarts=RESTARTS, random_state=0)
        hits += model.fit(one.D).inertia_ < one.optimum * (1 + 1e-9)
        seconds.append(time.perf_counter() - begin)
        begin = time.perf_counter()
        model = KMedian(one.k, metric="precomputed", certify=True, random_state=0).fit(one.D)
        bound_seconds.append(time.perf_counter() - begin)
        gaps.append(1 - model.certificate_.lower_bound / one.optimum)
        assert model.certificate_.lower_bound <= one.optimum
    say(f"with {RESTARTS} restarts: optimal on {hits} of 30, {np.mean(seconds):.2f} s each")
    say(
        f"certified lower bound: {np.mean(gaps):.3%} below the optimum on average, "
        f"{max(gaps):.3%} at most, {np.mean(bound_seconds):.2f} s each"
    )


def mnist(say: Callable[[str], None]) -> None:
    import kmedoids
    from sklearn.metrics.pairwise import euclidean_distances

    X = kmedian_data.mnist()
    for k in (10, 100):
        costs: dict[str, list[float]] = {"kvariates": [], "FasterPAM": []}

        def ours(seed: int, k: int = k, costs: Any = costs) -> None:
            costs["kvariates"].append(KMedian(k, random_state=seed).fit(X).inertia_)

        def theirs(seed: int, k: int = k, costs: Any = costs) -> None:
            D = euclidean_distances(X)
            costs["FasterPAM"].append(kmedoids.fasterpam(D, k, random_state=seed).loss)

        timings = race({"kvariates": ours, "FasterPAM": theirs}, Patience(3, 3)).timings
        us, them = timings["kvariates"].median, timings["FasterPAM"].median
        cost = {name: float(np.mean(made)) for name, made in costs.items()}
        say(
            f"MNIST 10,000 x 784, k = {k}: {us:.2f} s, cost {cost['kvariates']:.1f}; FasterPAM "
            f"{them:.2f} s, cost {cost['FasterPAM']:.1f}: {them / us:.1f} times as fast"
        )


# Each of these runs in a process of its own, which measures its memory.


def measured(model: KMedian, X: Any) -> None:
    """Fit with the defaults: three restarts on the sample of vectors, none on a graph."""
    begin = time.perf_counter()
    model.fit(X)
    seconds = time.perf_counter() - begin
    status = Path("/proc/self/status").read_text()  # getrusage would include the parent
    peak = int(status.split("VmHWM:")[1].split()[0]) / 2**20
    print(json.dumps({"seconds": seconds, "peak_gb": peak, "cost": model.inertia_}))


ALONE: dict[str, Callable[[int], None]] = {
    "plane": lambda n: measured(KMedian(100, metric="manhattan", random_state=0), plane(n)),
    "road": lambda _: measured(KMedian(50, metric="graph", random_state=0), road()),
    "grid": lambda side: measured(KMedian(50, metric="graph", random_state=0), grid(side)),
}


def alone(what: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.kmedian", "--alone", what, str(size)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, float] = json.loads(out.splitlines()[-1])
    return found


def scale(say: Callable[[str], None]) -> None:
    for title, what, size in (
        ("1,000,000 x 2, L1, k = 100", "plane", 10**6),
        ("San Joaquin roads, 18,263 nodes, k = 50", "road", 0),
        ("grid of 1,000,000 nodes, k = 50", "grid", 1000),
    ):
        got = alone(what, size)
        say(
            f"{title}: {got['seconds']:.1f} s, peak {got['peak_gb']:.2f} GB, cost {got['cost']:.6g}"
        )


def growth(say: Callable[[str], None]) -> None:
    for title, what, sizes in (
        ("plane, L1, k = 100", "plane", [31_250 * 2**i for i in range(6)]),
        ("grid, k = 50", "grid", [250, 354, 500, 707, 1000]),
    ):
        rows = [(size**2 if what == "grid" else size, alone(what, size)) for size in sizes]
        say(f"{title}: n, seconds, peak GB")
        for n, got in rows:
            say(f"  {n:9,} {got['seconds']:8.2f} {got['peak_gb']:6.2f}")
        slope = np.polyfit(*np.log([(n, got["seconds"]) for n, got in rows]).T, 1)[0]
        say(f"  seconds grow like n^{slope:.2f}")


def crossing(say: Callable[[str], None]) -> None:
    for n in (20_000, 200_000):
        X = kmedian_data.cube(n)
        say(f"seeding {n:,} x 8, L2: k, HST s, k-median++ s (log2 n = {np.log2(n):.1f})")
        for k in (4, 8, 16, 32, 64, 128):
            tasks = {
                "hst": lambda seed, k=k, X=X: hst_seeding(X, k, random_state=seed),
                "++": lambda seed, k=k, X=X: kmedian_plusplus(X, k, random_state=seed),
            }
            timings = race(tasks, Patience(5, 5)).timings
            say(f"  {k:4} {timings['hst'].median:8.4f} {timings['++'].median:8.4f}")


SECTIONS = {"pmed": pmed, "mnist": mnist, "scale": scale, "growth": growth, "crossing": crossing}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kmedian", description=__doc__)
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, by comma")
    parser.add_argument("--alone", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.alone:
        ALONE[chosen.alone[0]](int(chosen.alone[1]))
        return
    for name in chosen.only.split(","):
        needs = {"pmed": "pmed", "mnist": "mnist", "scale": "graphs"}.get(name)
        if needs and not (data_folder() / needs).exists():
            print(f"{name}: left out, no {needs} in the data folder (KVARIATES_DATA)")
            continue
        SECTIONS[name](lambda words: print(words, flush=True))


if __name__ == "__main__":
    main()
