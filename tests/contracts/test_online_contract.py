"""What OnlineKMeans takes and refuses, and what it keeps when something fails."""

import numpy as np
import pandas as pd
import pytest
from api import Block, OnlineKMeans, SourceBlocks
from laws.cases import rows
from scipy import sparse

X = rows(120, 3, seed=4)
PARTS = np.array_split(X, 6)


def fitted(**options):
    model = OnlineKMeans(3, **{"random_state": 0, **options})
    for part in PARTS:
        model.partial_fit(part)
    return model


class CutTable(SourceBlocks):
    names, n_rows, repeatable, description = None, None, True, "test blocks"

    def __init__(self, weight=None):
        self.weight = weight

    def __iter__(self):
        for i in range(0, len(X), 20):
            yield Block(X[i : i + 20], None if self.weight is None else self.weight[i : i + 20], i)


def kept(model):
    return model.cluster_centers_.tobytes(), model.n_rows_seen_, model.n_rows_dropped_


# ---- batches ----


@pytest.mark.parametrize("empty", [np.empty((0, 3)), sparse.csr_array((0, 3))])
def test_an_empty_batch_is_ignored(empty):
    model = OnlineKMeans(3, random_state=0).partial_fit(empty)
    assert not hasattr(model, "cluster_centers_")
    for part in PARTS:
        model.partial_fit(empty).partial_fit(part)
    assert kept(model) == kept(fitted())


def test_batches_of_one_row_are_the_centres():
    model = OnlineKMeans(3, update=False)
    for row in X[:5]:
        model.partial_fit([row])
    assert np.array_equal(model.cluster_centers_, X[:3])
    moving = OnlineKMeans(1).partial_fit(X[:1]).partial_fit(X[1:2])
    assert np.allclose(moving.cluster_centers_, X[:2].mean(axis=0), rtol=1e-15)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (X[:, :2], "2 features, but OnlineKMeans is expecting 3"),
        ([["a", "b", "c"]], "could not convert"),
        (np.where(np.arange(3) == 1, np.nan, X), "NaN"),
        (np.where(np.arange(3) == 1, np.inf, X), "infinity"),
        (X[0], "Expected 2D array"),
        (X * 1e200, "too large"),
        (3.0, "."),
    ],
)
def test_a_bad_batch_is_refused_and_changes_nothing(batch, message):
    model = fitted()
    before = kept(model)
    with pytest.raises((ValueError, TypeError), match=message):
        model.partial_fit(batch)
    assert kept(model) == before


def test_bad_weights():
    for weights, message in (
        (np.zeros(20), "zero"),
        (-np.ones(20), "[Nn]egative"),
        ([1.0], "shape"),
    ):
        with pytest.raises(ValueError, match=message):
            OnlineKMeans(3).partial_fit(PARTS[0], sample_weight=weights)


def test_other_dtypes():
    model = OnlineKMeans(3, random_state=0).partial_fit(PARTS[0].astype(np.float32))
    assert model.cluster_centers_.dtype == np.float32
    model.partial_fit(np.round(PARTS[1]).astype(int)).partial_fit(PARTS[2])
    assert model.cluster_centers_.dtype == np.float32
    with pytest.raises(ValueError, match="too large for dtype"):
        model.partial_fit(X * 1e200)
    assert OnlineKMeans(3).partial_fit([[1, 2]]).cluster_centers_.dtype == np.float64


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_rows_with_nan_are_dropped_and_counted(layout):
    model = OnlineKMeans(3, missing="drop", random_state=0)
    for part in PARTS:
        broken = np.insert(part, [2, 7], np.nan, axis=0)
        model.partial_fit(layout(broken), sample_weight=np.insert(np.ones(20), [2, 7], 9.0))
    assert kept(model) == (*kept(fitted())[:2], 12)
    before = model.cluster_centers_.tobytes()
    model.partial_fit(layout(np.full((2, 3), np.nan)))
    assert (model.cluster_centers_.tobytes(), model.n_rows_dropped_) == (before, 14)
    model.partial_fit(layout(np.full((2, 3), np.inf)))
    assert (model.cluster_centers_.tobytes(), model.n_rows_dropped_) == (before, 16)
    with pytest.raises(ValueError, match="NaN"):
        model.predict(np.full((2, 3), np.nan))


def test_a_first_batch_that_is_dropped_leaves_no_centre():
    model = OnlineKMeans(3, missing="drop").partial_fit(np.full((2, 3), np.nan))
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)
    assert len(model.partial_fit(PARTS[0]).cluster_centers_) == 1
    assert (model.n_rows_seen_, model.n_rows_dropped_) == (20, 2)


def test_feature_names():
    model = OnlineKMeans(3, random_state=0)
    for part in PARTS:
        model.partial_fit(pd.DataFrame(part, columns=["a", "b", "c"]))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    assert kept(model) == kept(fitted())
    with pytest.raises(ValueError, match="feature names"):
        model.partial_fit(pd.DataFrame(PARTS[0], columns=["c", "b", "a"]))


# ---- fit ----


@pytest.mark.parametrize(
    "source",
    [
        PARTS,
        tuple(PARTS),
        (part for part in PARTS),
        [PARTS[0], np.empty((0, 3)), *PARTS[1:]],
        [pd.DataFrame(part) for part in PARTS],
        CutTable(),
        map(sparse.csr_array, PARTS),
    ],
    ids=["list", "tuple", "generator", "with an empty one", "frames", "blocks", "csr"],
)
def test_fit_of_batches_is_partial_fit_of_each(source):
    model = OnlineKMeans(3, random_state=0).fit(X[:, :2]).fit(source)
    assert kept(model) == kept(fitted())
    assert not hasattr(model, "labels_")


def test_blocks_have_their_weights():
    weight = np.arange(1.0, 121)
    model = OnlineKMeans(3, random_state=0)
    for block in CutTable(weight):
        model.partial_fit(block.X, sample_weight=block.weight)
    again = OnlineKMeans(3, random_state=0).fit(CutTable(weight))
    assert kept(again) == kept(model)
    assert kept(again) != kept(fitted())


def test_a_table_is_cut_into_batches():
    whole = OnlineKMeans(3, random_state=0).fit(X)  # 3 batches to draw from, 3 more to move
    assert kept(whole) == kept(fitted())
    assert np.array_equal(whole.labels_, whole.predict(X))
    assert not hasattr(whole.partial_fit(X), "labels_")
    still = OnlineKMeans(6, update=False, random_state=0).fit(X.tolist())
    steps = OnlineKMeans(6, update=False, random_state=0).fit(PARTS)
    assert kept(still) == kept(steps)
    assert len(OnlineKMeans(120).fit(X).cluster_centers_) == 120
    with pytest.raises(ValueError, match="n_samples=4 should be >= n_clusters=5"):
        OnlineKMeans(5).fit(X[:4])


def test_rows_of_weight_zero_count_as_no_rows():
    weight = np.repeat([0.0, 1.0], [60, 60])
    model = OnlineKMeans(3, random_state=0).fit(X, sample_weight=weight)
    alone = OnlineKMeans(3, random_state=0).fit(X[60:])
    assert model.cluster_centers_.tobytes() == alone.cluster_centers_.tobytes()
    assert len(model.labels_) == 120


def failing(parts, error):
    yield from parts
    raise error


def test_an_iterator_that_fails_leaves_what_was_learned():
    model = fitted()
    with pytest.raises(OSError, match="disk") as caught:
        model.fit(failing(PARTS[:4], OSError("disk")))
    assert caught.value.__notes__ == ["80 rows were read before; the model has kept them."]
    assert model.n_rows_seen_ == 80
    for part in PARTS[4:]:
        model.partial_fit(part)
    assert kept(model) == kept(fitted())


@pytest.mark.parametrize("bad", [X[:, :2], X * 1e200, X * 1e150, np.full((2, 3), np.nan)])
def test_a_bad_batch_in_the_middle_leaves_what_was_learned(bad):
    """Values of 1e150 are noticed only when their distances to the centres are computed."""
    model = OnlineKMeans(3, random_state=0)
    with pytest.raises(ValueError, match=r"features|too large|NaN") as caught:
        model.fit([*PARTS[:2], bad, *PARTS[2:]])
    assert caught.value.__notes__ == ["40 rows were read before; the model has kept them."]
    assert model.n_rows_seen_ == 40
    for part in PARTS[2:]:
        model.partial_fit(part)
    assert kept(model) == kept(fitted())


@pytest.mark.parametrize(
    "source", [failing([], OSError("disk")), [X[:, :2] * np.nan], iter([]), [np.empty((0, 3))]]
)
def test_a_fit_without_a_first_batch_leaves_the_model_as_it_was(source):
    model = fitted()
    with pytest.raises((OSError, ValueError), match=r"disk|NaN|for 0 centres"):
        model.fit(source)
    assert kept(model) == kept(fitted())


def test_too_few_batches():
    with pytest.raises(
        ValueError, match="for 2 centres only, one batch for each, and n_clusters=3"
    ):
        OnlineKMeans(3).fit(PARTS[:2])


def test_weights_of_an_iterable_are_refused():
    with pytest.raises(ValueError, match="partial_fit"):
        OnlineKMeans(3).fit(PARTS, sample_weight=np.ones(120))


def test_options():
    for options in ({"n_clusters": 0}, {"update": "yes"}, {"missing": "ignore"}):
        for call in ("fit", "partial_fit"):
            with pytest.raises(ValueError, match=f"'{next(iter(options))}' parameter"):
                getattr(OnlineKMeans(**options), call)(X)


# ---- what is known ----


def test_the_guarantee_comes_with_the_last_centre_and_goes_with_the_first_move():
    still, moving = OnlineKMeans(3, update=False), OnlineKMeans(3)
    for part in PARTS[:2]:
        assert still.partial_fit(part).guarantee_ is None
        assert "a batch is needed for each" in still.guarantee_lost_
        moving.partial_fit(part)
    for part in PARTS[2:]:
        still.partial_fit(part)
        assert still.guarantee_lost_ is None
        assert still.guarantee_.theorem.startswith("Theorem 6")
        assert still.guarantee_.terms == {"k": 3.0, "opt": None, "varsigma": None}
        assert moving.partial_fit(part).guarantee_ is None
        assert "update=False" in moving.guarantee_lost_
    assert "not known" in still.guarantee_.explain()


def test_more_clusters_later():
    model = fitted().set_params(n_clusters=5)
    for part in PARTS[:3]:
        model.partial_fit(part)
    assert len(model.cluster_centers_) == 5
    assert len(fitted().set_params(n_clusters=2).partial_fit(X).cluster_centers_) == 3
