"""Summaries of every kind: size, total weight, any cut, saving, sparse rows."""

import json

import numpy as np
import pytest
from api import (
    SYNOPSES,
    Block,
    MergeReduce,
    SummaryOptions,
    WeightedPoints,
    coreset,
    kmeans_sharp,
    lightweight,
    summarize,
)
from api import merge_reduce_module as merge_reduce
from scipy import sparse

every_synopsis = pytest.mark.parametrize("name", SYNOPSES)
every_reduction = pytest.mark.parametrize("reduction", [coreset, lightweight, kmeans_sharp])
OPTIONS = SummaryOptions(40, 3)


def stream(n=1500, seed=0, dtype=np.float32):
    """Return rows with a small far cluster, and integer weights, some of them zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    X[rng.choice(n, 7, replace=False)] += 100
    return X.astype(dtype), rng.integers(0, 1000, n).astype(np.float64)


def summary_of(name, X, weight, batch, seed=1):
    summary, rng = SYNOPSES[name].run(OPTIONS), np.random.default_rng(seed)
    for first in range(0, X.shape[0], batch):
        part = slice(first, first + batch)
        rows = WeightedPoints.of(X[part], None if weight is None else weight[part])
        summary.add(rows, rng)
    return summary, rng


def same(left, right):
    dense = [p.toarray() if sparse.issparse(p) else p for p in (left.points, right.points)]
    return np.array_equal(*dense) and np.array_equal(left.weights, right.weights)


def fields(summary):
    return json.dumps(summary.to_dict(), default=lambda array: array.tolist(), sort_keys=True)


@every_synopsis
def test_size_and_total_weight(name):
    X, weight = stream()
    for n in (1, 3, 40, 41, 320, 700, 1500):
        for w in (None, weight[:n] + 1):
            summary, rng = summary_of(name, X[:n], w, 100)
            points = summary.points(rng)
            assert points.n <= OPTIONS.size
            assert points.total == (n if w is None else w.sum())
            assert (points.weights > 0).all()
            assert points.points.dtype == X.dtype


@pytest.mark.parametrize("name", sorted(SYNOPSES.keys() - {"k-means#"}))  # it has a size of its own
def test_few_rows_are_kept_as_they_are(name):
    X, weight = stream(40)
    summary, rng = summary_of(name, X, weight, 7)
    positive = weight > 0
    assert same(summary.points(rng), WeightedPoints(X[positive], weight[positive]))


@every_synopsis
def test_any_cut_into_batches_gives_the_same_points(name):
    X, weight = stream()
    for n, batches in ((500, (1, 77)), (1500, (99, 320, 1000))):
        whole, rng = summary_of(name, X[:n], weight[:n], n)
        expected = whole.points(rng)
        for batch in batches:
            summary, rng = summary_of(name, X[:n], weight[:n], batch)
            assert same(summary.points(rng), expected)


@every_synopsis
def test_asking_for_points_changes_nothing(name):
    X, weight = stream(700)
    summary, rng = summary_of(name, X, weight, 100)
    summary.points(np.random.default_rng(2))
    asked = fields(summary)
    summary.points(np.random.default_rng(3))
    assert fields(summary) == asked
    summary.add(WeightedPoints.of(X, None), rng)
    other, rng = summary_of(name, X, weight, 100)
    other.add(WeightedPoints.of(X, None), rng)
    assert same(*(s.points(np.random.default_rng(4)) for s in (summary, other)))


@every_synopsis
def test_rows_are_copied(name):
    X, _ = stream(300)
    batch, summary, rng = (
        np.empty_like(X[:100]),
        SYNOPSES[name].run(OPTIONS),
        np.random.default_rng(0),
    )
    for first in (0, 100, 200):
        batch[:] = X[first : first + 100]
        summary.add(WeightedPoints.of(batch, None), rng)
    batch[:] = np.nan
    assert np.isfinite(summary.points(np.random.default_rng(5)).points).all()


@every_synopsis
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_restored_summary_continues_with_the_same_draws(name, layout):
    X, weight = stream()
    X = layout(np.rint(X))
    plain, rng = summary_of(name, X, weight, 700)
    for first in (0, 100, 450, 1400):  # with and without full leaves
        left, right = X[:first], X[first:]
        before, generator = summary_of(name, left, weight[:first], 700)
        restored = SYNOPSES[name].run(OPTIONS)
        restored.restore(before.to_dict())
        assert fields(restored) == fields(before)
        restored.add(WeightedPoints.of(right, weight[first:]), generator)
        assert generator.bit_generator.state == rng.bit_generator.state
        assert same(*(s.points(np.random.default_rng(6)) for s in (restored, plain)))


@every_synopsis
def test_sparse_rows_give_the_points_of_dense_rows(name):
    """Integers, so that distances are exact in both layouts."""
    X, weight = stream(900)
    X = np.rint(X)
    dense, csr = (summary_of(name, rows, weight, 100) for rows in (X, sparse.csr_array(X)))
    assert sparse.issparse(csr[0].points(np.random.default_rng(0)).points)
    assert same(dense[0].points(dense[1]), csr[0].points(csr[1]))


@every_synopsis
def test_scaled_weights(name):
    X, weight = stream(900)
    summary, rng = summary_of(name, X, weight + 0.5, 100)
    expected = summary.points(np.random.default_rng(0))
    summary.rescale(0.25)
    scaled = summary.points(np.random.default_rng(0))
    assert np.array_equal(scaled.points, expected.points)
    assert np.allclose(scaled.weights, expected.weights / 4, rtol=1e-12)
    summary.add(WeightedPoints.of(X, weight), rng)  # weights of one unit
    assert np.isclose(summary.points(rng).total, 1.25 * weight.sum() + 112.5, rtol=1e-12)


@every_synopsis
def test_merged_totals_are_exact(name):
    X, weight = stream()
    for cut in (0, 10, 320, 1000, 1500):
        left, rng = summary_of(name, X[:cut], weight[:cut], 100)
        right, _ = summary_of(name, X[cut:], weight[cut:], 100, seed=2)
        before = fields(right)
        left.merge(right, rng)
        assert fields(right) == before
        points = left.points(rng)
        assert points.n <= OPTIONS.size
        assert points.total == weight.sum()


def test_merging_full_leaves_is_adding_them():
    """With the same draws, not only in law; 9 leaves of 320 rows need two levels."""
    X, _ = stream(9 * 320)
    whole, rng = summary_of("coreset", X, None, 500)
    left, generator = summary_of("coreset", X[: 7 * 320], None, 500)
    right = SYNOPSES["coreset"].run(OPTIONS)
    right.add(WeightedPoints.of(X[7 * 320 : 8 * 320], None), generator)
    left.merge(right, generator)
    last = SYNOPSES["coreset"].run(OPTIONS)
    last.add(WeightedPoints.of(X[8 * 320 :], None), generator)
    left.merge(last, generator)
    assert fields(left) == fields(whole)
    assert generator.bit_generator.state == rng.bit_generator.state


@every_reduction
def test_hard_weights_and_rows_keep_size_and_total(reduction):
    rng = np.random.default_rng(7)
    for trial in range(150):
        n, size, k = int(rng.integers(1, 200)), int(rng.integers(4, 30)), int(rng.integers(1, 40))
        X = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-3, 9, size=(n, 1))
        X = X[rng.integers(max(1, n // 8), size=n)] if trial % 3 == 0 else X  # many duplicates
        weight = np.rint(2.0 ** rng.uniform(0, [1, 10, 44][trial % 3], n))
        points = reduction(WeightedPoints(X, weight), SummaryOptions(size, k), rng)
        assert points.n <= size
        assert points.total == weight.sum()
        assert (points.weights > 0).all()
        rows = {row.tobytes() for row in X}
        assert all(row.tobytes() in rows for row in points.points)


@every_reduction
def test_equal_rows_and_far_rows(reduction):
    options, rng = SummaryOptions(10, 4), np.random.default_rng(8)
    equal = reduction(WeightedPoints(np.ones((50, 3)), np.ones(50)), options, rng)
    assert equal.n <= 10
    assert equal.total == 50
    X = np.zeros((50, 3))
    X[7] = 1e6
    far = reduction(WeightedPoints(X, np.ones(50)), options, rng)
    assert far.weights[far.points[:, 0] > 0].sum() == 1
    assert far.total == 50


def test_a_small_far_cluster_is_kept():
    """A uniform sample of 200 of 20,000 rows misses the cluster of 10 rows nine times in ten."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(20_000, 4))
    X[rng.choice(20_000, 10, replace=False)] += 50
    for seed in range(20):
        points = summarize([Block(X, None, 0)], 200, 3, np.random.default_rng(seed))
        far = points.weights[points.points[:, 0] > 25]
        assert 8 <= far.sum() <= 12


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_moments_of_weighted_points_are_those_of_repeated_rows(layout):
    rng = np.random.default_rng(4)
    X, weight = rng.normal(size=(50, 3)) ** 3, rng.integers(1, 9, size=50)
    points, repeated = WeightedPoints(layout(X), weight.astype(float)), np.repeat(X, weight, axis=0)
    np.testing.assert_allclose(points.mean()[0], repeated.mean(axis=0))
    assert points.variance() == pytest.approx(repeated.var(axis=0).mean())


def test_memory_is_bounded():
    X, _ = stream(20_000)
    summary = MergeReduce(OPTIONS, coreset)
    rng, most = np.random.default_rng(10), 0
    for first in range(0, len(X), 1000):
        summary.add(WeightedPoints.of(X[first : first + 1000], None), rng)
        state = summary.to_dict()
        held = sum(len(bucket["weights"]) for level in state["levels"] for bucket in level)
        most = max(most, held + len(state["leaf"]["weights"]))
    bucket = merge_reduce.LARGER * 40
    assert most <= 8 * bucket + 2 * 7 * bucket  # the leaf, and two levels


def test_wide_rows_have_small_leaves(monkeypatch):
    monkeypatch.setattr(merge_reduce, "LEAF_BYTES", 40 * 4 * 4 * 3)
    monkeypatch.setattr(merge_reduce, "LARGER", 1)
    X, _ = stream(480)
    summary, _ = summary_of("coreset", X, None, 50)
    state = summary.to_dict()
    assert [len(level) for level in state["levels"]] == [1, 1]  # four leaves of 120 rows
    assert len(state["leaf"]["weights"]) == 0


def test_blocks_are_summarized_in_one_pass():
    X, weight = stream()
    blocks = [Block(X[f : f + 400], weight[f : f + 400], f) for f in range(0, 1500, 400)]
    points = summarize(iter(blocks), 40, 3, np.random.default_rng(1))
    summary, rng = summary_of("coreset", X, weight, 123)
    assert same(points, summary.points(rng))
