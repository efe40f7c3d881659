"""`kvariates.dask.StreamingSummary`: the weight and the cost of all rows, on any cluster."""

import numpy as np
import pytest
from api import SYNOPSES, Rows, objective_for
from dask import array as da

from kvariates import StreamingKMeans
from kvariates.dask import StreamingSummary


@pytest.fixture(scope="module")
def many():
    """Three clusters, of which one has few rows."""
    rng = np.random.default_rng(5)
    label = rng.choice(3, size=20_000, p=[0.6, 0.395, 0.005])
    return rng.normal(size=(20_000, 4)) + np.array([0, 10, 60])[label][:, None]


def cost(points, weights, centers):
    rows = Rows.of(np.ascontiguousarray(points))
    return weights @ rows.costs(centers, rows.nearest(centers))


@pytest.mark.parametrize("synopsis", SYNOPSES)
def test_stands_for_all_rows(client, many, synopsis):
    X = da.from_array(many, chunks=(1500, 4))
    summary = StreamingSummary(1000, 3, synopsis=synopsis, random_state=0, client=client).fit(X)
    points, weights = summary.synopses_, summary.synopsis_weights_
    assert len(points) <= 1000
    assert summary.n_rows_seen_ == 20_000
    assert weights.sum() == pytest.approx(20_000)
    centers = many[[0, 1, 2]] + 3.0
    rough = 0.5 if synopsis in ("reservoir", "k-means#") else 0.05
    assert cost(points, weights, centers) == pytest.approx(
        cost(many, np.ones(len(many)), centers), rel=rough
    )


def test_unbiased(client, many):
    """The mean over many seeds is the cost of the rows, within five standard errors."""
    X, centers = da.from_array(many, chunks=(2000, 4)), many[:2] + 1.0
    exact = cost(many, np.ones(len(many)), centers)
    found = []
    for seed in range(20):
        summary = StreamingSummary(40, 3, random_state=seed, client=client).fit(X)
        found.append(cost(summary.synopses_, summary.synopsis_weights_, centers))
    error = np.std(found, ddof=1) / len(found) ** 0.5
    assert 0 < error < 0.1 * exact
    assert abs(np.mean(found) - exact) < 5 * error


def test_same_bits_on_any_workers(client, threads, many):
    X, weight = da.from_array(many, chunks=(1500, 4)), np.arange(20_000.0)
    found = [
        StreamingSummary(500, 3, random_state=7, client=c).fit(X, sample_weight=weight)
        for c in (client, threads(1), threads(3))
    ]
    for other in found[1:]:
        np.testing.assert_array_equal(other.synopses_, found[0].synopses_)
        np.testing.assert_array_equal(other.synopsis_weights_, found[0].synopsis_weights_)
    assert found[0].synopsis_weights_.sum() == pytest.approx(weight.sum())


def test_a_stream_takes_it(client, many):
    X = da.from_array(many, chunks=(1500, 4))
    summary = StreamingSummary(1000, 3, random_state=0, client=client).fit(X)
    model = StreamingKMeans(3, n_synopses=1000, random_state=0)
    model.partial_fit(summary.synopses_, sample_weight=summary.synopsis_weights_)
    assert model.weight_seen_ == pytest.approx(20_000)
    best = StreamingKMeans(3, n_synopses=20_000, random_state=0).fit(many)
    assert -model.score(many) < 1.05 * -best.score(many)


def test_few_rows_are_kept_as_they_are(client, many):
    summary = StreamingSummary(1000, 3, random_state=0, client=client)
    summary.fit(da.from_array(many[:600], chunks=(100, 4)))
    np.testing.assert_array_equal(summary.synopses_, many[:600])
    np.testing.assert_array_equal(summary.synopsis_weights_, np.ones(600))


def test_a_summary_of_directions_is_that_of_rows_of_length_one(client, many):
    X, weight = da.from_array(many, chunks=(1500, 4)), np.arange(20_000.0)
    unit = da.from_array(objective_for("cosine", None, None, None).rows(many).X, chunks=(1500, 4))
    options = {"n_synopses": 500, "n_clusters": 3, "random_state": 7, "client": client}
    found = StreamingSummary(metric="cosine", **options).fit(X, sample_weight=weight)
    other = StreamingSummary(**options).fit(unit, sample_weight=weight)
    np.testing.assert_array_equal(found.synopses_, other.synopses_)
    np.testing.assert_array_equal(found.synopsis_weights_, other.synopsis_weights_)
    np.testing.assert_allclose(np.linalg.norm(found.synopses_, axis=1), 1)
