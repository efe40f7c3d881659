"""Bad input raises the error of scikit-learn or a clear one of ours.

It never crashes, hangs, gives NaN or a wrong answer.
"""

import numpy as np
import pytest
from api import HOST_SEEDINGS, Budget
from laws.cases import DTYPES, cluster, rows, same_bits
from scipy import sparse

from kvariates import (
    AntiClustering,
    AntiClusterKFold,
    KMeans,
    KMedian,
    OnlineKMeans,
    PrivateKMeans,
    StreamingKMeans,
    VerticalKMeans,
    choose_k,
    hst_tree,
    kmeans_plusplus,
)
from kvariates.sources import blocks

X = rows(60, 3, seed=71)


def seed(data, k=3, **options):
    return kmeans_plusplus(data, k, random_state=0, **options)


def with_value(value, dtype=np.float64):
    data = X.astype(dtype)
    data[41, 1] = value
    return data


# ---- rows ----


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity(value):
    model = cluster(X)
    for call in (cluster, seed, model.predict, model.transform, model.score):
        for dtype in DTYPES:
            for data in (with_value(value, dtype), sparse.csr_array(with_value(value, dtype))):
                with pytest.raises(ValueError, match=r"NaN|infinity"):
                    call(data)


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
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_data_that_are_not_a_table_of_numbers(data, message):
    for call in (cluster, seed):
        with pytest.raises(ValueError, match=message):
            call(data, k=2)


def test_objects_that_are_numbers():
    assert same_bits(cluster(X.astype(object)), cluster(X))
    assert np.array_equal(seed(X.astype(object))[1], seed(X)[1])


def test_bad_numbers_of_clusters():
    for call in (cluster, seed):
        for k in (0, -1, 2.5, "3", None):
            with pytest.raises(ValueError, match="n_clusters"):
                call(X, k=k)
        with pytest.raises(ValueError, match=r"n_samples=60 should be >= n_clusters=61"):
            call(X, k=61)


def test_one_row_and_one_feature():
    for call in (cluster, seed):
        for data, k in (([[3.0]], 1), ([[3.0, 4.0]], 1), ([[3.0], [4.0]], 2)):
            call(np.array(data), k=k)


# ---- weights ----


def test_bad_weights():
    bad = [
        (np.r_[-1.0, np.ones(59)], "[Nn]egative"),
        (np.r_[np.nan, np.ones(59)], "NaN"),
        (np.r_[np.inf, np.ones(59)], "infinity"),
        (np.zeros(60), "zero"),
        (np.full(60, 1e121), "in float64. Divide the weights"),
        (np.full(60, 1e308), "in float64. Divide the weights"),
        (np.r_[5e-324, np.ones(59)], "in float64. Divide the weights"),
        (np.r_[1e-299, np.full(59, 1e10)], "in float64. Divide the weights"),
        (np.ones(59), r"sample_weight.shape|inconsistent|expected"),
        (np.ones((60, 2)), "1D array|[Ss]ample weights must be 1D"),
        (["x"] * 60, "could not convert"),
    ]
    for call in (cluster, seed):
        for weights, message in bad:
            with pytest.raises(ValueError, match=message):
                call(X, sample_weight=weights)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("init", HOST_SEEDINGS)
def test_fewer_rows_of_positive_weight_than_clusters(init):
    """Two rows have a weight and there are three clusters: cost 0. "random" needs three rows."""
    weights = np.zeros(60)
    weights[[4, 9]] = 1
    if init == "random":
        with pytest.raises(
            ValueError, match="needs 3 rows of positive weight, but only 2 rows have one; lower"
        ):
            cluster(X, init=init, sample_weight=weights)
        return
    model = cluster(X, init=init, sample_weight=weights)
    assert np.isfinite(model.cluster_centers_).all()
    assert model.inertia_ == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("scale", [1e-119, 1e-30, 1e30, 1e119])
def test_tiny_and_huge_weights(scale):
    """Their sums do not overflow or underflow: the fit is that of moderate weights."""
    weights = np.random.default_rng(0).uniform(1, 2, size=60) * scale
    for call in (cluster, seed):
        found = call(X, sample_weight=weights)
        expected = call(X, sample_weight=weights / scale)
        if call is seed:
            assert np.array_equal(found[1], expected[1])
        else:
            np.testing.assert_allclose(found.cluster_centers_, expected.cluster_centers_, rtol=1e-9)
            assert np.array_equal(found.labels_, expected.labels_)


# ---- options ----


def test_bad_options():
    for options in (
        {"metric": "manhattan"}, {"algorithm": "full"}, {"init": "k-means"}, {"init": 3},
        {"n_init": 0}, {"n_init": "many"}, {"max_iter": 0}, {"tol": -1.0}, {"tol": "small"},
        {"random_state": "lucky"}, {"verbose": "no"}, {"copy_x": "no"}, {"distortion": "l1"},
    ):  # fmt: skip
        with pytest.raises(ValueError, match=rf"'{next(iter(options))}' parameter of KMeans"):
            KMeans(**options).fit(X)
    with pytest.raises(ValueError, match="n_local_trials"):
        kmeans_plusplus(X, 3, n_local_trials=0)


@pytest.mark.parametrize(
    ("init", "message"),
    [
        (np.full((3, 3), np.nan), "NaN"),
        (lambda data, k, random_state: np.full((k, 3), np.inf), "infinity"),
        (X[0], "2D array"),
    ],
    ids=["nan", "inf from callable", "1-d"],
)
def test_bad_starts(init, message):
    """For centres of other shapes see test_wrong_params of scikit-learn (sklearn/)."""
    with pytest.raises(ValueError, match=message):
        KMeans(3, init=init, n_init=1).fit(X)


@pytest.mark.parametrize(
    ("options", "init", "message"),
    [
        ({"algorithm": "minibatch"}, [[1e200] * 3, [2e200] * 3], "squared distances overflow"),
        ({"algorithm": "lloyd"}, [[1e200] * 3, [2e200] * 3], "squared distances overflow"),
        ({"metric": "cosine"}, [[1.0] * 3, [0.0] * 3], "row 1 is"),
        ({"distortion": "kl"}, [[1.0] * 3, [-1.0] * 3], "row 1, column 0 is -1"),
        ({"distortion": "total-jensen"}, [[1.0] * 3, [-1.0] * 3], "row 1, column 0 is -1"),
    ],
)
def test_starts_that_cannot_be_measured(options, init, message):
    """Not "Probabilities contain NaN", nor an inertia of NaN."""
    with pytest.raises(ValueError, match=f"^init: .*{message}"):
        KMeans(2, init=init, n_init=1, **options).fit(np.abs(rows(1500, 3, seed=71)) + 0.1)


# ---- directions ----


def test_a_zero_row_has_no_direction():
    data, explicit = X.copy(), sparse.csr_array(X)
    data[7] = 0
    explicit.data[explicit.indptr[7] : explicit.indptr[8]] = 0
    model = cluster(X, metric="cosine")
    for zero in (data, data.astype(np.float32), sparse.csr_array(data), explicit):
        with pytest.raises(ValueError, match="7"):
            cluster(zero, metric="cosine")
        for method in (model.predict, model.transform, model.score):
            with pytest.raises(ValueError, match="7"):
                method(zero)


def test_opposite_rows_cancel_without_nan():
    """Their mean is 0; the centre is a unit vector all the same."""
    data = np.array([[1.0, 0], [-1, 0], [1, 0], [-1, 0]])
    model = KMeans(1, metric="cosine", init=[[0.0, 1.0]], n_init=1).fit(data)
    assert np.linalg.norm(model.cluster_centers_) == pytest.approx(1)
    assert model.inertia_ == pytest.approx(4)


# ---- messages: one line that says what is wrong, where, and what to do ----

pd = pytest.importorskip("pandas")
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
DAYS = pd.date_range("2024-01-01", periods=60)
CALLS = {
    "KMeans": lambda data: KMeans(2).fit(data),
    "predict": lambda data: KMeans(2, random_state=0).fit(X).predict(data),
    "KMedian": lambda data: KMedian(2).fit(data),
    "KMedian.predict": lambda data: KMedian(2, random_state=0).fit(X).predict(data),
    "precomputed": lambda data: KMedian(2, metric="precomputed").fit(data),
    "StreamingKMeans": lambda data: StreamingKMeans(2).partial_fit(data),
    "OnlineKMeans": lambda data: OnlineKMeans(2).partial_fit(data),
    "AntiClustering": lambda data: AntiClustering(2).fit(data),
    "AntiClusterKFold": lambda data: list(AntiClusterKFold(2).split(data)),
    "VerticalKMeans": lambda data: VerticalKMeans(2).fit([X, data]),
    "kmeans_plusplus": seed,
    "choose_k": choose_k,
    "hst_tree": hst_tree,
}
MESSAGES = {
    "text": (
        FRAME.assign(city=["Paris", "Rome"] * 30),
        r"column 'city' holds text \('Paris' in row 0\).* X.drop\(columns=\['city'\]\), or encode",
    ),
    "two columns of text": (FRAME.assign(d="x", e="y"), "columns 'd', 'e' hold text"),
    "numbers and text": (
        FRAME.assign(d=pd.Series([1.5] * 41 + ["?"] * 19, dtype=object)),
        r"column 'd' holds text \('\?' in row 41\)",
    ),
    "text in an array": (np.array([["1", "x"], ["2", "y"]], dtype=object), "column 1 holds text"),
    "text in a list": ([[1, "x"], [2, "y"]], "column 1 holds text"),
    "dates": (FRAME.assign(day=DAYS), "column 'day' holds dates .*2024-01-01.* days since"),
    "dates with a zone": (FRAME.assign(day=DAYS.tz_localize("UTC")), "column 'day' holds dates"),
    "dates as objects": (FRAME.assign(day=pd.Series(list(DAYS.date))), "'day' holds dates"),
    "dates in an array": (DAYS.to_numpy().reshape(-1, 2), "columns 0, 1 hold dates"),
    "durations": (FRAME.assign(t=DAYS - DAYS[0]), "column 't' holds durations .* seconds"),
    "objects": (FRAME.assign(d=[{"k": 1}] * 60), r"must be .* string .* number.*'d' holds a dict"),
    "missing": (
        FRAME.assign(b=np.where(np.arange(60) > 57, np.nan, 1.0)),
        "contains NaN: 2 values in 2 of 60 rows, first in row 58, column 'b'. Leave such rows out",
    ),
    "missing objects": (FRAME.astype(object).mask(FRAME.eq(FRAME.min())), "NaN.* first in row"),
    "missing integers": (
        FRAME.assign(n=pd.array([1, None] * 30, dtype="Int64")), "NaN.*column 'n'",
    ),
    "missing in a list": (
        [[1.0, np.nan], [2, 3], [4, 5]], "NaN: 1 value in 1 of 3 rows, first in row 0, column 1",
    ),
    "iterator": (iter([[1.0, 2.0]]), r"X is an iterator \(list_iterator\).* np.array\(list\(X\)\)"),
    "infinite": (with_value(np.inf), "infinity.*1 value in 1 of 60 rows, first in row 41"),
    "None": (None, "X is None; give a table of numbers"),
    "file": ("rows.csv", "X is a str; read the file first"),
    "dict": ({"a": [1.0, 2.0]}, r"X is a dict; .* pandas.DataFrame\(X\)"),
    "complex": (X.astype(complex), "Complex data not supported: X has dtype complex128; give real"),
    "one row": (X[0], r"Expected 2D array.* shape \(3,\). Reshape your data: X.reshape\(-1, 1\)"),
    "a column": (FRAME["a"], r"Expected 2D array.* shape \(60,\).*X.to_frame\(\)"),
    "a number": (3.0, "Expected 2D array, got scalar array instead: X is a float"),
    "three dimensions": (np.zeros((3, 3, 3)), "dim 3"),
    "uneven": ([[1.0, 2.0], [3.0]], r"different lengths \(inhom.*: row 0 has 2 .* row 1 has 1"),
    "names that are no text": (FRAME.set_axis([0, 1, "<b>"], axis=1).assign(d="x"), "'d' holds"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:X has feature names, but")  # of predict
@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("call", CALLS)
def test_an_error_is_one_line_that_says_what_to_do(call, name):
    data, words = MESSAGES[name]
    if name == "file" and call == "VerticalKMeans":
        words = "Party 1: " + words
    with pytest.raises((TypeError, ValueError), match=words) as caught:
        CALLS[call](data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("estimator", [StreamingKMeans, OnlineKMeans, KMeans])
def test_a_number_is_no_table(estimator):
    with pytest.raises(ValueError, match="Expected 2D array, got scalar array instead: X is a fl"):
        estimator(2).fit(3.0)
    with pytest.raises(ValueError, match="Expected 2D array, got scalar array instead"):
        estimator(2).fit(np.array(3.0))


@pytest.mark.parametrize("estimator", [StreamingKMeans, OnlineKMeans])
@pytest.mark.parametrize("name", ["dict", "None", "file"])
def test_what_is_neither_a_table_nor_batches_of_it(estimator, name):
    data, kind = MESSAGES[name][0], {"dict": "dict", "None": "None", "file": "str"}[name]
    with pytest.raises(TypeError, match=f"X is (a )?{kind}; "):
        estimator(2).fit(data)


def test_a_number_spends_no_budget():
    budget = Budget(epsilon=1.0)
    with pytest.raises(ValueError, match=r"^Expected 2D array, got scalar array instead: [^ ]"):
        PrivateKMeans(2, epsilon=1.0, bounds=(0.0, 2.0), budget=budget).fit(3.0)
    assert budget.lines == ()


@pytest.mark.parametrize("call", [choose_k, KMedian(2).fit])
def test_blocks_where_all_rows_are_needed_in_memory(call):
    with pytest.raises(TypeError, match=r"X is blocks of ndarray, but .* needed in memory"):
        call(blocks(X))


@pytest.mark.parametrize("estimator", [StreamingKMeans, OnlineKMeans, KMeans])
def test_blocks_whose_weights_are_all_zero(estimator):
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        estimator(2).fit(blocks(X, weights=np.zeros(len(X))))


def test_a_lazy_frame_of_polars_is_to_be_collected():
    lazy = pytest.importorskip("polars").DataFrame({"a": [1.0, 2.0], "b": [0.0, 1.0]}).lazy()
    for name, call in CALLS.items():
        with pytest.raises(TypeError, match=r"LazyFrame, which holds no rows yet: call X.collect"):
            call(lazy)
        assert name
    with pytest.raises(TypeError, match=r"kvariates.sources.blocks\(X\)"):
        StreamingKMeans(2).fit(lazy)
    with pytest.raises(TypeError, match=r"call X.collect\(\)"):
        PrivateKMeans(2, epsilon=1.0, bounds=(0.0, 2.0)).fit(lazy)


def test_a_private_fit_of_an_iterator_spends_nothing():
    budget = Budget(epsilon=1.0)
    model = PrivateKMeans(2, epsilon=1.0, bounds=(0.0, 2.0), budget=budget)
    with pytest.raises(TypeError, match=r"X is an iterator \(generator\).* np.array\(list\(X\)\)"):
        model.fit(row for row in X)
    assert budget.lines == ()


def test_columns_of_polars_have_names_too():
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match="column 'city' holds text"):
        KMeans(2).fit(polars.DataFrame({"a": [1.0, 2.0], "city": ["x", "y"]}))


def test_a_private_fit_names_a_column_by_its_type_and_quotes_no_value():
    budget = Budget(epsilon=1.0)
    model = PrivateKMeans(2, epsilon=1.0, bounds=(-9.0, 9.0), budget=budget)
    for column, kind in ((DAYS, "datetime64"), (pd.Series(["secret"] * 60, dtype="string"), "str")):
        with pytest.raises(ValueError, match=f"column 'd' has the type {kind}") as caught:
            model.fit(FRAME.assign(d=column))
        assert "secret" not in str(caught.value)
        assert "2024" not in str(caught.value)
    assert budget.left.epsilon == 1.0  # nothing was spent


def test_an_error_of_a_large_table_is_found_quickly():
    data = np.zeros((200_000, 5))
    data[-1, 3] = np.nan
    with pytest.raises(ValueError, match="first in row 199999, column 3"):
        KMeans(2).fit(data)
