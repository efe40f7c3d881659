"""What a fitted model says about rows: labels, distances and costs against plain arithmetic.

A label is the nearest of `cluster_centers_`, measured in float64 by differences, for float32 and
float64 alike; of equally near centres the lowest wins.
"""

import numpy as np
import pytest
from api import Rows
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import brute
from laws.cases import ALGORITHMS, DTYPES, LAYOUTS, every_matrix, every_metric, fit, rows, start
from laws.threads import on_threads
from scipy import sparse

from kvariates import KMeans


def assert_nearest(labels, X, centers):
    """A label may differ from the argmin only where both distances agree to rounding."""
    squares = brute.squared_distances(X, centers)
    own = squares[np.arange(len(squares)), labels]
    best = squares.min(axis=1)
    assert (own <= best * (1 + 1e-13)).all()


def model_with(centers, metric="euclidean"):
    """A model whose centres are exactly `centers`: fitted on them, one row a cluster."""
    model = fit(centers, centers, metric=metric, max_iter=1)
    assert np.array_equal(model.labels_, np.arange(len(centers)))
    return model


@every_matrix
@every_metric
def test_fitted_labels_costs_and_predictions_agree(dtype, layout, metric):
    dense = rows(777, 9, dtype, seed=11, sparsity=0.3)
    X, other = LAYOUTS[layout](dense), LAYOUTS["csr" if layout == "dense" else "dense"](dense)
    weights = np.random.default_rng(1).uniform(size=777)
    model = fit(X, start(dense, 13), weights, metric=metric, max_iter=4)
    assert np.array_equal(model.predict(X), model.labels_)
    assert np.array_equal(model.predict(other), model.labels_)
    seen = brute.unit_rows(dense) if metric == "cosine" else dense
    squares = brute.squared_distances(seen, model.cluster_centers_)
    eps = np.finfo(dtype).eps
    if metric == "euclidean":
        assert np.array_equal(model.labels_, squares.argmin(axis=1))
        expected, costs = np.sqrt(squares), squares
    else:
        np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, rtol=4 * eps)
        expected = costs = squares / 2
    np.testing.assert_allclose(model.transform(X), expected, rtol=1e-5, atol=20 * eps)
    assert model.transform(X).dtype == dtype
    own = costs[np.arange(777), model.labels_]
    assert model.inertia_ == pytest.approx(own @ weights, rel=1e-6)
    assert -model.score(X, sample_weight=weights) == pytest.approx(model.inertia_, rel=1e-12)
    assert -model.score(X) == pytest.approx(own.sum(), rel=1e-6)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("dtype", DTYPES)
@every_metric
def test_labels_are_those_of_the_returned_centres(algorithm, dtype, metric):
    """However a fit stopped: converged, by tolerance, by max_iter.

    Far from the origin, rounding the centres to float32 changes the nearest one of many rows.
    """
    X = rows(4000, 5, seed=12) + (1e5 if metric == "euclidean" else 0)
    X = X.astype(dtype)
    for options in ({"tol": 0}, {"tol": 1e-2}, {"max_iter": 2}, {"max_iter": 1}):
        model = fit(X, start(X, 30), algorithm=algorithm, metric=metric, **options)
        assert np.array_equal(model.labels_, model.predict(X))
        if metric == "euclidean":
            assert np.array_equal(model.labels_, brute.nearest(X, model.cluster_centers_))


INTEGERS = st.integers(-2, 2)


@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(1, 40), st.just(3)), elements=INTEGERS),
    centers=hnp.arrays(np.float64, (6, 3), elements=INTEGERS, unique=False),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_ties_go_to_the_lowest_index(X, centers, dtype, layout):
    """Small integers are exact in any order of summing, so a tie is a tie."""
    centers = np.unique(centers, axis=0)[::-1].astype(dtype)
    model = model_with(np.ascontiguousarray(centers))
    assert np.array_equal(model.cluster_centers_, centers)
    found = model.predict(LAYOUTS[layout](X.astype(dtype)))
    assert np.array_equal(found, brute.squared_distances(X, centers).argmin(axis=1))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@every_matrix
def test_ties_while_fitting_go_to_the_lowest_index(algorithm, dtype, layout):
    """A square grid and centres on it, weights that make every mean exact: ties all over."""
    side = np.arange(16.0)
    X = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2).astype(dtype)
    init = X[[0, 15, 240, 255, 119, 120]]
    for max_iter in (1, 2, 3):
        model = fit(LAYOUTS[layout](X), init, algorithm=algorithm, tol=0, max_iter=max_iter)
        squares = brute.squared_distances(X, model.cluster_centers_)
        assert np.array_equal(model.labels_, squares.argmin(axis=1))


def test_equal_centres_leave_all_rows_to_the_first():
    X = rows(200, 4, seed=13)
    model = model_with(np.array([[9.0, 9, 9, 9], [0, 0, 0, 0], [5, 5, 5, 5]]))
    model.cluster_centers_ = np.array([[50.0] * 4, [0.5] * 4, [0.5] * 4])
    assert (model.predict(X) == 1).all()


OFFSETS = [1e4, -1e4, 3e5, -3e5, 1e4]


@pytest.mark.parametrize(("algorithm", "offset"), [*zip(ALGORITHMS, OFFSETS, strict=True)])
@pytest.mark.parametrize("d", [2, 16, 100])
def test_single_precision_far_from_the_origin(algorithm, offset, d):
    """Overlapping groups: brute force in float64, of which only the rows were ever float32."""
    X = (rows(2000, d, seed=14, groups=6) + offset).astype(np.float32)
    init = start(X, 12)
    expected = brute.lloyd(X, init, tol=0, max_iter=10)
    model = fit(X, init, algorithm=algorithm, tol=0, max_iter=10)
    assert np.array_equal(model.labels_, expected.labels)
    assert np.array_equal(model.cluster_centers_, expected.centers)
    assert_nearest(model.labels_, X, model.cluster_centers_)
    assert model.inertia_ == pytest.approx(expected.inertia, rel=1e-4)


@every_matrix
@pytest.mark.parametrize("d", [1, 2, 3, 17, 64, 300])
def test_rows_almost_halfway_between_two_centres(dtype, layout, d):
    """The fast form of the distance cannot tell; only differences in float64 can."""
    rng = np.random.default_rng(d)
    centers = (rng.normal(size=(40, d)) + 100).astype(dtype)
    a, b = rng.integers(40, size=(2, 3000))
    part = 0.5 + 1e-4 * rng.normal(size=(3000, 1))
    X = (centers[a] * part + centers[b] * (1 - part)).astype(dtype)
    model = model_with(centers)
    assert np.array_equal(model.cluster_centers_, centers)
    assert_nearest(model.predict(LAYOUTS[layout](X)), X, centers)


@given(
    X=hnp.arrays(
        np.float64,
        st.tuples(st.integers(2, 30), st.integers(1, 5)),
        elements=st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-12 else 0.0),
    ),
    k=st.integers(1, 6),
    dtype=st.sampled_from(DTYPES),
    algorithm=st.sampled_from(ALGORITHMS),
)
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.filterwarnings("ignore:algorithm='elkan' doesn't make sense")
def test_any_rows_at_all(X, k, dtype, algorithm):
    """Whatever the rows: centres inside the box, labels nearest, cost that of the labels."""
    X = X.astype(dtype)
    k = min(k, len(X))
    model = KMeans(k, random_state=0, algorithm=algorithm).fit(X)
    slack = 4 * np.finfo(dtype).eps * np.abs(X).max()
    assert (model.cluster_centers_ >= X.min(axis=0) - slack).all()
    assert (model.cluster_centers_ <= X.max(axis=0) + slack).all()
    assert_nearest(model.labels_, X, model.cluster_centers_)
    assert np.array_equal(model.predict(sparse.csr_array(X)), model.labels_)
    cost = brute.inertia(X, model.cluster_centers_, model.labels_)
    assert model.inertia_ == pytest.approx(cost, rel=1e-9)


# ---- the two nearest centres ----


def plain(X, centers):
    """Return the two nearest of every row, and their costs, by a stable sort."""
    squares = brute.squared_distances(X, centers)
    order = np.argsort(squares, axis=1, kind="stable")[:, :2]
    return order, np.take_along_axis(squares, order, axis=1)


def two_nearest(X, centers):
    two = Rows.of(X).two_nearest(np.ascontiguousarray(centers, dtype=np.float64))
    return np.stack([two.labels, two.second], axis=1), np.stack([two.cost, two.second_cost], axis=1)


@every_matrix
@pytest.mark.parametrize(
    ("n", "d", "k", "offset"),
    [(1, 1, 2, 0), (1025, 3, 17, 0), (700, 16, 130, 0), (300, 131, 9, 0), (1500, 7, 20, 3e5)],
)
def test_the_two_nearest(n, d, k, offset, layout, dtype):
    """Far from the origin the error of the filter is as large as the distances."""
    X = (rows(max(n, k), d, seed=n, sparsity=0.2 if d > 2 else 0) + offset).astype(dtype)
    centers = start(X, k) + 0.1 * np.random.default_rng(d).normal(size=(k, d))
    order, costs = plain(X[:n], centers)
    ours, cost = two_nearest(LAYOUTS[layout](X[:n]), centers)
    assert np.array_equal(ours, order)
    scale = (brute.dense64(X) ** 2).sum(axis=1).max()
    np.testing.assert_allclose(cost, costs, rtol=1e-12, atol=1e-14 * scale)


@given(
    X=hnp.arrays(np.float64, st.tuples(st.integers(1, 70), st.just(2)), elements=INTEGERS),
    centers=hnp.arrays(np.float64, st.tuples(st.integers(2, 9), st.just(2)), elements=INTEGERS),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_ties_of_the_two_nearest_go_to_the_lowest_index(X, centers, dtype, layout):
    """Small integers are exact, and many distances are tied."""
    for ours, right in zip(
        two_nearest(LAYOUTS[layout](X.astype(dtype)), centers), plain(X, centers), strict=True
    ):
        assert np.array_equal(ours, right)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_two_nearest_agree_with_nearest_and_costs_bit_for_bit(layout):
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


def test_threads_do_not_change_the_two_nearest():
    X = rows(20011, 16, seed=6)
    parts = on_threads(lambda: two_nearest(X, start(X, 50)))
    assert all(np.array_equal(a, b) for a, *others in zip(*parts, strict=True) for b in others)
