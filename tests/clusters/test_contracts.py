"""What every engine for clusters promises: the same bits everywhere, also if a worker is killed."""

import itertools
import pickle
import time

import numpy as np
import pandas as pd
import pytest
from api import (
    PEER_SEEDINGS,
    Coordinator,
    FitOptions,
    HostData,
    Peer,
    PeersData,
    Rows,
    SquaredEuclidean,
    fit_peers,
)
from clusters.engines import NAMES, SIZES, Dask, Ray, pieces
from peers.local_transport import LocalTransport
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import kvariates

FITTED = ("cluster_centers_", "inertia_", "n_iter_")


pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::FutureWarning:ray.*"),
    pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning"),
]


def engines(names, dask, ray):
    """Parameters for each engine. Ray starts processes for every fit, so it gets fewer."""
    slow = [pytest.param("ray", *values, marks=pytest.mark.slow) for values in ray]
    pairs = [*(("dask", *values) for values in dask), *slow]
    return pytest.mark.parametrize(f"engine, {names}", pairs, indirect=["engine"])


both = pytest.mark.parametrize(
    "engine", ["dask", pytest.param("ray", marks=pytest.mark.slow)], indirect=True
)
dask = pytest.mark.parametrize("engine", ["dask"], indirect=True)


@pytest.fixture
def engine(request, tmp_path_factory):
    if request.param == "ray":
        request.getfixturevalue("ray_cluster")
        return Ray(lambda: tmp_path_factory.mktemp("rows"))
    threads, client = request.getfixturevalue("threads"), request.getfixturevalue("client")
    return Dask(lambda workers: client if workers == 2 else threads(workers))


def assert_same(model, other):
    for name in FITTED:
        np.testing.assert_array_equal(getattr(model, name), getattr(other, name), err_msg=name)


def fitted(engine, k, X, weight=None, form="blocks", workers=2, **options):
    X, weight = engine.put(
        X, weight, form, **{n: options.pop(n) for n in {"sizes"} & options.keys()}
    )
    return engine.kmeans(k, workers, **{"random_state": 0} | options).fit(X, sample_weight=weight)


def over_local_peers(X, weight, init, seed=0, k=3, sizes=SIZES):
    """The same shards without a cluster."""
    rng = np.random.default_rng(seed)
    number = int(np.random.default_rng(seed).integers(2**62))
    weights = [None] * len(sizes) if weight is None else pieces(weight, sizes)
    shards = [pair for pair in zip(pieces(X, sizes), weights, strict=True) if len(pair[0])]
    peers = {
        str(i): Peer(HostData(Rows.of(np.ascontiguousarray(part)), w), i).answer
        for i, (part, w) in enumerate(shards)
    }
    transport = LocalTransport(peers)
    try:
        data = PeersData(Coordinator(transport, number))
        return fit_peers(data, SquaredEuclidean(), FitOptions(k, init), rng)
    finally:
        transport.end()


@engines(
    "init",
    [*((i,) for i in PEER_SEEDINGS), ("array",)],
    [("d2",), ("k-means||",), ("dk-means++",)],
)
def test_same_bits_for_all_forms_of_input_and_over_local_peers(engine, rows, weights, init):
    init = rows[[5, 6, 7]] if init == "array" else init
    expected = over_local_peers(rows, weights, init)
    for form in engine.forms if isinstance(engine, Dask) or init == "d2" else ["blocks"]:
        model = fitted(engine, 3, rows, weights, form, init=init)
        np.testing.assert_array_equal(model.cluster_centers_, expected.centers)
        assert (model.inertia_, model.n_iter_) == (expected.inertia, expected.n_iter)
        if form != "parquet":  # Ray decides how many files are a block
            assert model.transcript_ == expected.transcript


@engines("init", [(i,) for i in PEER_SEEDINGS], [("d2",)])
def test_same_bits_on_one_two_and_three_workers(engine, rows, init):
    first, *others = (fitted(engine, 3, rows, workers=w, init=init) for w in (2, 1, 3))
    for model in others:
        assert_same(model, first)


@engines(
    "init, dtype",
    list(itertools.product(["d2", "k-means++", "k-means||", "array"], [np.float32, np.float64])),
    [("k-means++", np.float32)],
)
def test_the_fit_of_rows_in_memory(engine, init, dtype):
    """So many rows that seedings in memory do not sort them."""
    rng = np.random.default_rng(2)
    X = (rng.normal(size=(70_000, 4)) + 6 * rng.integers(5, size=(70_000, 1))).astype(dtype)
    weight = rng.random(70_000)
    init = X[:5] if init == "array" else init
    sizes = (30_000, 30_000, 10_000)
    ours = fitted(engine, 5, X, weight, init=init, random_state=3, sizes=sizes)
    theirs = kvariates.KMeans(5, init=init, random_state=3).fit(X, sample_weight=weight)
    assert_same(ours, theirs)
    assert ours.cluster_centers_.dtype == dtype


@pytest.mark.few_rows
@engines(
    "n, weighted, metric",
    list(itertools.product([400, 70_000], [False, True], ["euclidean", "cosine"])),
    [(400, True, "euclidean"), (70_000, True, "cosine")],
)
def test_defaults_give_the_centres_of_a_fit_in_memory(engine, n, weighted, metric):
    """Few rows, which are drawn in canonical order, and many."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, 4)) + 5 * rng.normal(size=(12, 4))[rng.integers(12, size=n)]
    weight = rng.random(n) if weighted else None
    theirs = kvariates.KMeans(12, metric=metric, random_state=5).fit(X, sample_weight=weight)
    plans = ((1, 2), (3, 1), (7, 2), (64, 3)) if isinstance(engine, Dask) else ((7, 2),)
    for parts, workers in plans:
        sizes = [len(part) for part in np.array_split(X, parts)]
        held, by = engine.put(X, weight, sizes=sizes)
        ours = engine.kmeans(12, workers, metric=metric, random_state=5)
        ours.fit(held, sample_weight=by)
        assert_same(ours, theirs)
        np.testing.assert_array_equal(engine.gathered(ours.labels_), theirs.labels_)


@dask
def test_the_best_of_several_runs_is_that_of_memory(engine):
    X = np.random.default_rng(4).normal(size=(70_000, 4))
    options = {"init": "d2", "n_init": 3, "max_iter": 4, "random_state": 1}
    ours = fitted(engine, 9, X, sizes=(20_000, 50_000), **options)
    assert_same(ours, kvariates.KMeans(9, **options).fit(X))


@both
def test_a_row_without_a_direction_is_named(engine):
    X = np.ones((400, 2))
    X[250] = 0
    with pytest.raises(ValueError, match=r"^partition 2: metric='cosine' needs .* row 50 is"):
        fitted(engine, 3, X, metric="cosine", sizes=(100,) * 4)


@engines("weighted, tiny", [(False, 20), (True, 20)], [(True, 50)])
def test_tiny_partitions_are_joined_and_give_the_same_bits(engine, rows, weights, weighted, tiny):
    weight = weights if weighted else None
    few, many = (
        fitted(engine, 3, rows, weight, init="k-means++", sizes=(size,) * (3000 // size))
        for size in (1000, tiny)
    )
    assert_same(few, many)
    assert many.transcript_.messages < 8 * few.transcript_.messages


@dask
def test_weights_count_as_repeated_rows(engine, rows, weights):
    init = rows[:3]
    weighted = fitted(engine, 3, rows, weights, init=init, tol=0)
    repeated = np.repeat(rows, weights.astype(int), axis=0)
    sizes = (2000, 2000, len(repeated) - 4000)
    assert_same(weighted, fitted(engine, 3, repeated, init=init, tol=0, sizes=sizes))


@dask
def test_partitions_of_weight_zero(engine, rows):
    weight = np.ones(3000)
    weight[701:2000] = 0
    X, w = engine.put(rows, weight)
    for init in PEER_SEEDINGS:
        model = engine.kmeans(3, init=init, random_state=0).fit(X, sample_weight=w)
        assert model.inertia_ == -model.score(X, sample_weight=w) > 0


@dask
def test_one_dtype_for_all_partitions(engine, rows):
    parts = pieces(rows.astype(np.float32))
    mixed = engine.blocks([part.astype(float) if i == 3 else part for i, part in enumerate(parts)])
    model = engine.kmeans(3, init=rows[:3]).fit(mixed)
    whole = rows.astype(np.float32).astype(np.float64)
    assert_same(model, kvariates.KMeans(3, init=rows[:3]).fit(whole))


@both
def test_sparse_blocks(engine, rows):
    from scipy import sparse

    X = np.where(rows > 3, rows, 0)
    model = engine.kmeans(3, init=X[:3]).fit(engine.blocks(map(sparse.csr_matrix, pieces(X))))
    assert_same(model, kvariates.KMeans(3, init=X[:3]).fit(sparse.csr_matrix(X)))


@both
def test_labels_distances_and_score(engine, rows):
    for form in engine.forms if isinstance(engine, Dask) else ("dataset", "blocks"):
        X, _ = engine.put(rows, form=form)
        model = engine.kmeans(3, random_state=0).fit(X)
        plain = kvariates.KMeans(3, init=model.cluster_centers_, max_iter=1).fit(rows)
        plain.cluster_centers_ = model.cluster_centers_
        labels = plain.predict(rows)
        np.testing.assert_array_equal(engine.gathered(model.labels_), labels)
        np.testing.assert_array_equal(engine.gathered(model.transform(X)), plain.transform(rows))
        assert model.score(X) == plain.score(rows) == -model.inertia_
        names = NAMES if form in ("frame", "dataset", "parquet") else None
        assert vars(model).get("feature_names_in_", np.array(None)).tolist() == names
        in_memory = rows if names is None else pd.DataFrame(rows, columns=names)
        np.testing.assert_array_equal(model.predict(in_memory), labels)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["ray"], indirect=True)
def test_labels_keep_the_order_of_a_dataset(engine, rows):
    def wait_for_the_first(frame):
        time.sleep(2 * (frame["a"] == -100).any())
        return frame

    X = rows.copy()
    X[0] = -100
    dataset, _ = engine.put(X, form="dataset")
    model = engine.kmeans(3, init=X[:3]).fit(dataset)
    slow = dataset.map_batches(wait_for_the_first, batch_format="pandas", batch_size=None)
    labels = model.predict(pd.DataFrame(X, columns=NAMES))
    np.testing.assert_array_equal(engine.gathered(model.predict(slow)), labels)


@dask
def test_clone_and_pickle(engine, rows):
    model = fitted(engine, 3, rows)
    cloned, copy = clone(model), pickle.loads(pickle.dumps(model))
    assert cloned.get_params() == model.get_params()
    assert not hasattr(cloned, "n_features_in_")
    np.testing.assert_array_equal(copy.cluster_centers_, model.cluster_centers_)
    assert vars(copy).keys() == vars(model).keys() - {"labels_"}  # they hold the rows


@dask
def test_a_saved_model_is_the_same_one(engine, rows, tmp_path):
    model = fitted(engine, 3, rows)
    model.save(tmp_path / "model.skops")
    loaded = type(model).load(tmp_path / "model.skops")
    assert vars(loaded).keys() == vars(model).keys() - {"labels_"}
    np.testing.assert_array_equal(loaded.cluster_centers_, model.cluster_centers_)
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
    with pytest.raises(ValueError, match=rf"holds a {type(model).__module__}.KMeans; load it"):
        kvariates.KMeans.load(tmp_path / "model.skops")


@dask
def test_verbose_prints_what_is_done(engine, rows, capsys):
    fitted(engine, 3, rows, verbose=1)
    shown = capsys.readouterr().err
    assert "KMeans: reading 5 " in shown
    assert "KMeans: Lloyd: iteration 1, shift" in shown


@dask
def test_fewer_distinct_rows_than_clusters(engine):
    with pytest.warns(ConvergenceWarning, match="distinct clusters"):
        fitted(engine, 3, np.ones((10, 2)), sizes=(5, 5))


@dask
def test_guarantees(engine, rows):
    plain = fitted(engine, 3, rows, init="d2")
    assert plain.guarantee_.theorem.startswith("Theorem 2")
    assert plain.guarantee_lost_ is None
    assert fitted(engine, 3, rows, init="dk-means++").guarantee_.theorem.startswith("Theorem 4")
    given = fitted(engine, 3, rows, init=rows[:3])
    assert given.guarantee_ is None
    assert "given" in given.guarantee_lost_


KILLS = [("d2", "propose", 3), ("dk-means++", "assign", 8)]


@engines("init, name, call", KILLS, KILLS)
def test_a_worker_is_killed(engine, rows, init, name, call, request):
    sizes = (500,) * 6
    expected = over_local_peers(rows, None, init, k=8, sizes=sizes)
    X, _ = engine.put(rows, sizes=sizes)
    model = engine.kmeans(8, init=init, random_state=0)
    if isinstance(engine, Dask):
        model.client = request.getfixturevalue("killable")
    with engine.killing(model, name, call):
        model.fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, expected.centers)
    assert (model.inertia_, model.n_iter_) == (expected.inertia, expected.n_iter)
    assert model.transcript_.points_revealed == expected.transcript.points_revealed


# -- errors: one line that says where and what -----------------------------------------------------


def refused(engine, parts, weight=None, error=ValueError):
    with pytest.raises(error) as raised:
        engine.kmeans(3, random_state=0).fit(parts, sample_weight=weight)
    message = str(raised.value)
    assert "\n" not in message
    return message


@both
def test_values_that_are_missing(engine, rows):
    X = rows.copy()
    X[1507, 2] = np.nan
    message = refused(engine, engine.blocks(pieces(X, (500,) * 6)))
    assert message.startswith("partition 3, row 7, column 2: the value is NaN")
    frames = [pd.DataFrame(part, columns=NAMES) for part in pieces(X, (500,) * 6)]
    message = refused(engine, engine.blocks(frames))
    assert message.startswith("partition 3, row 7, column 'c': the value is NaN")


@dask
def test_text(engine):
    table = pd.DataFrame({"a": range(20), "name": ["x"] * 20})
    message = refused(engine, engine.blocks([table]))
    assert message == "partition 0: not numeric: name; select numeric columns, as X[['a', 'b']]."


@dask
def test_other_columns(engine, rows):
    message = refused(engine, engine.blocks([rows[:10], rows[:10, :3]]))
    assert message.startswith("partition 1 has features 3, but partition 0 has 4")
    two = [pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"b": [1.0], "a": [2.0]})]
    assert "partition 1 has columns ['b', 'a'], but partition 0 has" in refused(
        engine, engine.blocks([*two, pd.DataFrame({"a": [1.0, 2.0], "b": [2.0, 0.0]})])
    )


@dask
def test_too_few_rows(engine, rows):
    message = refused(engine, engine.blocks([rows[:2]]))
    assert message == "n_samples=2 should be >= n_clusters=3."
    message = refused(engine, engine.blocks([rows[:0], rows[:0]]))
    assert message == "n_samples=0 should be >= n_clusters=3."
    assert "empty list" in refused(engine, [])


@both
def test_rows_in_memory(engine, rows):
    for X in (rows, pd.DataFrame(rows), rows.tolist()):
        assert "use kvariates.KMeans" in refused(engine, X, error=TypeError)


@dask
def test_wrong_weights(engine, rows):
    X = engine.blocks(pieces(rows, (1000,) * 3))
    parts = [np.ones(1000), np.ones(1000), np.ones(1000)]
    assert "has 1 partitions, but X has 3" in refused(engine, X, engine.blocks(parts[:1]))
    parts[2] = np.where(np.arange(1000) == 500, -1.0, 1.0)
    message = refused(engine, X, engine.blocks(parts))
    assert "partition 2, row 500: sample_weight is -1" in message
    parts[2] = np.ones(999)
    message = refused(engine, X, engine.blocks(parts))
    assert "partition 2: sample_weight has shape (999,)" in message
    zeros = engine.blocks([np.zeros(1000)] * 3)
    assert "zero for every row" in refused(engine, X, zeros)


@dask
def test_a_failed_fit_leaves_the_model_as_it_was(engine, rows):
    model = fitted(engine, 3, rows)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(engine.blocks([np.full((10, 4), np.nan)]))
    assert vars(model) == before
