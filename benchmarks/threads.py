"""`python -m benchmarks.threads`: iterations of Lloyd on 1, 2, 4, ... threads, up to all cores.

Both libraries begin with the same rows and stop after the same number of iterations; scikit-learn
uses all cores. The median of three fits counts (of one fit, if scikit-learn takes over 5 seconds).
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable

from sklearn.cluster import KMeans as SklearnKMeans
from threadpoolctl import threadpool_limits

from benchmarks.embedding_data import Rows
from benchmarks.machine import cores
from kvariates import KMeans

CELLS = [  # rows, k, iterations
    (Rows("made", 50_000, 384), 1_000, 25),
    (Rows("made", 50_000, 384), 4_000, 25),
    (Rows("made", 50_000, 768), 1_000, 25),
    (Rows("uniform", 20_000, 784), 100, 20),
    (Rows("uniform", 100_000, 64), 256, 20),
    (Rows("uniform", 100_000, 16), 64, 20),
    (Rows("uniform", 1_000_000, 2), 64, 20),
]
SLOW = 5.0  # seconds


def seconds(fit: Callable[[], object]) -> float:
    runs: list[float] = []
    while len(runs) < 3 and not (runs and runs[0] > SLOW):
        begin = time.perf_counter()
        fit()
        runs.append(time.perf_counter() - begin)
    return statistics.median(runs)


def thread_counts(most: int) -> list[int]:
    counts = [1]
    while 2 * counts[-1] <= most:
        counts.append(2 * counts[-1])
    return counts if counts[-1] == most else [*counts, most]


def measure(rows: Rows, k: int, steps: int, threads: list[int]) -> str:
    """One row of the table."""
    X = rows.make()
    given = {"init": rows.start(X, k), "n_init": 1, "max_iter": steps, "tol": 0}
    ours = []
    for count in threads:
        with threadpool_limits(count):
            KMeans(k, **given).fit(X[: 2 * k])
            ours.append(seconds(lambda: KMeans(k, **given).fit(X)))
    theirs = seconds(lambda: SklearnKMeans(k, algorithm="lloyd", **given).fit(X))
    cells = [f"{s:.3f}" for s in ours] + [f"{ours[0] / ours[-1]:.1f}", f"{theirs / ours[-1]:.2f}"]
    return f"| {rows.name}, k={k} | {' | '.join(cells)} |"


def main() -> None:
    warnings.simplefilter("ignore")
    threads = thread_counts(cores())
    print(f"| rows | {' | '.join(map(str, threads))} | times faster | scikit-learn, all cores |")
    print("|" + "---|" * (len(threads) + 3))
    for rows, k, steps in CELLS:
        print(measure(rows, k, steps, threads), flush=True)


if __name__ == "__main__":
    main()
