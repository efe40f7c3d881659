"""One Lloyd loop over any assigner: rows in memory, shards of them, or something made by hand."""

import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from laws import brute
from laws.cases import LAYOUTS, rows, start, weighted_or_not

from kvariates.data.rows import Rows
from kvariates.refining.assigners import InMemoryAssigner, ShardedAssigner, Statistics
from kvariates.refining.lloyd import MeanUpdate, StopRule, lloyd


def shards_of(X, weight, k, cuts, algorithm="auto", layout="dense"):
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
        run(ShardedAssigner(shards_of(X, weight, 12, [100, 101, 500], layout=layout), how), init)
        for how in (map, slow_in_turn, backwards)
    ]
    assert ends[0].n_iter > 4
    for other in ends[1:]:
        assert ends[0].centers.tobytes() == other.centers.tobytes()
        assert ends[0].n_iter == other.n_iter


@given(n=st.integers(6, 60), k=st.integers(1, 6), seed=st.integers(0, 10**6), data=st.data())
def test_shards_of_whole_numbers_are_rows_in_memory(n, k, seed, data):
    """Sums of small whole numbers are exact, so that any cut must give the same centres."""
    cuts = sorted(data.draw(st.lists(st.integers(1, n), max_size=4)))
    rng = np.random.default_rng(seed)
    X = rng.integers(-50, 50, size=(n, 3)).astype(np.float64)
    weight = rng.integers(0, 4, size=n).astype(np.float64)
    weight[0] = 1
    init = X[rng.permutation(n)[:k]] + 0.125
    whole = run(InMemoryAssigner(Rows.of(X), weight, k), init, 3)
    parts = run(ShardedAssigner(shards_of(X, weight, k, cuts)), init, 3)
    # Equally far rows may fill an empty cluster in another order.
    assume(InMemoryAssigner(Rows.of(X), weight, k).assign(init).counts.all())
    assert np.array_equal(whole.centers, parts.centers)
    assert whole.n_iter == parts.n_iter


@pytest.mark.parametrize("algorithm", ["lloyd", "hamerly", "elkan", "auto"])
def test_statistics_are_those_of_the_labels(algorithm):
    """After every step: sums, weights, counts, cost and changes, in memory and in shards."""
    X, weight = rows(700, 4, seed=5), np.random.default_rng(2).integers(0, 3, size=700) * 0.5
    centers, labels = start(X, 9), np.full(700, -1)
    one = InMemoryAssigner(Rows.of(X), weight, 9, algorithm)
    many = ShardedAssigner(shards_of(X, weight, 9, [10, 11, 400], algorithm))
    for _ in range(6):
        before, labels = labels, brute.nearest(X, centers)
        sums = np.zeros((9, 4))
        np.add.at(sums, labels, X * weight[:, None])
        for statistics in (one.assign(centers), many.assign(centers)):
            assert statistics.changed == np.count_nonzero(labels != before)
            assert np.array_equal(statistics.counts, np.bincount(labels[weight > 0], minlength=9))
            np.testing.assert_allclose(statistics.total_sums, sums, rtol=1e-12, atol=1e-12)
            expected = np.bincount(labels, weight, minlength=9)
            np.testing.assert_allclose(statistics.total_weights, expected, rtol=1e-14)
            cost = brute.inertia(X, centers, labels, weight)
            assert statistics.cost == pytest.approx(cost, rel=1e-12)
        centers = MeanUpdate(one)(centers, one.assign(centers))


def test_statistics_travel_to_another_process():
    statistics = shards_of(rows(50, 3), None, 4, [])[0].assign(rows(50, 3)[:4])
    copy = pickle.loads(pickle.dumps(statistics))
    assert copy.cost == statistics.cost > 0
    assert np.array_equal(copy.total_sums, statistics.total_sums)


def test_added_sums_keep_what_rounding_takes():
    """A giant in one shard and its negative in another leave the small rows' sum."""
    X = np.array([[1e17], [1.0], [-1e17], [1.0], [3.0]])
    statistics = ShardedAssigner(shards_of(X, None, 1, [1, 2, 3, 4])).assign(np.zeros((1, 1)))
    assert statistics.total_sums[0, 0] == 5.0


def test_the_loop_asks_for_nothing_but_statistics():
    """An assigner made by hand, an update of another kind, and a rule that counts steps."""
    seen = []

    class Halves:
        def assign(self, centers, moves=None):
            seen.append(centers.copy())
            return Statistics(np.array([[8.0]]), np.array([2.0]), np.array([1]), None)

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
