"""A fit that fails leaves the model as it was, whatever the estimator and whenever it fails."""

import copy
import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator

import kvariates
from kvariates import KMeans, KMedian

RNG = np.random.default_rng(3)
X = RNG.normal(size=(200, 3)) + 4 * RNG.integers(0, 3, size=(200, 1))
OTHER = 10 * RNG.random((150, 2))
OPTIONS = {"PrivateKMeans": {"epsilon": 5.0, "bounds": (-20.0, 20.0), "missing": "error"}}
ESTIMATORS = {
    name: thing
    for name in kvariates.__all__
    if isinstance(thing := getattr(kvariates, name), type) and issubclass(thing, BaseEstimator)
    # VerticalKMeans takes a list of matrices: test_vertical_contract.py.
    # PrivateKMedian needs a demand: below. AntiClustering: tests/balancing.
    if name not in ("VerticalKMeans", "PrivateKMedian", "AntiClustering")
}


def made(name):
    return ESTIMATORS[name](n_clusters=4, **OPTIONS.get(name, {}))


def state(model):
    """What a fit stored, and what follows from it."""
    stored = {k: copy.deepcopy(v) for k, v in vars(model).items() if k not in model.get_params()}
    return stored | {"predict": model.predict(X), "transform": model.transform(X)}


def assert_unchanged(model, before):
    after = state(model)
    assert set(after) == set(before)
    for name, value in after.items():
        if isinstance(value, np.ndarray):
            assert value.tobytes() == before[name].tobytes(), name
        elif not name.startswith("_"):
            assert str(value) == str(before[name]), name


BAD = {
    "nan": np.where(np.arange(2) == 1, np.nan, OTHER),
    "text": [["a", "b"]] * 150,
    "no columns": np.empty((150, 0)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("why", BAD)
def test_bad_rows(name, why):
    model = made(name).fit(X)
    before = state(model)
    with pytest.raises(ValueError, match=r"."):
        model.fit(BAD[why])
    assert_unchanged(model, before)


# StreamingKMeans stores batch by batch (test_streaming_kmeans.py).
@pytest.mark.parametrize("name", [n for n, kind in ESTIMATORS.items() if hasattr(kind, "_store")])
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ValueError])
def test_an_error_at_the_very_end(name, error, monkeypatch):
    model = made(name).fit(X)
    before, store = state(model), ESTIMATORS[name]._store

    def fails(self, *args):
        store(self, *args)
        raise error

    monkeypatch.setattr(ESTIMATORS[name], "_store", fails)
    with pytest.raises(error):
        model.fit(OTHER)
    assert_unchanged(model, before)


@pytest.mark.parametrize("name", ["KMeans", "KMedian"])
def test_a_warning_that_is_an_error(name):
    model = made(name).fit(X)
    before = state(model)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(Warning, match="distinct clusters"):
            model.fit(np.repeat(OTHER[:2], 20, axis=0))
    assert_unchanged(model, before)


@pytest.mark.parametrize(
    ("model", "other", "words"),
    [
        (KMeans(4, distortion="mahalanobis"), {}, "depend on each other"),
        (KMeans(4, metric="cosine"), {}, "does not match"),
        (KMedian(4), {"metric": lambda a, b: float("nan")}, "metric returned nan"),
    ],
)
def test_what_the_fit_computed_before_it_failed_is_forgotten(model, other, words):
    """The whitening, the unit sphere, and the centres of a search."""
    model.set_params(random_state=0).fit(X)
    before = state(model)
    params = model.get_params()
    centers = {"init": np.ones((4, 5))} if "cosine" in str(model) else {}
    twice = np.concatenate([OTHER, OTHER], axis=1) if "mahalanobis" in str(model) else OTHER
    with pytest.raises(ValueError, match=words):
        model.set_params(**other, **centers).fit(twice)
    model.set_params(**params)
    assert_unchanged(model, before)


def test_private_kmedian_stays_as_it_was(monkeypatch):
    model = kvariates.PrivateKMedian(4, epsilon=5.0, missing="error")
    demand = np.arange(200).repeat(3)
    model.fit(X, demand=demand)
    before, store = state(model), kvariates.PrivateKMedian._store_releases
    for rows, people in ((BAD["nan"], demand), (OTHER, demand), (OTHER, None)):
        with pytest.raises(ValueError, match=r"NaN|no point of X|needs demand"):
            model.fit(rows, demand=people)
        assert_unchanged(model, before)

    def fails(self, *args):
        store(self, *args)
        raise KeyboardInterrupt

    monkeypatch.setattr(kvariates.PrivateKMedian, "_store_releases", fails)
    with pytest.raises(KeyboardInterrupt):
        model.fit(OTHER, demand=demand % 150)
    assert_unchanged(model, before)
