"""The kernels give the bits of the reference arithmetic (docs/reference_arithmetic.md)."""

import math
import os
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from laws import reference
from laws.cases import weights_for
from scipy import sparse

from kvariates import KMeans, _native, kmeans_plusplus

FEATURES = range(1, 41)
LEVELS = _native.instruction_sets()
both_types = pytest.mark.parametrize("dtype", [np.float32, np.float64])
both_layouts = pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "csr"])
every_kind = pytest.mark.parametrize("kind", ["normal", "far", "wide", "grid", "tiny", "huge"])


def values(kind, rng, shape, dtype):
    """Random numbers of a kind; `grid` has many ties and zeros."""
    X = rng.normal(size=shape)
    large = dtype == np.float64
    if kind == "far":
        X = X + 1e6
    elif kind == "wide":
        X = X * 10.0 ** rng.uniform(-12, 12, shape)
    elif kind == "grid":
        X = rng.integers(-2, 3, shape)
    elif kind == "tiny":
        X = X * (1e-155 if large else 1e-38)
    elif kind == "huge":
        X = X * (1e140 if large else 1e37)
    return np.ascontiguousarray(X, dtype=dtype)


def near_rows(kind, rng, n, d, k, dtype, is_sparse):
    """Rows, and centres: the first is a row, the next two lie near it."""
    X = values(kind, rng, (n, d), dtype)
    C = values(kind, rng, (k, d), dtype).astype(np.float64)
    X = thinned(X, rng) if is_sparse else X
    C[0] = X[[0]].toarray() if is_sparse else X[0]
    C[1], C[2] = C[0] * (1 + 2.0**-40), C[0] * (1 + 2.0**-10)
    return X, C


def thinned(X, rng):
    return sparse.csr_array(np.where(rng.random(X.shape) < 0.5, X, 0).astype(X.dtype))


def view_of(X):
    if isinstance(X, np.ndarray):
        return _native.dense(X)
    return _native.csr(X.data, X.indices.astype(np.int32), X.indptr.astype(np.int64), X.shape[1])


def costs_of(view, C):
    """Float64 distances of all rows to all centres, by the kernel."""
    out = np.empty((len(C), view.n))
    for j in range(len(C)):
        _native.costs(view, C, np.full(view.n, j, dtype=np.int32), out[j])
    return out.T


def assert_two_nearest(view, C, D):
    labels = np.zeros((2, view.n), dtype=np.int32)
    costs = np.zeros((2, view.n))
    _native.two_nearest(view, C, *labels, *costs)
    order = np.argsort(D, axis=1, kind="stable")[:, :2]
    assert np.array_equal(labels, order.T)
    assert costs.T.tobytes() == np.take_along_axis(D, order, axis=1).tobytes()


@every_kind
@both_layouts
@both_types
def test_distances_and_labels(dtype, is_sparse, kind):
    for d, seed in product(FEATURES, range(3)):
        rng = np.random.default_rng([d, seed])
        X, C = near_rows(kind, rng, 7 if is_sparse else 70, d, 5, dtype, is_sparse)
        view = view_of(X)
        D = reference.distances(X, C)
        assert costs_of(view, C).tobytes() == D.tobytes(), d
        for label in (_native.assign, _native.nearest):
            found = np.zeros(view.n, dtype=np.int32)
            label(view, C, found)
            assert np.array_equal(found, reference.labels(D)), d
        assert_two_nearest(view, C, D)


@pytest.mark.parametrize("kind", ["normal", "grid", "wide"])
@pytest.mark.parametrize("centers_type", [np.float32, np.float64])
@both_types
def test_distances_of_all_pairs_and_labels_of_few_rows(dtype, centers_type, kind):
    for d, k in ((1, 3), (15, 900), (16, 1), (17, 900), (32, 61), (45, 700)):
        rng = np.random.default_rng(d)
        X, C = (values(kind, rng, (n, d), of) for n, of in ((70, dtype), (k, centers_type)))
        D, out = reference.distances(X, C.astype(np.float64)), np.empty((70, k), dtype=dtype)
        for squared, expected in ((True, D), (False, np.sqrt(D))):
            _native.distances(view_of(X), C, squared, out)
            assert out.tobytes() == expected.astype(dtype).tobytes(), d
        for n in (1, 2, 3, 4, 7, 16, 70):
            found = np.zeros(n, dtype=np.int32)
            _native.nearest(view_of(X[:n]), C, found)
            assert np.array_equal(found, reference.labels(D[:n])), (d, n)


@every_kind
@both_layouts
@both_types
@pytest.mark.parametrize("weighted", [False, True])
def test_cluster_sums(dtype, is_sparse, kind, weighted):
    n, k = 90, 3
    for d in (1, 2, 7, 33):
        rng = np.random.default_rng(d)
        X = values(kind, rng, (n, d), dtype)
        view = view_of(sparse.csr_array(X) if is_sparse else X)
        weight = weights_for(n, d) if weighted else None
        w = np.ones(n) if weight is None else weight
        label = rng.integers(0, k, n).astype(np.int32)
        exponent = reference.exponent_of(float(np.abs(X).max()) * w.max())
        of_weights = reference.exponent_of(w.max())
        sums = np.zeros((k, 3, d), dtype=np.int64)
        total, count = np.zeros((k, 3), dtype=np.int64), np.zeros(k, dtype=np.int64)
        smallest = _native.magnitudes(view)[1]
        last = (sums, total, count, exponent, of_weights, 0, smallest)
        _native.update(view, weight, label, None, *last)
        out = np.empty((k, d))
        _native.round_limbs(sums, exponent, out)
        for j in range(k):
            own = (label == j) & (w > 0)
            terms = w[own, None] * X[own].astype(np.float64)
            for f in range(d):
                [want] = reference.exact_sum(terms[:, f], exponent)
                assert reference.whole([int(v) for v in sums[j, :, f]]) == want
                assert out[j, f] == reference.rounded(want, exponent)
            [want] = reference.exact_sum(w[own], of_weights)
            assert reference.whole([int(v) for v in total[j]]) == want
            assert count[j] == own.sum()


def potential_of(view, X, C, weight, exponent=0):
    """Costs to the nearest of C, lowered by the kernel, with the sums of all tiles."""
    cost, nearest = np.full(view.n, np.inf), np.full(view.n, -1, dtype=np.int32)
    sums = np.zeros((-(-view.n // _native.DRAW_TILE), 2), dtype=np.uint64)
    state = cost, nearest, weight
    _native.lower_costs(view, C, 0, None, *state, None, exponent)
    D = reference.distances(X, C)
    assert cost.tobytes() == D.min(axis=1).tobytes()
    assert np.array_equal(nearest, reference.labels(D))
    exponent = reference.exponent_of((cost if weight is None else weight * cost).max())
    _native.sum_costs(view, *state, sums, exponent)
    return *state, sums, exponent


def integers(words):
    return [int(low) | int(high) << 64 for low, high in words]


@every_kind
@both_layouts
@both_types
@pytest.mark.parametrize("weighted", [False, True])
def test_potential_draws_and_gains(dtype, is_sparse, kind, weighted):
    for d in (1, 3, 8, 20):
        rng = np.random.default_rng(d)
        n = 80 if is_sparse else 600
        X, C = near_rows(kind, rng, n, d, 4, dtype, is_sparse)
        view, weight = view_of(X), weights_for(n, d) if weighted else None
        cost, _, weight, sums, exponent = state = potential_of(view, X, C, weight)
        of_rows = reference.masses(cost, weight, exponent)
        assert integers(sums) == reference.tile_sums(of_rows)
        total = sum(of_rows)
        goals = [reference.share_of(total, u) for u in rng.random(20)] + [0, total - 1]
        goals = goals if total else []  # all costs are below the least unit
        out = np.empty(len(goals), dtype=np.int64)
        words = np.array([(g & 2**64 - 1, g >> 64) for g in goals], dtype=np.uint64)
        _native.rows_at(view, *state, words.reshape(-1, 2), out)
        assert out.tolist() == [reference.row_at(of_rows, goal) for goal in goals]
        tried = np.ascontiguousarray((C + values(kind, rng, C.shape, dtype)) / 2)
        gain = np.empty((len(tried), 2), dtype=np.uint64)
        _native.gains(view, tried, None, *state, gain)
        D = reference.distances(X, tried)
        assert integers(gain) == reference.gains(cost, D, weight, exponent)


@every_kind
def test_sums_of_costs_are_rounded_once(kind):
    rng = np.random.default_rng(0)
    for n in (1, 10, 3000):
        terms, weight = np.abs(values(kind, rng, n, np.float64)), weights_for(n, n)
        for w in (None, weight):
            bins = _native.exact_bins(terms, w).tolist()
            total = sum(int(b) << 32 * i for i, b in enumerate(bins))
            assert total / (1 << 1074) == reference.inertia(terms, w)


@both_layouts
@both_types
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("trials", [1, 3])
@pytest.mark.parametrize(
    ("kind", "n", "k"), [("normal", 300, 40), ("grid", 60, 30), ("wide", 90, 9)]
)
def test_seeding_picks_the_same_rows(dtype, is_sparse, weighted, trials, kind, n, k):
    rng = np.random.default_rng(k)
    X = values(kind, rng, (n // 3 if is_sparse else n, 3), dtype)
    k = k // 3 if is_sparse else k
    X = thinned(X, rng) if is_sparse else X
    weight = weights_for(X.shape[0], k) if weighted else None
    options = {"sample_weight": weight, "n_local_trials": trials}
    _, picked = kmeans_plusplus(X, k, random_state=np.random.default_rng(5), **options)
    seeding = reference.Seeding(X, weight, np.random.default_rng(5))
    assert picked.tolist() == seeding.run(k, trials).tolist()


@both_types
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["normal", "far", "wide", "grid"])
def test_one_step_of_lloyd(dtype, weighted, kind):
    """Means, their rounding to the rows' dtype, the labels of the rounded centres and the cost."""
    for d in (1, 5, 18):
        rng = np.random.default_rng(d)
        X = values(kind, rng, (120, d), dtype)
        start = np.unique(X, axis=0)[:4]
        k, weight = len(start), weights_for(120, d) + 1e-3 if weighted else None
        label = reference.labels(reference.distances(X, start.astype(np.float64)))
        model = KMeans(k, init=start, n_init=1, max_iter=1, tol=0).fit(X, sample_weight=weight)
        centers = reference.means(X, weight, label, k).astype(dtype)
        assert model.cluster_centers_.tobytes() == centers.tobytes()
        D = reference.distances(X, centers.astype(np.float64))
        assert np.array_equal(model.labels_, reference.labels(D))
        assert math.isclose(model.inertia_, reference.inertia(D.min(axis=1), weight), rel_tol=0)


@pytest.mark.parametrize("level", [level for level in LEVELS if level != LEVELS[-1]])
def test_with_other_instruction_sets(level):
    """All of the above, with the kernels for older processors."""
    if os.environ.get("KVARIATES_ISA"):
        pytest.skip("this is such a run")
    here = Path(__file__).resolve()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [*command, str(here)], cwd=here.parents[2], check=False, capture_output=True, text=True,
        env={**os.environ, "KVARIATES_ISA": level, "OMP_NUM_THREADS": "2"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:]
