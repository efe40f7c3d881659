"""The partition with exact measures gives true counts and means of its rows."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from api import Members, Moments, Secret, depth, level_shares, root, rules
from api import partition_module as partition
from hypothesis import given
from hypothesis import strategies as st


def summarize(rows, start, levels, measure):
    return partition.summarize(Secret(Members(rows)), start, levels, measure)


def exactly(rows, calls=None):
    """A measure without noise. The labels of every call are appended to `calls`."""

    def measure(chosen, balls, level):
        labels = chosen.reveal("for a test").labels
        if calls is not None:
            calls.append(labels.copy())
        k, p = len(balls.radii), rows.shape[1]
        counts, sums, squares = np.zeros(k), np.zeros((k, p)), np.zeros((k, p))
        inside = labels >= 0
        own = labels[inside]
        z = (rows[inside] - balls.centers[own]) / balls.radii[own][:, None]
        z /= np.maximum(1, np.linalg.norm(z, axis=1))[:, None]
        np.add.at(counts, own, 1)
        np.add.at(sums, own, z)
        np.add.at(squares, own, z * z)
        by = np.maximum(counts, 1)[:, None]
        return Moments(counts, sums / by, squares / by, 0.0, 0.0, 0.0)

    return measure


def drawn(seed, n, p, groups=4):
    rng = np.random.default_rng(seed)
    middles = rng.uniform(-1, 1, (groups, p))
    return np.clip(middles[rng.integers(groups, size=n)] + 0.1 * rng.normal(size=(n, p)), -2, 2)


def start(rows):
    p = rows.shape[1]
    return root(rows.mean(axis=0), rows.var(axis=0), np.full(p, -2.0), np.full(p, 2.0), 99.0)


@given(seed=st.integers(0, 10**6), p=st.sampled_from([1, 2, 3, 5]), levels=st.integers(0, 7))
def test_leaves_are_a_partition_with_true_counts(seed, p, levels):
    rows, calls = drawn(seed, 300, p), []
    found = summarize(rows, start(rows), levels, exactly(rows, calls))
    assert found.weights.sum() == 300
    labels = calls[-1]
    assert (labels >= 0).all()
    assert sorted(np.bincount(labels)[np.bincount(labels) > 0]) == sorted(found.weights)


@given(seed=st.integers(0, 10**6), p=st.sampled_from([1, 2, 3]))
def test_points_are_the_means_of_their_rows_in_wide_balls(seed, p):
    rows, calls = drawn(seed, 300, p), []
    with patch.object(partition, "FEW", replace(partition.FEW, wide=1e9)):  # to the corners
        found = summarize(rows, start(rows), 5, exactly(rows, calls))
    labels = np.unique(calls[-1], return_inverse=True)[1]
    means = np.array([rows[labels == j].mean(axis=0) for j in range(len(found.points))])
    assert np.allclose(found.points, means)
    spread = [np.square(rows[labels == j] - means[j]).sum(axis=1).mean() for j in range(len(means))]
    # A variance is at least a fiftieth of its guess.
    assert np.all(found.spreads >= np.array(spread) - 1e-9)


@given(seed=st.integers(0, 10**6), p=st.sampled_from([2, 5]))
def test_more_levels_lower_the_cost(seed, p):
    rows = drawn(seed, 500, p)
    left = []
    for levels in (0, 3, 6):
        found = summarize(rows, start(rows), levels, exactly(rows))
        squared = np.square(rows[:, None] - found.points).sum(axis=2)
        left.append(squared.min(axis=1).sum())
    assert left[0] >= left[1] >= left[2]
    assert left[2] < left[0] / 3


def test_a_small_group_far_away_gets_its_own_leaf_with_many_axes():
    rng = np.random.default_rng(0)
    rows = np.concatenate([0.1 * rng.normal(size=(2000, 6)), np.full((20, 6), 0.9)])
    found = summarize(rows, start(rows), 4, exactly(rows))
    near = np.abs(found.points - 0.9).max(axis=1) < 1e-6
    assert found.weights[near].sum() == 20


def test_there_may_be_no_rows():
    for p in (2, 5):
        none = np.empty((0, p))
        one = root(np.zeros(p), np.ones(p), -np.ones(p), np.ones(p), 9.0)
        found = summarize(none, one, 3, exactly(none))
        assert len(found.points) == 0


def test_shares_grow_and_add_up_to_one():
    for levels in (1, 2, 40):
        parts = level_shares(levels)
        assert parts.sum() == pytest.approx(1)
        assert (np.diff(parts) > 0).all()


def test_the_depth_grows_with_the_number_of_rows_up_to_a_limit():
    def error(share):
        return 10 / np.sqrt(share)

    depths = [depth(n, 2, 8, error) for n in (1, 1e3, 1e5, 1e7, 1e15)]
    assert depths == sorted(depths)
    assert depths[0] == 1
    leaves = 2 ** (rules(2).cuts * depths[-1])
    assert rules(2).leaves * 8 <= leaves < 2 ** rules(2).cuts * rules(2).leaves * 8


def test_a_closed_node_is_not_measured_again():
    rows, calls = drawn(1, 200, 2), []
    exact = exactly(rows, calls)

    def noisy_counts(labels, balls, level):
        return replace(exact(labels, balls, level), count_error=1e9)

    summarize(rows, start(rows), 4, noisy_counts)
    # The first node is always cut; its four children are measured once and closed.
    assert [len(np.unique(labels[labels >= 0])) for labels in calls] == [1, 4, 0, 0, 4]


def test_the_size_of_blocks_does_not_matter(monkeypatch):
    rows = drawn(2, 500, 3)
    whole = summarize(rows, start(rows), 5, exactly(rows))
    monkeypatch.setattr(partition, "BLOCK", 64)
    assert np.array_equal(whole.points, summarize(rows, start(rows), 5, exactly(rows)).points)
