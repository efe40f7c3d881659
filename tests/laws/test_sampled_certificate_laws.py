"""A bound from a sample keeps its confidence, and says what a table of all distances would."""

import numpy as np
import pytest
from laws.certified import blobs, certified, line_optimum
from scipy.sparse import csr_array
from scipy.stats import binom

from kvariates.certificates.sampled_bound import smallest_mean
from kvariates.data.graph import Graph
from kvariates.data.metric_spaces import DistanceMatrix, Vectors


@pytest.mark.parametrize("alpha", [0.3, 0.01])
@pytest.mark.parametrize("size", [1, 10, 200])
def test_the_smallest_mean_is_a_confidence_bound(size, alpha):
    lows = np.array([smallest_mean(seen / size, size, alpha) for seen in range(size + 1)])
    assert lows[0] == 0
    assert (np.diff(lows) > 0).all()
    assert (lows <= np.arange(size + 1) / size).all()
    for mean in np.linspace(0.001, 0.999, 50):
        wrong = binom.pmf(np.arange(size + 1), size, mean)[lows > mean].sum()
        assert wrong <= alpha
    assert smallest_mean(0.5, 10**8, alpha) > 0.499


def path(x):
    """The road along a line."""
    node = np.arange(len(x) - 1)
    half = csr_array((np.diff(x), (node, node + 1)), shape=(len(x), len(x)))
    return Graph.of(csr_array(half + half.T))


@pytest.mark.parametrize(
    ("kind", "weighted"), [("vectors", False), ("vectors", True), ("graph", True)]
)
def test_samples_keep_their_confidence(kind, weighted):
    """False alarms: below 1e-6, for at most one certificate in ten may be wrong."""
    rng = np.random.default_rng(7)
    x, medoids, cost = line_optimum(rng.exponential(size=60), 3)
    weight, times = None, np.ones(60, dtype=int)
    if weighted:  # as weights on the distinct ones of repeated points
        times = rng.integers(1, 6, 60)
        repeated, chosen, cost = line_optimum(np.repeat(x, times), 3)
        x, medoids = np.unique(x), np.searchsorted(np.unique(x), repeated[chosen])
        weight = times.astype(float)
    space = Vectors(x[:, None], "euclidean") if kind == "vectors" else path(x)
    runs = 200
    made = [certified(space, medoids, weight, s, sample=200, confidence=0.9) for s in range(runs)]
    assert made[0].cost == pytest.approx(cost)
    wrong = sum(one.lower_bound > cost * (1 + 1e-9) for one in made)
    # The bound is cut at the solution's cost, which is the optimum here: count those as wrong too.
    wrong += sum(one.gap == 0 for one in made)
    assert wrong <= binom.isf(1e-6, runs, 0.1)
    # 200 draws at 0.9: s KL(z || m) = ln 10. Trying all choices on each sample, which no prices can
    # beat, leaves a median gap of 0.46, 0.40, 0.34 and 0.45 for the four FACTORS here.
    assert np.median([one.gap for one in made]) < 0.47


@pytest.mark.parametrize("weighted", [False, True])
def test_a_sample_of_one_candidate_keeps_its_confidence_closely(weighted):
    """With nothing to choose a sample's bound is its cost: only its confidence keeps it down.

    A certificate is wrong where its bound is above the only cost there is (and was cut there).
    False alarms: below 1e-6.
    """
    rng = np.random.default_rng(0)
    distance = (rng.random((1, 400)) < 0.3) * 1.0 + (rng.random((1, 400)) < 0.1)
    weight = rng.exponential(size=400) if weighted else None
    runs = 300
    made = [
        certified(DistanceMatrix(distance), [0], weight, s, sample=800, confidence=0.8)
        for s in range(runs)
    ]
    assert sum(one.gap == 0 for one in made) <= binom.isf(1e-6, runs, 0.2)
    assert np.median([one.gap for one in made]) < 0.08


def test_a_sample_says_something():
    X, medoids = blobs(4000, 5)
    for space in (Vectors(X, "euclidean"), DistanceMatrix(Vectors(X, "euclidean").matrix().D)):
        made = certified(space, medoids, sample=3000)
        assert made.sample == 3000
        assert made.confidence == 0.99
        assert 0 < made.gap < 0.1


def test_a_sample_of_a_graph_is_that_of_its_distances():
    """The same draws: searches up to the caps see all that a table of distances would."""
    side = 30
    rng = np.random.default_rng(0)
    at = np.arange(side * side).reshape(side, side)
    ends = np.concatenate(
        [
            np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()]),
            np.stack([at[:-1].ravel(), at[1:].ravel()]),
        ],
        axis=1,
    )
    half = csr_array((rng.random(ends.shape[1]) + 0.5, tuple(ends)), shape=(side**2, side**2))
    space = Graph.of(csr_array(half + half.T))
    medoids = at[5::10, 5::10].ravel()
    table = DistanceMatrix(space.distances(np.arange(side**2)))
    for seed in range(3):
        made = certified(space, medoids, None, seed, sample=2000)
        other = certified(table, medoids, None, seed, sample=2000)
        assert made.lower_bound == pytest.approx(other.lower_bound, rel=1e-9)
        assert made.gap < certified(space, medoids).gap + 0.25
    assert certified(space, medoids, None, seed, sample=2000, confidence=0.5).gap < made.gap


def test_a_sample_may_be_tiny():
    X = np.array([[0.0], [0.0], [0.0], [0.0], [1.0], [5.0]])
    for seed in range(20):
        made = certified(Vectors(X, "euclidean"), [0, 5], None, seed, sample=1 + seed % 3)
        assert 0 <= made.lower_bound <= made.cost == 1
