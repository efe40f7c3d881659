"""KMedian keeps its contract in every metric, from every init."""

import pickle

import numpy as np
import pytest
from api import MEDOID_SEEDINGS
from api import medoid_search_module as medoid_search
from contracts.medians import CASES, INITS, RNG, SQUARE, X, broken, components, pairs, ring
from laws.brute import best_swap
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from kvariates import KMeans, KMedian, hst_seeding, hst_tree, kmedian_plusplus


@pytest.fixture(params=CASES)
def case(request):
    points, metric = CASES[request.param]
    return points, metric, pairs(points, metric)


def assert_local_optimum(model, D, weight):
    chosen = model.medoid_indices_
    cost = D[chosen].min(axis=0) @ weight
    assert len(np.unique(chosen)) == len(chosen)
    assert model.inertia_ == pytest.approx(cost)
    np.testing.assert_allclose(D[np.arange(len(D)), chosen[model.labels_]], D[chosen].min(axis=0))
    assert best_swap(D, chosen, weight) >= cost * (1 - 1e-9)


@pytest.mark.parametrize("init", INITS)
def test_a_fit_is_a_local_optimum_and_demand_is_weights_and_repeats(case, init):
    points, metric, D = case
    options = {"metric": metric, "init": init, "random_state": 0}
    assert_local_optimum(KMedian(3, **options).fit(points), D, np.ones(len(D)))
    numbers = np.random.default_rng(5).integers(len(D), size=len(D) + 3)
    weight = np.bincount(numbers, minlength=len(D)).astype(float)
    by_number = KMedian(3, **options).fit(points, demand=numbers)
    for keywords in ({"demand": weight}, {"sample_weight": weight}):
        by_weight = KMedian(3, **options).fit(points, **keywords)
        np.testing.assert_array_equal(by_number.medoid_indices_, by_weight.medoid_indices_)
        assert by_number.inertia_ == by_weight.inertia_
    assert_local_optimum(by_number, D, weight)


def test_the_same_seed_gives_the_same_fit_and_it_can_be_pickled(case):
    points, metric, _ = case
    one, two = (KMedian(2, metric=metric, random_state=4).fit(points) for _ in range(2))
    np.testing.assert_array_equal(one.medoid_indices_, two.medoid_indices_)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).labels_, one.labels_)


def test_a_mask_is_a_demand():
    masked = KMedian(2, random_state=0).fit(X, demand=np.arange(len(X)) < 30)
    numbered = KMedian(2, random_state=0).fit(X, demand=np.arange(30))
    np.testing.assert_array_equal(masked.medoid_indices_, numbered.medoid_indices_)


FUNCTIONS = {
    "euclidean": lambda a, b: float(np.sqrt(((a - b) ** 2).sum())),
    "manhattan": lambda a, b: float(np.abs(a - b).sum()),
    "cosine": lambda a, b: max(0.0, 1 - float(a @ b / np.sqrt((a @ a) * (b @ b)))),
}


@pytest.mark.filterwarnings("ignore:.* breaks the triangle inequality")  # cosine distances do
@pytest.mark.parametrize("metric", FUNCTIONS)
@pytest.mark.parametrize("init", ["k-median++", [3, 40, 70]])
def test_rows_precomputed_distances_and_a_callable_give_the_same_medoids(metric, init):
    points = np.abs(X) + 0.1
    D = pairs(points, metric)
    fits = [
        KMedian(3, metric=how, init=init, random_state=2).fit(data).medoid_indices_
        for how, data in (
            (metric, points),
            ("precomputed", np.maximum(D, D.T)),
            (FUNCTIONS[metric], points),
        )
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[2])


def test_a_graph_and_its_distances_give_the_same_medoids():
    graph = ring(80, 3)
    options = {"init": [0, 1, 2, 3], "n_restarts": 0, "random_state": 0}
    one = KMedian(4, metric="graph", **options).fit(graph)
    two = KMedian(4, metric="precomputed", **options).fit(pairs(graph, "graph"))
    np.testing.assert_array_equal(one.medoid_indices_, two.medoid_indices_)


def test_without_a_matrix_the_cost_is_about_the_same(monkeypatch):
    for metric, bound in (("euclidean", 1.03), ("manhattan", 1.03), ("cosine", 1.1)):
        points = np.abs(X) + 0.1
        options = {"metric": metric, "init": [0, 1, 2], "random_state": 0}  # all in one group
        with_matrix = KMedian(3, **options).fit(points)
        with monkeypatch.context() as patch:
            patch.setattr(medoid_search, "MATRIX_BYTES", 0)
            patch.setattr(medoid_search, "SAMPLE", 40)
            model = KMedian(3, **options).fit(points)
        D = pairs(points, metric)
        assert model.inertia_ == pytest.approx(D[model.medoid_indices_].min(axis=0).sum())
        assert model.inertia_ <= bound * with_matrix.inertia_


@pytest.mark.parametrize("name", CASES)
def test_predict_and_transform(name):
    points, metric = CASES[name]
    model = KMedian(3, metric=metric, random_state=0).fit(points)
    if name == "graph":
        np.testing.assert_array_equal(model.predict([4, 2]), model.labels_[[4, 2]])
        nodes = np.r_[3, np.arange(60), 3]
        far = pairs(points, metric)[np.ix_(nodes, model.medoid_indices_)]
        np.testing.assert_allclose(model.transform(nodes), far)
        assert model.score(np.arange(60)) == pytest.approx(-model.inertia_)
        np.testing.assert_allclose(model.fit_transform(points), far[1:-1])
        return
    np.testing.assert_array_equal(model.predict(points[2:]), model.labels_[2:])
    far = model.transform(points)
    assert far.shape == (len(points), 3)
    np.testing.assert_allclose(far, pairs(points, metric)[:, model.medoid_indices_], atol=1e-9)
    assert model.score(points) == pytest.approx(-model.inertia_)


@pytest.mark.parametrize("option", ["n_restarts", "n_init"])
def test_more_runs_and_restarts_never_cost_more(option):
    """With several runs, the first one makes the same draws as a single one."""
    plain = {"n_restarts": 0, "n_init": 1}
    better = 0
    for seed in range(8):
        costs = [
            KMedian(9, init="random", random_state=seed, **{**plain, option: many}).fit(X).inertia_
            for many in (plain[option], 3, 30)
        ]
        assert costs == sorted(costs, reverse=True)
        better += costs[2] < costs[0]
    assert better > 0, "too weak a test"


def test_a_second_fit_replaces_the_certificate_and_the_centers():
    model = KMedian(3, certify=True, random_state=0).fit(X)
    assert 0 < model.certificate_.lower_bound <= model.inertia_
    assert model.certificate_.gap < 0.05
    model.set_params(certify=False, metric="precomputed").fit(SQUARE)
    assert not hasattr(model, "certificate_")
    assert not hasattr(model, "cluster_centers_")


def test_float32_stays_float32():
    model = KMedian(3, random_state=0).fit(X.astype(np.float32))
    assert model.cluster_centers_.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("init", MEDOID_SEEDINGS)
def test_more_clusters_than_distinct_points_give_a_warning(init):
    rows = np.repeat([[0.0], [1.0]], 4, axis=0)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\)"):
        model = KMedian(3, init=init, random_state=0).fit(rows)
    assert model.inertia_ == 0
    assert len(np.unique(model.medoid_indices_)) == 3


@pytest.mark.parametrize("init", ["hst", "k-median++", [0, 1]])
def test_points_without_demand_may_be_medoids(init, monkeypatch):
    """The demand is on two circles; the best medoids are their centres, without demand."""
    angle = np.linspace(0, 2 * np.pi, 150, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.concatenate([circle, circle + 9, [[0, 0], [9, 9]]])
    for matrix_bytes in (medoid_search.MATRIX_BYTES, 0):
        monkeypatch.setattr(medoid_search, "MATRIX_BYTES", matrix_bytes)
        model = KMedian(2, init=init, random_state=0).fit(points, demand=np.arange(300))
        assert set(model.medoid_indices_) == {300, 301}
        assert model.inertia_ == pytest.approx(300)


def test_the_guarantee_is_lost_without_a_local_optimum_or_a_metric(monkeypatch):
    kept = KMedian(3, random_state=0).fit(X)
    assert kept.guarantee_lost_ is None
    assert kept.guarantee_.assumes is None
    assert kept.guarantee_.factor == 5
    assert kept.guarantee_.lower_bound == kept.inertia_ / 5
    lost = [
        ("candidates only", KMedian(3, random_state=0, max_swaps=1).fit(X)),
        ("triangle", KMedian(2, metric="cosine", random_state=0).fit(np.abs(X) + 0.1)),
    ]
    with pytest.warns(UserWarning, match="triangle"):
        lost.append(("triangle", KMedian(2, metric="precomputed").fit(broken(2, 6, 500.0))))
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", 0)
    lost.append(("candidates", KMedian(3, random_state=0).fit(X)))
    for words, model in lost:
        assert model.guarantee_ is None
        assert words in model.guarantee_lost_


def test_a_callable_takes_any_objects():
    bits = KMedian(2, metric=lambda a, b: (a ^ b).bit_count(), random_state=0)
    assert bits.fit([1, 2, 3, 2**60, 2**60 + 1]).inertia_ == 3
    frame = pytest.importorskip("pandas").DataFrame({"a": list("xxyz"), "b": list("xxyy")})
    words = KMedian(2, metric=lambda a, b: sum(p != q for p, q in zip(a, b, strict=True)))
    assert len(words.fit(frame).labels_) == 4


@pytest.mark.parametrize("init", INITS)
def test_every_component_gets_a_medoid(init):
    two = components(ring(20, 1), ring(30, 2))
    model = KMedian(3, metric="graph", init=init, random_state=0).fit(two)
    assert np.isfinite(model.inertia_)
    assert ((model.medoid_indices_[model.labels_] < 20) == (np.arange(50) < 20)).all()


def test_of_parallel_edges_the_shortest_counts():
    row, column = [0, 0, 1, 1, 1, 2], [1, 1, 0, 0, 2, 1]
    length = [3, 5, 5, 3, 0.1 + 0.2, 0.3]  # the last two differ by rounding
    edges = sparse.coo_array((length, (row, column)), shape=(3, 3))
    assert KMedian(1, metric="graph", random_state=0).fit(edges).inertia_ == pytest.approx(3.3)


@pytest.mark.parametrize("init", INITS)
def test_nodes_that_no_medoid_reaches_have_no_label(init):
    """They have no demand, so no component of theirs needs a medoid."""
    two = components(ring(20, 1), ring(30, 2))
    with pytest.warns(UserWarning, match="^30 of 50 nodes are not connected to any medoid") as told:
        model = KMedian(3, metric="graph", init=init, random_state=0).fit(two, demand=np.arange(20))
    assert len(told) == 1
    assert told[0].filename == __file__
    assert set(model.labels_[:20]) == {0, 1, 2}
    assert set(model.labels_[20:]) == {-1}
    np.testing.assert_array_equal(model.predict([0, 49]), [model.labels_[0], -1])


def test_kmeans_can_start_on_the_tree():
    model = KMeans(3, init="hst", random_state=np.random.default_rng(5)).fit(X)
    seeds = hst_seeding(X, 3, power=2, random_state=np.random.default_rng(5))
    np.testing.assert_array_equal(model.labels_, KMeans(3, init=X[seeds]).fit(X).labels_)
    assert model.guarantee_ is None
    assert "k-median, not for k-means" in model.guarantee_lost_


def test_seedings_and_the_tree_as_functions(case):
    points, metric, D = case
    for seeding in (hst_seeding, kmedian_plusplus):
        chosen = seeding(points, 3, metric=metric, random_state=0)
        assert len(np.unique(chosen)) == 3
    tree = hst_tree(points, metric=metric, random_state=0)
    i, j = np.triu_indices(len(D), 1)
    far = tree.distances(np.stack([i, j], axis=1))
    true = np.sqrt(2 * D[i, j]) if metric == "cosine" else D[i, j]
    assert (far >= true * (1 - 1e-9)).all()


HARSH = {
    "few distinct rows": (RNG.integers(0, 4, (200, 2)) * 0.1, 16, None),
    "one huge weight": (RNG.normal(size=(100, 3)), 5, np.r_[1e18, np.ones(99)]),
    "one far row": (np.r_[RNG.normal(size=(99, 3)), [[1e17, 0, 0]]], 5, None),
    "little demand": (RNG.normal(size=(200, 2)), 8, (np.arange(200) < 8).astype(float)),
}


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("init", MEDOID_SEEDINGS)
@pytest.mark.parametrize("name", HARSH)
def test_the_search_ends_despite_zero_costs_and_lost_digits(name, init):
    points, k, demand = HARSH[name]
    for seed in range(20):
        model = KMedian(k, init=init, random_state=seed).fit(points, demand=demand)
        assert len(np.unique(model.medoid_indices_)) == k
        assert model.inertia_ >= 0
