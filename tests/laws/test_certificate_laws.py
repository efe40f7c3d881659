"""The bound of a certificate is never above the optimum, and close to it where possible."""

from decimal import Decimal, getcontext
from fractions import Fraction
from itertools import combinations
from math import asin, inf

import numpy as np
import pytest
from api import (
    METRICS,
    NATIVE_METRICS,
    CallableMetric,
    Certificate,
    DistanceLists,
    DistanceMatrix,
    DistanceTable,
    Graph,
    NeighborLists,
    SparseCosine,
    StreamedDistances,
    Vectors,
    unit_rows,
)
from api import distance_tables_module as distance_tables
from api import kmedian_certificate_module as certificate
from hypothesis import given, settings
from hypothesis import strategies as st
from laws.certified import as_graph, blobs, certified, exact_cost, line_optimum, optimum
from laws.threads import on_threads
from scipy.sparse import csr_array


@st.composite
def problems(draw):
    """A few points in the plane, many of them equal, weights with zeros, and any k."""
    n = draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.sampled_from([2, 6, 1000]))
    X = rng.integers(0, size, (n, 2)).astype(draw(st.sampled_from([np.float32, np.float64])))
    if draw(st.booleans()):
        X *= X.dtype.type(0.37)
    small, skewed = rng.integers(0, 3, n), rng.exponential(size=n) ** 3 * rng.integers(0, 2, n)
    weight = draw(st.sampled_from([np.ones(n), small.astype(float), skewed]))
    return X, weight, draw(st.integers(1, n)), rng


@settings(max_examples=1200)
@given(problems(), st.sampled_from(["vectors", "matrix", "callable", "graph"]))
def test_a_bound_is_never_above_the_optimum(problem, kind):
    X, weight, k, rng = problem
    vectors = Vectors(X, "manhattan")
    space = {
        "vectors": lambda: vectors,
        "matrix": vectors.matrix,
        "callable": lambda: CallableMetric(X.astype(float), lambda a, b: np.abs(a - b).sum()),
        "graph": lambda: as_graph(vectors.matrix().D),
    }[kind]()
    D = space.distances(np.arange(len(X)))
    best, cost = optimum(D, weight, k)
    medoids = best if rng.random() < 0.5 else rng.choice(len(X), k, replace=False)
    made = certified(space, medoids, weight, max_iter=int(rng.choice([1, 10, 60])))
    assert made.confidence == 1
    assert Fraction(made.lower_bound) <= cost
    assert made.lower_bound <= made.cost
    assert made.cost == pytest.approx(float(exact_cost(D, weight, medoids)), rel=1e-12)
    if k == len(X):
        assert made.cost == made.lower_bound == made.gap == 0


def true_distance(metric, a, b):
    """With 60 digits, of the numbers that the floats are."""
    a, b = ([Decimal(float(v)) for v in row] for row in (a, b))
    if metric == "haversine":
        return true_arc(*a, *b)
    if "cosine" in metric:
        size = sum(v * v for v in a).sqrt() * sum(v * v for v in b).sqrt()
        return 1 - sum(v * w for v, w in zip(a, b, strict=True)) / size
    gaps = [abs(v - w) for v, w in zip(a, b, strict=True)]
    return sum(gaps) if metric == "manhattan" else sum(gap * gap for gap in gaps).sqrt()


def sine(x, first=1):
    """The power series; the cosine with first=0."""
    term, total, i = x if first else Decimal(1), Decimal(0), first
    while abs(term) > Decimal("1e-70"):
        total, i = total + term, i + 2
        term *= -x * x / (i * (i - 1))
    return total


def true_arc(latitude, longitude, other_latitude, other_longitude):
    """The haversine formula; its arcsine by Newton's method."""
    up, along = (latitude - other_latitude) / 2, (longitude - other_longitude) / 2
    half = sine(latitude, 0) * sine(other_latitude, 0) * sine(along) ** 2 + sine(up) ** 2
    root = half.sqrt()
    arc = Decimal(asin(min(1.0, float(root))))
    for _ in range(6):
        arc -= (sine(arc) - root) / sine(arc, 0)
    return 2 * arc


def space_of(metric, X):
    if metric == "sparse cosine":
        return SparseCosine(unit_rows(csr_array(X)))
    return METRICS[metric].run(X, None)


def places(n, rng, dtype):
    return rng.uniform([-1.5, -6.0], [1.5, 6.0], (n, 2)).astype(dtype)


@pytest.mark.parametrize("metric", [*NATIVE_METRICS, "sparse cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_bound_is_never_above_the_optimum_of_the_exact_distances(metric, dtype):
    """Distances are rounded to the type of the rows, and unit rows too."""
    getcontext().prec = 60
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, d, k = int(rng.integers(3, 7)), int(rng.integers(1, 6)), int(rng.integers(1, 3))
        X = rng.normal(size=(n, d)).astype(dtype)
        if metric == "haversine":
            X, d = places(n, rng, dtype), 2
        if seed % 3 == 0:  # close pairs: their distances have few correct digits
            X = np.repeat(X, 2, axis=0) * (1 + 1e-5 * rng.normal(size=(2 * n, 1))).astype(dtype)
            X[::2] += rng.normal(size=(n, d)).astype(dtype) * dtype(1e-4)
        elif seed % 3 == 1 and metric != "haversine":
            # Whole numbers, whose distances look whole in float32.
            X = np.rint(X * 1e8).astype(dtype)
        space = space_of(metric, X)
        D = [[true_distance(metric, a, b) for b in X] for a in X]
        costs = {
            some: sum(min(D[j][i] for j in some) for i in range(len(X)))
            for some in combinations(range(len(X)), k)
        }
        best = min(costs, key=costs.__getitem__)
        made = certified(space, best)
        assert Decimal(made.lower_bound) <= costs[best] * (1 + Decimal("1e-50"))
        assert made.lower_bound >= 0.9 * float(costs[best]) - 1e-4, "too weak"


@settings(max_examples=300)
@given(problems())
def test_any_prices_prove_a_bound(problem):
    X, weight, k, rng = problem
    D = Vectors(X, "euclidean").matrix().D
    price = rng.exponential(D.max() + 0.1, len(X)) * rng.integers(0, 2, len(X))
    bound = certificate.lower_bound(weight, price, DistanceTable(weight, D).gains(price), k)
    assert Fraction(bound) <= optimum(D, weight, k)[1]


def test_on_a_line_the_gap_closes():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        k = int(rng.integers(1, 8))
        x, medoids, cost = line_optimum(rng.exponential(size=40) ** 2, k)
        made = certified(Vectors(x[:, None], "euclidean"), medoids)
        assert made.cost == pytest.approx(cost)
        assert made.gap < 1e-3


def test_on_a_tree_the_gap_closes():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        n, k = 14, int(rng.integers(2, 5))
        child = np.arange(1, n)
        parent = np.array([rng.integers(c) for c in child])
        half = csr_array((rng.random(n - 1), (child, parent)), shape=(n, n))
        space = Graph(csr_array(half + half.T))
        D = space.distances(np.arange(n))
        best = min(combinations(range(n), k), key=lambda chosen: D[list(chosen)].min(axis=0).sum())
        assert certified(space, best).gap < 1e-3


def test_the_bound_for_one_medoid_is_the_optimum_after_one_step():
    X, _ = blobs(200, 3)
    space = Vectors(X, "euclidean")
    weight = np.random.default_rng(3).exponential(size=200)
    totals = space.matrix().D @ weight
    made = certified(space, [int(totals.argmin())], weight)
    assert made.lower_bound == pytest.approx(totals.min(), rel=1e-9)
    assert made.iterations == 1


def test_a_poor_solution_has_a_large_gap():
    X, medoids = blobs(300, 4)
    poor = np.array([medoids[0], *np.flatnonzero(X[:, 0] < 5)[:3]])
    space = Vectors(X, "euclidean")
    good, bad = certified(space, medoids), certified(space, poor)
    assert bad.cost > 3 * good.cost
    assert bad.gap > bad.cost / good.cost - 1 - 1e-9  # else the bound is above a known cost
    assert bad.lower_bound > 0.9 * good.lower_bound  # the bound depends little on the solution


def test_a_weight_equals_repeated_rows():
    X, _ = blobs(60, 3)
    times = np.random.default_rng(0).integers(0, 4, 60)
    space = Vectors(X, "euclidean")
    D, price = space.matrix().D, np.random.default_rng(1).exponential(2, 60)
    repeated = np.repeat(D, times, axis=1)
    bounds = [
        certificate.lower_bound(weight, v, DistanceTable(weight, table).gains(v), 5)
        for table, weight, v in (
            (D, times.astype(float), price),
            (repeated, np.ones(times.sum()), np.repeat(price, times)),
        )
    ]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-12)
    made = certified(space, np.arange(3), times.astype(float))
    other = certified(DistanceMatrix(repeated), np.arange(3))
    assert made.cost == pytest.approx(other.cost)
    assert made.lower_bound == pytest.approx(other.lower_bound, rel=0.01)


def test_whole_numbers_are_rounded_up():
    rng = np.random.default_rng(5)
    for _ in range(40):
        X = rng.integers(0, 9, (7, 2)).astype(float)
        weight = rng.integers(0, 4, 7).astype(float)
        D = Vectors(X, "manhattan").matrix().D
        medoids, cost = optimum(D, weight, 2)
        if cost == 0:
            continue
        for space in (DistanceMatrix(D), as_graph(D)):
            made = certified(space, medoids, weight, max_iter=5)
            assert made.rounded
            assert made.lower_bound == int(made.lower_bound) <= cost
        assert not certified(DistanceMatrix(D + 0.5 * (D > 0)), medoids, weight).rounded
        assert not certified(DistanceMatrix(D), medoids, weight + 0.25).rounded
        assert not certified(as_graph(0.3 * D), medoids, weight).rounded


@pytest.mark.parametrize("way", ["table", "streamed", "lists", "graph", "pool"])
def test_a_part_of_the_candidates_gives_nearly_the_same_bound(monkeypatch, way):
    X, medoids = blobs(900, 5)
    space = Vectors(X.astype(np.float32 if way == "table" else np.float64), "euclidean")
    everyone = certified(space, medoids)
    monkeypatch.setattr(certificate, "SMALL", 0)
    monkeypatch.setattr(certificate, "ADDED", 64)
    if way in ("streamed", "pool"):
        monkeypatch.setattr(distance_tables, "KEPT_BYTES", 0 if way == "streamed" else 2**20)
        monkeypatch.setattr(certificate, "POOL", 400)
        distances, start = StreamedDistances(np.ones(900), space), space.two_nearest(medoids).cost
        dual = certificate.DualProblem(distances, 5, everyone.cost, start, np.full(900, inf))
        bound = certificate.maximize_bound(dual, 480, np.random.default_rng(0)).bound
    else:
        if way == "lists":
            monkeypatch.setattr(certificate, "TABLE_BYTES", 0)
        way_space = as_graph(space.matrix().D) if way == "graph" else space
        bound = certified(way_space, medoids).lower_bound
    assert everyone.gap < 0.02
    assert 0.98 * everyone.lower_bound < bound <= everyone.cost


def test_lists_tables_and_streams_agree_on_any_number_of_threads():
    """3000 x 2000 distances are enough for a second thread."""
    rng = np.random.default_rng(2)
    for dtype, (m, n) in ((np.float32, (37, 83)), (np.float64, (3000, 2000))):
        D = rng.random((m, n)).astype(dtype)
        weight, price, some = rng.random(n), rng.random(n), rng.permutation(m)[:11]
        point = np.tile(np.arange(n, dtype=np.int32), m)
        lists = NeighborLists(np.arange(0, m * n + 1, n), point, D.astype(float).ravel())
        lists = DistanceLists(weight, lists)
        expected = np.maximum(price - D.astype(float), 0) @ weight
        covered = (D[some].astype(float) < price).sum(axis=0)
        streamed = StreamedDistances(weight, DistanceMatrix(D))
        for distances in (DistanceTable(weight, D), lists, streamed):
            answers = on_threads(
                lambda of=distances, price=price, m=m: (
                    of.gains(price),
                    of.cover(price, np.arange(m)),
                ),
                (1,) if m == 37 else (1, 2, 7),
            )
            gains, cover = answers[0]
            for other in answers[1:]:
                assert gains.tobytes() == other[0].tobytes()
                assert cover.tobytes() == other[1].tobytes()
            part = distances.only(some)
            np.testing.assert_allclose(gains, expected, rtol=1e-12)
            np.testing.assert_allclose(part.gains(price), expected[some], rtol=1e-12)
            np.testing.assert_array_equal(distances.cover(price, some), covered)
            np.testing.assert_array_equal(
                part.cover(price, np.arange(5)), distances.cover(price, some[:5])
            )


def test_large_problems_are_sampled(monkeypatch):
    X, medoids = blobs(500, 4)
    monkeypatch.setattr(certificate, "TABLE_BYTES", 0)
    assert certified(Vectors(X, "euclidean"), medoids).sample is None  # lists fit
    monkeypatch.setattr(certificate, "LIST_ENTRIES", 5000)
    assert certified(Vectors(X, "euclidean"), medoids).sample
    monkeypatch.setattr(certificate, "EXACT_WORK", 1000)
    made = certified(Vectors(X, "euclidean"), medoids)
    assert made.sample == certificate.SIZES[1]
    monkeypatch.setattr(certificate, "BALL_ENTRIES", 5000)
    assert certified(as_graph(Vectors(X, "euclidean").matrix().D), medoids).sample


def test_a_certificate_in_words():
    assert str(Certificate(100, 100.8, 1.0, None, 3)) == "within 0.8 % of optimal (certified)"
    assert str(Certificate(5, 5, 1.0, None, 3)) == "optimal (certified)"
    sampled = Certificate(100, 112, 0.99, 5000, 3)
    assert str(sampled) == "within 12 % of optimal (99 % confidence, from a sample of 5,000)"
    assert "at most 1 %" in sampled.explain()
    assert str(Certificate(1e9, 1e9 + 1e-3, 1.0, None, 3)).startswith("within 0.0001 % of")
    for useless in (Certificate(0, 5, 1.0, None, 3), Certificate(2, 5, 0.99, 5000, 3)):
        assert str(useless) == "no useful bound"
        assert "less than half of the cost: no useful bound." in useless.explain()
    assert Certificate(0, 5, 1.0, None, 3).gap == inf
    assert Certificate(0, 0, 1.0, None, 3).gap == 0
    assert Certificate(90, 99, 1.0, None, 3, rounded=True).gap == pytest.approx(0.1)
    assert "whole" in Certificate(90, 99, 1.0, None, 3, rounded=True).explain()


def test_a_component_without_a_medoid_has_no_bound():
    two = csr_array(([1.0, 1.0], ([0, 1], [1, 0])), shape=(3, 3))
    made = certified(Graph(two), [0])
    assert made.cost == inf
    assert made.gap == inf
    assert str(made) == "no bound was computed: the cost is infinite"
    assert "checked" not in made.explain()
    assert certified(Graph(two), [0, 2]).gap == 0
