"""Seeding under a distortion follows the exact law of Algorithm 0: every sequence is enumerated."""

from functools import cache

import numpy as np
import pytest
from api import DISTORTIONS, MIX, DivergenceObjective, HostData, Rows, SeedingProblem, sample_rows
from laws.divergences import table
from sampling import exact
from sampling.chi_square import ALPHA, follows
from scipy import sparse

pytestmark = pytest.mark.slow

POSITIVE = np.array([[0.5, 4], [1, 1], [3, 0.25], [6, 5], [0.5, 0.75], [2, 8]])
ZEROS = np.array([[0.0, 4], [1, 1], [3, 0], [0, 0], [5, 0.5], [3, 0]])
# No two alike: under a symmetric D, two rows of equal weight could leave equal potentials.
WEIGHTS = np.array([1.0, 3, 2, 0, 0.5, 1.5])
SETS = {"positive": POSITIVE, "zeros": ZEROS, "csr": sparse.csr_array(ZEROS.astype(np.float32))}
CASES = [
    *((name, "positive", True) for name in DISTORTIONS),
    *((name, "zeros", False) for name in DISTORTIONS if name != "itakura-saito"),
    ("kl", "csr", True),
]
every_case = pytest.mark.parametrize(("name", "kind", "weighted"), CASES)


def law_of(step, name, X, k, weights):
    """Return the law of sequences, from D of every row to the centre that every row becomes."""
    X = X.toarray() if sparse.issparse(X) else X
    centers = X.copy()
    if name == "kl":
        void = (X == 0).any(axis=1)
        mean = np.average(X, axis=0, weights=weights)
        centers[void] = (1 - MIX) * X[void] + MIX * mean
    D = table(name, X, centers, weights)
    D[D < 1e-14] = 0  # a row is at no distance from itself
    return exact.sequence_law_of(step, D, k, weights)


@cache
def drawn(name, kind, weighted, trials=1):
    return draws(name, SETS[kind], 3, WEIGHTS if weighted else None, trials)


def draws(name, X, k, weights, trials, runs=2500):
    objective = DivergenceObjective(DISTORTIONS[name].run.fitted(X, weights))
    problem = SeedingProblem(
        HostData(Rows.of(X), weights), k, objective.potential, objective.density,
        rng=np.random.default_rng(11),
    )  # fmt: skip
    found = [sample_rows(problem, trials=trials) for _ in range(runs)]
    seeds = objective.distortion.seed(X, found[-1].indices)
    assert np.array_equal(found[-1].centers, seeds)
    return [tuple(seeds.indices.tolist()) for seeds in found]


@every_case
def test_sequences_follow_their_law(name, kind, weighted):
    X, weights = SETS[kind], WEIGHTS if weighted else None
    for trials in (1, 3):
        law = law_of(exact.greedy_step(trials), name, X, 3, weights)
        assert follows(drawn(name, kind, weighted, trials), law) > ALPHA


@every_case
def test_the_law_of_squared_distances_is_rejected(name, kind, weighted):
    euclidean = exact.sequence_law(exact.plain_step, SETS[kind], 3, WEIGHTS if weighted else None)
    assert follows(drawn(name, kind, weighted), euclidean) < ALPHA


@pytest.mark.parametrize("name", ["kl", "itakura-saito"])
def test_the_divergence_is_taken_from_the_row_to_the_centre(name):
    """Bregman divergences are not symmetric: the other way round is another law."""
    D = table(name, POSITIVE, POSITIVE, WEIGHTS)
    swapped = exact.sequence_law_of(exact.plain_step, np.where(D < 1e-14, 0, D).T, 3, WEIGHTS)
    assert follows(drawn(name, "positive", True), swapped) < ALPHA


def test_more_centres_than_distinct_rows():
    """Once every row lies on a centre, rows are drawn by weight alone."""
    X, weights = np.array([[1.0], [1], [2], [2], [9]]), np.array([1.0, 2, 1, 1, 0])
    found = draws("itakura-saito", X, 4, weights, 1)
    law = law_of(exact.plain_step, "itakura-saito", X, 2, weights)
    assert follows([run[:2] for run in found], law) > ALPHA
    later = dict(enumerate(weights / weights.sum()))
    assert follows([row for run in found for row in run[2:]], later) > ALPHA


def test_a_row_of_no_weight_counts_for_nothing():
    """Not even if it is infinitely far from every centre, as the only one with mass somewhere."""
    X = np.array([[1.0, 2, 0], [3, 0, 0], [0, 0, 7], [0.5, 5, 0], [2, 1, 0]])
    weights = np.array([1.0, 2, 0, 0.5, 1.25])
    kept = np.flatnonzero(weights)
    for trials in (1, 3):
        law = law_of(exact.greedy_step(trials), "kl", X[kept], 3, weights[kept])
        law = {tuple(kept[list(run)].tolist()): chance for run, chance in law.items()}
        assert follows(draws("kl", X, 3, weights, trials), law) > ALPHA
