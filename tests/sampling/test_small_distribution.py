"""Seeding on small sets against its exact law: every sequence of indices is enumerated."""

import numpy as np
import pytest
from api import HostData, Rows, SeedingProblem, sample_rows
from laws import brute
from sampling import exact
from sampling.chi_square import ALPHA, follows
from sampling.sets import SMALL
from scipy import sparse

from kvariates import KMeans, kmeans_plusplus

RUNS = 2500
TRIALS = {"plain": 1, "greedy": 3}
every_kind = pytest.mark.parametrize("trials", TRIALS.values(), ids=TRIALS)


def draws(X, k, weights, trials, runs=RUNS):
    problem = SeedingProblem(
        HostData(Rows.of(X), weights), k, rng=np.random.default_rng(3)
    ).canonical()
    return [tuple(sample_rows(problem, trials=trials).indices.tolist()) for _ in range(runs)]


@every_kind
@pytest.mark.parametrize("name", SMALL)
def test_sequences_follow_their_law(name, trials):
    X, k, weights = SMALL[name]
    law = exact.sequence_law(exact.greedy_step(trials), X, k, weights)
    assert follows(draws(X, k, weights, trials), law) > ALPHA


@every_kind
@pytest.mark.parametrize("name", ["three of six", "zero weights", "zero rows"])
def test_sparse_and_single_precision_follow_the_same_law(name, trials):
    X, k, weights = SMALL[name]
    law = exact.sequence_law(exact.greedy_step(trials), X, k, weights)
    for data in (X.astype(np.float64), sparse.csr_array(X.astype(np.float32))):
        assert follows(draws(data, k, weights, trials, runs=1500), law) > ALPHA


def test_the_public_function_with_consecutive_seeds_follows_the_law():
    """People write random_state=0, 1, 2, ...: those draws must be independent too."""
    X, k, weights = SMALL["weighted"]
    found = [
        kmeans_plusplus(X, k, sample_weight=weights, random_state=seed) for seed in range(RUNS)
    ]
    assert all(np.array_equal(centers, X[indices]) for centers, indices in found)
    law = exact.sequence_law(exact.greedy_step(3), X, k, weights)
    assert follows([tuple(indices.tolist()) for _, indices in found], law) > ALPHA


def test_a_random_state_object_moves_on_between_calls():
    X, state = SMALL["three of six"].X, np.random.RandomState(0)
    found = [int(kmeans_plusplus(X, 1, random_state=state)[1][0]) for _ in range(2 * RUNS)]
    pairs = list(zip(found[0::2], found[1::2], strict=True))
    assert follows(pairs, {(a, b): 1 / 36 for a in range(6) for b in range(6)}) > ALPHA


@every_kind
@pytest.mark.parametrize("weights", [None, [1.0, 2, 1, 3, 0.5, 0]], ids=["unweighted", "weighted"])
def test_more_centres_than_distinct_rows(trials, weights):
    """While there is a potential the law is the usual one; then it is that of the weights."""
    X = np.array([[0.0, 0], [0, 0], [3, 1], [3, 1], [3, 1], [8, 8]])
    distinct, by_weight = (3, np.ones(6)) if weights is None else (2, np.array(weights))
    found = draws(X, 5, None if weights is None else by_weight, trials)
    law = exact.sequence_law(exact.greedy_step(trials), X, distinct, weights)
    assert follows([run[:distinct] for run in found], law) > ALPHA
    later = [row for run in found for row in run[distinct:]]
    assert follows(later, dict(enumerate(by_weight / by_weight.sum()))) > ALPHA


# ---- the start of KMeans, seen through one Lloyd step ----


def one_step(X, weights, metric="euclidean"):
    def outcome(sequence):
        fit = brute.lloyd(X, X[list(sequence)], weights, max_iter=1, metric=metric)
        return tuple(np.round(fit.centers, 6).ravel().tolist())

    return outcome


def starts(X, weights, k, init, **options):
    rng = np.random.default_rng(17)
    model = KMeans(k, init=init, n_init=1, max_iter=1, random_state=rng, **options)
    fits = (model.fit(X, sample_weight=weights).cluster_centers_ for _ in range(RUNS))
    return [tuple((np.round(centers, 6) + 0.0).ravel().tolist()) for centers in fits]


ROWS = np.round(np.random.default_rng(8).normal(size=(6, 2)), 3) * [5, 1]
WEIGHTS = np.array([1.0, 5, 2, 0, 3, 0.25])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_forgy_draws_distinct_rows_by_weight(weights):
    law = exact.sequence_law(exact.forgy_step, ROWS, 3, weights)
    seen = exact.pushed(law, one_step(ROWS, weights))
    assert len(seen) > 20, "too many starts look alike: choose other rows"
    assert follows(starts(sparse.csr_array(ROWS), weights, 3, "random"), seen) > ALPHA


@pytest.mark.slow
def test_the_estimator_starts_from_greedy_kmeans_plusplus():
    law = exact.sequence_law(exact.greedy_step(3), ROWS, 3, WEIGHTS)
    seen = exact.pushed(law, one_step(ROWS, WEIGHTS))
    assert follows(starts(ROWS, WEIGHTS, 3, "k-means++"), seen) > ALPHA


def test_spherical_starts_follow_the_law_of_the_unit_rows():
    """1 - cos is half the squared distance of unit vectors: the same law on the sphere."""
    law = exact.sequence_law(exact.greedy_step(2), brute.unit_rows(ROWS), 2)
    seen = exact.pushed(law, one_step(ROWS, None, "cosine"))
    assert follows(starts(ROWS, None, 2, "k-means++", metric="cosine"), seen) > ALPHA
