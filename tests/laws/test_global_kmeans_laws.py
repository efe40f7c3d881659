"""Global k-means is its definition, written out: try every row, keep the best, run Lloyd."""

from itertools import pairwise

import numpy as np
import pytest
from api import HostData, Rows, SeedingProblem, StopRule, draw_candidates, global_kmeans, refine
from api import global_kmeans_module as nested
from laws import brute
from laws.cases import LAYOUTS, every_matrix, rows, weighted_or_not, weights_for
from sampling.chi_square import ALPHA, chi_square
from scipy import sparse

from kvariates import KMeans


def lloyd(part, centers):
    return refine(part, centers, StopRule(300, 0.0))


def solve(X, k, weight=None, candidates="all", full=False, lloyd=lloyd):
    rng = np.random.default_rng(0)
    problem = SeedingProblem(HostData(Rows.of(X), weight), k, lloyd=lloyd, rng=rng)
    return global_kmeans(problem, candidates=candidates, full=full)


def by_definition(X, k, weight, full):
    """Every step by brute force; only Lloyd is shared with the code under test."""
    given, dense = (HostData(Rows.of(X), weight),), brute.dense64(X)
    weight = np.ones(len(dense)) if weight is None else weight
    between = brute.squared_distances(dense, dense)
    solutions = [lloyd(*given, np.average(dense, axis=0, weights=weight)[None])]
    tried = np.flatnonzero(weight)
    while len(solutions) < k:
        centers = solutions[-1].centers.astype(np.float64)
        near = brute.squared_distances(dense, centers).min(axis=1)
        sums = (weight * np.minimum(near, between[tried])).sum(axis=1)
        kept = tried if full else [tried[np.argmin(sums)]]
        ends = [lloyd(*given, np.vstack([centers, dense[i]])) for i in kept]
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
    starts = []

    def spy(part, centers):
        if candidates == "all":
            starts.append(centers[-1])
        elif part.rows.X is not X:  # a cut of a cluster, from two of its rows
            starts.extend(centers)
        return lloyd(part, centers)

    solve(X, 4, weight, candidates, lloyd=spy)
    assert len(starts) >= 3
    assert all(abs(abs(start[0]) - 10) + abs(abs(start[1]) - 10) > 0.9 for start in starts[1:])


def test_a_sampled_step_makes_the_best_cut(monkeypatch):
    """Of each cluster, from its best candidate and a row drawn by the distance from it."""
    X, weight = rows(90, 3, seed=12), weights_for(90)

    def second(mass, order, size, rng):  # all rows are candidates; the farthest one is drawn
        return np.arange(90) if size == 7 else np.array([np.argmax(mass)])

    monkeypatch.setattr(nested, "draw_candidates", second)
    found = solve(X, 6, weight, candidates=7)
    between = brute.squared_distances(X, X)
    for before, after in pairwise(found):
        near = brute.squared_distances(X, before.centers)
        gains = (weight * np.maximum(near.min(axis=1) - between, 0)).sum(axis=1)
        best = -np.inf
        for j in range(len(before.centers)):
            part = np.flatnonzero(before.labels == j)
            pair = part[[np.argmax(gains[part]), 0]]
            pair[1] = part[np.argmax(weight[part] * between[pair[0], part])]
            cut = lloyd(HostData(Rows.of(X[part]), weight[part]), X[pair])
            drop = (weight[part] * near[part, j]).sum() - cut.inertia
            if drop > best:
                best, start = drop, np.vstack([before.centers, cut.centers[1]])
                start[j] = cut.centers[0]
        assert_same([after], [lloyd(HostData(Rows.of(X), weight), start)])


def text_like(n=240, words=400, seed=0):
    """Sparse rows of unit length, nearly orthogonal to each other, about six topics."""
    rng = np.random.default_rng(seed)
    common = 1 / np.arange(1, words + 1)
    own = np.stack([np.where(rng.random(words) < 0.05, common[::-1], 0) for _ in range(6)])
    mix = 0.8 * common / common.sum() + 0.2 * own / own.sum(axis=1, keepdims=True)
    counts = np.stack([rng.multinomial(25, mix[i % 6]) for i in range(n)])
    weights = counts * np.log(n / np.maximum((counts > 0).sum(axis=0), 1))
    return sparse.csr_array(weights / np.linalg.norm(weights, axis=1, keepdims=True))


SETS = {
    "text": text_like,
    "groups": lambda: rows(600, 4, seed=13, groups=20),
    "uniform": lambda: np.random.default_rng(14).random((500, 6)),
}


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize("name", SETS)
def test_the_cost_is_never_above_that_of_kmeans_plusplus(name, sampled, monkeypatch):
    """With the same seed: both fits see the same draws of k-means++."""
    if sampled:
        monkeypatch.setattr(nested, "EXHAUSTIVE", 0)
    X, less = SETS[name](), 0
    for seed in range(6):
        cost = {
            init: KMeans(12, init=init, random_state=seed).fit(X).inertia_
            for init in ("global", "k-means++")
        }
        assert cost["global"] <= cost["k-means++"] * (1 + 1e-12)
        less += cost["global"] < cost["k-means++"] * (1 - 1e-6)
    assert less > 0 or not sampled  # all rows of text as candidates do not help


def test_text_is_not_cut_into_single_rows():
    X = text_like()
    sizes = np.bincount(solve(X, 6, candidates=16)[-1].labels)
    assert sizes.min() >= 10
