"""At the ends of the range of floating point a fit is right, or it is refused with a message.

The squares of float32 values above 1e19 overflow in float32, those of float64 values above 1e154
in float64; those of tiny values underflow. The first must not matter, the second must be reported.
"""

import itertools
from functools import partial

import numpy as np
import pytest
from api import EuclideanPotential, Rows
from laws.cases import ALGORITHMS, DTYPES, LAYOUTS, METRICS, cluster, fit

from kvariates import global_kmeans, kmeans_parallel, kmeans_plusplus


def groups(scale, dtype):
    """Four clear groups at the given scale, and which row is whose."""
    rng = np.random.default_rng(72)
    truth = rng.integers(4, size=200)
    corners = np.array([[1.0, 1], [-1, 1], [1, -1], [-1, -1]])
    return ((corners[truth] + 0.05 * rng.normal(size=(200, 2))) * scale).astype(dtype), truth


def partition(labels):
    """Labels, numbered in the order in which they appear."""
    names = {}
    return [names.setdefault(label, len(names)) for label in labels.tolist()]


def right_or_refused(data, truth, **options):
    """Check a fit; return the message if it is refused."""
    try:
        model = cluster(data, k=4, n_init=3, **options)
    except ValueError as refused:
        return str(refused)
    assert partition(model.labels_) == partition(truth)
    assert np.isfinite(model.cluster_centers_).all()
    assert np.isfinite(model.inertia_)
    assert np.array_equal(model.predict(data), model.labels_)
    if options.get("metric") != "cosine":
        assert model.inertia_ > 0
        distances = model.transform(data)
        assert np.array_equal(distances.argmin(axis=1), model.labels_)
        assert np.isfinite(distances).all()
        assert (distances > 0).any()
    return None


def messages(scale, dtype):
    """One message, or None, for every algorithm, metric and layout."""
    data, truth = groups(scale, dtype)
    product = itertools.product(LAYOUTS.values(), METRICS, ALGORITHMS)
    return [
        right_or_refused(layout(data), truth, algorithm=algorithm, metric=metric)
        for layout, metric, algorithm in product
    ]


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(s, np.float32) for s in (1e25, 1e37, 1e-15, 1e-30, 1e-37)]
    + [(s, np.float64) for s in (1e45, 1e140, 1e-45, 1e-130)],
)
def test_squares_inside_double_precision(scale, dtype):
    assert set(messages(scale, dtype)) == {None}


@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(s, np.float64) for s in (1e152, 1e154, 1e160, 1e300, 1e-140, 1e-155, 1e-160, 1e-300)]
    + [(1e-40, np.float32), (1e-43, np.float32)],
)
def test_squares_outside_double_precision(scale, dtype):
    assert all(said is None or "scale" in said.lower() for said in messages(scale, dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_far_row_does_not_disturb_the_others(dtype):
    data, truth = groups(1.0, dtype)
    far = 1e18 if dtype == np.float32 else 1e100
    data[17] = far
    centers = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1], [far, far]], dtype=dtype)
    for algorithm in ALGORITHMS:
        model = fit(data, centers, algorithm=algorithm)
        others = np.arange(200) != 17
        assert model.labels_[17] == 4
        assert np.array_equal(model.labels_[others], truth[others])


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_rows_too_large_to_measure_after_fitting(method):
    data, _ = groups(1.0, np.float64)
    model = cluster(data, k=4)
    with pytest.raises(ValueError, match=r"squared distances overflow float64\). Scale X"):
        getattr(model, method)(data * 1e200)


@pytest.mark.parametrize(
    "seeding",
    [
        *(partial(kmeans_plusplus, n_local_trials=trials) for trials in (1, 4)),
        kmeans_parallel,
        lambda *args, **options: (None, global_kmeans(*args, **options)[-1].labels),
    ],
    ids=["plain", "greedy", "k-means||", "global"],
)
def test_large_masses_are_drawn_right_or_refused(seeding):
    """Powers of two change no digit, so they change no draw."""
    X, weight = np.random.default_rng(4).normal(size=(300, 2)), np.arange(1.0, 301)
    right = seeding(X, 5, sample_weight=weight, random_state=0)[1].tolist()
    said = []
    for exponent in range(40, 150, 5):  # squares are about 2^920, weights at most 2^9
        try:
            found = seeding(X * 2.0**460, 5, sample_weight=weight * 2.0**exponent, random_state=0)
            said.append(found[1].tolist())
        except ValueError as refused:
            said.append(str(refused)[:36])
    drawn = said.count(right)
    assert 0 < drawn < len(said)
    assert all(text == "Some values or weights are too large" for text in said[drawn:])


def test_large_weights_are_drawn_right_or_refused():
    rows, weight = Rows.of(np.arange(12.0).reshape(6, 2)), np.arange(1.0, 7)
    assert EuclideanPotential(rows, weight * 2.0**980, 1).total() == 21 * 2.0**980
    with pytest.raises(ValueError, match="weighted squared distances overflow float64"):
        EuclideanPotential(rows, weight * 2.0**1000, 1).total()
