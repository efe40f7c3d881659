"""Bad input gets the error that scikit-learn's users expect, or a clear one of ours.

Never a crash, a hang, a NaN or a silently wrong answer.
"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from laws import brute
from laws.cases import ALGORITHMS, DTYPES, METRICS, fit, rows, same_bits, start
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


# ---- the edges of floating point ----


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


# ---- layouts ----


def _misaligned(a):
    raw = np.zeros(a.nbytes + 1, dtype=np.uint8)
    out = np.ndarray(a.shape, a.dtype, raw, offset=1)
    out[:] = a
    return out


def _read_only(a):
    out = a.copy()
    out.flags.writeable = False
    return out


def _unsorted(csr):
    for i in range(csr.shape[0]):
        part = slice(csr.indptr[i], csr.indptr[i + 1])
        csr.indices[part], csr.data[part] = (
            csr.indices[part][::-1].copy(),
            csr.data[part][::-1].copy(),
        )
    csr.has_sorted_indices = False
    return csr


def _doubled(csr):
    """Every entry twice, as its halves."""
    return sparse.csr_array(
        (np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), csr.indptr * 2), shape=csr.shape
    )


def _explicit_zeros(a):
    n, d = a.shape
    indices, indptr = np.tile(np.arange(d), n), np.arange(n + 1) * d
    parts = a.ravel().copy(), indices.astype(np.int32), indptr.astype(np.int32)
    return sparse.csr_array(parts, shape=a.shape)


LAYOUTS = {
    "fortran": np.asfortranarray,
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "misaligned": _misaligned,
    "byte-swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "read-only": _read_only,
    "list": lambda a: a.tolist(),
    "matrix in a view": lambda a: np.pad(a, 3)[3:-3, 3:-3],
}
SPARSE = {
    "csc": sparse.csc_array,
    "coo": sparse.coo_array,
    "csr_matrix": sparse.csr_matrix,
    "lil": sparse.lil_matrix,
    "unsorted indices": lambda a: _unsorted(sparse.csr_array(a)),
    "duplicate entries": lambda a: _doubled(sparse.csr_array(a)),
    "explicit zeros": _explicit_zeros,
}


def check_layout(data, plain):
    init = start(plain, 4)
    a, b = fit(data, init), fit(plain, init)
    assert np.array_equal(a.labels_, b.labels_)
    np.testing.assert_allclose(a.cluster_centers_, b.cluster_centers_, rtol=1e-5, atol=1e-6)
    assert np.array_equal(a.predict(data), b.labels_)
    np.testing.assert_allclose(a.transform(data), b.transform(plain), rtol=1e-5, atol=1e-5)
    assert np.array_equal(seed(data)[1], seed(plain)[1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_layout_in_memory(layout, dtype):
    plain = rows(75, 5, dtype, seed=73)
    check_layout(LAYOUTS[layout](plain), plain)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", SPARSE)
def test_any_sparse_format(layout, dtype):
    plain = rows(75, 5, dtype, seed=74, sparsity=0.5)
    check_layout(SPARSE[layout](plain), plain)


def test_wide_indices_are_right_or_refused():
    """scikit-learn refuses 64-bit indices; to take them is fine, to misread them is not."""
    plain = rows(75, 5, seed=74, sparsity=0.5)
    csr = sparse.csr_array(plain)
    csr.indices, csr.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    said = ""
    try:
        model = fit(csr, start(plain, 4))
    except ValueError as refused:
        said = str(refused)
    assert "int64 indices" in said or np.array_equal(
        model.labels_, fit(plain, start(plain, 4)).labels_
    )


def test_sparse_input_is_not_tidied_behind_the_users_back():
    doubled = _doubled(sparse.csr_array(X))
    kept = doubled.data.copy(), doubled.indices.copy()
    cluster(doubled)
    assert np.array_equal(doubled.data, kept[0])
    assert np.array_equal(doubled.indices, kept[1])


def test_memory_maps(tmp_path):
    plain = rows(75, 5, np.float32, seed=75)
    stored = np.memmap(tmp_path / "rows", dtype=np.float32, mode="w+", shape=plain.shape)
    stored[:] = plain
    stored.flush()
    check_layout(np.memmap(tmp_path / "rows", np.float32, "r", shape=plain.shape), plain)


@pytest.mark.parametrize("kind", ["float16", "int8", "uint64", "bool", "longdouble"])
def test_other_numbers_become_double(kind):
    data = (np.abs(rows(75, 5, seed=76)) * 3).astype(kind)
    init = np.unique(data.astype(np.float64), axis=0)[:4]
    model = fit(data, init)
    assert model.cluster_centers_.dtype == np.float64
    assert same_bits(model, fit(data.astype(np.float64), init))


# ---- Ctrl-C ----

ENDLESS = {
    "lloyd": "KMeans(300, random_state=0, init='random', n_init=1, tol=0, max_iter=10**6,"
    " algorithm='lloyd').fit(X)",
    "elkan": "KMeans(300, random_state=0, init='random', n_init=1, tol=0, max_iter=10**6,"
    " algorithm='elkan').fit(X)",
    "hamerly": "KMeans(300, random_state=0, init='random', n_init=1, tol=0, max_iter=10**6,"
    " algorithm='hamerly').fit(X)",
    "plain seeding": "kmeans_plusplus(X, 20000, n_local_trials=1, random_state=0)",
    "greedy seeding": "kmeans_plusplus(X, 20000, random_state=0)",
}
CHILD = """
import numpy as np, time
from kvariates import KMeans, kmeans_plusplus
X = np.random.default_rng(0).random((200_000, 12), dtype=np.float32)
KMeans(2, random_state=0).fit(X[:100])
print("ready", flush=True)
try:
    while True:
        {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
print("usable", KMeans(2, random_state=0).fit([[0.0], [1.0], [9.0]]).inertia_, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("call", ENDLESS)
def test_ctrl_c_interrupts(call):
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD.format(call=ENDLESS[call])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline().strip() == "ready", child.stderr.read()
        time.sleep(0.7)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        asked = time.perf_counter()
        assert child.stdout.readline().strip() == "interrupted", child.stderr.read()
        # About 0.2 s on a free machine; the rest is for a busy one.
        assert time.perf_counter() - asked < 1.5
        out, err = child.communicate(timeout=60)
        assert out.strip() == "usable 0.5", err
    finally:
        child.kill()
        child.wait()
