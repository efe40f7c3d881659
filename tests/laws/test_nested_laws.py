"""Global k-means is its own definition, written out: try every row, keep the best, settle."""

from itertools import pairwise

import numpy as np
import pytest
from laws import brute
from laws.cases import DTYPES, LAYOUTS, rows
from scipy import stats
from threadpoolctl import threadpool_limits

from kvariates.data.rows import Rows
from kvariates.refining.lloyd import refine
from kvariates.seeding.global_kmeans import Solution, _drawn, global_kmeans, sample_size

GRID = [
    pytest.param(dtype, layout, weighted, id=f"{np.dtype(dtype)}-{layout}-{weighted}")
    for dtype in DTYPES
    for layout in LAYOUTS
    for weighted in (False, True)
]
ALPHA = 1e-6  # how often a right sampler would fail


def settler(X, weight):
    def settle(centers):
        found = refine(Rows.of(X), centers, weight, algorithm="auto", max_iter=300, tol=0.0)
        return Solution(found.centers.astype(np.float64), found.labels, found.inertia)

    return settle


def solve(X, k, weight=None, candidates="all", full=False, seed=0):
    rng = np.random.default_rng(seed)
    settle = settler(X, weight)
    return global_kmeans(Rows.of(X), k, weight, settle, candidates=candidates, full=full, rng=rng)


def weights_for(n):
    rng = np.random.default_rng(n)
    return rng.exponential(size=n) * (rng.random(n) < 0.8)


def by_definition(X, k, weight, full):
    """Every step by brute force; only `settle` is shared with the code under test."""
    settle, dense = settler(X, weight), brute.dense64(X)
    weight = np.ones(len(dense)) if weight is None else weight
    between = brute.squared_distances(dense, dense)
    solutions = [settle(np.average(dense, axis=0, weights=weight)[None])]
    tried = np.flatnonzero(weight)
    while len(solutions) < k:
        centers = solutions[-1].centers
        near = brute.squared_distances(dense, centers).min(axis=1)
        sums = (weight * np.minimum(near, between[tried])).sum(axis=1)
        rows_ = tried if full else [tried[np.argmin(sums)]]
        ends = [settle(np.vstack([centers, dense[i]])) for i in rows_]
        solutions.append(ends[int(np.argmin([end.cost for end in ends]))])
    return solutions


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a.centers, b.centers)
        assert np.array_equal(a.labels, b.labels)
        assert a.cost == b.cost


@pytest.mark.parametrize(("dtype", "layout", "weighted"), GRID)
@pytest.mark.parametrize(("n", "d"), [(150, 2), (300, 6)])
def test_the_exhaustive_step_is_its_definition(n, d, dtype, layout, weighted):
    X = LAYOUTS[layout](rows(n, d, dtype, seed=n, sparsity=0.2 if d > 2 else 0))
    weight = weights_for(n) if weighted else None
    assert_same(solve(X, 9, weight), by_definition(X, 9, weight, full=False))


@pytest.mark.parametrize(("dtype", "layout", "weighted"), GRID)
def test_the_full_variant_is_its_definition(dtype, layout, weighted):
    X = LAYOUTS[layout](rows(30, 3, dtype, seed=2))
    weight = weights_for(30) if weighted else None
    full = solve(X, 5, weight, full=True)
    assert_same(full, by_definition(X, 5, weight, full=True))


def test_the_full_variant_is_another_one():
    X = rows(40, 2, seed=7)
    full, step = solve(X, 8, full=True), solve(X, 8)
    assert full[1].cost <= step[1].cost * (1 + 1e-12)
    assert any(a.cost < b.cost * (1 - 1e-3) for a, b in zip(full, step, strict=True))


def test_many_chunks_are_one():
    """More rows than candidates are measured at a time."""
    X = rows(4200, 5, seed=3, groups=20)
    assert_same(solve(X, 3), by_definition(X, 3, None, full=False))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_enough_draws_are_all_rows(weighted, full):
    X = rows(25, 2, seed=4)
    weight = weights_for(25) if weighted else None
    sampled = solve(X, 5, weight, candidates=20_000, full=full)
    # Costs only: a row close to a centre is hardly drawn, and another may lead to the same place.
    costs = [solution.cost for solution in solve(X, 5, weight, full=full)]
    assert [solution.cost for solution in sampled] == pytest.approx(costs, rel=1e-12)


def test_candidates_are_drawn_by_their_mass():
    """Single draws against the exact law, chi-square at ALPHA; rows without mass never come."""
    mass = np.array([0, 3, 1, 0, 0, 2, 10, 0.5, 0])
    rng = np.random.default_rng(5)
    for order in (None, rng.permutation(9)):
        drawn = np.concatenate([_drawn(mass, order, 1, rng) for _ in range(20_000)])
        seen = np.bincount(drawn, minlength=9)
        assert not seen[mass == 0].any()
        expected = 20_000 * mass[mass > 0] / mass.sum()
        assert stats.chisquare(seen[mass > 0], expected).pvalue > ALPHA


def test_candidates_differ_and_there_is_always_one():
    rng = np.random.default_rng(6)
    drawn = _drawn(np.ones(50), None, 200, rng)
    assert len(np.unique(drawn)) == len(drawn) > 40
    assert len(_drawn(np.zeros(50), None, 200, rng)) == 1


def test_few_draws_are_nearly_as_good():
    """Not a law, but what `sample_size` is chosen for; seeded."""
    X = rows(3000, 4, seed=8, groups=12)
    best, sampled = solve(X, 12)[-1], solve(X, 12, candidates=sample_size(3000))[-1]
    assert sampled.cost < 1.1 * best.cost


@pytest.mark.parametrize("weighted", [False, True])
def test_one_centre_is_the_mean(weighted):
    X = rows(500, 3, seed=9)
    weight = weights_for(500) if weighted else None
    (only,) = solve(X, 1, weight)
    np.testing.assert_allclose(only.centers, [np.average(X, axis=0, weights=weight)], rtol=1e-12)
    assert only.cost == pytest.approx(brute.inertia(X, only.centers, only.labels, weight))


@pytest.mark.parametrize("candidates", ["all", 5])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_costs_fall_while_different_rows_remain(layout, full, candidates):
    """And then stay at zero: more centres than different rows are no trouble."""
    different = rows(7, 2, seed=10)
    X = LAYOUTS[layout](np.repeat(different, 4, axis=0))
    solutions = solve(X, 10, candidates=candidates, full=full)
    costs = [solution.cost for solution in solutions]
    assert [len(solution.centers) for solution in solutions] == list(range(1, 11))
    assert all(b < a for a, b in pairwise(costs[:7]))
    assert costs[5] > 1e-3
    np.testing.assert_allclose(costs[6:], 0, atol=1e-12)


def test_rows_that_are_all_alike():
    assert [s.cost for s in solve(np.ones((20, 3)), 4)] == [0] * 4
    assert [s.cost for s in solve(np.ones((20, 3)), 4, candidates=3)] == [0] * 4


@pytest.mark.parametrize("candidates", ["all", 8])
def test_weights_are_repeats_and_order_is_nothing(candidates):
    X = rows(120, 3, seed=11)
    count = np.random.default_rng(0).integers(0, 4, size=120)
    weighted = solve(X, 7, count.astype(np.float64), candidates)
    shuffled = np.random.default_rng(1).permutation(count.sum())
    repeated = solve(np.repeat(X, count, axis=0)[shuffled], 7, None, candidates)
    for a, b in zip(weighted, repeated, strict=True):
        assert a.cost == pytest.approx(b.cost, rel=1e-9)
        np.testing.assert_allclose(a.centers, b.centers, atol=1e-9)


@pytest.mark.parametrize("candidates", ["all", 8])
def test_a_row_of_weight_zero_is_no_candidate(candidates):
    """It would be the best one: the middle of a ring, far from the mean."""
    angle = np.arange(12) * np.pi / 6
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 10
    X = np.concatenate([[[10.0, 10]], ring, -ring, [[-10.0, -10]]])
    weight = np.r_[0.0, np.ones(24), 0]
    settle, starts = settler(X, weight), []

    def spy(centers):
        starts.append(centers[-1])
        return settle(centers)

    rng = np.random.default_rng(0)
    global_kmeans(Rows.of(X), 4, weight, spy, candidates=candidates, rng=rng)
    assert all(abs(abs(start[0]) - 10) + abs(abs(start[1]) - 10) > 0.9 for start in starts[1:])


def test_threads_change_nothing():
    X = rows(20011, 16, np.float32, seed=12)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="openmp"):
            found.append(solve(X, 4, candidates=30))
    assert_same(*found)
