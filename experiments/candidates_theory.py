"""`python -m experiments.candidates_theory`: the numbers of Balcan et al. as printed, timed.

Fits of ``PrivateKMeans(method=Candidates(theory=True))`` at epsilon = 1 and of the defaults, on
rows of two groups in five dimensions. Cost is relative to k-means without noise. Prints and saves a
table.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import ROOT, Array, inertia

from kvariates import KMeans, PrivateKMeans
from kvariates.private_methods.candidates import Candidates

SIZES = ((500, 2), (1000, 2), (2000, 2))  # rows and clusters
HEAD = ("rows", "k", "releases", "seconds", "processor seconds", "cost", "cost of the defaults")


def rows(n: int) -> Array:
    """Two groups around -0.5 and 0.5 in every coordinate, within [-1, 1]."""
    rng = np.random.default_rng(0)
    return np.clip(rng.normal(0, 0.1, (n, 5)) + rng.choice([-0.5, 0.5], (n, 1)), -1, 1)


def measure(n: int, k: int) -> dict[str, float]:
    """One fit of each."""
    X = rows(n)
    best = KMeans(k, n_init=5, random_state=0).fit(X).inertia_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the time, and a budget too small for the partition
        private = PrivateKMeans(k, epsilon=1.0, bounds=(-1, 1))
        defaults = private.set_params(method="candidates").fit(X).cluster_centers_
        started, used = time.perf_counter(), time.process_time()
        model = private.set_params(method=Candidates(theory=True)).fit(X)
    seconds = time.perf_counter() - started, time.process_time() - used
    costs = (inertia(X, centers) / best for centers in (model.cluster_centers_, defaults))
    return dict(zip(HEAD, (n, k, len(model.ledger_.charges), *seconds, *costs), strict=True))


def main() -> None:
    """Measure, print, save."""
    parser = argparse.ArgumentParser(prog="python -m experiments.candidates_theory")
    parser.add_argument("--save", type=Path, default=ROOT / "experiments" / "results")
    said = parser.parse_args()
    measured, file = [], said.save / "candidates_theory.json"
    for n, k in SIZES:
        measured.append(measure(n, k))
        lines = [[f"{round(one[name], 2):,g}" for name in HEAD] for one in measured]
        words = table(HEAD, lines)
        file.write_text(json.dumps(measured, indent=1) + "\n")
        file.with_suffix(".txt").write_text(words + "\n")
    print(words)


if __name__ == "__main__":
    main()
