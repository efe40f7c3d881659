"""Streams, mini-batches and choose_k by metric="cosine": laws of directions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import silhouette_score

from kvariates import KMeans, OnlineKMeans, StreamingKMeans, choose_k


def directions(n: int, d: int = 4, k: int = 5, seed: int = 0, noise: float = 0.3):
    """Rows around k directions that are far apart, of any lengths."""
    rng = np.random.default_rng(seed)
    around = np.linalg.qr(rng.normal(size=(max(d, k), max(d, k))))[0][:k, :d]
    rows = around[np.arange(n) % k] + noise * rng.normal(size=(n, d))
    return rows * rng.lognormal(0, 2, size=(n, 1))


def cost(X, centers, weight=None):
    """By the definition: the sum of 1 - cos to the nearest centre."""
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    each = 1 - (unit @ (centers / np.linalg.norm(centers, axis=1, keepdims=True)).T).max(axis=1)
    return float(each.sum() if weight is None else each @ weight)


X = directions(1200)
MODELS = {
    "stream": lambda **o: StreamingKMeans(5, metric="cosine", random_state=0, **o),
    "online": lambda **o: OnlineKMeans(5, metric="cosine", random_state=0, **o),
    "minibatch": lambda: KMeans(5, metric="cosine", algorithm="minibatch", random_state=0),
}


@pytest.fixture(params=MODELS)
def make(request):
    return MODELS[request.param]


@pytest.mark.parametrize("kind", [np.asarray, np.float32, sparse.csr_array])
def test_centres_lie_on_the_sphere_and_answers_are_those_of_the_definition(make, kind):
    rows = kind(X)
    model = make().fit(rows)
    centers, exact = model.cluster_centers_, 1e-5 if kind is np.float32 else 1e-9
    assert np.linalg.norm(centers, axis=1) == pytest.approx(np.ones(5), abs=exact)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert model.transform(rows) == pytest.approx(1 - unit @ centers.T, abs=exact)
    assert np.array_equal(model.predict(rows), model.transform(rows).argmin(axis=1))
    assert -model.score(rows) == pytest.approx(cost(X, centers), rel=100 * exact)


def test_a_stream_with_enough_synopses_costs_what_its_rows_cost():
    model = MODELS["stream"]().fit(X)
    assert model.inertia_ == pytest.approx(cost(X, model.cluster_centers_), rel=1e-9)
    in_memory = KMeans(5, metric="cosine", random_state=0, tol=0).fit(X)
    again = KMeans(5, init=model.cluster_centers_, metric="cosine", tol=0).fit(X)
    assert again.inertia_ == pytest.approx(in_memory.inertia_, rel=1e-9)
    assert model.spread_.value == 0


def test_the_synopses_of_a_long_stream_estimate_the_cost_of_directions():
    rows = directions(30_000, noise=0.2)
    model = StreamingKMeans(5, n_synopses=2000, metric="cosine", random_state=0)
    for start in range(0, len(rows), 5000):
        model.partial_fit(rows[start : start + 5000])
    assert np.abs(np.linalg.norm(model.synopses_, axis=1) - 1).max() < 1e-12
    assert model.inertia_ == pytest.approx(cost(rows, model.cluster_centers_), rel=0.1)
    best = KMeans(5, metric="cosine", random_state=0).fit(rows)
    assert cost(rows, model.cluster_centers_) < 1.02 * best.inertia_
    near = cost(rows, model.synopses_)
    assert abs(model.spread_.value - near) < 6 * model.spread_.standard_error


@pytest.mark.parametrize("update", [True, False])
def test_an_online_centre_is_the_direction_of_its_rows(update):
    """Batches of one row: each is a centre; a far heavier copy of one of them turns it."""
    model = OnlineKMeans(2, metric="cosine", update=update, random_state=0)
    model.partial_fit([[3.0, 0.0]]).partial_fit([[0.0, 7.0]])
    assert np.array_equal(model.cluster_centers_, np.eye(2))
    model.partial_fit([[4.0, 3.0]], sample_weight=[2.0])
    turned = np.array([0.8, 0.6]) * 2  # the first centre was drawn, and has no rows yet
    expected = turned / np.linalg.norm(turned) if update else np.array([1.0, 0.0])
    assert model.cluster_centers_[0] == pytest.approx(expected)


def test_lengths_do_not_count(make):
    lengths = np.random.default_rng(1).lognormal(0, 3, size=(len(X), 1))
    powers = np.exp2(np.round(np.log2(lengths)))
    model = make().fit(X)
    assert np.array_equal(make().fit(X * powers).cluster_centers_, model.cluster_centers_)
    assert make().fit(X * lengths).cluster_centers_ == pytest.approx(model.cluster_centers_)


def test_weights_equal_repeats():
    weight = np.random.default_rng(2).integers(0, 4, size=300)
    rows, start = X[:300], X[:5]
    stream = StreamingKMeans(5, metric="cosine", random_state=0).fit(rows, sample_weight=weight)
    repeated = np.repeat(rows, weight, axis=0)
    centers = stream.cluster_centers_
    assert stream.inertia_ == pytest.approx(cost(repeated, centers), rel=1e-9)
    assert stream.score(rows, sample_weight=weight) == pytest.approx(stream.score(repeated))
    one, other = (OnlineKMeans(1, metric="cosine", random_state=0) for _ in range(2))
    one.partial_fit(start).partial_fit(rows, sample_weight=weight)
    other.partial_fit(start).partial_fit(repeated)
    assert one.cluster_centers_ == pytest.approx(other.cluster_centers_, rel=1e-12)


@pytest.mark.parametrize("name", ["stream", "online"])
def test_a_row_of_zeros_is_named(name):
    rows = np.tile(X, (60, 1))
    rows[70_000] = 0
    before = np.full((10, 4), np.nan)
    for table, number, options in (
        (rows, 70_000, {}),
        (np.concatenate([before, rows]), 70_010, {"missing": "drop"}),
    ):
        model = MODELS[name](**options)
        with pytest.raises(ValueError, match=f"rows that are not all zeros; row {number} is"):
            model.fit(table)
    model = MODELS[name]().partial_fit(X)
    with pytest.raises(ValueError, match="row 1 is"):
        model.partial_fit([[1, 2, 3, 4], [0, 0, 0, 0]])
    assert model.n_rows_seen_ == len(X)
    with pytest.raises(ValueError, match="row 3 is"):
        choose_k(np.array([[1.0, 2], [2, 1], [3, 1], [0, 0]]), (1, 2), metric="cosine")


@pytest.mark.parametrize("kind", [StreamingKMeans, OnlineKMeans])
def test_the_metric_of_a_stream_stays(kind):
    model = kind(5, random_state=0).partial_fit(X).set_params(metric="cosine")
    with pytest.raises(ValueError, match=r"^metric='cosine' was set, but the stream began with me"):
        model.partial_fit(X)
    assert model.set_params(metric="euclidean").partial_fit(X).n_rows_seen_ == 2 * len(X)
    fresh = model.set_params(metric="cosine").fit(np.tile(X, (2, 1)))
    assert np.linalg.norm(fresh.cluster_centers_, axis=1) == pytest.approx(np.ones(5))


def test_streams_of_different_metrics_refuse_each_other_and_equal_ones_merge():
    one, other = MODELS["stream"]().fit(X[:600]), MODELS["stream"]().fit(X[600:])
    empty = MODELS["stream"]().merge(one)
    assert np.array_equal(empty.predict(X), one.predict(X))
    both = one.merge(other)
    assert both.inertia_ == pytest.approx(cost(X, both.cluster_centers_), rel=1e-9)
    with pytest.raises(ValueError, match=r"^metric is 'euclidean' here and 'cosine' in the oth"):
        StreamingKMeans(5).fit(X).merge(other)


def test_a_saved_stream_goes_on(tmp_path):
    pytest.importorskip("skops")
    model = MODELS["stream"]().fit(X[:600])
    model.save(tmp_path / "model.skops")
    loaded = StreamingKMeans.load(tmp_path / "model.skops")
    assert loaded.metric == "cosine"
    assert np.array_equal(loaded.transform(X), model.transform(X))
    for each in (model, loaded):
        each.partial_fit(X[600:])
    assert np.array_equal(loaded.cluster_centers_, model.cluster_centers_)
    with pytest.raises(ValueError, match="the stream began with metric='cosine'"):
        loaded.set_params(metric="euclidean").partial_fit(X[600:])


@pytest.mark.parametrize(("d", "k"), [(3, 3), (6, 4), (20, 6)])
def test_k_directions_are_k_clusters_whatever_their_lengths(d, k):
    rows = directions(900, d, k, noise=0.06)
    for kind in (np.asarray, sparse.csr_array):
        choice = choose_k(kind(rows), (1, 9), metric="cosine", random_state=0)
        assert choice.clear
        assert choice.k == k
    assert np.linalg.norm(choice.centers, axis=1) == pytest.approx(np.ones(k))
    for centers, inertia in zip(choice.solutions, choice.inertia, strict=True):
        assert inertia == pytest.approx(cost(rows, centers), rel=1e-9)
    labels = KMeans(k, init=choice.centers, metric="cosine", max_iter=1).fit(rows).labels_
    expected = silhouette_score(rows, labels, metric="cosine")
    assert choice.silhouette[k - 1] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_uniform_directions_are_not_clear(d):
    for seed in range(2):
        rows = np.random.default_rng(seed).normal(size=(800, d))
        assert not choose_k(rows, (1, 8), metric="cosine", random_state=seed).clear


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_few_directions_of_many_lengths_are_copies(dtype):
    rng = np.random.default_rng(0)
    few = np.array([[1, 2, 3], [3, 1, 7], [1, -5, 2]], dtype)[np.arange(300) % 3]
    rows = few * rng.lognormal(0, 1, size=(300, 1)).astype(dtype)
    with pytest.warns(UserWarning, match="3 distinct rows"):
        choice = choose_k(rows, (1, 8), metric="cosine", random_state=0)
    assert choice.clear
    assert choice.k == 3
