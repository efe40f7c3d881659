"""Given the measures, the node of a row does not depend on the other rows.

Parallel composition over the nodes of a level needs this. Measures are fixed here, so that they are
the same for two neighbours. Then the rows that both data sets have must be in the same nodes at
every level.
"""

import itertools
from unittest.mock import patch

import numpy as np
import pytest
from api import Secret
from api import partition_module as partition
from privacy.exact_noise import ADJACENCIES
from privacy.neighbours import KINDS, neighbours
from privacy.private_models import seen

LEVELS = 4


def nodes_of(rows, seed):
    """The labels at every level, one column a level."""
    d, levels = rows.shape[1], []

    def fixed(chosen, balls, level):
        levels.append(seen(chosen).labels.copy())
        rng = np.random.default_rng([seed, level])
        n = len(balls.radii)
        means = rng.uniform(-0.3, 0.3, (n, d))
        squares = means**2 + rng.random((n, d))
        return partition.Moments(np.full(n, 1e6), means, squares, 1.0, 1.0, 1.0)

    start = partition.root(np.zeros(d), np.ones(d), -np.ones(d), np.ones(d), 9.0)
    partition.summarize(Secret(partition.Members(rows)), start, LEVELS, fixed)
    return np.stack(levels, axis=1)


def same_nodes(kind, adjacency, d):
    pair = neighbours(kind, 40, d, adjacency)
    first, second = (nodes_of(rows, seed=7) for rows in pair)
    row = 0 if kind == "first" else len(first) - 1
    first = np.delete(first, row, axis=0)
    if adjacency == "replace-one":
        second = np.delete(second, row, axis=0)
    return np.array_equal(first, second)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_the_node_of_a_row_depends_on_no_other_row(d):
    for kind, adjacency in itertools.product(KINDS, ADJACENCIES):
        assert kind == "empty" or same_nodes(kind, adjacency, d)
    labels = nodes_of(neighbours("spread", 40, d).first, seed=7)
    assert len(np.unique(labels[:, -1])) > 3


@pytest.mark.parametrize("d", [1, 2, 6])
def test_local_indices_used_as_global_ones_are_caught(d):
    """Positions among the rows of open nodes, or among those above a cut, used as row numbers."""

    def wrong(self, numbers, axis, high, first):
        cut = high[np.arange(len(axis)), axis]
        parent = numbers[self.labels]
        inside = np.flatnonzero(parent >= 0)
        own = parent[inside]
        above = self.rows[inside, axis[own]] > cut[own]
        self.labels[np.arange(above.sum())] = first + own[above]

    with patch.object(partition.Members, "move_right", wrong):
        assert not all(
            same_nodes(kind, adjacency, d)
            for kind in ("first", "spread")
            for adjacency in ADJACENCIES
        )
