"""Quantized rows and their sums have the same bits as a NumPy reference, on any threads."""

import itertools
import os
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
from api import NORMS, Balls, Domain, Lattice, lattice_sums, outside_radius, quantize
from hypothesis import given
from hypothesis import strategies as st
from laws.threads import on_threads
from privacy.private_models import seen

from kvariates import _native

# --- the reference ---------------------------------------------------------------------------


def row_sums(terms):
    """Sums of rows in the native order: eight lanes, folded by halves."""
    n, d = terms.shape
    lanes = np.zeros((n, 8))
    for j in range(d):
        lanes[:, j % 8] += terms[:, j]
    for half in (4, 2, 1):
        lanes[:, :half] += lanes[:, half : 2 * half]
    return lanes[:, 0]


def measured(x, lattice):
    """Rows over their largest coordinate (at least the bound), their norms, which are outside."""
    largest = np.maximum(np.abs(x).max(axis=1, keepdims=True), lattice.bound)
    y = x / largest
    norm = row_sums(np.abs(y)) if lattice.norm == "l1" else np.sqrt(row_sums(y * y))
    return y, norm, norm * largest[:, 0] > lattice.bound


def outside(steps, lattice):
    """Which rows are outside the ball, in Python's integers."""
    norms = {"l1": lambda r: sum(map(abs, r)), "l2": lambda r: sum(s * s for s in r)}
    limit = lattice.square if lattice.norm == "l2" else lattice.radius
    size = norms.get(lattice.norm, lambda r: max(map(abs, r)))
    return np.array([size([int(s) for s in row]) > limit for row in steps], dtype=bool)


def reference(rows, lattice, center=0.0, half=np.inf):
    x = np.clip(np.asarray(rows, dtype=np.float64) - center, -half, half)
    if lattice.norm == "linf":
        x = np.clip(x, -lattice.bound, lattice.bound)
    elif len(x):
        y, norm, far = measured(x, lattice)
        x[far] = y[far] * (lattice.bound / norm[far])[:, None]
    steps = np.trunc(x / lattice.step)
    while (out := outside(steps, lattice)).any():
        steps[out] -= np.sign(steps[out])
    return steps * lattice.step + 0.0


def local(rows, labels, balls):
    with np.errstate(over="ignore"):
        z = (rows - balls.centers[labels]) / balls.radii[labels][:, None]
    return np.clip(z, -1e300, 1e300)


def same(a, b):
    assert a.shape == b.shape
    assert a.tobytes() == b.tobytes()


# --- rows --------------------------------------------------------------------------------------


def awkward(rng, n, d, bound):
    """Rows inside, far outside, on the border and very near it, at zero, with tiny parts."""
    x = rng.normal(size=(n, d)) * bound / np.sqrt(d)
    size = np.linalg.norm(x, axis=1, keepdims=True)
    kind = rng.integers(0, 7, (n, 1))
    on = x / size * bound
    x = np.where(kind == 1, on, x)
    x = np.where(kind == 2, on * (1 + rng.integers(-4, 5, (n, 1)) * 2.0**-52), x)
    x = np.where(kind == 3, x * 10.0 ** rng.uniform(0, 90, (n, 1)), x)
    x = np.where(kind == 4, 0.0, x)
    x = np.where((kind == 5) & (rng.random((n, d)) < 0.5), -5e-324, x)
    axis = bound * np.eye(d)[rng.integers(0, d, n)] * rng.choice([-1, 1], (n, 1))
    return np.where(kind == 6, axis, x)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("d", [1, 2, 3, 8, 11, 40])
def test_quantize_has_the_bits_of_the_reference(norm, d):
    rng = np.random.default_rng([d, NORMS[norm]])
    for bits, bound in itertools.product((8, 22, 43), (1.0, 0.7, 1e-150, 3e150)):
        lattice = Lattice(bound, d, norm, 2 ** (53 - bits))
        rows = awkward(rng, 300, d, bound)
        same(quantize(rows, lattice), reference(rows, lattice))
        center, half = rng.normal(size=d) * bound / 9, np.abs(rng.normal(size=d)) * bound
        same(quantize(rows, lattice, center, half), reference(rows, lattice, center, half))


@pytest.mark.parametrize("ball", [True, False])
def test_dtype_and_layout_of_rows_do_not_matter(ball):
    rng = np.random.default_rng(0)
    low, high = np.array([-1.0, 0.0, 3.0]), np.array([1.0, 0.5, 9.0])
    domain = Domain.around(low, 0.9) if ball else Domain.box(low, high)
    single = (rng.normal(size=(500, 3)) * 4).astype(np.float32)
    double = single.astype(np.float64)
    want = reference(double, domain.lattice, domain.center, np.inf if ball else domain.half)
    layouts = (single, double, np.asfortranarray(single), np.repeat(double, 2, 0)[::2], double[:0])
    for rows in layouts:
        same(seen(domain.rows(rows)), want[: len(rows)])


# --- sums --------------------------------------------------------------------------------------


def case(rng, n, d, k):
    """Rows around centres with very different radii; some have no label."""
    balls = Balls(rng.normal(size=(k, d)), 10.0 ** rng.uniform(-12, 2, k))
    labels = rng.integers(-1, k, n).astype(np.int32)
    rows = np.ascontiguousarray(
        balls.centers[labels] + awkward(rng, n, d, 1.0) * balls.radii[labels][:, None]
    )
    return np.clip(rows, -1e200, 1e200), labels, balls


def by_label(values, labels, k):
    out = np.zeros((k, values.shape[1]))
    np.add.at(out, labels[labels >= 0], values[labels >= 0])  # exact, as all are on a lattice
    return out


@pytest.mark.parametrize(("n", "d", "k"), [(3000, 2, 8), (500, 1, 700), (900, 21, 5), (0, 3, 4)])
def test_sums_have_the_bits_of_the_reference(n, d, k):
    rows, labels, balls = case(np.random.default_rng([n, d, k]), n, d, k)
    lattice = Lattice(1.0, d, "l2")
    got = lattice_sums(rows, labels, k, lattice, balls, squares=True)
    z = reference(local(rows, labels, balls), lattice)
    same(got.totals, by_label(z, labels, k))
    same(got.counts, np.bincount(labels[labels >= 0], minlength=k).astype(np.int64))
    same(got.squares, by_label(np.floor(z * z / lattice.step) * lattice.step, labels, k))
    same(lattice_sums(rows, labels, k, lattice, balls).totals, got.totals)
    for norm in NORMS:
        wide = Lattice(3.0, d, norm)
        same(lattice_sums(rows, labels, k, wide).totals, by_label(reference(rows, wide), labels, k))


def test_rows_outside_are_those_that_quantize_clips():
    rows, labels, balls = case(np.random.default_rng(3), 4000, 3, 9)
    *_, far = measured(local(rows, labels, balls), Lattice(1.0, 3))
    assert 0.1 < far.mean() < 0.9
    same(outside_radius(rows, labels, balls), far & (labels >= 0))
    assert outside_radius(rows[:0], labels[:0], balls).shape == (0,)


def test_rows_are_clipped_when_their_local_coordinates_overflow():
    balls = Balls(np.zeros((1, 2)), np.array([1e-300]))
    rows, label = np.array([[1e10, -3e-9], [0.0, 1e300]]), np.zeros(1, dtype=np.int32)
    for row, want in zip(rows, ([1.0, 0.0], [0.0, 1.0]), strict=True):
        got = lattice_sums(row[None], label, 1, Lattice(1.0, 2), balls).totals[0]
        np.testing.assert_allclose(got, want, atol=4 * Lattice(1.0, 2).step)
        assert outside_radius(row[None], label, balls).all()


@given(st.integers(1, 9), st.integers(0, 2**32 - 1))
def test_the_squares_of_a_row_are_in_the_l1_unit_ball(d, seed):
    rows, labels, balls = case(np.random.default_rng(seed), 1, d, 1)
    lattice = Lattice(1.0, d, "l1")
    squares = lattice_sums(rows, labels, 1, Lattice(1.0, d, "l2"), balls, squares=True).squares
    steps = lattice.steps(squares)
    assert steps.min() >= 0
    assert sum(steps[0].tolist()) <= lattice.radius


def test_bad_labels_and_radii_raise():
    rows, balls = np.zeros((2, 2)), Balls(np.zeros((3, 2)), np.ones(3))
    good, bad = np.array([0, -7], dtype=np.int32), np.array([0, 3], dtype=np.int32)
    assert lattice_sums(rows, good, 3, Lattice(1.0, 2), balls).counts.tolist() == [1, 0, 0]
    with pytest.raises(ValueError, match="label"):
        lattice_sums(rows, bad, 3, Lattice(1.0, 2), balls)
    with pytest.raises(ValueError, match="label"):
        outside_radius(rows, bad, balls)
    for radius in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="radii"):
            outside_radius(rows, good, Balls(balls.centers, np.array([1, radius, 1])))
    with pytest.raises(ValueError, match="squares"):
        lattice_sums(rows, good, 3, Lattice(2.0, 2), balls, squares=True)
    with pytest.raises(ValueError, match="n_max"):
        lattice_sums(rows, good, 3, Lattice(1.0, 2, n_max=1))


# --- threads and instruction sets -------------------------------------------------------------


def fingerprint():
    """A digest for enough rows to use several threads, with few and with very many labels."""
    out = sha256()
    for d, k in ((2, 7), (13, 40000)):
        rows, labels, balls = case(np.random.default_rng(d), 200_000, d, k)
        lattice = Lattice(1.0, d)
        sums = lattice_sums(rows, labels, k, lattice, balls, squares=True)
        for part in (sums.totals, sums.counts, sums.squares, outside_radius(rows, labels, balls)):
            out.update(part.tobytes())
        out.update(quantize(rows, lattice).tobytes())
    return out.hexdigest()


def test_the_same_bits_on_any_number_of_threads():
    assert len(set(on_threads(fingerprint))) == 1


@pytest.mark.slow
@pytest.mark.parametrize("level", _native.instruction_sets())
def test_the_same_bits_with_any_instruction_set(level):
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "PYTHONPATH": path, "KVARIATES_ISA": level}
    code = "from privacy.test_lattice_sums import fingerprint; print(fingerprint())"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment
    )
    assert done.stdout.strip() == fingerprint()
