"""The encoding of sums: its error, its limits, and exact sums and draws of large integers."""

import math
from fractions import Fraction
from itertools import accumulate

import numpy as np
import pytest
from api import FixedPoint, Rows, bound_exponent, exact_sum, row_at
from hypothesis import given
from hypothesis import strategies as st

exponents = st.lists(st.integers(-900, 1000), min_size=2, max_size=9)
fractions = st.floats(0, 1)


@given(exponents, st.lists(fractions, min_size=9, max_size=9))
def test_a_sum_is_as_exact_as_promised(exponents, shares):
    unit = FixedPoint.agreed(exponents)
    values = [np.array([share * 2.0**e]) for share, e in zip(shares, exponents, strict=False)]
    total = sum(int(unit.encode(value)[0]) for value in values)
    exact = sum(Fraction(value[0]) for value in values)
    assert abs(total * Fraction(2) ** (unit.exponent - 62) - exact) <= Fraction(unit.error)
    assert total <= unit.largest < 2**63
    assert unit.decode(np.array([total]))[0] == unit.decode_total(total)
    assert unit.decode_total(total) == pytest.approx(float(exact), rel=2**-52, abs=unit.error)


@given(exponents)
def test_the_unit_is_the_finest_that_cannot_overflow(exponents):
    unit = FixedPoint.agreed(exponents)
    bounds = sum(Fraction(2) ** e for e in exponents)
    assert Fraction(2) ** (unit.exponent - 1) < bounds <= Fraction(2) ** unit.exponent
    assert Fraction(unit.error) == len(exponents) * Fraction(2) ** (unit.exponent - 63)


def test_the_error_is_attained():
    """Half a unit a party: the formula cannot be smaller."""
    unit = FixedPoint.agreed([3, 3])
    half = 2.0 ** (unit.exponent - 63)
    odd = half * 3  # rounds to two units
    assert 2 * int(unit.encode(np.array([odd]))[0]) * 2 * half - 2 * odd == unit.error


@pytest.mark.parametrize("scale", [1e-120, 1e-3, 1.0, 1e100])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e15])
def test_no_distance_between_rows_and_means_is_above_the_bound(scale, offset):
    rng = np.random.default_rng(2)
    X = (rng.integers(0, 3, size=(60, 5)) + offset) * scale
    X[:, 0] = X[0, 0]
    bound = 2.0 ** bound_exponent(X.min(axis=0), X.max(axis=0))
    centers = [X[rng.integers(60, size=m)].mean(axis=0) for m in range(1, 30)]
    assert Rows.of(X).distances(np.array(centers), squared=True).max() < bound
    assert Rows.of(X).distances(X, squared=True).max() < bound


def test_means_of_constant_columns_are_within_the_bound():
    """A mean of equal numbers may be another number."""
    low = np.array([0.1])
    means = np.array([math.fsum([0.1] * m) / m for m in range(1, 200)])
    assert 0 < ((means - low) ** 2).max() < 2.0 ** bound_exponent(low, low)


def test_squares_that_overflow_are_refused():
    with pytest.raises(ValueError, match="overflow"):
        bound_exponent(np.array([0.0]), np.array([1e160]))


@given(st.lists(st.one_of(st.integers(0, 3), st.integers(0, 2**63 - 1)), min_size=1, max_size=40))
def test_sums_and_draws_of_large_integers_are_exact(masses):
    array = np.array(masses, dtype=np.int64)
    assert exact_sum(array) == sum(masses)
    ends = list(accumulate(masses))
    goals = {g for end in ends for g in (end - 1, end, end + 1, end // 2)} | {0}
    for goal in goals:
        if 0 <= goal < sum(masses):
            assert row_at(array, goal) == next(i for i, end in enumerate(ends) if goal < end)
