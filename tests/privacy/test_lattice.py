"""Rows on a lattice stay in their ball, their sums are exact, and sensitivities are attained."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from api import Lattice, quantize
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

norms = st.sampled_from(["l1", "l2", "linf"])


@st.composite
def rows_and_lattice(draw):
    d = draw(st.integers(1, 6))
    bound = draw(st.floats(1e-6, 1e6))
    sizes = st.floats(-1e3 * bound, 1e3 * bound) | st.sampled_from([bound, -bound, 1e300, -1e-320])
    rows = draw(arrays.arrays(np.float64, (draw(st.integers(0, 8)), d), elements=sizes))
    if draw(st.booleans()) and len(rows):  # rows on the surface, where rounding matters
        with np.errstate(over="ignore", invalid="ignore"):
            length = np.linalg.norm(rows / np.abs(rows).max(axis=1, keepdims=True), axis=1)
            unit = rows / np.abs(rows).max(axis=1, keepdims=True) / length[:, None]
        rows = np.where(np.isfinite(unit), unit * bound, rows)
    return rows, Lattice(bound, d, draw(norms), draw(st.sampled_from([2**9, 2**31, 2**45])))


def exact_norm(row, norm):
    parts = [abs(Fraction(x)) for x in row.tolist()]
    if norm == "l2":
        return sum(x * x for x in parts)
    return sum(parts) if norm == "l1" else max(parts)


@given(rows_and_lattice())
def test_rows_are_rounded_towards_zero_to_the_lattice_in_its_ball(case):
    rows, lattice = case
    out = quantize(rows, lattice)
    limit = Fraction(lattice.bound) ** (2 if lattice.norm == "l2" else 1)
    for row, put in zip(rows, out, strict=True):
        assert all((Fraction(x) / Fraction(lattice.step)).denominator == 1 for x in put.tolist())
        assert exact_norm(put, lattice.norm) <= limit
        assert np.all(np.abs(put) <= np.abs(row))
        assert np.all((put == 0) | (np.sign(put) == np.sign(row)))
        if exact_norm(row, lattice.norm) <= limit * Fraction(999999, 1000000):
            assert np.all(np.abs(row - put) < lattice.step)
    np.testing.assert_array_equal(quantize(out, lattice), out)


@given(rows_and_lattice())
def test_a_row_outside_keeps_its_direction(case):
    rows, lattice = case
    if lattice.norm == "linf" or lattice.n_max > 2**31:
        return
    for row, put in zip(rows, quantize(rows, lattice), strict=True):
        largest = np.abs(row).max()
        if not lattice.bound < largest < 1e300:
            continue
        unit = row / largest
        length = np.abs(unit).sum() if lattice.norm == "l1" else np.linalg.norm(unit)
        np.testing.assert_allclose(put, unit * lattice.bound / length, atol=2.5 * lattice.step)


@given(rows_and_lattice(), st.randoms(use_true_random=False))
def test_float_sums_are_exact_in_any_order(case, random):
    rows, lattice = case
    out = quantize(np.tile(rows, (50, 1)), lattice)
    order = list(range(len(out)))
    random.shuffle(order)
    exact = [sum((Fraction(x) for x in column), Fraction()) for column in out.T.tolist()]
    assert [Fraction(x) for x in out[order].sum(axis=0).tolist()] == exact
    assert lattice.steps(out.sum(axis=0)).tolist() == [x / Fraction(lattice.step) for x in exact]


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("bound", [1.0, 1.4, 1.7])
def test_sensitivity_is_attained_and_never_exceeded(norm, d, bound, monkeypatch):
    """All neighbours, by brute force, on a lattice with few points."""
    monkeypatch.setattr("kvariates.data.lattice_rows.FEWEST_BITS", 1)
    small = Lattice(bound, d, norm, n_max=2**50)
    steps = range(-small.radius - 1, small.radius + 2)
    points = np.array(list(itertools.product(steps, repeat=d)), dtype=np.float64)
    limit = (Fraction(bound) / Fraction(small.step)) ** (2 if norm == "l2" else 1)
    inside = points[[exact_norm(p, norm) <= limit for p in points]]
    assert np.abs(inside).sum(axis=1).max() == small.l1("add-remove")
    squares = (inside**2).sum(axis=1).max()
    assert small.l2_squared("add-remove") - 2 * small.radius <= squares
    assert squares <= small.l2_squared("add-remove")
    moved = inside[:, None] - inside[None]
    assert np.abs(moved).sum(axis=2).max() == small.l1("replace-one")
    assert (moved**2).sum(axis=2).max() == 4 * squares <= small.l2_squared("replace-one")
    # `quantize` gives points inside.
    rows = np.random.default_rng(0).normal(0, bound, (2000, d))
    allowed = {tuple(p) for p in inside.tolist()}
    assert {tuple(p) for p in (quantize(rows, small) / small.step).tolist()} <= allowed


def test_bad_lattices_raise():
    for bound in (0.0, -1.0, math.inf, math.nan, 1e-250):
        with pytest.raises(ValueError, match="bound"):
            Lattice(bound, 2)
    for other in ({"d": 0}, {"d": 2, "norm": "l3"}, {"d": 2, "n_max": 2**46}, {"d": 1, "n_max": 0}):
        with pytest.raises(ValueError, match=r"d must|norm must|n_max must"):
            Lattice(1.0, **other)
    with pytest.raises(ValueError, match="n_max"):
        quantize(np.zeros((3, 1)), Lattice(1.0, 1, n_max=2))
    for value in (0.3, math.nan, math.inf):
        with pytest.raises(ValueError, match="no sums"):
            Lattice(1.0, 1).steps(np.array([value]))
