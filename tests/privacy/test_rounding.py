"""Rounding of costs: never below the exact value, and by one float; splits and conversions."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from api import as_written, at_most, down, epsilon_of, rho_for, root_up, split, up
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

epsilons = st.floats(1e-6, 50.0)
rhos = st.floats(1e-9, 50.0)
deltas = st.floats(1e-30, 0.4)
shares = st.lists(st.floats(0.0, 1e3), min_size=1, max_size=12).filter(lambda s: sum(s) > 1e-9)


@given(st.fractions(-(10**30), 10**30, max_denominator=10**40))
def test_up_and_down_enclose_within_one_float(x):
    assert Fraction(down(x)) <= x <= Fraction(up(x))
    assert up(x) <= math.nextafter(down(x), math.inf)


@given(st.fractions(Fraction(1, 10**20), 10**20))
def test_root_up_is_the_smallest_float_above_the_root(x):
    root = root_up(x)
    assert Fraction(root) ** 2 >= x > Fraction(math.nextafter(root, 0)) ** 2


def test_rounding_beyond_the_largest_float():
    assert up(Fraction(10) ** 400) == math.inf
    assert down(-(Fraction(10) ** 400)) == -math.inf


@given(epsilons, shares)
def test_split_never_exceeds_the_total_and_nearly_reaches_it(total, parts):
    pieces = split(total, parts)
    exact = sum(map(Fraction, pieces))
    assert exact <= Fraction(total)
    assert exact >= Fraction(total) * (1 - Fraction(2) ** -52)
    for piece, part in zip(pieces, parts, strict=True):
        assert piece == pytest.approx(total * part / sum(parts), rel=1e-12, abs=total * 1e-14)


def test_split_refuses_bad_shares():
    for parts in ([], [0.0, 0.0], [1.0, -1.0], [math.nan]):
        with pytest.raises(ValueError, match="shares"):
            split(1.0, parts)


def converted(rho, delta):
    """The conversion from its formula, with 80 digits and another search."""
    with localcontext() as context:
        context.prec = 80
        rho, delta = Decimal(rho), Decimal(delta)

        def bound(log_order):
            alpha = 1 + log_order.exp()
            return alpha * rho + (1 - 1 / alpha).ln() - (delta * alpha).ln() / (alpha - 1)

        low, high = Decimal(-25), Decimal(45)
        for _ in range(170):
            third = (high - low) / 3
            if bound(low + third) < bound(high - third):
                high -= third
            else:
                low += third
        return max(bound((low + high) / 2), Decimal(0))


@given(rhos, deltas)
def test_conversion_is_optimal_and_rounded_up(rho, delta):
    exact, ours = converted(rho, delta), epsilon_of(rho, delta)
    assert Decimal(ours) >= exact
    assert ours <= float(exact) * (1 + 1e-15) + 1e-25


@given(rhos, deltas)
def test_conversion_is_between_a_gaussian_and_the_simple_bound(rho, delta):
    """The exact delta of a Gaussian: Balle and Wang 2018; the bound: Bun and Steinke 2016."""
    epsilon, mu = epsilon_of(rho, delta), math.sqrt(2 * rho)
    spent = stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(
        epsilon + stats.norm.logcdf(-mu / 2 - epsilon / mu)
    )
    assert spent <= delta * (1 + 1e-9)
    assert epsilon <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12


def test_conversion_of_known_values_and_edges():
    """The values are those of OpenDP."""
    assert epsilon_of(2.56, 1e-10) == pytest.approx(17.15830871210475, rel=1e-14)
    assert epsilon_of(0.5, 1e-6) == pytest.approx(5.22153444453017, rel=1e-14)
    assert epsilon_of(0.0, 0.0) == 0.0
    assert epsilon_of(1.0, 0.0) == math.inf
    assert epsilon_of(1e-30, 1e-6) == 0.0
    with pytest.raises(ValueError, match="delta"):
        rho_for(1.0, 0.0)


@given(st.floats(1e-3, 50.0), deltas)
def test_rho_for_uses_the_whole_budget_and_never_more(epsilon, delta):
    rho = rho_for(epsilon, delta)
    assert epsilon_of(rho, delta) <= epsilon
    assert epsilon_of(rho * (1 + 1e-9), delta) > epsilon


@given(st.floats(1e-12, 1e6))
def test_a_fit_costs_no_more_than_the_number_as_it_is_written(epsilon):
    assert Fraction(at_most(epsilon)) <= as_written(epsilon)
    assert at_most(epsilon) >= math.nextafter(epsilon, 0)
