"""Reading in threads: the order and the errors of the source, no more blocks than promised, and no
thread that stays.
"""

import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from api import BlockMemory
from pyarrow import parquet

from kvariates.sources import blocks

X = np.random.default_rng(0).normal(size=(4000, 4))


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("kvariates")]


@pytest.fixture(autouse=True)
def _no_thread_stays():
    assert threads() == []
    yield
    assert threads() == []


@pytest.fixture
def path(tmp_path):
    parquet.write_table(pa.table(dict(zip("abcd", X.T, strict=True))), tmp_path / "x.parquet")
    return tmp_path / "x.parquet"


class TestThreads:
    def test_the_next_block_is_read_meanwhile(self):
        """Also: the source is read in another thread, and only one block ahead of the caller."""
        made, readers = [], set()

        def arrays():
            for i in range(10):
                readers.add(threading.current_thread().name)
                made.append(i)
                yield X[:100]

        size = X[:100].nbytes
        for i, _ in enumerate(blocks(arrays, block_bytes=size)):
            deadline = time.monotonic() + 5
            while len(made) < min(10, i + 2) and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(0.005)
            assert min(10, i + 2) <= len(made) <= i + 3
        assert readers == {"kvariates-read-ahead"}
        made.clear()
        for i, _ in enumerate(blocks(arrays, block_bytes=size, read_ahead=False)):
            assert len(made) == i + 1
        assert len(readers) == 2

    def test_the_thread_ends_when_the_caller_stops(self, path):
        source = blocks(path, block_bytes=3200)
        for _ in source:
            assert threads()
            break
        iterator = iter(source)
        next(iterator)
        assert len(threads()) == 2  # one reads the file, one makes blocks
        iterator.close()
        assert threads() == []
        np.testing.assert_array_equal(np.concatenate([b.X for b in source]), X)

    def test_the_thread_ends_when_the_caller_fails(self, path):
        def fails():
            for block in blocks(path, block_bytes=3200):
                if block.first:
                    raise KeyError("the caller")

        with pytest.raises(KeyError, match="the caller"):
            fails()

    def test_the_generator_of_the_caller_is_closed(self):
        closed = []

        def arrays():
            try:
                while True:
                    yield X
            finally:
                closed.append(True)

        iterator = iter(blocks(arrays, block_bytes=3200))
        next(iterator)
        iterator.close()
        assert closed == [True]

    @pytest.mark.parametrize("read_ahead", [True, False])
    def test_an_iterator_that_raises_in_the_middle(self, read_ahead):
        def arrays():
            yield X[:1000]
            yield X[1000:1500]
            raise RuntimeError("the sensor is gone")

        seen = 0
        with pytest.raises(RuntimeError, match="the sensor is gone"):  # noqa: PT012
            for block in blocks(arrays(), block_bytes=32 * 400, read_ahead=read_ahead):
                np.testing.assert_array_equal(block.X, X[seen : seen + 400])
                seen += len(block.X)
        assert seen == 1200  # the blocks that were full

    def test_memory_is_used_again_only_after_the_block(self, path):
        source = blocks(path, block_bytes=3200, columns=["b", "a"])
        kept = [(block.first, block.X[3:5, :1]) for block in source]
        for first, part in kept:
            np.testing.assert_array_equal(part[:, 0], X[first + 3 : first + 5, 1])

        memory = BlockMemory((100, 3), np.dtype(float))
        a, b = memory.take(), memory.take()
        place, part = a.ctypes.data, a[7:9, 1]
        del a
        assert memory.take().ctypes.data not in (place, b.ctypes.data)
        del part
        others = [np.empty((100, 3)) for _ in range(5)]  # would get the memory if it were free
        assert place in [c.ctypes.data for c in [memory.take(), memory.take()]]
        del others


class TestPasses:
    def test_a_generator_is_read_only_once(self):
        source = blocks(x for x in [X[:5], X[5:9]])
        assert not source.repeatable
        assert sum(len(block.X) for block in source) == 9
        with pytest.raises(ValueError, match=r"^generator: was already read.* give a list, or a f"):
            next(iter(source))

    def test_an_arrow_stream_is_read_only_once(self):
        table = pa.table({"a": X[:, 0]})
        source = blocks(table.to_reader(max_chunksize=7))
        assert not source.repeatable
        assert source.names == ("a",)
        assert sum(len(block.X) for block in source) == len(X)
        with pytest.raises(ValueError, match="was already read"):
            next(iter(source))

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            (100, "list: has 4100 rows, but had 100 when it was read"),
            (4000, "list: rows 1 to 4000 are not those that were read before"),
        ],
    )
    def test_a_source_that_changes(self, rows, words):
        arrays = [X[:100]]
        source = blocks(arrays, block_bytes=X[:rows].nbytes)
        assert source.repeatable
        list(source)
        arrays.append(X)
        with pytest.raises(ValueError, match=words):
            list(source)

    @pytest.mark.parametrize("read_ahead", [True, False])
    def test_progress_counts_rows_and_bytes(self, path, read_ahead):
        calls, done = [], []

        def progress(rows, n_bytes):
            calls.append((rows, n_bytes))
            assert rows == sum(done)  # what the caller has worked on, and no more

        source = blocks(path, block_bytes=32 * 900, read_ahead=read_ahead, progress=progress)
        done.extend(len(block.X) for block in source)
        rows, n_bytes = zip(*calls, strict=True)
        assert rows == (900, 1800, 2700, 3600, 4000)
        assert source.n_bytes == path.stat().st_size == n_bytes[-1]
        assert list(n_bytes) == sorted(n_bytes)
        assert 0 < n_bytes[0] < source.n_bytes

    def test_progress_of_arrays(self):
        calls = []
        list(blocks([X[:900], X[900:]], block_bytes=32 * 900, progress=lambda *c: calls.append(c)))
        assert calls[0] == (900, X[:900].nbytes)
        assert calls[-1] == (4000, X.nbytes)
