"""A graph's searches give what the full table of shortest paths gives, without making it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csgraph
from threadpoolctl import threadpool_limits

from kvariates.data.graph import Graph

INTEGERS = st.integers(0, 3)  # zero lengths, and ties all over
LENGTHS = {
    "integers": INTEGERS,
    "ones": st.just(1),
    "reals": st.floats(0, 1e3, allow_subnormal=False),
    "scales": st.sampled_from([0.0, 1e-17, 0.1, 1.0, 1 / 3, 1e17]),  # sums that round a lot away
}
EXACT = ("integers", "ones")


def csr_of(n, edges):
    """From {(u, v): length}: both directions are stored, zeros too."""
    u, v = np.array(list(edges), dtype=np.int64).reshape(-1, 2).T
    w = np.array(list(edges.values()), dtype=np.float64)
    both = (np.concatenate([u, v]), np.concatenate([v, u]))
    return sparse.csr_array(sparse.coo_array((np.concatenate([w, w]), both), shape=(n, n)))


@st.composite
def graphs(draw, lengths="integers", most=12):
    """Few edges leave components and isolated nodes; many leave parallel ways."""
    n = draw(st.integers(1, most))
    pairs = [(u, v) for u in range(n) for v in range(u)]
    some = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=3 * n)) if pairs else []
    return csr_of(n, {pair: draw(LENGTHS[lengths]) for pair in some})


def table(csr):
    """All distances by Bellman and Ford: the smallest sum along a path, from the row's node on."""
    n, coo = csr.shape[0], csr.tocoo()
    u, v = coo.coords
    d = np.where(np.eye(n, dtype=bool), 0.0, np.inf)
    for _ in range(n):
        for a, b, w in zip(u, v, coo.data, strict=True):
            d[:, b] = np.minimum(d[:, b], d[:, a] + w)
    return d


def weights_of(draw, n):
    return draw(st.none() | st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n))


def some_points(draw, n, most=5):
    return np.array(draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=most)))


def distinct_points(draw, n, most=5):
    found = draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=most))
    return np.array(found)


def two_of(rows):
    """First and second of every column by a stable sort: ties to the lowest slot."""
    order = np.argsort(rows, axis=0, kind="stable")
    costs = np.take_along_axis(rows, order, axis=0)
    if len(rows) == 1:
        return order[0], order[0], costs[0], np.full(rows.shape[1], np.inf)
    return order[0], order[1], costs[0], costs[1]


def assert_near(near, d, chosen, *, ties):
    slot, second, cost, second_cost = two_of(d[chosen])
    assert np.array_equal(near.cost, cost)
    assert np.array_equal(near.second_cost, second_cost)
    nodes = np.arange(len(cost))
    assert np.array_equal(d[chosen][near.labels, nodes], cost)
    if len(chosen) > 1:
        assert np.array_equal(d[chosen][near.second, nodes], second_cost)
        assert (near.labels != near.second).all()
    if ties:
        assert np.array_equal(near.labels, slot)
        assert np.array_equal(near.second, second)


def pair_cost(d, chosen, weight):
    """How many points of positive weight nothing reaches, and the sum over the others."""
    cost = d[chosen].min(axis=0)
    far = np.isinf(cost)
    return int((far & (weight > 0)).sum()), float((weight[~far] * cost[~far]).sum())


def change(before, after):
    if after[0] != before[0]:
        return np.inf if after[0] > before[0] else -np.inf
    return after[1] - before[1]


@pytest.mark.parametrize("lengths", LENGTHS)
@given(data=st.data())
def test_distances_are_those_of_shortest_paths(data, lengths):
    csr = data.draw(graphs(lengths))
    graph, d = Graph.of(csr), table(csr)
    for point in some_points(data.draw, graph.n):
        others = some_points(data.draw, graph.n)
        assert np.array_equal(graph.among(point, others), d[point, others])
        assert np.array_equal(graph.distances(others), d[others])  # no trace of the search before


@given(csr=graphs("reals"))
def test_distances_are_scipys(csr):
    csr.data += 1e-3  # zeros are another matter there
    everything = np.arange(csr.shape[0])
    assert np.array_equal(Graph.of(csr).distances(everything), csgraph.dijkstra(csr))


@given(csr=graphs())
def test_components_are_what_is_within_reach(csr):
    label = Graph.of(csr).components()
    assert np.array_equal(np.isfinite(table(csr)), label[:, None] == label)


RADII = st.sampled_from([0.0, 0.5, 1.0, 2.0, 1e9, np.inf])


@pytest.mark.parametrize("lengths", LENGTHS)
@given(data=st.data())
def test_balls_are_open_and_sorted(data, lengths):
    csr = data.draw(graphs(lengths))
    d, points = table(csr), some_points(data.draw, csr.shape[0])
    radii = np.array([data.draw(RADII) for _ in points])
    balls = Graph.of(csr).ball(points, radii)
    assert balls.start[0] == 0
    for i, (point, radius) in enumerate(zip(points, radii, strict=True)):
        row = slice(balls.start[i], balls.start[i + 1])
        assert np.array_equal(np.sort(balls.point[row]), np.flatnonzero(d[point] < radius))
        assert np.array_equal(balls.distance[row], d[point][balls.point[row]])
        assert (np.diff(balls.distance[row]) >= 0).all()


@pytest.mark.parametrize("lengths", LENGTHS)
@given(data=st.data())
def test_the_two_nearest(data, lengths):
    """A node may be chosen twice: two slots that tie everywhere."""
    csr = data.draw(graphs(lengths))
    chosen = some_points(data.draw, csr.shape[0])
    near = Graph.of(csr).two_nearest(chosen)
    assert_near(near, table(csr), chosen, ties=lengths in EXACT)


@pytest.mark.parametrize("lengths", LENGTHS)
@given(data=st.data())
def test_a_chain_of_swaps_is_a_fresh_start(data, lengths):
    csr = data.draw(graphs(lengths))
    graph, d = Graph.of(csr), table(csr)
    chosen = some_points(data.draw, graph.n)
    near = graph.two_nearest(chosen)
    for _ in range(data.draw(st.integers(1, 8))):
        slot = data.draw(st.integers(0, len(chosen) - 1))
        chosen[slot] = data.draw(st.integers(0, graph.n - 1))
        near = graph.swapped(near, chosen, slot)
        assert_near(near, d, chosen, ties=lengths in EXACT)


@pytest.mark.parametrize("lengths", LENGTHS)
@given(data=st.data())
def test_swap_changes_are_differences_of_costs(data, lengths):
    csr = data.draw(graphs(lengths))
    graph, d = Graph.of(csr), table(csr)
    weight = weights_of(data.draw, graph.n)
    weight = None if weight is None else np.array(weight)
    w = np.ones(graph.n) if weight is None else weight
    chosen, everyone = some_points(data.draw, graph.n), np.arange(graph.n)
    found = graph.swap_changes(everyone, graph.two_nearest(chosen), len(chosen), weight)
    assert found.shape == (graph.n, len(chosen))
    before = pair_cost(d, chosen, w)
    sums = (w * np.where(np.isinf(d), 0, d).max(axis=0)).sum()  # what rounding goes by
    for (c, m), value in np.ndenumerate(found):
        after = pair_cost(d, np.r_[chosen[:m], c, chosen[m + 1 :]], w)
        if lengths in EXACT:
            assert value == change(before, after)
        else:
            np.testing.assert_allclose(value, change(before, after), atol=1e-13 * sums)


@pytest.mark.parametrize("lengths", LENGTHS)
@given(data=st.data())
def test_least_elements_are_nearer_than_all_before_them(data, lengths):
    csr = data.draw(graphs(lengths))
    order = distinct_points(data.draw, csr.shape[0], most=12)
    d = table(csr)
    lists = Graph.of(csr).least_elements(order)
    assert len(lists.start) == csr.shape[0] + 1
    for node in range(csr.shape[0]):
        row = slice(lists.start[node], lists.start[node + 1])
        to = d[order, node]
        before = np.minimum.accumulate(np.r_[np.inf, to[:-1]])
        first = np.flatnonzero(to < before)
        assert np.array_equal(lists.point[row], order[first])
        assert np.array_equal(lists.distance[row], to[first])


def grid(side, seed):
    """A torn grid: a fifth of the edges is missing."""
    rng = np.random.default_rng(seed)
    at = np.arange(side * side).reshape(side, side)
    ends = [(at[:, 1:], at[:, :-1]), (at[1:], at[:-1])]
    pairs = [pair for u, v in ends for pair in zip(u.flat, v.flat, strict=True)]
    return csr_of(side * side, {pair: rng.random() for pair in pairs if rng.random() < 0.8})


def test_a_larger_graph_agrees_with_scipy():
    csr = grid(40, seed=1)
    graph, rng = Graph.of(csr), np.random.default_rng(2)
    d = csgraph.dijkstra(csr)
    chosen, w = rng.choice(graph.n, 12, replace=False), rng.integers(0, 3, graph.n).astype(float)
    near = graph.two_nearest(chosen)
    assert_near(near, d, chosen, ties=True)
    for candidate in rng.choice(graph.n, 30):
        changes = graph.swap_changes(np.array([candidate]), near, 12, w)[0]
        before = pair_cost(d, chosen, w)
        for m in range(12):
            after = pair_cost(d, np.r_[chosen[:m], candidate, chosen[m + 1 :]], w)
            np.testing.assert_allclose(changes[m], change(before, after), rtol=1e-9, atol=1e-9)
        slot = int(rng.integers(12))
        chosen[slot] = candidate
        near = graph.swapped(near, chosen, slot)
        assert_near(near, d, chosen, ties=True)


def test_lists_are_short_on_a_random_order():
    """About ln(1600) + 0.6 = 8.0 entries a node; a list of all nodes nearby would have far more."""
    csr = grid(40, seed=3)
    lists = Graph.of(csr).least_elements(np.random.default_rng(4).permutation(1600))
    assert 4 < len(lists.point) / 1600 < 9


def test_threads_change_nothing():
    csr = grid(120, seed=5)
    rng = np.random.default_rng(6)
    chosen, some = rng.choice(csr.shape[0], (2, 40), replace=False)
    radii, weight, order = rng.random(40) * 9, rng.random(csr.shape[0]), rng.permutation(len(some))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="openmp"):
            graph = Graph.of(csr)
            near = graph.two_nearest(chosen)
            balls, lists = graph.ball(some, radii), graph.least_elements(some[order])
            parts = [*near.parts, graph.distances(some), graph.swap_changes(some, near, 40, weight)]
            parts += [balls.start, balls.point, balls.distance]
            parts += [lists.start, lists.point, lists.distance]
            parts += [part.copy() for part in graph.swapped(near, chosen, 3).parts]
            found.append(parts)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_arrays_of_any_order_and_type():
    """float32 lengths, unsorted rows: the distances of their tidy copy."""
    csr = grid(10, seed=7).astype(np.float32)
    row = np.repeat(np.arange(100), np.diff(csr.indptr))
    back = np.lexsort((-csr.indices, row))
    rough = sparse.csr_array((csr.data[back], csr.indices[back], csr.indptr), shape=csr.shape)
    assert not rough.has_sorted_indices
    found = Graph.of(rough).distances(np.arange(100))
    assert np.array_equal(found, table(csr.astype(np.float64)))
