"""Local search over swaps: where it ends, that it never climbs, that fast paths are slow ones."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvariates.data.metric_spaces import Vectors
from kvariates.refining import medoid_search
from kvariates.refining.swaps import (
    BLOCK,
    AllCandidates,
    MedoidState,
    SampledCandidates,
    improving,
    perturbed,
    search,
    sweep,
)


def cost(D, chosen, weight=None):
    near = D[chosen].min(axis=0)
    return float(near.sum() if weight is None else near @ weight)


def best_swap(D, chosen, weight=None):
    """Return the least cost that a single swap reaches, by trying all."""
    return min(
        cost(D, np.r_[np.delete(chosen, m), c], weight)
        for m in range(len(chosen))
        for c in range(len(D))
    )


def made(seed, n, weighted=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * (1 + 5 * rng.random((n, 1)))
    space = Vectors(X, "euclidean").matrix()
    weight = rng.integers(0, 4, size=n).astype(float) if weighted else None
    if weighted:
        weight[0] = 1.0
    return rng, space, weight


cases = given(
    seed=st.integers(0, 10**6), n=st.integers(2, 60), k=st.integers(1, 6), weighted=st.booleans()
)


@cases
def test_no_swap_is_left_that_helps(seed, n, k, weighted):
    rng, space, weight = made(seed, n, weighted)
    k = min(k, n)
    start = rng.permutation(n)[:k]
    found = sweep(space, start, weight, np.arange(n), rng.permutation(n), rng=rng)
    assert found.settled
    assert found.cost == pytest.approx(cost(space.D, found.medoids, weight))
    assert best_swap(space.D, found.medoids, weight) >= found.cost * (1 - 1e-9)
    assert found.cost <= cost(space.D, start, weight) * (1 + 1e-12)
    assert len(np.unique(found.medoids)) == k


@cases
def test_the_native_sweep_makes_the_same_swaps(seed, n, k, weighted):
    rng, space, weight = made(seed, n, weighted)
    k = min(k, n)
    start, order = rng.permutation(n)[:k], rng.permutation(n)
    fast = sweep(space, start, weight, np.arange(n), order, rng=rng)
    state = MedoidState.of(space, start, weight, np.arange(n), n)
    slow = search(state, AllCandidates(order, BLOCK), improving(1e-12))
    np.testing.assert_array_equal(fast.medoids, slow.medoids)
    assert fast.n_swaps == slow.n_swaps
    np.testing.assert_array_equal(fast.near.labels, slow.near.labels)
    np.testing.assert_array_equal(fast.near.second_cost, slow.near.second_cost)


@cases
def test_best_swap_is_the_best_of_all(seed, n, k, weighted):
    """One block of everyone: Algorithm 1 of Fan et al., every step the steepest."""
    rng, space, weight = made(seed, n, weighted)
    start = rng.permutation(n)[: min(k, n)]
    state = MedoidState.of(space, start, weight, np.arange(n), n)
    before = cost(space.D, start, weight)
    found = search(state, AllCandidates(np.arange(n), n), improving(), max_swaps=1)
    steepest = min(best_swap(space.D, start, weight), before)
    assert cost(space.D, found.medoids, weight) == pytest.approx(steepest)


@given(seed=st.integers(0, 10**6), n=st.integers(8, 200), restarts=st.integers(1, 5))
def test_restarts_never_cost_more(seed, n, restarts):
    _, space, _ = made(seed, n)
    start, order = np.arange(4), np.random.default_rng(1).permutation(n)
    point = np.arange(n)
    plain = sweep(space, start, None, point, order, rng=np.random.default_rng(2))
    more = sweep(space, start, None, point, order, restarts=restarts, rng=np.random.default_rng(2))
    assert more.cost <= plain.cost
    assert more.cost == pytest.approx(cost(space.D, more.medoids))
    np.testing.assert_array_equal(more.near.cost, space.D[more.medoids].min(axis=0))
    assert best_swap(space.D, more.medoids) >= more.cost * (1 - 1e-9)


def test_many_restarts_find_the_optimum():
    _, space, _ = made(5, 14)
    best = min(cost(space.D, list(some)) for some in itertools.combinations(range(14), 4))
    found = sweep(
        space, np.arange(4), None, np.arange(14), np.arange(14), restarts=200,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert found.cost == pytest.approx(best)


@given(seed=st.integers(0, 10**6), n=st.integers(20, 200))
def test_drawn_candidates_never_raise_the_cost(seed, n):
    rng, space, weight = made(seed, n, weighted=True)
    start = np.flatnonzero(weight)[:3]
    state = MedoidState.of(space, start, weight, np.arange(n), n)
    before = state.cost
    found = search(state, SampledCandidates(BLOCK, 64, close=True, rng=rng), improving())
    assert found.cost <= before
    assert found.cost == pytest.approx(cost(space.D, found.medoids, weight))
    assert not found.settled


def test_another_chooser_is_an_argument():
    """The worst swap that still lowers the cost: any rule can be handed in."""
    _, space, _ = made(3, 40)
    seen = []

    def lazy(changes, cost):
        seen.append(changes.shape)
        lower = np.where(changes < -1e-9 * cost, changes, -np.inf)
        if not np.isfinite(lower).any():
            return None
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(lower)), lower.shape))

    state = MedoidState.of(space, np.arange(3), None, np.arange(40), 40)
    found = search(state, AllCandidates(np.arange(40), 40), lazy)
    assert found.n_swaps > 0
    assert seen[0] == (37, 3)
    assert best_swap(space.D, found.medoids) >= found.cost * (1 - 1e-8)


def settled_without_a_matrix(X, start, weight, monkeypatch):
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", 0)
    monkeypatch.setattr(medoid_search, "SAMPLE", 64)
    task = medoid_search.search_task(
        Vectors(X, "manhattan"), weight, restarts=1, max_swaps=10**9, rng=np.random.default_rng(0)
    )
    return medoid_search.refine(task, start)


def test_without_a_matrix_the_cost_is_close_to_the_local_optimum(monkeypatch):
    rng = np.random.default_rng(7)
    X = np.concatenate([rng.normal(c, 0.3, size=(80, 2)) for c in ((0, 0), (6, 0), (0, 6), (6, 6))])
    start = np.arange(4)  # all in one group
    D = Vectors(X, "manhattan").distances(np.arange(len(X)))
    point = np.arange(len(X))
    full = sweep(Vectors(X, "manhattan").matrix(), start, None, point, point, rng=rng)
    found = settled_without_a_matrix(X, start, None, monkeypatch)
    assert found.cost == pytest.approx(cost(D, found.medoids))
    assert found.cost <= 1.02 * full.cost


@given(seed=st.integers(0, 10**6), n=st.integers(3, 30))
def test_weights_are_repeats(seed, n):
    """The same swaps: a point of weight w costs what w points cost."""
    rng, space, weight = made(seed, n, weighted=True)
    twice = np.repeat(np.arange(n), weight.astype(int))
    task = medoid_search.search_task(
        space, weight, restarts=0, max_swaps=10**9, rng=np.random.default_rng(0)
    )
    other = medoid_search.search_task(
        space.onto(twice), None, restarts=0, max_swaps=10**9, rng=np.random.default_rng(0)
    )
    start, order = rng.permutation(n)[:2], rng.permutation(n)
    one = sweep(task.space, start, task.weight, task.point, order, rng=rng)
    two = sweep(other.space, start, None, twice, order, rng=rng)
    assert one.cost == pytest.approx(two.cost, rel=1e-9)


@given(seed=st.integers(0, 10**6), n=st.integers(10, 60))
def test_restarts_on_a_demand_measure_the_demand(seed, n):
    """Columns are some of the points only; restarts must know which."""
    rng, space, weight = made(seed, n, weighted=True)
    task = medoid_search.search_task(space, weight, restarts=4, max_swaps=10**9, rng=rng)
    found = medoid_search.refine(task, rng.permutation(n)[:3])
    assert found.settled
    assert found.cost == pytest.approx(cost(space.D, found.medoids, weight))
    assert best_swap(space.D, found.medoids, weight) >= found.cost * (1 - 1e-9)


def test_no_swaps_means_none():
    rng, space, _ = made(1, 60)
    found = sweep(
        space, np.arange(3), None, np.arange(60), np.arange(60), restarts=5, max_swaps=0, rng=rng
    )
    np.testing.assert_array_equal(found.medoids, np.arange(3))
    assert found.n_swaps == 0
    assert not found.settled


def test_perturbed_searches_keep_the_better():
    rng, space, _ = made(2, 80)
    point = np.arange(80)
    state = MedoidState.of(space, np.arange(4), None, point, 80)

    def again(state):
        return search(state, AllCandidates(point, 16), improving())

    first = again(state)
    before = first.cost
    found = perturbed(first, state, again, 6, rng)
    assert found.cost <= before
    assert found.cost == pytest.approx(cost(space.D, found.medoids))
