"""Seeding under a distortion follows Algorithm 0's exact law, every sequence enumerated.

Chi-square at ALPHA = 1e-6 a test (see chi_square.py), seeds fixed.
"""

from functools import cache

import numpy as np
import pytest
from laws.divergences import table
from sampling import exact
from sampling.chi_square import ALPHA, follows
from scipy import sparse

from kvariates.data.rows import Rows
from kvariates.objectives.distortion import MIX
from kvariates.objectives.distortions import DISTORTIONS
from kvariates.objectives.divergence_potential import DivergenceDirac, DivergenceProbe
from kvariates.seeding.sampler import Recipe, kvariates

RUNS = 2500
POSITIVE = np.array([[0.5, 4], [1, 1], [3, 0.25], [6, 5], [0.5, 0.75], [2, 8]])
ZEROS = np.array([[0.0, 4], [1, 1], [3, 0], [0, 0], [5, 0.5], [3, 0]])
# No two alike: under a symmetric D, two rows of equal weight could leave equal potentials.
WEIGHTS = np.array([1.0, 3, 2, 0, 0.5, 1.5])

SETS = {"positive": POSITIVE, "zeros": ZEROS, "single": ZEROS.astype(np.float32)}
SETS["csr"] = sparse.csr_array(ZEROS)
WEIGHTED = {"unweighted": None, "weighted": WEIGHTS}

every_case = pytest.mark.parametrize(
    ("name", "kind", "weighting"),
    [
        (name, kind, weighting)
        for name in DISTORTIONS
        for kind in ("positive", "zeros")
        for weighting in WEIGHTED
        if (name, kind) != ("itakura-saito", "zeros")
    ],
)


def to_seeds(name, X, weights):
    """D of every row to the centre that every row would become, by the book."""
    centers = X.copy()
    if name == "kl":
        void = (X == 0).any(axis=1)
        mean = np.average(X, axis=0, weights=weights)
        centers[void] = (1 - MIX) * X[void] + MIX * mean
    D = table(name, X, centers, weights)
    D[D < 1e-14] = 0  # a row is at no distance from itself
    return D


def law_of(D, k, weights, step):
    weights = np.ones(len(D)) if weights is None else weights
    law = {(): 1.0}
    for _ in range(k):
        law = {
            (*chosen, i): chance * p
            for chosen, chance in law.items()
            for i, p in enumerate(step(D, weights, list(chosen)))
            if p > 0
        }
    return law


def draws(name, X, k, weights, trials, runs=RUNS):
    DISTORTIONS[name].check(X)
    distortion = DISTORTIONS[name].fitted(X, weights)
    recipe = Recipe(probe=DivergenceProbe(distortion), density=DivergenceDirac(distortion))
    rng, space = np.random.default_rng(11), Rows.of(X)
    found = []
    for _ in range(runs):
        seeds = kvariates(space, k, weights, recipe, trials, rng)
        found.append(tuple(seeds.indices.tolist()))
    assert np.array_equal(seeds.centers, distortion.seed(X, seeds.indices))
    return found


@cache
def plain_draws(name, kind, weighting):
    return draws(name, SETS[kind], 3, WEIGHTED[weighting], 1)


@every_case
def test_plain_sequences_follow_their_law(name, kind, weighting):
    weights = WEIGHTED[weighting]
    law = law_of(to_seeds(name, SETS[kind], weights), 3, weights, exact.plain_step)
    assert follows(plain_draws(name, kind, weighting), law) > ALPHA


@every_case
def test_greedy_sequences_follow_their_law(name, kind, weighting):
    X, weights = SETS[kind], WEIGHTED[weighting]
    law = law_of(to_seeds(name, X, weights), 3, weights, exact.greedy_step(3))
    assert follows(draws(name, X, 3, weights, 3, runs=1500), law) > ALPHA


@pytest.mark.parametrize("weighting", WEIGHTED)
@pytest.mark.parametrize("kind", ["single", "csr"])
def test_csr_and_single_precision_follow_the_same_law(kind, weighting):
    weights = WEIGHTED[weighting]
    law = law_of(to_seeds("kl", ZEROS, weights), 3, weights, exact.plain_step)
    assert follows(plain_draws("kl", kind, weighting), law) > ALPHA


@every_case
def test_a_wrong_law_is_rejected(name, kind, weighting):
    """Squared Euclidean distances make another law, and so many draws tell."""
    euclidean = law_of(exact.squared(SETS[kind]), 3, WEIGHTED[weighting], exact.plain_step)
    assert follows(plain_draws(name, kind, weighting), euclidean) < ALPHA


@pytest.mark.parametrize("name", ["kl", "itakura-saito"])
def test_the_divergence_is_taken_from_the_row_to_the_centre(name):
    """Bregman divergences are not symmetric: the other way round is another law."""
    swapped = law_of(to_seeds(name, POSITIVE, None).T, 3, None, exact.plain_step)
    assert follows(plain_draws(name, "positive", "unweighted"), swapped) < ALPHA


def test_more_centres_than_distinct_rows():
    """Once every row lies on a centre, any row of positive weight will do."""
    X, weights = np.array([[1.0], [1], [2], [2], [9]]), np.array([1.0, 2, 1, 1, 0])
    found = np.array(draws("itakura-saito", X, 4, weights, 1))
    law = law_of(to_seeds("itakura-saito", X, weights), 2, weights, exact.plain_step)
    assert follows([tuple(run[:2].tolist()) for run in found], law) > ALPHA
    later = {(i,): w / weights.sum() for i, w in enumerate(weights)}
    assert follows([(int(i),) for i in found[:, 2:].ravel()], later) > ALPHA


def test_a_row_of_no_weight_counts_for_nothing():
    """Nor if it is infinitely far from every centre, as the only one with mass somewhere."""
    X = np.array([[1.0, 2, 0], [3, 0, 0], [0, 0, 7], [0.5, 5, 0], [2, 1, 0]])
    weights = np.array([1.0, 2, 0, 0.5, 1.25])
    kept = np.flatnonzero(weights)
    for trials, step in ((1, exact.plain_step), (3, exact.greedy_step(3))):
        law = law_of(to_seeds("kl", X[kept], weights[kept]), 3, weights[kept], step)
        law = {tuple(kept[list(run)].tolist()): chance for run, chance in law.items()}
        assert follows(draws("kl", X, 3, weights, trials), law) > ALPHA


@pytest.mark.parametrize("name", DISTORTIONS)
def test_the_density_is_a_dirac(name):
    """What the guarantee asks: means are the seeds, and nothing is random about them."""
    distortion = DISTORTIONS[name].fitted(POSITIVE, None)
    space, density = Rows.of(POSITIVE), DivergenceDirac(distortion)
    rows = np.array([4, 0])
    sample = density.sample(space, rows, None, np.random.default_rng(0))
    assert np.array_equal(sample, density.mean(space, None)[rows])
    assert not density.trace(space, None).any()
