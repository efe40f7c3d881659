"""KMeans on blocks: passes, memory, results, callbacks and errors."""

import pickle
from itertools import count

import numpy as np
import pandas as pd
import pytest
from api import LOST
from contracts.test_estimator_contract import Recorder
from laws.block_sources import CutRows, random_cuts
from laws.cases import every_metric, rows, start, weights_for
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from skops import io as skops

from kvariates import KMeans, PrivateKMeans
from kvariates.sources import blocks

X = rows(600, 3, seed=4)
WEIGHT = weights_for(600)
INIT = start(X, 5)


def name_of(value):
    return "given" if isinstance(value, np.ndarray) else str(value)


every_init = pytest.mark.parametrize("init", [INIT, "k-means||", "k-means++"], ids=name_of)


def blocks_of(X=X, weight=None, cuts=(100, 250, 250, 400), **options):
    return CutRows(X, weight, cuts, **options)


# ---- passes and memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("init", [INIT, "k-means++", "random"], ids=name_of)
@pytest.mark.parametrize("verbose", [0, 1])
def test_a_fit_makes_few_passes(init, verbose, capsys):
    """One for totals and summary, one for the spread, one an iteration, one for the cost."""
    blocks = blocks_of()
    model = KMeans(5, init=init, n_init=1, random_state=0, verbose=verbose).fit(blocks)
    assert blocks.passes == 3 + model.n_iter_
    assert model.labels_ is model.labels_
    assert blocks.passes == 3 + model.n_iter_
    list(model.labels_)
    assert blocks.passes == 4 + model.n_iter_


def test_moving_empty_clusters_takes_one_more_pass():
    blocks = blocks_of()
    init = INIT.copy()
    init[3] = 1e6
    model = KMeans(5, init=init).fit(blocks)
    assert blocks.passes == 4 + model.n_iter_


def test_rounds_of_parallel_seeding_take_two_passes_each():
    blocks = blocks_of()
    model = KMeans(5, init="k-means||", random_state=0).fit(blocks)
    assert blocks.passes == 3 + model.n_iter_ + 2 * 6 + 2


@every_init
@every_metric
def test_no_block_is_kept(init, metric):
    """The block before may live until the next one is read; of the first rows there is no trace."""
    many = blocks_of(cuts=range(10, 600, 10))
    model = KMeans(5, init=init, random_state=0, metric=metric).fit(many)
    for _ in model.labels_:
        pass
    model.score(many)
    assert many.most_alive <= 2


# ---- results -------------------------------------------------------------------------------------


@every_metric
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["unweighted", "weighted"])
def test_answers_about_blocks_are_those_about_rows(metric, weight):
    model = KMeans(5, random_state=0, metric=metric).fit(X, sample_weight=weight)
    blocks = blocks_of(weight=weight, repeatable=False)
    assert [len(part) for part in model.predict(blocks)] == [100, 150, 0, 150, 200]
    assert np.array_equal(np.asarray(model.predict(blocks)), model.predict(X))
    assert np.array_equal(np.asarray(model.transform(blocks)), model.transform(X))
    assert model.score(blocks) == model.score(X, sample_weight=weight)


def test_a_fit_returns_what_it_stores():
    blocks, model = blocks_of(), KMeans(5, init=INIT)
    assert model.fit_predict(blocks) is model.labels_
    assert np.array_equal(np.asarray(model.fit_transform(blocks)), model.transform(X))
    assert np.array_equal(np.asarray(model.labels_), model.predict(X))
    assert np.asarray(model.labels_).dtype == np.int32
    with pytest.raises(TypeError, match="computed when it is read"):
        _ = model.labels_ == 0
    assert np.asarray(model.labels_, dtype=np.int64).dtype == np.int64


@pytest.mark.parametrize("distortion", ["mahalanobis", "kl"])
def test_a_model_of_rows_in_memory_answers_about_blocks(distortion):
    positive = np.abs(X) + 0.1
    model = KMeans(4, distortion=distortion, random_state=0).fit(positive)
    blocks = blocks_of(positive)
    assert np.array_equal(np.asarray(model.predict(blocks)), model.predict(positive))
    assert model.score(blocks) == model.score(positive)


def test_a_private_model_answers_about_blocks():
    model = PrivateKMeans(3, epsilon=5.0, bounds=(-20.0, 20.0)).fit(X)
    assert np.array_equal(np.asarray(model.predict(blocks_of())), model.predict(X))


def relation():
    import duckdb

    frame = pd.DataFrame(X)  # noqa: F841
    return duckdb.sql("select * from frame")


@pytest.mark.parametrize("source", [lambda: X, relation, lambda: lambda: [X]])
def test_a_model_is_saved_without_the_rows_of_its_blocks(source):
    model = KMeans(5, init=INIT).fit(blocks(source()))
    content = pickle.dumps(model)
    assert len(content) < X.nbytes
    assert len(skops.dumps(model)) > 0
    copy = pickle.loads(content)
    with pytest.raises(AttributeError, match=r"predict\(X\) computes them"):
        _ = copy.labels_
    assert np.array_equal(np.asarray(copy.predict(blocks(X))), np.asarray(model.labels_))


def test_the_number_of_labels_is_that_of_the_rows():
    holes = np.insert(X, 5, np.nan, axis=0)
    source = blocks(holes, missing="drop", block_bytes=1000)
    assert len(KMeans(5, init=INIT).fit(source).labels_) == len(X)
    with pytest.raises(TypeError, match="counted when they are read"):
        len(KMeans(5, init=INIT).fit(X).predict(blocks([X])))


def swapped():
    """Each pass has two rows in the other order."""
    order = np.arange(len(X))
    while True:
        yield X[order]
        order[[7, 400]] = order[[400, 7]]


def test_a_source_that_changes_between_passes_is_refused():
    tables = swapped()
    with pytest.raises(ValueError, match=r"rows 1 to 600 are not those that were read before"):
        KMeans(5, init=INIT).fit(blocks(lambda: [next(tables)]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_source_may_cut_the_same_rows_otherwise_in_every_pass(dtype):
    rows, parts = np.tile(X, (4, 1)).astype(dtype), count(1)
    source = blocks(lambda: np.array_split(rows, next(parts)))
    model = KMeans(5, init=INIT).fit(source)
    assert np.array_equal(model.cluster_centers_, KMeans(5, init=INIT).fit(rows).cluster_centers_)
    assert next(parts) > 3


CHANGES = {
    "value": lambda rows, weight: rows[500].__iadd__(1e-9),
    "weight": lambda rows, weight: weight[500:501].__iadd__(1),
    "order": lambda rows, weight: rows.__setitem__([500, 501], rows[[501, 500]]),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_labels_are_not_read_from_other_rows_than_those_of_the_fit(change, kind):
    rows, weight = X.copy(), WEIGHT.copy()
    source = blocks(lambda: [kind(np.column_stack([rows, weight]))], weights="x3", block_bytes=2000)
    model = KMeans(5, init=INIT).fit(source)
    assert len(np.asarray(model.labels_)) == len(X)
    CHANGES[change](rows, weight)
    with pytest.raises(ValueError, match=r"are not those that were read before; every pass"):
        np.asarray(model.labels_)


def test_names_of_columns_are_kept_and_compared():
    model = KMeans(5, init=INIT).fit(blocks_of(names=("a", "b", "c")))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match=r"^Column 2 of test blocks is 'c', but .* 'b' there\..*$"):
        model.predict(blocks_of(names=("a", "c", "b")))
    later = blocks_of()
    answer = model.predict(later)
    later.names = ("a", "c", "b")  # known when the first block is read
    with pytest.raises(ValueError, match="Column 2 of test blocks"):
        list(answer)
    model.fit(blocks_of())
    assert not hasattr(model, "feature_names_in_")
    assert np.array_equal(
        np.asarray(model.predict(blocks_of(names=("a", "b", "c")))), model.predict(X)
    )


@pytest.mark.parametrize(
    ("init", "why"),
    [(name, LOST["summary"]) for name in ("d2", "k-means++")]
    + [(INIT, LOST["array"]), ("k-means||", "Bahmani")],
    ids=name_of,
)
def test_no_theorem_is_claimed(init, why):
    model = KMeans(5, init=init, random_state=0).fit(blocks_of())
    assert model.guarantee_ is None
    assert why in model.guarantee_lost_


def test_a_callable_gets_points_that_stand_for_the_rows():
    seen = []

    def pick(points, k, random_state):
        seen.append(points)
        return points[random_state.permutation(len(points))[:k]]

    model = KMeans(5, init=pick, n_init=3, random_state=0).fit(blocks_of())
    assert len(seen) == 3
    assert sorted(map(tuple, seen[0])) == sorted(map(tuple, X))
    assert model.inertia_ < 1.2 * KMeans(5, random_state=0).fit(X).inertia_


@pytest.mark.parametrize("data", ["memory", "blocks"])
def test_fewer_distinct_rows_than_clusters_are_told(data):
    few = np.repeat(X[:3], 4, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\)"):
        KMeans(5, init=INIT).fit(few if data == "memory" else blocks_of(few, cuts=(2, 5)))


# ---- verbose output and callbacks ----------------------------------------------------------------


@every_metric
def test_verbose_lines_are_those_in_memory(metric, capsys):
    printed = []
    for data in (X, blocks_of()):
        KMeans(5, init=INIT, metric=metric, verbose=1, tol=0).fit(data)
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "strict convergence" in printed[0]


@pytest.mark.parametrize(
    ("init", "runs"), [("k-means++", 1), ("k-means||", 2), (INIT, 1)], ids=name_of
)
def test_callbacks_see_every_iteration(init, runs):
    recorder, n_init = Recorder(), 1 if isinstance(init, np.ndarray) else 2
    model = KMeans(5, init=init, n_init=n_init, random_state=0).set_callbacks(recorder)
    model.fit(blocks_of())
    assert (recorder.setups, recorder.teardowns) == (1, 1)
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert recorder.ended[-1] == "fit"
    assert recorder.ended.count("run") == runs
    assert recorder.ended.count("iteration") >= model.n_iter_


def test_a_callback_can_stop_the_fit():
    model = KMeans(5, init=INIT, tol=0).set_callbacks(Recorder(stop_after=2)).fit(blocks_of())
    assert model.n_iter_ == 2


# ---- errors --------------------------------------------------------------------------------------


def zero_row(X=X):
    out = X.copy()
    out[260] = 0
    return out


ERRORS = {
    "read once": ({}, blocks_of(repeatable=False), "test blocks can be read only once.*Streaming"),
    "algorithm": ({"algorithm": "elkan"}, blocks_of(), "algorithm='elkan' needs all rows in mem"),
    "distortion": ({"distortion": "kl"}, blocks_of(), "distortion='kl' needs all rows in memory"),
    "certify": ({"certify": True}, blocks_of(), "certify=True needs all rows in memory"),
    "few rows": ({}, blocks_of(X[:3], cuts=(1,)), "n_samples=3 should be >= n_clusters=5"),
    "no rows": ({}, blocks_of(X[:0], cuts=(0,)), "There are no rows"),
    "no weight": ({}, blocks_of(weight=np.zeros(600)), "sample_weight is zero for every row"),
    "tiny weight": ({}, blocks_of(weight=WEIGHT * 1e-200), "too small or too large for sums"),
    "zero row": ({"metric": "cosine"}, blocks_of(zero_row()), "row 260 is"),
    "huge values": ({}, blocks_of(X * 1e200), "values of X are too large"),
    "not offered": ({"init": "ls++", "metric": "cosine"}, blocks_of(), "ls\\+\\+"),
    "shape of init": ({"init": INIT[:, :2]}, blocks_of(), "does not match the number of features"),
    "weighted rows": (
        {"init": "random"},
        blocks_of(weight=(np.arange(600) < 4) * 1.0),
        "test blocks has 4 rows of positive weight, fewer than n_clusters=5",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_an_error_is_one_line(case):
    options, blocks, words = ERRORS[case]
    with pytest.raises(ValueError, match=words) as raised:
        KMeans(5, **options).fit(blocks)
    assert "\n" not in str(raised.value)


def test_weights_beside_those_of_blocks_are_refused():
    model = KMeans(5, init=INIT).fit(blocks_of())
    for method in (model.fit, model.score):
        with pytest.raises(ValueError, match=r"sample_weight is for a single table.* blocks\("):
            method(blocks_of(), sample_weight=WEIGHT)


def test_other_columns_are_refused():
    model = KMeans(5, init=INIT).fit(blocks_of())
    with pytest.raises(ValueError, match="test blocks has 2 features, but the model expects 3"):
        list(model.predict(blocks_of(X[:, :2].copy())))


def test_values_are_refused_as_in_memory():
    model = KMeans(5, init=INIT).fit(X)
    for data in (X * 1e200, blocks_of(X * 1e200)):
        with pytest.raises(ValueError, match="values of X are too large"):
            np.asarray(model.predict(data))


@pytest.mark.parametrize("fails_in_pass", [1, 2, 3, 4])
@every_init
def test_an_error_while_reading_leaves_the_model_as_it_was(init, fails_in_pass):
    model = KMeans(5, init=init, random_state=0).fit(X)
    before = dict(vars(model))
    blocks = blocks_of(X + 1, fails_in_pass=fails_in_pass, names=("a", "b", "c"))
    with pytest.raises(OSError, match="the disk is gone"):
        model.fit(blocks)
    assert vars(model) == before
    assert blocks.passes == fails_in_pass


def test_an_error_in_the_labels_is_raised_by_their_reader():
    blocks = blocks_of(cuts=random_cuts(600, 4))
    model = KMeans(5, init=INIT).fit(blocks)
    blocks.fails_in_pass = blocks.passes + 1
    with pytest.raises(OSError, match="the disk is gone"):
        list(model.labels_)
    assert np.array_equal(np.asarray(model.labels_), model.predict(X))
