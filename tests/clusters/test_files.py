"""Paths of Parquet: workers read the files, keep the rows or read them in every pass; same bits."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from api import PEER_SEEDINGS, FilePartition, Partition, find_files, fitted_to, objective_for
from clusters.engines import Ray
from clusters.test_dask_faults import plant
from sklearn.exceptions import NotFittedError

import kvariates
from kvariates.dask import KMeans

NAMES = ["a", "b", "c", "d"]
SIZES = (30_000, 0, 30_000, 10_000)
SHARE = "kvariates.estimators.file_shares.ROWS_SHARE"
pytestmark = pytest.mark.filterwarnings("ignore:The rows do not fit into the memory")


@pytest.fixture
def in_blocks(monkeypatch):
    monkeypatch.setattr(SHARE, 0.0)


def write(folder, X, weight=None, sizes=SIZES):
    frame = pd.DataFrame(X, columns=NAMES[: X.shape[1]]).assign(text="x")
    if weight is not None:
        frame["w"] = weight
    ends = np.cumsum((0, *sizes))
    for number, (first, last) in enumerate(itertools.pairwise(ends)):
        frame[first:last].to_parquet(folder / f"{number}.parquet", row_group_size=9_000)
    return folder


def many_rows(dtype=np.float64):
    """So many that seedings in memory do not sort them."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(70_000, 4)) + 6 * rng.integers(5, size=(70_000, 1))
    return X.astype(dtype), rng.random(70_000)


def kinds_held(dask_worker):
    """The kinds of the partitions on a worker, and how many rows they have in memory."""
    held = [part for part in dask_worker.data.values() if type(part).__name__.endswith("Partition")]
    return [(type(part).__name__, 0 if part.X is None else len(part.X)) for part in held]


class Held(KMeans):
    """Asks the workers what they hold, once the first centres are known."""

    def _fitted(self, held, *args):
        self.held_ = list(itertools.chain(*self.client.run(kinds_held).values()))
        return super()._fitted(held, *args)


def assert_same(ours, theirs, X):
    np.testing.assert_array_equal(ours.cluster_centers_, theirs.cluster_centers_)
    assert ours.cluster_centers_.dtype == theirs.cluster_centers_.dtype
    assert (ours.inertia_, ours.n_iter_) == (theirs.inertia_, theirs.n_iter_)
    parts = [part.compute() for part in ours.labels_]
    np.testing.assert_array_equal(np.concatenate(parts), theirs.predict(X))


@pytest.mark.parametrize("where", ["in memory", "in blocks"])
@pytest.mark.parametrize(
    ("init", "dtype", "workers", "metric"),
    [
        ("k-means++", np.float32, 2, "euclidean"),
        ("k-means++", np.float64, 3, "cosine"),
        ("d2", np.float64, 1, "euclidean"),
        ("k-means||", np.float32, 3, "cosine"),
        ("k-means||", np.float64, 2, "euclidean"),
        ("array", np.float32, 1, "cosine"),
        ("array", np.float64, 2, "euclidean"),
    ],
)
def test_the_fit_of_rows_in_memory(
    threads, tmp_path, monkeypatch, where, init, dtype, workers, metric
):
    X, weight = many_rows(dtype)
    weight[:20_000] = 0
    init = X[-5:] if init == "array" else init
    if where == "in blocks":
        monkeypatch.setattr(SHARE, 0.0)
    options = {"init": init, "metric": metric, "random_state": 3, "max_iter": 8}
    ours = Held(5, client=threads(workers), **options)
    ours.fit(write(tmp_path, X, weight), sample_weight="w")
    theirs = kvariates.KMeans(5, **options).fit(X, sample_weight=weight)
    assert_same(ours, theirs, X)
    assert sum(n for _, n in ours.held_) == (70_000 if where == "in memory" else 0)
    of_files = [kind for kind, _ in ours.held_].count("FilePartition")
    assert of_files == (0 if where == "in memory" else 3)
    assert ours.feature_names_in_.tolist() == NAMES
    assert ours.score(tmp_path, sample_weight="w") == -ours.inertia_


@pytest.mark.parametrize("init", PEER_SEEDINGS)
def test_blocks_change_no_bit_of_any_seeding(client, tmp_path, monkeypatch, init):
    """Dk-means++ too, whose result depends on the files."""
    X, weight = many_rows()
    folder = write(tmp_path, X, weight, (20_000, 50_000))
    kept, read = (
        [monkeypatch.setattr(SHARE, share), Held(7, init=init, random_state=1, client=client)][1]
        .fit(folder, sample_weight="w")
        for share in (0.4, 0.0)
    )  # fmt: skip
    assert {kind for kind, _ in read.held_} == {"FilePartition"}
    np.testing.assert_array_equal(kept.cluster_centers_, read.cluster_centers_)
    assert (kept.inertia_, kept.n_iter_) == (read.inertia_, read.n_iter_)


def test_files_folders_patterns_and_lists(client, tmp_path, in_blocks):
    X, _ = many_rows(np.float32)
    write(tmp_path, X)
    files = sorted(tmp_path.glob("*.parquet"))
    options = {"init": X[:5], "max_iter": 3, "client": client}
    expected = kvariates.KMeans(5, init=X[:5], max_iter=3).fit(X)
    for source in (tmp_path, str(tmp_path / "*.parquet"), files, [str(file) for file in files]):
        model = KMeans(5, **options).fit(source)
        assert_same(model, expected, X)
        assert [len(part.compute()) for part in model.labels_] == list(SIZES)
    distances = [part.compute() for part in model.transform(files)]
    np.testing.assert_array_equal(np.concatenate(distances), expected.transform(X))
    one = KMeans(5, **options).fit(files[0])
    assert_same(one, kvariates.KMeans(5, init=X[:5], max_iter=3).fit(X[:30_000]), X[:30_000])


def test_many_small_files_are_not_joined(client, tmp_path, in_blocks):
    X, _ = many_rows()
    model = Held(5, init=X[:5], client=client).fit(write(tmp_path, X, sizes=(1_000,) * 70))
    assert len(model.held_) == 70
    expected = kvariates.KMeans(5, init=X[:5]).fit(X)
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)


@pytest.mark.few_rows
def test_few_rows_are_held_and_drawn_as_in_memory(client, tmp_path, rows, in_blocks):
    model = Held(3, random_state=0, client=client).fit(write(tmp_path, rows, sizes=(2000, 1000)))
    assert_same(model, kvariates.KMeans(3, random_state=0).fit(rows), rows)
    assert {kind for kind, _ in model.held_} == {"Partition"}


def test_files_are_read_in_blocks_if_their_rows_take_too_much_memory(tmp_path):
    X, _ = many_rows()
    files = find_files(write(tmp_path, X), None)
    assert sum(file.n_bytes for file in files) == X.nbytes

    def chosen(*memory):
        return fitted_to(files, [limit * X.nbytes for limit in memory])[0].in_blocks

    assert not chosen(3)
    assert chosen(2)
    assert not chosen(2, 2)
    assert chosen(9, 0.5)  # the largest file does not fit into every worker
    assert not chosen(np.inf, np.inf)
    assert fitted_to(["a collection"], []) == ["a collection"]  # no worker is there yet


def test_a_file_partition_travels_without_rows(tmp_path):
    X, weight = many_rows()
    (file,) = fitted_to(find_files(write(tmp_path, X, weight, (70_000,)), "w"), [1.0])
    partition = Partition.held(file, None, 0, objective_for("euclidean", None, None, None))
    assert isinstance(partition, FilePartition)
    assert weight.nbytes < partition.__sizeof__() < weight.nbytes + 10_000
    assert Partition.joined([partition]) is partition
    partition.peer(0)
    assert len(pickle.dumps(partition)) < weight.nbytes + 10_000
    assert pickle.loads(pickle.dumps(partition)).info() == partition.info()


def test_what_is_said(client, tmp_path, in_blocks, capsys):
    X, _ = many_rows()
    model = KMeans(5, client=client, random_state=0, verbose=1)
    with pytest.warns(UserWarning, match=r"init='k-means\+\+' reads the files about 10 times"):
        model.fit(write(tmp_path, X))
    words = capsys.readouterr().err
    assert "reading 4 files in blocks: their rows take 0.00224 GB, the workers have" in words


def test_the_warning_counts_passes(threads, tmp_path, in_blocks, monkeypatch):
    """A pass that ends early counts in part."""
    from kvariates.sources import Blocks

    X, _ = many_rows()
    folder, rows_read, client = write(tmp_path, X), [], threads(1)
    read = Blocks.__iter__

    def counted(self):
        for block in read(self):
            rows_read.append(len(block.X))
            yield block

    monkeypatch.setattr(Blocks, "__iter__", counted)
    monkeypatch.setattr("kvariates.estimators.file_shares.BLOCK_BYTES", 2**16)
    passes = {}
    for init in ("array", "d2", "k-means++", "dk-means++", "k-means||"):
        rows_read.clear()
        given = X[:20] if init == "array" else init
        model = KMeans(20, init=given, client=client, random_state=0, max_iter=1).fit(folder)
        passes[init] = sum(rows_read) / len(X) - passes.get("array", 0)
        said = model._passes_of_seeding()
        assert not said or 0.7 * said < passes[init] < 1.5 * said, passes
    assert 5 < passes["k-means||"] < 20


def test_a_worker_is_killed(killable, tmp_path, in_blocks):
    X, _ = many_rows()
    folder = write(tmp_path, X, sizes=(20_000, 20_000, 30_000))
    expected = kvariates.KMeans(5, init="d2", random_state=0).fit(X)
    worker = plant(killable, "assign", 1)
    model = KMeans(5, init="d2", random_state=0, client=killable).fit(folder)
    assert worker not in killable.nthreads()
    assert_same(model, expected, X)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*")
@pytest.mark.filterwarnings("ignore::FutureWarning:ray.*")
@pytest.mark.filterwarnings("ignore:subprocess .* is still running:ResourceWarning")
@pytest.mark.parametrize("share", [0.4, 0.0])
def test_ray(ray_cluster, tmp_path, monkeypatch, share):
    """Also if an actor is killed."""
    from ray.data import DataContext

    from kvariates.ray import KMeans

    monkeypatch.setattr(SHARE, share)
    options = DataContext.get_current().execution_options
    monkeypatch.setattr(options, "preserve_order", True)  # of the Dataset of labels
    X, weight = many_rows(np.float32)
    source = str(write(tmp_path, X, weight) / "*.parquet")
    options = {"init": "k-means||", "random_state": 3, "max_iter": 4}
    expected = kvariates.KMeans(5, **options).fit(X, sample_weight=weight)
    model = KMeans(5, n_workers=2, **options)
    with Ray(None).killing(model, "assign", 2):
        model.fit(source, sample_weight="w")
    np.testing.assert_array_equal(model.cluster_centers_, expected.cluster_centers_)
    assert (model.inertia_, model.n_iter_) == (expected.inertia_, expected.n_iter_)
    np.testing.assert_array_equal(Ray(None).gathered(model.labels_), expected.labels_)
    assert model.score(source, sample_weight="w") == -model.inertia_
    with pytest.raises(FileNotFoundError, match="no file matches"):
        model.fit(str(tmp_path / "*.csv"))


# -- errors: one line that names the file ----------------------------------------------------------


def refused(client, source, weight=None, error=ValueError, **options):
    with pytest.raises(error) as raised:
        KMeans(3, random_state=0, client=client, **options).fit(source, sample_weight=weight)
    message = str(raised.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("share", [0.4, 0.0])
def test_values_and_weights_that_are_refused(client, tmp_path, monkeypatch, share):
    monkeypatch.setattr(SHARE, share)
    X, weight = many_rows()
    hole, negative, zero = X.copy(), weight.copy(), X.copy()
    hole[31_007, 2], negative[40_000], zero[30_050] = np.nan, -1, 0
    place = str(tmp_path / "2.parquet")
    message = refused(client, write(tmp_path, hole))
    assert message.startswith(place)
    assert "column 'c'" in message
    message = refused(client, write(tmp_path, X, negative), "w")
    assert message.startswith(place)
    message = refused(client, write(tmp_path, zero), metric="cosine")
    assert message.startswith(place)
    assert "row 50 is" in message
    message = refused(client, write(tmp_path, X * 1e155))
    assert message.startswith(str(tmp_path / "0.parquet: The values of X are too large"))
    assert "zero for every row" in refused(client, write(tmp_path, X, 0 * weight), "w")
    assert "n_samples=2 should be" in refused(client, write(tmp_path, X[:2], sizes=(2, 0, 0, 0)))


def test_sources_that_are_refused(client, tmp_path, rows):
    nothing = tmp_path / "nothing.parquet"
    message = refused(client, nothing, error=FileNotFoundError)
    assert message == f"{nothing}: no such file"
    write(tmp_path, rows, rows[:, 0], (2000, 1000))
    second = tmp_path / "1.parquet"
    assert "no column 'v'" in refused(client, tmp_path, "v")
    assert "give the name of a column" in refused(client, tmp_path, rows[:, 0], error=TypeError)
    pd.DataFrame({"text": ["x"]}).to_parquet(second)
    assert refused(client, second).startswith(f"{second}: no numeric column (found text)")
    pd.DataFrame(rows[:5], columns=["a", "b", "c", "e"]).to_parquet(second)
    message = refused(client, tmp_path)
    assert message.startswith(f"{second}: the numeric columns are a, b, c, e, but those before")
    assert "name the columns" not in message
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    message = refused(client, tmp_path / "rows.csv", error=TypeError)
    assert message.endswith("is not a Parquet file.")


def test_prediction_of_files_with_other_columns(client, tmp_path, rows):
    model = KMeans(3, random_state=0, client=client).fit(write(tmp_path, rows, sizes=(3000,)))
    other = tmp_path / "other.parquet"
    pd.DataFrame(rows[:9, ::-1], columns=NAMES[::-1]).assign(z=1.0).to_parquet(other)
    (labels,) = model.predict(other)
    expected = model.predict(pd.DataFrame(rows[:9], columns=NAMES))
    np.testing.assert_array_equal(labels.compute(), expected)
    pd.DataFrame(rows[:9, :3], columns=NAMES[:3]).to_parquet(other)
    with pytest.raises(ValueError, match="no column 'd'"):
        model.predict(other)
    with pytest.raises(NotFittedError):
        KMeans(3).predict(other)
