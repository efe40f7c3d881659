"""KMedian: what it promises whatever the metric."""

import pickle

import numpy as np
import pytest
from contracts.medians import CASES, RNG, SQUARE, X, broken, pairs, ring
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from kvariates import KMeans, KMedian, hst_seeding, hst_tree, kmedian_plusplus
from kvariates.refining import medoid_search


@pytest.fixture(params=CASES)
def case(request):
    points, metric = CASES[request.param]
    return points, metric, pairs(points, metric)


@pytest.mark.parametrize("init", ["hst", "k-median++", "random", [0, 1, 2]])
def test_a_fit_is_what_it_says(case, init):
    points, metric, D = case
    model = KMedian(3, metric=metric, init=init, random_state=0).fit(points)
    chosen = model.medoid_indices_
    assert len(np.unique(chosen)) == 3
    np.testing.assert_allclose(D[np.arange(len(D)), chosen[model.labels_]], D[chosen].min(axis=0))
    assert model.inertia_ == pytest.approx(D[chosen].min(axis=0).sum())
    best = min(
        D[[*np.delete(chosen, m), c]].min(axis=0).sum() for m in range(3) for c in range(len(D))
    )
    assert best >= model.inertia_ * (1 - 1e-9)  # no swap helps


def test_the_same_seed_is_the_same_fit_and_pickles(case):
    points, metric, _ = case
    one, two = (KMedian(2, metric=metric, random_state=4).fit(points) for _ in range(2))
    np.testing.assert_array_equal(one.medoid_indices_, two.medoid_indices_)
    if not callable(metric):
        again = pickle.loads(pickle.dumps(one))
        np.testing.assert_array_equal(again.labels_, one.labels_)


@pytest.mark.parametrize("init", ["hst", "k-median++", "random"])
def test_demand_is_weights_and_repeats(case, init):
    points, metric, D = case
    rng = np.random.default_rng(5)
    numbers = rng.integers(len(D), size=len(D) + 3)
    weight = np.bincount(numbers, minlength=len(D)).astype(float)
    options = {"metric": metric, "init": init, "random_state": 1}
    by_number = KMedian(2, **options).fit(points, demand=numbers)
    by_weight = KMedian(2, **options).fit(points, demand=weight)
    by_name = KMedian(2, **options).fit(points, sample_weight=weight)
    assert by_number.inertia_ == by_weight.inertia_ == by_name.inertia_
    chosen = by_number.medoid_indices_
    assert by_number.inertia_ == pytest.approx(D[chosen].min(axis=0) @ weight)
    assert len(by_number.labels_) == len(D)
    best = min(
        D[[*np.delete(chosen, m), c]].min(axis=0) @ weight for m in range(2) for c in range(len(D))
    )
    assert best >= by_number.inertia_ * (1 - 1e-9)


def test_a_mask_is_a_demand():
    mask = np.arange(len(X)) < 30
    masked = KMedian(2, random_state=0).fit(X, demand=mask)
    numbered = KMedian(2, random_state=0).fit(X, demand=np.arange(30))
    np.testing.assert_array_equal(masked.medoid_indices_, numbered.medoid_indices_)


@pytest.mark.filterwarnings("ignore:X breaks the triangle inequality")  # cosine distances do
@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "cosine"])
@pytest.mark.parametrize("init", ["k-median++", [3, 40, 70]])
def test_dense_precomputed_and_callable_agree(metric, init):
    points = np.abs(X) + 0.1
    D = pairs(points, metric)
    name = "cityblock" if metric == "manhattan" else metric
    function = {
        "euclidean": lambda a, b: float(np.sqrt(((a - b) ** 2).sum())),
        "cityblock": lambda a, b: float(np.abs(a - b).sum()),
        "cosine": lambda a, b: max(0.0, 1 - float(a @ b / np.sqrt((a @ a) * (b @ b)))),
    }[name]
    fits = [
        KMedian(3, metric=how, init=init, random_state=2).fit(data).medoid_indices_
        for how, data in ((metric, points), ("precomputed", np.maximum(D, D.T)), (function, points))
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[2])


def test_a_graph_and_its_matrix_agree():
    graph = ring(80, 3)
    fits = [
        KMedian(4, metric=metric, init=[0, 1, 2, 3], n_restarts=0, random_state=0).fit(data)
        for metric, data in (("graph", graph), ("precomputed", pairs(graph, "graph")))
    ]
    np.testing.assert_array_equal(fits[0].medoid_indices_, fits[1].medoid_indices_)


def test_without_a_matrix_the_cost_is_about_the_same(monkeypatch):
    near = KMedian(3, random_state=0).fit(X)
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", 0)
    monkeypatch.setattr(medoid_search, "SAMPLE", 40)
    far = KMedian(3, random_state=0).fit(X)
    D = cdist(X, X)
    assert far.inertia_ == pytest.approx(D[far.medoid_indices_].min(axis=0).sum())
    assert far.inertia_ <= 1.03 * near.inertia_


@pytest.mark.parametrize("name", ["euclidean", "manhattan", "cosine", "callable"])
def test_predict_and_transform(name):
    points, metric = CASES[name]
    model = KMedian(3, metric=metric, random_state=0).fit(points)
    np.testing.assert_array_equal(model.predict(points), model.labels_)
    far = model.transform(points)
    assert far.shape == (len(points), 3)
    np.testing.assert_allclose(far, pairs(points, metric)[:, model.medoid_indices_], atol=1e-9)
    assert model.score(points) == pytest.approx(-model.inertia_)


def test_predict_from_distances_and_nodes():
    D = cdist(X, X)
    model = KMedian(3, metric="precomputed", random_state=0).fit(D)
    np.testing.assert_array_equal(model.predict(D[5:9]), model.labels_[5:9])
    on_graph = KMedian(3, metric="graph", random_state=0).fit(ring())
    np.testing.assert_array_equal(on_graph.predict([4, 2]), on_graph.labels_[[4, 2]])


@pytest.mark.parametrize("option", ["n_restarts", "n_init"])
def test_more_starts_and_restarts_are_never_worse(option):
    """The first of several runs is the only one of a single: its draws come first."""
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


def test_a_certificate_is_below_the_cost():
    model = KMedian(3, certify=True, random_state=0).fit(X)
    assert 0 < model.certificate_.lower_bound <= model.inertia_
    assert model.certificate_.gap < 0.05
    assert not hasattr(KMedian(3).fit(X), "certificate_")


def test_float32_stays_float32():
    model = KMedian(3, random_state=0).fit(X.astype(np.float32))
    assert model.cluster_centers_.dtype == np.float32
    assert model.transform(X.astype(np.float32)).dtype == np.float32


def test_more_clusters_than_places_is_said():
    rows = np.repeat([[0.0], [1.0]], 4, axis=0)
    for init in ("hst", "k-median++", "random"):
        with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\)"):
            model = KMedian(3, init=init, random_state=0).fit(rows)
        assert model.inertia_ == 0
        assert len(np.unique(model.medoid_indices_)) == 3


@pytest.mark.parametrize("init", ["hst", "k-median++", [0, 1]])
def test_points_without_demand_may_be_medoids(init, monkeypatch):
    """Demand on two circles; the best medoids are their centres, where nobody lives."""
    angle = np.linspace(0, 2 * np.pi, 150, endpoint=False)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    points = np.concatenate([circle, circle + 9, [[0, 0], [9, 9]]])
    demand = np.arange(300)
    near = KMedian(2, init=init, random_state=0).fit(points, demand=demand)
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", 0)
    far = KMedian(2, init=init, random_state=0).fit(points, demand=demand)
    for model in (near, far):
        assert set(model.medoid_indices_) == {300, 301}
        assert model.inertia_ == pytest.approx(300)


def test_the_guarantee_is_kept_and_lost(monkeypatch):
    kept = KMedian(3, random_state=0).fit(X)
    assert kept.guarantee_lost_ is None
    assert kept.guarantee_.factor == 5
    lost = {
        "candidates only": KMedian(3, random_state=0, max_swaps=1).fit(X),
        "triangle": KMedian(2, metric="cosine", random_state=0).fit(np.abs(X) + 0.1),
    }
    with pytest.warns(UserWarning, match="triangle"):
        lost["triangle "] = KMedian(2, metric="precomputed").fit(broken(2, 6, 500.0))
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", 0)
    lost["candidates "] = KMedian(3, random_state=0).fit(X)
    for words, model in lost.items():
        assert model.guarantee_ is None
        assert words.strip() in model.guarantee_lost_


def test_a_list_is_handed_over_as_it_is():
    model = KMedian(2, metric=lambda a, b: (a ^ b).bit_count(), random_state=0)
    assert model.fit([1, 2, 3, 2**60, 2**60 + 1]).inertia_ == 3


def test_components_that_have_centres_work():
    two = sparse.block_diag([ring(20, 1), ring(30, 2)], format="csr")
    for init in ("hst", "k-median++", "random", [0, 1, 2]):
        model = KMedian(3, metric="graph", init=init, random_state=0).fit(two)
        assert np.isfinite(model.inertia_)
        assert {bool(i < 20) for i in model.medoid_indices_} == {True, False}
        assert ((model.medoid_indices_[model.labels_] < 20) == (np.arange(50) < 20)).all()


def test_kmeans_starts_on_the_tree():
    model = KMeans(3, init="hst", random_state=np.random.default_rng(5)).fit(X)
    seeds = hst_seeding(X, 3, power=2, random_state=np.random.default_rng(5))
    same = KMeans(3, init=X[seeds]).fit(X)
    np.testing.assert_array_equal(model.labels_, same.labels_)
    assert model.guarantee_ is None
    assert "random tree" in model.guarantee_lost_


def test_seedings_as_functions(case):
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
@pytest.mark.parametrize("init", ["hst", "k-median++", "random"])
@pytest.mark.parametrize("name", HARSH)
def test_sums_that_lose_their_digits_do_no_harm(name, init):
    """Costs of zero, and costs that rounding swallows: the search ends, with medoids."""
    points, k, demand = HARSH[name]
    for seed in range(20):
        model = KMedian(k, init=init, random_state=seed).fit(points, demand=demand)
        assert len(np.unique(model.medoid_indices_)) == k
        assert model.inertia_ >= 0


def test_frames_of_words_are_rows():
    frame = pytest.importorskip("pandas").DataFrame({"a": list("xxyz"), "b": list("xxyy")})
    model = KMedian(2, metric=lambda a, b: sum(p != q for p, q in zip(a, b, strict=True)))
    assert len(model.fit(frame).labels_) == 4


def test_parallel_roads_and_rounding():
    row, column = [0, 0, 1, 1, 1, 2], [1, 1, 0, 0, 2, 1]
    length = [3, 5, 5, 3, 0.1 + 0.2, 0.3]
    roads = sparse.coo_array((length, (row, column)), shape=(3, 3))
    assert KMedian(1, metric="graph", random_state=0).fit(roads).inertia_ == pytest.approx(3.3)


def test_a_second_fit_forgets_the_first():
    model = KMedian(3, certify=True, random_state=0).fit(X)
    model.set_params(certify=False, metric="precomputed").fit(SQUARE)
    assert not hasattr(model, "certificate_")
    assert not hasattr(model, "cluster_centers_")
