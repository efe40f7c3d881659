"""Released noise has the law it is charged for: chi-square tests against exact laws.

Noise cannot be seeded, so every run draws fresh noise: a test of a correct sampler fails once in a
million runs (ALPHA). Each test also rejects a wrong scale.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from api import (
    Cost,
    Lattice,
    Scores,
    charge_of,
    count_query,
    measurement,
    quantize,
    release,
    score_query,
    sum_query,
)
from api import query_module as query
from privacy.exact_noise import ADJACENCIES, DRAWS, both_adjacencies, p_value
from sampling.chi_square import ALPHA, chi_square, uniform
from scipy import stats


def law_and_scale(adjacency, cost):
    """From the papers, not from the code."""
    cells = 1 if adjacency == "add-remove" else 2
    if cost.pure:
        return "laplace", cells / cost.value
    return "gaussian", math.sqrt(cells / (2 * cost.value))


@both_adjacencies
@pytest.mark.parametrize(
    "cost", [*(Cost(epsilon=e) for e in (0.2, 1.0, 3.0)), *(Cost(rho=r) for r in (0.02, 1.0))]
)
def test_counts_have_the_exact_law(adjacency, cost):
    values = np.arange(DRAWS) % 7
    made = release(count_query(values, adjacency, "x"), cost)
    law, scale = law_and_scale(adjacency, cost)
    assert made.charge.mechanism == law
    assert made.charge.scale == pytest.approx(scale, rel=1e-14)
    assert p_value(made.value - values, law, scale) > ALPHA
    for wrong in (scale / 2, scale / 1.4, 1.5 * scale, 2 * scale):
        assert p_value(made.value - values, law, wrong) < ALPHA


def test_laplace_and_gaussian_noise_of_the_same_variance_are_distinguished():
    made = release(count_query(np.zeros(DRAWS, int), "add-remove", "x"), Cost(epsilon=0.3))
    assert p_value(made.value, "gaussian", made.charge.scale * math.sqrt(2)) < ALPHA


@pytest.mark.parametrize("cost", [Cost(epsilon=0.5), Cost(rho=0.5)])
def test_noise_is_independent_from_value_to_value(cost):
    noisy = release(count_query(np.zeros((DRAWS, 2), int), "add-remove", "x"), cost).value
    chance = (noisy > 0).mean()
    one = np.array([1 - chance, chance])
    independent = np.outer(one, one).ravel()
    signs = np.bincount((noisy > 0) @ [2, 1], minlength=4)
    assert chi_square(signs, independent) > ALPHA
    shared = np.repeat(noisy[:, :1], 2, axis=1)
    assert chi_square(np.bincount((shared > 0) @ [2, 1], minlength=4), independent) < ALPHA


def test_a_total_moves_by_one_and_by_two_in_a_parallel_group():
    cost = Cost(epsilon=1.0)
    queries = [query.total_query(5, a, "x", p) for a in ADJACENCIES for p in (None, "cells")]
    assert [charge_of(one, cost).scale for one in queries] == [1.0, 1.0, 1.0, 2.0]
    draws = [release(queries[0], cost).value for _ in range(1500)]
    assert p_value(np.array(draws) - 5, "laplace", 1.0) > ALPHA


@both_adjacencies
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("cost", [Cost(epsilon=0.7), Cost(rho=0.7)])
def test_sums_have_the_law_of_the_papers_constants(adjacency, norm, cost):
    d, bound = 4, 2.5
    lattice = Lattice(bound, d, norm)
    rows = quantize(np.random.default_rng(1).normal(0, 1, (100, d)), lattice)
    values = np.tile(rows.sum(axis=0), (DRAWS // d, 1))
    made = release(sum_query(values, lattice, adjacency, "x"), cost)
    pure = {"l1": 1, "l2": math.sqrt(d), "linf": d}
    concentrated = {"l1": 1, "l2": 1, "linf": math.sqrt(d)}
    twice = 1 if adjacency == "add-remove" else 2
    sensitivity = bound * (pure if cost.pure else concentrated)[norm] * twice
    law = stats.laplace if cost.pure else stats.norm
    scale = sensitivity / (cost.value if cost.pure else math.sqrt(2 * cost.value))
    assert made.charge.sensitivity == pytest.approx(sensitivity, rel=1e-5)
    assert made.charge.scale == pytest.approx(scale, rel=1e-5)
    draws = (made.value - values).ravel()
    assert uniform(law.cdf(draws / scale)) > ALPHA
    assert uniform(law.cdf(draws / (scale / 1.4))) < ALPHA  # without a factor sqrt(2)
    assert np.all(draws == lattice.steps(draws) * lattice.step)


@both_adjacencies
def test_no_charge_is_below_opendps_privacy_map(adjacency):
    """OpenDP's map at the scale that was used and the sensitivity of these tests."""
    rng = np.random.default_rng(3)
    twice = 1 if adjacency == "add-remove" else 2
    counts = count_query([1], adjacency, "x")
    for cost in np.exp(rng.uniform(-8, 3, 25)).tolist():
        pure, concentrated = Cost(epsilon=cost), Cost(rho=cost)
        charge = charge_of(counts, pure)
        assert measurement("laplace", charge.scale).map(twice) <= charge.epsilon <= cost
        charge = charge_of(counts, concentrated)
        assert measurement("gaussian", charge.scale).map(math.sqrt(twice)) <= charge.rho <= cost
        assert charge.rho > cost * (1 - 1e-14)
        lattice = Lattice(float(rng.uniform(0.1, 10)), 5)
        sums = sum_query(np.zeros(5), lattice, adjacency, "x")
        charge = charge_of(sums, pure)
        made = measurement("laplace", charge.scale / lattice.step)
        assert made.map(lattice.l1(adjacency)) <= charge.epsilon <= cost
        charge = charge_of(sums, concentrated)
        exact = Fraction(lattice.l2_squared(adjacency)) * Fraction(lattice.step) ** 2
        assert exact / (2 * Fraction(charge.scale) ** 2) <= Fraction(charge.rho) <= Fraction(cost)


# --- scores ----------------------------------------------------------------------------------


def flip_law(scores, scale):
    """Permute-and-flip by its definition, over all orders."""
    keep = np.exp((np.asarray(scores) - max(scores)) / scale)
    law = np.zeros(len(scores))
    orders = list(itertools.permutations(range(len(scores))))
    for order in orders:
        left = 1.0
        for i in order:
            law[i] += left * keep[i] / len(orders)
            left *= 1 - keep[i]
    return law


def exponential_law(scores, scale):
    p = np.exp(np.asarray(scores) / scale)
    return p / p.sum()


SCORES = [0.0, 0.4, 1.1, 0.9]
PLAIN = Scores(1.0, monotone=True)


@both_adjacencies
@pytest.mark.parametrize("monotone", [True, False])
@pytest.mark.parametrize("cost", [Cost(epsilon=0.6), Cost(rho=0.6)])
def test_choices_have_the_exact_law(adjacency, monotone, cost):
    choice = score_query(SCORES, Scores(0.5, monotone), adjacency, "x")
    spread = 0.5 * (1 if monotone else 2) * (1 if adjacency == "add-remove" else 2)
    scale = spread / (0.6 if cost.pure else math.sqrt(8 * 0.6))
    law = flip_law if cost.pure else exponential_law
    assert charge_of(choice, cost).scale == pytest.approx(scale, rel=1e-5)
    picks = [release(choice, cost).value for _ in range(3000)]
    counts = np.bincount(picks, minlength=len(SCORES))
    assert chi_square(counts, law(SCORES, scale)) > ALPHA
    assert chi_square(counts, law(SCORES, scale / 2)) < ALPHA


@both_adjacencies
@pytest.mark.parametrize("monotone", [True, False])
def test_a_choice_costs_no_more_than_its_charge(monotone, adjacency):
    """The exact law for score changes at the ends of their range."""
    choice = score_query(SCORES, Scores(0.5, monotone), adjacency, "x")
    scale = charge_of(choice, Cost(epsilon=1.0)).scale
    low, high = (0.0 if monotone else -0.5), 0.5
    if adjacency == "replace-one":
        low, high = low - high, high - low
    worst = 0.0
    for change in itertools.product([low, high], repeat=len(SCORES)):
        p, q = flip_law(SCORES, scale), flip_law(np.add(SCORES, change), scale)
        worst = max(worst, np.abs(np.log(p / q)).max())
    assert 0.8 < worst <= 1.0 + 1e-12


def test_scores_may_have_errors_and_any_size():
    def made(scores, sensitivity=PLAIN):
        return release(score_query(scores, sensitivity, "add-remove", "x"), Cost(epsilon=1.0))

    assert made(SCORES).charge.scale == 1.0
    assert made(SCORES, Scores(1.0, monotone=True, error=0.25)).charge.scale == 2.0
    assert made([-1e300, 1e300]).value == 1
    assert made([3.0]).value == 0
    assert query.score_steps([-1e-300, 0.0, 1e-300], 2.0**100).tolist() == [-1, 0, 0]
