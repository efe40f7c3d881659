"""The adapter works in river: pipelines, progressive validation, and river's own checks."""

import numpy as np
import pytest
from api import OnlineKMeans
from laws.cases import rows
from river import checks, evaluate, metrics, preprocessing, stream

from kvariates.river import RiverClusterer

NAMES = ["a", "b", "c"]
CENTERS = np.array([[0.0, 0, 0], [30, 0, 5], [0, 30, 9]])
OF = np.random.default_rng(0).integers(0, 3, size=600)
X = CENTERS[OF] + rows(600, 3, seed=1, groups=1)
DATA = [(dict(zip(NAMES, row, strict=True)), int(y)) for row, y in zip(X.tolist(), OF, strict=True)]


def clusterer(**options):
    return RiverClusterer(OnlineKMeans(3, random_state=1), **{"batch_size": 50, **options})


def test_rivers_checks():
    checks.check_estimator(clusterer())
    checks.check_estimator(RiverClusterer())
    names = [check.__name__ for check in checks.yield_checks(clusterer())]
    assert "check_clone_changes_memory_addresses" in names


def test_rows_are_learned_in_batches():
    model, plain = clusterer(), OnlineKMeans(3, random_state=1)
    for i, (x, _) in enumerate(DATA):
        model.learn_one(x)
        if i % 50 == 49:
            plain.partial_fit(X[i - 49 : i + 1])
            assert np.array_equal(model.learned.cluster_centers_, plain.cluster_centers_)
        elif i < 49:
            assert (model.predict_one(x), model.centers) == (0, {})
    assert [model.predict_one(x) for x, _ in DATA] == plain.predict(X).tolist()
    assert np.array_equal([[c[n] for n in NAMES] for c in model.centers.values()],
                          plain.cluster_centers_)  # fmt: skip
    assert not hasattr(model.model, "cluster_centers_")


def test_the_order_of_the_features_does_not_matter():
    one, other = clusterer(), clusterer()
    for x, _ in DATA:
        one.learn_one(x)
        other.learn_one(dict(reversed(x.items())))
    assert one.centers == other.centers


def test_a_pipeline_with_progressive_validation():
    model = preprocessing.StandardScaler() | clusterer()
    metric = evaluate.progressive_val_score(DATA, model, metrics.Silhouette())
    # The first 50 rows are not scored; the clusters are far apart.
    assert 0 < metric.get() < 0.35
    learned = model["RiverClusterer"].learned
    assert learned.n_rows_seen_ == 600
    assert np.abs(learned.cluster_centers_).max() < 3  # they are in the scaled space
    external = evaluate.progressive_val_score(
        DATA, preprocessing.StandardScaler() | clusterer(), metrics.AdjustedRand()
    )
    assert external.get() > 0.5


def test_streams_of_river_are_learned():
    model = clusterer()
    for x, _ in stream.iter_array(X, feature_names=NAMES):
        model.learn_one(x)
    again = clusterer()
    for x, _ in DATA:
        again.learn_one(x)
    assert model.centers == again.centers


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": 1, "b": 2}, r"missing: \['c'\], new: \[\]"),
        ({"a": 1, "b": 2, "c": 3, "d": 4}, r"missing: \[\], new: \['d'\]"),
        ({"a": 1, "b": 2, "d": 4}, r"missing: \['c'\], new: \['d'\]"),
        ({"a": 1, "b": 2, "c": "x"}, "could not convert"),
        ({"a": 1, "b": 2, "c": float("nan")}, "NaN"),
    ],
)
def test_other_features_are_refused(row, message):
    model = clusterer(batch_size=20)
    for x, _ in DATA[:60]:
        model.learn_one(x)
    before = model.centers
    with pytest.raises(ValueError, match=message):
        model.predict_one(row)
    with pytest.raises(ValueError, match=message):
        model.learn_one(row)
    for x, _ in DATA[60:80]:
        model.learn_one(x)
    assert model.learned.n_rows_seen_ == 80
    assert model.centers != before


def test_rows_with_nan_can_be_dropped():
    model = RiverClusterer(OnlineKMeans(1, missing="drop"), batch_size=2)
    for value in (1.0, float("nan"), 3.0, 5.0):
        model.learn_one({"a": value})
    assert (model.learned.n_rows_seen_, model.learned.n_rows_dropped_) == (3, 1)
    assert model.centers == {0: {"a": 3.0}}


def test_a_batch_size_must_be_positive():
    with pytest.raises(ValueError, match="at least 1; it is 0"):
        RiverClusterer(batch_size=0)
