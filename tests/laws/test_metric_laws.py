"""Distances are what they are called; the two nearest medoids stay true under swaps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kvariates.data.metric_spaces import CallableMetric, DistanceMatrix, Vectors
from kvariates.data.rows import unit_rows

NAMES = {"manhattan": "cityblock", "euclidean": "euclidean", "cosine": "cosine"}


def rows(seed, n, d, dtype=np.float64):
    """Return rows on a coarse grid, so that distances tie, or not, by seed."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 5, size=(n, d)) if seed % 2 else rng.normal(size=(n, d))
    return X.astype(dtype)


def of(X, metric):
    return Vectors(unit_rows(X) if metric == "cosine" else X, metric)


@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "d"), [(1, 1), (5, 2), (70, 3), (1500, 16), (40, 17), (130, 64), (33, 129)]
)
def test_distances_are_the_formula(metric, dtype, n, d):
    X = rows(0, n, d, dtype)
    space = of(X, metric)
    points = np.array([0, n // 2, n - 1])
    tol = {"rtol": 2e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    expected = cdist(X[points].astype(float), X.astype(float), NAMES[metric])
    np.testing.assert_allclose(space.distances(points), expected, **tol)
    some = np.arange(0, n, 3)
    np.testing.assert_array_equal(space.between(points, some), space.distances(points)[:, some])
    np.testing.assert_array_equal(space.among(0, some), space.distances(points)[0, some])


@pytest.mark.parametrize("metric", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d"), [(3, 2), (128, 5), (300, 20), (129, 40)])
def test_all_pairs_at_once_are_the_same_bits(metric, dtype, n, d):
    space = of(rows(2, n, d, dtype), metric)
    D = space.matrix().D
    np.testing.assert_array_equal(D, space.distances(np.arange(n)))
    np.testing.assert_array_equal(D, D.T)
    assert (np.diagonal(D) == 0).all()


def test_a_large_offset_costs_no_digits():
    X = rows(4, 200, 8)
    near = Vectors(X, "euclidean").distances(np.arange(5))
    far = Vectors((X + 2.0**20).astype(np.float64), "euclidean").distances(np.arange(5))
    np.testing.assert_allclose(near, far, rtol=1e-8)


def brute_near(D, chosen):
    """Sort every point's distances to the chosen, ties by slot."""
    table = D[chosen].T
    order = np.argsort(table, axis=1, kind="stable")
    first = order[:, 0]
    every = np.arange(len(table))
    if len(chosen) == 1:
        return first, first, table[every, first], np.full(len(table), np.inf)
    return first, order[:, 1], table[every, first], table[every, order[:, 1]]


def same(near, expected):
    for part, values in zip(near.parts, expected, strict=True):
        np.testing.assert_array_equal(part, values)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 80), d=st.integers(1, 3), data=st.data())
def test_two_nearest_stay_true_under_swaps(seed, n, d, data):
    k = data.draw(st.integers(1, min(n, 7)))
    rng = np.random.default_rng(seed)
    X = rows(seed, n, d)
    for space in (Vectors(X, "manhattan"), Vectors(X, "manhattan").matrix()):
        D = space.distances(np.arange(n))
        chosen = rng.permutation(n)[:k]
        near = space.two_nearest(chosen)
        same(near, brute_near(D, chosen))
        for _ in range(4):
            slot = int(rng.integers(k))
            chosen[slot] = rng.integers(n)  # a point may be chosen twice
            near = space.swapped(near, chosen, slot)
            same(near, brute_near(D, chosen))


@given(seed=st.integers(0, 10**6), n=st.integers(2, 150), data=st.data())
def test_changes_are_differences_of_cost(seed, n, data):
    k = data.draw(st.integers(1, min(n, 6)))
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, size=n).astype(float) if seed % 3 else None
    space = Vectors(rows(seed, n, 2), "euclidean")
    D, chosen = space.distances(np.arange(n)), rng.permutation(n)[:k]
    w = np.ones(n) if weight is None else weight
    got = space.swap_changes(np.arange(n), space.two_nearest(chosen), k, weight)
    before = D[chosen].min(axis=0) @ w
    for c in range(n):
        for m in range(k):
            after = D[np.r_[np.delete(chosen, m), c]].min(axis=0) @ w
            assert got[c, m] == pytest.approx(after - before, rel=1e-9, abs=1e-9 * (1 + before))


@given(seed=st.integers(0, 10**6), n=st.integers(3, 40))
def test_demand_only_is_the_columns_of_the_demand(seed, n):
    rng = np.random.default_rng(seed)
    X, demand = rows(seed, n, 3), np.sort(rng.permutation(n)[: max(1, n // 2)])
    for space in (
        Vectors(X, "euclidean"),
        CallableMetric(X, lambda a, b: float(np.abs(a - b).max())),
    ):
        D = space.distances(np.arange(n))
        part = space.onto(demand)
        np.testing.assert_array_equal(part.distances(np.arange(n)), D[:, demand])
        np.testing.assert_array_equal(part.matrix().D, D[:, demand])
        np.testing.assert_array_equal(DistanceMatrix(D).onto(demand).D, D[:, demand])


def test_a_callable_is_called_once_a_pair():
    calls = []

    def metric(a, b):
        calls.append((a, b))
        return abs(a - b)

    space = CallableMetric([3.0, 1.0, 7.0], metric)
    D = space.matrix().D
    assert len(calls) == 3
    np.testing.assert_array_equal(D, [[0, 2, 4], [2, 0, 6], [4, 6, 0]])
    space.distances(np.array([1]))
    before = len(calls)
    space.distances(np.array([1]))
    assert len(calls) == before
