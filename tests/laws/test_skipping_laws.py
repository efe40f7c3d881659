"""What seeding leaves out changes no draw: skipped rows, shadows, pending centres."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.cases import DTYPES

from kvariates import _native
from kvariates.data.rows import Rows
from kvariates.seeding.sampler import Dirac, EveryPoint, Recipe, kvariates


def uniform(rng, n, d):
    return rng.random((n, d))


def tight(rng, n, d):
    return rng.random((9, d))[rng.integers(9, size=n)] + 1e-3 * rng.normal(size=(n, d))


def heavy_tail(rng, n, d):
    return rng.standard_cauchy((n, d))


def far_away(rng, n, d):
    return 1e4 + rng.normal(size=(n, d))


def unequal_columns(rng, n, d):
    return rng.normal(size=(n, d)) * 10.0 ** np.linspace(-6, 4, d)


def whole_numbers(rng, n, d):
    return rng.integers(0, 3, size=(n, d)).astype(float)


SETS = [uniform, tight, heavy_tail, far_away, unequal_columns, whole_numbers]


def drawn(X, weight, k, trials, skip, seed=3):
    recipe = Recipe(probe=EveryPoint(skip=skip), density=Dirac())
    return kvariates(Rows.of(X), k, weight, recipe, trials, np.random.default_rng(seed)).indices


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("trials", [1, 2, 5, 9])
@pytest.mark.parametrize(("n", "d"), [(5000, 2), (3000, 5), (2500, 17), (700, 130)])
@pytest.mark.parametrize("make", SETS)
def test_skipping_changes_no_draw(make, n, d, trials, dtype):
    rng = np.random.default_rng(n + d)
    X = np.ascontiguousarray(make(rng, n, d), dtype=dtype)
    weight = rng.exponential(size=n) * (rng.random(n) < 0.9)
    for w in (None, weight):
        assert (drawn(X, w, 40, trials, True) == drawn(X, w, 40, trials, False)).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(-280, 280), st.integers(20, 400), st.integers(5, 40), st.integers(0, 2**32 - 1))
def test_skipping_changes_no_draw_at_any_scale(exponent, n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 2.0**exponent
    assert (drawn(X, None, 20, 4, True, seed) == drawn(X, None, 20, 4, False, seed)).all()


@pytest.mark.parametrize("make", SETS)
def test_every_set_here_casts_a_shadow(make):
    X = make(np.random.default_rng(0), 500, 6)
    assert _native.quantize(Rows.of(X).view, np.ones(500)) is not None


def test_rows_that_are_all_alike_cast_none():
    assert _native.quantize(Rows.of(np.ones((500, 6))).view, np.zeros(500)) is None
