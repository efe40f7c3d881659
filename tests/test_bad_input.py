"""Bad input gets the error that scikit-learn's users expect, or a clear one of ours.

Never a crash, a hang, a NaN or a silently wrong answer.
"""

import numpy as np
import pytest
from laws.cases import ALGORITHMS, DTYPES, rows, same_bits
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kvariates import KMeans, kmeans_plusplus

X = rows(60, 3, seed=71)


def seed(data, k=3, **options):
    return kmeans_plusplus(data, k, random_state=0, **options)


def cluster(data, k=3, sample_weight=None, **options):
    return KMeans(k, random_state=0, **options).fit(data, sample_weight=sample_weight)


both = pytest.mark.parametrize("call", [cluster, seed], ids=["KMeans", "kmeans_plusplus"])


def spoilt(value, dtype=np.float64):
    data = X.astype(dtype)
    data[41, 1] = value
    return data


# ---- rows ----


@both
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(call, dtype, value):
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        call(spoilt(value, dtype))
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        call(sparse.csr_array(spoilt(value, dtype)))


@pytest.mark.parametrize("method", ["predict", "transform", "score"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nan_and_infinity_after_fitting(method, value):
    model = cluster(X)
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        getattr(model, method)(spoilt(value))


@both
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (np.empty((0, 3)), "0 sample"),
        (np.empty((5, 0)), "0 feature"),
        (sparse.csr_array((5, 0)), "0 feature"),
        (sparse.csr_array((0, 3)), "0 sample"),
        (np.arange(5.0), "Expected 2D array"),
        (np.zeros((3, 3, 3)), "dim 3"),
        (3.0, "Expected 2D array|must be an array-like"),
        ([["a", "b"], ["c", "d"], ["e", "f"]], "could not convert"),
        (np.array([["1", "x"], ["2", "y"]], dtype=object), "could not convert"),
        (X.astype(complex), "Complex data"),
        ([[1.0, 2.0], [3.0]], "inhomogeneous|sequence"),
    ],
    ids=lambda v: None if isinstance(v, str) else "data",
)
def test_what_is_no_table_of_numbers(call, data, message):
    with pytest.raises(ValueError, match=message):
        call(data, k=2)


@both
def test_object_columns_of_numbers_are_numbers(call):
    as_objects = X.astype(object)
    a, b = call(as_objects), call(X)
    assert same_bits(a, b) if call is cluster else np.array_equal(a[1], b[1])


@both
@pytest.mark.parametrize("k", [0, -1, 2.5, "3", None])
def test_k_is_a_positive_integer(call, k):
    with pytest.raises(ValueError, match="n_clusters"):
        call(X, k=k)


@both
def test_more_clusters_than_rows(call):
    with pytest.raises(ValueError, match=r"n_samples=60 should be >= n_clusters=61"):
        call(X, k=61)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_more_clusters_than_distinct_rows(algorithm):
    data = np.repeat(X[:3], 4, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\) found smaller than"):
        model = cluster(data, k=5, algorithm=algorithm)
    assert model.inertia_ == pytest.approx(0, abs=1e-20)
    assert len(set(model.labels_)) == 3


@both
def test_one_row_and_one_feature(call):
    call(np.array([[3.0]]), k=1)
    call(np.array([[3.0, 4.0]]), k=1)
    call(np.array([[3.0], [4.0]]), k=2)


def test_other_features_after_fitting():
    model = cluster(X)
    for method in (model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match="X has 2 features, but KMeans is expecting 3"):
            method(X[:, :2])
        with pytest.raises(ValueError, match="X has 2 features, but KMeans is expecting 3"):
            method(sparse.csr_array(X[:, :2]))


# ---- weights ----


@both
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.r_[-1.0, np.ones(59)], "[Nn]egative"),
        (np.r_[np.nan, np.ones(59)], "NaN"),
        (np.r_[np.inf, np.ones(59)], "infinity"),
        (np.zeros(60), "zero"),
        (np.ones(59), r"sample_weight.shape|inconsistent|expected"),
        (np.ones((60, 2)), "1D array|[Ss]ample weights must be 1D"),
        (["x"] * 60, "could not convert"),
    ],
    ids=["negative", "nan", "inf", "zero", "short", "2-d", "words"],
)
def test_weights_that_are_none(call, weights, message):
    with pytest.raises(ValueError, match=message):
        call(X, sample_weight=weights)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("init", ["k-means++", "random"])
def test_fewer_weighty_rows_than_clusters(init):
    """Two rows have weight, three centres are asked for: an error or two clusters, no NaN."""
    weights = np.zeros(60)
    weights[[4, 9]] = 1
    said = None
    try:
        model = cluster(X, init=init, sample_weight=weights)
    except ValueError as refused:
        said = str(refused)
    assert "weight" in said if said else np.isfinite(model.cluster_centers_).all()
    assert said or model.inertia_ == pytest.approx(0, abs=1e-20)


@both
@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_tiny_and_huge_weights(call, scale):
    """Sums of weights, and of weights times costs, may leave the range: say so or be right."""
    weights = np.random.default_rng(0).uniform(1, 2, size=60) * scale
    try:
        found = call(X, sample_weight=weights)
    except ValueError as refused:
        message = str(refused)
    else:
        message = "weight"
        expected = call(X, sample_weight=weights / scale)
        if call is cluster:
            np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-9)
            assert np.array_equal(found.labels_, expected.labels_)
        else:
            assert np.array_equal(found[1], expected[1])
    assert "weight" in message


# ---- options ----


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("metric", "manhattan"),
        ("algorithm", "full"),
        ("init", "k-means"),
        ("init", 3),
        ("n_init", 0),
        ("n_init", "many"),
        ("max_iter", 0),
        ("tol", -1.0),
        ("tol", "small"),
        ("random_state", "lucky"),
        ("verbose", "no"),
        ("copy_x", "no"),
    ],
)
def test_options_that_are_none(option, value):
    with pytest.raises(ValueError, match=rf"'{option}' parameter of KMeans"):
        KMeans(**{option: value}).fit(X)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (X[:2], "does not match the number of clusters"),
        (X[:3, :2], "does not match the number of features"),
        (lambda data, k, random_state: data[:2], "does not match the number of clusters"),
        (lambda data, k, random_state: data[:k, :1], "does not match the number of features"),
        (np.full((3, 3), np.nan), "NaN"),
        (lambda data, k, random_state: np.full((k, 3), np.inf), "infinity"),
        (X[0], "2D array"),
    ],
    ids=["few", "narrow", "few from callable", "narrow from callable", "nan", "inf", "1-d"],
)
def test_starts_that_are_none(init, message):
    with pytest.raises(ValueError, match=message):
        KMeans(3, init=init, n_init=1).fit(X)


def test_seeding_options():
    with pytest.raises(ValueError, match="n_local_trials"):
        kmeans_plusplus(X, 3, n_local_trials=0)
    with pytest.raises(ValueError, match="length of x_squared_norms"):
        kmeans_plusplus(X, 3, x_squared_norms=np.ones(5))


# ---- directions ----


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_a_zero_row_has_no_direction(dtype, layout):
    data = X.astype(dtype)
    data[7] = 0
    with pytest.raises(ValueError, match="7"):
        cluster(layout(data), metric="cosine")
    model = cluster(layout(X.astype(dtype)), metric="cosine")
    for method in (model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match="7"):
            method(layout(data))


def test_an_explicit_zero_is_no_direction_either():
    data = sparse.csr_array(X)
    data.data[data.indptr[7] : data.indptr[8]] = 0
    with pytest.raises(ValueError, match="7"):
        cluster(data, metric="cosine")


def test_opposite_rows_cancel_without_nan():
    """Their mean direction is no direction: whatever the centre is, it is a unit vector."""
    data = np.array([[1.0, 0], [-1, 0], [1, 0], [-1, 0]])
    model = KMeans(1, metric="cosine", init=[[0.0, 1.0]], n_init=1).fit(data)
    assert np.isfinite(model.cluster_centers_).all()
    assert np.linalg.norm(model.cluster_centers_) == pytest.approx(1)
    assert model.inertia_ == pytest.approx(4)
