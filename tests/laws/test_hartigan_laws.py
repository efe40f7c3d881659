"""Hartigan's method ends where no single move helps, and never above Lloyd from the same start."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from api import HostData, LloydResult, RefineProblem, Rows, StopRule, refine
from api import hartigan as lloyd_then_moves
from hypothesis import given
from hypothesis import strategies as st
from laws import brute
from laws.cases import DTYPES, LAYOUTS, every_matrix, rows, start, weighted_or_not, weights_for


def hartigan(points, begin, weight, max_iter, callback=None):
    """Only the moves: Lloyd ends where it begins, in no iterations."""
    stop = StopRule(max_iter, 0.0, callback)
    end = LloydResult(begin.centers, begin.labels, 0.0, 0, True)
    problem = RefineProblem(HostData(points, weight), begin.centers, stop, lambda *_: end, None)
    return lloyd_then_moves(problem)


def lloyd(X, k, weight=None, seed=1, tol=0.0):
    init = start(X, k, seed).astype(np.float64)
    return refine(HostData(Rows.of(X), weight), init, StopRule(300, tol))


def cost_of(X, labels, weight):
    """Cost of a partition around its own means: the definition, nothing shared with the code."""
    cost = 0.0
    for j in np.unique(labels[weight > 0]):
        own = labels == j
        mean = np.average(X[own], axis=0, weights=weight[own])
        cost += (weight[own] * ((X[own] - mean) ** 2).sum(axis=1)).sum()
    return cost


def best_move(X, labels, k, weight):
    """Cost after the best of all single moves, one by one."""
    best = np.inf
    for i in np.flatnonzero(weight > 0):
        for b in range(k):
            moved = labels.copy()
            moved[i] = b
            best = min(best, cost_of(X, moved, weight))
    return best


def largest_gain(X, labels, centers, weight):
    """Return max of 1 - joining / leaving over all moves: positive if one helps."""
    squares = brute.squared_distances(X, centers)
    mass = np.bincount(labels, weight, minlength=len(centers))
    many = np.bincount(labels[weight > 0], minlength=len(centers)) > 1
    rows_, own = np.arange(len(labels)), labels
    may = (weight > 0) & many[own]
    joining = mass / (mass + weight[:, None] + (mass == 0)) * squares
    joining[rows_, own] = np.inf
    leaving = (mass[own] / np.where(may, mass[own] - weight, 1) * squares[rows_, own])[may]
    return np.max(1 - joining[may].min(axis=1) / leaving, where=leaving > 0, initial=-np.inf)


@every_matrix
@weighted_or_not
def test_ends_where_no_single_move_helps(dtype, layout, weighted):
    improved = 0
    for seed in range(4):
        X = rows(40, 3, dtype, seed=seed, sparsity=0.2)
        weight = weights_for(40, seed) if weighted else None
        before = lloyd(LAYOUTS[layout](X), 6, weight, seed)
        end = hartigan(Rows.of(LAYOUTS[layout](X)), before, weight, max_iter=100)
        assert end.converged
        one = np.ones(40) if weight is None else weight
        cost = cost_of(brute.dense64(X), end.labels, one)
        assert best_move(brute.dense64(X), end.labels, 6, one) >= cost * (1 - 1e-11)
        assert end.inertia == pytest.approx(cost, rel=1e-6)
        assert end.inertia <= before.inertia
        improved += end.inertia < before.inertia * (1 - 1e-6)
    assert improved >= 2, "Lloyd's stops were Hartigan's already: nothing was tried"


@every_matrix
@weighted_or_not
def test_bounds_skip_no_useful_move(dtype, layout, weighted):
    """Many passes, in which most rows are passed over."""
    X = rows(4000, 4, dtype, seed=8, sparsity=0.2)
    weight = weights_for(4000) if weighted else None
    one = np.ones(4000) if weight is None else weight
    before = lloyd(LAYOUTS[layout](X), 40, weight, tol=1e-3)
    means = []
    end = hartigan(
        Rows.of(LAYOUTS[layout](X)), before, weight, max_iter=300,
        callback=lambda step: means.append(step.centers.copy()),
    )  # fmt: skip
    assert end.converged
    assert end.n_iter > 5
    centers, labels = means[-1], end.labels
    assert largest_gain(X, labels, centers, one) < 1e-9


@every_matrix
@weighted_or_not
def test_cost_falls_with_every_pass(dtype, layout, weighted):
    X = rows(1500, 5, dtype, seed=3, sparsity=0.2)
    weight = weights_for(1500) if weighted else None
    before = lloyd(LAYOUTS[layout](X), 15, weight, tol=1e-2)
    costs = [brute.inertia(X, before.centers, before.labels, weight)]

    def watch(step):
        costs.append(step.statistics.cost)
        return False

    end = hartigan(Rows.of(LAYOUTS[layout](X)), before, weight, max_iter=100, callback=watch)
    assert len(costs) == end.n_iter + 1 > 4
    # The last pass moves nothing.
    assert all(b < a * (1 + 1e-14) for a, b in pairwise(costs[:-1]))
    assert end.inertia == pytest.approx(costs[-1], rel=1e-5)


@given(
    n=st.integers(1, 120),
    d=st.integers(1, 6),
    k=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
    weighted=st.booleans(),
    passes=st.sampled_from([1, 2, 100]),
    offset=st.sampled_from([0, 1e4]),
)
def test_never_above_lloyd(n, d, k, seed, dtype, layout, weighted, passes, offset):
    X = LAYOUTS[layout]((rows(n, d, seed=seed) + offset).astype(dtype))
    weight = weights_for(n, seed) + 1e-3 if weighted else None
    before = lloyd(X, min(k, n), weight, seed, tol=1e-3)
    end = hartigan(Rows.of(X), before, weight, max_iter=passes)
    assert end.inertia <= before.inertia
    cost = brute.inertia(X, end.centers, end.labels, weight)
    # Sparse rows are measured as ||c||^2 + x(x - 2c): far from the origin digits cancel.
    assert end.inertia == pytest.approx(cost, rel=1e-9, abs=1e-14 * n * d * offset**2)
    if layout == "dense":
        assert np.array_equal(end.labels, brute.nearest(X, end.centers))
    assert end.centers.dtype == dtype
    assert end.n_iter <= passes


def test_where_a_weighted_row_stays_its_repeats_stay():
    """One of w repeats gains less by going alone than all of them by going together."""
    X = rows(300, 3, seed=5)
    count = np.random.default_rng(0).integers(1, 5, size=300)
    weight = count.astype(np.float64)
    end = hartigan(Rows.of(X), lloyd(X, 9, weight), weight, max_iter=99)
    repeats = SimpleNamespace(centers=end.centers, labels=np.repeat(end.labels, count))
    again = hartigan(Rows.of(np.repeat(X, count, axis=0)), repeats, None, max_iter=1)
    assert again.converged
    assert np.array_equal(again.labels, repeats.labels)
    assert again.inertia == pytest.approx(end.inertia, rel=1e-12)


def test_a_row_of_weight_zero_is_as_good_as_absent():
    X = rows(400, 3, seed=7)
    weight = weights_for(400, 7)
    there = weight > 0
    assert np.count_nonzero(~there) > 10
    before = lloyd(X[there], 9, weight[there])
    labels = Rows.of(X).nearest(before.centers)
    among = hartigan(
        Rows.of(X), SimpleNamespace(centers=before.centers, labels=labels), weight, max_iter=100
    )
    alone = hartigan(Rows.of(X[there]), before, weight[there], max_iter=100)
    assert alone.n_iter > 2
    assert np.array_equal(among.labels[there], alone.labels)
    np.testing.assert_allclose(among.centers, alone.centers, rtol=1e-13)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_partition_may_be_the_start(layout):
    """All rows in one of five clusters: the other four fill up."""
    X = rows(200, 2, seed=9)
    all_in_one = SimpleNamespace(centers=np.zeros((5, 2)), labels=np.full(200, 3, dtype=np.int32))
    end = hartigan(Rows.of(LAYOUTS[layout](X)), all_in_one, None, max_iter=300)
    assert end.converged
    assert len(np.unique(end.labels)) == 5
    assert largest_gain(X, end.labels, end.centers, np.ones(200)) < 1e-9


@pytest.mark.parametrize("scale", [1e8, 1e14])
def test_rounding_does_not_keep_it_going(scale):
    """Offsets that leave few digits, weights that leave few to the light: it stops all the same."""
    X = rows(600, 2, seed=10)
    space = Rows.of(X + scale)
    end = hartigan(space, lloyd(X + scale, 30), None, max_iter=1000)
    assert end.converged
    heavy = 1 + scale * (np.arange(600) % 50 == 0)
    end = hartigan(Rows.of(X), lloyd(X, 30, heavy), heavy, max_iter=1000)
    assert end.converged


def test_a_callback_can_stop_it():
    X = rows(2000, 4, seed=11)
    before = lloyd(X, 30, tol=1e-2)
    assert hartigan(Rows.of(X), before, None, max_iter=100).n_iter > 3
    end = hartigan(
        Rows.of(X), before, None, max_iter=100, callback=lambda step: step.iteration == 1
    )
    assert end.n_iter == 2
    assert not end.converged


@pytest.mark.parametrize("scale", [1e-12, 1e-20, 1e-33])
def test_a_far_row_changes_nothing_for_the_others(scale):
    """Its cluster is its own. The sums of the other clusters keep all their digits."""
    near = rows(200, 2, seed=3) * scale
    init = near[:6].copy()
    ends = []
    for X, centers in ((near, init), (np.vstack([near, [[1, 1]]]), np.vstack([init, [[1, 1]]]))):
        view = Rows.of(X)
        begin = refine(HostData(view), centers, StopRule(1, 0.0))
        ends.append(hartigan(view, begin, None, 100))
    alone, beside = ends
    assert alone.n_iter == beside.n_iter > 2
    assert np.array_equal(alone.labels, beside.labels[:-1])
    assert np.array_equal(alone.centers, beside.centers[:-1])
