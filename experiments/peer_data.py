"""Rows that belong to peers: random boxes as in Figure 3 of Nock et al. 2016, and their spread."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from benchmarks.workloads import Array

SIDE = 0.3  # the largest side of a small box, in a cube of side 1


@dataclass(frozen=True, eq=False)
class PeerRows:
    """Rows, and the number 0..n-1 of the peer that holds each."""

    X: Array
    peer: Array
    n: int

    def spread(self) -> float:
        """The sum of the squared distances of all rows to the mean of their peer."""
        order = np.argsort(self.peer, kind="stable")
        peer, X = self.peer[order], self.X[order]
        firsts = np.flatnonzero(np.diff(peer, prepend=-1))
        sizes = np.diff(firsts, append=len(peer))
        means = np.add.reduceat(X, firsts) / sizes[:, None]
        return float(np.square(X - np.repeat(means, sizes, axis=0)).sum())


@dataclass(frozen=True, eq=False)
class Boxes:
    """The lowest corner and the sides of each box, as arrays of shape (n, d)."""

    low: Array
    sides: Array

    def rows(self, box: Array, rng: np.random.Generator) -> Array:
        """One uniform row in each of these boxes."""
        u = rng.random((len(box), self.low.shape[1]))
        return np.asarray(self.low[box] + self.sides[box] * u)


def small_boxes(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """Boxes whose middles are uniform in the unit cube, with sides uniform in (0, 0.3)."""
    middles, sides = rng.random((n, d)), SIDE * rng.random((n, d))
    return Boxes(middles - sides / 2, sides)


def corner_boxes(n: int, d: int, rng: np.random.Generator) -> Boxes:
    """Boxes between two uniform corners in the unit cube."""
    a, b = rng.random((2, n, d))
    return Boxes(np.minimum(a, b), np.abs(a - b))


MakeBoxes = Callable[[int, int, np.random.Generator], Boxes]
BOXES: dict[str, MakeBoxes] = {"small boxes": small_boxes, "two corners": corner_boxes}


def box_peers(make: MakeBoxes, sizes: Array, d: int, rng: np.random.Generator) -> PeerRows:
    """Peers of these sizes, each with rows uniform in a box of its own."""
    n = len(sizes)
    peer = np.repeat(np.arange(n), sizes)
    return PeerRows(make(n, d, rng).rows(peer, rng), peer, n)


def peer_sizes(rows: int, mean: int, rng: np.random.Generator) -> Array:
    """Sizes uniform in mean/2 .. 3 mean/2, until there are `rows` rows in all."""
    sizes: list[int] = []
    while sum(sizes) < rows:
        sizes.append(int(rng.integers(mean // 2, mean + mean // 2 + 1)))
    return np.array(sizes)


def moved(data: PeerRows, p: float, rng: np.random.Generator) -> PeerRows:
    """Each row moves with chance p % to a uniformly drawn peer, which may be its own."""
    moves = 100 * rng.random(len(data.peer)) < p
    peer = np.where(moves, rng.integers(data.n, size=len(data.peer)), data.peer)
    return replace(data, peer=peer)
