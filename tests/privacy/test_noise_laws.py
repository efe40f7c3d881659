"""The noise has the law it is charged for: chi-square against exact laws, wrong scales are caught.

Noise cannot be seeded, so that every run draws afresh: a test with a right sampler fails once in a
million runs (ALPHA). Each has a planted twin whose scale is wrong, which it must catch.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from privacy.exact import ADJACENCIES, DRAWS, p_value
from sampling.chi_square import ALPHA, chi_square, uniform
from scipy import stats

from kvariates.privacy import mechanisms, noise_source
from kvariates.privacy.mechanisms import Lattice, quantize

COMMON = {"label": "x"}


CASES = [
    (adjacency, {kind: cost})
    for adjacency in ADJACENCIES
    for kind, costs in [("epsilon", [0.2, 1.0, 3.0]), ("rho", [0.02, 1.0])]
    for cost in costs
]


def law_and_scale(adjacency, cost):
    """By the book, not by the code."""
    if "epsilon" in cost:
        return "laplace", (1 if adjacency == "add-remove" else 2) / cost["epsilon"]
    return "gaussian", math.sqrt((1 if adjacency == "add-remove" else 2) / (2 * cost["rho"]))


@pytest.mark.parametrize(("adjacency", "cost"), CASES)
def test_counts_have_the_exact_law(adjacency, cost):
    values = np.arange(DRAWS) % 7
    noisy, charge = mechanisms.counts(values, adjacency=adjacency, **cost, **COMMON)
    law, scale = law_and_scale(adjacency, cost)
    assert charge.mechanism == law
    assert charge.scale == pytest.approx(scale, rel=1e-14)
    assert p_value(noisy - values, law, scale) > ALPHA
    for wrong in (scale / 2, scale / 1.4, 1.5 * scale, 2 * scale):
        assert p_value(noisy - values, law, wrong) < ALPHA


def test_the_test_tells_laplace_from_gauss_of_the_same_spread():
    noisy, charge = mechanisms.counts(
        np.zeros(DRAWS, int), epsilon=0.3, adjacency="add-remove", **COMMON
    )
    assert p_value(noisy, "gaussian", charge.scale * math.sqrt(2)) < ALPHA


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_noise_is_independent_from_value_to_value(adjacency, kind):
    noisy, _ = mechanisms.counts(
        np.zeros((DRAWS, 2), int), adjacency=adjacency, **{kind: 0.5}, **COMMON
    )
    signs = (noisy > 0) @ [2, 1]
    chance = (noisy > 0).mean()
    one = np.array([1 - chance, chance])
    assert chi_square(np.bincount(signs, minlength=4), np.outer(one, one).ravel()) > ALPHA
    shared = np.repeat(noisy[:, :1], 2, axis=1)
    planted = np.bincount((shared > 0) @ [2, 1], minlength=4)
    assert chi_square(planted, np.outer(one, one).ravel()) < ALPHA


def test_scalar_moves_by_one_and_by_two_in_a_parallel_group():
    scales = [
        mechanisms.scalar(5, epsilon=1.0, adjacency=a, parallel=p, **COMMON)[1].scale
        for a in ADJACENCIES
        for p in (None, "cells")
    ]
    assert scales == [1.0, 1.0, 1.0, 2.0]
    draws = [
        mechanisms.scalar(5, epsilon=1.0, adjacency="add-remove", **COMMON)[0] for _ in range(1500)
    ]
    assert p_value(np.array(draws) - 5, "laplace", 1.0) > ALPHA


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_sums_have_the_law_of_the_papers_constants(adjacency, norm, kind):
    d, bound, cost = 4, 2.5, 0.7
    grid = Lattice(bound, d, norm)
    rows = quantize(np.random.default_rng(1).normal(0, 1, (100, d)), grid)
    values = np.tile(rows.sum(axis=0), (DRAWS // d, 1))
    noisy, charge = mechanisms.sums(
        values, grid=grid, adjacency=adjacency, **{kind: cost}, **COMMON
    )
    sensitivity = (
        bound
        * {
            "epsilon": {"l1": 1, "l2": math.sqrt(d), "linf": d},
            "rho": {"l1": 1, "l2": 1, "linf": math.sqrt(d)},
        }[kind][norm]
        * (1 if adjacency == "add-remove" else 2)
    )
    assert charge.sensitivity == pytest.approx(sensitivity, rel=1e-5)
    law = stats.laplace if kind == "epsilon" else stats.norm
    scale = sensitivity / cost if kind == "epsilon" else sensitivity / math.sqrt(2 * cost)
    assert charge.scale == pytest.approx(scale, rel=1e-5)
    draws = (noisy - values).ravel()
    assert uniform(law.cdf(draws / scale)) > ALPHA
    assert uniform(law.cdf(draws / (scale / 1.4))) < ALPHA  # as if sqrt(2) were forgotten
    assert np.all(draws == grid.steps(draws) * grid.step)


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_opendp_says_that_no_charge_is_too_low(adjacency):
    """OpenDP's own map at the scale that was used and the sensitivity of these tests."""
    rng = np.random.default_rng(3)
    twice = 1 if adjacency == "add-remove" else 2
    for cost in np.exp(rng.uniform(-8, 3, 25)).tolist():
        _, charge = mechanisms.counts([1], epsilon=cost, adjacency=adjacency, **COMMON)
        assert (
            noise_source.measurement("laplace", charge.scale).map(twice) <= charge.epsilon <= cost
        )
        _, charge = mechanisms.counts([1], rho=cost, adjacency=adjacency, **COMMON)
        far = math.sqrt(twice)
        assert noise_source.measurement("gaussian", charge.scale).map(far) <= charge.rho <= cost
        assert charge.rho > cost * (1 - 1e-14)
        grid = Lattice(float(rng.uniform(0.1, 10)), 5)
        _, charge = mechanisms.sums(
            np.zeros(5), grid=grid, epsilon=cost, adjacency=adjacency, **COMMON
        )
        made = noise_source.measurement("laplace", charge.scale / grid.step)
        assert made.map(grid.l1(adjacency)) <= charge.epsilon <= cost
        _, charge = mechanisms.sums(np.zeros(5), grid=grid, rho=cost, adjacency=adjacency, **COMMON)
        exact = Fraction(grid.l2_squared(adjacency)) * Fraction(grid.step) ** 2
        assert exact / (2 * Fraction(charge.scale) ** 2) <= Fraction(charge.rho) <= Fraction(cost)


# Choosing


def flip_law(scores, scale):
    """Permute-and-flip, by its definition: over all orders."""
    keep = np.exp((np.asarray(scores) - max(scores)) / scale)
    law = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        alive = 1.0
        for i in order:
            law[i] += alive * keep[i] / len(orders)
            alive *= 1 - keep[i]
    return law


SCORES = [0.0, 0.4, 1.1, 0.9]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_choose_has_the_exact_law(adjacency, monotone, kind):
    asked = {"sensitivity": 0.5, "adjacency": adjacency, "monotone": monotone, kind: 0.6}
    picks = [mechanisms.choose(SCORES, **asked, **COMMON) for _ in range(3000)]
    spread = 0.5 * (1 if monotone else 2) * (1 if adjacency == "add-remove" else 2)
    if kind == "epsilon":
        scale, law = spread / 0.6, flip_law
    else:
        scale = spread / math.sqrt(8 * 0.6)

        def law(scores, scale):
            p = np.exp(np.asarray(scores) / scale)
            return p / p.sum()

    assert picks[0][1].scale == pytest.approx(scale, rel=1e-5)
    counts = np.bincount([i for i, _ in picks], minlength=len(SCORES))
    assert chi_square(counts, law(SCORES, scale)) > ALPHA
    assert chi_square(counts, law(SCORES, scale / 2)) < ALPHA


@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_choose_costs_no_more_than_its_charge(monotone, adjacency):
    """The exact law on rounded scores, for changes at the ends of what is allowed."""
    _, charge = mechanisms.choose(
        SCORES, sensitivity=0.5, epsilon=1.0, adjacency=adjacency, monotone=monotone, **COMMON
    )
    low, high = (0.0 if monotone else -0.5), 0.5
    if adjacency == "replace-one":
        low, high = low - high, high - low
    worst = 0.0
    for change in itertools.product([low, high], repeat=len(SCORES)):
        p = flip_law(SCORES, charge.scale)
        q = flip_law(np.add(SCORES, change), charge.scale)
        worst = max(worst, np.abs(np.log(p / q)).max())
    assert 0.8 < worst <= 1.0 + 1e-12


def test_choose_allows_for_the_error_of_scores():
    asked = {"sensitivity": 1.0, "epsilon": 1.0, "adjacency": "add-remove", "monotone": True}
    plain = mechanisms.choose(SCORES, **asked, **COMMON)[1]
    rough = mechanisms.choose(SCORES, error=0.25, **asked, **COMMON)[1]
    assert (plain.scale, rough.scale) == (1.0, 2.0)


def test_choose_takes_scores_of_any_size():
    asked = {"sensitivity": 1.0, "epsilon": 1.0, "adjacency": "add-remove", "monotone": True}
    assert mechanisms.choose([-1e300, 1e300], **asked, **COMMON)[0] == 1
    assert mechanisms.choose([3.0], **asked, **COMMON)[0] == 0
    assert mechanisms._score_steps([-1e-300, 0.0, 1e-300], 2.0**100) == [-1, 0, 0]
