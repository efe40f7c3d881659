"""Seeding on a tree against all sets of k points, and against the text of Algorithm 4."""

from functools import partial

import numpy as np
import pytest
from api import DistanceMatrix, HstTree, Vectors, grow, hst_seed, seed_on_tree
from hypothesis import given
from hypothesis import strategies as st
from laws.trees import KINDS, made_up, make, optimum, random_tree, spaces, tree_matrix

SEEN = 1.5  # the largest ratio found here; the paper proves 10 and 34
ROUNDING = 1 + 1e-9
best_on_tree = partial(seed_on_tree, exact=True)


def rng(seed):
    return np.random.default_rng(seed)


def some_weights(g, n):
    """Ones; zeros and small numbers; numbers of many scales."""
    kinds = [np.ones(n), g.integers(0, 3, n).astype(float), 2.0 ** g.integers(-8, 8, n)]
    return kinds[g.integers(3)]


def cost(D, weight, chosen):
    return float((weight * D[chosen].min(axis=0)).sum())


def distinct(chosen, k):
    return len(chosen) == k == len(set(chosen.tolist()))


def check_theorems(tree, weight):
    """Check Theorems 3.7 and C.3 for every k; return the largest ratio to the optimum."""
    D, counts = tree_matrix(tree), tree.counts(weight)
    worst = 1.0
    for power, promised in ((1, 10), (2, 34)):
        for k in range(1, len(D) + 1):
            opt = optimum(D**power, weight, k)
            quick, best = seed_on_tree(tree, counts, k, power), best_on_tree(tree, counts, k, power)
            assert distinct(quick, k)
            assert distinct(best, k)
            assert cost(D**power, weight, best) <= opt * ROUNDING
            found = cost(D**power, weight, quick)
            assert found <= promised * opt
            worst = max(worst, found / opt if opt else 1.0)
    return worst


@given(spaces(most=8), st.integers(0, 2**32 - 1))
def test_theorems_on_grown_trees(space, seed):
    for s in range(seed, seed + 4):
        assert check_theorems(grow(space, rng(s)), some_weights(rng(s), space.n)) <= SEEN


@given(made_up(most=8), st.integers(0, 2**32 - 1))
def test_theorems_on_any_tree(tree, seed):
    for s in range(seed, seed + 4):
        assert check_theorems(tree, some_weights(rng(s), len(tree.leaf))) <= SEEN


@pytest.mark.parametrize("power", [1, 2])
def test_larger_trees_against_the_optimum(power):
    """Against `best_on_tree`, which is the optimum (above): there are too many sets to try."""
    for seed in range(150):
        g = rng(seed)
        tree = random_tree(g, int(g.integers(20, 60)), 12)
        weight = some_weights(g, len(tree.leaf))
        D, counts = tree_matrix(tree) ** power, tree.counts(weight)
        for k in (1, 2, 5, 11):
            opt = cost(D, weight, best_on_tree(tree, counts, k, power))
            assert cost(D, weight, seed_on_tree(tree, counts, k, power)) <= SEEN * opt * ROUNDING


def tree_of(nodes, weights):
    """A tree from the (parent, height) of every node; the leaves, in order, are the points."""
    parent, height = np.array(nodes).T
    leaf = np.setdiff1d(np.arange(len(parent)), parent)
    center = np.zeros(len(parent), dtype=np.int64)
    center[leaf] = np.arange(len(leaf))
    return HstTree(parent, height, center, leaf, 1.0), np.array(weights, dtype=float)


def test_squares_need_squared_heights():
    """With N_v * 2 ** h_v, as in appendix C for k-means, the ratio to the optimum has no bound.

    Here one light point is far from two heavy points that are close together. One of two centres
    has to be the far point, since its squared distance outweighs the counts.
    """
    tree, weight = tree_of([(-1, 12), (0, 2), (1, 1), (1, 1), (0, 11)], [2.0**12, 2.0**12, 1.0])
    D, counts = tree_matrix(tree) ** 2, tree.counts(weight)
    opt = optimum(D, weight, 2)
    assert cost(D, weight, seed_on_tree(tree, counts, 2, power=2)) == opt
    assert cost(D, weight, seed_on_tree(tree, counts, 2, power=1)) > 100 * opt


def test_the_descent_to_a_leaf_is_not_exact():
    """Algorithm 5 descends to the heavier side, whose points are spread: 5/4 of the optimum."""
    tree, weight = tree_of([(-1, 4), (0, 3), (1, 2), (1, 2), (0, 3)], [1, 1, 2])
    D, counts = tree_matrix(tree), tree.counts(weight)
    assert cost(D, weight, seed_on_tree(tree, counts, 1)) == 1.25 * optimum(D, weight, 1)
    assert cost(D, weight, best_on_tree(tree, counts, 1)) == optimum(D, weight, 1)


def algorithm_4(tree, counts, k, power):
    """Add the top k - |C1| nodes, drop ancestors of nodes in C1, repeat; then descend."""
    above = [set() for _ in range(tree.nodes)]
    for v in range(1, tree.nodes):
        above[v] = above[tree.parent[v]] | {int(tree.parent[v])}
    score = [np.inf] + [
        counts[v] * 2.0 ** (power * tree.height[tree.parent[v]]) for v in range(1, tree.nodes)
    ]
    order = sorted(range(tree.nodes), key=lambda v: (-score[v], v))
    taken, chosen = set(), set()
    while len(chosen) < k and len(taken) < tree.nodes:
        room = k - len(chosen)
        for v in order:
            if room and v not in taken:
                taken.add(v)
                if not any(v in above[c] for c in chosen):
                    chosen.add(v)
                    room -= 1
        chosen -= {a for c in chosen for a in above[c]}
    out = set()
    for v in chosen:
        while len(children := np.flatnonzero(tree.parent == v)):
            v = int(children[np.argmax(counts[children])])
        out.add(int(tree.center[v]))
    return out


@given(made_up(most=12), st.integers(0, 2**32 - 1))
def test_seeds_follow_algorithm_4_for_any_counts(tree, seed):
    g = rng(seed)
    places = len(set(range(tree.nodes)) - set(tree.parent.tolist()))
    true = tree.counts()
    for counts in (true, true + g.laplace(size=tree.nodes) * 2, g.normal(size=tree.nodes)):
        for k in range(1, places + 1):
            for power in (1, 2):
                found = seed_on_tree(tree, counts, k, power)
                assert set(found.tolist()) == algorithm_4(tree, counts, k, power)


@given(spaces(most=12), st.integers(0, 2**32 - 1))
def test_seeds_are_distinct_and_use_every_leaf_first(space, seed):
    g = rng(seed)
    tree = grow(space, g)
    for counts in (tree.counts(), tree.counts(np.zeros(space.n)), g.normal(size=tree.nodes)):
        for choose in (seed_on_tree, best_on_tree):
            for k in range(1, space.n + 1):
                chosen = choose(tree, counts, k)
                assert distinct(chosen, k)
                assert chosen.min() >= 0
                assert chosen.max() < space.n
                held = {int(tree.leaf[c]) for c in chosen}
                assert len(held) == min(k, len(np.unique(tree.leaf)))


def test_components_are_served_first():
    """The cost of a component without a centre is infinite, however few its points are."""
    D = np.full((9, 9), np.inf)
    D[:8, :8] = 5.0
    D[8, 8] = 0.0
    np.fill_diagonal(D, 0)
    tree = grow(DistanceMatrix(D), rng(0))
    for choose in (seed_on_tree, best_on_tree):
        assert 8 in choose(tree, tree.counts(), 2)
        assert 8 not in choose(tree, tree.counts(np.r_[np.ones(8), 0.0]), 2)


@pytest.mark.parametrize("kind", KINDS)
def test_seeds_of_every_space_come_from_its_tree(kind):
    """Cosine distances are squares of the tree's distances."""
    space = make(kind, rng(1), 14)
    tree, power = grow(space, rng(2)), 2 if kind == "cosine" else 1
    for k in (1, 5, 14):
        chosen = hst_seed(space, k, np.full(14, 3.0), 1, rng(2))
        assert distinct(chosen, k)
        assert (chosen == seed_on_tree(tree, tree.counts(), k, power)).all()


def test_seeds_find_planted_groups():
    """If groups are far apart, each of them with demand gets a seed."""
    g = rng(0)
    places = g.normal(size=(12, 2)) * 1000
    group = np.repeat(np.arange(12), 30)
    X = places[group] + g.normal(size=(360, 2))
    weight = np.where(group < 3, 1.0, 0.0)
    for seed in range(20):
        chosen = hst_seed(Vectors(X, "euclidean"), 12, None, 1, rng(seed))
        assert set(group[chosen]) == set(range(12))
        chosen = hst_seed(Vectors(X, "manhattan"), 3, weight, 1, rng(seed))
        assert set(group[chosen]) == {0, 1, 2}


def test_a_weight_equals_repeated_rows():
    """A point of weight 3 counts as much as three equal points."""
    X = rng(3).normal(size=(20, 2))
    weight = rng(4).integers(1, 4, 20).astype(float)
    tree = grow(Vectors(X, "euclidean"), rng(5))
    copies = np.repeat(np.arange(20), weight.astype(int))
    repeated = HstTree(tree.parent, tree.height, tree.center, tree.leaf[copies], tree.unit)
    assert (repeated.counts() == tree.counts(weight)).all()
