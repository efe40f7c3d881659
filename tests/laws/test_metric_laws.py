"""Distances follow their formulas, and the two nearest medoids stay right after swaps."""

import itertools

import numpy as np
import pytest
from api import METRICS, CallableMetric, DistanceMatrix, Vectors
from hypothesis import given
from hypothesis import strategies as st
from laws.brute import assert_two_nearest
from scipy.spatial.distance import cdist

SCIPY_NAMES = {"manhattan": "cityblock", "euclidean": "euclidean", "cosine": "cosine"}


def rows(seed, n, d, dtype=np.float64):
    """Rows of small integers, whose distances tie, for odd seeds."""
    rng = np.random.default_rng(seed)
    X = rng.integers(1, 5, size=(n, d)) if seed % 2 else rng.normal(size=(n, d))
    return X.astype(dtype)


SHAPES = [(1, 1), (70, 3), (1500, 16), (129, 40), (33, 129)]  # around the kernels' block sizes


@pytest.mark.parametrize("metric", SCIPY_NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_follow_the_formula_and_all_ways_give_the_same_bits(metric, dtype):
    tol = {"rtol": 2e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-12}
    for n, d in SHAPES:
        X = rows(0, n, d, dtype)
        space, some = METRICS[metric].run(X, None), np.arange(0, n, 3)
        D = space.matrix().D
        np.testing.assert_allclose(
            D[some], cdist(X[some].astype(float), X.astype(float), SCIPY_NAMES[metric]), **tol
        )
        np.testing.assert_array_equal(space.distances(np.arange(n)), D)
        np.testing.assert_array_equal(space.distances(some, some), D[np.ix_(some, some)])
        np.testing.assert_array_equal(D, D.T)
        assert (np.diagonal(D) == 0).all()


def test_a_large_offset_costs_no_digits():
    X = rows(4, 200, 8)
    near = Vectors(X, "euclidean").distances(np.arange(5))
    far = Vectors((X + 2.0**20).astype(np.float64), "euclidean").distances(np.arange(5))
    np.testing.assert_allclose(near, far, rtol=1e-8)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 80), d=st.integers(1, 3), data=st.data())
def test_two_nearest_stay_right_after_swaps(seed, n, d, data):
    k = data.draw(st.integers(1, min(n, 7)))
    rng = np.random.default_rng(seed)
    vectors = Vectors(rows(seed, n, d), "manhattan")
    for space in (vectors, vectors.matrix()):
        D = space.distances(np.arange(n))
        medoids = rng.permutation(n)[:k]
        near = space.two_nearest(medoids)
        assert_two_nearest(near, D, medoids)
        for _ in range(4):
            slot = int(rng.integers(k))
            medoids[slot] = rng.integers(n)  # a point may be a medoid twice
            near = space.update_two_nearest(near, medoids, slot)
            assert_two_nearest(near, D, medoids)


@given(seed=st.integers(0, 10**6), n=st.integers(2, 150), data=st.data())
def test_changes_are_differences_of_cost(seed, n, data):
    k = data.draw(st.integers(1, min(n, 6)))
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, size=n).astype(float) if seed % 3 else None
    space = Vectors(rows(seed, n, 2), "euclidean")
    D, medoids = space.distances(np.arange(n)), rng.permutation(n)[:k]
    w = np.ones(n) if weight is None else weight
    changes = space.swap_changes(np.arange(n), space.two_nearest(medoids), k, weight)
    before = D[medoids].min(axis=0) @ w
    for c, m in itertools.product(range(n), range(k)):
        after = D[np.r_[np.delete(medoids, m), c]].min(axis=0) @ w
        assert changes[c, m] == pytest.approx(after - before, rel=1e-9, abs=1e-9 * (1 + before))


@given(seed=st.integers(0, 10**6), n=st.integers(3, 40))
def test_measured_at_keeps_the_columns_of_the_demand(seed, n):
    rng = np.random.default_rng(seed)
    X, demand = rows(seed, n, 3), np.sort(rng.permutation(n)[: max(1, n // 2)])
    vectors = Vectors(X, "euclidean")
    largest = CallableMetric(X, lambda a, b: float(np.abs(a - b).max()))
    for space in (vectors, vectors.matrix(), largest):
        part, columns = space.measured_at(demand), space.distances(np.arange(n))[:, demand]
        np.testing.assert_array_equal(part.distances(np.arange(n)), columns)
        np.testing.assert_array_equal(part.matrix().D, columns)


def test_a_callable_is_called_once_for_each_pair():
    calls = []

    def metric(a, b):
        calls.append((a, b))
        return abs(a - b)

    space = CallableMetric([3.0, 1.0, 7.0], metric)
    np.testing.assert_array_equal(space.matrix().D, [[0, 2, 4], [2, 0, 6], [4, 6, 0]])
    assert len(calls) == 3
    space.distances(np.array([1]))
    before = len(calls)
    space.distances(np.array([1]))
    assert len(calls) == before


def test_a_matrix_becomes_float32_only_if_no_distance_changes():
    whole = DistanceMatrix(np.arange(9.0).reshape(3, 3))
    assert whole.as_float32().dtype == np.float32
    np.testing.assert_array_equal(whole.as_float32().D, whole.D)
    assert DistanceMatrix(whole.D + 0.1).as_float32().dtype == np.float64


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [7, 16, 21, 37])
def test_one_side_that_is_too_long_is_found_wherever_it_is(n, dtype, symmetric):
    """Also if the other half of the matrix has a length that is just tolerated."""
    tolerance, triangles, checked = 1e-4, n**3, 0
    D = cdist(*[np.random.default_rng(n).normal(size=(n, 3))] * 2).astype(dtype)
    assert DistanceMatrix(D).flaw(tolerance, triangles) is None
    slack = dtype(tolerance) * D.max()
    for i, j in itertools.permutations(range(n), 2):
        others = np.delete(np.arange(n), [i, j])
        X = D.copy()
        X[i, j] = (D[i, others] + D[others, j]).min() + dtype(1.2) * slack
        X[j, i] = X[i, j] if symmetric else X[i, j] - dtype(0.5) * slack
        if X.max() > D.max():
            continue  # the tolerance would be another one
        found = DistanceMatrix(X).flaw(tolerance, triangles)
        assert found is not None
        assert (found.law, *sorted((found.i, found.j))) == ("triangle", *sorted((i, j)))
        assert X[i, j] > X[i, found.via] + X[found.via, j] + slack
        checked += 1
    assert checked > n
