"""What a fitted model says about rows: labels, distances and costs against plain arithmetic.

A label is the nearest of `cluster_centers_`, measured in float64 by differences, for float32 and
float64 alike; of equally near centres the lowest wins.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import brute
from laws.cases import ALGORITHMS, DTYPES, LAYOUTS, METRICS, fit, rows, start
from scipy import sparse

from kvariates import KMeans

GRID = [
    pytest.param(dtype, layout, metric, id=f"{np.dtype(dtype)}-{layout}-{metric}")
    for dtype in DTYPES
    for layout in LAYOUTS
    for metric in METRICS
]


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


@pytest.mark.parametrize(("dtype", "layout", "metric"), GRID)
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
@pytest.mark.parametrize("metric", METRICS)
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


INTEGERS = st.integers(-4, 4)


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
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
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


widths = pytest.mark.parametrize("d", [2, 16, 100])
OFFSETS = [1e4, -1e4, 3e5, -3e5, 1e4]


@pytest.mark.parametrize(("algorithm", "offset"), [*zip(ALGORITHMS, OFFSETS, strict=True)])
@widths
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


@pytest.mark.parametrize(("algorithm", "offset"), [("auto", 1e4), ("yinyang", -1e4)])
@widths
def test_single_precision_gets_the_labels_of_double(algorithm, offset, d):
    """Groups that are apart, rows around 1e4: the labels are those of float64 all the way."""
    centers = 8 * np.random.default_rng(d).normal(size=(12, d)) / np.sqrt(d)
    truth = np.random.default_rng(15).integers(12, size=3000)
    X = centers[truth] + np.random.default_rng(16).normal(scale=0.3, size=(3000, d)) + offset
    X = X.astype(np.float32)
    init = start(X, 12)
    expected = brute.lloyd(X.astype(np.float64), init)
    model = fit(X, init, algorithm=algorithm)
    squares = brute.squared_distances(X, expected.centers)
    near, second = np.sort(squares, axis=1)[:, :2].T
    # Ties apart: a centre returned in float32 is off by half a unit in the last place a feature.
    off = np.spacing(np.float32(offset)) / 2 * np.sqrt(d)
    clear = np.sqrt(second) - np.sqrt(near) > 2 * abs(off)
    assert clear.mean() > 0.98
    assert np.array_equal(model.labels_[clear], expected.labels[clear])
    np.testing.assert_allclose(model.cluster_centers_, expected.centers, rtol=0, atol=2e-3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
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
