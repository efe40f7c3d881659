"""2-HSTs over any space: their structure, and the law they are drawn from."""

import itertools
import math
from functools import cache

import numpy as np
import pytest
from api import CallableMetric, DistanceMatrix, Graph, Rows, Vectors, grow
from hypothesis import given
from hypothesis import strategies as st
from laws.certified import as_graph
from laws.threads import on_threads
from laws.trees import make, members, pairs_of, spaces, tree_matrix
from sampling.chi_square import ALPHA, follows
from scipy import sparse

TREES = 20  # for each space
DRAWS = 10_000


def rng(seed):
    return np.random.default_rng(seed)


def true_lengths(space):
    """Distances, or chords for cosine distances."""
    D = space.distances(np.arange(space.n)).astype(np.float64)
    return np.sqrt(2 * D) if getattr(space, "metric", None) == "cosine" else D


def same(a, b):
    return a.unit == b.unit and all(
        np.array_equal(getattr(a, part), getattr(b, part))
        for part in ("parent", "height", "center", "leaf")
    )


@given(spaces(), st.integers(0, 2**32 - 1))
def test_tree_distances_are_an_ultrametric_above_the_distances(space, seed):
    D = true_lengths(space)
    for s in range(seed, seed + TREES):
        far = tree_matrix(grow(space, rng(s)))
        assert (far >= D).all()
        assert (far == far.T).all()
        assert (np.diag(far) == 0).all()
        # Of three distances the two largest are equal.
        assert (far[:, None, :] <= np.maximum(far[:, :, None], far[None, :, :])).all()


@given(spaces(), st.integers(0, 2**32 - 1))
def test_nodes_are_balls(space, seed):
    D = true_lengths(space)
    for s in range(seed, seed + TREES):
        tree = grow(space, rng(s))
        inside = members(tree)
        below = np.arange(1, tree.nodes)
        assert tree.parent[0] == -1
        assert (tree.parent[1:] < below).all()
        assert (tree.height[1:] < tree.height[tree.parent[1:]]).all()
        assert tree.height.min() == 0
        assert math.frexp(tree.unit)[0] == 0.5
        inner = set(tree.parent.tolist())
        children = np.bincount(tree.parent[1:], minlength=tree.nodes)
        for node, points in enumerate(inside):
            reach = D[tree.center[node], points].max()
            assert reach < tree.unit * 2.0 ** tree.height[node] or reach == 0
            if node in inner:
                assert children[node] >= 2
            else:
                assert tree.center[node] in points
                assert (D[np.ix_(points, points)] == 0).all()
        assert (tree.counts() == [len(points) for points in inside]).all()
        weight = rng(s).integers(0, 5, space.n).astype(float)
        assert (tree.counts(weight) == [weight[points].sum() for points in inside]).all()


@pytest.mark.parametrize("n", [1, 2, 7])
def test_equal_points_share_one_leaf(n):
    for space in (
        Vectors(np.ones((n, 2)), "euclidean"),
        DistanceMatrix(np.zeros((n, n), dtype=np.float32)),
        CallableMetric(np.ones((n, 2)), lambda a, b: 0.0),
        as_graph(np.zeros((n, n))),
    ):
        tree = grow(space, rng(0))
        assert tree.nodes == 1
        assert (tree.leaf == 0).all()
        assert 0 <= tree.center[0] < n


def test_components_are_infinitely_far_apart_in_the_tree():
    D = np.full((5, 5), np.inf)
    D[:2, :2] = D[2:, 2:] = 1.0
    np.fill_diagonal(D, 0)
    edges = sparse.csr_array(np.where(np.isfinite(D), D, 0))
    for space in (DistanceMatrix(D), Graph(edges)):
        far = tree_matrix(grow(space, rng(3)))
        assert (np.isinf(far) == np.isinf(D)).all()
        assert (far >= D).all()


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(60, 1), (500, 2), (400, 5), (700, 24), (300, 200)])
def test_vectors_matrix_and_callable_give_one_tree(n, d, dtype, metric):
    X = rng(n + d).normal(size=(n, d)).astype(dtype)
    gaps = X[:, None].astype(float) - X[None]
    D = np.sqrt((gaps**2).sum(axis=2)) if metric == "euclidean" else np.abs(gaps).sum(axis=2)
    any_metric = CallableMetric(np.arange(n)[:, None], lambda i, j: D[i[0], j[0]])
    for seed in range(3):
        tree = grow(Vectors(X, metric), rng(seed))
        assert same(tree, grow(DistanceMatrix(D), rng(seed)))
        assert same(tree, grow(any_metric, rng(seed)))
        if metric == "euclidean":
            assert same(tree, grow(Rows.of(X), rng(seed)))
            assert same(tree, grow(Rows.of(sparse.csr_array(X)), rng(seed)))


def test_many_points_and_threads_give_the_same_tree():
    """A second thread grows subtrees at 4e6 / (32 (d + 4)) points, and splits one at 4e6 / d."""
    wide = rng(1).normal(size=(40, 101))[rng(2).integers(40, size=40_000)]
    for X in (wide, rng(1).normal(size=(40_000, 2))):
        trees = on_threads(lambda X=X: grow(Vectors(X, "euclidean"), rng(5)))
        assert all(same(trees[0], other) for other in trees[1:])

    class FromPoint(CallableMetric):
        """Distances from one point at a time, by NumPy."""

        def distances(self, points, columns):
            return np.sqrt(np.einsum("ij,ij->i", gap := X[columns] - X[points], gap))[None]

    assert same(trees[0], grow(FromPoint(X, None), rng(5)))


def test_errors_of_a_callable_are_raised():
    def refuse(a, b):
        raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        grow(CallableMetric(np.ones((3, 1)), refuse), rng(0))


def octave(D, h):
    """Intervals of radii at height h with the same balls: (height, a radius, probability)."""
    logs = np.log2(D[D > 0]) - (h - 1)
    ends = np.unique(np.concatenate([[0.0, 1.0], logs[(logs > 0) & (logs < 1)]]))
    return [(h, 2 ** ((a + b) / 2 + h - 1), b - a) for a, b in itertools.pairwise(ends)]


def heights(D):
    low, high = np.log2(D[D > 0].min()), np.log2(D.max())
    return range(math.ceil(high) + 1, math.floor(low) - 1, -1)


def balls(D, points, radius, order):
    parts, left = [], list(points)
    for centre in order:
        if centre in left:
            part = [p for p in left if D[centre, p] <= radius]
            left = [p for p in left if p not in part]
            parts.append(tuple(part))
    return tuple(sorted(parts))


def apart(parts, h):
    """The pairs that a split of height h + 1 separates, each with that height."""
    for a, b in itertools.combinations(parts, 2):
        for p, q in itertools.product(a, b):
            yield (min(p, q), max(p, q), h + 1)


def fresh_law(D):
    """Algorithm 3: every cluster in an order of its own, every height with a scale of its own."""

    def whole(radii):
        @cache
        def law(points, place):
            if len(points) == 1:
                return {frozenset(): 1.0}
            h, radius = radii[place]
            out = {}
            orders = list(itertools.permutations(points))
            for order in orders:
                parts = balls(D, points, radius, order)
                some = {frozenset(apart(parts, h)): 1 / len(orders)}
                for part in parts:
                    below = law(part, place + 1)
                    some = {
                        a | b: p * q
                        for (a, p), (b, q) in itertools.product(some.items(), below.items())
                    }
                for outcome, p in some.items():
                    out[outcome] = out.get(outcome, 0) + p
            return out

        return law(tuple(range(len(D))), 0)

    total = {}
    for pieces in itertools.product(*(octave(D, h) for h in heights(D))):
        share = math.prod(p for *_, p in pieces)
        for outcome, p in whole([(h, r) for h, r, _ in pieces]).items():
            total[outcome] = total.get(outcome, 0) + share * p
    return total


def one_order_law(D):
    """Fakcharoenphol, Rao and Talwar: one order and one scale for the whole tree."""
    n, total = len(D), {}
    cuts = np.unique(np.concatenate([[0.0, 1.0], np.log2(D[D > 0]) % 1]))
    orders = list(itertools.permutations(range(n)))
    for a, b in itertools.pairwise(cuts):
        for order in orders:
            clusters, outcome = {tuple(range(n))}, set()
            for h in heights(D):
                radius = 2 ** ((a + b) / 2 + h - 1)
                head = [next(c for c in order if D[c, p] <= radius) for p in range(n)]
                finer = set()
                for cluster in clusters:
                    parts = {}
                    for p in cluster:
                        parts.setdefault(head[p], []).append(p)
                    parts = [tuple(part) for part in parts.values()]
                    outcome |= set(apart(parts, h))
                    finer |= set(parts)
                clusters = finer
            key = frozenset(outcome)
            total[key] = total.get(key, 0) + (b - a) / len(orders)
    return total


def drawn(space, draws):
    pairs = np.array(list(itertools.combinations(range(space.n), 2)))
    for seed in range(draws):
        h = np.log2(grow(space, rng(seed)).distances(pairs)).astype(int) - 1
        yield frozenset((int(a), int(b), int(c)) for (a, b), c in zip(pairs, h, strict=True))


PLACES = {
    "three on a line": np.array([[0.0], [1.0], [2.6]]),
    "four on a line": np.array([[0.0], [1.0], [2.2], [5.9]]),
    "a square and a bit": np.array([[0.0, 0], [1, 0], [0, 1.3], [1.2, 1.1]]),
}


@pytest.mark.parametrize("places", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("kind", ["vectors", "graph"])
def test_whole_trees_follow_their_law(places, kind):
    D = np.abs(places[:, None] - places).sum(axis=2)
    law = fresh_law(D) if kind == "vectors" else one_order_law(D)
    space = Vectors(places, "manhattan") if kind == "vectors" else Graph(sparse.csr_array(D))
    assert sum(law.values()) == pytest.approx(1)
    assert follows(drawn(space, DRAWS), law) > ALPHA


@pytest.mark.parametrize("n", [32, 2048])
def test_mean_distortion_is_logarithmic(n):
    """For far and near pairs: the mean over pairs, and of each pair as the theorem says."""
    first = rng(9).integers(n, size=20)
    pairs = [(a, b) for a in first for b in (*rng(a).integers(n, size=20), (a + 1) % n)]
    for space in (
        Vectors(np.arange(float(n))[:, None], "euclidean"),
        Vectors(rng(0).random((n, 2)), "euclidean"),
        make("graph", rng(0), n),
    ):
        stretch = np.mean(
            [grow(space, rng(s)).distortion(space, np.array(pairs)) for s in range(60)], axis=0
        )
        assert np.nanmin(stretch) >= 1
        assert np.nanmean(stretch) <= 2 * math.log2(n)
        assert np.nanmax(stretch) <= 12 * math.log2(n)


def test_distortion_is_the_ratio_of_distances():
    space = make("cosine", rng(4), 9)
    tree = grow(space, rng(4))
    pairs = pairs_of(9)
    D = true_lengths(space)[pairs[:, 0], pairs[:, 1]]
    ratio = tree.distortion(space, pairs)
    assert np.isnan(ratio[D == 0]).all()
    assert ratio[D > 0] == pytest.approx(tree.distances(pairs)[D > 0] / D[D > 0], rel=1e-5)
    assert tree.distance(2, 3) == tree.distances(np.array([[2, 3]]))[0]
