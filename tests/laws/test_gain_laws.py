"""Gains of candidates: exact gains against brute force, and bounds that hold them.

Greedy seeding picks by bounds where they do not overlap, so a bound that is wrong is a wrong pick.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from api import RowCosts, Rows, exponent_of, stay_limit, unscaled
from scipy import sparse


def uniform(rng, n, d):
    return rng.random((n, d))


def cauchy(rng, n, d):
    return rng.standard_cauchy((n, d))


def far_from_origin(rng, n, d):
    return 1e6 + rng.random((n, d))


def far_row(rng, n, d):
    X = rng.random((n, d))
    X[n // 2] = 1e12
    return X


def tiny(rng, n, d):
    return 1e-30 * rng.random((n, d))


def tight_groups(rng, n, d):
    return rng.integers(0, 5, (n, d)) + 1e-7 * rng.random((n, d))


def gains_of(X, d, weight, dtype, is_sparse):
    """Exact gains, bounds, and the row costs, for six candidates after four centres."""
    rng = np.random.default_rng(len(X))
    X = np.ascontiguousarray(X, dtype=dtype)
    rows = Rows.of(sparse.csr_array(X) if is_sparse else X)
    costs = RowCosts(rows, weight)
    centers, tried = rows.take(rng.integers(0, rows.n, 4)), rows.take(rng.integers(0, rows.n, 6))
    costs.lower(centers, 0, None)
    exponent = exponent_of(costs.largest())
    costs.set_exponent(exponent)
    limit = stay_limit(centers, tried)
    exact = [unscaled(gain, exponent) for gain in costs.gains(tried, limit)]
    return costs, tried, limit, np.array(exact)


SETS = [uniform, cauchy, far_from_origin, far_row, tiny, tight_groups]


@pytest.mark.parametrize("make", SETS)
@pytest.mark.parametrize("d", [2, 16, 40, 130])
def test_bounds_hold_the_exact_gains(make, d):
    rng = np.random.default_rng(d)
    n = 1500
    X = make(rng, n, d)
    weights = [None, rng.exponential(size=n), 10.0 ** rng.uniform(-60, 60, n)]
    for dtype in (np.float32, np.float64):
        for weight in weights:
            for is_sparse in (False, True):
                costs, tried, limit, exact = gains_of(X, d, weight, dtype, is_sparse)
                plain = costs.gain_bounds(tried, limit)
                costs.make_filter()
                for bounds in (plain, costs.gain_bounds(tried, None)):
                    assert np.all(bounds[:, 0] <= exact)
                    assert np.all(exact <= bounds[:, 1])


@pytest.mark.parametrize("d", [2, 16, 40])
def test_gains_are_what_candidates_take_off_the_costs(d):
    rng = np.random.default_rng(d)
    n = 1100
    X, weight = rng.random((n, d)), rng.exponential(size=n)
    costs, tried, limit, exact = gains_of(X, d, weight, np.float64, False)
    for candidate, gain, (low, high) in zip(
        tried, exact, costs.gain_bounds(tried, limit), strict=True
    ):
        after = np.minimum(costs.cost, costs.rows.costs(candidate[None], np.zeros(n, np.int32)))
        expected = math.fsum(weight * (costs.cost - after))
        assert gain == pytest.approx(expected, rel=1e-12)
        assert high - low <= 1e-3 * gain + 1e-12  # narrow enough to decide


@pytest.mark.parametrize("d", [2, 16, 40, 130])
@pytest.mark.parametrize("filtered", [False, True])
def test_the_best_candidate_lowers_costs_as_a_full_pass_does(d, filtered):
    rng = np.random.default_rng(d)
    costs, tried, limit, _ = gains_of(rng.random((3000, d)), d, None, np.float32, False)
    if filtered:
        costs.make_filter()
    full = RowCosts(costs.rows, None, costs.cost.copy(), costs.nearest.copy())
    full.set_exponent(exponent_of(full.largest()))
    for best in (3, 0):
        costs.gain_bounds(tried, None if filtered else limit)
        costs.lower_to(tried, best, 4)
        full.lower(tried[[best]], 4, None)
        assert np.array_equal(costs.cost, full.cost)
        assert np.array_equal(costs.nearest, full.nearest)
        assert costs.total() == full.total()
        limit = None  # that of four centres
