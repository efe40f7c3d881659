"""Counts how often `choose_k` is right on sets with a known number of clusters, and on noise.

`python -m experiments.choosing` prints a line for each kind of set, and the wrong answers.
The parameters of `k_selection` were chosen on the sets of `--half tuned`; the default is the rest.
`--real` prints the answers for real sets instead, for several seeds.

| kind | what |
|---|---|
| seven shapes | 2 to 50 clusters in 2 to 30 dimensions, next centres at least 7 deviations apart |
| rounded | three of these shapes, rounded to multiples of their deviation |
| text | tf-idf (CSR) of documents of 3 to 20 topics |
| sipu | the sets s, a, unbalance, dim of the data folder; the same in both halves |
| noise | no clusters, rounded numbers and counts among them: right is "no clear answer" |
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from benchmarks.report import table
from benchmarks.workloads import Array, Data, data_folder
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from kvariates import choose_k

SHAPES = ("equal", "sizes", "spreads", "ellipses", "balls", "tails", "groups")
ROUNDED = ("equal", "sizes", "ellipses")
GRID = (  # clusters, features, rows
    (2, 2, 300), (3, 10, 400), (5, 3, 500), (8, 30, 800), (12, 2, 1500), (20, 5, 2000),
    (35, 10, 3000), (50, 3, 5000), (50, 20, 4000),
)  # fmt: skip
TOPICS = ((3, 400), (8, 1200), (20, 3000))
NOISES = (
    "uniform", "normal", "stretched", "t3", "cauchy", "lognormal", "exponential",
    "rounded", "poisson", "ages",
)  # fmt: skip
NOISE_SHAPES = ((3000, 1), (300, 1), (1000, 2), (500, 10), (300, 40))
SIPU = ("s1", "s2", "s3", "a1", "a2", "unbalance", "dim032", "dim064", "dim128", "dim256")
SEEDS = {"tuned": (0,), "rest": (1, 2, 3)}


class KnownSet(NamedTuple):
    kind: str
    name: str
    X: Data
    k: int  # 1 for noise


def centers_apart(k: int, d: int, apart: float, rng: np.random.Generator) -> Array:
    """Points, uniform in a cube, of which no two are closer than `apart`."""
    side, centers, misses = 1.3 * apart * k ** (1 / d), np.empty((0, d)), 0
    while len(centers) < k:
        fresh = rng.uniform(0, side, size=d)
        if ((centers - fresh) ** 2).sum(axis=1).min(initial=np.inf) >= apart**2:
            centers = np.vstack([centers, fresh])
        elif (misses := misses + 1) % 50 == 0:
            side *= 1.1
    return centers


def planted(shape: str, k: int, d: int, n: int, seed: int) -> Array:
    """Rows in k clusters of one of SHAPES, each of ten rows or more."""
    rng = np.random.default_rng([k, d, n, seed, SHAPES.index(shape)])
    share = rng.uniform(1, 5, size=k) if shape == "sizes" else np.ones(k)
    more = rng.choice(k, n - 10 * k, p=share / share.sum())
    labels = np.r_[np.repeat(np.arange(k), 10), more]
    if shape == "groups":  # up to three clusters each, and the groups are far apart
        near, far = centers_apart(3, d, 7, rng), centers_apart(-(-k // 3), d, 60, rng)
        centers = (far[:, None] + near).reshape(-1, d)[:k]
    else:
        centers = centers_apart(k, d, 7, rng)
    noise = rng.normal(size=(n, d))
    if shape == "spreads":
        noise *= rng.uniform(0.4, 1, size=k)[labels, None]
    elif shape == "ellipses":
        turns = np.linalg.qr(rng.normal(size=(k, d, d)))[0] * rng.uniform(0.3, 1, size=(k, 1, d))
        noise = np.einsum("nij,nj->ni", turns[labels], noise)
    elif shape == "balls":
        noise /= np.linalg.norm(noise, axis=1, keepdims=True)
        noise *= 2.5 * rng.random(n)[:, None] ** (1 / d)
    elif shape == "tails":
        noise *= 0.7 * np.sqrt(5 / rng.chisquare(5, size=n))[:, None]
    return np.asarray(centers[labels] + noise)


def topics(k: int, n: int, seed: int, words: int = 3000) -> Data:
    """tf-idf of n documents. A third of the words of a document are of its topic."""
    from sklearn.feature_extraction.text import TfidfTransformer

    rng = np.random.default_rng([k, n, seed])
    laws = np.tile(0.65 / np.arange(1, words + 1), (k, 1))
    laws *= 0.65 / laws.sum(axis=1, keepdims=True)
    own = np.arange(1, 61) ** -0.7
    for law in laws:
        law[rng.choice(np.arange(50, words), 60, replace=False)] += 0.35 * own / own.sum()
    laws /= laws.sum(axis=1, keepdims=True)
    pairs = zip(rng.integers(k, size=n), 20 + rng.poisson(120, size=n), strict=True)
    counts = np.stack([rng.multinomial(size, laws[topic]) for topic, size in pairs])
    return sparse.csr_array(TfidfTransformer().fit_transform(sparse.csr_array(counts * 1.0)))


def noise(kind: str, n: int, d: int, seed: int) -> Array:
    """Rows without clusters, of one of NOISES."""
    rng = np.random.default_rng([n, d, seed, NOISES.index(kind)])
    normal = rng.normal(size=(n, d))
    made = {
        "uniform": lambda: rng.random((n, d)),
        "normal": lambda: normal,
        "stretched": lambda: normal * np.geomspace(1, 10, d),
        "t3": lambda: normal * np.sqrt(3 / rng.chisquare(3, size=n))[:, None],
        "cauchy": lambda: rng.standard_cauchy(size=(n, d)),
        "lognormal": lambda: np.exp(normal),
        "exponential": lambda: rng.exponential(size=(n, d)),
        "rounded": lambda: np.round(3 * normal),
        "poisson": lambda: rng.poisson(2, size=(n, d)).astype(np.float64),
        "ages": lambda: np.round(40 + 12 * normal),
    }
    return np.asarray(made[kind]())


def known_sets(half: str) -> Iterator[KnownSet]:
    """All sets of one half."""
    for seed in SEEDS[half]:
        for shape in SHAPES:
            for k, d, n in GRID:
                name = f"k = {k}, d = {d}, seed {seed}"
                yield KnownSet(shape, name, planted(shape, k, d, n, seed), k)
        for shape, (k, d, n) in product(ROUNDED, GRID):
            name = f"{shape}, k = {k}, d = {d}, seed {seed}"
            yield KnownSet("rounded", name, np.round(planted(shape, k, d, n, seed)), k)
        for k, n in TOPICS:
            yield KnownSet("text", f"k = {k}, seed {seed}", topics(k, n, seed), k)
        for kind in NOISES:
            for n, d in NOISE_SHAPES:
                yield KnownSet("noise", f"{kind}, d = {d}, seed {seed}", noise(kind, n, d, seed), 1)
    for name in SIPU:
        if (path := data_folder() / f"sipu/{name}.npz").exists():
            with np.load(path, allow_pickle=False) as kept:
                X = np.ascontiguousarray(kept["X"], dtype=np.float64)
                yield KnownSet("sipu", name, X, len(kept["centers"]))


def real_sets() -> Iterator[tuple[str, Array]]:
    """Names and scaled rows of real sets; those of the data folder if it exists."""
    for load in (load_iris, load_wine, load_digits, load_breast_cancer):
        yield load.__name__.removeprefix("load_").replace("_", " "), load().data
    folder = data_folder()
    for name, columns in (("wholesale_customers", range(2, 8)), ("online_retail_rfm", (1, 2, 3))):
        path = folder / f"geo_demo/{name}.csv.gz"
        if path.exists():
            X = np.loadtxt(path, delimiter=",", skiprows=1, usecols=tuple(columns))
            yield f"{name.replace('_', ' ')}, log(1 + x)", np.log1p(np.maximum(X, 0))
    if (path := folder / "uci/covertype.npz").exists():
        with np.load(path, allow_pickle=False) as kept:
            some = np.random.default_rng(0).choice(len(kept["X"]), 5000, replace=False)
            yield "covertype, 5,000 rows, 10 columns", kept["X"][some, :10].astype(np.float64)


def print_real(seeds: int = 4) -> None:
    """Print what `choose_k` says about real sets."""
    for name, X in real_sets():
        scaled = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-9)
        choices = [choose_k(scaled, (1, 12), random_state=seed) for seed in range(seeds)]
        answers = ", ".join(f"{c.k}{' clear' * c.clear} (guess {c.guess})" for c in choices)
        print(f"{name}: k = {answers}\n  {choices[0].reason}")


def main() -> None:
    """Run `choose_k` on every set and print the counts."""
    parser = argparse.ArgumentParser(prog="python -m experiments.choosing", description=__doc__)
    parser.add_argument("--half", choices=SEEDS, default="rest")
    parser.add_argument("--real", action="store_true")
    chosen = parser.parse_args()
    if chosen.real:
        print_real()
        return
    begin, right, wrong = time.monotonic(), dict[str, list[bool]](), []
    for known in known_sets(chosen.half):
        highest = 12 if known.k == 1 else known.k + max(5, known.k // 4)
        choice = choose_k(known.X, (1, highest), random_state=0)
        good = choice.k == known.k and choice.clear == (known.k > 1)
        right.setdefault(known.kind, []).append(good)
        if not good:
            wrong.append([known.kind, known.name, str(choice.k), choice.reason])
    lines = [[kind, str(sum(good)), str(len(good))] for kind, good in right.items()]
    total = [good for kind in right for good in right[kind]]
    print(table(["", "right", "sets"], [*lines, ["all", str(sum(total)), str(len(total))]]))
    print("\n".join(["", *(f"wrong: {', '.join(words)}" for words in wrong)]))
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
