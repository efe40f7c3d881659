"""`python -m benchmarks.size_limits`: k-means with size limits, beside k-means-constrained.

| section | what |
|---|---|
| beside | fits from the same starting centres, five of them: median seconds, costs, limits |
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
from kvariates import KMeans, kmeans_plusplus

SHAPES = (1_000, 10), (1_000, 50), (10_000, 10), (10_000, 50)
FEATURES = 16
STARTS = 5
DATA = "uneven clusters", "no clusters"


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
    say("data             rows   k   seconds: ours  theirs  ratio   cost: ours / theirs, and ours")
    say("                                                           started from theirs   limits")
    for data, (n, k) in product(DATA, SHAPES):
        say(f"{data:15} {n:6} {k:3} {compared(data, n, k)}")


def compared(data: str, n: int, k: int) -> str:
    """The fits of both libraries from the same starts: median seconds, and costs."""
    tasks = [Task.of(data, n, k, 0.1, seed) for seed in range(STARTS)]
    models: dict[str, list[Any]] = {"ours": [], "theirs": []}
    result = race(
        {
            "ours": lambda i: models["ours"].append(tasks[i].ours()),
            "theirs": lambda i: models["theirs"].append(tasks[i].theirs()),
        },
        Patience(STARTS, STARTS, 0.0, np.inf),
    )
    ours, theirs = (result.timings[name].median for name in ("ours", "theirs"))
    models["after"] = [
        task.ours(model.cluster_centers_)
        for task, model in zip(tasks, models["theirs"], strict=True)
    ]
    costs = {name: np.array([*map(Task.cost, tasks, fitted)]) for name, fitted in models.items()}
    shares, after = costs["ours"] / costs["theirs"], costs["after"] / costs["theirs"]
    held = ", ".join(
        "all held" if all(map(Task.holds, tasks, fitted)) else "BROKEN"
        for fitted in models.values()
    )
    return (
        f"{ours:15.4f} {theirs:7.3f} {theirs / ours:6.0f}   mean {shares.mean():.4f}, "
        f"{shares.min():.4f} to {shares.max():.4f}; at most {after.max():.4f}   {held}"
    )


def large(say: Callable[[str], None]) -> None:
    for data in DATA:
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
