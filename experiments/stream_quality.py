"""How good the centres of a stream are: `python -m experiments.stream_quality`.

A stream is read once, in batches of 10,000 rows, and summarized by 20,000 synopses. The cost of the
centres is measured on all rows and compared with k-means on all rows in memory (100 %).

| row | what |
|---|---|
| full | `KMeans` on all rows, the best of three runs, as for all others but MiniBatchKMeans |
| coreset, lightweight, k-means#, reservoir | `StreamingKMeans` with this synopsis |
| uniform | `KMeans` on 20,000 rows that were drawn uniformly |
| MiniBatchKMeans | scikit-learn's `partial_fit`, one pass over the same batches |

| set | rows |
|---|---|
| covertype | 581,012 x 54, standardised |
| kdd99 | KDD Cup 99, the 10 % file, standardised |
| far | 10 million x 8: half of the clusters are large and overlap, the others are small and far |
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array, data_folder, standardised
from sklearn.cluster import MiniBatchKMeans

from kvariates import KMeans, StreamingKMeans
from kvariates.data.rows import Rows, total_cost
from kvariates.summaries.merge_reduce import SYNOPSES

BATCH, SYNOPSES_KEPT, RUNS = 10_000, 20_000, 3
FAR_ROWS, FAR_FEATURES = 10_000_000, 8


@dataclass(frozen=True)
class Result:
    """The costs of one method on one set, a seed each, and the seconds that all took."""

    data: str
    k: int
    method: str
    costs: tuple[float, ...]
    seconds: float

    @property
    def mean(self) -> float:
        """The mean cost."""
        return statistics.fmean(self.costs)


def uci(file: str) -> Callable[[], Array]:
    """A set of the data folder, with standardised columns."""

    def load() -> Array:
        X = np.load(data_folder() / file, allow_pickle=False)["X"]
        return standardised(np.ascontiguousarray(X, dtype=np.float32))

    return load


def far_clusters(rows: int = FAR_ROWS) -> Array:
    """50 wide clusters around the origin, and 50 small ones with a few hundred rows, far away."""
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(50, FAR_FEATURES))
    far = 100 * rng.normal(size=(50, FAR_FEATURES))
    X = rng.normal(size=(rows, FAR_FEATURES)).astype(np.float32)
    X += wide[rng.integers(50, size=rows)].astype(np.float32)
    few = rng.choice(rows, size=rows // 500, replace=False)
    X[few] = 0.1 * X[few] + far[rng.integers(50, size=len(few))]
    return X


SETS: dict[str, Callable[[], Array]] = {
    "covertype": uci("uci/covertype.npz"),
    "kdd99": uci("uci/kddcup99_10pct.npz"),
    "far": far_clusters,
}


def batches(X: Array) -> Iterator[Array]:
    """The rows in their order, 10,000 at a time."""
    return (X[first : first + BATCH] for first in range(0, len(X), BATCH))


def full(X: Array, k: int, seed: int) -> Array:
    """k-means on all rows."""
    return KMeans(k, n_init=RUNS, random_state=seed).fit(X).cluster_centers_


def uniform(X: Array, k: int, seed: int) -> Array:
    """k-means on a uniform sample."""
    some = np.random.default_rng(seed).choice(len(X), SYNOPSES_KEPT, replace=False)
    return KMeans(k, n_init=RUNS, random_state=seed).fit(X[some]).cluster_centers_


def streamed(synopsis: str) -> Callable[[Array, int, int], Array]:
    """k-means of the stream, with this synopsis."""

    def centers(X: Array, k: int, seed: int) -> Array:
        model = StreamingKMeans(
            k, n_synopses=SYNOPSES_KEPT, synopsis=synopsis, n_init=RUNS, random_state=seed
        )
        return model.fit(batches(X)).cluster_centers_

    return centers


def minibatch(X: Array, k: int, seed: int) -> Array:
    """scikit-learn's mini-batches, one pass."""
    model = MiniBatchKMeans(k, batch_size=BATCH, random_state=seed)
    for batch in batches(X):
        model.partial_fit(batch)
    return model.cluster_centers_


METHODS: dict[str, Callable[[Array, int, int], Array]] = {
    "full": full,
    **{name: streamed(name) for name in SYNOPSES},
    "uniform": uniform,
    "MiniBatchKMeans": minibatch,
}


def cost(X: Array, centers: Array) -> float:
    """The cost of all rows at these centres."""
    rows, at = Rows.of(X), np.ascontiguousarray(centers, dtype=np.float64)
    return total_cost(rows.costs(at, rows.nearest(at)), None)


def measure(name: str, X: Array, k: int, method: str, seeds: int) -> Result:
    """Run one method with every seed."""
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [METHODS[method](X, k, seed) for seed in range(seeds)]
    seconds = time.perf_counter() - begin
    return Result(name, k, method, tuple(cost(X, centers) for centers in found), seconds)


def text(results: list[Result]) -> str:
    """The results as a table, relative to k-means on all rows."""
    best = {(r.data, r.k): r.mean for r in results if r.method == "full"}
    lines = []
    for r in results:
        base = best.get((r.data, r.k), r.mean)
        worst = max(r.costs) / base
        lines.append(
            [f"{r.data} k={r.k} {r.method}", f"{r.mean / base:.2%}", f"{worst:.2%}",
             f"{r.seconds / len(r.costs):.2f}"]
        )  # fmt: skip
    return table(["", "mean cost", "worst", "s a fit"], lines)


def options(words: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.stream_quality", description=__doc__
    )
    parser.add_argument("--sets", default=",".join(SETS), help="sets, by comma")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, by comma")
    parser.add_argument("--k", default="20,100", help="numbers of clusters, by comma")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--full-seeds", type=int, default=3, help="for k-means on all rows")
    folder = Path(__file__).resolve().parent / "results"
    parser.add_argument("--save", type=Path, default=folder, help="folder of the JSON file")
    return parser.parse_args(words)


def main() -> None:
    """Measure, print the table and save the figures."""
    chosen, results = options(), list[Result]()
    for name in chosen.sets.split(","):
        X = SETS[name]()
        for k in map(int, chosen.k.split(",")):
            for method in chosen.methods.split(","):
                seeds = chosen.full_seeds if method == "full" else chosen.seeds
                results.append(measure(name, X, k, method, seeds))
                print(text(results).splitlines()[-1], file=sys.stderr, flush=True)
    print(text(results))
    save(results, chosen.save)


def save(results: list[Result], folder: Path) -> Path:
    """Save the figures as JSON."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"streams-{dt.datetime.now():%Y-%m-%d-%H%M}.json"
    content: dict[str, Any] = {"results": [asdict(r) for r in results]}
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return file


if __name__ == "__main__":
    main()
