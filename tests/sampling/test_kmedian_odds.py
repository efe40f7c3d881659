"""k-median++: the law of whole sequences, against enumeration, in every kind of space.

ALPHA a test: a right sampler with fresh seeds fails one test in a million.
"""

import numpy as np
import pytest
from sampling import chi_square, exact
from sampling.sets import SMALL
from scipy import sparse
from scipy.spatial.distance import cdist

from kvariates import kmedian_plusplus

RUNS = 3000


def step(D, weights, chosen):
    """The first by weight, then by weight times distance."""
    return exact.plain_step(np.sqrt(D), weights, chosen)


def greedy(trials):
    inner = exact.greedy_step(trials)
    return lambda D, weights, chosen: inner(np.sqrt(D), weights, chosen)


def complete_graph(X):
    """Return the graph whose shortest paths are the Euclidean distances: every pair an edge."""
    D = cdist(X, X)
    i, j = np.nonzero(~np.eye(len(X), dtype=bool))
    return sparse.csr_array((D[i, j], (i, j)), shape=D.shape)  # zeros stay stored


SPACES = {
    "vectors": (lambda X: X, "euclidean"),
    "precomputed": (lambda X: cdist(X, X), "precomputed"),
    "callable": (lambda X: X, lambda a, b: float(np.sqrt(((a - b) ** 2).sum()))),
    "graph": (complete_graph, "graph"),
}


def draws(case, space, trials=1, seed=3):
    made, metric = SPACES[space]
    X, rng = made(case.X.astype(float)), np.random.default_rng(seed)
    demand = None if case.weights is None else case.weights.astype(float)
    runs = RUNS if space != "callable" else RUNS // 3
    return [
        tuple(
            int(i)
            for i in kmedian_plusplus(
                X, case.k, metric=metric, demand=demand, n_local_trials=trials, random_state=rng
            )
        )
        for _ in range(runs)
    ]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", ["two of six", "weighted", "duplicates", "zero weights"])
def test_sequences_follow_the_law(name, space):
    case = SMALL[name]
    law = exact.sequence_law(step, case.X, case.k, case.weights)
    assert chi_square.follows(draws(case, space), law) > chi_square.ALPHA


@pytest.mark.parametrize("name", ["three of six", "weighted"])
def test_greedy_sequences_follow_the_law(name):
    case = SMALL[name]
    law = exact.sequence_law(greedy(3), case.X, case.k, case.weights)
    assert chi_square.follows(draws(case, "precomputed", trials=3), law) > chi_square.ALPHA


def test_squared_distances_would_be_noticed():
    case = SMALL["weighted"]
    law = exact.sequence_law(exact.plain_step, case.X, case.k, case.weights)
    assert chi_square.follows(draws(case, "vectors"), law) < chi_square.ALPHA
