"""Local search over swaps: it ends in a local optimum, and native code makes the same swaps."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from api import MedoidProblem, MedoidState, SwapSearch, Vectors, search, unit_rows
from api import medoid_search_module as medoid_search
from api import swaps_module as swaps
from hypothesis import given
from hypothesis import strategies as st
from laws.brute import best_swap, medoid_cost


def assert_local_optimum(found, D, weight=None):
    assert found.local_optimum
    assert found.cost == pytest.approx(medoid_cost(D, found.medoids, weight))
    assert best_swap(D, found.medoids, weight) >= found.cost * (1 - 1e-9)
    assert len(np.unique(found.medoids)) == len(found.medoids)


def made(seed, n, weighted=False):
    """A generator and a problem over a matrix of distances."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * (1 + 5 * rng.random((n, 1)))
    weight = np.r_[1.0, rng.integers(0, 4, size=n - 1)] if weighted else None
    return rng, MedoidProblem(Vectors(X, "euclidean").matrix(), weight, np.arange(n))


def eager(order, **limits):
    return SwapSearch(swaps.AllCandidates(order, swaps.BLOCK), **limits)


cases = given(
    seed=st.integers(0, 10**6), n=st.integers(2, 60), k=st.integers(1, 6), weighted=st.booleans()
)


@cases
def test_native_and_python_searches_make_the_same_swaps_to_a_local_optimum(seed, n, k, weighted):
    rng, problem = made(seed, n, weighted)
    start, order = rng.permutation(n)[: min(k, n)], rng.permutation(n)
    fast = search(problem, start, eager(order), rng)
    slow = swaps.swap_medoids(MedoidState.of(problem, start), eager(order))
    np.testing.assert_array_equal(fast.medoids, slow.medoids)
    assert fast.n_swaps == slow.n_swaps
    for a, b in zip(fast.near, slow.near, strict=True):
        np.testing.assert_array_equal(a, b)
    for found in (fast, slow):
        assert_local_optimum(found, problem.space.D, problem.weight)
    assert fast.cost <= medoid_cost(problem.space.D, start, problem.weight) * (1 + 1e-12)


@cases
def test_one_block_of_all_candidates_makes_the_best_swap(seed, n, k, weighted):
    """Algorithm 1 of Fan et al. 2023."""
    rng, problem = made(seed, n, weighted)
    D, start = problem.space.D, rng.permutation(n)[: min(k, n)]
    how = SwapSearch(swaps.AllCandidates(np.arange(n), n), max_swaps=1)
    found = swaps.swap_medoids(MedoidState.of(problem, start), how)
    best = min(best_swap(D, start, problem.weight), medoid_cost(D, start, problem.weight))
    assert medoid_cost(D, found.medoids, problem.weight) == pytest.approx(best)


@given(seed=st.integers(0, 10**6), n=st.integers(8, 200), restarts=st.integers(1, 5))
def test_restarts_never_cost_more(seed, n, restarts):
    """In native code, and in the Python loop, which runs with any other chooser."""
    _, problem = made(seed, n)
    D, start, order = problem.space.D, np.arange(4), np.random.default_rng(1).permutation(n)
    choose = eager(order).choose
    for options in ({}, {"choose": choose.__call__}):  # the latter is not recognised
        plain, more = (
            search(problem, start, eager(order, restarts=r, **options), np.random.default_rng(2))
            for r in (0, restarts)
        )
        assert more.cost <= plain.cost
        assert more.n_swaps >= plain.n_swaps
        np.testing.assert_array_equal(more.near.cost, D[more.medoids].min(axis=0))
        assert_local_optimum(more, D)


def test_many_restarts_find_the_optimum():
    rng, problem = made(5, 14)
    D = problem.space.D
    best = min(medoid_cost(D, list(some)) for some in itertools.combinations(range(14), 4))
    found = search(problem, np.arange(4), eager(np.arange(14), restarts=200), rng)
    assert found.cost == pytest.approx(best)


@given(seed=st.integers(0, 10**6), n=st.integers(20, 200))
def test_sampled_candidates_never_raise_the_cost(seed, n):
    rng, problem = made(seed, n, weighted=True)
    start = np.flatnonzero(problem.weight)[:3]
    how = SwapSearch(swaps.SampledCandidates(swaps.BLOCK, 64, close=True, rng=rng))
    found = search(problem, start, how, rng)
    assert found.cost == pytest.approx(medoid_cost(problem.space.D, found.medoids, problem.weight))
    assert found.cost <= medoid_cost(problem.space.D, start, problem.weight) * (1 + 1e-12)
    assert not found.local_optimum


def test_a_chooser_may_be_any_function():
    """Here the worst swap that still lowers the cost."""
    rng, problem = made(3, 40)
    shapes = []

    def worst(changes, now):
        shapes.append(changes.shape)
        lower = np.where(changes < -1e-9 * now, changes, -np.inf)
        if not np.isfinite(lower).any():
            return None
        return swaps.MedoidSwap(*np.unravel_index(int(np.argmax(lower)), lower.shape))

    how = SwapSearch(swaps.AllCandidates(np.arange(40), 40), worst)
    found = search(problem, np.arange(3), how, rng)
    assert found.n_swaps > 0
    assert shapes[0] == (37, 3)
    assert best_swap(problem.space.D, found.medoids) >= found.cost * (1 - 1e-8)


@pytest.mark.parametrize("metric", medoid_search.MEDIANS)
def test_moves_within_clusters_never_raise_the_cost(metric, monkeypatch):
    """From optima of swaps too, with one point tried in each cluster: it is often worse."""
    monkeypatch.setattr(medoid_search, "TRIED", 1)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, weight = np.abs(rng.normal(size=(60, 3))) + 0.1, rng.random(60)
        space, every = Vectors(unit_rows(X) if metric == "cosine" else X, metric), np.arange(60)
        problem = MedoidProblem(space.matrix(), weight, every)
        start = search(problem, every[:5], eager(every), rng).medoids if seed % 2 else every[:5]
        state = MedoidState.of(replace(problem, space=space), start)
        before = state.cost
        moves = medoid_search.alternate(state, space, 10**9, rng)
        assert state.cost < before if moves else state.cost == before
        assert len(np.unique(state.medoids)) == 5
        np.testing.assert_array_equal(state.near.cost, space.two_nearest(state.medoids).cost)


def test_no_swaps_are_made_beyond_max_swaps():
    rng, problem = made(1, 60)
    found = search(problem, np.arange(3), eager(np.arange(60), max_swaps=0, restarts=5), rng)
    np.testing.assert_array_equal(found.medoids, np.arange(3))
    assert found.n_swaps == 0
    assert not found.local_optimum


@given(seed=st.integers(0, 10**6), n=st.integers(10, 60), restarts=st.sampled_from([0, 4]))
def test_costs_are_measured_at_the_demand_and_weights_are_repeats(seed, n, restarts):
    """The columns of the matrix are the points of positive weight only."""
    rng, problem = made(seed, n, weighted=True)
    space, weight, start = problem.space, problem.weight, rng.permutation(n)[:3]
    repeats = np.repeat(np.arange(n), weight.astype(int))
    repeated = space.measured_at(repeats)
    task = medoid_search.search_task(space, weight, 3, restarts=restarts, max_swaps=10**9, rng=rng)
    found = medoid_search.find_medoids(task, start)
    assert_local_optimum(found, space.D, weight)
    assert found.cost == pytest.approx(medoid_cost(repeated.D, found.medoids))
    order = rng.permutation(n)
    one = search(problem, start, eager(order), rng)
    two = search(MedoidProblem(repeated, None, repeats), start, eager(order), rng)
    assert one.cost == pytest.approx(two.cost, rel=1e-9)
