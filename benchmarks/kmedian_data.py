"""The data of `benchmarks.kmedian`: networks with known optima, points of a plane, roads, grids."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from benchmarks.workloads import Array, data_folder


@dataclass(frozen=True)
class Instance:
    name: str
    D: Any
    k: int
    optimum: float


def instances() -> list[Instance]:
    """The first thirty networks of OR-Library."""
    folder = data_folder() / "pmed"
    with (folder / "pmed_opt.csv").open() as file:
        optima = {row["instance"]: float(row["pmedian_optimum"]) for row in csv.DictReader(file)}
    return [read(folder, f"pmed{i}", optima[f"pmed{i}"]) for i in range(1, 31)]


def read(folder: Any, name: str, optimum: float) -> Instance:
    with gzip.open(folder / f"{name}.txt.gz", "rt") as file:
        n, _, k = map(int, file.readline().split())
        edges = {}
        for line in file:
            if len(parts := line.split()) == 3:
                u, v = sorted(int(part) - 1 for part in parts[:2])
                edges[u, v] = float(parts[2])  # of a repeated edge the last line counts
    ends, lengths = np.array(list(edges)).T, np.array(list(edges.values()))
    graph = sparse.csr_array((lengths, ends), shape=(n, n))
    return Instance(name, np.ascontiguousarray(dijkstra(graph, directed=False)), k, optimum)


def mnist() -> Array:
    """The first 10,000 rows."""
    with np.load(data_folder() / "mnist" / "mnist70k.npz") as file:
        return np.ascontiguousarray(file["X"][:10_000], dtype=np.float32) / 255


def plane(n: int, k: int = 100) -> Array:
    """Gaussian blobs in two dimensions."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(k, 2))[rng.integers(k, size=n)] + 0.03 * rng.normal(size=(n, 2))
    return X.astype(np.float32)


def cube(n: int) -> Array:
    return np.random.default_rng(0).uniform(size=(n, 8)).astype(np.float32)


def road() -> Any:
    """The roads of San Joaquin, a symmetric CSR graph."""
    with np.load(data_folder() / "graphs" / "san_joaquin_road.npz") as file:
        parts = {name: file[name] for name in file.files}
    n, ends = len(parts["node_x"]), (parts["edge_u"], parts["edge_v"])
    half = sparse.csr_array((parts["edge_len"], ends), shape=(n, n))
    return half.maximum(half.T)


def grid(side: int) -> Any:
    """A square grid of side² nodes with random edge lengths, a symmetric CSR graph."""
    rng = np.random.default_rng(0)
    number = np.arange(side * side).reshape(side, side)
    tail = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
    head = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
    half = sparse.csr_array((rng.random(len(tail)) + 0.1, (tail, head)), shape=(side**2, side**2))
    return half + half.T
