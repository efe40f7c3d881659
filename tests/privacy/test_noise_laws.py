"""The noise has the law it is charged for: chi-square against exact laws, wrong scales are caught.

Noise cannot be seeded, so that every run draws afresh: a test with a right sampler fails once in a
million runs (ALPHA). Each has a planted twin whose scale is wrong, which it must catch.
"""

import itertools
import math
import random
import threading
from fractions import Fraction

import numpy as np
import pytest
from odds.chi_square import ALPHA, chi_square, uniform
from scipy import stats

from kvariates.privacy import empty, noise, sampling
from kvariates.privacy.noise import Grid, fixed

DRAWS = 6000
ADJACENCIES = ["add-remove", "replace-one"]
COMMON = {"label": "x"}


def weights(law, z, scale):
    z = np.asarray(z, dtype=np.float64)
    return np.exp(-np.abs(z) / scale if law == "laplace" else -((z / scale) ** 2) / 2)


def pmf(law, scale):
    """Values and their probabilities, as far out as matters."""
    far = math.ceil(45 * scale if law == "laplace" else 10 * scale) + 3
    z = np.arange(-far, far + 1)
    p = weights(law, z, scale)
    return z, p / p.sum()


def p_value(draws, law, scale):
    z, p = pmf(law, scale)
    counts = np.bincount(np.clip(draws - z[0], 0, len(z) - 1), minlength=len(z))
    return chi_square(counts, p)


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
    noisy, charge = noise.counts(values, adjacency=adjacency, **cost, **COMMON)
    law, scale = law_and_scale(adjacency, cost)
    assert charge.mechanism == law
    assert charge.scale == pytest.approx(scale, rel=1e-14)
    assert p_value(noisy - values, law, scale) > ALPHA
    for wrong in (scale / 2, scale / 1.4, 1.5 * scale, 2 * scale):
        assert p_value(noisy - values, law, wrong) < ALPHA


def test_the_test_tells_laplace_from_gauss_of_the_same_spread():
    noisy, charge = noise.counts(
        np.zeros(DRAWS, int), epsilon=0.3, adjacency="add-remove", **COMMON
    )
    assert p_value(noisy, "gaussian", charge.scale * math.sqrt(2)) < ALPHA


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_noise_is_independent_from_value_to_value(adjacency, kind):
    noisy, _ = noise.counts(np.zeros((DRAWS, 2), int), adjacency=adjacency, **{kind: 0.5}, **COMMON)
    signs = (noisy > 0) @ [2, 1]
    chance = (noisy > 0).mean()
    one = np.array([1 - chance, chance])
    assert chi_square(np.bincount(signs, minlength=4), np.outer(one, one).ravel()) > ALPHA
    shared = np.repeat(noisy[:, :1], 2, axis=1)
    planted = np.bincount((shared > 0) @ [2, 1], minlength=4)
    assert chi_square(planted, np.outer(one, one).ravel()) < ALPHA


def test_scalar_moves_by_one_and_by_two_in_a_parallel_group():
    scales = [
        noise.scalar(5, epsilon=1.0, adjacency=a, parallel=p, **COMMON)[1].scale
        for a in ADJACENCIES
        for p in (None, "cells")
    ]
    assert scales == [1.0, 1.0, 1.0, 2.0]
    draws = [noise.scalar(5, epsilon=1.0, adjacency="add-remove", **COMMON)[0] for _ in range(1500)]
    assert p_value(np.array(draws) - 5, "laplace", 1.0) > ALPHA


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("kind", ["epsilon", "rho"])
def test_sums_have_the_law_of_the_papers_constants(adjacency, norm, kind):
    d, bound, cost = 4, 2.5, 0.7
    grid = Grid(bound, d, norm)
    rows = fixed(np.random.default_rng(1).normal(0, 1, (100, d)), grid)
    values = np.tile(rows.sum(axis=0), (DRAWS // d, 1))
    noisy, charge = noise.sums(values, grid=grid, adjacency=adjacency, **{kind: cost}, **COMMON)
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
        _, charge = noise.counts([1], epsilon=cost, adjacency=adjacency, **COMMON)
        assert sampling.measurement("laplace", charge.scale).map(twice) <= charge.epsilon <= cost
        _, charge = noise.counts([1], rho=cost, adjacency=adjacency, **COMMON)
        far = math.sqrt(twice)
        assert sampling.measurement("gaussian", charge.scale).map(far) <= charge.rho <= cost
        assert charge.rho > cost * (1 - 1e-14)
        grid = Grid(float(rng.uniform(0.1, 10)), 5)
        _, charge = noise.sums(np.zeros(5), grid=grid, epsilon=cost, adjacency=adjacency, **COMMON)
        made = sampling.measurement("laplace", charge.scale / grid.step)
        assert made.map(grid.l1(adjacency)) <= charge.epsilon <= cost
        _, charge = noise.sums(np.zeros(5), grid=grid, rho=cost, adjacency=adjacency, **COMMON)
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
    picks = [noise.choose(SCORES, **asked, **COMMON) for _ in range(3000)]
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
    _, charge = noise.choose(
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
    plain = noise.choose(SCORES, **asked, **COMMON)[1]
    rough = noise.choose(SCORES, error=0.25, **asked, **COMMON)[1]
    assert (plain.scale, rough.scale) == (1.0, 2.0)


def test_choose_takes_scores_of_any_size():
    asked = {"sensitivity": 1.0, "epsilon": 1.0, "adjacency": "add-remove", "monotone": True}
    assert noise.choose([-1e300, 1e300], **asked, **COMMON)[0] == 1
    assert noise.choose([3.0], **asked, **COMMON)[0] == 0
    assert noise._score_steps([-1e-300, 0.0, 1e-300], 2.0**100) == [-1, 0, 0]


# Empty cells

EMPTY = [
    ("laplace", 5.0, 2.0),
    ("laplace", 0.5, 1.3),
    ("gaussian", 4.2, 2.5),
    ("gaussian", 0.0, 0.8),
]
CELLS, RUNS = 300, 1500


def chance_above(law, t, scale):
    z, p = pmf(law, scale)
    return p[z > t].sum()


def check_empty(runs, law, threshold, scale):
    """The p-values of how many pass, which ones, the first one, and their values."""
    t = math.floor(threshold)
    q = chance_above(law, t, scale)
    many = np.bincount([len(run.cells) for run in runs], minlength=CELLS + 1)
    yield "how many", chi_square(many, stats.binom.pmf(np.arange(CELLS + 1), CELLS, q))
    cells = np.concatenate([run.cells for run in runs])
    yield "which", chi_square(np.bincount(cells, minlength=CELLS), np.full(CELLS, 1 / CELLS))
    first = [run.cells[0] if len(run.cells) else CELLS for run in runs]
    gap = np.append(q * (1 - q) ** np.arange(CELLS), (1 - q) ** CELLS)
    yield "first", chi_square(np.bincount(first, minlength=CELLS + 1), gap)
    values = np.concatenate([run.counts for run in runs])
    z, p = pmf(law, scale)
    z, p = z[z > t], p[z > t] / q
    seen = np.bincount(np.clip(values - z[0], 0, len(z) - 1), minlength=len(z))
    yield "values", chi_square(seen, p) if values.min() > t else 0.0


def one_by_one(law, threshold, scale):
    drawn = np.array(sampling.measurement(law, scale)([0] * CELLS))
    which = np.flatnonzero(drawn > threshold)
    return empty.Passing(which, drawn[which])


@pytest.mark.parametrize(("law", "threshold", "scale"), EMPTY)
def test_empty_cells_have_the_law_of_noising_every_cell(law, threshold, scale):
    runs = [noise.empty_cells(CELLS, threshold, scale, law=law) for _ in range(RUNS)]
    for name, p in check_empty(runs, law, threshold, scale):
        assert p > ALPHA, name
    wrong = dict(check_empty(runs, law, threshold, 1.3 * scale))
    assert wrong["how many"] < ALPHA
    assert all(np.all(np.diff(run.cells) > 0) for run in runs)


def test_noising_every_cell_has_that_law_too():
    law, threshold, scale = EMPTY[0]
    runs = [one_by_one(law, threshold, scale) for _ in range(RUNS)]
    for name, p in check_empty(runs, law, threshold, scale):
        assert p > ALPHA, name


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_few_cells_and_low_thresholds_are_noised_one_by_one(law):
    many = noise.empty_cells(20_000, -1.5, 2.0, law=law)
    z, p = pmf(law, 2.0)
    z, p = z[z > -2], p[z > -2]
    seen = np.bincount(np.clip(many.counts - z[0], 0, len(z) - 1), minlength=len(z))
    assert chi_square(seen, p / p.sum()) > ALPHA
    assert len(noise.empty_cells(0, 3.0, 1.0).cells) == 0
    few = [len(noise.empty_cells(3, 0, 1.0, law=law).cells) for _ in range(2000)]
    q = chance_above(law, 0, 1.0)
    assert chi_square(np.bincount(few, minlength=4), stats.binom.pmf(range(4), 3, q)) > ALPHA


@pytest.mark.parametrize(("law", "threshold", "scale"), EMPTY)
def test_floats_settle_nothing_differently(law, threshold, scale, monkeypatch):
    """The same bits, read in floats first and read exactly only."""

    def run():
        with noise._REPEATABLE_NOISE_FOR_TESTS_ONLY(7, i_know_that_this_protects_nobody=True):
            gaps = empty._gaps(200, 10**6, law, math.floor(threshold), scale)
            bits = [empty._accepted(Fraction(i, 50)) for i in range(150)]
            return gaps, bits

    fast = run()
    monkeypatch.setattr(empty, "SLACK", 0.999)
    asked = []
    settle = empty._settled
    monkeypatch.setattr(empty, "_settled", lambda *a: asked.append(1) or settle(*a))
    assert run() == fast
    assert len(asked) > 200


def test_the_uniform_number_is_read_as_far_as_it_takes():
    """A number on the very edge of a gap: 53 bits do not tell, more do."""
    rate = empty._rate("laplace", 3, 2.0, 80)
    edge = math.floor((1 - chance_above("laplace", 3, 2.0)) ** 5 * 2**53)
    gaps = set()
    for word in range(edge - 40, edge + 40):
        low, high = Fraction(word, 2**53), Fraction(word + 1, 2**53)
        ends = empty._gap_bounds((low, high), 10**6, rate, 80)
        gap = empty._settled(word, lambda u, p: empty._gap_bounds(u, 10**6, rate, p))
        assert ends[0] <= gap <= ends[1]
        gaps.add(gap)
    assert gaps == {4, 5}


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize(("t", "scale"), [(0, 0.4), (3, 2.0), (40, 3.0), (500, 100.0)])
def test_the_chance_to_pass_is_enclosed(law, t, scale):
    widths = []
    for digits in (40, 80, 160):
        low, high = empty._rate(law, t, scale, digits)
        assert 0 < low < high
        widths.append((high - low) / high)
        assert widths[-1] < Fraction(1, 10 ** (digits - 5))
        q = chance_above(law, t, scale)
        assert float(low) == pytest.approx(-math.log1p(-q), rel=1e-9)
    assert widths[0] > widths[1] > widths[2]


def test_more_cells_than_integers_have_bits():
    for law in ("laplace", "gaussian"):
        run = noise.empty_cells(2**2000, 1e4, 4.0, law=law)
        assert len(run.cells) == 0
    run = noise.empty_cells(2**70, 46 * 2.0, 2.0)  # 2^70 e^-46.5 / 1.6: about 5 pass
    assert run.cells.dtype == object
    assert all(0 <= cell < 2**70 for cell in run.cells)
    assert len(run.cells) < 60


def test_cells_above_is_a_histogram_cut_at_a_threshold():
    asked = {"adjacency": "replace-one", "label": "leaves", "epsilon": 1.0}
    runs = [noise.cells_above([50, 0, 4], CELLS, 6.0, **asked) for _ in range(RUNS)]
    charge = runs[0][1]
    assert charge == noise.counts([1], **asked)[1]
    seen = np.bincount(np.concatenate([run.occupied for run, _ in runs]), minlength=3)
    for i, value in enumerate([50, 0, 4]):
        q = chance_above("laplace", 6 - value, 2.0)
        assert stats.binomtest(int(seen[i]), RUNS, min(q, 1.0)).pvalue > ALPHA
    assert all(np.all(run.occupied_counts > 6) for run, _ in runs)
    for name, p in check_empty([run.empty for run, _ in runs], "laplace", 6.0, 2.0):
        assert p > ALPHA, name
    _, concentrated = noise.cells_above([], 10, 6.0, rho=0.5, adjacency="add-remove", label="x")
    assert (concentrated.mechanism, concentrated.scale) == ("gaussian", 1.0)


# Not seedable, and the door for tests


def draw():
    return noise.counts(np.zeros(64, int), epsilon=0.01, adjacency="add-remove", **COMMON)[
        0
    ].tolist()


def test_noise_cannot_be_seeded():
    runs = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        runs.append((draw(), noise.empty_cells(10**6, 20.0, 3.0).cells.tolist()))
    assert runs[0][0] != runs[1][0]
    assert runs[0][1] != runs[1][1]


def test_repeatable_noise_is_for_tests_only(monkeypatch):
    door = noise._REPEATABLE_NOISE_FOR_TESTS_ONLY

    def everything():
        with door(3, i_know_that_this_protects_nobody=True):
            picks = [
                noise.choose(
                    SCORES,
                    sensitivity=1.0,
                    adjacency="add-remove",
                    monotone=True,
                    label="x",
                    **cost,
                )[0]
                for cost in ({"epsilon": 1.0}, {"rho": 1.0})
                for _ in range(20)
            ]
            passing = noise.empty_cells(10**5, 9.0, 3.0, law="gaussian")
            gauss = noise.counts([0] * 9, rho=1e-4, adjacency="add-remove", label="x")[0].tolist()
            return draw(), picks, passing.cells.tolist(), passing.counts.tolist(), gauss

    assert everything() == everything()
    assert draw() != draw()
    with pytest.raises(TypeError):
        door(3)
    with pytest.raises(RuntimeError, match="protects nobody"):
        door(3, i_know_that_this_protects_nobody=1).__enter__()
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    with pytest.raises(RuntimeError, match="protects nobody"):
        door(3, i_know_that_this_protects_nobody=True).__enter__()


def test_repeatable_noise_stays_in_its_thread():
    found = []
    with noise._REPEATABLE_NOISE_FOR_TESTS_ONLY(3, i_know_that_this_protects_nobody=True):
        for _ in range(2):
            thread = threading.Thread(target=lambda: found.append(draw()))
            thread.start()
            thread.join()
    assert found[0] != found[1]


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_repeatable_noise_has_about_the_right_law(law):
    cost = {"epsilon": 0.1} if law == "laplace" else {"rho": 0.005}
    with noise._REPEATABLE_NOISE_FOR_TESTS_ONLY(0, i_know_that_this_protects_nobody=True):
        noisy, _ = noise.counts(np.zeros(DRAWS, int), adjacency="add-remove", **cost, **COMMON)
    assert p_value(noisy, law, 10.0) > ALPHA


# At the door


@pytest.mark.parametrize(
    "cost",
    [
        {},
        {"epsilon": 1.0, "rho": 1.0},
        {"epsilon": 0.0},
        {"rho": -1.0},
        {"epsilon": math.nan},
        {"rho": math.inf},
    ],
)
def test_costs_that_are_none(cost):
    calls = [
        lambda c: noise.counts([1], **c),
        lambda c: noise.scalar(1, **c),
        lambda c: noise.cells_above([1], 3, 1.0, **c),
        lambda c: noise.sums([0.0], grid=Grid(1.0, 1), **c),
        lambda c: noise.choose([1.0], sensitivity=1.0, monotone=True, **c),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"either|must be"):
            call({"adjacency": "add-remove", "label": "x", **cost})


def test_values_that_are_none():
    ok = {"epsilon": 1.0, "adjacency": "add-remove", "label": "x"}
    with pytest.raises(TypeError, match="integers"):
        noise.counts([1.5], **ok)
    with pytest.raises(ValueError, match="columns"):
        noise.sums([0.0], grid=Grid(1.0, 2), **ok)
    with pytest.raises(ValueError, match="no sums"):
        noise.sums([0.1], grid=Grid(1.0, 1), **ok)
    with pytest.raises(ValueError, match="laplace"):
        noise.counts([1], **{**ok, "epsilon": 1e-320})
    for scores in ([], [math.nan], [[1.0]]):
        with pytest.raises(ValueError, match="scores"):
            noise.choose(scores, sensitivity=1.0, monotone=True, **ok)
    for other in ({"sensitivity": 0.0}, {"sensitivity": 1.0, "error": -1.0}):
        with pytest.raises(ValueError, match="sensitivity"):
            noise.choose([1.0], monotone=True, **other, **ok)
    for bad in ((-1, 1.0, 1.0), (1, math.inf, 1.0), (1, 1.0, 0.0), (1, 1.0, math.inf)):
        with pytest.raises(ValueError, match="how_many"):
            noise.empty_cells(*bad)
    assert noise.counts([], **ok)[0].tolist() == []
    assert noise.counts(np.zeros((2, 3), int), **ok)[0].shape == (2, 3)
