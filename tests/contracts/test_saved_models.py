"""Every estimator can be saved in a file and read again, and the file runs no code."""

import json
import os
from zipfile import ZipFile

import numpy as np
import pytest
from api import saving_module
from cli.test_fit import run
from sklearn.base import BaseEstimator
from sklearn.linear_model import LinearRegression
from skops import io as skops

import kvariates
from kvariates import KMeans, KMedian, OnlineKMeans, PrivateKMeans, StreamingKMeans
from kvariates.privacy import Budget

RNG = np.random.default_rng(3)
X = RNG.uniform(0.1, 3, size=(200, 3)) + 9 * RNG.integers(0, 3, size=(200, 1))
PRIVATE = {"epsilon": 5.0, "bounds": (-20.0, 40.0)}
FITS = {
    "AntiClustering": lambda made: made(3).fit(X),
    "KMeans": lambda made: made(3).fit(X),
    "KMedian": lambda made: made(3).fit(X),
    "OnlineKMeans": lambda made: made(3).fit(X),
    "PrivateKMeans": lambda made: made(3, **PRIVATE).fit(X),
    "PrivateKMedian": lambda made: made(3, epsilon=5.0).fit(X, demand=np.arange(200)),
    "StreamingKMeans": lambda made: made(3).fit(X),
    "VerticalKMeans": lambda made: made(3).fit([X[:, :1], X[:, 1:]]),
}
MORE = {
    "whitened": lambda: KMeans(3, distortion="mahalanobis").fit(X),
    "divergence": lambda: KMeans(3, distortion="kl").fit(X),
    "cosine": lambda: KMeans(3, metric="cosine", init="d2").fit(X),
    "certified": lambda: KMeans(3, certify=True, size_min=9).fit(X),
    "graph": lambda: KMedian(3, metric="graph", certify=True).fit(RING),
    "distances": lambda: KMedian(2, metric="precomputed").fit(abs(X[:, :1] - X[:, 0])),
    "half-life": lambda: StreamingKMeans(3, half_life=50.0).fit(X),
    "cosine stream": lambda: OnlineKMeans(3, metric="cosine").fit(X),
    "not fitted": lambda: KMeans(3),
}


def ring():
    from scipy.sparse import coo_array

    i = np.arange(20)
    edges = coo_array((np.ones(20), (i, (i + 1) % 20)), shape=(20, 20))
    return (edges + edges.T).tocsr()


RING = ring()


def public_estimators():
    found = (getattr(kvariates, name) for name in kvariates.__all__)
    return {e.__name__ for e in found if isinstance(e, type) and issubclass(e, BaseEstimator)}


def test_every_estimator_is_here():
    assert set(FITS) == public_estimators()


def contents(value):
    """All that a model holds, as plain values."""
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, value.tolist()]
    if isinstance(value, dict):
        return {key: contents(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [contents(one) for one in value]
    if hasattr(value, "tocsr"):
        return contents([value.data, value.indices, value.indptr])
    if hasattr(value, "bit_generator"):
        return contents(value.bit_generator.state)
    if hasattr(value, "__dict__"):
        state = value.__getstate__()
        return [type(value).__qualname__, contents(state)]
    return repr(value)


@pytest.mark.parametrize("name", [*FITS, *MORE])
def test_a_loaded_model_is_the_saved_one(name, tmp_path):
    path = tmp_path / "new" / "model.skops"
    model = MORE[name]() if name in MORE else FITS[name](getattr(kvariates, name))
    model.save(path)
    loaded = type(model).load(path)
    assert contents(loaded) == contents(model)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask()
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    if name not in ("AntiClustering", "VerticalKMeans", "graph", "distances", "not fitted"):
        assert np.array_equal(loaded.predict(X), model.predict(X))


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_streams_go_on(tmp_path):
    for model in (OnlineKMeans(5, random_state=0), StreamingKMeans(5, random_state=0)):
        model.partial_fit(X[:90]).save(tmp_path / "model.skops")
        loaded = type(model).load(tmp_path / "model.skops")
        for part in np.array_split(X[90:], 7):
            model.partial_fit(part)
            loaded.partial_fit(part)
        assert np.array_equal(loaded.cluster_centers_, model.cluster_centers_)


class Nothing:
    def setup(self, estimator, context): ...
    def teardown(self, estimator, context): ...
    def on_fit_task_begin(self, estimator, context): ...
    def on_fit_task_end(self, estimator, context): ...


def test_what_belongs_to_the_process_is_left_out(tmp_path):
    path, budget = tmp_path / "model.skops", Budget(9.0)
    model = PrivateKMeans(3, budget=budget, **PRIVATE).set_callbacks(Nothing()).fit(X)
    model.save(path)
    assert PrivateKMeans.load(path).budget is None
    assert model.budget is budget
    rng = np.random.default_rng(0)
    model = KMeans(3, random_state=rng).set_callbacks(Nothing()).fit(X)
    model.save(path)
    assert KMeans.load(path).random_state is None
    assert model.random_state is rng
    model.fit(X)  # its callbacks are still there


def test_a_private_file_holds_no_row(tmp_path):
    path = tmp_path / "model.skops"
    rows = np.full((200, 3), 7.654321875)
    PrivateKMeans(3, **PRIVATE).fit(rows).save(path)
    parts = ZipFile(path)
    assert all(
        rows[0, :1].tobytes() not in parts.read(name) and b"7.654321875" not in parts.read(name)
        for name in parts.namelist()
    )


def some_rows(X, n_clusters, random_state):
    return X[:n_clusters]


def test_functions_are_not_saved(tmp_path):
    model = KMeans(3, init=some_rows).fit(X)
    with pytest.raises(ValueError, match="some_rows, which cannot be saved"):
        model.save(tmp_path / "model.skops")
    assert not list(tmp_path.iterdir())
    model.set_params(init="d2").save(tmp_path / "model.skops")
    with pytest.raises(ValueError, match="cannot be saved"):
        KMedian(2, metric=lambda a, b: abs(a - b).max()).fit(X).save(tmp_path / "model.skops")


def test_a_failed_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    model = KMeans(3).fit(X)
    model.save(path)
    kept = path.read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        model.save(path)
    assert path.read_bytes() == kept
    assert list(tmp_path.iterdir()) == [path]


def test_other_files_are_refused(tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    model = KMeans(3).fit(X)
    model.save(path)
    for other in (KMedian, OnlineKMeans):
        with pytest.raises(ValueError, match=r"holds a KMeans; load it with KMeans\.load"):
            other.load(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="is damaged, or no saved model"):
        KMeans.load(path)
    with pytest.raises(FileNotFoundError):
        KMeans.load(tmp_path / "none.skops")
    monkeypatch.setattr(saving_module, "FORMAT", saving_module.FORMAT + 1)
    model.save(path)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="in format 4, and this version reads format 3"):
        KMeans.load(path)
    for thing, words in (
        ({"f": os.system}, "is no part of a model of kvariates"),
        (LinearRegression(), "is no model that kvariates saved"),
        (np.arange(3), "is no model that kvariates saved"),
    ):
        skops.dump(thing, path)
        with pytest.raises(ValueError, match=words):
            KMeans.load(path)
    skops.dump(model, path)
    assert np.array_equal(KMeans.load(path).cluster_centers_, model.cluster_centers_)


@pytest.mark.parametrize("gone", ["kvariates.summaries.gone.State", "kvariates.fitting.Gone"])
def test_a_file_with_classes_of_another_version_is_refused(tmp_path, gone):
    path = tmp_path / "model.skops"
    KMeans(3).fit(X).save(path)
    with ZipFile(path) as whole:
        parts = {part: whole.read(part) for part in whole.namelist()}
    schema = json.loads(parts["schema.json"])
    schema["__module__"], _, schema["__class__"] = gone.rpartition(".")
    with ZipFile(path, "w") as archive:
        for part, content in (parts | {"schema.json": json.dumps(schema)}).items():
            archive.writestr(part, content)
    with pytest.raises(ValueError, match=f"holds {gone}, which this version does not have; use"):
        KMeans.load(path)


def test_the_command_and_estimators_read_the_same_files(tmp_path):
    table, out = tmp_path / "a.csv", tmp_path / "out"
    np.savetxt(table, X, delimiter=",", header="a,b,c", comments="")
    assert run("fit", table, "-k", 3, "--seed", 0, "-o", out).exit_code == 0
    loaded = KMeans.load(out / "model.skops")
    assert list(loaded.feature_names_in_) == ["a", "b", "c"]
    loaded.save(tmp_path / "again.skops")
    assert (tmp_path / "again.skops").read_bytes() == (out / "model.skops").read_bytes()
    labels = tmp_path / "labels.csv"
    assert run("predict", tmp_path / "again.skops", table, "-o", labels).exit_code == 0
    found = np.loadtxt(labels, skiprows=1)
    assert np.array_equal(found, loaded.labels_)

    scaled = ("--scale", "standard", "-o", tmp_path / "scaled")
    assert run("fit", table, "-k", 3, *scaled).exit_code == 0
    with pytest.raises(ValueError, match="holds the steps scale, cluster; read it with kvariates"):
        KMeans.load(tmp_path / "scaled" / "model.skops")
