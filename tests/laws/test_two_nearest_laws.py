"""The two nearest centres of every row are those of plain arithmetic, ties to the lowest index."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import brute
from laws.cases import DTYPES, LAYOUTS, rows, start
from laws.threads import on_threads

from kvariates.data.rows import Rows


def plain(X, centers):
    """Return the two nearest of every row, and their costs, by a stable sort."""
    squares = brute.squared_distances(X, centers)
    order = np.argsort(squares, axis=1, kind="stable")[:, :2]
    return order, np.take_along_axis(squares, order, axis=1)


def found(X, centers):
    two = Rows.of(X).two_nearest(np.ascontiguousarray(centers, dtype=np.float64))
    return np.stack([two.labels, two.second], axis=1), np.stack([two.cost, two.second_cost], axis=1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    ("n", "d", "k", "offset"),
    [(1, 1, 2, 0), (1025, 3, 17, 0), (700, 16, 130, 0), (300, 131, 9, 0), (1500, 7, 20, 3e5)],
)
def test_the_two_nearest(n, d, k, offset, layout, dtype):
    """Far from the origin the error of the filter is as large as the distances."""
    X = (rows(max(n, k), d, seed=n, sparsity=0.2 if d > 2 else 0) + offset).astype(dtype)
    centers = start(X, k) + 0.1 * np.random.default_rng(d).normal(size=(k, d))
    order, costs = plain(X[:n], centers)
    ours, cost = found(LAYOUTS[layout](X[:n]), centers)
    assert np.array_equal(ours, order)
    scale = (brute.dense64(X) ** 2).sum(axis=1).max()
    np.testing.assert_allclose(cost, costs, rtol=1e-12, atol=1e-14 * scale)


INTEGERS = st.integers(-2, 2)


@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(1, 70), st.just(2)), elements=INTEGERS),
    centers=hnp.arrays(np.float64, st.tuples(st.integers(2, 9), st.just(2)), elements=INTEGERS),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_ties_go_to_the_lowest_index(X, centers, dtype, layout):
    """Small integers are exact, and many distances are tied."""
    for ours, right in zip(
        found(LAYOUTS[layout](X.astype(dtype)), centers), plain(X, centers), strict=True
    ):
        assert np.array_equal(ours, right)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_they_agree_with_nearest_and_costs_bit_for_bit(layout):
    X = LAYOUTS[layout](rows(5000, 9, np.float32, seed=4, sparsity=0.3))
    points, centers = Rows.of(X), start(X, 40).astype(np.float64)
    two = points.two_nearest(centers)
    assert np.array_equal(two.labels, points.nearest(centers))
    assert np.array_equal(two.cost, points.costs(centers, two.labels))
    assert np.array_equal(two.second_cost, points.costs(centers, two.second))
    assert (two.labels != two.second).all()


def test_one_centre_has_no_second():
    X = rows(100, 3, seed=5)
    two = Rows.of(X).two_nearest(X[:1])
    assert not two.labels.any()
    assert not two.second.any()
    assert np.isposinf(two.second_cost).all()


def test_threads_change_nothing():
    X = rows(20011, 16, seed=6)
    parts = on_threads(lambda: found(X, start(X, 50)))
    assert all(np.array_equal(a, b) for a, *others in zip(*parts, strict=True) for b in others)
