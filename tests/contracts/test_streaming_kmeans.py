"""StreamingKMeans: batches, forgetting, merging, saving, and bad input."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from api import SYNOPSES
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from skops import io as skops

from kvariates import KMeans, StreamingKMeans

every_synopsis = pytest.mark.parametrize("synopsis", SYNOPSES)


def stream(batches=12, rows=500, d=3, seed=0):
    rng = np.random.default_rng(seed)
    centers = 20 * rng.normal(size=(5, d))
    return [
        rng.normal(size=(rows, d)) + centers[rng.integers(5, size=rows)] for _ in range(batches)
    ]


def model(**others):
    return StreamingKMeans(**{"n_clusters": 5, "n_synopses": 200, "random_state": 0} | others)


def same(a, b):
    """Whether two models know the same about their streams, and go on alike."""
    assert a.n_rows_seen_ == b.n_rows_seen_
    assert a.weight_seen_ == b.weight_seen_
    np.testing.assert_array_equal(a.synopses_, b.synopses_)
    np.testing.assert_array_equal(a.synopsis_weights_, b.synopsis_weights_)
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)
    return True


@every_synopsis
def test_a_small_stream_is_kept_as_it_is(synopsis):
    X = stream(1, 150)[0]
    fitted = model(synopsis=synopsis).partial_fit(X)
    assert fitted.weight_seen_ == fitted.synopsis_weights_.sum() == 150
    if synopsis != "k-means#":
        np.testing.assert_array_equal(fitted.synopses_, X)
        assert (fitted.synopsis_weights_ == 1).all()


@every_synopsis
def test_weights_add_up_and_the_size_is_bounded(synopsis):
    fitted = model(synopsis=synopsis)
    for batch in stream(40):
        fitted.partial_fit(batch)
        assert fitted.synopsis_weights_.sum() == fitted.n_rows_seen_
    assert len(fitted.synopses_) <= 200


@every_synopsis
def test_to_ask_for_centres_changes_nothing_in_the_stream(synopsis):
    asked, quiet = model(synopsis=synopsis), model(synopsis=synopsis)
    for batch in stream(30):
        asked.partial_fit(batch)
        assert asked.cluster_centers_.shape == (5, 3)
        assert asked.spread_.value >= 0
        quiet.partial_fit(batch)
    assert same(asked, quiet)


def test_centres_are_kept_until_the_next_batch():
    fitted = model().partial_fit(stream(1)[0])
    first = fitted.cluster_centers_
    assert fitted.cluster_centers_ is first
    fitted.partial_fit(np.zeros((0, 3)))
    assert fitted.cluster_centers_ is first
    fitted.partial_fit(stream(1, seed=1)[0])
    assert fitted.cluster_centers_ is not first


@pytest.mark.parametrize("how", ["list", "generator", "array"])
def test_fit_takes_batches_or_a_table(how):
    parts = stream(4)
    X = {"list": parts, "generator": (p for p in parts), "array": np.concatenate(parts)}[how]
    fitted = model().fit(X)
    assert fitted.n_rows_seen_ == 2000
    assert fitted.fit(parts[0]).n_rows_seen_ == 500  # a fit begins anew


def test_a_failed_iterator_leaves_the_rows_before_it():
    def failing():
        yield from stream(3)
        raise OSError("the line is down")

    fitted = model()
    with pytest.raises(OSError, match="the line is down") as caught:
        fitted.fit(failing())
    assert "1,500 rows" in caught.value.__notes__[0]
    assert fitted.n_rows_seen_ == 1500
    before = fitted.cluster_centers_
    with pytest.raises(ValueError, match="x0"):
        fitted.fit([np.array([["x0"]])])
    np.testing.assert_array_equal(fitted.cluster_centers_, before)
    fitted.partial_fit(stream(1)[0])
    assert fitted.n_rows_seen_ == 2000


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        (np.zeros((4, 2)), "2 features"),
        (np.full((4, 3), np.nan), "NaN"),
        (np.array([["a", "b", "c"]]), "could not convert"),
        (np.zeros(3), "2D array"),
    ],
)
def test_a_bad_batch_changes_nothing(batch, words):
    fitted, other = model().partial_fit(stream(1)[0]), model().partial_fit(stream(1)[0])
    with pytest.raises(ValueError, match=words):
        fitted.partial_fit(batch)
    for rows in stream(5, seed=1):
        fitted.partial_fit(rows)
        other.partial_fit(rows)
    assert same(fitted, other)


def test_rows_with_missing_values_are_dropped_and_counted():
    X = stream(1)[0]
    holes = np.insert(X, [0, 10, 500], np.nan, axis=0)
    holes[1, 1] = np.inf
    weight = np.arange(1.0, 504)
    dropping = model(missing="drop").partial_fit(holes, sample_weight=weight)
    finite = np.isfinite(holes).all(axis=1)
    plain = model().partial_fit(holes[finite], sample_weight=weight[finite])
    assert dropping.n_rows_dropped_ == 4
    assert same(dropping, plain)


def test_rows_dropped_before_the_first_kept_row_are_counted():
    none, few = np.full((7, 3), np.nan), np.insert(stream(1)[0], 0, np.nan, axis=0)
    assert model(missing="drop").partial_fit(none).partial_fit(few).n_rows_dropped_ == 8
    assert model(missing="drop").fit([none, few]).n_rows_dropped_ == 8
    dropped = model(missing="drop").partial_fit(none)
    assert model(missing="drop").partial_fit(few).merge(dropped).n_rows_dropped_ == 8
    assert dropped.merge(model(missing="drop").partial_fit(few)).n_rows_dropped_ == 8
    assert dropped.fit([few]).n_rows_dropped_ == 1


def test_before_any_row():
    fresh = model()
    for name in ("cluster_centers_", "inertia_", "synopses_", "n_rows_seen_", "guarantee_lost_"):
        with pytest.raises(NotFittedError, match="no rows"):
            getattr(fresh, name)
    with pytest.raises(NotFittedError):
        fresh.predict([[0.0]])
    with pytest.raises(NotFittedError, match="3 rows were seen"):
        _ = fresh.partial_fit(np.eye(3)).cluster_centers_
    with pytest.raises(ValueError, match="n_samples=3 should be >= n_clusters=5"):
        fresh.fit(np.eye(3))
    with pytest.raises(TypeError, match=r"sources.blocks"):
        fresh.fit("rows.parquet")


@every_synopsis
def test_merged_streams_know_all_rows(synopsis):
    one, two = stream(15), [batch + 1000 for batch in stream(15, seed=1)]
    a, b = model(synopsis=synopsis).fit(one), model(synopsis=synopsis, random_state=1).fit(two)
    before = b.synopses_
    a.merge(b)
    assert a.n_rows_seen_ == a.weight_seen_ == a.synopsis_weights_.sum() == 15_000
    np.testing.assert_array_equal(b.synopses_, before)
    share = a.synopsis_weights_[a.synopses_[:, 0] > 500].sum() / 15_000
    if synopsis in ("coreset", "k-means#"):  # they tell the two streams apart
        assert share == 0.5
    else:  # six deviations of 200 draws
        assert abs(share - 0.5) < 6 * 0.5 / 200**0.5


@pytest.mark.parametrize(
    "change", [{"n_synopses": 300}, {"synopsis": "reservoir"}, {"half_life": 9}]
)
def test_a_summary_is_not_changed_in_the_middle(change):
    fitted = model().partial_fit(stream(1)[0])
    ((name, value),) = change.items()
    with pytest.raises(ValueError, match=f"{name} is {value!r}, but the stream began with"):
        fitted.set_params(**change).partial_fit(stream(1)[0])
    assert fitted.fit(stream(2)).n_rows_seen_ == 1000  # a new stream


@pytest.mark.parametrize("change", [{"half_life": 9}, {"synopsis": "reservoir"}])
def test_streams_are_merged_by_how_they_began(change):
    changed = model().partial_fit(stream(1)[0]).set_params(**change)
    other = model(**change).partial_fit(stream(1)[0])
    for a, b in ((changed, other), (other, changed)):
        with pytest.raises(ValueError, match=f"{next(iter(change))} is .* the stream began with"):
            a.merge(b)


def test_parameters_are_checked_whenever_they_are_used():
    fitted = model().partial_fit(stream(1)[0]).set_params(init="nope")
    for ask in (lambda: fitted.cluster_centers_, lambda: fitted.partial_fit(stream(1)[0])):
        with pytest.raises(ValueError, match="The 'init' parameter of StreamingKMeans must be"):
            ask()


def test_models_without_rows_are_merged():
    full, empty = model().fit(stream(2)), model(random_state=5)
    assert full.merge(model()).n_rows_seen_ == 1000
    assert empty.merge(full).n_rows_seen_ == 1000
    np.testing.assert_array_equal(empty.synopses_, full.synopses_)
    empty.partial_fit(stream(1)[0])
    assert full.n_rows_seen_ == 1000


def test_other_parameters_give_other_centres():
    fitted = model().fit(stream(2))
    assert fitted.cluster_centers_.shape == (5, 3)
    assert fitted.set_params(n_clusters=3).cluster_centers_.shape == (3, 3)


def test_only_alike_models_are_merged():
    a = model().partial_fit(stream(1)[0])
    with pytest.raises(ValueError, match="n_synopses is 200 here and 100"):
        a.merge(model(n_synopses=100).partial_fit(stream(1)[0]))
    with pytest.raises(ValueError, match="n_features_in_ is 3 here and 2"):
        a.merge(model().partial_fit(stream(1, d=2)[0]))
    with pytest.raises(ValueError, match="dtype is"):
        a.merge(model().partial_fit(stream(1)[0].astype(np.float32)))
    with pytest.raises(TypeError, match="not a KMeans"):
        a.merge(KMeans())


def test_forgetting_follows_a_stream_that_moves():
    early, late = stream(20), [batch + 1000 for batch in stream(20)]
    forgetful, keeping = model(half_life=200), model()
    for batch in early + late:
        forgetful.partial_fit(batch)
        keeping.partial_fit(batch)
    assert forgetful.weight_seen_ < 300
    assert (forgetful.cluster_centers_ > 500).all()
    assert (keeping.cluster_centers_ < 500).any()


@pytest.mark.parametrize("half_life", [None, 700.0])
@every_synopsis
def test_a_saved_stream_goes_on(tmp_path, synopsis, half_life):
    whole, first = (model(synopsis=synopsis, half_life=half_life) for _ in range(2))
    parts = stream(30)
    for batch in parts:
        whole.partial_fit(batch)
    for batch in parts[:17]:
        first.partial_fit(batch)
    first.save(tmp_path / "model.skops")
    second = StreamingKMeans.load(tmp_path / "model.skops")
    for batch in parts[17:]:
        second.partial_fit(batch)
    assert same(second, whole)
    assert clone(second).get_params() == second.get_params()


KILLED = """
import os, sys
import numpy as np
from kvariates import StreamingKMeans
path, batches = sys.argv[1], np.load(sys.argv[2])
model = StreamingKMeans(5, n_synopses=200, random_state=0)
for i, batch in enumerate(batches):
    model.partial_fit(batch)
    if i == 9:
        model.save(path)
    if i == 14:
        os.kill(os.getpid(), 9)
"""


def test_a_killed_process_goes_on_from_its_last_save(tmp_path):
    parts = stream(30)
    np.save(tmp_path / "parts.npy", parts)
    path = tmp_path / "model.skops"
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), str(tmp_path / "parts.npy")], check=False
    )
    assert done.returncode == -9
    resumed = StreamingKMeans.load(path)
    for batch in parts[resumed.n_rows_seen_ // 500 :]:
        resumed.partial_fit(batch)
    assert same(resumed, model().fit(parts))


@pytest.mark.parametrize("dumps", [pickle.dumps, skops.dumps])
def test_a_copy_of_a_stream_holds_the_kept_rows_and_no_other_memory(dumps, monkeypatch):
    secret, empty = 7654321.875, np.empty

    def reserved(*args, **options):
        array = empty(*args, **options)
        array.fill(secret if array.dtype.kind == "f" else 0)
        return array

    monkeypatch.setattr(np, "empty", reserved)
    fitted = StreamingKMeans(2, random_state=0).partial_fit(stream(1, 10)[0])
    content = dumps(fitted)
    assert len(content) < 100_000
    assert np.float64(secret).tobytes() not in content
    copy = pickle.loads(pickle.dumps(fitted))
    for rows in stream(3, 100_000):
        assert same(copy.partial_fit(rows), fitted.partial_fit(rows))


@pytest.mark.parametrize("half_life", [None, 3.0, 300.0])
@every_synopsis
def test_the_cut_into_batches_changes_nothing(synopsis, half_life):
    X = np.concatenate(stream(12))
    weight = np.random.default_rng(0).integers(0, 3, size=len(X)) / 7
    fitted = []
    for cuts in ([], [1, 2, 777, 778, 5000], range(450, 6000, 450)):
        fitted.append(model(synopsis=synopsis, half_life=half_life))
        parts = zip(np.split(X, cuts), np.split(weight, cuts), strict=True)
        for rows, w in parts:
            if w.any():
                fitted[-1].partial_fit(rows, sample_weight=w)
    for other in fitted[1:]:
        assert same(other, fitted[0])
        assert other.spread_ == fitted[0].spread_


@every_synopsis
@pytest.mark.parametrize("place", ["summary", "witnesses"])
def test_an_interrupted_batch_leaves_the_stream_as_it_was(synopsis, place, monkeypatch):
    parts = stream(30)
    broken, whole = (
        model(synopsis=synopsis).fit(parts[:20]),
        model(synopsis=synopsis).fit(parts[:20]),
    )
    holder = f"_{place}"
    kind = type(getattr(broken._state, holder))
    add = kind.add

    def interrupted(self, *args):
        add(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kind, "add", interrupted)
        with pytest.raises(KeyboardInterrupt):
            broken.partial_fit(np.concatenate(parts[:10]) + 1e6)
    assert same(broken, whole)
    for batch in parts[20:]:
        broken.partial_fit(batch)
        whole.partial_fit(batch)
    assert same(broken, whole)


@every_synopsis
def test_what_is_handed_out_is_a_copy(synopsis):
    fitted = model(synopsis=synopsis).partial_fit(stream(1, 50)[0])
    before, kept = fitted.synopses_, fitted.synopses_.copy()
    fitted.partial_fit(stream(1, 400, seed=3)[0])
    np.testing.assert_array_equal(before, kept)
    fitted.synopses_[:] = 0
    assert np.count_nonzero(fitted.synopses_)


def test_streams_with_the_same_seed_make_other_draws():
    """Otherwise a merged sample would have the rows of the same numbers from both streams."""
    X = np.arange(4000.0)[:, None]
    one = model(n_synopses=50, synopsis="reservoir").fit(X[:2000])
    two = model(n_synopses=50, synopsis="reservoir").fit(X[2000:])
    both = set(one.synopses_[:, 0]) & set(two.synopses_[:, 0] - 2000)
    assert len(both) < 20


def test_dense_and_sparse_batches_are_not_mixed():
    X = stream(1)[0]
    with pytest.raises(ValueError, match="The batch is sparse, but those before are dense"):
        model().fit([X, sparse.csr_array(X)])
    with pytest.raises(ValueError, match="The batch is dense, but those before are sparse"):
        model().fit([sparse.csr_array(X), X])


def test_weights_are_those_of_the_whole_table():
    X = np.random.default_rng(0).normal(size=(70_000, 2))
    weight = np.ones(70_000)
    weight[:65_536] = 0
    assert model().fit(X, sample_weight=weight).weight_seen_ == 70_000 - 65_536
    with pytest.raises(ValueError, match=r"Sample weights|sample_weight"):
        model().fit(X[:65_536], sample_weight=weight)
