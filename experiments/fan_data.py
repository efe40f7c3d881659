"""The points and demands of Fan et al. 2023, section 5.1, and two road networks.

| universe | points | groups for the demand |
|---|---|---|
| MNIST, l1 or l2 | 10,000 random digits | digits; "imbalanced" is 0 and 8 |
| graph, r = 1 or 100 | 3,000 nodes in ten clusters | clusters; "imbalanced" is two of them |
| clusters | 20,000 points in 5 dimensions, ten normal clusters | clusters; two of them |
| roads | San Joaquin 18,263 nodes, Porto Alegre 7,707 | the cells of 10 medoids; two of them |

A demand has 500 different points (or another number), of all points ("balanced") or of two groups.
The paper does not say how many nodes of two clusters of its graph are connected; here 10 random
edges join each pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from benchmarks.workloads import Array, data_folder
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceMatrix, Ints, MetricSpace
from kvariates.data.metrics import Vectors
from kvariates.refining.medoid_search import find_medoids, search_task
from kvariates.seeding.medoid_seedings import MEDOID_SEEDINGS

DEMAND = 500
MATRIX_NODES = 8_000  # of a road network, up to which all distances are kept
MNIST_POINTS, GRAPH_NODES, CLUSTERS, LINKS = 10_000, 3_000, 10, 10
PLAIN_POINTS = 20_000


@dataclass(frozen=True, eq=False)
class Universe:
    """Public points, the group of each, and the largest distance."""

    name: str
    space: MetricSpace
    group: NDArray[np.int64]
    pair: tuple[int, int]  # the groups of an imbalanced demand
    diameter: float

    def demand(self, kind: str, rng: np.random.Generator, size: int = DEMAND) -> Ints:
        """Different points, at most `size`."""
        pool = np.arange(self.space.n)
        if kind == "imbalanced":
            pool = np.flatnonzero(np.isin(self.group, self.pair))
        return np.sort(rng.choice(pool, min(size, len(pool)), replace=False)).astype(np.int64)

    def cost(self, medoids: Ints, demand: Ints) -> float:
        """The sum of distances of the demand."""
        if isinstance(self.space, DistanceMatrix):
            return float(self.space.D[np.ix_(medoids, demand)].min(axis=0).sum(dtype=np.float64))
        return float(self.space.two_nearest(medoids).cost[demand].sum(dtype=np.float64))


def mnist(metric: str) -> Universe:
    """10,000 digits under l1 or l2, with pixels from 0 to 1, as a matrix of distances."""
    digits = mnist_rows(metric)
    assert isinstance(digits.space, Vectors)  # noqa: S101
    space = digits.space.matrix()
    return replace(digits, space=space, diameter=float(space.D.max()))


def mnist_rows(metric: str) -> Universe:
    """The same as vectors, with a bound on distances."""
    with np.load(data_folder() / "mnist" / "mnist70k.npz", allow_pickle=False) as file:
        rows = np.random.default_rng(0).permutation(len(file["X"]))[:MNIST_POINTS]
        X, y = (file["X"][rows] / 255).astype(np.float32), file["y"][rows].astype(np.int64)
    name = "MNIST l1" if metric == "manhattan" else "MNIST l2"
    space = Vectors(X, metric)
    return Universe(name, space, y, (0, 8), _diameter(space, np.random.default_rng(0)))


def clusters() -> Universe:
    """Ten normal clusters in 5 dimensions, as vectors."""
    rng, d = np.random.default_rng(1), 5
    middles, group = 4 * rng.normal(size=(CLUSTERS, d)), rng.integers(CLUSTERS, size=PLAIN_POINTS)
    space = Vectors(middles[group] + rng.normal(size=(PLAIN_POINTS, d)), "euclidean")
    return Universe("clusters", space, group, (0, 1), _diameter(space, rng))


def graph(r: float) -> Universe:
    """Ten clusters; a larger r makes edges between clusters longer."""
    rng, n = np.random.default_rng(int(r)), GRAPH_NODES
    group = rng.integers(CLUSTERS, size=n)
    ends: list[tuple[Array, Array, Array]] = []
    for one in range(CLUSTERS):
        own = np.flatnonzero(group == one)
        i, j = np.triu_indices(len(own), 1)
        edge = rng.random(len(i)) < 0.2
        ends.append((own[i[edge]], own[j[edge]], rng.random(int(edge.sum()))))
        for other in range(one):
            theirs = np.flatnonzero(group == other)
            a, b = rng.choice(own, LINKS), rng.choice(theirs, LINKS)
            ends.append((a, b, rng.uniform(0.5, r, LINKS)))
    a, b, length = (np.concatenate(parts) for parts in zip(*ends, strict=True))
    edges = sparse.csr_array((length, (a, b)), shape=(n, n))
    D = csgraph.dijkstra(edges, directed=False).astype(np.float32)
    return Universe(f"graph r={r:g}", DistanceMatrix(D), group, (0, 1), float(D.max()))


def roads(name: str, title: str) -> Universe:
    """A road network; its groups are the cells of ten medoids of all nodes."""
    with np.load(data_folder() / "graphs" / f"{name}.npz", allow_pickle=False) as file:
        a, b = file["edge_u"], file["edge_v"]
        length = file["edge_len_m" if "edge_len_m" in file else "edge_len"]
    n, rng = int(max(a.max(), b.max())) + 1, np.random.default_rng(0)
    both = (np.concatenate([length] * 2), (np.concatenate([a, b]), np.concatenate([b, a])))
    csr = sparse.csr_array(both, shape=(n, n))
    space: MetricSpace = Graph(csr)
    far = _diameter(space, rng)
    if n <= MATRIX_NODES:
        space = DistanceMatrix(csgraph.dijkstra(csr, directed=False).astype(np.float32))
        far = float(space.D.max())
    seed = MEDOID_SEEDINGS["k-median++"].run
    task = search_task(space, None, CLUSTERS, restarts=0, max_swaps=30, rng=rng)
    medoids = find_medoids(task, lambda s, w: seed(s, CLUSTERS, w, rng)).medoids
    return Universe(title, space, space.two_nearest(medoids).labels.astype(np.int64), (0, 1), far)


def _diameter(space: MetricSpace, rng: np.random.Generator) -> float:
    """Twice the least distance to a farthest node, over nodes near the middle of long paths."""
    best, point = np.inf, int(rng.integers(space.n))
    for _ in range(8):
        near = space.distances(np.array([point]))[0]
        best = min(best, 2 * float(near.max()))
        far = space.distances(np.array([int(near.argmax())]))[0]
        point = int(np.argmin(np.maximum(near, far)))
    return best
