"""At the edges of floating point a fit is right in all it says, or refused in words.

Squares of float32 beyond 1e19 leave float32, squares of float64 beyond 1e154 leave float64; below,
they vanish. The first must not matter, the second must not pass in silence.
"""

import numpy as np
import pytest
from laws import brute
from laws.cases import ALGORITHMS, DTYPES, METRICS, fit
from scipy import sparse

from kvariates import KMeans


def cluster(data, k=3, sample_weight=None, **options):
    return KMeans(k, random_state=0, **options).fit(data, sample_weight=sample_weight)


def groups(scale, dtype):
    """Four clear groups at the given scale, and which row is whose."""
    rng = np.random.default_rng(72)
    truth = rng.integers(4, size=200)
    corners = np.array([[1.0, 1], [-1, 1], [1, -1], [-1, -1]])
    return ((corners[truth] + 0.05 * rng.normal(size=(200, 2))) * scale).astype(dtype), truth


def partition(labels):
    """Labels renamed in the order of their appearance."""
    names = {}
    return [names.setdefault(label, len(names)) for label in labels.tolist()]


def right_or_refused(data, truth, **options):
    """A fit at the edge of the range either is right in all it says or is refused in words."""
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


edges = pytest.mark.parametrize(
    ("scale", "dtype"),
    [(s, np.float32) for s in (1e25, 1e37, 1e-15, 1e-25, 1e-30, 1e-37)]
    + [(s, np.float64) for s in (1e45, 1e100, 1e140, 1e-45, 1e-100, 1e-130)],
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@edges
def test_squares_that_leave_single_but_not_double_precision(
    scale, dtype, layout, metric, algorithm
):
    data, truth = groups(scale, dtype)
    said = right_or_refused(layout(data), truth, algorithm=algorithm, metric=metric)
    assert said is None, said


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    ("scale", "dtype"),
    [(s, np.float64) for s in (1e152, 1e154, 1e160, 1e200, 1e300)]
    + [(s, np.float64) for s in (1e-140, 1e-150, 1e-155, 1e-160, 1e-200, 1e-300)]
    + [(s, np.float32) for s in (1e-40, 1e-43)],
)
def test_squares_that_leave_double_precision(scale, dtype, layout, metric, algorithm):
    data, truth = groups(scale, dtype)
    said = right_or_refused(layout(data), truth, algorithm=algorithm, metric=metric)
    assert said is None or "scale" in said, said


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_giant_among_ordinary_rows(dtype):
    """A far outlier takes a centre of its own, and the others are clustered as if it were not."""
    data, truth = groups(1.0, dtype)
    giant = 1e18 if dtype == np.float32 else 1e100
    data[17] = giant
    centers = np.array([[1, 1], [-1, 1], [1, -1], [-1, -1], [giant, giant]], dtype=dtype)
    for algorithm in ALGORITHMS:
        model = fit(data, centers, algorithm=algorithm)
        others = np.arange(200) != 17
        assert model.labels_[17] == 4
        assert np.array_equal(model.labels_[others], truth[others])


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
def test_rows_too_large_to_measure_after_fitting(method):
    """Fitted at scale one, asked about 1e200: right, or refused; never NaN."""
    data, _ = groups(1.0, np.float64)
    model = cluster(data, k=4)
    try:
        found = getattr(model, method)(data * 1e200)
    except ValueError as refused:
        found = str(refused)
        assert "scale" in found
        return
    assert not np.isnan(found).any()
    if method == "predict":
        directions = brute.unit_rows(data) @ model.cluster_centers_.T
        assert np.array_equal(found, directions.argmax(axis=1))
