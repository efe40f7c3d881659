"""Blocks that pass through a card: the bits of the CPU, whatever is copied when.

The card is a HostCard, whose copies come as early or as late as they may.
"""

import mmap
import threading

import numpy as np
import pytest
import scipy.sparse
from api import CountedBlocks, InspectedBlocks, RowStream
from laws.block_sources import CutRows, random_cuts
from laws.cases import rows, weights_for

from kvariates import KMeans
from kvariates.sources import blocks

X = rows(130, 5, np.float32, seed=3)
WEIGHT = weights_for(130)


@pytest.fixture(params=["early", "late"], autouse=True)
def copies(request, card):
    card.late = request.param == "late"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Ten parts, so that buffers are used again."""
    monkeypatch.setattr("kvariates.cuda.row_stream.PART_BYTES", 13 * 5 * 4)


SOURCES = {
    "array": lambda X, weight: blocks(X, weights=weight, block_bytes=600),
    "part of an array": lambda X, weight: blocks(
        np.vstack([X[:3], X])[3:], weights=weight, block_bytes=10**6
    ),
    "cut": lambda X, weight: CutRows(X, weight, random_cuts(len(X), 7)),
    "whole": CutRows,
    "few cuts": lambda X, weight: CutRows(X, weight, [1, 4]),
    "rows": lambda X, weight: CutRows(X, weight, range(len(X))),
}
every_source = pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())


def pair(source, X, weight=None, k=7, **options):
    """The fits on the CPU and on the card."""
    make = SOURCES.get(source, source)
    return [
        KMeans(k, random_state=0, device=device, **options).fit(make(X, weight))
        for device in ("cpu", "cuda")
    ]


def assert_same(cpu, card):
    assert card.cluster_centers_.tobytes() == cpu.cluster_centers_.tobytes()
    assert card.cluster_centers_.dtype == cpu.cluster_centers_.dtype
    assert (card.inertia_, card.n_iter_) == (cpu.inertia_, cpu.n_iter_)
    assert np.array_equal(np.asarray(card.labels_), np.asarray(cpu.labels_))


# ---- the same bits -------------------------------------------------------------------------------


@every_source
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("init", ["k-means++", "k-means||", "given"])
def test_the_bits_of_the_cpu(source, metric, dtype, init):
    data = X.astype(dtype)
    given = data[:7] if init == "given" else init
    for weight in (None, WEIGHT):
        assert_same(*pair(source, data, weight, init=given, metric=metric))


@pytest.mark.parametrize("part_bytes", [1, 100, 2600, 2**26])
def test_any_size_of_a_copy(part_bytes, monkeypatch):
    monkeypatch.setattr("kvariates.cuda.row_stream.PART_BYTES", part_bytes)
    data = X[:60]
    for source in ("array", "cut"):
        assert_same(*pair(source, data, None, init=data[:7]))


@pytest.mark.parametrize("k", [9, 70])
def test_halves_of_part_after_part(card, k, monkeypatch):
    """By halves, whose frame is that of a sample of all rows."""
    monkeypatch.setattr("kvariates.cuda.filter.is_small", lambda n, d, k: False)
    monkeypatch.setattr("kvariates.cuda.row_stream.PART_BYTES", 35 * 5 * 4)
    data = X.copy()
    data[65:] = 3 * data[65:] + 40
    data[-1] = 1e30
    for source in ("array", "cut"):
        for metric in ("euclidean", "cosine"):
            given = {"init": data[-k:], "max_iter": 5, "metric": metric}
            assert_same(*pair(source, data, WEIGHT, k=k, **given))
    assert "find" in card.launches


def test_the_sample_is_of_all_rows():
    data = np.arange(10_000.0)[:, None]
    for cuts in ((), random_cuts(10_000, 50), range(10_000)):
        found = inspected(CutRows(data, None, cuts)).sample[:, 0]
        step = found[1]
        assert 128 <= len(found) <= 512
        assert np.array_equal(found, np.arange(len(found)) * step)
        assert found[-1] + step >= 10_000


@every_source
@pytest.mark.parametrize("tol", [0, 1e-2])
@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_empty_clusters(source, tol):
    data = X.copy()
    data[20:60] = data[0]
    data[:9] *= 1e6
    init = data[:7] + np.float32(0.125)
    init[2:5] = 1e12
    for weight in (None, WEIGHT * (np.arange(130) % 3 > 0)):
        assert_same(*pair(source, data, weight, init=init, tol=tol, max_iter=12))


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_moved_empty_clusters_stop_where_the_cpu_stops():
    data = np.array([[0.0], [1], [1], [50], [50], [50]])
    for k in (3, 4, 5):
        init = np.array([[0.5], [1000], [1001], [1002], [1003]])[:k]
        assert_same(*pair("few cuts", data, k=k, init=init))


def test_values_of_many_magnitudes(monkeypatch):
    """Sums have several levels, and the spread needs a pass more."""
    monkeypatch.setattr("kvariates.cuda.row_stream.PART_BYTES", 500)
    powers = np.random.default_rng(1).integers(-60, 60, size=(90, 1))
    data = rows(90, 3) * 2.0**powers
    assert_same(*pair("few cuts", data, k=5, init=data[:5]))


@pytest.mark.parametrize("max_iter", [1, 2])
def test_a_fit_that_is_cut(max_iter):
    for source in ("array", "cut"):
        assert_same(*pair(source, X, WEIGHT, init=X[:7], max_iter=max_iter))


def test_what_is_printed(capsys):
    """With the cost before each iteration."""
    said = []
    for device in ("cpu", "cuda"):
        KMeans(7, random_state=0, device=device, verbose=1).fit(SOURCES["cut"](X, WEIGHT))
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != ""


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_what_a_model_answers_about_blocks(metric):
    cpu, card = pair("array", X, None, metric=metric)
    new = rows(40, 5, np.float32, seed=4)
    for method in ("predict", "transform"):
        expected = np.asarray(getattr(cpu, method)(blocks(new)))
        found = getattr(card, method)(CutRows(new, None, [7, 30]))
        assert np.array_equal(np.asarray(found), expected)
        assert np.asarray(found).dtype == expected.dtype
    weighted = CutRows(new, weights_for(40), [7, 30])
    assert card.score(weighted) == cpu.score(weighted)


def test_auto_stays_on_the_cpu(card):
    KMeans(7, random_state=0).fit(blocks(X))
    assert card.launches == []


# ---- what is copied from where -------------------------------------------------------------------


class Counted(CutRows):
    """Blocks that are parts of X itself."""

    def _read(self, first, end):
        self.blocks_read += 1
        block = super()._read(first, end)
        return type(block)(self.X[first:end], block.weight, first)


def test_an_array_in_memory_is_read_without_its_source(card):
    source = Counted(X, WEIGHT, [50, 90])
    model = KMeans(7, init=X[:7], device="cuda").fit(source)
    assert source.passes == 1
    assert model.n_iter_ > 2
    assert card.pinned_bytes == {}  # given back at the end


def test_an_array_that_the_driver_does_not_lock(card):
    card.locks = False
    assert_same(*pair("array", X, WEIGHT, init=X[:7]))


@every_source
def test_pinned_memory_is_given_back(card, source):
    KMeans(7, random_state=0, device="cuda").fit(source(X, WEIGHT))
    assert card.pinned_bytes == {}


def inspected(source):
    seen = InspectedBlocks(source)
    for _ in CountedBlocks(seen, lambda totals: None):
        pass
    return seen


def test_which_blocks_are_one_array(tmp_path):
    whole = np.ascontiguousarray(np.vstack([X, X]))
    for values in (X, whole[7:90], whole.reshape(-1)[5:505].reshape(100, 5)):
        found = inspected(blocks(values, block_bytes=300)).array
        assert found is not None
        assert np.shares_memory(found, values)
        assert np.array_equal(found, values)
    assert inspected(CutRows(X, None, [20, 70])).array is None
    assert inspected(blocks(whole[:, 1:], block_bytes=300)).array is None
    assert inspected(blocks([X[:60], X[60:]])).array is None
    np.save(tmp_path / "rows.npy", X)
    for name in (tmp_path / "rows.npy", np.load(tmp_path / "rows.npy", mmap_mode="r")):
        assert inspected(blocks(name, block_bytes=300)).array is None
    with (tmp_path / "rows.npy").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        values = np.frombuffer(mapped, np.float32, X.size, 128).reshape(X.shape)
        assert inspected(blocks(values)).array is None


def test_blocks_in_another_order_are_not_one_array():
    class Turned(CutRows):
        def __iter__(self):
            for first in (60, 0):
                yield from Counted(self.X[first : first + 60])

    assert inspected(Turned(X[:120])).array is None


class CountedCopies:
    def __init__(self, copier):
        self._copier, self.started = copier, 0

    def start(self, values, out):
        self.started += 1
        return self._copier.start(values, out)


def test_the_next_part_is_copied_before_this_one_is_done(card):
    """Every copy but the last is started before the part in front of it is worked on."""
    for source in ("array", "cut"):
        seen = inspected(SOURCES[source](X, None))
        stream = RowStream(card, seen, 130, 5, X.dtype, unit=False)
        stream._copier = copier = CountedCopies(stream._copier)
        numbers = [(part.first, part.rows.n, copier.started) for part in stream]
        assert numbers == [(13 * i, 13, min(i + 2, 10)) for i in range(10)]
        for part in stream:
            assert np.array_equal(part.rows.X.get(), X[part.first : part.first + part.rows.n])


def test_the_card_is_asked_once_for_an_iteration(card, monkeypatch):
    asked, copied = [], []
    get, put = type(card).copy_out, type(card).copy_in
    monkeypatch.setattr(
        type(card), "copy_out", lambda card, *given: (asked.append(1), get(card, *given))[1]
    )
    monkeypatch.setattr(
        type(card), "copy_in", lambda card, *given: (copied.append(1), put(card, *given))[1]
    )
    counts = []
    for most in (2, 5):
        asked.clear(), copied.clear()
        KMeans(7, init=X[:7], tol=0, max_iter=most, device="cuda").fit(SOURCES["array"](X, None))
        counts.append((len(asked), len(copied)))
    assert counts[1][0] - counts[0][0] == 3
    assert counts[1][1] == counts[0][1]


# ---- what fails ----------------------------------------------------------------------------------


@pytest.mark.parametrize("fails_in_pass", [1, 2, 3, 4, 5])
def test_a_source_that_fails_leaves_the_model(card, fails_in_pass):
    """In its totals, the iterations, or the last costs. Then the same model can be fitted."""
    model = KMeans(7, init=X[:7], max_iter=2, device="cuda").fit(SOURCES["array"](X, None))
    before = dict(vars(model))
    source = CutRows(X, None, [50, 90], fails_in_pass=fails_in_pass)
    if fails_in_pass == 5:
        source.fails_in_pass = None
        model.fit(source)
        assert source.passes == 5  # totals, spread, iterations, costs
    else:
        with pytest.raises(OSError, match="the disk is gone"):
            model.fit(source)
        assert vars(model) == before
    assert_same(KMeans(7, init=X[:7], max_iter=2).fit(X), model.fit(CutRows(X, None, [50])))


@pytest.mark.parametrize("rows_later", [10, 200])
def test_another_number_of_rows(rows_later):
    class Changing(CutRows):
        def __iter__(self):
            if self.passes == 2:
                self.X = np.resize(self.X, (rows_later, 5))
                self.ends = [min(40, rows_later), rows_later]
            return super().__iter__()

    words = f"test blocks: has {'more' if rows_later > 130 else 'fewer'} rows than the 130 that"
    with pytest.raises(ValueError, match=words):
        KMeans(7, init=X[:7], device="cuda").fit(Changing(X, None, [50, 90]))


def test_an_interrupt_leaves_the_model(card):
    class Interrupted(CutRows):
        def _read(self, first, end):
            if self.passes == 3 and first:
                raise KeyboardInterrupt
            return super()._read(first, end)

    model = KMeans(7, random_state=0, device="cuda").fit(X)
    before, threads = dict(vars(model)), threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        model.fit(Interrupted(X, None, [50, 90]))
    assert vars(model) == before
    assert threading.active_count() == threads
    assert_same(*pair("cut", X, None))


def test_a_card_that_is_too_full(card, monkeypatch):
    monkeypatch.setattr(card, "_memory", 1000)
    model = KMeans(7, random_state=0, device="cuda")
    before = dict(vars(model))
    with pytest.raises(MemoryError, match="GB more are needed"):
        model.fit(blocks(X))
    assert vars(model) == before
    assert card.pinned_bytes == {}


def test_rows_of_zeros_and_sparse_rows():
    sparse = scipy.sparse.csr_array(X)
    words = "sparse, and kernels for a GPU read dense rows. .*device='cpu'"
    with pytest.raises(TypeError, match=words):
        KMeans(7, device="cuda").fit(blocks(sparse))
    model = KMeans(7, random_state=0, device="cuda").fit(blocks(X))
    with pytest.raises(TypeError, match=words):
        np.asarray(model.predict(blocks(sparse)))
    zero = X.copy()
    zero[77] = 0
    with pytest.raises(ValueError, match="row 77 is"):
        KMeans(7, device="cuda", metric="cosine").fit(blocks(zero))
