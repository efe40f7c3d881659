"""Draws are exact, and the claimed loss bounds the exact laws of small data sets.

Laws are enumerated: rows are -1, 0 or 1, and so are centres, since centres are clipped. The weights
are those of `FlooredPotential`.
"""

import contextlib
import itertools
import math
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from api import (
    Conditional,
    Domain,
    Floored,
    FlooredPotential,
    Rows,
    Share,
    loss,
    noisy_rows,
    resize,
)
from api import noise_source_module as noise_source
from hypothesis import given
from hypothesis import strategies as st
from privacy.method_cases import spread
from scipy import stats

ALPHA = 1e-6
PLACES = np.array([-1.0, 0.0, 1.0])
LINE = Domain.box(np.array([-1.0]), np.array([1.0]))


# --- exact draws -----------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [[3, 0, 5, 1], [0, 7], [1], [0, 0, 0], [100, 27, 128]])
def test_an_index_is_drawn_exactly_in_proportion(weights):
    """Over all bytes, each leads to an index or is rejected; the counts are the weights."""
    total = sum(weights) or len(weights)
    bits = (total - 1).bit_length()

    counts = [0] * len(weights)
    for byte in range(256):
        answers = iter([byte])  # a rejection needs a second one
        only = patch.object(noise_source, "random_bits", lambda _, answers=answers: next(answers))
        with only, contextlib.suppress(StopIteration):
            counts[noise_source.draw(np.array(weights))] += 1
    copies = 2 ** (8 - bits)
    assert counts == [copies * w for w in (weights if any(weights) else [1] * len(weights))]


def test_draws_by_large_weights_have_the_exact_law():
    weights = np.array([2**58, 2**60, 3, 2**59 + 1])
    hits = np.bincount([noise_source.draw(weights) for _ in range(7000)], minlength=4)
    assert hits[2] == 0  # of probability 1e-18
    shown = [0, 1, 3]
    expected = 7000 * np.array([1, 4, 2]) / 7
    assert stats.chisquare(hits[shown], expected).pvalue > ALPHA


@pytest.mark.parametrize("bits", [3, 64])
def test_every_subset_is_equally_likely(bits, monkeypatch):
    """Also with short keys, of which many are equal."""
    words = noise_source.random_words
    monkeypatch.setattr(noise_source, "random_words", lambda n: words(n) >> np.uint64(64 - bits))
    hits = np.zeros(10)
    for _ in range(2000):
        kept = noise_source.subset(5, 3)
        assert sorted(set(kept)) == kept.tolist()
        pattern = sum(1 << i for i in range(5) if i not in kept)
        hits[[3, 5, 6, 9, 10, 12, 17, 18, 20, 24].index(pattern)] += 1
    assert stats.chisquare(hits).pvalue > ALPHA


# --- the loss --------------------------------------------------------------------------------


@given(st.floats(1e-9, 60.0), st.fractions(Fraction(1, 10**9), 1), st.integers(1, 50))
def test_loss_is_rounded_up_and_close(log_ratio, value, k):
    found = loss(log_ratio, [Share(value, k)])
    v = float(value)
    near = k * (log_ratio + math.log(v + (1 - v) * math.exp(-log_ratio)))
    assert found == pytest.approx(near, rel=1e-6, abs=1e-14)
    assert loss(log_ratio, [Share(Fraction(1), k)]) >= Fraction(log_ratio) * k


@given(st.floats(1e-6, 50.0), st.integers(1, 10**7), st.integers(1, 100), st.floats(1e-3, 1.0))
def test_the_whole_budget_is_spent(epsilon, m, k, alpha):
    lattice = LINE.lattice
    made = noisy_rows(lattice, lattice.l1("replace-one"), Floored(alpha).shares(m, k), epsilon)
    assert epsilon * (1 - 1e-12) <= made.epsilon <= epsilon
    assert made.epsilon == loss(made.noise.cost, Floored(alpha).shares(m, k))


def test_the_noise_has_the_documented_scale():
    """b / R at epsilon = 1, alpha = 0.1, to the digits given; and 2k for sigma_2."""
    lattice = LINE.lattice
    diameter = lattice.l1("replace-one")
    for m, k, documented in ((26_733, 3, 0.27), (169_308, 5, 0.24), (10**6, 10, 0.22)):
        made = noisy_rows(lattice, diameter, Floored(0.1).shares(m, k), 1.0)
        assert round(made.scale / (diameter * lattice.step / 2), 2) == documented
        plain = noisy_rows(lattice, diameter, (Share(Fraction(1), k),), 1.0)
        assert plain.scale / (diameter * lattice.step / 2) == pytest.approx(2 * k)


# --- laws, enumerated ------------------------------------------------------------------------


def densities(scale):
    """density[row, centre] of discrete Laplace noise clipped to -1, 0, 1."""
    a = math.exp(-1 / scale)
    mass = (1 - a) / (1 + a)
    out = mass * a ** np.abs(PLACES[:, None] - PLACES)
    out[:, [0, 2]] /= 1 - a  # a geometric series
    return out


def law(rows, k, scale, floor, weight=None):
    """The probability of every sequence of k centres."""
    rows, density = np.asarray(rows, dtype=np.float64), densities(scale)
    around = density[np.searchsorted(PLACES, rows)]
    out = {}
    for centers in itertools.product(range(3), repeat=k):
        potential = FlooredPotential(Rows.of(rows[:, None]), weight, k, LINE, floor)
        odds = 1.0
        for c in centers:
            weights = potential.weights()
            weights = weights if weights.any() else np.ones(len(rows))
            odds *= weights @ around[:, c] / weights.sum()
            potential.add(PLACES[[c], None])
        out[centers] = odds
    assert sum(out.values()) == pytest.approx(1.0)
    return np.array(list(out.values()))


def farthest(first, second):
    return float(np.abs(np.log(first / second)).max())


def replaced(m):
    for common in itertools.combinations_with_replacement(PLACES, m - 1):
        for one, other in itertools.combinations(PLACES, 2):
            yield [*common, one], [*common, other]


@pytest.mark.parametrize("scale", [0.4, 2.0])
@pytest.mark.parametrize("alpha", [0.1, 1.0])
@pytest.mark.parametrize(("m", "k"), [(1, 1), (1, 3), (2, 2), (4, 1), (4, 2), (3, 3)])
def test_no_replaced_row_changes_the_law_more_than_claimed(m, k, alpha, scale):
    method = Floored(alpha)
    most = max(
        farthest(*(law(rows, k, scale, method._floor) for rows in pair)) for pair in replaced(m)
    )
    claimed = loss(2 / scale, method.shares(m, k))
    assert most <= claimed * (1 + 1e-12)
    if k == 1:
        assert most == pytest.approx(claimed)
    elif m > 1:  # the worst cases of the steps exclude each other
        assert most > 0.55 * claimed


def test_one_step_attains_its_bound():
    """All rows at one end and a centre there; one row moves to the other end."""
    m, alpha, scale = 4, 0.1, 0.4
    floor = Floored(alpha)._floor
    first, second = (
        law(rows, 2, scale, floor).reshape(3, 3) for rows in ([-1.0] * m, [-1.0] * (m - 1) + [1.0])
    )
    given_left = (rows[0] / rows[0].sum() for rows in (first, second))
    claimed = loss(2 / scale, [Floored(alpha).shares(m, 2)[1]])
    assert farthest(*given_left) == pytest.approx(claimed, rel=1e-6)


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_one_more_row_is_one_replaced_row_after_resizing(size):
    """Add-remove, given the released number of rows; any rows may be left out."""
    method, k, scale = Floored(0.3), 2, 0.5

    def made(rows):
        every = list(itertools.combinations(range(len(rows)), min(size, len(rows))))
        laws = []
        for kept in every:
            now, weight = resize(np.array(rows)[list(kept), None], size)
            laws.append(law(now[:, 0], k, scale, method._floor, weight))
        return np.mean(laws, axis=0)

    claimed = loss(2 / scale, method.shares(size, k))
    for m in (0, 1, 2, 3):
        for common in itertools.combinations_with_replacement(PLACES, m):
            for one in PLACES:
                assert farthest(made([*common, one]), made([*common])) <= claimed * (1 + 1e-12)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_sigma_2_holds_for_any_two_data_sets(k):
    scale = 0.7
    sets = [rows for m in (1, 2, 3) for rows in itertools.combinations_with_replacement(PLACES, m)]
    laws = [law(rows, k, scale, 0) for rows in [[0.0], *sets]]  # [0.0] for no rows
    most = max(farthest(a, b) for a, b in itertools.combinations(laws, 2))
    claimed = loss(2 / scale, [Share(Fraction(1), k)])
    assert 0.99 * claimed < most <= claimed * (1 + 1e-12)


@pytest.mark.parametrize(("m", "k"), [(4, 1), (4, 2), (5, 2), (6, 3)])
def test_sigma_1_holds_where_its_condition_does(m, k):
    scale, tested = 0.4, 0
    for first, second in replaced(m):
        for rows, other in ((first, second), (first, first[:-1])):
            if math.isfinite(delta := spread(np.array(rows)[:, None], k, 4.0)):
                tested += 1
                shown = farthest(law(rows, k, scale, 0), law(other, k, scale, 0))
                assert shown <= loss(2 / scale, Conditional(delta).shares(k))
    assert tested > 5


@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.integers(1, 3))
def test_some_rows_cost_no_more_than_twice_what_centers_do(seed, k, d):
    """Point 1 of sigma_1's proof."""
    rng = np.random.default_rng(seed)
    rows, centers = rng.normal(size=(9, d)), rng.normal(size=(k, d))
    cost = ((rows[:, None] - centers) ** 2).sum(axis=2).min(axis=1).sum()
    apart = ((rows[:, None] - rows) ** 2).sum(axis=2)
    least = min(apart[:, list(c)].min(axis=1).sum() for c in itertools.combinations(range(9), k))
    assert least <= 2 * cost * (1 + 1e-12)


def test_the_factor_two_is_needed():
    """Half the rows at either end and a centre in the middle."""
    rows = np.repeat([-1.0, 1.0], 20)
    share = Conditional(spread(rows[:, None], 2, 4.0)).shares(2)[1].value
    odds = 4.0 / (len(rows) - 1)  # the domain's squared diameter over the other rows' distances
    assert odds <= float(share / (1 - share)) < 1.1 * odds


def test_the_printed_bound_of_sigma_1_cannot_hold():
    """Theorem 9 of Nock et al. has no f(k): the ratio over rho is unbounded."""
    k, x = 3, 3.0
    first, second = np.array([-1.0, -0.5, -0.6, -1.0]), np.array([-1.0, -0.5, -0.6, 1.0])

    def log_density(rows, b):
        total = 0.0
        for t in range(k):
            weights = np.ones(4) if t == 0 else (rows - x) ** 2
            total += np.logaddexp.reduce(np.log(weights / weights.sum()) - np.abs(rows - x) / b)
        return total

    over = [log_density(second, b) - log_density(first, b) - 2 / b for b in (0.5, 0.1, 0.05, 0.02)]
    assert np.diff(over).min() > 5


def test_without_a_floor_rows_are_drawn_by_squared_distance():
    potential = FlooredPotential(Rows.of(PLACES[:, None]), None, 2, LINE, 0)
    potential.add(np.array([[-5.0]]))  # clipped to -1
    assert (potential.weights() * 4).tolist() == [0, 2**30, 2**32]
