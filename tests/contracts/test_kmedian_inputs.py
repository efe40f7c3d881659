"""KMedian on places of the earth, on sparse rows, and with distances of new points."""

import numpy as np
import pytest
from api import METRICS
from api import medoid_search_module as medoid_search
from contracts.medians import EARTH, SQUARE, X, components, ring
from scipy import sparse
from sklearn.metrics.pairwise import haversine_distances

from kvariates import KMedian, hst_tree, kmedian_plusplus

# ---- great-circle distances ----


def places(n, dtype=np.float64):
    rng = np.random.default_rng(n)
    z, longitude = rng.uniform(-1, 1, n), rng.uniform(-np.pi, np.pi, n)
    return np.stack([np.arcsin(z), longitude], axis=1).astype(dtype)


def test_haversine_distances_are_those_of_scikit_learn():
    points = np.concatenate([places(200), [[np.pi / 2, 1.0], [-np.pi / 2, 2.0], [0.0, np.pi]]])
    points = np.concatenate([points, points[:50] + 1e-9])
    model = KMedian(len(points), metric="haversine", random_state=0).fit(points)
    far, true = model.transform(points), haversine_distances(points)[:, model.medoid_indices_]
    np.testing.assert_allclose(far, true, rtol=1e-7, atol=1e-15)
    assert (np.diag(far[model.medoid_indices_]) == 0).all()


@pytest.mark.parametrize("matrix_bytes", [medoid_search.MATRIX_BYTES, 0])
def test_a_fit_of_places_costs_as_much_as_one_of_their_distances(matrix_bytes, monkeypatch):
    points = places(400)
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", matrix_bytes)
    model = KMedian(6, metric="haversine", certify=True, random_state=0).fit(points)
    D = haversine_distances(points)
    given = KMedian(6, metric="precomputed", random_state=0).fit(D)
    assert model.inertia_ == pytest.approx(D[model.medoid_indices_].min(axis=0).sum())
    assert model.inertia_ <= 1.05 * given.inertia_
    assert model.certificate_.lower_bound <= given.inertia_
    assert model.certificate_.gap < 0.2
    np.testing.assert_array_equal(model.cluster_centers_, points[model.medoid_indices_])


def test_float32_places_stay_float32_and_turns_of_the_earth_do_not_matter():
    points = places(100, np.float32)
    model = KMedian(3, metric="haversine", random_state=0).fit(points)
    assert model.transform(points).dtype == np.float32
    east = np.where(points[:, 1] < 0, points[:, 1] + 2 * np.pi, points[:, 1])
    turned = model.transform(np.stack([points[:, 0], east], axis=1))
    np.testing.assert_allclose(turned, model.transform(points), atol=1e-6)


def test_the_tree_of_places_is_never_below_the_distances():
    points = places(300)
    tree = hst_tree(points, metric="haversine", random_state=0)
    i, j = np.triu_indices(300, 1)
    far = tree.distances(np.stack([i, j], axis=1))
    assert (far >= haversine_distances(points)[i, j]).all()
    assert len(set(kmedian_plusplus(points, 5, metric="haversine", random_state=0))) == 5


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            [[48.85, 2.35], [0.1, 0.1]],
            r"radians, latitude first.* row 0 has latitude 48.85.*radians",
        ),
        ([[0.1, 0.1], [0.1, 120.0]], r"row 1 has longitude 120, .*np.radians\(X\)"),
        ([[0.1, 0.1, 0.0], [0.2, 0.1, 0.0]], r"two columns in radians, latitude first.*\(2, 3\)"),
        (sparse.csr_array([[0.1, 0.2], [0.1, 0.3]]), "X is sparse, and metric='haversine'"),
    ],
)
def test_places_that_are_not_in_radians_are_refused(data, words):
    with pytest.raises(ValueError, match=words) as caught:
        KMedian(1, metric="haversine").fit(data)
    assert "\n" not in str(caught.value)


def test_new_places_are_checked_too():
    model = KMedian(2, metric="haversine", random_state=0).fit(EARTH)
    with pytest.raises(ValueError, match=r"row 0 has latitude 48\.85"):
        model.predict([[48.85, 2.35]])


# ---- sparse rows ----


def text(n=150, d=400):
    """Rows like counts of words, from three topics."""
    rng = np.random.default_rng(3)
    topics = rng.dirichlet(np.full(d, 0.05), size=3)
    return np.stack([rng.multinomial(40, topics[i % 3]) for i in range(n)]).astype(np.float64)


TEXT = text()


@pytest.mark.parametrize("matrix_bytes", [medoid_search.MATRIX_BYTES, 0])
@pytest.mark.parametrize("init", ["hst", "k-median++", [0, 1, 2]])
def test_sparse_rows_under_cosine_are_dense_rows_under_cosine(init, matrix_bytes, monkeypatch):
    options = {"metric": "cosine", "init": init, "random_state": 0}
    dense = KMedian(3, **options).fit(TEXT)
    monkeypatch.setattr(medoid_search, "MATRIX_BYTES", matrix_bytes)
    model = KMedian(3, **options).fit(sparse.csr_array(TEXT))
    if matrix_bytes and init != "hst":
        np.testing.assert_array_equal(model.medoid_indices_, dense.medoid_indices_)
    assert model.inertia_ == pytest.approx(dense.inertia_, rel=1e-9 if matrix_bytes else 0.05)
    np.testing.assert_array_equal(model.cluster_centers_, TEXT[model.medoid_indices_])
    far = model.transform(sparse.csr_array(TEXT))
    np.testing.assert_allclose(far, model.transform(TEXT), atol=1e-12)
    np.testing.assert_array_equal(model.predict(TEXT), model.labels_)
    np.testing.assert_array_equal(model.predict(sparse.csc_array(TEXT)), model.labels_)
    assert (far[model.medoid_indices_, np.arange(3)] < 1e-15).all()


def test_sparse_rows_have_certificates_weights_and_their_own_type():
    rows = sparse.csr_array(TEXT.astype(np.float32))
    demand = np.arange(150) % 2 == 0
    model = KMedian(3, metric="cosine", certify=True, random_state=0).fit(rows, demand=demand)
    dense = KMedian(3, metric="cosine", certify=True, random_state=0).fit(TEXT, demand=demand)
    assert model.inertia_ == pytest.approx(dense.inertia_, rel=1e-5)
    assert model.certificate_.lower_bound == pytest.approx(dense.certificate_.lower_bound, rel=1e-3)
    assert model.certificate_.lower_bound <= dense.inertia_
    assert model.transform(rows).dtype == np.float32


def test_the_tree_of_sparse_rows_is_that_of_dense_rows():
    trees = [
        hst_tree(rows, metric="cosine", random_state=0) for rows in (TEXT, sparse.csr_array(TEXT))
    ]
    pairs = np.random.default_rng(4).integers(150, size=(500, 2))
    np.testing.assert_array_equal(trees[0].distances(pairs), trees[1].distances(pairs))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_close_sparse_rows_keep_the_digits_of_their_distances(dtype):
    """A difference of products would leave about none of them."""
    rng = np.random.default_rng(5)
    close = TEXT[:30] * (1 + 10.0 ** -rng.uniform(2, 6, (30, 1)) * rng.normal(size=(30, 400)))
    rows = np.concatenate([TEXT[:30], close, TEXT[:30]]).astype(dtype)
    far = METRICS["cosine"].run(sparse.csr_array(rows), None).distances(np.arange(90))
    true = METRICS["cosine"].run(rows, None).distances(np.arange(90))
    small = (true > 0) & (true < 1e-6)
    assert small.sum() > 30
    np.testing.assert_allclose(far[small], true[small], rtol=1e-6 if dtype == np.float64 else 1e-2)
    assert (far[np.arange(30), np.arange(60, 90)] == 0).all()
    np.testing.assert_array_equal(far, far.T)


def test_bad_sparse_rows_are_refused():
    empty = TEXT.copy()
    empty[7] = 0
    with pytest.raises(ValueError, match=r"row 7 is\. Drop such rows"):
        KMedian(3, metric="cosine").fit(sparse.csr_array(empty))
    with pytest.raises(ValueError, match="takes a dense array"):
        KMedian(3, metric="manhattan").fit(sparse.csr_array(TEXT))


# ---- given distances ----


def test_distances_of_new_points_to_the_medoids_alone_are_enough():
    model = KMedian(3, metric="precomputed", random_state=0).fit(SQUARE)
    few = SQUARE[:7, model.medoid_indices_]
    np.testing.assert_array_equal(model.predict(few), model.labels_[:7])
    np.testing.assert_array_equal(model.transform(few), model.transform(SQUARE[:7]))
    assert model.score(few) == model.score(SQUARE[:7])
    for columns in (1, 4, 89):
        words = rf"X has {columns} features, .* distances from new points to all 90 points of the "
        with pytest.raises(ValueError, match=words + r"fit, or to the 3 medoids alone") as caught:
            model.predict(SQUARE[:7, :columns])
        assert "\n" not in str(caught.value)


# ---- graphs ----


def test_distances_on_a_graph_to_a_medoid_of_another_component_are_infinite():
    two = components(ring(20, 1), ring(30, 2))
    model = KMedian(2, metric="graph", random_state=0).fit(two)
    far = model.transform(np.arange(50))
    assert np.isinf(far).sum() == 50
    np.testing.assert_array_equal(far.argmin(axis=1), model.labels_)
    with pytest.raises(
        ValueError, match=r"numbers of nodes \(integers\): for all .*np.arange\(50\)"
    ):
        model.transform(two)


def test_a_refit_with_another_metric_forgets_the_graph():
    model = KMedian(2, metric="graph", random_state=0).fit(ring())
    model.set_params(metric="euclidean").fit(X)
    assert not hasattr(model, "_graph")
