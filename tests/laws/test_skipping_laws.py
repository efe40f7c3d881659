"""What seeding skips changes no draw: rows that bounds or the filter rule out."""

import numpy as np
import pytest
from api import EveryPoint, HostData, RowCosts, Rows, SeedingProblem, sample_rows
from hypothesis import given
from hypothesis import strategies as st
from laws.cases import DTYPES

SETS = {
    "uniform": lambda rng, n, d: rng.random((n, d)),
    "tight": lambda rng, n, d: (
        rng.random((9, d))[rng.integers(9, size=n)] + 1e-3 * rng.normal(size=(n, d))
    ),
    "heavy tail": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "far away": lambda rng, n, d: 1e4 + rng.normal(size=(n, d)),
    "unequal columns": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** np.linspace(-6, 4, d),
    "whole numbers": lambda rng, n, d: rng.integers(0, 3, size=(n, d)).astype(float),
}


def drawn(X, weight, k, trials, skip, seed=3):
    probe, rng = EveryPoint(skip=skip), np.random.default_rng(seed)
    potential = lambda data, room: probe.potential(data.rows, data.weight, room)  # noqa: E731
    problem = SeedingProblem(HostData(Rows.of(X), weight), k, potential, rng=rng)
    return sample_rows(problem, trials=trials).indices


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "d"), [(5000, 2), (2500, 17), (700, 130)])
@pytest.mark.parametrize("name", SETS)
def test_skipping_changes_no_draw(name, n, d, dtype):
    rng = np.random.default_rng(n + d)
    X = np.ascontiguousarray(SETS[name](rng, n, d), dtype=dtype)
    weight = rng.exponential(size=n) * (rng.random(n) < 0.9)
    for trials, w in ((1, None), (1, weight), (5, None), (9, weight)):
        assert (drawn(X, w, 40, trials, True) == drawn(X, w, 40, trials, False)).all()


@given(st.integers(-280, 280), st.integers(20, 400), st.integers(5, 40), st.integers(0, 2**32 - 1))
def test_skipping_changes_no_draw_at_any_scale(exponent, n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 2.0**exponent
    assert (drawn(X, None, 20, 4, True, seed) == drawn(X, None, 20, 4, False, seed)).all()


def test_all_sets_have_a_filter_unless_the_rows_are_equal():
    """Otherwise the tests above would not test it."""
    sets = [make(np.random.default_rng(0), 500, 6) for make in SETS.values()]
    for X in (*sets, np.ones((500, 6))):
        costs = RowCosts(Rows.of(X), None)
        costs.lower(X[:1], 0, None)
        costs.make_filter()
        assert costs.has_filter == bool(X.var() > 0)
