"""Many centres and many features, as of embeddings: labels are those of the reference arithmetic.

Rows and centres are hard on purpose: equal rows, ties, near-equal centres, offsets, a huge feature,
subnormal numbers, rows of zeros, constant columns. The reference is the NumPy program of
`laws/reference.py`.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from api import SCANS
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import reference
from laws.cases import ALGORITHMS, DTYPES, same_bits
from laws.test_filter_laws import labels_of
from laws.threads import on_threads

from kvariates import KMeans, _native

KERNELS = _native.byte_kernels()  # each with the instruction set that it goes with
CHILD = "KVARIATES_ISA" in os.environ  # other kernels: fewer examples
EXAMPLES = settings(max_examples=5 if CHILD else 15)


# ---- hard rows -----------------------------------------------------------------------------------


def embeddings(rng, n, d):
    """Unit rows around fifty topics; later features vary less."""
    spectrum = np.arange(1, d + 1) ** -0.7
    topics = rng.normal(size=(50, d)) * spectrum
    Z = topics[rng.integers(50, size=n)] + 0.7 * rng.normal(size=(n, d)) * spectrum
    return Z / np.linalg.norm(Z, axis=1, keepdims=True)


def with_zero_rows(rng, Z, largest):
    Z[rng.random(len(Z)) < 0.2] = 0
    return Z


def with_a_huge_feature(rng, Z, largest):
    Z[:, rng.integers(Z.shape[1])] *= 1e8
    return Z


def with_constant_columns(rng, Z, largest):
    Z[:, rng.random(Z.shape[1]) < 0.9] = rng.normal()
    return Z


def with_a_far_row(rng, Z, largest):
    Z[rng.integers(len(Z))] *= 1e9
    return Z


def in_whole_bytes(rng, Z, largest):
    """Integers up to 127."""
    return np.rint(Z * (127 / np.maximum(np.abs(Z).max(axis=1, keepdims=True), 1e-300)))


HARDER = {  # each changes rows and centres together
    "ties": lambda rng, Z, largest: np.rint(30 * Z),
    "offset": lambda rng, Z, largest: Z + 1e5,
    "far offset": lambda rng, Z, largest: Z - 1e12,
    "whole bytes": in_whole_bytes,
    "huge": lambda rng, Z, largest: Z * (largest / 1e3),
    "subnormal": lambda rng, Z, largest: Z * (1e-315 if largest > 1e100 else 1e-41),
    "tiny": lambda rng, Z, largest: Z * 1e-160,  # squares are subnormal
    "equal rows": lambda rng, Z, largest: Z[rng.integers(1 + len(Z) // 50, size=len(Z))],
    "one row": lambda rng, Z, largest: np.tile(Z[0], (len(Z), 1)),
    "zero rows": with_zero_rows,
    "huge feature": with_a_huge_feature,
    "constant columns": with_constant_columns,
    "far row": with_a_far_row,
}


def hard_rows(seed, n, d, k, dtype, changes):
    """Rows and centres. Some rows are centres or (nearly) halfway between two; some centres are
    equal or almost equal to others.
    """
    rng = np.random.default_rng(seed)
    largest = 1e140 if dtype == np.float64 else 1e30
    Z = embeddings(rng, n + k, d)
    for name in changes:
        Z = HARDER[name](rng, Z, largest)
    Z = np.clip(Z, -largest, largest).astype(dtype)
    X, C = Z[:n].copy(), Z[n:].copy()
    few = rng.permutation(k)[:40]
    C[few[:10]] = C[few[10:20]]
    C[few[20:30]] = np.nextafter(C[few[30:40]], dtype(np.inf))
    own, (a, b) = rng.integers(k, size=n), rng.integers(k, size=(2, n))
    a = np.where(rng.random(n) < 0.5, a % 3, a)  # many rows near the centres that move far
    part = rng.random((n, 1))
    halfway = C[a] / 2 + C[b] / 2
    share = 0.5 + 10.0 ** rng.uniform(-3, -1.3, (n, 1))
    nearly = C[a] * share + C[b] * (1 - share)
    X = np.select([part < 0.2, part < 0.4, part < 0.6], [C[own], halfway, nearly], X)
    return np.ascontiguousarray(X, dtype=dtype), np.ascontiguousarray(C)


def positions(rng, X, C, by):
    """Of the centres: all move, then only the first three, farther, and then these to rows."""
    C = C.astype(np.float64)
    few = np.arange(len(C))[:, None] < 3
    second, third = (by * rng.normal(size=C.shape) for _ in range(2))
    far = C + 0.01 * second + few * third
    onto_rows = far.copy()
    onto_rows[:3] = X[rng.integers(len(X), size=3)]
    return [C, C + 0.01 * second, far, onto_rows]


def distances(X, C):
    """Of the reference, a few rows at a time: the table of differences stays in the cache."""
    C = C.astype(np.float64)
    parts = [reference.dense_distances(X[i : i + 2], C) for i in range(0, len(X), 2)]
    return np.concatenate(parts)


any_hard_rows = given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 150),
    d=st.integers(129, 200),
    k=st.integers(385, 420),
    dtype=st.sampled_from(DTYPES),
    changes=st.lists(st.sampled_from(sorted(HARDER)), max_size=2, unique=True),
)


# ---- the laws ------------------------------------------------------------------------------------


@any_hard_rows
@EXAMPLES
def test_labels_are_the_argmin_for_many_centres(seed, n, d, k, dtype, changes):
    """By every scan, while centres move: bounds that are kept must stay true."""
    X, C = hard_rows(seed, n, d, k, dtype, changes)
    by = 10.0 ** (seed % 4 - 2) * float(np.abs(C).max()) / d
    steps = positions(np.random.default_rng(seed), X, C, by)
    expected = [reference.labels(distances(X, centers)) for centers in steps]
    for scan in SCANS:
        for ours, right in zip(labels_of(scan, X, steps), expected, strict=True):
            assert np.array_equal(ours, right), scan


@any_hard_rows
@EXAMPLES
def test_predictions_are_the_argmin_for_many_centres(seed, n, d, k, dtype, changes):
    """Of all rows, of one, and after the centres of the model were set anew."""
    X, C = hard_rows(seed, n, d, k, dtype, changes)
    start = np.random.default_rng(0).normal(size=(k, d)).astype(dtype)
    model = KMeans(k, init=start, n_init=1, max_iter=1).fit(start)
    for centers in (C, np.ascontiguousarray(C[::-1])):
        model.cluster_centers_ = centers
        D = distances(X, centers)
        right = reference.labels(D)
        assert np.array_equal(model.predict(X), right)
        for i in (0, n // 2, n - 1):
            assert model.predict(X[i : i + 1]) == right[i]
        cost = reference.inertia(D.min(axis=1), None)
        assert model.score(X) == -cost


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("changes", [[], ["ties"], ["offset"], ["huge feature"], ["zero rows"]])
def test_a_fit_of_many_centres(changes, dtype):
    """All algorithms give the same fit; its labels and cost are those of the reference."""
    X, start = hard_rows(7, 600, 160, 400, dtype, changes)
    fits = [
        KMeans(400, init=start, n_init=1, max_iter=3, tol=0, algorithm=algorithm).fit(X)
        for algorithm in ALGORITHMS
    ]
    assert all(same_bits(fits[0], other) for other in fits[1:])
    D = distances(X, fits[0].cluster_centers_)
    assert np.array_equal(fits[0].labels_, reference.labels(D))
    assert np.array_equal(fits[0].predict(X), fits[0].labels_)
    assert fits[0].inertia_ == reference.inertia(D.min(axis=1), None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_threads_do_not_change_labels_of_many_centres(dtype):
    X, C = hard_rows(3, 700, 150, 400, dtype, ["zero rows"])
    steps = positions(np.random.default_rng(0), X, C, 0.02)
    expected = [reference.labels(distances(X, centers)) for centers in steps]
    for scan in SCANS:
        for found in on_threads(lambda scan=scan: labels_of(scan, X, steps)):
            for ours, right in zip(found, expected, strict=True):
                assert np.array_equal(ours, right), scan


@pytest.mark.parametrize("kernels", KERNELS[:-1])
def test_many_centres_with_other_kernels(kernels):
    """All of the above, with all other products of bytes that this processor can run."""
    if CHILD:
        pytest.skip("this is such a run")
    here = Path(__file__).resolve()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, str(here)], cwd=here.parents[2], check=False, capture_output=True, text=True,
        env={**os.environ, "KVARIATES_ISA": kernels, "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
