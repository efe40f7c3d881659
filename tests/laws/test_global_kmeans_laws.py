"""Global k-means is its definition, written out: try every row, keep the best, run Lloyd."""

from itertools import pairwise

import numpy as np
import pytest
from laws import brute
from laws.cases import LAYOUTS, every_matrix, rows, weighted_or_not, weights_for
from sampling.chi_square import ALPHA, chi_square

from kvariates.data.rows import Rows
from kvariates.refining.lloyd import StopRule, refine
from kvariates.seeding.global_kmeans import draw_candidates, global_kmeans
from kvariates.seeding.seeding_problem import SeedingProblem


def lloyd_of(X, weight):
    return lambda centers: refine(Rows.of(X), centers, weight, StopRule(300, 0.0))


def solve(X, k, weight=None, candidates="all", full=False, lloyd=None):
    lloyd = lloyd_of(X, weight) if lloyd is None else lloyd
    rng = np.random.default_rng(0)
    problem = SeedingProblem(Rows.of(X), weight, k, lloyd=lloyd, rng=rng)
    return global_kmeans(problem, candidates=candidates, full=full)


def by_definition(X, k, weight, full):
    """Every step by brute force; only Lloyd is shared with the code under test."""
    lloyd, dense = lloyd_of(X, weight), brute.dense64(X)
    weight = np.ones(len(dense)) if weight is None else weight
    between = brute.squared_distances(dense, dense)
    solutions = [lloyd(np.average(dense, axis=0, weights=weight)[None])]
    tried = np.flatnonzero(weight)
    while len(solutions) < k:
        centers = solutions[-1].centers.astype(np.float64)
        near = brute.squared_distances(dense, centers).min(axis=1)
        sums = (weight * np.minimum(near, between[tried])).sum(axis=1)
        kept = tried if full else [tried[np.argmin(sums)]]
        ends = [lloyd(np.vstack([centers, dense[i]])) for i in kept]
        solutions.append(ends[int(np.argmin([end.inertia for end in ends]))])
    return solutions


def assert_same(found, expected):
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a.centers, b.centers)
        assert np.array_equal(a.labels, b.labels)
        assert a.inertia == b.inertia


@every_matrix
@weighted_or_not
def test_every_step_is_its_definition(dtype, layout, weighted):
    X = LAYOUTS[layout](rows(300, 6, dtype, seed=300, sparsity=0.2))
    weight = weights_for(300) if weighted else None
    assert_same(solve(X, 9, weight), by_definition(X, 9, weight, full=False))
    few, weight = X[:30], None if weight is None else weight[:30]
    assert_same(solve(few, 5, weight, full=True), by_definition(few, 5, weight, full=True))


def test_candidates_measured_in_several_passes():
    X = rows(4200, 5, seed=3, groups=20)
    assert_same(solve(X, 3), by_definition(X, 3, None, full=False))


def test_the_full_variant_is_another_one():
    X = rows(40, 2, seed=7)
    full, step = solve(X, 8, full=True), solve(X, 8)
    assert full[1].inertia <= step[1].inertia * (1 + 1e-12)
    assert any(a.inertia < b.inertia * (1 - 1e-3) for a, b in zip(full, step, strict=True))


@pytest.mark.parametrize("full", [False, True])
def test_enough_draws_are_all_rows(full):
    """Only costs are compared: a row close to a centre is hardly drawn."""
    X, weight = rows(25, 2, seed=4), weights_for(25)
    sampled = solve(X, 5, weight, candidates=20_000, full=full)
    costs = [solution.inertia for solution in solve(X, 5, weight, full=full)]
    assert [solution.inertia for solution in sampled] == pytest.approx(costs, rel=1e-12)


def test_candidates_are_drawn_by_their_mass():
    mass = np.array([0, 3, 1, 0, 0, 2, 10, 0.5, 0])
    rng = np.random.default_rng(5)
    for order in (None, rng.permutation(9)):
        drawn = [draw_candidates(mass, order, 1, rng)[0] for _ in range(20_000)]
        assert chi_square(np.bincount(drawn, minlength=9), mass / mass.sum()) > ALPHA
    drawn = draw_candidates(np.ones(50), None, 200, rng)
    assert len(np.unique(drawn)) == len(drawn) > 40
    assert len(draw_candidates(np.zeros(50), None, 200, rng)) == 1


@pytest.mark.parametrize("candidates", ["all", 5])
@pytest.mark.parametrize("full", [False, True])
def test_costs_fall_while_different_rows_remain(full, candidates):
    """Then they stay at zero: more centres than different rows are allowed."""
    X = np.repeat(rows(7, 2, seed=10), 4, axis=0)
    solutions = solve(X, 10, candidates=candidates, full=full)
    costs = [solution.inertia for solution in solutions]
    assert [len(solution.centers) for solution in solutions] == list(range(1, 11))
    assert all(b < a for a, b in pairwise(costs[:7]))
    assert costs[5] > 1e-3
    np.testing.assert_allclose(costs[6:], 0, atol=1e-12)
    assert [s.inertia for s in solve(np.ones((20, 3)), 4, candidates=candidates)] == [0] * 4


@pytest.mark.parametrize("candidates", ["all", 8])
def test_weights_are_repeats_and_order_does_not_matter(candidates):
    X = rows(120, 3, seed=11)
    count = np.random.default_rng(0).integers(0, 4, size=120)
    weighted = solve(X, 7, count.astype(np.float64), candidates)
    shuffled = np.random.default_rng(1).permutation(count.sum())
    repeated = solve(np.repeat(X, count, axis=0)[shuffled], 7, None, candidates)
    for a, b in zip(weighted, repeated, strict=True):
        assert a.inertia == pytest.approx(b.inertia, rel=1e-9)
        np.testing.assert_allclose(a.centers, b.centers, atol=1e-9)


@pytest.mark.parametrize("candidates", ["all", 8])
def test_a_row_of_weight_zero_is_no_candidate(candidates):
    """It would be the best one: the middle of a ring, far from the mean."""
    angle = np.arange(12) * np.pi / 6
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1) + 10
    X = np.concatenate([[[10.0, 10]], ring, -ring, [[-10.0, -10]]])
    weight = np.r_[0.0, np.ones(24), 0]
    lloyd, starts = lloyd_of(X, weight), []

    def spy(centers):
        starts.append(centers[-1])
        return lloyd(centers)

    solve(X, 4, weight, candidates, lloyd=spy)
    assert all(abs(abs(start[0]) - 10) + abs(abs(start[1]) - 10) > 0.9 for start in starts[1:])
