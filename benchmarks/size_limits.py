r"""`python -m benchmarks.size_limits`: k-means with size limits, beside k-means-constrained.

| section | what |
|---|---|
| beside | fits from the same starting centres, five of them, ours with and without \
swaps: median seconds, costs, limits |
| weights | rows of unequal weight: the stated gap as a part of the cost |
| large | a million rows in a hundred clusters, sizes within 10 % of the mean: the whole fit |

The two libraries need not end at the same centres: k-means-constrained assigns rows by distances
that are not squared, in units of 1/1000. It is not among the requirements of `make bench`:
install it beside kvariates.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import Patience, race
from benchmarks.workloads import data_folder
from kvariates import KMeans, kmeans_plusplus

SHAPES = (1_000, 10), (1_000, 50), (10_000, 10), (10_000, 50)
FEATURES = 16
STARTS = 5
DATA = "uneven clusters", "no clusters", "letter"  # the last: rows of the UCI set


@dataclass(frozen=True)
class Task:
    """Rows, starting centres and limits that both libraries get."""

    X: NDArray[np.float64]
    start: NDArray[np.float64]
    low: int
    high: int

    @classmethod
    def of(cls, data: str, n: int, k: int, share: float, seed: int = 0) -> Task:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, FEATURES))
        if data == DATA[0]:
            shares = rng.dirichlet(np.ones(k))
            X = 0.5 * X + rng.normal(size=(k, FEATURES))[rng.choice(k, n, p=shares)]
        elif data == DATA[2]:
            with np.load(data_folder() / "uci" / "letter.npz") as file:
                X = rng.permutation(file["X"].astype(np.float64))[:n]
        start, _ = kmeans_plusplus(X, k, random_state=seed)
        return cls(X, start, int(np.ceil((1 - share) * n / k)), int((1 + share) * n / k))

    def ours(self, start: Any = None, **options: Any) -> KMeans:
        start = self.start if start is None else start
        model = KMeans(len(start), init=start, size_min=self.low, size_max=self.high, **options)
        return model.fit(self.X)

    def theirs(self) -> Any:
        from k_means_constrained import KMeansConstrained

        k = len(self.start)
        model = KMeansConstrained(k, self.low, self.high, init=self.start, n_init=1)
        return model.fit(self.X)

    def cost(self, model: Any) -> float:
        return float(((self.X - model.cluster_centers_[model.labels_]) ** 2).sum())

    def holds(self, model: Any) -> bool:
        sizes = np.bincount(model.labels_, minlength=len(self.start))
        return bool(sizes.min() >= self.low and sizes.max() <= self.high)


def beside(say: Callable[[str], None]) -> None:
    say("seconds, how many times as fast, and our cost / theirs: Lloyd; with swaps; started where")
    say("theirs ended")
    for data, (n, k) in product(DATA, SHAPES):
        if data == DATA[2] and not data_folder().exists():
            continue
        say(f"{data:15} {n:6} {k:3} {compared(data, n, k)}")


def compared(data: str, n: int, k: int) -> str:
    """The fits of both libraries from the same starts: median seconds, costs, limits."""
    tasks = [Task.of(data, n, k, 0.1, seed) for seed in range(STARTS)]
    models: dict[str, list[Any]] = {"lloyd": [], "swap": [], "theirs": []}
    result = race(
        {
            "lloyd": lambda i: models["lloyd"].append(tasks[i].ours()),
            "swap": lambda i: models["swap"].append(
                tasks[i].ours(algorithm="swap", random_state=i)
            ),
            "theirs": lambda i: models["theirs"].append(tasks[i].theirs()),
        },
        Patience(STARTS, STARTS, 0.0, np.inf),
    )
    seconds = {name: result.timings[name].median for name in models}
    models["after"] = [
        task.ours(model.cluster_centers_)
        for task, model in zip(tasks, models["theirs"], strict=True)
    ]
    costs = {name: np.array([*map(Task.cost, tasks, fitted)]) for name, fitted in models.items()}
    parts = [f"theirs {seconds['theirs']:.3f} s"]
    for name in ("lloyd", "swap", "after"):
        share = costs[name] / costs["theirs"]
        part = f"{name} cost {share.mean():.4f} ({share.min():.4f} to {share.max():.4f})"
        if name in seconds:
            part += f" {seconds[name]:.3f} s, x {seconds['theirs'] / seconds[name]:.0f}"
        parts.append(part)
    held = all(all(map(Task.holds, tasks, fitted)) for fitted in models.values())
    return "; ".join([*parts, "limits held" if held else "LIMITS BROKEN"])


def large(say: Callable[[str], None]) -> None:
    for data in DATA[:2]:
        task = Task.of(data, 1_000_000, 100, 0.1)
        begin, used = time.perf_counter(), time.process_time()
        k = len(task.start)
        model = KMeans(k, size_min=task.low, size_max=task.high, random_state=0).fit(task.X)
        seconds, used = time.perf_counter() - begin, time.process_time() - used
        say(
            f"{data:16} 1,000,000 x {FEATURES}, k = {k}: {seconds:.1f} s "
            f"({used:.1f} s of processor time), {model.n_iter_} "
            f"iterations, cost {task.cost(model):.1f}, sizes from {task.low} to {task.high}: "
            f"{'held' if task.holds(model) else 'BROKEN'}"
        )


def weights(say: Callable[[str], None]) -> None:
    rng = np.random.default_rng(0)
    n, k = 10_000, 50
    laws = {
        "uniform": rng.random(n),
        "exponential": rng.exponential(size=n),
        "exponential squared": rng.exponential(size=n) ** 2,
    }
    X = Task.of(DATA[0], n, k, 0.1).X
    for (law, weight), share in product(laws.items(), (0.1, 0.01)):
        mean = weight.sum() / k
        model = KMeans(k, size_min=(1 - share) * mean, size_max=(1 + share) * mean, random_state=0)
        begin = time.perf_counter()
        model.fit(X, sample_weight=weight)
        seconds = time.perf_counter() - begin
        gap = model.assignment_gap_ / model.inertia_
        sizes = np.bincount(model.labels_, weight, k) / mean
        say(
            f"{law:20} weights, sizes within {share:.0%}: gap {gap:.4%} of the cost, sizes "
            f"{sizes.min():.4f} to {sizes.max():.4f} of the mean, {seconds:.2f} s"
        )


SECTIONS = {"beside": beside, "weights": weights, "large": large}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sections", nargs="*", metavar="section", help=", ".join(SECTIONS))
    for name in parser.parse_args().sections or SECTIONS:
        SECTIONS[name](lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
