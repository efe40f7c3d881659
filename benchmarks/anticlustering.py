"""Anti-clustering: `python -m benchmarks.anticlustering [--other PYTHON]`.

Two tables:

- growth: normal rows of 10 features in 20 groups, 1,000 to 1,000,000 rows. The largest difference
  of a group's mean from the mean of all rows, beside that of random groups of the same sizes.
- beside the PyPI package anti-clustering (with --other, the interpreter of an environment that has
  it; it needs numpy < 2). Its objective is the sum of distances within groups, of columns scaled to
  [0, 1]. Each of its methods runs with its defaults, on the same rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

from kvariates import AntiClustering

GROUPS, FEATURES = 20, 10
SIZES = (1_000, 10_000, 100_000, 1_000_000)
SHAPES = ((24, 2), (48, 3), (96, 3))
OTHER = """
import json, sys, time
import numpy as np, pandas as pd
import anti_clustering as ac
data, groups = np.load(sys.argv[1]), int(sys.argv[2])
frame = pd.DataFrame(data, columns=[str(j) for j in range(data.shape[1])])
methods = {
    "exchange": lambda: ac.ExchangeHeuristicAntiClustering(random_seed=0),
    "simulated annealing": lambda: ac.SimulatedAnnealingHeuristicAntiClustering(random_seed=0),
    "tabu search": lambda: ac.TabuSearchHeuristicAntiClustering(random_seed=0),
}
out = {}
for name, make in methods.items():
    begin = time.perf_counter()
    result = make().run(frame, list(frame.columns), None, groups, "group")
    out[name] = [time.perf_counter() - begin, result["group"].tolist()]
print(json.dumps(out))
"""


def largest_difference(X: np.ndarray, labels: np.ndarray) -> float:
    count = np.bincount(labels)
    means = np.stack([np.bincount(labels, column) / count for column in X.T])
    return float(np.abs(means - X.mean(axis=0)[:, None]).max())


def growth(n: int, objective: str) -> str:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, FEATURES))
    cpu, begin = time.process_time(), time.perf_counter()
    model = AntiClustering(GROUPS, objective=objective, random_state=0).fit(X)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
    ours = largest_difference(X, model.labels_)
    random = largest_difference(X, rng.permutation(model.labels_))
    spread = np.abs(model.balance_.spread_ratio - 1).max()
    return (
        f"| {objective} | {n:,} | {seconds:.2f} s | {cpu:.2f} s | {ours:.2g} | {random:.2g} | "
        f"{random / ours:,.0f} | {spread:.2g} |"
    )


def diversity(X: np.ndarray, labels: np.ndarray) -> float:
    """The objective of anti-clustering: distances of columns scaled to [0, 1]."""
    distances = np.sqrt(np.square(X[:, None] - X[None]).sum(axis=2))
    return float((distances * (labels[:, None] == labels)).sum() / 2)


def beside(python: str, n: int, groups: int) -> list[str]:
    X = np.random.default_rng(n).normal(size=(n, 5))
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        np.save(path, X)
        told = subprocess.run(
            [python, "-c", OTHER, str(path), str(groups)], check=True, capture_output=True,
            text=True, env={"PATH": os.environ["PATH"]},
        ).stdout  # fmt: skip
    begin = time.perf_counter()
    model = AntiClustering(groups, objective="diversity", random_state=0).fit(X)
    seconds = time.perf_counter() - begin
    ours = diversity(X, model.labels_)
    rows = [f"| {n} | {groups} | AntiClustering | {seconds:.4f} s | {ours:.6f} | |"]
    for name, (taken, labels) in json.loads(told).items():
        value = diversity(X, np.array(labels))
        rows.append(
            f"| {n} | {groups} | anti-clustering, {name} | {taken:.2f} s | {value:.6f} | "
            f"{taken / seconds:,.0f} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--other", help="an interpreter with the package anti-clustering")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the most rows")
    options = parser.parse_args()
    print(
        "| objective | rows | time | CPU time | largest difference of means | of random groups | "
        "ratio | largest change of spread |"
    )
    print("|" + "---|" * 8)
    for objective in ("variance", "kplus"):
        for n in SIZES:
            if n <= options.most:
                print(growth(n, objective), flush=True)
    if options.other:
        print("\n| rows | groups | method | time | sum of distances | time / ours |")
        print("|" + "---|" * 6)
        for n, groups in SHAPES:
            print("\n".join(beside(options.other, n, groups)), flush=True)


if __name__ == "__main__":
    main()
