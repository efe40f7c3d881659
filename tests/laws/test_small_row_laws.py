"""Laws: rows of float16, bfloat16, int8 and uint8 have the results of the same rows in float32."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from api import InMemoryAssigner, Rows

from kvariates import KMeans, _native

LEVELS = _native.instruction_sets()
CHILD = "KVARIATES_ISA" in os.environ  # another instruction set: kernels only
TYPES = ["float16", "bfloat16", "int8", "uint8"]


def typed(name):
    if name != "bfloat16":
        return np.dtype(name)
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def made(name, n, d, seed):
    """Rows around some centres, of which many coordinates repeat."""
    rng = np.random.default_rng(seed)
    X = 25 * rng.normal(size=(12, d))[rng.integers(12, size=n)] + 9 * rng.normal(size=(n, d))
    low, high = {"int8": (-128, 127), "uint8": (0, 255)}.get(name, (-1e4, 1e4))
    return np.clip(X, low, high).round(0 if name.endswith("int8") else 1).astype(typed(name))


def every_value(name):
    """All finite values of a type, eight in each row."""
    dtype = typed(name)
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    values = bits.view(dtype)
    values = values[np.isfinite(values.astype(np.float32))]
    return np.resize(values, (-(-len(values) // 8), 8))


def pair(X):
    small = Rows.of(X)
    assert small.X is X
    return small, Rows.of(X.astype(np.float32))


@pytest.mark.parametrize("name", TYPES)
def test_every_value_is_read(name):
    small, single = pair(every_value(name))
    assert small.magnitudes == single.magnitudes
    zero, zeros = np.zeros((1, 8)), np.zeros(small.n, dtype=np.int32)
    np.testing.assert_array_equal(small.costs(zero, zeros), single.costs(zero, zeros))
    np.testing.assert_array_equal(small.take(np.arange(small.n)), single.take(np.arange(single.n)))
    one, other = (rows.column_sums(130) for rows in (small, single))
    np.testing.assert_array_equal(one.limbs, other.limbs)
    centers = single.take(np.linspace(0, single.n - 1, 30).astype(np.int64))
    np.testing.assert_array_equal(small.nearest(centers), single.nearest(centers))
    np.testing.assert_array_equal(small.distances(centers), single.distances(centers))


@pytest.mark.parametrize("scan", ["lloyd", "hamerly", "elkan", "yinyang", "bytes", "auto"])
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize(("d", "k"), [(33, 40), (200, 90)])
def test_assignments(name, scan, d, k):
    """The same labels, sums and work, also of rows that the filter cannot decide."""
    X = made(name, 4200, d, seed=d)
    X[7:40] = X[6]
    weight = np.random.default_rng(1).integers(0, 3, len(X)).astype(np.float64)
    for w in (None, weight):
        assigners = [InMemoryAssigner(rows, w, k, scan) for rows in pair(X)]
        centers = X[:k].astype(np.float64)
        for _ in range(3):
            one, other = (assigner.assign(centers) for assigner in assigners)
            labels = [assigner.labels for assigner in assigners]
            np.testing.assert_array_equal(*labels)
            assert one.changed == other.changed
            np.testing.assert_array_equal(one.exact_sums.limbs, other.exact_sums.limbs)
            assert one.exact_cost == other.exact_cost
            weights = one.weights[:, None]
            centers = np.where(weights > 0, one.sums / np.maximum(weights, 1), centers)


FITS = [
    *({"algorithm": a} for a in ("auto", "lloyd", "elkan", "yinyang", "hartigan", "minibatch")),
    *({"init": i} for i in ("d2", "k-means||", "ls++", "hst", "random", "global")),
    {"algorithm": "swap", "max_iter": 3}, {"metric": "cosine"}, {"size_max": 120},
    {"certify": True},
]  # fmt: skip


def same(one, other):
    assert one.cluster_centers_.dtype == other.cluster_centers_.dtype == np.float32
    np.testing.assert_array_equal(one.cluster_centers_, other.cluster_centers_)
    np.testing.assert_array_equal(one.labels_, other.labels_)
    assert (one.inertia_, one.n_iter_) == (other.inertia_, other.n_iter_)


@pytest.mark.skipif(CHILD, reason="kernels only")
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("options", FITS, ids=lambda options: str(next(iter(options.values()))))
def test_fits(name, options):
    X = made(name, 700, 33, seed=3)
    X[:, 0] += X[:, 0] == 0  # no row of zeros for cosine distances
    F, new = X.astype(np.float32), made(name, 50, 33, seed=4)
    one, other = (KMeans(7, random_state=5, **options).fit(rows) for rows in (X, F))
    same(one, other)
    np.testing.assert_array_equal(one.predict(new), other.predict(new.astype(np.float32)))
    distances = one.transform(new)
    assert distances.dtype == np.float32
    np.testing.assert_array_equal(distances, other.transform(new.astype(np.float32)))
    assert one.score(new) == other.score(new.astype(np.float32))


@pytest.mark.skipif(CHILD, reason="kernels only")
@pytest.mark.parametrize("name", ["float16", "int8"])
def test_rows_stay_in_their_size(name):
    """A fit takes less memory than a copy of the rows in float32."""
    X = made(name, 60_000, 40, seed=6)
    tracemalloc.start()
    try:
        model = KMeans(8, init="random", random_state=0, max_iter=3, tol=0).fit(X)
        model.predict(X)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.6 * X.size * np.dtype(np.float32).itemsize


@pytest.mark.skipif(CHILD, reason="kernels only")
@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize(("value", "words"), [(np.nan, "contains NaN"), (np.inf, "infinity")])
def test_what_is_not_finite_is_refused(name, value, words):
    X = made(name, 60, 9, seed=7)
    model = KMeans(3, random_state=0).fit(X)
    X[41, 5] = -value
    for use in (KMeans(3).fit, model.predict, model.transform, model.score):
        with pytest.raises(ValueError, match=f"{words}.*1 value in 1 of 60 rows, first in row 41"):
            use(X)


@pytest.mark.skipif(CHILD, reason="kernels only")
def test_the_largest_float16_do_not_overflow():
    X = np.where(np.arange(400).reshape(50, 8) % 3, 65504, -65504).astype(np.float16)
    X[:25] *= np.float16(-1)
    same(*(KMeans(2, random_state=0).fit(rows) for rows in (X, X.astype(np.float32))))


def test_kernels_that_read_no_small_type_say_so():
    view = Rows.of(made("int8", 9, 8, seed=8)).view
    with pytest.raises(ValueError, match="must be made float32 first"):
        _native.distances(view, np.zeros((1, 8)), False, np.empty((9, 1), np.float32))


@pytest.mark.skipif(CHILD, reason="kernels only")
@pytest.mark.parametrize("level", LEVELS[:-1])
def test_with_other_instruction_sets(level):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", __file__],
        env={**os.environ, "KVARIATES_ISA": level, "OMP_NUM_THREADS": "2"},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
