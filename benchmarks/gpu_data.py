"""Rows on the card, the cells of `python -m benchmarks.gpu`, and float64 labels to compare with.

| rows | what |
|---|---|
| uniform | each value between 0 and 1 |
| embedding | one of 2,000 topics and noise, both of decaying spectrum, scaled to length 1 |

All values are float32 and drawn by torch, so that a seed gives other rows on a processor.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

TOPICS, NOISE = 2_000, 0.7
ITERATIONS = 25  # of Lloyd, from the same start
AT_ONCE = 2**27  # float64 values of a table of distances: 1 GiB


def torch() -> Any:
    """The module; it takes seconds to import, and `--help` does not need it."""
    return importlib.import_module("torch")


@dataclass(frozen=True)
class Rows:
    kind: str
    n: int
    d: int

    @property
    def name(self) -> str:
        return f"{self.kind} {self.n / 1000:g}kx{self.d}"

    def make(self, device: str) -> Any:
        t = torch()
        generator = t.Generator(device=device).manual_seed(self.n + self.d)
        if self.kind == "uniform":
            return t.rand(self.n, self.d, device=device, generator=generator)
        return _embedding(t, self.n, self.d, device, generator)


def _embedding(t: Any, n: int, d: int, device: str, generator: Any) -> Any:
    spectrum = t.arange(1, d + 1, device=device, dtype=t.float32) ** -0.5
    topics = t.randn(TOPICS, d, device=device, generator=generator) * spectrum
    X = t.randn(n, d, device=device, generator=generator) * spectrum * NOISE
    X += topics[t.randint(0, TOPICS, (n,), device=device, generator=generator)]
    return t.nn.functional.normalize(X, dim=1)


def start(X: Any, k: int) -> Any:
    """k distinct random rows."""
    t = torch()
    generator = t.Generator(device=X.device).manual_seed(k)
    return X[t.randperm(len(X), device=X.device, generator=generator)[:k]].clone()


@dataclass(frozen=True)
class Cell:
    """A task of a section. `most`: iterations; `beside`: what is measured beside ours."""

    section: str
    rows: Rows
    k: int
    most: int = ITERATIONS
    beside: tuple[str, ...] = ()
    init: str = "k-means++"

    @property
    def name(self) -> str:
        words = f"{self.section}: {self.rows.name} k={self.k}"
        words += f" {self.init}" if self.section == "seeding" else ""
        return words + (f" at most {self.most} iterations" if self.is_cut else "")

    @property
    def is_cut(self) -> bool:
        """A fit that is ended early, so that the CPU gets through."""
        return self.section == "fit" and self.most < 300

    @property
    def products(self) -> int:
        """n k d: half the operations of one iteration."""
        return self.rows.n * self.rows.d * self.k


KINDS = "uniform", "embedding"
LLOYD = (1_000_000, 128, 1_024), (819_200, 128, 8_192), (8_000_000, 32, 256), (500_000, 768, 1_000)
PEERS = "flash", "flash float16", "flashlib", "flashlib float16", "torch", "kvariates float16"


def cells(quick: bool = False) -> list[Cell]:
    small = 200 if quick else 1  # n and k are divided by this and its root
    root = 10 if quick else 1

    def rows(kind: str, n: int, d: int) -> Rows:
        return Rows(kind, n // small, d)

    lloyd = [
        Cell("lloyd", rows(kind, n, d), k // root, beside=PEERS)
        for n, d, k in LLOYD
        for kind in KINDS
    ]
    whole = rows("embedding", 1_000_000, 128)
    fit = [
        Cell("fit", whole, 1_024 // root, 300, ("cpu", "flash")),
        Cell("fit", whole, 8_192 // root, 10, ("cpu",)),  # n k d is above 1e12
    ]
    small_fits = [
        Cell("small", Rows("embedding", n, d), k, 300, ("cpu",))
        for n, d, k in ((1_000, 8, 8), (10_000, 16, 8), (10_000, 64, 100), (100_000, 32, 64))
    ]
    seeding = [
        Cell("seeding", rows(kind, 1_000_000, 128), 1_024 // root, 1, init=init)
        for kind, init in (
            ("uniform", "k-means++"),
            ("embedding", "k-means++"),
            ("embedding", "d2"),
            ("embedding", "k-means||"),
        )
    ]
    streamed = Cell("streamed", rows("uniform", 100_000_000, 16), 256 // root, 5)
    return [*lloyd, *fit, *small_fits, *seeding, streamed]


# --- what is true, in float64 ---------------------------------------------------------------------


def _parts(X: Any, centers: Any) -> Iterator[tuple[slice, Any, Any]]:
    """Some rows at a time: which, the rows in float64, and their nearest centres."""
    t = torch()
    C = centers.to(X.device, t.float64)
    half = (C * C).sum(1) / 2
    size = max(1, AT_ONCE // max(C.shape))
    for first in range(0, len(X), size):
        some = slice(first, first + size)
        x = X[some].to(t.float64)
        yield some, x, t.addmm(half, x, C.T, alpha=-1).argmin(1)


def _distances(x: Any, centers: Any, labels: Any) -> Any:
    t = torch()
    return ((x - centers.to(x.device, t.float64)[labels]) ** 2).sum(1)


def cost_of(X: Any, centers: Any) -> float:
    """The cost of the centres, each row at its nearest one."""
    return sum(float(_distances(x, centers, near).sum()) for _, x, near in _parts(X, centers))


def share_wrong(X: Any, centers: Any, labels: Any) -> float:
    """The share of rows whose label is further away than the nearest centre, in float64.

    Both distances are sums of squared differences, so that a row between two equally near centres
    is not counted.
    """
    wrong = 0
    for some, x, near in _parts(X, centers):
        told = labels[some].to(near.device, near.dtype)
        at = (told != near).nonzero()[:, 0]
        own, least = (_distances(x[at], centers, which[at]) for which in (told, near))
        wrong += int((own > least).sum())
    return wrong / len(X)
