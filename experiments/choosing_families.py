"""Counts how often `choose_k` calls a wrong number of clusters clear, on fifteen families of sets.

`python -m experiments.choosing_families` prints a line for each family, and all false answers.
The parameters of `k_selection` were chosen without a look at the families of HELD.

| column | what |
|---|---|
| false | "clear" with another k or other clusters than those of the set, or where there are none |
| found | "clear" with the k of the set and its clusters |
| same | sets with the same k, and the same "clear", for all seeds of `choose_k` |
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import starmap
from typing import NamedTuple

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array
from sklearn.metrics import adjusted_rand_score

from kvariates import choose_k

RIGHT = 0.9  # adjusted Rand index from which on the clusters of a set were found
HIGHEST = 10  # k that is tried

Random = np.random.Generator


class MadeSet(NamedTuple):
    X: Array
    labels: Array | None = None  # None: there are no separate clusters


def shape_of(rng: Random, most: int = 6) -> tuple[int, int]:
    """A number of rows and one of columns."""
    return int(rng.choice([100, 300, 1000, 3000])), int(rng.integers(1, most + 1))


def turned(X: Array, rng: Random) -> Array:
    """The rows after a random rotation, in half of the cases."""
    d = X.shape[1]
    return X @ np.linalg.qr(rng.normal(size=(d, d)))[0] if rng.random() < 0.5 else X


def noise_column(rng: Random) -> MadeSet:
    """Groups in one or two columns, at least 8 deviations apart, beside wide columns of noise."""
    n, groups = int(rng.choice([200, 400, 1000])), int(rng.integers(2, 5))
    labels = rng.integers(groups, size=n)
    steps = np.cumsum(np.r_[0, rng.uniform(8, 16, size=groups - 1)])
    own = steps[labels, None] + rng.normal(size=(n, int(rng.integers(1, 3))))
    wide = np.exp(rng.uniform(-2, 0.5)) * steps[-1] * rng.normal(size=(n, int(rng.integers(1, 3))))
    return MadeSet(turned(np.c_[own, wide], rng), labels)


def thin(rng: Random) -> MadeSet:
    """Four groups, ten times as long as wide, beside a column of noise."""
    n = int(rng.choice([400, 800, 2000]))
    labels = rng.integers(4, size=n)
    lines = np.c_[labels * rng.uniform(1.2, 3) + 0.15 * rng.normal(size=n), 3 * rng.normal(size=n)]
    return MadeSet(turned(np.c_[lines, rng.normal(size=n)], rng), labels)


def gradient(rng: Random) -> MadeSet:
    """A density that falls in one direction."""
    n, d = shape_of(rng)
    kind = rng.integers(3)
    long = [rng.exponential(size=n), rng.beta(1, 3, size=n), rng.power(3, size=n)][kind]
    return MadeSet(turned(np.c_[rng.uniform(2, 8) * long, rng.normal(size=(n, d))], rng))


def tails(rng: Random) -> MadeSet:
    """Student's t, Cauchy, Laplace and log-normal."""
    n, d = shape_of(rng)
    normal = rng.normal(size=(n, d))
    kind = rng.integers(4)
    if kind == 0:
        return MadeSet(normal * np.sqrt(2 / rng.chisquare(2, size=(n, 1))))
    if kind == 1:
        return MadeSet(rng.standard_cauchy(size=(n, d)))
    if kind == 2:
        return MadeSet(rng.laplace(size=(n, d)))
    return MadeSet(np.exp(rng.uniform(0.5, 1.5) * normal))


def box(rng: Random) -> MadeSet:
    """Uniform in a box with unequal sides, or in a ball."""
    n, d = shape_of(rng, 8)
    if rng.random() < 0.7:
        return MadeSet(turned(rng.random((n, d)) * rng.uniform(1, 6, size=d), rng))
    ball = rng.normal(size=(n, d))
    ball *= rng.random((n, 1)) ** (1 / d) / np.linalg.norm(ball, axis=1, keepdims=True)
    return MadeSet(ball)


def grid(rng: Random) -> MadeSet:
    """A lattice, rounded numbers, or counts."""
    n, d = shape_of(rng, 3)
    kind = rng.integers(3)
    if kind == 0:
        side = max(3, round(n ** (1 / d)))
        axes = np.meshgrid(*[np.arange(side)] * d)
        lattice = np.stack(axes, axis=-1).reshape(-1, d)
        return MadeSet(lattice + rng.uniform(0, 0.3) * rng.normal(size=lattice.shape))
    if kind == 1:
        return MadeSet(np.round(rng.uniform(0.7, 5) * rng.normal(size=(n, d))))
    return MadeSet(rng.poisson(rng.uniform(1, 9), size=(n, d)).astype(np.float64))


def few(rng: Random) -> MadeSet:
    """A handful of normal rows."""
    return MadeSet(rng.normal(size=(int(rng.integers(12, 60)), int(rng.integers(1, 11)))))


def ring(rng: Random) -> MadeSet:
    """A ring, an arc, or a sphere, with some width."""
    n, _ = shape_of(rng)
    if rng.random() < 0.3:
        ball = rng.normal(size=(n, 3))
        X = ball / np.linalg.norm(ball, axis=1, keepdims=True)
    else:
        angle = rng.uniform(0, rng.uniform(2, 2 * np.pi), size=n)
        X = np.c_[np.cos(angle), np.sin(angle)]
    return MadeSet(X + rng.uniform(0.02, 0.2) * rng.normal(size=X.shape))


def unequal(rng: Random) -> MadeSet:
    """Groups of unequal sizes and scales, whose edges are some deviations apart."""
    groups, d = int(rng.integers(2, 6)), int(rng.integers(2, 9))
    scales = np.exp(rng.uniform(0, np.log(8), size=groups))
    sizes = rng.choice([40, 100, 300, 1000], size=groups)
    centers = np.zeros((groups, d))
    for j in range(1, groups):
        away = rng.normal(size=d)
        away /= np.linalg.norm(away)
        far, needed = 1.0, 5 * (scales[:j] + scales[j])
        while (np.linalg.norm(far * away - centers[:j], axis=1) < needed).any():
            far *= 1.1
        centers[j] = far * away
    labels = np.repeat(np.arange(groups), sizes)
    noise = scales[labels, None] * rng.normal(size=(len(labels), d))
    return MadeSet(centers[labels] + noise, labels)


def high_dimension(rng: Random) -> MadeSet:
    """Normal rows in 30 to 200 dimensions, with a flat or a falling spectrum."""
    n, d = int(rng.choice([100, 300, 1000])), int(rng.integers(30, 201))
    return MadeSet(rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -rng.choice([0.0, 0.5, 1.0]))


def curve(rng: Random) -> MadeSet:
    """A parabola, a wave, or a spiral, with some width."""
    n, _ = shape_of(rng)
    at, kind = rng.random(n), rng.integers(3)
    if kind == 2:
        turn = 2 + 8 * at
        X = np.c_[turn * np.cos(turn), turn * np.sin(turn)] / 5
    else:
        X = np.c_[4 * at, 4 * (2 * at - 1) ** 2 if kind == 0 else np.sin(9 * at)]
    return MadeSet(X + rng.uniform(0.05, 0.3) * rng.normal(size=X.shape))


def funnel(rng: Random) -> MadeSet:
    """Rows whose deviation grows with one of the columns."""
    n, d = shape_of(rng, 4)
    along = rng.random(n)
    return MadeSet(np.c_[rng.uniform(1, 5) * along, along[:, None] * rng.normal(size=(n, d))])


def overlap(rng: Random) -> MadeSet:
    """Normal groups that are at most two deviations apart: their density has one peak."""
    n, d = shape_of(rng, 5)
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    apart = rng.uniform(0.5, 2) * rng.integers(2, size=n)
    return MadeSet(apart[:, None] * direction + rng.normal(size=(n, d)))


def simplex(rng: Random) -> MadeSet:
    """Shares that sum to one."""
    n, d = shape_of(rng)
    return MadeSet(rng.dirichlet(rng.uniform(1, 4, size=d + 1), size=n))


def core(rng: Random) -> MadeSet:
    """A dense core in a wide halo."""
    n, d = shape_of(rng)
    wide = np.where(rng.random(n) < rng.uniform(0.3, 0.7), 1, rng.uniform(3, 10))
    return MadeSet(wide[:, None] * rng.normal(size=(n, d)))


Family = Callable[[Random], MadeSet]
TUNED: tuple[Family, ...] = (
    noise_column, thin, gradient, tails, box, grid, few, ring, curve,
)  # fmt: skip
HELD: tuple[Family, ...] = (unequal, high_dimension, funnel, overlap, simplex, core)


class Answers(NamedTuple):
    """What `choose_k` says about one set, for several seeds."""

    family: str
    number: int
    known: int  # clusters; 1: none that are separate
    ks: list[int]
    clear: list[bool]
    right: list[bool]

    @property
    def false(self) -> int:
        return sum(clear and not right for clear, right in zip(self.clear, self.right, strict=True))

    @property
    def same(self) -> bool:
        return len(set(zip(self.ks, self.clear, strict=True))) == 1


def answers(family: Family, number: int, seeds: int) -> Answers:
    """What `choose_k` says about one set."""
    made = family(np.random.default_rng([(*TUNED, *HELD).index(family), number]))
    known = 1 if made.labels is None else int(made.labels.max()) + 1
    ks, clear, right = [], [], []
    for seed in range(seeds):
        choice = choose_k(made.X, (1, HIGHEST), random_state=seed)
        good = choice.k == known > 1
        if good:
            apart = ((made.X[:, None] - choice.centers) ** 2).sum(axis=2)
            good = adjusted_rand_score(made.labels, apart.argmin(axis=1)) >= RIGHT
        ks.append(choice.k)
        clear.append(choice.clear)
        right.append(good)
    return Answers(family.__name__, number, known, ks, clear, right)


def run(families: tuple[Family, ...], sets: range, seeds: int, jobs: int) -> Iterator[Answers]:
    """What `choose_k` says about some sets of each family."""
    tasks = [(family, number, seeds) for family in families for number in sets]
    if jobs == 1:
        yield from starmap(answers, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(answers, *zip(*tasks, strict=True), chunksize=4)


def main() -> None:
    """Run `choose_k` on every set and print the counts."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.choosing_families", description=__doc__
    )
    parser.add_argument("--families", choices=("tuned", "held", "all"), default="all")
    parser.add_argument("--sets", type=int, default=67, help="of each family")
    parser.add_argument("--first", type=int, default=0, help="number of the first set")
    parser.add_argument("--seeds", type=int, default=12, help="of choose_k, for each set")
    parser.add_argument("--jobs", type=int, default=1)
    chosen = parser.parse_args()
    families = {"tuned": TUNED, "held": HELD, "all": TUNED + HELD}[chosen.families]
    sets, begin = range(chosen.first, chosen.first + chosen.sets), time.monotonic()
    all_answers = list(run(families, sets, chosen.seeds, chosen.jobs))
    lines = []
    for name in [*(family.__name__ for family in families), "all"]:
        some = [each for each in all_answers if name in {each.family, "all"}]
        false = sum(each.false for each in some)
        found = sum(each.clear[0] and each.right[0] for each in some)
        grouped = sum(each.known > 1 for each in some)
        lines.append([
            name, str(len(some)), str(sum(each.clear[0] and not each.right[0] for each in some)),
            f"{false} of {len(some) * chosen.seeds}",
            f"{found} of {grouped}" if grouped else "-", str(sum(each.same for each in some)),
        ])  # fmt: skip
    print(table(["family", "sets", "false", "false, all seeds", "found", "same"], lines))
    for each in all_answers:
        if each.false:
            print(f"false: {each.family} {each.number} ({each.known}): k = {each.ks} {each.clear}")
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
