"""The searches of a graph agree with a full table of shortest-path distances."""

import numpy as np
from api import Graph
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.brute import assert_two_nearest
from laws.threads import on_threads
from laws.trees import csr_of
from scipy import sparse
from scipy.sparse import csgraph

LENGTHS = {
    "integers": st.integers(0, 3),  # zero lengths, and many ties
    "ones": st.just(1),
    "reals": st.floats(0, 1e3, allow_subnormal=False),
    "scales": st.sampled_from([0.0, 1e-17, 0.1, 1.0, 1 / 3, 1e17]),  # sums with large rounding
}
EXACT = ("integers", "ones")


def table(csr):
    """All distances by Bellman and Ford: the smallest sum along a path, from the row's node on."""
    n, coo = csr.shape[0], csr.tocoo()
    u, v = coo.coords
    d = np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    for _ in range(n):
        for a, b, w in zip(u, v, coo.data, strict=True):
            d[:, b] = np.minimum(d[:, b], d[:, a] + w)
    return d


@st.composite
def graphs(draw, lengths=tuple(LENGTHS), most=12):
    """A graph, its table of distances, and whether sums of lengths are exact.

    With few edges there are components and isolated nodes; with many, several paths.
    """
    n, kind = draw(st.integers(1, most)), draw(st.sampled_from(lengths))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    some = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3 * n)) if pairs else []
    csr = csr_of(n, {pair: draw(LENGTHS[kind]) for pair in some})
    return Graph(csr), table(csr), kind in EXACT


def some_points(draw, n, most=5, **options):
    return np.array(draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=most, **options)))


def pair_cost(d, medoids, weight):
    """How many points of positive weight no medoid reaches, and the sum over the others."""
    cost = d[medoids].min(axis=0)
    far = np.isinf(cost)
    return int((far & (weight > 0)).sum()), float((weight[~far] * cost[~far]).sum())


def change(before, after):
    if after[0] != before[0]:
        return np.inf if after[0] > before[0] else -np.inf
    return after[1] - before[1]


def replaced(medoids, slot, point):
    return np.r_[medoids[:slot], point, medoids[slot + 1 :]]


@given(case=graphs(), data=st.data())
def test_distances_are_those_of_shortest_paths(case, data):
    graph, d, _ = case
    points, others = some_points(data.draw, graph.n), some_points(data.draw, graph.n)
    for _ in range(2):  # no search changes the next one
        assert np.array_equal(graph.distances(points, others), d[np.ix_(points, others)])
        assert np.array_equal(graph.distances(others), d[others])
    label = graph.components()
    assert np.array_equal(np.isfinite(d), label[:, None] == label)


RADII = st.sampled_from([0.0, 0.5, 1.0, 2.0, 1e9, np.inf])


@given(case=graphs(), data=st.data())
def test_balls_are_open_and_sorted(case, data):
    graph, d, _ = case
    points = some_points(data.draw, graph.n)
    radii = np.array([data.draw(RADII) for _ in points])
    balls = graph.ball(points, radii)
    assert balls.start[0] == 0
    for i, (point, radius) in enumerate(zip(points, radii, strict=True)):
        row = slice(balls.start[i], balls.start[i + 1])
        assert np.array_equal(np.sort(balls.point[row]), np.flatnonzero(d[point] < radius))
        assert np.array_equal(balls.distance[row], d[point][balls.point[row]])
        assert (np.diff(balls.distance[row]) >= 0).all()


@settings(max_examples=300)
@given(case=graphs(), data=st.data())
def test_two_nearest_stay_right_after_swaps(case, data):
    """A node may be a medoid twice: then two slots tie everywhere."""
    graph, d, exact = case
    medoids = some_points(data.draw, graph.n)
    near = graph.two_nearest(medoids)
    assert_two_nearest(near, d, medoids, ties=exact)
    for _ in range(data.draw(st.integers(0, 8))):
        slot = data.draw(st.integers(0, len(medoids) - 1))
        medoids[slot] = data.draw(st.integers(0, graph.n - 1))
        near = graph.update_two_nearest(near, medoids, slot)
        assert_two_nearest(near, d, medoids, ties=exact)


@settings(max_examples=200)
@given(case=graphs(), data=st.data())
def test_swap_changes_are_differences_of_costs(case, data):
    graph, d, exact = case
    values = st.sampled_from([0.0, 0.5, 1.0, 3.0])
    weight = data.draw(st.none() | st.lists(values, min_size=graph.n, max_size=graph.n))
    weight = None if weight is None else np.array(weight)
    w = np.ones(graph.n) if weight is None else weight
    medoids = some_points(data.draw, graph.n)
    near = graph.two_nearest(medoids)
    changes = graph.swap_changes(np.arange(graph.n), near, len(medoids), weight)
    assert changes.shape == (graph.n, len(medoids))
    before = pair_cost(d, medoids, w)
    scale = (w * np.where(np.isinf(d), 0, d).max(axis=0)).sum()  # of rounding errors
    for (c, m), value in np.ndenumerate(changes):
        expected = change(before, pair_cost(d, replaced(medoids, m, c), w))
        if exact:
            assert value == expected
        else:
            np.testing.assert_allclose(value, expected, atol=1e-13 * scale)


@given(case=graphs(), data=st.data())
def test_least_elements_are_nearer_than_all_before_them(case, data):
    graph, d, _ = case
    order = some_points(data.draw, graph.n, most=12, unique=True)
    lists = graph.least_elements(order)
    assert len(lists.start) == graph.n + 1
    for node in range(graph.n):
        row = slice(lists.start[node], lists.start[node + 1])
        to = d[order, node]
        first = np.flatnonzero(to < np.minimum.accumulate(np.r_[np.inf, to[:-1]]))
        assert np.array_equal(lists.point[row], order[first])
        assert np.array_equal(lists.distance[row], to[first])


def grid(side, seed):
    """A grid without a fifth of its edges."""
    rng = np.random.default_rng(seed)
    at = np.arange(side * side).reshape(side, side)
    ends = [(at[:, 1:], at[:, :-1]), (at[1:], at[:-1])]
    pairs = [pair for u, v in ends for pair in zip(u.flat, v.flat, strict=True)]
    return csr_of(side * side, {pair: rng.random() for pair in pairs if rng.random() < 0.8})


def test_a_larger_graph_agrees_with_scipy():
    csr = grid(40, seed=1)
    graph, rng = Graph(csr), np.random.default_rng(2)
    csr.indices, csr.indptr = csr.indices.astype(np.int32), csr.indptr.astype(np.int32)
    d = csgraph.dijkstra(csr)  # an older SciPy takes int32 only
    assert np.array_equal(graph.distances(np.arange(graph.n)), d)
    medoids, w = rng.choice(graph.n, 12, replace=False), rng.integers(0, 3, graph.n).astype(float)
    near = graph.two_nearest(medoids)
    for candidate in rng.choice(graph.n, 30):
        assert_two_nearest(near, d, medoids, ties=True)
        changes = graph.swap_changes(np.array([candidate]), near, 12, w)[0]
        before = pair_cost(d, medoids, w)
        expected = [
            change(before, pair_cost(d, replaced(medoids, m, candidate), w)) for m in range(12)
        ]
        np.testing.assert_allclose(changes, expected, rtol=1e-9, atol=1e-9)
        slot = int(rng.integers(12))
        medoids[slot] = candidate
        near = graph.update_two_nearest(near, medoids, slot)


def test_least_elements_of_a_random_order_are_few():
    """About ln(1600) + 0.6 = 8.0 entries for each node."""
    csr = grid(40, seed=3)
    lists = Graph(csr).least_elements(np.random.default_rng(4).permutation(1600))
    assert 4 < len(lists.point) / 1600 < 9


def test_threads_change_nothing():
    """A second thread starts at 4e6 units of work, here 50 n points or 200 n / k candidates."""
    csr = grid(120, seed=5)
    rng = np.random.default_rng(6)
    medoids, some = rng.permutation(csr.shape[0])[:10], rng.permutation(csr.shape[0])[:40]
    radii, weight = rng.random(40) * 9, rng.random(csr.shape[0])

    def call():
        graph = Graph(csr)
        near, balls = graph.two_nearest(medoids), graph.ball(some, radii)
        parts = [graph.distances(some), graph.swap_changes(some, near, 10, weight)]
        return [*parts, balls.start, balls.point, balls.distance]

    first, *others = on_threads(call)
    for other in others:
        assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))


def test_float32_lengths_and_unsorted_rows_are_accepted():
    csr = grid(10, seed=7).astype(np.float32)
    row = np.repeat(np.arange(100), np.diff(csr.indptr))
    back = np.lexsort((-csr.indices, row))
    rough = sparse.csr_array((csr.data[back], csr.indices[back], csr.indptr), shape=csr.shape)
    assert not rough.has_sorted_indices
    found = Graph(rough).distances(np.arange(100))
    assert np.array_equal(found, table(csr.astype(np.float64)))
