"""Sk-means++ is Algorithm 0 on the weighted synopses: also on those of a coreset."""

import numpy as np
import pytest
from sampling.chi_square import ALPHA, follows
from sampling.exact import plain_step, pushed, sequence_law

from kvariates import StreamingKMeans

RUNS = 2000
X = np.array([[0.0, 0], [1, 0], [5, 1], [5, 2], [9, 9], [-3, 4]])
WEIGHT = np.array([1.0, 4, 2, 1, 3, 2])


def seeds_of(model):
    """The seeds of one solution, by their values."""
    return tuple(map(tuple, model.cluster_centers_.tolist()))


def law_of(points, weights):
    rows = [tuple(row) for row in points.tolist()]
    law = sequence_law(plain_step, points, 3, weights)
    return pushed(law, lambda sequence: tuple(rows[i] for i in sequence))


@pytest.mark.slow
def test_seeds_follow_the_law_of_the_weighted_rows():
    draws = []
    for seed in range(RUNS):
        model = StreamingKMeans(3, n_synopses=20, init="d2", max_iter=0, random_state=seed)
        model.partial_fit(X[:2], sample_weight=WEIGHT[:2])
        draws.append(seeds_of(model.partial_fit(X[2:], sample_weight=WEIGHT[2:])))
    assert follows(draws, law_of(X, WEIGHT)) > ALPHA
    assert follows(draws, law_of(X, np.ones(6))) < ALPHA


def test_seeds_follow_the_law_of_the_synopses(monkeypatch):
    """The synopses of one stream; the seeds are drawn from them many times."""
    stream = np.repeat(X, (WEIGHT * 40).astype(int), axis=0)
    stream = stream[np.random.default_rng(0).permutation(len(stream))]
    model = StreamingKMeans(3, n_synopses=12, init="d2", max_iter=0, random_state=0).fit(stream)
    points, weights = model.synopses_, model.synopsis_weights_
    values, of = np.unique(points, axis=0, return_inverse=True)
    law = law_of(values, np.bincount(of.ravel(), weights))
    rng = np.random.default_rng(1)
    monkeypatch.setattr(type(model._state), "solving_rng", lambda _: rng)
    draws = []
    for _ in range(RUNS):
        model._solution = None
        draws.append(seeds_of(model))
    assert follows(draws, law) > ALPHA
