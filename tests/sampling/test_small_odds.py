"""Seeding on small sets against its exact law, every sequence of indices enumerated.

Chi-square at ALPHA = 1e-6 a test (see chi_square.py): with new seeds, a right implementation
would fail this whole file about once in twenty thousand times.
"""

import numpy as np
import pytest
from laws import brute
from sampling import exact
from sampling.chi_square import ALPHA, follows
from sampling.sets import SMALL
from scipy import sparse

from kvariates import KMeans, kmeans_plusplus

RUNS = 2500
TRIALS = [1, None, 4]


def step_of(trials, k):
    if trials is None:
        trials = 2 + int(np.log(k))
    return exact.plain_step if trials == 1 else exact.greedy_step(trials)


def draws(X, k, weights, trials, runs=RUNS, rng=None):
    rng = rng or np.random.default_rng(3)
    found = []
    for _ in range(runs):
        centers, indices = kmeans_plusplus(
            X, k, sample_weight=weights, n_local_trials=trials, random_state=rng
        )
        found.append(tuple(indices.tolist()))
    rows = X[list(found[-1])]
    assert np.array_equal(centers, rows.toarray() if sparse.issparse(X) else rows)
    return found


@pytest.mark.parametrize("trials", TRIALS, ids=["plain", "greedy", "greedy of 4"])
@pytest.mark.parametrize("name", SMALL)
def test_sequences_follow_their_law(name, trials):
    X, k, weights = SMALL[name]
    law = exact.sequence_law(step_of(trials, k), X, k, weights)
    assert follows(draws(X, k, weights, trials), law) > ALPHA


@pytest.mark.parametrize("trials", [1, None], ids=["plain", "greedy"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["three of six", "weighted", "zero rows", "zero weights"])
def test_sparse_and_single_precision_follow_the_same_law(name, dtype, trials):
    X, k, weights = SMALL[name]
    law = exact.sequence_law(step_of(trials, k), X, k, weights)
    for data in (X.astype(dtype), sparse.csr_array(X.astype(dtype))):
        assert follows(draws(data, k, weights, trials, runs=1500), law) > ALPHA


@pytest.mark.parametrize("trials", [1, None], ids=["plain", "greedy"])
def test_consecutive_integer_seeds_are_as_good_as_one_generator(trials):
    """People write random_state=0, 1, 2, ...: those draws must be independent too."""
    X, k, weights = SMALL["three of six"]
    law = exact.sequence_law(step_of(trials, k), X, k, weights)
    found = [
        tuple(kmeans_plusplus(X, k, n_local_trials=trials, random_state=seed)[1].tolist())
        for seed in range(RUNS)
    ]
    assert follows(found, law) > ALPHA


def test_a_random_state_object_moves_on_between_calls():
    X, k, weights = SMALL["three of six"]
    law = exact.sequence_law(exact.plain_step, X, k, weights)
    found = draws(X, k, weights, 1, rng=np.random.RandomState(0))
    assert follows(found, law) > ALPHA
    pairs = list(zip(found[0::2], found[1::2], strict=True))
    firsts = exact.sequence_law(exact.plain_step, X, 1)
    independent = {(a, b): p * q for a, p in firsts.items() for b, q in firsts.items()}
    assert follows([(a[:1], b[:1]) for a, b in pairs], independent) > ALPHA


@pytest.mark.parametrize("trials", [1, None], ids=["plain", "greedy"])
@pytest.mark.parametrize("weights", [None, [1.0, 2, 1, 3, 0.5, 0]], ids=["unweighted", "weighted"])
def test_more_centres_than_distinct_rows(trials, weights):
    """While potential lasts the law is the usual one; after that any row with weight will do."""
    X = np.array([[0.0, 0], [0, 0], [3, 1], [3, 1], [3, 1], [8, 8]])
    k, distinct = 5, 3 if weights is None else 2
    weights = None if weights is None else np.array(weights)
    trial_count = 2 + int(np.log(k)) if trials is None else trials
    step = exact.plain_step if trial_count == 1 else exact.greedy_step(trial_count)
    found = draws(X, k, weights, trials)
    law = exact.sequence_law(step, X, distinct, weights)
    assert follows([run[:distinct] for run in found], law) > ALPHA
    allowed = np.ones(len(X)) if weights is None else weights
    assert (allowed[np.array(found)] > 0).all()


# ---- what KMeans makes of its start: the law of a start, seen through one Lloyd step ----


def one_step(X, weights, metric="euclidean"):
    def outcome(sequence):
        fit = brute.lloyd(X, X[list(sequence)], weights, max_iter=1, metric=metric)
        return tuple(np.round(fit.centers, 6).ravel().tolist())

    return outcome


def starts(X, weights, k, init, runs=2500, **options):
    rng = np.random.default_rng(17)
    found = []
    for _ in range(runs):
        model = KMeans(k, init=init, n_init=1, max_iter=1, random_state=rng, **options)
        centers = model.fit(X, sample_weight=weights).cluster_centers_
        found.append(tuple((np.round(centers, 6) + 0.0).ravel().tolist()))
    return found


_rng = np.random.default_rng(8)
ROWS = np.round(_rng.normal(size=(6, 2)), 3) * [5, 1]
WEIGHTS = np.array([1.0, 5, 2, 0, 3, 0.25])


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
def test_forgy_draws_distinct_rows_by_weight(weights, layout):
    law = exact.sequence_law(exact.forgy_step, ROWS, 3, weights)
    seen = exact.pushed(law, one_step(ROWS, weights))
    assert len(seen) > 20, "too many starts look alike: choose other rows"
    assert follows(starts(layout(ROWS), weights, 3, "random"), seen) > ALPHA


def test_forgy_ignoring_weights_would_be_seen():
    law = exact.sequence_law(exact.forgy_step, ROWS, 3, WEIGHTS)
    law = exact.pushed(law, one_step(ROWS, WEIGHTS))
    rng = np.random.default_rng(0)
    wrong = [one_step(ROWS, WEIGHTS)(rng.permutation(6)[:3]) for _ in range(2500)]
    assert follows(wrong, law) < ALPHA


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["unweighted", "weighted"])
def test_the_estimator_starts_from_greedy_kmeans_plusplus(weights):
    law = exact.sequence_law(exact.greedy_step(3), ROWS, 3, weights)
    seen = exact.pushed(law, one_step(ROWS, weights))
    assert follows(starts(ROWS, weights, 3, "k-means++"), seen) > ALPHA


def test_spherical_starts_follow_the_law_of_the_unit_rows():
    """1 - cos is half the squared distance of unit vectors: the same law on the sphere."""
    unit = brute.unit_rows(ROWS)
    law = exact.sequence_law(exact.greedy_step(2), unit, 2)
    seen = exact.pushed(law, one_step(ROWS, None, "cosine"))
    assert follows(starts(ROWS, None, 2, "k-means++", metric="cosine"), seen) > ALPHA
