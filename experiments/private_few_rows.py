"""Private k-means of few rows with pure epsilon: "lloyd", "candidates" and "tree".

`python -m experiments.private_few_rows` draws rows of public sets, fits each method a few times and
saves the table. It is what the rule of `PrivateKMeans(method="auto")` for four or more features was
chosen by: the column "rows" has epsilon n / (k d). "mean" is the cost if all centres are the mean
of all rows. Costs are divided by that of KMeans.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from benchmarks import private_data
from benchmarks.report import table
from benchmarks.workloads import Array, inertia

from kvariates import KMeans, PrivateKMeans

FILE = Path(__file__).resolve().parent / "results" / "private_few_rows.txt"
EPSILONS = (0.5, 1.0)
METHODS = ("lloyd", "candidates", "tree")
SETS = (  # name, rows, k
    ("higgs", 7500, 8), ("higgs", 7500, 16), ("california", 2000, 8), ("california", 1000, 16),
    ("elec", 1500, 8), ("elec", 700, 16), ("adult", 800, 8), ("gas", 2000, 8),
    ("letter", 2500, 8), ("letter", 2500, 16), ("covertype", 5000, 8), ("covertype", 15000, 16),
    ("mnist784", 20000, 10),
)  # fmt: skip


def line(X: Array, name: str, k: int, epsilon: float, runs: int) -> list[str]:
    """One row of the table."""
    base = float(KMeans(k, n_init=3, random_state=0).fit(X).inertia_)
    cells = [name, f"{len(X):,} x {X.shape[1]}", str(k), f"{epsilon:g}"]
    cells += [f"{epsilon * len(X) / (k * X.shape[1]):.1f}"]
    cells += [f"{inertia(X, X.mean(axis=0, keepdims=True)) / base:.2f}"]
    for method in METHODS:
        made = (PrivateKMeans(k, epsilon=epsilon, radius=1.0, method=method) for _ in range(runs))
        ratios = [inertia(X, model.fit(X).cluster_centers_) / base for model in made]
        cells.append(f"{np.mean(ratios):.2f}")
    return cells


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.private_few_rows", description=__doc__
    )
    parser.add_argument("--runs", type=int, default=5, help="fits for each figure (5)")
    runs, rows = parser.parse_args().runs, []
    warnings.simplefilter("ignore")  # of budgets that are too small, which is the question here
    rng = np.random.default_rng(0)
    for name, n, k in SETS:
        X = private_data.load(name)
        X = np.ascontiguousarray(X[rng.permutation(len(X))[:n]])
        rows += [line(X, name, k, epsilon, runs) for epsilon in EPSILONS]
        print(f"{name}, k = {k}", file=sys.stderr, flush=True)
    head = ["set", "size", "k", "epsilon", "rows", "mean", *METHODS]
    best = sum(float(row[-2]) <= min(float(row[-3]), float(row[-1])) for row in rows)
    words = f"{table(head, rows)}\n\ncandidates has the lowest cost in {best} of {len(rows)} rows"
    words += f" (means of {runs} runs).\n"
    FILE.write_text(words)
    print(words)


if __name__ == "__main__":
    main()
