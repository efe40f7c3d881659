"""A row's node is its own affair: given what was measured, no other row has a say in it.

That is what parallel composition over the nodes of a level rests on. Measures are scripted here, so
that they are the same for two neighbours, as an attacker would have them; then the rows that both
data sets have must be in the same nodes at every level, whatever became of the one in question.
"""

from unittest.mock import patch

import numpy as np
import pytest

from kvariates.privacy.neighbours import KINDS, neighbours
from kvariates.summaries import partition

LEVELS = 4


def nodes_of(rows, seed):
    """The labels that every measure was asked about, a column a level."""
    d, asked = rows.shape[1], []

    def scripted(labels, frames, level):
        asked.append(labels.copy())
        rng = np.random.default_rng([seed, level])
        n = len(frames.radii)
        means = rng.uniform(-0.3, 0.3, (n, d))
        return partition.Moments(
            np.full(n, 1e6), means, means**2 + rng.random((n, d)), (1.0, 1.0, 1.0)
        )

    start = partition.root(np.zeros(d), np.ones(d), -np.ones(d), np.ones(d), 9.0)
    partition.summary(rows, start, LEVELS, scripted)
    return np.stack(asked, axis=1)


def same_nodes(kind, side, d):
    pair = neighbours(kind, 40, d, side)
    first, second = (nodes_of(rows, seed=7) for rows in pair)
    where = 0 if kind == "first" else len(first) - 1
    first = np.delete(first, where, axis=0)
    if side == "replace-one":
        second = np.delete(second, where, axis=0)
    return np.array_equal(first, second)


@pytest.mark.parametrize("side", ["add-remove", "replace-one"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "empty"])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_no_other_row_decides_where_a_row_goes(kind, side, d):
    assert same_nodes(kind, side, d)


@pytest.mark.parametrize("d", [1, 2, 6])
def test_rows_go_to_different_nodes(d):
    """Else the test above would say nothing."""
    labels = nodes_of(neighbours("spread", 40, d).first, seed=7)
    assert len(np.unique(labels[:, -1])) > 3


@pytest.mark.parametrize("d", [1, 2, 6])
def test_local_indices_reused_as_global_are_caught(d):
    """Positions among the rows of open nodes, or among those above a cut, taken for row numbers."""

    def wrong(rows, labels, parent, axis, high, first):
        cut = high[np.arange(len(axis)), axis]
        inside = np.flatnonzero(parent >= 0)
        own = parent[inside]
        above = rows[inside, axis[own]] > cut[own]
        labels[np.arange(above.sum())] = first + own[above]

    with patch.object(partition, "_move_right", wrong):
        assert not all(
            same_nodes(kind, side, d)
            for kind in ("first", "spread")
            for side in ("add-remove", "replace-one")
        )
