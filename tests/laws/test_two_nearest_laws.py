"""The two nearest centres of every row are those of plain arithmetic, ties to the lowest index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import brute
from laws.cases import DTYPES, LAYOUTS, rows, start
from threadpoolctl import threadpool_limits

from kvariates.data.rows import Rows


def plain(squares):
    """First and second of every row by a stable sort: ties to the lowest index."""
    order = np.argsort(squares, axis=1, kind="stable")[:, :2]
    return order, np.take_along_axis(squares, order, axis=1)


def assert_two_nearest(X, centers):
    found = Rows.of(X).two_nearest(np.ascontiguousarray(centers, dtype=np.float64))
    order, squares = plain(brute.squared_distances(X, centers))
    assert np.array_equal(found.labels, order[:, 0])
    assert np.array_equal(found.second, order[:, 1])
    scale = (brute.dense64(X) ** 2).sum(axis=1).max()
    np.testing.assert_allclose(found.cost, squares[:, 0], rtol=1e-12, atol=1e-14 * scale)
    np.testing.assert_allclose(found.second_cost, squares[:, 1], rtol=1e-12, atol=1e-14 * scale)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("n", "d", "k"), [(1, 1, 2), (63, 2, 2), (1025, 3, 17), (700, 16, 130), (300, 131, 9)]
)
def test_the_two_nearest(n, d, k, layout, dtype):
    X = rows(max(n, k), d, dtype, seed=n, sparsity=0.2 if d > 2 else 0)
    centers = start(X, k) + 0.1 * np.random.default_rng(d).normal(size=(k, d))
    assert_two_nearest(LAYOUTS[layout](X[:n]), centers)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("offset", [1e4, 3e5])
def test_far_from_the_origin(offset, dtype):
    """The filter's doubts are as large as the distances here."""
    X = (rows(1500, 7, seed=3) + offset).astype(dtype)
    assert_two_nearest(X, start(X, 20))


INTEGERS = st.integers(-2, 2)


@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(1, 70), st.just(2)), elements=INTEGERS),
    centers=hnp.arrays(np.float64, st.tuples(st.integers(2, 9), st.just(2)), elements=INTEGERS),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_ties_go_to_the_lowest_index(X, centers, dtype, layout):
    """Small integers are exact, duplicates of centres are likely: ties all over."""
    found = Rows.of(LAYOUTS[layout](X.astype(dtype))).two_nearest(centers)
    order, squares = plain(brute.squared_distances(X, centers))
    assert np.array_equal(np.stack([found.labels, found.second], axis=1), order)
    assert np.array_equal(np.stack([found.cost, found.second_cost], axis=1), squares)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_is_the_nearest_bit_for_bit(layout):
    X = LAYOUTS[layout](rows(5000, 9, np.float32, seed=4, sparsity=0.3))
    space, centers = Rows.of(X), start(X, 40).astype(np.float64)
    found = space.two_nearest(centers)
    assert np.array_equal(found.labels, space.nearest(centers))
    assert np.array_equal(found.cost, space.costs(centers, found.labels))
    assert np.array_equal(found.second_cost, space.costs(centers, found.second))
    assert (found.labels != found.second).all()


def test_of_one_centre_there_is_no_second():
    X = rows(100, 3, seed=5)
    found = Rows.of(X).two_nearest(X[:1])
    assert not found.labels.any()
    assert not found.second.any()
    assert np.isposinf(found.second_cost).all()


def test_threads_change_nothing():
    X = rows(20011, 16, seed=6)
    centers = start(X, 50)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="openmp"):
            two = Rows.of(X).two_nearest(centers)
        found.append([two.labels, two.second, two.cost, two.second_cost])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
