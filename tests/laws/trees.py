"""Small spaces, random 2-HSTs, and optima by brute force."""

import itertools

import numpy as np
from api import CallableMetric, DistanceMatrix, Graph, HstTree, Vectors
from hypothesis import strategies as st
from scipy import sparse

METRICS = ("euclidean", "manhattan", "cosine")
KINDS = (*METRICS, "matrix", "callable", "graph")


def paths_metric(rng, n, largest=9.0):
    """Shortest paths between n points: integers, zeros and ties among them."""
    D = np.round(rng.exponential(size=(n, n)) * largest) * rng.choice([0.1, 1.0, 1e6])
    D = np.minimum(D, D.T)
    np.fill_diagonal(D, 0)
    for via in range(n):
        D = np.minimum(D, D[:, via : via + 1] + D[via : via + 1])
    return D


def some_rows(rng, n, d, dtype):
    """Rows of many scales; a third of them are repeated."""
    X = rng.normal(size=(n, d)) * 4.0 ** rng.integers(-4, 4, size=(n, 1))
    return X[np.where(rng.random(n) < 0.3, rng.integers(n, size=n), np.arange(n))].astype(dtype)


def make(kind, rng, n):
    """A space of n points."""
    dtype = rng.choice([np.float32, np.float64])
    if kind in METRICS:
        X = some_rows(rng, n, int(rng.integers(1, 6)), dtype)
        if kind == "cosine":
            X = X / np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
        return Vectors(np.ascontiguousarray(X.astype(dtype)), kind)
    if kind == "matrix":
        return DistanceMatrix(paths_metric(rng, n).astype(dtype))
    if kind == "callable":
        X = some_rows(rng, n, 3, np.float64)
        return CallableMetric(X, lambda a, b: np.abs(a - b).max())
    return Graph(some_graph(rng, n))


def csr_of(n, edges):
    """From {(u, v): length}: both directions are stored, zeros too."""
    u, v = np.array(list(edges), dtype=np.int64).reshape(-1, 2).T
    w = np.array(list(edges.values()), dtype=np.float64)
    both = (np.concatenate([u, v]), np.concatenate([v, u]))
    return sparse.csr_array(sparse.coo_array((np.concatenate([w, w]), both), shape=(n, n)))


def some_graph(rng, n):
    """A ring with chords: connected, lengths of many scales, some of them zero."""
    ends = [(i, (i + 1) % n) for i in range(n)] + rng.integers(n, size=(n, 2)).tolist()
    edges = {}
    for a, b in ends:
        if a != b:
            length = 2.0 ** rng.integers(-5, 5) * rng.random() + 1e-9
            edges[min(a, b), max(a, b)] = length if length >= 0.05 else 0.0  # stored: an edge
    return csr_of(n, edges)


@st.composite
def spaces(draw, kinds=KINDS, most=14):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(kinds))
    return make(kind, rng, draw(st.integers(3 if kind == "graph" else 1, most)))


@st.composite
def made_up(draw, most=8, tallest=11):
    """A 2-HST without a space: any numbers of children, heights that may be left out."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return random_tree(rng, draw(st.integers(1, most)), int(rng.integers(1, tallest)))


def random_tree(rng, n, height):
    parent, heights, center, leaf = [-1], [height], [0], np.zeros(n, dtype=np.int64)
    open_ = [(0, np.arange(n))]
    while open_:
        node, members = open_.pop()
        if len(members) == 1 or (node and rng.random() < 0.05):
            leaf[members] = node
            continue
        lowest = heights[node] == 0
        pieces = len(members) if lowest else int(rng.integers(2, len(members) + 1))
        rest = rng.integers(pieces, size=len(members) - pieces)
        labels = np.concatenate([np.arange(pieces), rest])
        rng.shuffle(labels)
        for piece in range(pieces):
            inside = members[labels == piece]
            jump = 1 if len(inside) == 1 or rng.random() < 0.7 else int(rng.integers(1, 4))
            parent.append(node)
            heights.append(max(heights[node] - jump, -1 if lowest else 0))
            center.append(int(inside[0]))
            open_.append((len(parent) - 1, inside))
    return HstTree(np.array(parent), np.array(heights), np.array(center), leaf, 1.0)


def pairs_of(n):
    return np.array(list(itertools.product(range(n), repeat=2)), dtype=np.int64).reshape(-1, 2)


def tree_matrix(tree):
    n = len(tree.leaf)
    return tree.distances(pairs_of(n)).reshape(n, n)


def members(tree):
    """The points of every node."""
    out = [[] for _ in range(tree.nodes)]
    for point, node in enumerate(tree.leaf.tolist()):
        while node >= 0:
            out[node].append(point)
            node = int(tree.parent[node])
    return out


def optimum(D, weight, k):
    """The least cost of any k points."""
    every = itertools.combinations(range(len(D)), k)
    return min(float((weight * D[list(some)].min(axis=0)).sum()) for some in every)
