"""`kvariates.dask.KMeans`: the same bits on every cluster, in memory and over local peers."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from api import (
    Partition,
)
from dask import array as da
from dask import dataframe as dd
from dask import delayed
from sklearn.base import clone

import kvariates
from kvariates.dask import DaskTransport, KMeans, StreamingSummary

SIZES = (700, 1, 0, 1299, 1000)  # of the partitions
ENDS = np.cumsum((0, *SIZES))
NAMES = ["a", "b", "c", "d"]
FITTED = ("cluster_centers_", "inertia_", "n_iter_")


def pieces(X):
    return [X[first:last] for first, last in itertools.pairwise(ENDS)]


def array_of(X):
    """Cut by columns as well, which `fit` has to undo."""
    return da.from_array(X, chunks=(SIZES, -1 if X.ndim == 1 else 3)[: X.ndim])


def unknown_chunks(X):
    X = array_of(X)
    return X[(X if X.ndim == 1 else X[:, 0]) > -np.inf]


def frame_of(X):
    if X.ndim == 1:
        parts = [delayed(pd.Series)(part) for part in pieces(X)]
        return dd.from_delayed(parts, meta=pd.Series(dtype=float), verify_meta=False)
    parts = [delayed(pd.DataFrame)(part, columns=NAMES) for part in pieces(X)]
    return dd.from_delayed(parts, meta=pd.DataFrame(X[:0], columns=NAMES), verify_meta=False)


def delayed_of(X):
    return [delayed(part) for part in pieces(X)]


FORMS = (array_of, unknown_chunks, frame_of, delayed_of)


def assert_same(model, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), err_msg=name)


def test_predict_and_transform_are_lazy_and_keep_the_partitions(client, rows):
    fitted = KMeans(3, random_state=0, client=client).fit(array_of(rows))
    plain = kvariates.KMeans(3, init=fitted.cluster_centers_, max_iter=1).fit(rows)
    plain.cluster_centers_ = fitted.cluster_centers_
    labels, distances = plain.predict(rows), plain.transform(rows)
    np.testing.assert_array_equal(fitted.predict(rows), labels)
    found = fitted.predict(array_of(rows))
    assert found.chunks == (SIZES,)
    np.testing.assert_array_equal(found.compute(), labels)
    np.testing.assert_array_equal(fitted.labels_.compute(), labels)
    found = fitted.transform(array_of(rows))
    assert found.chunks == (SIZES, (3,))
    np.testing.assert_array_equal(found.compute(), distances)
    found = fitted.predict(delayed_of(rows))
    np.testing.assert_array_equal(np.concatenate([part.compute() for part in found]), labels)
    assert fitted.score(array_of(rows)) == plain.score(rows) == -fitted.inertia_


def test_frames_keep_their_names_and_index(client, rows):
    frame = frame_of(rows)
    model = KMeans(3, random_state=0, client=client).fit(frame)
    assert model.feature_names_in_.tolist() == NAMES
    labels = model.labels_.compute()
    assert (labels.name, labels.dtype) == ("label", np.int32)
    pd.testing.assert_index_equal(labels.index, frame.compute().index)
    distances = model.transform(frame)
    assert distances.columns.tolist() == model.get_feature_names_out().tolist()
    np.testing.assert_array_equal(distances.compute().to_numpy().argmin(axis=1), labels)
    with pytest.raises(ValueError, match=r"has columns \['d', 'c', 'b', 'a'\], but the model"):
        model.predict(frame[NAMES[::-1]]).compute()


@pytest.mark.parametrize("init", ["d2", "dk-means++"])
def test_the_client_sees_k_rows_and_no_other_value_of_the_data(client, rows, init, monkeypatch):
    seen, send = [], DaskTransport.send

    def spy(self, envelopes):
        replies = send(self, envelopes)
        seen.extend(replies.values())
        return replies

    monkeypatch.setattr(DaskTransport, "send", spy)
    model = KMeans(3, init=init, random_state=0, client=client).fit(array_of(rows))
    assert model.transcript_.points_revealed == 3
    shown = np.concatenate([reply["points"] for reply in seen if "points" in reply])
    assert shown.shape == (3, 4)
    received = np.concatenate([np.ravel(value) for reply in seen for value in floats(reply)])
    values = np.intersect1d(received, rows)
    # Of each partition the client knows the largest and the smallest absolute value, for the units.
    scales = [f(np.abs(part)) for part in pieces(rows) if len(part) for f in (np.min, np.max)]
    assert set(values) <= set(shown.ravel()) | set(scales)


def floats(reply):
    """All that can hold coordinates of rows."""
    kept = [v for v in reply.values() if not isinstance(v, str | bool | int | None)]
    return [v for v in kept if np.asarray(v).dtype.kind == "f"]


def test_workers_forget_the_rows_after_a_fit(client, rows, seconds_until_freed):
    model = KMeans(3, random_state=0, client=client).fit(array_of(rows))
    assert model.n_iter_ > 0
    assert seconds_until_freed(client) < 5


def test_workers_forget_the_rows_of_a_fit_that_failed(client, rows, seconds_until_freed):
    """Though the error, which is kept here, knows the variables of the fit."""
    with pytest.raises(ValueError, match="initial centers") as error:
        KMeans(3, init=np.zeros((2, 4)), client=client).fit(array_of(rows))
    assert seconds_until_freed(client) < 5
    assert error.tb is not None


def test_a_state_does_not_travel_with_its_rows(rows):
    partition = Partition(rows, None, None)
    peer = partition.peer(0)
    assert partition.peer(0) is peer
    copy = pickle.loads(pickle.dumps(partition))
    assert copy.peer(0) is not peer
    np.testing.assert_array_equal(copy.X, rows)
    assert partition.__sizeof__() > rows.nbytes


def test_without_a_client_threads_of_this_process_are_used(rows, capsys):
    model = KMeans(3, random_state=0).fit(array_of(rows))
    assert "no Dask client; using" in capsys.readouterr().err
    np.testing.assert_array_equal(model.labels_.compute(), model.predict(rows))


def test_a_fit_inside_a_task_gives_its_thread_away(threads, rows):
    """The only thread of the only worker reads the partitions and answers the questions."""
    client = threads(1, threads_per_worker=1)

    def inertia():
        return KMeans(3, random_state=0).fit(array_of(rows)).inertia_

    found = client.submit(inertia).result(timeout=60)
    assert found == KMeans(3, random_state=0, client=client).fit(array_of(rows)).inertia_


@pytest.mark.parametrize("make", [KMeans, StreamingSummary])
def test_clone_and_pickle(client, rows, make):
    model = make(n_clusters=3, random_state=0, client=client).fit(array_of(rows))
    cloned, copy = clone(model), pickle.loads(pickle.dumps(model))
    assert cloned.get_params() == model.get_params()
    assert not hasattr(cloned, "n_features_in_")
    assert copy.get_params() == {**model.get_params(), "client": None}
    (name,) = {"cluster_centers_", "synopses_"} & vars(model).keys()
    np.testing.assert_array_equal(getattr(copy, name), getattr(model, name))
    assert vars(copy).keys() == vars(model).keys() - {"labels_"}  # they hold the rows


def test_callbacks_see_the_iterations_and_can_end_them(client, rows):
    class Recorder:
        def __init__(self, most):
            self.names, self.most = [], most

        def setup(self, estimator, context): ...

        def teardown(self, estimator, context): ...

        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            self.names.append(context.task_name)
            return len(self.names) >= self.most

    def fitted(recorder):
        return KMeans(3, random_state=0, client=client).set_callbacks(recorder).fit(array_of(rows))

    every, first = Recorder(99), Recorder(1)
    assert every.names == [*["iteration"] * fitted(every).n_iter_, "fit"]
    assert fitted(first).n_iter_ == 1 < len(every.names) - 1


def test_a_model_is_saved_without_its_rows(client, rows):
    model = KMeans(3, random_state=0, client=client).fit(array_of(rows))
    content = pickle.dumps(model)
    assert len(content) < rows.nbytes // 4
    with pytest.raises(AttributeError, match=r"predict\(X\) computes them"):
        _ = pickle.loads(content).labels_
