"""The distortion of neighbours in a 2-HST, and how it grows with the number of points.

`python -m experiments.hst_distortion` grows trees over more and more points and prints the mean,
over trees and pairs, of tree distance / distance. The pairs are neighbours, which have the largest
distortion; that of far pairs is three to four for every n. The theory says O(log n): the growth per
doubling of n must become constant. In brackets: the mean / log2 n.

| set | points | pairs |
|---|---|---|
| line | 1, 2, 3, ... | one after the other |
| plane | uniform in the unit square | a point and its nearest |
| graph | a square grid with uniform random lengths | the shortest edge of a node |
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from benchmarks.report import table
from scipy import sparse
from scipy.spatial import cKDTree

from kvariates.data.graph import Graph
from kvariates.data.hst_tree import grow
from kvariates.data.metric_spaces import Ints, MetricSpace
from kvariates.data.metrics import Vectors

MOST_PAIRS = 2000


def line(n: int, _: np.random.Generator) -> tuple[MetricSpace, Ints]:
    """Whole numbers and their successors."""
    first = np.arange(n - 1)
    return Vectors(np.arange(float(n))[:, None], "euclidean"), np.stack([first, first + 1], axis=1)


def plane(n: int, rng: np.random.Generator) -> tuple[MetricSpace, Ints]:
    """Uniform points and their nearest neighbours."""
    X = rng.random((n, 2))
    return Vectors(X, "euclidean"), np.stack(
        [np.arange(n), cKDTree(X).query(X, 2)[1][:, 1]], axis=1
    )


def grid(n: int, rng: np.random.Generator) -> tuple[MetricSpace, Ints]:
    """A grid of random edge lengths and the shortest edge of every node."""
    side = int(np.sqrt(n))
    node = np.arange(side * side).reshape(side, side)
    u = np.concatenate([node[:, :-1].ravel(), node[:-1].ravel()])
    v = np.concatenate([node[:, 1:].ravel(), node[1:].ravel()])
    w = rng.uniform(0.1, 1, len(u))
    both = (np.concatenate([u, v]), np.concatenate([v, u]))
    csr = sparse.csr_array(sparse.coo_array((np.concatenate([w, w]), both)))
    ends = [
        (i, row[np.argmin(csr.data[csr.indptr[i] : csr.indptr[i + 1]])])
        for i in range(side * side)
        for row in (csr.indices[csr.indptr[i] : csr.indptr[i + 1]],)
    ]
    return Graph(csr), np.array(ends, dtype=np.int64)


SETS = {"line": line, "plane": plane, "graph": grid}


def mean_distortion(name: str, n: int, trees: int) -> float:
    """Over `trees` trees and at most MOST_PAIRS neighbours."""
    rng = np.random.default_rng(n)
    space, pairs = SETS[name](n, rng)
    pairs = pairs[rng.permutation(len(pairs))[:MOST_PAIRS]]
    true = np.array([space.distances(pair[:1], pair[1:])[0, 0] for pair in pairs])
    return float(np.mean([grow(space, rng).distances(pairs) / true for _ in range(trees)]))


def text(sizes: Sequence[int], trees: int) -> str:
    """The table: one row for each size, for each set the mean and the mean / log2 n."""
    head = ["n", *(cell for name in SETS for cell in (name, "(/ log2 n)"))]
    rows = []
    for n in sizes:
        means = [mean_distortion(name, n, trees) for name in SETS]
        rows.append(
            [f"{n:,}", *(c for m in means for c in (f"{m:.1f}", f"({m / np.log2(n):.2f})"))]
        )
    return table(head, rows)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments.hst_distortion", description=__doc__
    )
    parser.add_argument("--trees", type=int, default=40, help="per size")
    parser.add_argument("--largest", type=int, default=14, help="n goes up to 2 to this power")
    chosen = parser.parse_args()
    sizes = [2**i for i in range(7, chosen.largest + 1)]
    print("mean of tree distance / distance over neighbours\n")
    print(text(sizes, chosen.trees))


if __name__ == "__main__":
    main()
