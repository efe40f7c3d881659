"""Labels are the argmin of the float64 distances, whatever the filter of the native code can tell.

The reference is `Rows.costs`, which computes one distance at a time in float64; `transform` gives
the same numbers.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from api import SCANS, Rows, squared_moves, upper_bounds
from hypothesis import given
from hypothesis import strategies as st
from laws.cases import ALGORITHMS, DTYPES, LAYOUTS
from scipy import sparse

from kvariates import KMeans, _native


def reference(X, centers):
    rows = Rows.of(X)
    every = [rows.costs(centers, np.full(rows.n, j, dtype=np.int32)) for j in range(len(centers))]
    return np.stack(every, axis=1)


def labels_of(algorithm, X, steps):
    """The labels after each of several positions of the centres, by one scan that keeps bounds."""
    scan = SCANS[algorithm](Rows.of(X), len(steps[0]))
    labels, changes = np.full(X.shape[0], -1, dtype=np.int32), _native.Changes()
    out, before = [], None
    for centers in steps:
        moved = None if before is None else upper_bounds(squared_moves(before, centers))
        scan.assign(centers, moved, labels, changes)
        out.append(labels.copy())
        before = centers
    return out


def assert_argmin(X, steps, algorithms=SCANS):
    expected = [reference(X, centers).argmin(axis=1) for centers in steps]
    for algorithm in algorithms:
        for ours, right in zip(labels_of(algorithm, X, steps), expected, strict=True):
            assert np.array_equal(ours, right), algorithm
    for centers, right in zip(steps, expected, strict=True):
        assert np.array_equal(Rows.of(X).two_nearest(centers).labels, right)


def moving(rng, centers, by):
    """Three positions of the centres."""
    return [centers, *(centers + by * step * rng.normal(size=centers.shape) for step in (1, 0.1))]


# ---- rows far from all centres: float64 rounds their distances to ties ----


def far_case(factor, dtype, d=6, n=400, k=9):
    rng = np.random.default_rng(5)
    centers = rng.normal(size=(k, d))
    X = rng.normal(size=(n, d)) * factor
    return X.astype(dtype), moving(rng, centers, 0.1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("factor", [1e6, 1e12, 1e13, 1e15])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_much_farther_than_the_centres_are_spread(factor, dtype, layout):
    X, steps = far_case(factor, dtype)
    assert_argmin(LAYOUTS[layout](X), steps)


@given(
    seed=st.integers(0, 2**32 - 1),
    shape=st.tuples(st.integers(1, 150), st.sampled_from([1, 2, 3, 5, 17, 140]), st.integers(1, 9)),
    far=st.integers(-20, 16),
    offset=st.integers(-3, 15),
    exponent=st.integers(-60, 60),
    tails=st.integers(0, 12),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(sorted(LAYOUTS)),
)
def test_labels_are_the_argmin_at_any_scale(
    seed, shape, far, offset, exponent, tails, dtype, layout
):
    """Offsets, heavy tails, near ties, tiny and huge scales."""
    n, d, k = shape
    rng = np.random.default_rng(seed)
    scale = 2.0 ** (exponent if dtype == np.float64 else exponent / 2)
    centers = rng.normal(size=(k, d)) * np.exp(tails * rng.normal(size=(k, 1)))
    X = rng.normal(size=(n, d)) * 10.0**far * np.exp(tails * rng.normal(size=(n, 1)))
    a, b = rng.integers(k, size=(2, n // 2))
    X[: n // 2] = (centers[a] + centers[b]) / 2 * (1 + 10.0**-far * 1e-9)  # near ties
    shift = 10.0**offset * rng.normal(size=d)
    with np.errstate(over="ignore"):
        X, centers = ((values + shift) * scale for values in (X, centers))
        X = np.clip(X, -1e30, 1e30).astype(dtype)
    assert_argmin(LAYOUTS[layout](X), moving(rng, centers, 0.01 * scale))


FAR_ON_EVERY_SET = """
import sys
import numpy as np
from laws.test_filter_laws import far_case, labels_of
from laws.cases import ALGORITHMS
from kvariates import _native
assert _native.instruction_set() == sys.argv[1]
for factor in (1e12, 1e13):
    X, steps = far_case(factor, np.float64)
    for algorithm in ALGORITHMS:
        for labels in labels_of(algorithm, X, steps):
            print(*labels)
"""


@pytest.mark.slow
def test_far_rows_have_the_same_labels_on_every_instruction_set():
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    told = [
        subprocess.run(
            [sys.executable, "-c", FAR_ON_EVERY_SET, level],
            env={**os.environ, "PYTHONPATH": path, "KVARIATES_ISA": level},
            capture_output=True, text=True, check=True,
        ).stdout
        for level in _native.instruction_sets()
    ]  # fmt: skip
    expected = [
        reference(X, centers).argmin(axis=1)
        for X, steps in (far_case(factor, np.float64) for factor in (1e12, 1e13))
        for _ in ALGORITHMS
        for centers in steps
    ]
    lines = [" ".join(map(str, labels)) for labels in expected]
    assert all(text.splitlines() == lines for text in told)


# ---- one far centre must not spoil the filter of the others ----

RAW = {
    "heavy tails": lambda rng, n, d: rng.standard_cauchy((n, d)),
    "mixed scales": lambda rng, n, d: rng.normal(size=(n, d)) * 10.0 ** np.linspace(-3, 4, d),
    "a row at 1,000 deviations": lambda rng, n, d: np.r_[
        rng.normal(size=(n - 1, d)), np.full((1, d), 1e3)
    ],
    "a row at 1e9": lambda rng, n, d: np.r_[rng.normal(size=(n - 1, d)), np.full((1, d), 1e9)],
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", RAW)
def test_few_rows_of_raw_data_are_compared_twice(name, dtype):
    """The filter counts its comparisons; what it cannot decide counts twice more."""
    rng = np.random.default_rng(8)
    X = np.ascontiguousarray(RAW[name](rng, 20_000, 16), dtype=dtype)
    labels = np.full(len(X), -1, dtype=np.int32)
    _, pairs, *_ = _native.assign(_native.dense(X), X[-32:].astype(np.float64), labels)
    assert len(X) * 32 <= pairs < 1.001 * len(X) * 32


def test_two_groups_far_apart_are_decided_without_exact_distances():
    """One group is near the offset of the filter, where float32 is enough. In the other, float32
    cannot tell the centres apart; float64 can, for twice the work.
    """
    rng, n, k = np.random.default_rng(9), 4096, 40
    far = rng.random(n) < 0.5
    X = rng.normal(size=(n, 8)) + 1e5 * far[:, None]
    centers = np.ascontiguousarray(X[:k])
    assert_argmin(X, [centers], ["lloyd"])
    labels = np.full(n, -1, dtype=np.int32)
    _, pairs, undecided, _ = _native.assign(_native.dense(X), centers, labels)
    filtered_twice = (pairs / k - n) / 2
    assert 0.9 * far.sum() < filtered_twice < 1.1 * far.sum()
    assert undecided < 0.01 * n


# ---- sparse rows far from the origin ----


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e8, 1.7e9, 1e14])
def test_sparse_rows_far_from_the_origin_have_the_distances_of_dense_ones(offset):
    rng = np.random.default_rng(2)
    X = rng.integers(-20, 20, size=(500, 7)) / 8.0
    X[:, 3] += offset
    X[rng.random(X.shape) < 0.4] = 0
    centers = np.ascontiguousarray(X[rng.integers(500, size=12)] + rng.integers(2, size=(12, 7)))
    sparse_ones = reference(sparse.csr_array(X), centers)
    np.testing.assert_allclose(sparse_ones, reference(X, centers), rtol=1e-14)
    assert_argmin(sparse.csr_array(X), [centers])


def test_a_column_of_timestamps_in_a_sparse_matrix():
    rng = np.random.default_rng(3)
    X = np.c_[1.7e9 + rng.uniform(0, 3000, size=600), rng.random((600, 3)) < 0.2]
    dense = KMeans(8, random_state=0, n_init=1, tol=0).fit(X)
    model = KMeans(8, tol=0, n_init=1, init=dense.cluster_centers_).fit(sparse.csr_array(X))
    assert model.inertia_ == pytest.approx(dense.inertia_, rel=1e-6)
    distances = model.transform(sparse.csr_array(X))
    assert np.array_equal(distances.argmin(axis=1), model.labels_)
    np.testing.assert_allclose(distances, model.transform(X), rtol=1e-13)


@pytest.mark.parametrize("dtype", DTYPES)
def test_labels_of_many_rows(dtype):
    """Bytes label the first rows, and the others if they pay: not where all centres are as near."""
    rng = np.random.default_rng(3)
    for spread, n in ((1.0, 3000), (1e-4, 2500)):
        X = (rng.normal(size=(n, 64)) * spread + rng.normal(size=(n, 1)) * (spread == 1)).astype(
            dtype
        )
        centers = X[:130].astype(float)
        centers[100:] = centers[:30]  # ties
        expected = reference(X, centers).argmin(axis=1)
        assert np.array_equal(Rows.of(X).nearest(centers), expected)
