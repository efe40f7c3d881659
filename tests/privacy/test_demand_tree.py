"""DP-HST: levels of a tree, their noisy counts, and the seeding on them."""

import numpy as np
import pytest
from api import Cost, DemandHst, LeveledTree, grow, hst_seed, level_costs, noisy_tree
from privacy.demands import FREE, asked, spaces, task_of
from privacy.exact_noise import both_adjacencies

RNG = np.random.default_rng(5)
SPACES = spaces(RNG)
every_space = pytest.mark.parametrize("name", SPACES)


def counted(task, depth, cost):
    leveled = LeveledTree.of(grow(task.space, task.rng), depth, task.k)
    return leveled, noisy_tree(task, leveled, [cost] * len(leveled.levels))


@every_space
@pytest.mark.parametrize("k", [1, 3, 9])
def test_without_noise_it_is_hst_seeding(name, k):
    space, demand = SPACES[name], RNG.integers(0, 40, size=200)
    weight = np.bincount(demand, minlength=40).astype(float)
    for seed in range(5):
        task = task_of(space, demand, k, seed=seed)
        leveled, noisy = counted(task, 10**6, FREE)
        np.testing.assert_array_equal(noisy.counts, leveled.tree.counts(weight))
        expected = hst_seed(space, k, weight, 1, np.random.default_rng(seed))
        np.testing.assert_array_equal(noisy.seeds(task), expected)


@every_space
@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_highest_levels_of_a_tree(name, depth):
    tree = grow(SPACES[name], np.random.default_rng(1))
    leveled = LeveledTree.of(tree, depth, k=4)
    pruned, nodes = leveled.tree, np.concatenate(leveled.levels)
    assert sorted(nodes.tolist()) == list(range(1, pruned.nodes))  # each node has one level
    leaves = np.setdiff1d(np.arange(pruned.nodes), pruned.parent[1:])
    assert len(leaves) >= 4
    assert set(pruned.leaf.tolist()) == set(leaves.tolist())
    weight = RNG.random(40)
    whole = {c.tobytes() for c in clusters(tree)}
    kept = clusters(pruned)
    assert {c.tobytes() for c in kept} <= whole  # every node is a cluster of the whole tree
    np.testing.assert_allclose(pruned.counts(weight), [weight[c].sum() for c in kept])


def clusters(tree):
    """The points of every node, as masks."""
    out = np.zeros((tree.nodes, len(tree.leaf)), dtype=bool)
    for point, node in enumerate(tree.leaf.tolist()):
        while node >= 0:
            out[node, point] = True
            node = int(tree.parent[node])
    return out


@every_space
@both_adjacencies
def test_a_neighbour_moves_each_level_by_one_or_two(name, adjacency):
    demand = RNG.integers(0, 40, size=30)
    for point in (0, 17, 39):
        other = np.append(demand, point) if adjacency == "add-remove" else demand.copy()
        if adjacency == "replace-one":
            other[3] = point
        method = DemandHst(n_swaps=0, levels=10**6)
        here, there = (
            asked(lambda d=d, run=method: run(task_of(SPACES[name], d, 3, adjacency)))
            for d in (demand, other)
        )
        assert len(here) == len(there) > (name != "matrix")  # all its distances are alike
        for one, two in zip(here, there, strict=True):
            moved = int(np.abs(one.values - two.values).sum())
            assert moved <= one.sensitivity.l1(adjacency) == (1 if "add" in adjacency else 2)
        # The highest level covers all points.
        if adjacency == "add-remove":
            assert int(there[0].values.sum() - here[0].values.sum()) == 1


def test_empty_nodes_have_noise():
    task = task_of(SPACES["matrix"], [], 3)
    leveled, noisy = counted(task, 10**6, Cost(epsilon=0.05))
    assert "close to a public one" in noisy.notes[0]
    nodes = np.concatenate(leveled.levels)
    zeros = np.count_nonzero(noisy.counts[nodes] == 0)
    # A discrete Laplace of scale 20 is zero with chance 0.025.
    assert zeros < len(nodes) / 3


@pytest.mark.parametrize("decay", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("whole", [Cost(epsilon=1.0), Cost(epsilon=0.1), Cost(rho=0.03)])
def test_levels_share_the_budget_and_no_more(decay, whole):
    parts = level_costs(whole, 7, decay)
    values = [part.value for part in parts]
    assert sum(values) == pytest.approx(whole.value, rel=1e-12)
    np.testing.assert_allclose(np.divide(values[1:], values[:-1]), decay, rtol=1e-9)
