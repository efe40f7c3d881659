"""Empty clusters go where scikit-learn sends them: to the rows farthest from their centres."""

import numpy as np
import pytest
from api import OBJECTIVES, REFINEMENTS
from laws import brute
from laws.cases import ALGORITHMS, LAYOUTS, close, every_metric, fit, rows, start, weighted_or_not
from sklearn.cluster import KMeans as Peer
from sklearn.exceptions import ConvergenceWarning

from kvariates import KMeans

every = pytest.mark.parametrize(
    ("algorithm", "layout"), list(zip(ALGORITHMS, [*LAYOUTS] * len(ALGORITHMS), strict=False))
)
PAIRS = [
    (metric, name)
    for metric, entry in OBJECTIVES.items()
    for name in REFINEMENTS.offered(entry.run().offers)
]
FAR = np.full(3, 1e3)


def with_lost_centres(k, lost, dtype=np.float64, seed=31):
    X = rows(300, 3, dtype, seed=seed)
    init = start(X, k)
    init[list(lost)] = FAR + np.arange(len(lost))[:, None]
    return X, init.astype(dtype)


@weighted_or_not
@every
def test_one_lost_centre_ends_where_scikit_learn_does(algorithm, layout, weighted):
    X, init = with_lost_centres(6, [4])
    weights = np.random.default_rng(0).uniform(0.5, 2, size=300) if weighted else None
    peer = Peer(6, init=init, n_init=1).fit(X, sample_weight=weights)
    ours = fit(LAYOUTS[layout](X), init, weights, algorithm=algorithm)
    assert np.array_equal(ours.labels_, peer.labels_)
    assert ours.n_iter_ == peer.n_iter_
    np.testing.assert_allclose(ours.cluster_centers_, peer.cluster_centers_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("lost", "dtype"), [([2], np.float32), ([2], np.float64), ([0, 3, 5], np.float64)]
)
@every
def test_lost_centres_take_the_farthest_rows(algorithm, layout, lost, dtype):
    X, init = with_lost_centres(7, lost, dtype)
    labels = brute.nearest(X, init)
    far = np.argsort(-((X - init[labels]).astype(np.float64) ** 2).sum(axis=1))[: len(lost)]
    model = fit(LAYOUTS[layout](X), init, algorithm=algorithm, max_iter=1)
    taken = {tuple(row) for row in model.cluster_centers_[lost]}
    assert taken == {tuple(row) for row in X[far]}
    for j in set(range(7)) - set(lost):
        kept = (labels == j) & ~np.isin(np.arange(300), far)
        mean = X[kept].mean(axis=0, dtype=np.float64)
        np.testing.assert_allclose(model.cluster_centers_[j], mean, **close(dtype))


@every_metric
@every
def test_no_cluster_stays_empty_when_rows_suffice(algorithm, layout, metric):
    X, init = with_lost_centres(12, range(4, 12))
    model = fit(LAYOUTS[layout](X), init, algorithm=algorithm, metric=metric)
    assert len(set(model.labels_)) == 12


@every
def test_algorithms_agree_after_relocations(algorithm, layout):
    """Bounds of the pruned algorithms must survive a centre that jumps."""
    X, init = with_lost_centres(20, range(10, 20))
    model = fit(LAYOUTS[layout](X), init, algorithm=algorithm, tol=0)
    reference = fit(LAYOUTS[layout](X), init, algorithm="lloyd", tol=0)
    assert np.array_equal(model.labels_, reference.labels_)
    assert np.array_equal(model.cluster_centers_, reference.cluster_centers_)
    assert model.n_iter_ == reference.n_iter_


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_cluster_that_gives_away_its_only_row_goes_to_the_heaviest(algorithm):
    """Its only row was the farthest of all: scikit-learn moves it onto the biggest cluster."""
    X = np.array([[0.0], [0.1], [0.2], [10.0]])
    init = np.array([[0.1], [14.0], [100.0]])
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\)"):
        peer = Peer(3, init=init, n_init=1, max_iter=1).fit(X)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(2\)"):
        ours = fit(X, init, algorithm=algorithm, max_iter=1)
    np.testing.assert_allclose(ours.cluster_centers_, peer.cluster_centers_, rtol=1e-12)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_cluster_that_gives_away_its_rows_keeps_no_rounding_error(algorithm):
    """0.1 + 0.2 - 0.1 - 0.2 is not zero in floats; a mean of such sums could be anywhere."""
    X = np.array([[10.0, 0.3], [10.7, 0.1], [0.0, 0.0], [0.1, 0.0], [0.05, 0.1]])
    weights = np.array([0.1, 0.2, 1, 1, 1])
    init = np.array([[0.0, 0.0], [14.0, 0.0], [100.0, 0.0], [100.0, 9.0]])
    model = KMeans(4, init=init, n_init=1, algorithm=algorithm, max_iter=1)
    model.fit(X, sample_weight=weights)
    assert (model.cluster_centers_ >= X.min(axis=0) - 1e-9).all()
    assert (model.cluster_centers_ <= X.max(axis=0) + 1e-9).all()


@pytest.mark.parametrize(("metric", "algorithm"), PAIRS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_more_centres_than_distinct_rows(algorithm, metric, layout):
    X = LAYOUTS[layout](np.repeat([[1.0, 0.2], [0.0, 1.0], [0.5, 3.0]], 5, axis=0))
    model = KMeans(5, random_state=0, algorithm=algorithm, metric=metric)
    with pytest.warns(ConvergenceWarning, match=r"distinct clusters \(3\).* n_clusters \(5\)"):
        model.fit(X)
    assert len(set(model.labels_)) == 3
    assert model.inertia_ == pytest.approx(0, abs=1e-12)
    assert np.isfinite(model.cluster_centers_).all()


@every
def test_all_rows_equal(algorithm, layout):
    for row in ([0.0, 0.0, 0.0], [3.7, 3.7, 3.7], [1.5, 0.0, -2.3]):
        X = LAYOUTS[layout](np.tile(row, (50, 1)))
        with pytest.warns(ConvergenceWarning, match="distinct clusters"):
            model = KMeans(4, random_state=0, algorithm=algorithm).fit(X)
        assert (model.labels_ == 0).all()
        assert model.inertia_ == pytest.approx(0, abs=1e-25)
        np.testing.assert_allclose(model.cluster_centers_, np.tile(row, (4, 1)), rtol=1e-14)
        assert KMeans(1).fit(X[:1]).inertia_ == 0
