"""20 Newsgroups (18,821 x 29,408, tf-idf of unit length), privately: sparse and dense recovery.

`python -m experiments.private_text` fits PrivateKMeans(20, radius=1, method="candidates") with each
recovery and saves the table and the JSON. A figure is the mean cost divided by the cost of KMeans.
It can be stopped: runs that the JSON has are not repeated.

    threshold   sums that noise alone could reach become 0 (ours, the default for CSR)
    picks       features are picked one by one (Balcan et al. 2017, Algorithm 5)
    dense       all sums (Algorithm 4, corrected noise)
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array, Data, data_folder, tf_idf

from kvariates import KMeans, PrivateKMeans
from kvariates.data.rows import Rows
from kvariates.private_methods.candidates import Candidates

RESULTS = Path(__file__).resolve().parent / "results"
K = 20
EPSILONS, DELTAS = (0.5, 1.0, 2.0), (1e-6, 0.0)
METHODS = {
    "threshold": Candidates(recovery="threshold"),
    "picks": Candidates(recovery="picks", picks=10, max_value=0.5),
    "dense": Candidates(recovery="dense"),
}


@dataclass(frozen=True)
class TextRun:
    """One private fit: its cost divided by that of KMeans, and its seconds."""

    recovery: str
    epsilon: float
    delta: float
    ratio: float
    seconds: float


def cost(X: Data, centers: Array) -> float:
    """The sum of squared distances to the nearest centre."""
    rows, exact = Rows.of(X), np.asarray(centers, np.float64)
    return float(rows.costs(exact, rows.nearest(exact)).sum())


def measure(X: Data, base: float, done: list[TextRun], wanted: int, file: Path) -> list[TextRun]:
    """All runs, `wanted` of each setting; saved after each."""
    runs = list(done)
    for number, delta, epsilon, name in itertools.product(
        range(1, wanted + 1), DELTAS, EPSILONS, METHODS
    ):
        of = [r for r in runs if (r.recovery, r.epsilon, r.delta) == (name, epsilon, delta)]
        if len(of) >= number:
            continue
        model = PrivateKMeans(K, epsilon=epsilon, delta=delta, radius=1.0, method=METHODS[name])
        begin = time.monotonic()
        model.fit(X)
        seconds = time.monotonic() - begin
        runs.append(TextRun(name, epsilon, delta, cost(X, model.cluster_centers_) / base, seconds))
        file.write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
        print(runs[-1], file=sys.stderr, flush=True)
    return runs


def text(runs: list[TextRun], least: dict[str, float]) -> str:
    """The table: means of ratios, their number of runs, and the slowest fit."""
    lines = []
    for delta, name in itertools.product(DELTAS, METHODS):
        cells = []
        for epsilon in EPSILONS:
            own = [
                r.ratio for r in runs if (r.recovery, r.epsilon, r.delta) == (name, epsilon, delta)
            ]
            cells.append(f"{np.mean(own):.3f} ({len(own)})" if own else "-")
        seconds = max(
            (r.seconds for r in runs if (r.recovery, r.delta) == (name, delta)), default=0
        )
        lines.append(["pure" if delta == 0 else f"{delta:g}", name, *cells, f"{seconds:.0f} s"])
    head = ["delta", "recovery", *(f"epsilon = {e:g}" for e in EPSILONS), "slowest"]
    points = ", ".join(f"{what} {value:.3f}" for what, value in least.items())
    title = f"Cost over that of KMeans (number of runs). Without any cluster: {points}."
    return f"{title}\n\n{table(head, lines)}\n"


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(prog="python -m experiments.private_text", description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="fits for each figure (3)")
    wanted = parser.parse_args().runs
    X = tf_idf(data_folder() / "sparse_text" / "20newsgroups_counts.npz", "float64")
    base = cost(X, KMeans(K, n_init=1, random_state=0).fit(X).cluster_centers_)
    mean = np.asarray(X.mean(axis=0)).reshape(1, -1)
    least = {"all at the origin": X.shape[0] / base, "all at the mean": cost(X, mean) / base}
    file = RESULTS / "private_text.json"
    done = [TextRun(**run) for run in json.loads(file.read_text())] if file.exists() else []
    words = text(measure(X, base, done, wanted, file), least)
    (RESULTS / "private_text.txt").write_text(words)
    print(words)


if __name__ == "__main__":
    main()
