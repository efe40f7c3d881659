"""One Lloyd loop over any assigner: rows in memory, shards of them, or something made by hand."""

import math
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from api import (
    LIMBS,
    ClusterSums,
    ExactSums,
    FloatStatistics,
    HostData,
    InMemoryAssigner,
    MeanUpdate,
    NarrowSums,
    Rows,
    StopRule,
    SumsByLabel,
    lloyd,
    refine,
    total_cost,
    unit_rows,
    whole,
)
from api import cluster_sums_module as cluster_sums
from hypothesis import given
from hypothesis import strategies as st
from laws import brute
from laws.cases import LAYOUTS, rows, start, weighted_or_not
from laws.shards import ShardedAssigner
from scipy import sparse


@pytest.fixture
def layout(request, monkeypatch):
    """Dense or CSR rows; of CSR rows with a table of running sums, or without one."""
    layout, table = request.param
    if layout == "csr":
        monkeypatch.setattr(cluster_sums, "TABLE", 0 if table else 10**9)
    return layout


every_table = pytest.mark.parametrize(
    "layout", [("dense", True), ("csr", True), ("csr", False)], indirect=True
)


def assigners_of(X, weight, k, cuts, algorithm="auto", layout="dense"):
    """Assigners of the rows between the cuts."""
    parts = np.split(np.arange(X.shape[0]), cuts)
    return [
        InMemoryAssigner(
            Rows.of(LAYOUTS[layout](X[part])),
            None if weight is None else weight[part],
            k,
            algorithm,
        )
        for part in parts
    ]


def run(assigner, centers, max_iter=50):
    return lloyd(assigner, centers, MeanUpdate(assigner), StopRule(max_iter, 0.0))


def slow_in_turn(function, shards):
    """The first shard answers last, each in a thread of its own; answers are in their order."""

    def late(item):
        place, shard = item
        time.sleep(0.002 * (len(shards) - place))
        return function(shard)

    with ThreadPoolExecutor(len(shards)) as pool:
        return list(pool.map(late, enumerate(shards)))


def backwards(function, shards):
    """The last shard computes first."""
    return [function(shard) for shard in reversed(shards)][::-1]


@weighted_or_not
@pytest.mark.parametrize("layout", LAYOUTS)
def test_who_computes_and_who_answers_first_changes_no_bit(layout, weighted):
    X = rows(900, 5, seed=3, sparsity=0.2)
    weight = np.random.default_rng(1).exponential(size=900) if weighted else None
    init = start(X, 12)
    init[[2, 7]] = 1e3  # two clusters start empty: far rows of all shards are compared
    ends = [
        run(ShardedAssigner(assigners_of(X, weight, 12, [100, 101, 500], layout=layout), how), init)
        for how in (map, slow_in_turn, backwards)
    ]
    assert ends[0].n_iter > 4
    for other in ends[1:]:
        assert ends[0].centers.tobytes() == other.centers.tobytes()
        assert ends[0].n_iter == other.n_iter


@given(n=st.integers(6, 60), k=st.integers(1, 6), seed=st.integers(0, 10**6), data=st.data())
def test_cuts_and_permutations_of_the_rows_change_no_bit(n, k, seed, data):
    """Values of any magnitude, ties and empty clusters included, from the same start."""
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=17)))
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3)) * 10.0 ** rng.integers(-9, 9, size=(n, 1))
    X[rng.integers(n, size=n // 3)] = X[0]
    weight = data.draw(st.sampled_from([None, rng.integers(0, 4, size=n) * rng.uniform(size=n)]))
    init = rng.permutation(X)[:k] + 0.125
    init[rng.uniform(size=k) < 0.3] = 1e12
    whole = run(InMemoryAssigner(Rows.of(X), weight, k), init, 5)
    order = rng.permutation(n)
    moved = None if weight is None else weight[order]
    for assigner in (
        ShardedAssigner(assigners_of(X, weight, k, cuts)),
        ShardedAssigner(assigners_of(X[order], moved, k, cuts)),
    ):
        other = run(assigner, init, 5)
        assert whole.centers.tobytes() == other.centers.tobytes()
        assert whole.n_iter == other.n_iter


@every_table
@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly", "elkan", "auto"])
def test_statistics_are_those_of_the_labels(algorithm, layout):
    """After every step: sums, weights, counts, cost and changes, in memory and in shards."""
    X, weight = rows(700, 4, seed=5), np.random.default_rng(2).integers(0, 3, size=700) * 0.5
    centers, labels = start(X, 9), np.full(700, -1)
    one = InMemoryAssigner(Rows.of(LAYOUTS[layout](X)), weight, 9, algorithm)
    many = ShardedAssigner(assigners_of(X, weight, 9, [10, 11, 400], algorithm, layout))
    for _ in range(6):
        before, labels = labels, brute.nearest(X, centers)
        sums = np.zeros((9, 4))
        np.add.at(sums, labels, X * weight[:, None])
        for statistics in (one.assign(centers), many.assign(centers)):
            assert statistics.changed == np.count_nonzero(labels != before)
            assert np.array_equal(statistics.counts, np.bincount(labels[weight > 0], minlength=9))
            np.testing.assert_allclose(statistics.sums, sums, rtol=1e-12, atol=1e-12)
            expected = np.bincount(labels, weight, minlength=9)
            np.testing.assert_allclose(statistics.weights, expected, rtol=1e-14)
            cost = brute.inertia(X, centers, labels, weight)
            assert statistics.cost == pytest.approx(cost, rel=1e-12)
        centers = MeanUpdate(one)(centers, one.assign(centers))


def test_added_sums_keep_what_rounding_takes():
    """A giant in one shard and its negative in another leave the small rows' sum."""
    X = np.array([[1e17], [1.0], [-1e17], [1.0], [3.0]])
    statistics = ShardedAssigner(assigners_of(X, None, 1, [1, 2, 3, 4])).assign(np.zeros((1, 1)))
    assert statistics.sums[0, 0] == 5.0


def test_the_loop_asks_for_nothing_but_statistics():
    """An assigner made by hand, an update of another kind, and a rule that counts steps."""
    seen = []

    class Halves:
        def assign(self, centers, moves=None):
            seen.append(centers.copy())
            return FloatStatistics(np.array([[8.0]]), np.array([2.0]), np.array([1]), None)

    end = lloyd(
        Halves(),
        np.zeros((1, 1)),
        lambda centers, s: centers + (s.sums / s.weights[:, None] - centers) / 2,
        lambda step: step.iteration == 2,
    )
    assert [float(c[0, 0]) for c in seen] == [0.0, 2.0, 3.0]
    assert end.centers[0, 0] == 3.5
    assert end.n_iter == 3
    assert not end.converged


@given(n=st.integers(1, 200), seed=st.integers(0, 10**6), outlier=st.sampled_from([1.0, 1e3, 1e9]))
def test_sums_are_those_of_exact_arithmetic(n, seed, outlier):
    """Off by less than 2^-60 of the largest value a row, also beside a far row."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-5, 5, size=(n, 2))
    X[0] *= outlier
    weight = rng.exponential(size=n)
    labels = rng.integers(3, size=n).astype(np.int32)
    found = ClusterSums(Rows.of(X), weight, 3).recompute(labels)
    for j in range(3):
        terms = (X * weight[:, None])[labels == j]
        for column in range(2):
            off = Fraction(found.sums.values[j, column]) - sum(map(Fraction, terms[:, column]))
            rounding = Fraction(abs(found.sums.values[j, column])) / 2**53
            assert abs(off) <= rounding + n * Fraction(np.abs(X).max() * weight.max()) / 2**91
    assert total_cost(X[:, 0], weight) == math.fsum(X[:, 0] * weight)


@pytest.mark.parametrize("lightest", [1.0, 1e-60, 1e-250], ids=str)
def test_tiny_values_are_added_up_beside_a_far_row(lightest):
    """Also if the product of the smallest value and the smallest weight underflows to zero."""
    X, weight = np.array([[1e100], [1e-200], [2e-200]]), np.array([1.0, 1.0, lightest])
    found = ClusterSums(Rows.of(X), weight, 2).recompute(np.array([0, 1, 1], dtype=np.int32))
    assert found.sums.values.tolist() == [[1e100], [1e-200 + 2e-200 * lightest]]


@pytest.mark.parametrize("bits", [30, 39, 50, 62, 64, 100])
def test_a_far_row_leaves_sums_of_others_exact(bits):
    X = np.vstack([np.random.default_rng(bits).uniform(1, 2, (999, 1)), [[2.0**bits]]])
    labels = (np.arange(1000) == 999).astype(np.int32)
    found = ClusterSums(Rows.of(X), None, 2).recompute(labels).sums.values
    assert found[0] == math.fsum(X[:999, 0])


@weighted_or_not
def test_a_table_of_sums_changes_no_bit(weighted, monkeypatch):
    """Also where clusters become empty."""
    X = np.repeat(rows(300, 20, seed=9, sparsity=0.8), 2, axis=0)
    weight = np.random.default_rng(3).integers(0, 3, size=600) * 0.1 if weighted else None
    init = X[np.arange(60)]  # every centre twice, so that half of the clusters are empty
    ends = []
    for table in (0, 10**9):
        monkeypatch.setattr(cluster_sums, "TABLE", table)
        ends.append(run(InMemoryAssigner(Rows.of(sparse.csr_array(X)), weight, 60), init))
    assert ends[0].centers.tobytes() == ends[1].centers.tobytes()
    assert ends[0].n_iter == ends[1].n_iter > 2


@weighted_or_not
def test_sums_by_label_are_those_of_the_table(weighted):
    """Bit for bit, also if the short sums of one cluster would overflow."""
    rng = np.random.default_rng(6)
    n = 160_000
    X = sparse.csr_array(rng.random((n, 30)) * (rng.random((n, 30)) < 0.05))
    X.data *= 10.0 ** rng.integers(-9, 0, size=X.nnz)
    most_of_a_limb = np.full((n, 1), 0.5 + 2.0**-46 - 2.0**-53)
    view = Rows.of(sparse.csr_array(sparse.hstack([X, most_of_a_limb], format="csr")))
    weight = rng.integers(0, 3, size=n) / 2.0 if weighted else None
    labels = np.minimum(rng.integers(40, size=n), 3).astype(np.int32)  # most rows have label 3
    table = ClusterSums(view, weight, 5).recompute(labels)
    found = SumsByLabel(view, weight, labels, 5, table.scale)
    assert np.array_equal(found.values, table.sums.values)
    assert np.array_equal(found.limbs, table.sums.limbs)


@pytest.mark.parametrize("binades", [20, 60])  # values fit into one word, or do not
def test_sums_by_label_of_float32_are_those_of_the_table(binades):
    """Bit for bit, also if the words of one cluster would overflow."""
    rng = np.random.default_rng(7)
    n = 30_000
    X = rng.uniform(0.5, 1, (n, 30)) * 2.0 ** -rng.integers(0, binades, (n, 30))
    X *= rng.choice([-1, 0, 0, 0, 1], size=(n, 30))
    X[:, :2] = 1 - 2.0**-24, 2.0**-24 - 1
    view = Rows.of(sparse.csr_array(X.astype(np.float32)))
    labels = np.minimum(rng.integers(40, size=n), 3).astype(np.int32)
    table = ClusterSums(view, None, 5).recompute(labels)
    found = SumsByLabel(view, None, labels, 5, table.scale)
    assert np.array_equal(found.values, table.sums.values)


@given(seed=st.integers(0, 10**6), bits=st.integers(1, 61))
def test_sums_are_rounded_to_the_nearest(seed, bits):
    limbs = np.random.default_rng(seed).integers(-(2**bits), 2**bits, size=(1, 1, LIMBS, 40))
    limbs[..., :10] //= 2 ** np.arange(0, 60, 20)[:, None]  # sums of few digits, and ties
    expected = [float(Fraction(total)) for total in whole(limbs[0, 0].T)]
    assert np.array_equal(ExactSums(limbs, 92).values[0], expected)


def wholes(sums):
    return [whole(table[:, :, i]) for table in sums.limbs for i in range(table.shape[2])]


@pytest.mark.parametrize("smallest", [2.0**-20, 2.0**-29 + 2.0**-52, 2.0**-38])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_of_many_rows_are_exact(dtype, smallest):
    """Float32 values of similar magnitudes are added up in one word of 51 bits, others in two."""
    X = (-np.random.default_rng(1).uniform(smallest, 1, size=(20_000, 3))).astype(dtype)
    X[:9000, 1] = smallest
    X[5, 2] = 1 - 2.0**-20
    labels = (np.arange(len(X)) % 7 == 0).astype(np.int32)
    sums = ClusterSums(Rows.of(X), None, 2).recompute(labels).sums
    for column, found in zip(X.T, wholes(sums), strict=True):
        terms = [int(Fraction(float(v)) * 2 ** (92 - sums.exponent)) for v in column]
        assert found == [
            sum(t for t, j in zip(terms, labels, strict=True) if j == c) for c in (0, 1)
        ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_moving_rows_back_and_forth_leaves_no_trace(layout, dtype):
    """Running sums equal sums computed anew, bit for bit, after any number of moves."""
    X = rows(3000, 6, seed=8, sparsity=0.3) * 10.0 ** np.arange(-6, 6, 2)
    X = X.astype(dtype)
    view = Rows.of(LAYOUTS[layout](X))
    assigner = InMemoryAssigner(view, None, 7)
    rng = np.random.default_rng(4)
    for _ in range(20):
        found = assigner.assign(start(X, 7).astype(np.float64) + rng.normal(size=(7, 6)) * 0.05)
        fresh = ClusterSums(view, None, 7).recompute(assigner.labels)
        assert wholes(found.exact_sums) == wholes(fresh.sums)
        assert np.array_equal(found.counts, fresh.counts)


@pytest.mark.parametrize(("bits", "narrow"), [(0, True), (20, True), (38, True), (39, False)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_sums_in_less_memory_are_the_same(bits, narrow, dtype):
    """Also of negative values, of values of many sizes, and after rows have moved."""
    n, d, k = 2500, 96, 400
    rng = np.random.default_rng(bits)
    X = (rng.uniform(1, 2, (n, d)) * rng.choice([-1, 1], (n, d))).astype(dtype)
    if dtype == np.float32:
        X *= 2.0 ** -rng.integers(0, bits + 1, (n, d)).astype(np.float32)
    view = Rows.of(X)
    less = ClusterSums(view, None, k, narrow=True)
    assert isinstance(less.sums, NarrowSums) == (narrow or dtype == np.float16)
    assigner = InMemoryAssigner(view, None, k)
    centers = start(X, k).astype(np.float64)
    for _ in range(4):
        found = assigner.assign(centers)
        fresh = ClusterSums(view, None, k).recompute(assigner.labels)
        less.recompute(assigner.labels)
        for sums in (found.exact_sums, less.sums):
            assert wholes(sums) == wholes(fresh.sums)
            np.testing.assert_array_equal(sums.values, fresh.sums.values)
        np.testing.assert_array_equal(found.counts, fresh.counts)
        np.testing.assert_array_equal(found.weights, fresh.weights.values[:, 0])
        centers = fresh.sums.values / np.maximum(fresh.counts, 1)[:, None]


def test_an_interrupted_update_leaves_no_sums_that_count_as_complete(monkeypatch):
    """The next assignment adds up all rows, although no label has changed."""
    X = rows(400, 5, np.float64, seed=2)
    centers, native = start(X, 6).astype(np.float64), cluster_sums._native

    class Failing:
        def __getattr__(self, name):
            if name == "update":
                raise MemoryError
            return getattr(native, name)

    assigner = InMemoryAssigner(Rows.of(X), None, 6)
    monkeypatch.setattr(cluster_sums, "_native", Failing())
    with pytest.raises(MemoryError):
        assigner.assign(centers)
    monkeypatch.undo()
    found, right = assigner.assign(centers), InMemoryAssigner(Rows.of(X), None, 6).assign(centers)
    assert found.changed == 0
    assert np.array_equal(found.counts, right.counts)
    assert np.array_equal(found.sums, right.sums)


def test_a_start_in_float32_is_not_written_over():
    """Steps would be rounded: over many sets, some end elsewhere."""
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(300, 3)).astype(np.float32)
        X *= 10.0 ** (seed % 5)
        given, data = X[:9].copy(), HostData(Rows.of(X))
        one = refine(data, given, StopRule(60, 0.0))
        other = refine(data, given, StopRule(60, 0.0), overwrite=True)
        assert np.array_equal(given, X[:9])
        assert one.n_iter == other.n_iter
        np.testing.assert_array_equal(one.centers, other.centers)


@pytest.mark.parametrize("max_iter", [1, 4, 300])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lost", [0, 3])
def test_centres_that_are_overwritten_end_at_the_same_place(max_iter, unit, dtype, lost):
    """The first `lost` centres are far away: their clusters are empty."""
    X = rows(1200, 300, dtype, seed=5)  # the means are computed in two parts
    X = unit_rows(X) if unit else X
    data, init = HostData(Rows.of(X)), start(X, 150).astype(np.float64)
    init[:lost] = -100 * init[:lost]
    stop, ends = StopRule(max_iter, 0.0), []
    for overwrite in (False, True):
        given = init.copy()
        ends.append(refine(data, given, stop, unit=unit, overwrite=overwrite))
        assert np.array_equal(given, init) != overwrite
    one, other = ends
    np.testing.assert_array_equal(one.centers, other.centers)
    np.testing.assert_array_equal(one.labels, other.labels)
    assert (one.inertia, one.n_iter, one.converged) == (
        other.inertia,
        other.n_iter,
        other.converged,
    )
