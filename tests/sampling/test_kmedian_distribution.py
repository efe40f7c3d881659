"""k-median++: the law of whole sequences of draws, against enumeration, in every kind of space.

ALPHA for each test: a correct sampler with fresh seeds fails one test in a million.
"""

import numpy as np
import pytest
from api import CallableMetric, DistanceMatrix, Vectors, kmedian_plusplus
from laws.certified import as_graph
from sampling import chi_square, exact
from sampling.sets import SMALL
from scipy.spatial.distance import cdist

RUNS = 3000


def by_distance(step):
    """A step of k-means++ by distances instead of their squares."""
    return lambda D, weights, chosen: step(np.sqrt(D), weights, chosen)


SPACES = {
    "vectors": lambda X: Vectors(X, "euclidean"),
    "precomputed": lambda X: DistanceMatrix(cdist(X, X)),
    "callable": lambda X: CallableMetric(X, lambda a, b: float(np.sqrt(((a - b) ** 2).sum()))),
    "graph": lambda X: as_graph(cdist(X, X)),
}


def draws(case, kind, trials=1):
    space, rng = SPACES[kind](case.X.astype(float)), np.random.default_rng(3)
    weight = None if case.weights is None else case.weights.astype(float)
    for _ in range(RUNS):
        yield tuple(kmedian_plusplus(space, case.k, weight, trials, rng).tolist())


@pytest.mark.parametrize("kind", SPACES)
@pytest.mark.parametrize("name", ["three of six", "weighted", "duplicates", "zero weights"])
def test_sequences_follow_the_law(name, kind):
    case = SMALL[name]
    law = exact.sequence_law(by_distance(exact.plain_step), case.X, case.k, case.weights)
    assert chi_square.follows(draws(case, kind), law) > chi_square.ALPHA


@pytest.mark.parametrize("name", ["three of six", "weighted"])
def test_greedy_sequences_follow_the_law(name):
    case = SMALL[name]
    law = exact.sequence_law(by_distance(exact.greedy_step(3)), case.X, case.k, case.weights)
    assert chi_square.follows(draws(case, "precomputed", trials=3), law) > chi_square.ALPHA


def test_draws_by_squared_distances_would_be_noticed():
    case = SMALL["weighted"]
    law = exact.sequence_law(exact.plain_step, case.X, case.k, case.weights)
    assert chi_square.follows(draws(case, "vectors"), law) < chi_square.ALPHA


def test_greedy_draws_first_serve_the_heaviest_component():
    """Among candidates in components without a centre, of sizes 2 and 7, the latter always wins."""
    D = np.full((12, 12), np.inf)
    for part in (slice(0, 3), slice(3, 5), slice(5, 12)):
        D[part, part] = 1.0
    np.fill_diagonal(D, 0.0)
    rng = np.random.default_rng(0)
    weight = np.r_[1e9, np.ones(11)]  # the first centre is point 0
    for _ in range(20):
        assert kmedian_plusplus(DistanceMatrix(D), 2, weight, 60, rng)[1] >= 5
