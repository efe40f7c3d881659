"""Rows in blocks give the bits that they give in memory, however they are cut."""

import numpy as np
import pytest
from api import (
    BlockAssigner,
    BlockData,
    CountedBlocks,
    EuclideanPotential,
    Rows,
    SumScale,
    euclidean_potential,
    joint_cost,
    read_weights,
    sample,
    take_rows,
    total_cost,
    unit_rows,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.block_sources import CutRows, random_cuts
from laws.cases import (
    DTYPES,
    LAYOUTS,
    every_matrix,
    every_metric,
    rows,
    start,
    weighted_or_not,
    weights_for,
)

from kvariates import Dirac, KMeans

few_clusters = pytest.mark.filterwarnings("ignore:Number of distinct clusters")


def totals_of(blocks):
    counted = CountedBlocks(blocks, lambda totals: None)
    for _ in counted:
        pass
    return counted.totals


def same_fit(blocks_fit, memory_fit):
    """Return whether two fits agree to the last bit."""
    a, b = blocks_fit, memory_fit
    return (
        a.cluster_centers_.tobytes() == b.cluster_centers_.tobytes()
        and a.cluster_centers_.dtype == b.cluster_centers_.dtype
        and (a.inertia_, a.n_iter_) == (b.inertia_, b.n_iter_)
        and np.concatenate(list(a.labels_)).tobytes() == b.labels_.tobytes()
    )


# ---- totals and rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@given(
    n=st.integers(1, 40),
    bits=st.sampled_from([0, 20, 60, 100]),
    unit=st.sampled_from([-300, 0, 300]),
    seed=st.integers(0, 10**6),
    count=st.integers(0, 9),
)
def test_totals_are_those_of_all_rows(dtype, n, bits, unit, seed, count):
    """Also with values that differ by 2^100, blocks of zeros and blocks without rows."""
    rng = np.random.default_rng(seed)
    unit = unit if dtype == np.float64 else np.clip(unit, -20, 20)
    bits = bits if dtype == np.float64 else min(bits, 60)
    powers = unit + rng.integers(-bits // 2, bits // 2 + 1, size=(n, 1))
    X = (rng.normal(size=(n, 3)) * 2.0**powers).astype(dtype)
    X[rng.random(n) < rng.choice([0, 0.7])] = 0
    weight = rng.choice([None, 1])
    weight = None if weight is None else weights_for(n, seed) * 10.0 ** rng.integers(-9, 9)
    blocks, whole = CutRows(X, weight, random_cuts(n, count, seed)), Rows.of(X)
    totals = totals_of(blocks)
    assert totals.scale == SumScale.of(whole, weight)
    assert (totals.n, totals.d, totals.dtype) == (n, 3, dtype)
    assert totals.spread(blocks) == whole.spread()
    assert blocks.passes <= 3


def test_the_spread_of_similar_values_takes_one_more_pass():
    X = rows(500, 4, np.float32)
    blocks = CutRows(X, None, [100, 300])
    assert totals_of(blocks).spread(blocks) == Rows.of(X).spread()
    assert blocks.passes == 2


def test_zeros_leave_the_unit_of_other_blocks():
    """The exponent of zero is that of one: column sums of tiny values would vanish beside it."""
    X = np.vstack([np.zeros((3, 2)), 1e-100 * (1 + rows(5, 2) ** 2)])
    blocks = CutRows(X, None, [3])
    assert totals_of(blocks).spread(blocks) == Rows.of(X).spread() > 0


def test_rows_that_vanish_beside_others_change_no_bit_of_the_spread():
    """The column sum is a tie between two float64: a digit that memory drops must not break it."""
    X = np.array([[2.0**100], [3 * 2.0**47], [-1.0], [0.0]])
    blocks = CutRows(X, None, [2])
    assert totals_of(blocks).spread(blocks) == Rows.of(X).spread()
    assert blocks.passes == 3


@every_matrix
def test_rows_are_taken_by_number(dtype, layout):
    X = rows(60, 3, dtype, sparsity=0.4)
    wanted = np.array([31, 2, 44, 2, 0, 40])
    blocks = CutRows(LAYOUTS[layout](X), None, [5, 5, 30, 45, 50])
    taken = take_rows(blocks, wanted)
    assert taken.dtype == dtype
    assert taken.dense == (layout == "dense")
    assert np.array_equal(taken.take(np.arange(6)), X[wanted])
    assert blocks.blocks_read == 4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_on_the_sphere_do_not_depend_on_other_rows(layout):
    """Rows longer than NumPy's buffers, too."""
    X = LAYOUTS[layout](rows(60, 8999, sparsity=0.2))
    whole = unit_rows(X)
    for first, end in ((0, 1), (1, 2), (2, 33), (33, 60)):
        part = unit_rows(X[first:end])
        assert (part != whole[first:end]).sum() == 0


def test_costs_of_parts_are_added_exactly():
    cost, weight = np.array([1.0, 1e-20, 2.0**60, 3.0]), np.array([1.0, 2.0, 1.0, 0.5])
    parts = [(cost[:1], weight[:1]), (cost[1:], weight[1:])]
    assert joint_cost(parts) == total_cost(cost, weight)
    assert joint_cost([(np.array([1.7e308]), None)] * 2) == np.inf
    assert joint_cost([(np.array([np.inf]), None), (np.ones(1), None)]) == np.inf


# ---- Lloyd ---------------------------------------------------------------------------------------


@few_clusters
@every_metric
@every_matrix
@settings(max_examples=25)
@given(data=st.data())
def test_a_fit_from_given_centres_is_that_in_memory(dtype, layout, metric, data):
    """Weights, far rows, ties and empty clusters included."""
    n, k = data.draw(st.integers(6, 80)), data.draw(st.integers(1, 6))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    X = rows(n, 3, dtype, seed=int(rng.integers(99)), sparsity=0.3)
    X[: n // 8] *= data.draw(st.sampled_from([1, 1e3, 1e9]))
    X[rng.integers(n, size=n // 3)] = X[0]
    init = rng.permutation(X)[:k] + dtype(0.125)
    init[rng.random(k) < 0.3] = 1e12
    weight = data.draw(st.sampled_from([None, weights_for(n) + (np.arange(n) == 0)]))
    tol = data.draw(st.sampled_from([0, 1e-2]))
    model = KMeans(k, init=init, metric=metric, max_iter=12, tol=tol)
    X = LAYOUTS[layout](X)
    memory = KMeans(**model.get_params()).fit(X, sample_weight=weight)
    blocks = CutRows(X, weight, random_cuts(n, data.draw(st.integers(0, 5)), seed=n))
    assert same_fit(model.fit(blocks), memory)
    assert model.score(blocks) == memory.score(X, sample_weight=weight)


@few_clusters
def test_moved_empty_clusters_stop_where_memory_stops():
    """Two far rows are equal: one of two empty clusters stays empty while no label changes."""
    X = np.array([[0.0], [1], [1], [50], [50], [50]])
    for k in (3, 4, 5):
        init = np.array([[0.5], [1000], [1001], [1002], [1003]])[:k]
        memory = KMeans(k, init=init).fit(X)
        assert same_fit(KMeans(k, init=init).fit(CutRows(X, None, [1, 4])), memory)


def test_a_hash_says_whether_a_label_changed():
    """Only the label of the last row changes, and changes back."""
    X = np.append(np.arange(199) % 2 * 10.0, 20.9)[:, None]
    blocks = CutRows(X, None, [50])
    assigner = BlockAssigner(blocks, 4, totals_of(blocks).scale)
    near, far = np.array([[[0.0], [10], [20], [22]], [[0.0], [10], [19], [22]]])
    assert [assigner.assign(c).changed for c in (near, near, far, near)] == [None, 0, None, None]


@pytest.mark.parametrize("costs", [True, False])
def test_statistics_of_blocks_are_those_in_memory(costs):
    X, weight = rows(300, 3), weights_for(300)
    whole = BlockAssigner(CutRows(X, weight), 5, SumScale.of(Rows.of(X), weight))
    blocks = CutRows(X, weight, random_cuts(300, 7))
    parts = BlockAssigner(blocks, 5, totals_of(blocks).scale, costs=costs)
    for centers in (start(X, 5), start(X, 5, seed=2)):
        one, other = whole.assign(centers), parts.assign(centers)
        assert np.array_equal(one.sums, other.sums)
        assert np.array_equal(one.weights, other.weights)
        assert np.array_equal(one.counts, other.counts)
        assert one.cost == other.cost
        for a, b in zip(whole.farthest(7), parts.farthest(7), strict=True):
            assert np.array_equal(a, b)


# ---- k-means|| -----------------------------------------------------------------------------------


@pytest.mark.parametrize("trials", [1, 3], ids=["plain", "greedy"])
@weighted_or_not
def test_blocks_pick_the_rows_that_memory_picks(weighted, trials, monkeypatch):
    """The same rows, totals and masses; values of many magnitudes."""
    monkeypatch.setattr("kvariates.data.block_data.AT_ONCE", 100)
    X = rows(450, 5) * 10.0 ** np.random.default_rng(1).integers(-6, 6, size=(450, 1))
    weight = weights_for(450) if weighted else None
    whole = EuclideanPotential(Rows.of(X), weight, 40)
    picked = sample(whole, Dirac(), 40, np.random.default_rng(3), trials=trials)
    for cuts in ((), (200,), random_cuts(450, 9)):
        blocks = CutRows(X, weight, cuts)
        parts = euclidean_potential(BlockData(blocks, totals_of(blocks), read_weights(blocks)), 40)
        found = sample(parts, Dirac(), 40, np.random.default_rng(3), trials=trials)
        assert np.array_equal(found.indices, picked.indices)
        assert parts.total() == whole.total()
        assert np.array_equal(parts.masses(), whole.masses())
        again = np.random.default_rng(5), np.random.default_rng(5)
        assert np.array_equal(parts.draw_many(99, again[0]), whole.draw_many(99, again[1]))


LARGE = 30_000  # rows of nine features are too many values for the canonical order


@pytest.mark.parametrize(
    ("layout", "dtype", "metric", "weighted"),
    [
        ("dense", np.float64, "euclidean", False),
        ("dense", np.float32, "euclidean", True),
        ("dense", np.float32, "cosine", False),
        ("csr", np.float64, "euclidean", True),
    ],
)
def test_parallel_seeding_gives_the_fit_in_memory(layout, dtype, metric, weighted):
    X = LAYOUTS[layout](rows(LARGE, 9, dtype, sparsity=0.3))
    assert Rows.of(X).canonical_order() is None
    weight = weights_for(LARGE) if weighted else None
    model = KMeans(12, init="k-means||", random_state=7, n_init=2, max_iter=4, metric=metric)
    memory = KMeans(**model.get_params()).fit(X, sample_weight=weight)
    assert same_fit(model.fit(CutRows(X, weight, random_cuts(LARGE, 5))), memory)


def test_parallel_seeding_draws_what_rounds_leave_short():
    """Fewer candidates than k: the rest is drawn one by one, by rows read again."""
    X = rows(LARGE, 9)
    poisson = np.array([1, 0, 2, 1, 1])

    class Few(np.random.Generator):
        def poisson(self, lam, size):
            return poisson

    def few():
        return Few(np.random.PCG64(3))

    memory = KMeans(12, init="k-means||", random_state=few(), max_iter=2).fit(X)
    blocks = CutRows(X, None, [9000, 20_000])
    assert same_fit(
        KMeans(12, init="k-means||", random_state=few(), max_iter=2).fit(blocks), memory
    )


# ---- the start from a summary --------------------------------------------------------------------


@pytest.mark.parametrize("init", ["k-means++", "d2", "random"])
def test_any_cut_gives_the_same_fit_from_a_summary(init):
    X, weight = rows(25_000, 4, np.float32), weights_for(25_000)
    fits = [
        KMeans(6, init=init, random_state=0, n_init=2).fit(CutRows(X, weight, cuts))
        for cuts in ((), random_cuts(25_000, 6))
    ]
    assert fits[0].cluster_centers_.tobytes() == fits[1].cluster_centers_.tobytes()
    assert fits[0].inertia_ == fits[1].inertia_
    memory = KMeans(6, init=init, random_state=0, n_init=2).fit(X, sample_weight=weight)
    assert fits[0].inertia_ < 1.05 * memory.inertia_
    assert fits[0].inertia_ == -fits[0].score(CutRows(X, weight, [3]))
