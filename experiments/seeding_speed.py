"""The time of seedings: k-means|| compared with k-means++, global k-means with one fit.

`python -m experiments.seeding_speed` prints medians of three, on rows in groups and uniform ones:

| table | what |
|---|---|
| seeding | seconds of greedy and plain k-means++ and of k-means||, and its ratio to greedy |
| global | all solutions up to K and one fit of K clusters; exhaustive on the first 10,000 rows |
| embeddings | cost and processor time of whole fits with many clusters, beside the default |
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from benchmarks.embedding_data import Rows
from benchmarks.report import table
from benchmarks.workloads import Array

from kvariates import KMeans, global_kmeans, kmeans_parallel, kmeans_plusplus

KINDS = ("groups", "uniform")
SEEDED = ((100_000, 16, 256), (100_000, 64, 256), (100_000, 64, 1_024))
NESTED = (100_000, 16, 64)
EXHAUSTIVE = (10_000, 32)
REPEATS = 3
EMBEDDED, MANY = (Rows("real", 20_000, 384), Rows("made", 20_000, 384)), 2_000
INITS = ("k-means++", "k-means||", "hst", "d2", "random")
SEEDS = 5


def rows(kind: str, n: int, d: int, k: int) -> Array:
    """Float32 rows: k overlapping groups, or none."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, d))
    if kind == "groups":
        X = rng.uniform(size=(k, d))[rng.integers(k, size=n)] + 0.15 * rng.normal(size=(n, d))
    return X.astype(np.float32)


def seconds(run: Callable[[int], object]) -> float:
    """The median time of `run(seed)`."""
    times = []
    for seed in range(REPEATS):
        begin = time.perf_counter()
        run(seed)
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def seeding(kind: str, n: int, d: int, k: int) -> list[str]:
    """A line of the first table."""
    X = rows(kind, n, d, k)
    greedy = seconds(lambda seed: kmeans_plusplus(X, k, random_state=seed))
    plain = seconds(lambda seed: kmeans_plusplus(X, k, n_local_trials=1, random_state=seed))
    parallel = seconds(lambda seed: kmeans_parallel(X, k, random_state=seed))
    figures = (f"{greedy:.3f}", f"{plain:.3f}", f"{parallel:.3f}", f"{parallel / greedy:.2f}")
    return [kind, f"{n:,} x {d}", f"{k:,}", *figures]


def nested(kind: str) -> list[str]:
    """A line of the second table."""
    n, d, k = NESTED
    X = rows(kind, n, d, k)
    fit = seconds(lambda seed: KMeans(k, random_state=seed).fit(X))
    sampled = seconds(lambda seed: global_kmeans(X, k, random_state=seed))
    few, most = EXHAUSTIVE
    exhaustive = seconds(
        lambda seed: global_kmeans(X[:few], most, candidates="all", random_state=seed)
    )
    return [kind, f"{fit:.2f}", f"{sampled:.2f}", f"{sampled / fit:.1f}", f"{exhaustive:.2f}"]


def whole_fits(rows: Rows) -> list[list[str]]:
    """Lines of the third table."""
    X, lines, default = rows.make(), [], (1.0, 1.0)
    for init in INITS:
        costs, times = [], []
        for seed in range(SEEDS):
            begin = time.process_time()
            costs.append(KMeans(MANY, init=init, n_init=1, random_state=seed).fit(X).inertia_)
            times.append(time.process_time() - begin)
        if init == INITS[0]:
            default = statistics.mean(costs), statistics.mean(times)
        excess = [f"{100 * (cost / default[0] - 1):+.1f} %" for cost in (min(costs), max(costs))]
        lines.append([rows.name, init, *excess, f"{statistics.mean(times) / default[1]:.2f}"])
    return lines


def main() -> None:
    """Measure and print the tables."""
    head = ["", "rows", "k", "greedy", "plain", "k-means||", "k-means|| / greedy"]
    print(table(head, [seeding(kind, *shape) for kind in KINDS for shape in SEEDED]))
    (n, d, k), (few, most) = NESTED, EXHAUSTIVE
    head = ["", f"fit, {n:,} x {d}, k = {k}", f"all up to {k}", "ratio"]
    head.append(f"exhaustive, {few:,} rows up to {most}")
    print("\n" + table(head, [nested(kind) for kind in KINDS]))
    head = ["", f"k = {MANY}", "least cost", "most", "time beside the default"]
    there = [rows for rows in EMBEDDED if not rows.missing]
    print("\n" + table(head, [line for rows in there for line in whole_fits(rows)]))


if __name__ == "__main__":
    main()
