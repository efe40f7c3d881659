"""What KMeans shares with every estimator of scikit-learn, whatever is chosen."""

import inspect
import io

import numpy as np
import pandas as pd
import polars as pl
import pytest
from api import REFINEMENTS
from laws.cases import rows, same_bits
from sklearn.base import clone
from sklearn.cluster import KMeans as Peer
from sklearn.cluster import kmeans_plusplus as peer_seeding

import kvariates
from kvariates import KMeans

X = rows(300, 4, seed=41)


def test_signatures_are_those_of_scikit_learn_and_more():
    theirs = inspect.signature(Peer).parameters
    ours = inspect.signature(KMeans).parameters
    assert list(ours)[: len(theirs)] == list(theirs)
    more = {"metric", "distortion", "certify", "size_min", "size_max", "device"}
    assert set(ours) - set(theirs) == more
    for name in theirs:
        assert ours[name].kind == theirs[name].kind
        if name != "algorithm":
            assert ours[name].default == theirs[name].default
    for method in ("fit", "predict", "transform", "fit_predict", "fit_transform", "score"):
        assert list(inspect.signature(getattr(KMeans, method)).parameters) == list(
            inspect.signature(getattr(Peer, method)).parameters
        ), method
    seeding = inspect.signature(kvariates.kmeans_plusplus).parameters
    for name, parameter in inspect.signature(peer_seeding).parameters.items():
        assert (seeding[name].kind, seeding[name].default) == (parameter.kind, parameter.default)


def test_other_seeds_give_other_starts():
    def centers(state):
        return KMeans(9, random_state=state, max_iter=1).fit(X).cluster_centers_.tobytes()

    assert len({centers(seed) for seed in range(10)}) == 10
    moving = np.random.default_rng(0)
    assert len({centers(moving) for _ in range(10)}) == 10
    assert len({centers(None) for _ in range(5)}) == 5


def test_the_global_random_state_is_not_used():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    KMeans(5, random_state=0).fit(X)
    KMeans(5, random_state=np.random.default_rng(0)).fit(X)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_given_centers_are_not_changed():
    init = X[:5].copy()
    model = KMeans(5, init=init).fit(X)
    assert np.array_equal(init, X[:5])
    assert not np.shares_memory(model.cluster_centers_, init)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_data_frames_in_and_out(frame):
    names = ["a", "b", "c", "d"]
    data = frame({name: X[:, i] for i, name in enumerate(names)})
    model = KMeans(5, random_state=0).fit(data)
    assert same_bits(model, KMeans(5, random_state=0).fit(X))
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


def test_weights_of_any_kind():
    given = np.arange(1.0, 301)
    expected = KMeans(4, random_state=0).fit(X, sample_weight=given)
    for kind in (pd.Series, pl.Series, list, tuple):
        assert same_bits(KMeans(4, random_state=0).fit(X, sample_weight=kind(given)), expected)


def some_rows(X, n_clusters, random_state):
    return X[random_state.permutation(len(X))[:n_clusters]]


@pytest.mark.parametrize("init", ["k-means++", "random", some_rows])
def test_more_runs_are_never_worse(init):
    options = {"init": init, "max_iter": 2, "random_state": 5}
    costs = [KMeans(12, n_init=n, **options).fit(X).inertia_ for n in (1, 4, 16)]
    assert costs[0] >= costs[1] >= costs[2]
    assert costs[0] > costs[2]


@pytest.mark.parametrize("state", [0, np.random.RandomState(0), np.random.default_rng(0), None])
def test_a_callable_gets_the_rows_and_a_random_state(state):
    seen = []

    def pick(data, n_clusters, random_state):
        seen.append((data.shape, n_clusters, random_state.permutation(5).tolist()))
        return data[:n_clusters]

    KMeans(3, init=pick, n_init=4, random_state=state).fit(X)
    assert [(shape, k) for shape, k, _ in seen] == [((300, 4), 3)] * 4
    assert len({tuple(order) for *_, order in seen}) > 1


class Recorder:
    """A callback of scikit-learn that records tasks, and may stop the fit after some of them."""

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


@pytest.mark.parametrize("algorithm", REFINEMENTS)
def test_callbacks_see_every_iteration_and_change_nothing(algorithm):
    recorder = Recorder()
    model = KMeans(5, random_state=0, n_init=2, tol=0, algorithm=algorithm)
    alone = clone(model).fit(X)
    model.set_callbacks(recorder).fit(X)
    assert same_bits(model, alone)
    assert (recorder.setups, recorder.teardowns) == (1, 1)
    assert sorted(recorder.begun) == sorted(recorder.ended)
    assert recorder.begun.count("fit") == 1
    assert len(recorder.ended) >= 3 + alone.n_iter_


@pytest.mark.parametrize("n", [300, 2500])
def test_mini_batches_report_every_pass_with_an_estimate_of_the_cost(n, capsys):
    """A batch of the second set is a part of it, so that its cost has a deviation of some %."""
    data, recorder = rows(n, 4, seed=41), Recorder()
    model = KMeans(5, random_state=0, algorithm="minibatch", tol=0, verbose=1)
    model.set_callbacks(recorder).fit(data)
    assert recorder.ended.count("iteration") == model.n_iter_ > 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Iter")]
    assert [line.split(",")[0] for line in lines] == [f"Iteration {i}" for i in range(len(lines))]
    assert len(lines) == model.n_iter_
    assert float(lines[-1].split()[-1].rstrip(".")) == pytest.approx(model.inertia_, rel=0.25)


def test_a_callback_can_stop_mini_batches():
    recorder = Recorder(stop_after=2)
    KMeans(5, random_state=0, algorithm="minibatch").set_callbacks(recorder).fit(X)
    assert recorder.ended.count("iteration") == 2


def test_a_callback_can_stop_the_fit():
    recorder = Recorder(stop_after=3)
    model = KMeans(12, random_state=0, tol=0).set_callbacks(recorder).fit(X)
    assert model.n_iter_ == 3
    assert recorder.teardowns == 1
    assert same_bits(model, KMeans(12, random_state=0, tol=0, max_iter=3).fit(X))
    assert np.array_equal(model.labels_, model.predict(X))


def test_callbacks_are_torn_down_after_an_error():
    recorder = Recorder()
    with pytest.raises(ValueError, match="n_samples=2 should be >= n_clusters=5"):
        KMeans(5).set_callbacks(recorder).fit(X[:2])
    assert recorder.setups == recorder.teardowns


def test_the_progress_bar_runs(capsys):
    callback = pytest.importorskip("sklearn.callback", reason="scikit-learn before 1.9 has none")
    KMeans(5, random_state=0).set_callbacks(callback.ProgressBar()).fit(X)
    assert "KMeans" in capsys.readouterr().out


def test_a_fitted_model_keeps_arrays_and_numbers_only():
    """So it can be stored without pickle."""
    model = KMeans(5, random_state=0).fit(X)
    kept = {name: value for name, value in vars(model).items() if name.endswith("_")}
    assert kept.pop("guarantee_") is None
    assert isinstance(kept.pop("guarantee_lost_"), str)
    assert all(isinstance(v, np.ndarray | float | int) for v in kept.values())
    buffer = io.BytesIO()
    np.savez(buffer, **kept)
    assert buffer.tell() > 0
