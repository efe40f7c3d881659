"""What any KMeans of ours owes its user, whatever the algorithm and the metric."""

import copy
import inspect
import io
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from laws.cases import rows
from scipy import sparse
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.cluster import KMeans as Peer
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kvariates
from kvariates import KMeans

VARIANTS = [
    {"algorithm": algorithm, "metric": metric}
    for algorithm in ("auto", "lloyd", "elkan", "hamerly")
    for metric in ("euclidean", "cosine")
]
every = pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: "-".join(v.values()))
X = rows(300, 4, seed=41)


def same(a, b):
    return (
        np.array_equal(a.cluster_centers_, b.cluster_centers_)
        and np.array_equal(a.labels_, b.labels_)
        and a.inertia_ == b.inertia_
        and a.n_iter_ == b.n_iter_
    )


def test_signature_is_the_peers_and_more():
    theirs = inspect.signature(Peer).parameters
    ours = inspect.signature(KMeans).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    assert set(ours) - set(theirs) == {"metric", "distortion"}
    for name in theirs:
        assert ours[name].kind == theirs[name].kind
        if name != "algorithm":
            assert ours[name].default == theirs[name].default
    for method in ("fit", "predict", "transform", "fit_predict", "fit_transform", "score"):
        assert list(inspect.signature(getattr(KMeans, method)).parameters) == list(
            inspect.signature(getattr(Peer, method)).parameters
        ), method


def test_seeding_signature_is_the_peers():
    from sklearn.cluster import kmeans_plusplus as theirs

    ours = inspect.signature(kvariates.kmeans_plusplus).parameters
    for name, parameter in inspect.signature(theirs).parameters.items():
        assert ours[name].kind == parameter.kind
        assert ours[name].default == parameter.default


def test_public_names():
    assert {"KMeans", "kmeans_plusplus", "__version__"} <= set(kvariates.__all__)
    assert kvariates.__version__ == "0.1.0"


@every
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_attributes(variant, dtype, layout):
    data = layout(X.astype(dtype))
    model = KMeans(5, random_state=0, **variant)
    assert model.fit(data) is model
    assert model.cluster_centers_.shape == (5, 4)
    assert model.cluster_centers_.dtype == dtype
    assert model.cluster_centers_.flags.c_contiguous
    assert model.cluster_centers_.flags.writeable
    assert model.labels_.shape == (300,)
    assert model.labels_.dtype == np.int32
    assert set(model.labels_) == set(range(5))
    assert isinstance(model.inertia_, float)
    assert isinstance(model.n_iter_, int)
    assert 1 <= model.n_iter_ <= model.max_iter
    assert model.n_features_in_ == 4
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(data).dtype == np.int32
    assert model.transform(data).shape == (300, 5)
    assert isinstance(model.score(data), float)


@every
def test_the_short_cuts_are_the_long_ways(variant):
    model = KMeans(5, random_state=3, **variant)
    weights = np.arange(300) % 4 + 0.5
    fitted = clone(model).fit(X, sample_weight=weights)
    assert np.array_equal(clone(model).fit_predict(X, sample_weight=weights), fitted.labels_)
    distances = clone(model).fit_transform(X, sample_weight=weights)
    assert np.array_equal(distances, fitted.transform(X))
    assert fitted.score(X, sample_weight=weights) == pytest.approx(-fitted.inertia_, rel=1e-12)


@every
def test_nothing_given_is_changed(variant):
    data, weights, init = X.copy(), np.random.default_rng(0).uniform(size=300), X[:5].copy()
    before = data.copy(), weights.copy(), init.copy()
    for copy_x in (True, False):
        model = KMeans(5, init=init, copy_x=copy_x, **variant)
        model.fit(data, sample_weight=weights).predict(data)
        np.testing.assert_allclose(data, before[0], rtol=0 if copy_x else 1e-12)
        assert np.array_equal(weights, before[1])
        assert np.array_equal(init, before[2])
        assert not np.shares_memory(model.cluster_centers_, init)
    csr = sparse.csr_array(data)
    parts = csr.data.copy(), csr.indices.copy(), csr.indptr.copy()
    KMeans(5, random_state=0, **variant).fit(csr)
    assert all(
        np.array_equal(a, b)
        for a, b in zip(parts, (csr.data, csr.indices, csr.indptr), strict=True)
    )


@every
def test_the_same_seed_is_the_same_fit(variant):
    fits = [KMeans(5, random_state=7, **variant).fit(X) for _ in range(2)]
    assert same(*fits)
    assert same(
        KMeans(5, random_state=np.random.default_rng(1), **variant).fit(X),
        KMeans(5, random_state=np.random.default_rng(1), **variant).fit(X),
    )
    assert same(
        KMeans(5, random_state=np.random.RandomState(1), **variant).fit(X),
        KMeans(5, random_state=np.random.RandomState(1), **variant).fit(X),
    )


def test_other_seeds_are_other_starts():
    def centres(state):
        return KMeans(9, random_state=state, max_iter=1).fit(X).cluster_centers_.tobytes()

    assert len({centres(seed) for seed in range(10)}) == 10
    moving = np.random.default_rng(0)
    assert len({centres(moving) for _ in range(10)}) == 10
    assert len({centres(None) for _ in range(5)}) == 5


def test_global_random_state_is_left_alone():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    KMeans(5, random_state=0).fit(X)
    KMeans(5, random_state=np.random.default_rng(0)).fit(X)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@every
def test_clone_copy_and_pickle(variant):
    model = KMeans(5, random_state=0, tol=1e-3, **variant).fit(X)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "labels_")
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert same(model, twin)
        assert np.array_equal(twin.predict(X), model.labels_)


def test_not_fitted_is_said_so():
    for method in ("predict", "transform", "score"):
        with pytest.raises(NotFittedError):
            getattr(KMeans(), method)(X)


@every
def test_refitting_forgets(variant):
    model = KMeans(5, random_state=0, **variant).fit(X)
    model.set_params(n_clusters=3).fit(X[:, :2])
    assert model.cluster_centers_.shape == (3, 2)
    assert model.n_features_in_ == 2
    assert same(model, KMeans(3, random_state=0, **variant).fit(X[:, :2]))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_in_and_out(frame):
    names = ["a", "b", "c", "d"]
    data = frame({name: X[:, i] for i, name in enumerate(names)})
    model = KMeans(5, random_state=0).fit(data)
    assert same(model, KMeans(5, random_state=0).fit(X))
    assert list(model.feature_names_in_) == names
    assert list(model.get_feature_names_out()) == [f"kmeans{i}" for i in range(5)]
    kind = "pandas" if frame is pd.DataFrame else "polars"
    out = model.set_output(transform=kind).transform(data)
    assert isinstance(out, frame)
    assert list(out.columns) == [f"kmeans{i}" for i in range(5)]
    assert np.array_equal(out.to_numpy(), KMeans(5, random_state=0).fit(X).transform(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(
            data.rename(columns={"a": "z"}) if kind == "pandas" else data.rename({"a": "z"})
        )


@pytest.mark.parametrize("weights", [pd.Series, pl.Series, list, tuple, np.asarray])
def test_weights_of_any_kind(weights):
    given = np.arange(1.0, 301)
    model = KMeans(4, random_state=0).fit(X, sample_weight=weights(given))
    assert same(model, KMeans(4, random_state=0).fit(X, sample_weight=given))


def test_lists_and_integers_become_float64():
    data = [[0, 0], [1, 0], [9, 9], [9, 8]]
    model = KMeans(2, random_state=0).fit(data)
    assert model.cluster_centers_.dtype == np.float64
    assert sorted(map(tuple, model.cluster_centers_)) == [(0.5, 0.0), (9.0, 8.5)]
    assert np.array_equal(model.predict(np.array(data, dtype=np.int8)), model.labels_)


@pytest.mark.parametrize("init", ["k-means++", "random", "callable"])
def test_more_starts_are_never_worse(init):
    def pick(X, n_clusters, random_state):
        return X[random_state.permutation(len(X))[:n_clusters]]

    options = {"init": pick if init == "callable" else init, "max_iter": 2}
    costs = [KMeans(12, n_init=n, random_state=5, **options).fit(X).inertia_ for n in (1, 4, 16)]
    assert costs[0] >= costs[1] >= costs[2]
    assert costs[0] > costs[2]


@pytest.mark.parametrize("state", [0, np.random.RandomState(0), np.random.default_rng(0), None])
def test_a_callable_gets_rows_and_something_random(state):
    seen = []

    def pick(data, n_clusters, random_state):
        seen.append((data.shape, n_clusters, random_state.permutation(5).tolist()))
        return data[:n_clusters]

    KMeans(3, init=pick, n_init=4, random_state=state).fit(X)
    assert [(shape, k) for shape, k, _ in seen] == [((300, 4), 3)] * 4
    assert len({tuple(order) for *_, order in seen}) > 1


def test_a_sparse_start_from_a_callable():
    csr = sparse.csr_array(X)
    model = KMeans(3, init=lambda data, k, random_state: data[:k].toarray(), n_init=1).fit(csr)
    assert same(model, KMeans(3, init=X[:3], n_init=1).fit(csr))


@every
def test_verbose_tells_the_iterations(variant, capsys):
    model = KMeans(5, random_state=0, n_init=2, verbose=1, tol=0, **variant).fit(X)
    told = capsys.readouterr().out
    assert told.count("Initialization complete") == 2
    assert told.count("strict convergence") == 2
    assert told.count("Iteration ") >= model.n_iter_
    assert same(model, KMeans(5, random_state=0, n_init=2, tol=0, **variant).fit(X))
    assert capsys.readouterr().out == ""


class Watcher:
    """A scikit-learn callback that counts tasks, and stops the fit after a while if asked to."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.begun, self.ended, self.setups, self.teardowns = [], [], 0, 0

    def setup(self, estimator, context):
        self.setups += 1

    def teardown(self, estimator, context):
        self.teardowns += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append(context.task_name)

    def on_fit_task_end(self, estimator, context):
        self.ended.append(context.task_name)
        leaf = context.max_subtasks == 0
        return leaf and self.stop_after is not None and len(self.ended) >= self.stop_after


@every
def test_callbacks_see_every_iteration_and_change_nothing(variant):
    watcher = Watcher()
    model = KMeans(5, random_state=0, n_init=2, tol=0, **variant)
    quiet = clone(model).fit(X)
    model.set_callbacks(watcher).fit(X)
    assert same(model, quiet)
    assert (watcher.setups, watcher.teardowns) == (1, 1)
    assert sorted(watcher.begun) == sorted(watcher.ended)
    assert watcher.begun.count("fit") == 1
    assert len(watcher.ended) >= 3 + quiet.n_iter_


def test_a_callback_can_stop_the_fit():
    watcher = Watcher(stop_after=3)
    model = KMeans(12, random_state=0, tol=0).set_callbacks(watcher).fit(X)
    assert model.n_iter_ == 3
    assert watcher.teardowns == 1
    assert same(model, KMeans(12, random_state=0, tol=0, max_iter=3).fit(X))
    assert np.array_equal(model.labels_, model.predict(X))


def test_callbacks_are_torn_down_after_an_error():
    watcher = Watcher()
    with pytest.raises(ValueError, match="n_samples=2 should be >= n_clusters=5"):
        KMeans(5).set_callbacks(watcher).fit(X[:2])
    assert watcher.setups == watcher.teardowns


def test_the_progress_bar_runs(capsys):
    KMeans(5, random_state=0).set_callbacks(ProgressBar()).fit(X)
    assert "KMeans" in capsys.readouterr().out


def test_in_a_pipeline_and_a_grid_search():
    pipe = make_pipeline(StandardScaler(), KMeans(random_state=0))
    search = GridSearchCV(
        pipe, {"kmeans__n_clusters": [2, 4], "kmeans__algorithm": ["lloyd", "elkan"]}
    )
    search.fit(X)
    assert search.best_params_["kmeans__n_clusters"] == 4
    by_algorithm = search.cv_results_["mean_test_score"].reshape(2, 2)
    assert np.array_equal(by_algorithm[0], by_algorithm[1])


def test_skops_like_state_is_plain():
    """What a fitted model keeps is arrays and numbers: it can be stored without pickle."""
    model = KMeans(5, random_state=0).fit(X)
    kept = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert kept.pop("guarantee_") is None
    assert isinstance(kept.pop("guarantee_lost_"), str)
    assert all(isinstance(v, np.ndarray | float | int) for v in kept.values())
    buffer = io.BytesIO()
    np.savez(buffer, **kept)
    assert buffer.tell() > 0
