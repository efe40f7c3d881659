"""KMedian without a matrix: exactly k medoids of a sample that respects heavy weights."""

import warnings

import numpy as np
import pytest
from api import MEDOID_SEEDINGS
from api import medoid_search_module as medoid_search

from kvariates import KMedian

SAMPLE = 64


@pytest.fixture(autouse=True)
def _small_sample(monkeypatch):
    """Without a matrix, and with a sample, as if there were too many points for either."""
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", 0)
    monkeypatch.setattr(medoid_search, "SAMPLE", SAMPLE)


def points(n=400, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 2))


@pytest.mark.parametrize("init", [*MEDOID_SEEDINGS, "given"])
@pytest.mark.parametrize("k", [31, 64, 201, 400])
@pytest.mark.parametrize("demand", ["all", "weights", "half", "few"])
def test_there_are_k_medoids(init, k, demand):
    X = points()
    weight = {
        "all": None,
        "weights": np.random.default_rng(1).exponential(size=400) ** 4 + 1e-12,
        "half": (np.arange(400) % 2).astype(float),
        "few": (np.arange(400) < 70).astype(float),  # more than the sample, and fewer than k
    }[demand]
    start = np.random.default_rng(2).permutation(400)[:k] if init == "given" else init
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = KMedian(k, init=start, random_state=0, n_restarts=0).fit(X, demand=weight)
    assert len(np.unique(model.medoid_indices_)) == k
    assert len(np.unique(model.labels_)) == k


@pytest.mark.parametrize("init", ["hst", "k-median++"])
def test_one_heavy_point_does_not_hide_the_others(init):
    """A sample with replacement would hold the heavy point only, and so would the medoids."""
    rng = np.random.default_rng(4)
    centers = np.array([[0.0, 0], [40, 0], [0, 40]])
    X = centers[rng.integers(3, size=500)] + rng.normal(size=(500, 2))
    weight = np.ones(500)
    weight[7] = 1e9
    best = np.linalg.norm(X[:, None] - np.concatenate([X[7:8], centers])[None], axis=2).min(axis=1)
    for seed in range(5):
        model = KMedian(3, init=init, certify=True, random_state=seed).fit(X, demand=weight)
        assert 7 in model.medoid_indices_
        assert model.inertia_ < 1.5 * best.sum()  # `best` has a medoid more
        assert model.certificate_.lower_bound <= model.inertia_


def test_a_certificate_is_for_the_k_that_was_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "kvariates.estimators.kmedian.certify", lambda space, k, *_, **__: asked.append(k)
    )
    KMedian(70, certify=True, random_state=0).fit(points())
    assert asked == [70]
